//! The groups of all input partitions, and which output partition merges which.
//!
//! A partition gathers its groups in one table, or, where most rows are expected to make a group of their own (by the
//! planner's estimates), in one table after the other, each of so few groups that it stays in a core's cache: such a table
//! is put by when it is full, in the order of a hash of its keys (`buckets`), and its groups meet their like when they are merged.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::statistics::StatisticsContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, StatisticsArgs};
use futures::TryStreamExt;
use parking_lot::Mutex;
use tenon_cpu::Stop;

use super::local::{Local, Partial};
use super::merge::merge;
use super::sets::of_all_sets;
use super::shares::{Share, shares};
use super::spec::{GroupSpec, gathers_rows};
use crate::offload::{Task, offload};
use crate::test_hooks;

/// Groups, over all partitions, that one output partition merges alone.
const MERGED_ALONE: usize = 16 * 1024;
/// Groups of a table that stays in a core's cache.
const CHUNK_GROUPS: usize = 32 * 1024;
/// Tables are put by where a partition has at most so many rows for each group that there is at all.
const ROWS_PER_GROUP_MAX: usize = 3;
/// Groups of one share, and most shares: their part of one table should be worth a call.
const SHARE_GROUPS: usize = 32 * 1024;
const SHARES_MAX: usize = 128;

/// Every partition's groups, until all output partitions have merged what falls to them.
pub struct Gathered {
    shared: Mutex<(Option<Arc<Shared>>, usize)>,
}

/// Which groups of each partial fall to which share.
pub enum Shares {
    /// All are one share. True: of one table, in which no two are alike.
    One(bool),
    /// By the partials' buckets.
    Buckets,
    Rows(Vec<Share>),
}

/// Groups of all partitions.
pub struct Shared {
    pub partials: Vec<Partial>,
    pub shares: Shares,
    /// How many shares there are.
    pub count: usize,
    _reservation: MemoryReservation,
}

impl Gathered {
    fn new(shared: Shared, partitions: usize) -> Self {
        Self {
            shared: Mutex::new((Some(Arc::new(shared)), partitions)),
        }
    }

    /// The groups, for one of the output partitions. The last one has them to itself.
    pub fn take(&self) -> Result<Arc<Shared>> {
        let mut held = self.shared.lock();
        let (shared, partitions) = &mut *held;
        *partitions = partitions.saturating_sub(1);
        let given = match partitions {
            0 => shared.take(),
            _ => shared.clone(),
        };
        match given {
            Some(given) => Ok(given),
            None => internal_err!("a partition of GroupExec was executed twice"),
        }
    }
}

impl Shared {
    /// The shares that an output partition merges.
    pub fn of(&self, partition: usize, partitions: usize) -> Range<usize> {
        partition * self.count / partitions..(partition + 1) * self.count / partitions
    }
}

/// Groups that were found elsewhere: their keys, the states of each aggregate, and how many there are.
pub(crate) type Found = (Vec<ArrayRef>, Vec<Vec<ArrayRef>>, usize);

/// The final rows of such groups, and the memory that they take.
pub(crate) fn finished(
    spec: &GroupSpec,
    (keys, states, groups): Found,
    pool: &Arc<dyn MemoryPool>,
) -> Result<(RecordBatch, MemoryReservation)> {
    let reservation = || MemoryConsumer::new("groups").register(pool);
    let shared = Shared {
        partials: vec![Partial::new(keys, states, groups, reservation())?],
        shares: Shares::One(false),
        count: 1,
        _reservation: reservation(),
    };
    let mut merged = reservation();
    let batch = merge(spec, &shared, 0, &mut merged)?;
    Ok((batch, merged))
}

/// Gathers all groups of `input`, of which the planner expects `estimate`, for so many output partitions.
pub async fn gathered(
    input: &Arc<dyn ExecutionPlan>,
    spec: &Arc<GroupSpec>,
    estimate: Option<usize>,
    partitions: usize,
    context: &Arc<TaskContext>,
) -> Result<Gathered> {
    let partials = gather(input, spec, estimate, context).await?;
    let reservation = MemoryConsumer::new("shares of groups").register(context.memory_pool());
    let shared = share_out(spec, partials, partitions, reservation).await?;
    Ok(Gathered::new(shared, partitions))
}

