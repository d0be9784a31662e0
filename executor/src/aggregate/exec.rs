//! `SELECT keys, aggregates FROM input GROUP BY keys`, in one node.
//!
//! Each input partition gathers groups of its own; when all are done, output partition `p` merges the groups that fall
//! to it. One exact key is shared out by value, so that each share's keys stay dense; other keys by hash. Few groups
//! are all merged by partition 0. The final values are DataFusion's accumulators', fed with the partial states, which are
//! dropped when the last partition has merged them.
//! Limits: keys are exact types (see `keys`) or strings; every aggregate has a grouping accumulator; only those that
//! gather all rows know DISTINCT and ORDER BY.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, exec_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr, PlanProperties,
    SendableRecordBatchStream, StatisticsArgs,
};
use futures::TryStreamExt;
use parking_lot::Mutex;
use tenon_gpu::cpu::Stop;

use super::keys::{GroupKeys, is_supported};
use super::local::{Local, Partial, gathers_rows};
use super::shares::{Share, shares};
use crate::apart::apart;
use crate::gather::pick;
use crate::held::batch_bytes;
use crate::keys::is_exact;
use crate::per_execution::{MadeOnce, PerExecution};

/// Groups, over all partitions, that one output partition merges alone.
const MERGED_ALONE: usize = 16 * 1024;

/// What is grouped and aggregated, apart from the input.
#[derive(Debug, Clone)]
pub struct GroupSpec {
    pub keys: Vec<(Arc<dyn PhysicalExpr>, String)>,
    pub aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// FILTER (WHERE ...) of each aggregate.
    pub filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    pub input_schema: SchemaRef,
    /// Keys, then aggregates.
    pub schema: SchemaRef,
}

impl GroupSpec {
    /// Whether `GroupExec` can compute this.
    pub fn is_supported(&self) -> bool {
        let keys = self.keys.iter().enumerate();
        let keys = keys.map(|(at, (key, _))| (key.data_type(&self.input_schema), self.schema.field(at).data_type()));
        keys.into_iter()
            .all(|(own, out)| own.is_ok_and(|own| own == *out && is_supported(&own)))
            && self.keys.len() < 63
            && self
                .aggregates
                .iter()
                .all(|a| gathers_rows(a) || !a.is_distinct() && a.order_bys().is_empty())
            && self.aggregates.iter().all(|a| a.groups_accumulator_supported())
    }

    pub(super) fn group_keys(&self) -> GroupKeys {
        let fields = &self.schema.fields()[..self.keys.len()];
        let types: Vec<DataType> = fields.iter().map(|f| f.data_type().clone()).collect();
        GroupKeys::new(&types, fields.iter().any(|f| f.is_nullable()))
    }
}

#[derive(Debug)]
pub struct GroupExec {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<GroupSpec>,
    /// Groups that the planner expects.
    estimate: Option<usize>,
    partials: PerExecution<MadeOnce<Gathered>>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

/// Every partition's groups, until all output partitions have merged what falls to them.
struct Gathered {
    partials: Mutex<(Option<Arc<Shared>>, usize)>,
}

struct Shared {
    partials: Vec<Partial>,
    /// For each partial, which of its groups fall to which output partition; none where the first merges all.
    shares: Option<Vec<Share>>,
    _reservation: MemoryReservation,
}

impl Gathered {
    fn new(shared: Shared, partitions: usize) -> Self {
        Self {
            partials: Mutex::new((Some(Arc::new(shared)), partitions)),
        }
    }

    /// The groups, for one of the output partitions. The last one has them to itself.
    fn take(&self) -> Result<Arc<Shared>> {
        let mut held = self.partials.lock();
        let (partials, partitions) = &mut *held;
        *partitions = partitions.saturating_sub(1);
        let given = match partitions {
            0 => partials.take(),
            _ => partials.clone(),
        };
        match given {
            Some(given) => Ok(given),
            None => internal_err!("a partition of GroupExec was executed twice"),
        }
    }
}

impl GroupExec {
    pub fn new(input: Arc<dyn ExecutionPlan>, spec: GroupSpec) -> Self {
        let partitions = if spec.keys.is_empty() {
            1
        } else {
            input.output_partitioning().partition_count()
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&spec.schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            input,
            spec: Arc::new(spec),
            estimate: None,
            partials: PerExecution::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
        }
    }

