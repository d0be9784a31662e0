//! A join's build side: all its rows, concatenated column by column, under a table of their keys.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{JoinType, Result, exec_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::TryStreamExt;

use super::exec::JoinSpec;
use super::packing::Packing;
use super::table::{KeyTable, estimated_bytes};
use super::visited::Visited;
use crate::keys::lane_range;
use crate::runtime_filter::{KeySet, RuntimeFilter};

pub struct BuildSide {
    /// The columns that the output or the residual predicate reads; the others stay empty.
    pub columns: Vec<Option<ArrayRef>>,
    pub rows: usize,
    pub table: KeyTable,
    pub packing: Packing,
    /// Kept where the join kind asks for build rows with or without partner.
    pub visited: Option<Visited>,
    _reservation: MemoryReservation,
}

/// Whether the join kind must know, at the end, which build rows met a partner.
pub fn tracks_build(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Left | Full | LeftSemi | LeftAnti | LeftMark)
}

impl BuildSide {
    /// Runs the build input to its end, all partitions at once, and builds the table and the runtime filters.
    pub async fn collect(
        input: &Arc<dyn ExecutionPlan>,
        spec: &JoinSpec,
        filters: &[(usize, Arc<RuntimeFilter>)],
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let mut reservation = MemoryConsumer::new("join build side").register(context.memory_pool());
        let batches = collect_all(input, context, &mut reservation).await?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows >= u32::MAX as usize - 1 {
            return exec_err!(
                "the build side of a join has {rows} rows; at most {} are supported",
                u32::MAX - 2
            );
        }
        let mut keys = vec![vec![]; spec.build_keys.len()];
        for batch in &batches {
            for (key, columns) in spec.build_keys.iter().zip(&mut keys) {
                columns.push(key.evaluate(batch)?.into_array(batch.num_rows())?);
            }
        }
        let (packing, lanes, singles) = Packing::of_build(keys, rows)?;
        let range = lane_range(&lanes.lanes, lanes.valid.as_ref());
        reservation.try_grow(estimated_bytes(rows, range))?;
        let table = KeyTable::build(&lanes.lanes, lanes.valid.as_ref(), range);
        for (key, filter) in filters {
            let set = match &singles[*key] {
                Some(single) if singles.len() == 1 => KeySet::build(&single.lanes, single.valid.as_ref(), range),
                Some(single) => {
                    let range = lane_range(&single.lanes, single.valid.as_ref());
                    KeySet::build(&single.lanes, single.valid.as_ref(), range)
                }
                None if rows == 0 => KeySet::build(&[], None, None),
                None => continue,
            };
            reservation.try_grow(set.bytes())?;
            let _ = filter.cell(context).set(set);
        }
        let mut columns = vec![];
        for index in 0..input.schema().fields().len() {
            let arrays: Vec<_> = batches.iter().map(|b| b.column(index).as_ref()).collect();
            columns.push(match arrays.len() {
                _ if !spec.reads_build(index) => None,
                0 => Some(arrow::array::new_empty_array(input.schema().field(index).data_type())),
                1 => Some(Arc::clone(batches[0].column(index))),
                _ => Some(concat(&arrays)?),
            });
        }
        let visited = tracks_build(spec.join_type).then(|| Visited::new(rows));
        Ok(Self {
            columns,
            rows,
            table,
            packing,
            visited,
            _reservation: reservation,
        })
    }
}

/// Every batch of every partition. More than one partition run as tasks of their own, which end with this future.
async fn collect_all(
    input: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    reservation: &mut MemoryReservation,
) -> Result<Vec<RecordBatch>> {
    let partitions = input.output_partitioning().partition_count();
    if partitions == 1 {
        return collect_one(input, 0, context, reservation).await;
    }
    let tasks: Vec<_> = (0..partitions)
        .map(|partition| {
            let (input, context, mut share) = (Arc::clone(input), Arc::clone(context), reservation.new_empty());
            SpawnedTask::spawn(async move {
                let batches = collect_one(&input, partition, &context, &mut share).await?;
                Ok::<_, datafusion::error::DataFusionError>((batches, share))
            })
        })
        .collect();
    let mut all = vec![];
    for task in tasks {
        let (batches, share) = match task.join_unwind().await {
            Ok(result) => result?,
            Err(error) => return exec_err!("the build side of a join was cut off: {error}"),
        };
        reservation.grow(share.free());
        all.extend(batches);
    }
    Ok(all)
}

async fn collect_one(
    input: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: &Arc<TaskContext>,
    reservation: &mut MemoryReservation,
) -> Result<Vec<RecordBatch>> {
    let mut stream = input.execute(partition, Arc::clone(context))?;
    let mut batches = vec![];
    while let Some(batch) = stream.try_next().await? {
        if batch.num_rows() > 0 {
            reservation.try_grow(batch_bytes(&batch))?;
            batches.push(batch);
        }
    }
    Ok(batches)
}

/// Bytes of the rows themselves: a slice of a segment does not count the whole segment.
fn batch_bytes(batch: &RecordBatch) -> usize {
    batch
        .columns()
        .iter()
        .map(|c| c.to_data().get_slice_memory_size().unwrap_or(0))
        .sum()
}