/// Runs every input partition to its end, each as a task of its own.
async fn gather(
    input: &Arc<dyn ExecutionPlan>,
    spec: &Arc<GroupSpec>,
    estimate: Option<usize>,
    context: &Arc<TaskContext>,
) -> Result<Vec<Partial>> {
    let reservation = MemoryConsumer::new("groups").register(context.memory_pool());
    let partitions = input.output_partitioning().partition_count();
    let groups_max = groups_max(input, spec, estimate, partitions);
    if partitions == 1 {
        return gather_one(input, 0, spec, groups_max, context, &reservation).await;
    }
    let tasks: Vec<_> = (0..partitions)
        .map(|partition| {
            let (input, spec, context) = (Arc::clone(input), Arc::clone(spec), Arc::clone(context));
            let share = reservation.new_empty();
            Task::spawn(async move { gather_one(&input, partition, &spec, groups_max, &context, &share).await })
        })
        .collect();
    let mut partials = vec![];
    for task in tasks {
        partials.extend(task.join().await?);
    }
    Ok(partials)
}

/// Groups from which on a partition's table is put by.
fn groups_max(
    input: &Arc<dyn ExecutionPlan>,
    spec: &GroupSpec,
    estimate: Option<usize>,
    partitions: usize,
) -> Option<usize> {
    if spec.keys.is_empty() || spec.aggregates.iter().any(|aggregate| gathers_rows(aggregate)) {
        return None;
    }
    if test_hooks::scattered() {
        return Some(3);
    }
    let groups = estimate.filter(|groups| *groups > CHUNK_GROUPS)?;
    let statistics = StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new());
    let rows = *statistics.ok()?.num_rows.get_value()?;
    (rows / partitions <= groups.saturating_mul(ROWS_PER_GROUP_MAX)).then_some(CHUNK_GROUPS)
}

async fn gather_one(
    input: &Arc<dyn ExecutionPlan>,
    partition: usize,
    spec: &Arc<GroupSpec>,
    groups_max: Option<usize>,
    context: &Arc<TaskContext>,
    reservation: &MemoryReservation,
) -> Result<Vec<Partial>> {
    let mut stream = input.execute(partition, Arc::clone(context))?;
    let mut local = Local::new(Arc::clone(spec), groups_max.is_some(), reservation.new_empty())?;
    let mut partials = vec![];
    while let Some(batch) = stream.try_next().await? {
        local.update(&batch)?;
        if groups_max.is_some_and(|max| local.groups() >= max) {
            partials.push(local.put_by()?);
        }
    }
    drop(stream);
    if partials.is_empty() || local.groups() > 0 {
        partials.push(local.finish()?);
    }
    match spec.sets.is_empty() {
        true => Ok(partials),
        false => of_all_sets(spec, partials, reservation).await,
    }
}

/// Says which groups fall to which share, where they are many.
async fn share_out(
    spec: &Arc<GroupSpec>,
    partials: Vec<Partial>,
    partitions: usize,
    reservation: MemoryReservation,
) -> Result<Shared> {
    let total: usize = partials.iter().map(|partial| partial.groups).sum();
    let alone = partials.len() == 1 || partitions == 1 && total <= SHARE_GROUPS;
    if alone || total <= MERGED_ALONE && !test_hooks::scattered() {
        return Ok(Shared {
            shares: Shares::One(partials.len() == 1),
            partials,
            count: 1,
            _reservation: reservation,
        });
    }
    let share_groups = if test_hooks::scattered() { 2 } else { SHARE_GROUPS };
    let count = total.div_ceil(share_groups).min(SHARES_MAX).max(partitions);
    if partials.iter().all(|partial| partial.order.is_some()) {
        return Ok(Shared {
            partials,
            shares: Shares::Buckets,
            count,
            _reservation: reservation,
        });
    }
    reservation.try_grow(total * (size_of::<i64>() + size_of::<u32>()))?;
    let by_value = spec.is_shared_by_value();
    let made = offload(total, move |cancelled| {
        let keys = partials.iter().map(|partial| (partial.keys.as_slice(), partial.groups));
        let keys: Vec<(&[ArrayRef], usize)> = keys.collect();
        let shares = shares(&keys, by_value, count, Stop::when(cancelled))?;
        Ok((partials, shares))
    });
    let (partials, shares) = made.await?;
    reservation.try_resize(total * size_of::<u32>())?;
    Ok(Shared {
        partials,
        shares: Shares::Rows(shares),
        count,
        _reservation: reservation,
    })
}