    /// The same, expected to give `rows` groups.
    pub fn with_estimate(mut self, rows: usize) -> Self {
        self.estimate = Some(rows);
        self
    }

    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    pub fn spec(&self) -> &GroupSpec {
        &self.spec
    }
}

impl DisplayAs for GroupExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let keys: Vec<_> = self.spec.keys.iter().map(|(key, _)| key.to_string()).collect();
        let aggregates: Vec<_> = self.spec.aggregates.iter().map(|a| a.name().to_string()).collect();
        write!(
            f,
            "GroupExec: by [{}], aggregates [{}]",
            keys.join(", "),
            aggregates.join(", ")
        )
    }
}

impl ExecutionPlan for GroupExec {
    fn name(&self) -> &str {
        "GroupExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let args = self
            .spec
            .aggregates
            .iter()
            .flat_map(|a| a.expressions())
            .collect::<Vec<_>>();
        for expr in self
            .spec
            .keys
            .iter()
            .map(|(key, _)| key)
            .chain(&args)
            .chain(self.spec.filters.iter().flatten())
        {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("GroupExec has one input");
        };
        let mut own = Self::new(input, (*self.spec).clone());
        own.estimate = self.estimate;
        Ok(Arc::new(own))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let shared = self.partials.get_or_make(&context, MadeOnce::default);
        let (input, spec) = (Arc::clone(&self.input), Arc::clone(&self.spec));
        let partitions = self.properties.partitioning.partition_count();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let output = async move {
            let gathered = async {
                let partials = gather(&input, &spec, &context).await?;
                let reservation = MemoryConsumer::new("shares of groups").register(context.memory_pool());
                Ok(Gathered::new(
                    share_out(&spec, partials, partitions, reservation).await?,
                    partitions,
                ))
            };
            let partials = shared.get_or_make(gathered).await?.take()?;
            let _timer = metrics.elapsed_compute().timer();
            let mut reservation = MemoryConsumer::new("merged groups").register(context.memory_pool());
            let batch = merge(&spec, &partials, (partition, partitions), &mut reservation)?;
            drop(partials);
            metrics.record_output(batch.num_rows());
            Ok::<_, datafusion::error::DataFusionError>(slices(
                batch,
                context.session_config().batch_size(),
                reservation,
            ))
        };
        let output = futures::stream::once(output).map_ok(|b| futures::stream::iter(b.map(Ok)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            output.try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![partition.map_or(ChildStats::At(None), |_| ChildStats::Skip)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let ([input], None) = (inputs, args.partition()) else {
            return Ok(Arc::new(statistics));
        };
        statistics.num_rows = match self.estimate {
            _ if self.spec.keys.is_empty() => Precision::Exact(1),
            Some(rows) => Precision::Inexact(rows),
            None => Precision::Absent,
        };
        for (own, (key, _)) in statistics.column_statistics.iter_mut().zip(&self.spec.keys) {
            let column = key.downcast_ref::<Column>();
            if let Some(known) = column.and_then(|column| input.column_statistics.get(column.index())) {
                *own = known.clone().to_inexact();
            }
        }
        Ok(Arc::new(statistics))
    }
}

/// A batch in slices of so many rows; memory for all of it is kept until the last is taken.
fn slices(batch: RecordBatch, rows: usize, reservation: MemoryReservation) -> impl Iterator<Item = RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(rows.max(1));
    starts.map(move |start| {
        let _until_the_last = &reservation;
        batch.slice(start, rows.min(batch.num_rows() - start))
    })
}

/// Runs every input partition to its end, each as a task of its own.
async fn gather(
    input: &Arc<dyn ExecutionPlan>,
    spec: &Arc<GroupSpec>,
    context: &Arc<TaskContext>,
) -> Result<Vec<Partial>> {
    let reservation = MemoryConsumer::new("groups").register(context.memory_pool());
    let partitions = input.output_partitioning().partition_count();
    if partitions == 1 {
        return Ok(vec![gather_one(input, 0, spec, context, reservation).await?]);
    }
    let tasks: Vec<_> = (0..partitions)
        .map(|partition| {
            let (input, spec, context) = (Arc::clone(input), Arc::clone(spec), Arc::clone(context));
            let share = reservation.new_empty();
            SpawnedTask::spawn(async move { gather_one(&input, partition, &spec, &context, share).await })
        })
        .collect();
    let mut partials = vec![];
    for task in tasks {
        match task.join_unwind().await {
            Ok(partial) => partials.push(partial?),
            Err(error) => return exec_err!("grouping was cut off: {error}"),
        }
    }
    Ok(partials)
}

async fn gather_one(
    input: &Arc<dyn ExecutionPlan>,
    partition: usize,
    spec: &Arc<GroupSpec>,
    context: &Arc<TaskContext>,
    reservation: MemoryReservation,
) -> Result<Partial> {
    let mut stream = input.execute(partition, Arc::clone(context))?;
    let mut local = Local::new(Arc::clone(spec), reservation)?;
    while let Some(batch) = stream.try_next().await? {
        local.update(&batch)?;
    }
    drop(stream);
    local.finish()
}

/// The final rows of output partition `partition` of `partitions`. `reservation` is left with what they take.
fn merge(
    spec: &GroupSpec,
    Shared { partials, shares, .. }: &Shared,
    (partition, partitions): (usize, usize),
    reservation: &mut MemoryReservation,
) -> Result<RecordBatch> {
    if shares.is_none() && partition > 0 {
        return Ok(RecordBatch::new_empty(Arc::clone(&spec.schema)));
    }
    // The states of this share once more, while they are picked out of the partials' and merged.
    let parts = if shares.is_none() { 1 } else { partitions };
    let share_bytes = partials.iter().map(|p| p.reservation.size()).sum::<usize>() / parts;
    reservation.try_grow(share_bytes)?;
    let mut keys = (!spec.keys.is_empty()).then(|| spec.group_keys());
    let accumulators = spec
        .aggregates
        .iter()
        .map(|a| a.create_groups_accumulator())
        .collect::<Result<Vec<_>>>();
    let mut accumulators = accumulators?;
    let mut numbers = vec![];
    for (at, partial) in partials.iter().enumerate() {
        let rows = shares.as_ref().map(|shares| shares[at].of(partition));
        let pick = |array: &ArrayRef| match &rows {
            None => Ok(Arc::clone(array)),
            Some(rows) => pick(array, rows),
        };
        let count = rows.as_ref().map_or(partial.groups, Array::len);
        match &mut keys {
            Some(keys) => {
                let columns = partial.keys.iter().map(pick).collect::<Result<Vec<_>>>()?;
                keys.prepare(&columns, count)?;
                keys.assign(&mut numbers);
            }
            None => numbers = vec![0; count],
        }
        let groups = keys.as_ref().map_or(1, GroupKeys::groups);
        for (accumulator, state) in accumulators.iter_mut().zip(&partial.states) {
            let state = state.iter().map(pick).collect::<Result<Vec<_>>>()?;
            accumulator.merge_batch(&state, &numbers, groups)?;
        }
        let merged = accumulators.iter().map(|a| a.size()).sum::<usize>() + keys.as_ref().map_or(0, GroupKeys::bytes);
        reservation.try_resize(share_bytes.max(merged))?;
    }
    let groups = keys.as_ref().map_or(1, GroupKeys::groups);
    // The result, while the states are still there; those that gather rows have counted it.
    let states = accumulators.iter().zip(&spec.aggregates);
    let made = states.map(|(state, aggregate)| if gathers_rows(aggregate) { 0 } else { state.size() });
    reservation.try_grow(made.sum::<usize>() + keys.as_ref().map_or(0, GroupKeys::emitted_bytes))?;
    let mut columns = keys.as_ref().map_or(Ok(vec![]), GroupKeys::emit)?;
    for accumulator in &mut accumulators {
        columns.push(accumulator.evaluate(EmitTo::All)?);
    }
    drop((keys, accumulators));
    let options = RecordBatchOptions::new().with_row_count(Some(groups));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&spec.schema), columns, &options)?;
    reservation.try_resize(batch_bytes(&batch))?;
    Ok(batch)
}

/// Says which groups fall to which output partition, where these are many.
async fn share_out(
    spec: &Arc<GroupSpec>,
    partials: Vec<Partial>,
    partitions: usize,
    reservation: MemoryReservation,
) -> Result<Shared> {
    let total: usize = partials.iter().map(|partial| partial.groups).sum();
    if partitions == 1 || total <= MERGED_ALONE {
        return Ok(Shared {
            partials,
            shares: None,
            _reservation: reservation,
        });
    }
    reservation.try_grow(total * (size_of::<i64>() + size_of::<u32>()))?;
    let by_value = spec.keys.len() == 1 && is_exact(spec.schema.field(0).data_type());
    let made = apart(total, move |cancelled| {
        let keys = partials.iter().map(|partial| (partial.keys.as_slice(), partial.groups));
        let shares = shares(&keys.collect::<Vec<_>>(), by_value, partitions, Stop::when(cancelled))?;
        Ok((partials, shares))
    });
    let (partials, shares) = made.await?;
    reservation.try_resize(total * size_of::<u32>())?;
    Ok(Shared {
        partials,
        shares: Some(shares),
        _reservation: reservation,
    })
}
