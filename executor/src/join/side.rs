//! One input of a join, all of it in memory: its rows concatenated column by column, with the values of its keys.
//!
//! Partitions take pieces of a table as they come, so that an input in the order of its key comes as batches that ascend
//! but lie in any order; they are put back into it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::TryStreamExt;
use tenon_cpu::Stop;

use crate::gather::concat;
use crate::keys::{append_integer_keys, is_integer_key};
use crate::memory_size::batch_bytes;
use crate::offload::{Task, check, offload};

/// Row numbers are 32 bits, and all ones is no row.
const ROWS_MAX: usize = u32::MAX as usize - 2;

pub struct SideData {
    /// The columns that somebody reads; the others stay empty.
    pub columns: Vec<Option<ArrayRef>>,
    /// The values of the key expressions.
    pub keys: Vec<ArrayRef>,
    pub rows: usize,
    /// Whether the only key ascends from row to row, and no row lacks it.
    pub ascending: bool,
    /// Held as long as the rows are; grows by what is made of them.
    pub reservation: MemoryReservation,
}

impl SideData {
    /// Runs `input` to its end, all partitions at once. `what` names the side in messages; `ordered` says that its one
    /// key may be in order; `assemble_time` is what the rows take once they are there.
    pub async fn collect(
        input: &Arc<dyn ExecutionPlan>,
        what: &str,
        keys: &[PhysicalExprRef],
        reads: impl Fn(usize) -> bool,
        ordered: bool,
        context: &Arc<TaskContext>,
        assemble_time: &Time,
    ) -> Result<Self> {
        let mut reservation = MemoryConsumer::new(format!("join {what} side")).register(context.memory_pool());
        let batches = collect_all(input, context, &mut reservation).await?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows > ROWS_MAX {
            return exec_err!("the {what} side of a join has {rows} rows; at most {ROWS_MAX} are supported");
        }
        let schema = input.schema();
        let _timer = assemble_time.timer();
        let reads = (0..schema.fields().len()).map(reads).collect::<Vec<_>>();
        let keys = keys.to_vec();
        let assembled = offload(rows, move |cancelled| {
            Self::assemble(batches, &schema, (&keys, ordered), &reads, Stop::when(cancelled))
        });
        let (columns, keys, ascending) = assembled.await?;
        Ok(Self {
            columns,
            keys,
            rows,
            ascending,
            reservation,
        })
    }

    /// The columns that are read, the values of the keys, and whether the rows are in the order of the only one.
    fn assemble(
        mut batches: Vec<RecordBatch>,
        schema: &SchemaRef,
        (keys, ordered): (&[PhysicalExprRef], bool),
        reads: &[bool],
        stop: Stop<'_>,
    ) -> Result<(Vec<Option<ArrayRef>>, Vec<ArrayRef>, bool)> {
        let ascending = match keys {
            [key] if ordered => put_in_order(&mut batches, key)?,
            _ => false,
        };
        let mut key_columns = vec![];
        for key in keys {
            let arrays = batches
                .iter()
                .map(|batch| key.evaluate(batch)?.into_array(batch.num_rows()));
            check(stop)?;
            key_columns.push(concat(&arrays.collect::<Result<Vec<_>>>()?, || key.data_type(schema))?);
        }
        let mut pieces: Vec<Vec<ArrayRef>> = vec![vec![]; schema.fields().len()];
        for batch in batches {
            for (index, column) in batch.columns().iter().enumerate().filter(|(index, _)| reads[*index]) {
                pieces[index].push(Arc::clone(column));
            }
        }
        let mut columns = vec![];
        for (index, pieces) in pieces.into_iter().enumerate() {
            check(stop)?;
            columns.push(match reads[index] {
                true => Some(concat(&pieces, || Ok(schema.field(index).data_type().clone()))?),
                false => None,
            });
        }
        Ok((columns, key_columns, ascending))
    }
}

/// Orders batches by their first key; says whether the key ascends over all of them then.
fn put_in_order(batches: &mut Vec<RecordBatch>, key: &PhysicalExprRef) -> Result<bool> {
    let mut ends = Vec::with_capacity(batches.len());
    let mut integers = vec![];
    for batch in batches.iter() {
        let column = key.evaluate(batch)?.into_array(batch.num_rows())?;
        if !is_integer_key(column.data_type()) || column.logical_null_count() > 0 {
            return Ok(false);
        }
        integers.clear();
        append_integer_keys(column.as_ref(), &mut integers)?;
        match (integers.first(), integers.last()) {
            (Some(&first), Some(&last)) if integers.is_sorted() => ends.push((first, last)),
            _ => return Ok(false),
        }
    }
    let mut order: Vec<usize> = (0..batches.len()).collect();
    order.sort_by_key(|&at| ends[at]);
    if order.windows(2).any(|pair| ends[pair[0]].1 > ends[pair[1]].0) {
        return Ok(false);
    }
    *batches = order.into_iter().map(|at| batches[at].clone()).collect();
    Ok(true)
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
            Task::spawn(async move {
                let batches = collect_one(&input, partition, &context, &mut share).await?;
                Ok((batches, share))
            })
        })
        .collect();
    let mut all = vec![];
    for task in tasks {
        let (batches, share) = task.join().await?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use datafusion::physical_expr::expressions::Column;

    fn ordered(batches: &[&[i64]]) -> (bool, Vec<i64>) {
        let batch = |values: &&[i64]| {
            let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
            RecordBatch::try_from_iter([("k", column)]).unwrap()
        };
        let mut batches: Vec<_> = batches.iter().map(batch).collect();
        let key: PhysicalExprRef = Arc::new(Column::new("k", 0));
        let ascending = put_in_order(&mut batches, &key).unwrap();
        let values = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        (ascending, values.collect())
    }

    #[test]
    fn batches_of_a_sorted_table_are_put_in_order() {
        assert_eq!(ordered(&[&[5, 7], &[1, 2], &[2, 5]]), (true, vec![1, 2, 2, 5, 5, 7]));
        assert_eq!(ordered(&[&[2, 2], &[1, 2], &[2, 3]]), (true, vec![1, 2, 2, 2, 2, 3]));
        assert_eq!(ordered(&[]), (true, vec![]));
        assert!(!ordered(&[&[5, 7], &[6, 8]]).0);
        assert!(!ordered(&[&[5, 4]]).0);
    }
}
