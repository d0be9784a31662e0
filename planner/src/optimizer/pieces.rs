//! Where an operator works for long on each batch that it is given, its input looks up from the work before each: a
//! statement that is stopped ends there. By grouping sets each row is worked on once for every set, so that batches come in
//! pieces.
//!
//! DataFusion's operators that put batches together list the buffers of a column of views (strings, byte strings) once for each
//! batch that had some, so that what reads their rows clones ever longer lists. Above these operators each batch lists its
//! buffers once, and few of them.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, SendableRecordBatchStream,
    StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt, stream};
use tenon_executor::gather::listed_once;
use tenon_executor::pipeline::OffloadExec;
use tenon_executor::window::WindowExec;

use crate::pg::bounds;

/// Rows that an aggregation works on for one piece, over all its sets: some ten milliseconds, and some megabytes of groups.
const ROWS_OF_SETS: usize = 1 << 18;

/// The sets by which an aggregation groups its input's rows; none where there is one set, or where what comes in has been
/// grouped before.
pub(super) fn grouping_sets(aggregate: &AggregateExec) -> Option<usize> {
    let reads_rows = !matches!(
        aggregate.mode(),
        AggregateMode::Final | AggregateMode::FinalPartitioned | AggregateMode::PartialReduce
    );
    let group_by = aggregate.group_expr();
    (reads_rows && !group_by.is_single() && !group_by.is_empty()).then(|| group_by.groups().len())
}

#[derive(Debug)]
pub(crate) struct Pieces;

impl PhysicalOptimizerRule for Pieces {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let rows = match node.downcast_ref::<AggregateExec>() {
                Some(aggregate) => grouping_sets(aggregate).map(|sets| (ROWS_OF_SETS / sets.max(1)).max(1)),
                None => (node.is::<BoundedWindowAggExec>() || node.is::<WindowExec>()).then_some(usize::MAX),
            };
            let (Some(rows), &[input]) = (rows, node.children().as_slice()) else {
                return Ok(Transformed::no(node));
            };
            let input = Arc::new(PiecesExec {
                input: Arc::clone(input),
                rows,
            });
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(vec![input], options)?))
        })
        .data()
    }

    fn name(&self) -> &str {
        "tenon_pieces"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The operators by whose output lists of buffers would grow.
const GATHERING: [&str; 12] = [
    "FilterExec",
    "CoalesceBatchesExec",
    "RepartitionExec",
    "SortExec",
    "SortPreservingMergeExec",
    "PartialSortExec",
    "BoundedWindowAggExec",
    "WindowAggExec",
    "HashJoinExec",
    "NestedLoopJoinExec",
    "SortMergeJoinExec",
    "CrossJoinExec",
];

/// The plan with lists of buffers that do not grow. What the device may do in the place of an operator is left as it is.
pub(super) fn listed(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children().into_iter().cloned();
    let new = match plan.is::<OffloadExec>() {
        true => children.collect(),
        false => children.map(listed).collect::<Result<Vec<_>>>()?,
    };
    let changed = new.iter().zip(plan.children()).any(|(new, old)| !Arc::ptr_eq(new, old));
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let plan = match changed {
        true => plan.replace_children(new, options)?,
        false => plan,
    };
    let schema = plan.schema();
    let views = |field: &Arc<Field>| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView);
    let gathers = GATHERING.contains(&plan.name()) || plan.is::<OffloadExec>();
    Ok(match gathers && schema.fields().iter().any(views) {
        true => Arc::new(PiecesExec {
            input: plan,
            rows: usize::MAX,
        }),
        false => plan,
    })
}

/// Its input's rows, so many at a time at most, whose columns list few buffers.
#[derive(Debug)]
pub(super) struct PiecesExec {
    input: Arc<dyn ExecutionPlan>,
    rows: usize,
}

impl DisplayAs for PiecesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PiecesExec")
    }
}

impl ExecutionPlan for PiecesExec {
    fn name(&self) -> &str {
        "PiecesExec"
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

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self { input, rows: self.rows })),
            Err(_) => internal_err!("PiecesExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows;
        let batches = self.input.execute(partition, context)?;
        let batches = batches.map(|batch| listed_once(batch?)).map_ok(move |batch| {
            let total = batch.num_rows();
            let starts = (0..total.max(1)).step_by(rows);
            stream::iter(starts.map(move |start| Ok(batch.slice(start, rows.min(total - start)))))
        });
        let pieces = batches.try_flatten().then(async |piece| {
            tokio::task::coop::consume_budget().await;
            bounds::look()?;
            piece
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), pieces)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
