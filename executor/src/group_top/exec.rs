//! The plan's node.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, SendableRecordBatchStream,
    StatisticsArgs,
};

use super::codes::has_codes;
use super::keeper::{Keeper, ROWS_MAX};
use crate::aggregate::is_group_key;

/// Which rows are wanted of each group.
#[derive(Debug, Clone)]
pub struct GroupTop {
    /// By what rows are grouped; none where all are one group.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    pub order: PhysicalSortExpr,
    /// How many, and those beside the last of them by `order`.
    pub rows: usize,
}

/// Its input's rows in their order, without some of those that are not wanted. Each partition drops what it can by itself.
#[derive(Debug)]
pub struct GroupTopExec {
    input: Arc<dyn ExecutionPlan>,
    top: Arc<GroupTop>,
    metrics: ExecutionPlanMetricsSet,
}

impl GroupTopExec {
    /// None where the types of keys, or the number of rows, are none that it is made for.
    pub fn try_new(input: Arc<dyn ExecutionPlan>, top: GroupTop) -> Result<Option<Self>> {
        let schema = input.schema();
        for key in &top.keys {
            if !is_group_key(&key.data_type(&schema)?) {
                return Ok(None);
            }
        }
        if !has_codes(&top.order.expr.data_type(&schema)?) || !(1..=ROWS_MAX).contains(&top.rows) {
            return Ok(None);
        }
        Ok(Some(Self::new(input, Arc::new(top))))
    }

    fn new(input: Arc<dyn ExecutionPlan>, top: Arc<GroupTop>) -> Self {
        Self {
            input,
            top,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    pub fn top(&self) -> &GroupTop {
        &self.top
    }
}

impl DisplayAs for GroupTopExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let keys: Vec<String> = self.top.keys.iter().map(ToString::to_string).collect();
        let (keys, order) = (keys.join(", "), &self.top.order);
        write!(f, "GroupTopExec: rows={}, by=[{keys}], order=[{order}]", self.top.rows)
    }
}

impl ExecutionPlan for GroupTopExec {
    fn name(&self) -> &str {
        "GroupTopExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.top.keys.iter().chain([&self.top.order.expr]) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
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
            Ok([input]) => Ok(Arc::new(Self::new(input, Arc::clone(&self.top)))),
            Err(_) => internal_err!("GroupTopExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let reservation = MemoryConsumer::new("first rows of groups").register(context.memory_pool());
        let keeper = Keeper::new(
            input,
            Arc::clone(&self.top),
            reservation,
            BaselineMetrics::new(&self.metrics, partition),
            context.session_config().batch_size(),
        )?;
        let rows = futures::stream::try_unfold(keeper, async |mut keeper: Keeper| {
            let batch = keeper.next().await?;
            Ok(batch.map(|batch| (batch, keeper)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(inputs[0].as_ref().clone().to_inexact()))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }
}
