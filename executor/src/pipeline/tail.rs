//! Sorts, projections and limits above a fragment that the host does itself, over all of its rows at once: these are few, or
//! their order or their values have no device form.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{lexsort_to_indices, take_record_batch};
use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// The nodes from a plan down to the first that is no such node, which is the last here. Their partitions may be one: a
/// sort of each partition counts only where a merge above puts them together.
pub fn chain(plan: &Arc<dyn ExecutionPlan>) -> Vec<&Arc<dyn ExecutionPlan>> {
    let mut nodes = vec![plan];
    let (mut at, mut merged) = (plan, false);
    loop {
        merged |= at.downcast_ref::<SortPreservingMergeExec>().is_some();
        let sorted_apart = at
            .downcast_ref::<SortExec>()
            .is_some_and(|sort| sort.preserve_partitioning() && at.output_partitioning().partition_count() > 1);
        if !is_link(at) || sorted_apart && !merged {
            return nodes;
        }
        let Some(input) = at.children().first().copied() else {
            return nodes;
        };
        nodes.push(input);
        at = input;
    }
}

fn is_link(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<SortPreservingMergeExec>().is_some()
        || plan.downcast_ref::<SortExec>().is_some()
        || plan.downcast_ref::<ProjectionExec>().is_some()
}

/// Does what the first `nodes` nodes of a plan do over all rows of the one below them.
pub fn applied(plan: &Arc<dyn ExecutionPlan>, nodes: usize, batch: RecordBatch) -> Result<RecordBatch> {
    let chain = chain(plan);
    let Some(nodes) = chain.get(..nodes) else {
        return internal_err!("fewer nodes above a fragment than there were");
    };
    nodes.iter().rev().try_fold(batch, |batch, node| {
        if let Some(sort) = node.downcast_ref::<SortExec>() {
            return sorted(sort, &batch);
        }
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            return projected(projection, &batch);
        }
        match node.downcast_ref::<SortPreservingMergeExec>() {
            Some(merge) => Ok(match merge.fetch() {
                Some(fetch) if fetch < batch.num_rows() => batch.slice(0, fetch),
                _ => batch,
            }),
            None => internal_err!("a node that the host does not do"),
        }
    })
}

fn sorted(sort: &SortExec, batch: &RecordBatch) -> Result<RecordBatch> {
    if batch.num_rows() < 2 {
        return Ok(batch.clone());
    }
    let columns = sort.expr().iter().map(|expr| expr.evaluate_to_sort_column(batch));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let order = lexsort_to_indices(&columns, sort.fetch())?;
    Ok(take_record_batch(batch, &order)?)
}

fn projected(projection: &ProjectionExec, batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = projection.expr().iter();
    let columns = columns.map(|own| own.expr.evaluate(batch)?.into_array(batch.num_rows()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<_>>()?;
    Ok(RecordBatch::try_new_with_options(
        projection.schema(),
        columns,
        &options,
    )?)
}
