//! Plans that go through files: inputs as DataFusion's operators need them then.
//!
//! A scan's batch is a slice of its segment, and a join's strings lie in the buffers of both sides. DataFusion counts such
//! buffers whole, for each batch: a sort of a table would have no room for two of them. So operators that keep batches get
//! copies.
//!
//! A repartition of several inputs may wait for ever for a file that nobody writes any more
//! (<https://github.com/apache/datafusion/issues/24883>), so each has one.

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, StatisticsArgs,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;
use tenon_executor::memory_size::compacted;
use tenon_executor::options::PlanOptions;

/// The operators that keep batches and count them.
const KEEPERS: [&str; 7] = [
    "AggregateExec",
    "BoundedWindowAggExec",
    "RepartitionExec",
    "SortExec",
    "SortMergeJoinExec",
    "SortPreservingMergeExec",
    "WindowExec",
];

#[derive(Debug)]
pub(crate) struct SpillInputs;

impl PhysicalOptimizerRule for SpillInputs {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !options.extensions.get::<PlanOptions>().is_some_and(|plan| plan.spill) {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            if !KEEPERS.contains(&node.name()) {
                return Ok(Transformed::no(node));
            }
            let one = node
                .downcast_ref::<RepartitionExec>()
                .is_some_and(|repartition| !repartition.preserve_order());
            let input = |input: &Arc<dyn ExecutionPlan>| match one && input.output_partitioning().partition_count() > 1
            {
                true => CompactExec::over(Arc::new(CoalescePartitionsExec::new(Arc::clone(input)))),
                false => CompactExec::over(Arc::clone(input)),
            };
            let inputs = node.children().into_iter().map(input).collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(inputs, options)?))
        })
        .data()
    }

    fn name(&self) -> &str {
        "tenon_spill_inputs"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Nothing moves through the node to the join below. `SortMergeJoinExec` (DataFusion 55.2) takes a projection in and leaves its
/// filter the old columns.
pub(crate) fn shielded(node: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let filters = node
        .downcast_ref::<SortMergeJoinExec>()
        .is_some_and(|join| join.filter().is_some());
    match filters {
        true => CompactExec::over(node),
        false => node,
    }
}

/// Its input's rows, in buffers that hold little else.
#[derive(Debug)]
struct CompactExec {
    input: Arc<dyn ExecutionPlan>,
}

impl CompactExec {
    fn over(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { input })
    }
}

fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(compacted).collect::<Result<_>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &rows)?)
}

impl DisplayAs for CompactExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "CompactExec")
    }
}

impl ExecutionPlan for CompactExec {
    fn name(&self) -> &str {
        "CompactExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Self::over(input)),
            Err(_) => internal_err!("CompactExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let rows = rows.map(|batch| compact(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(inputs[0].clone())
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
