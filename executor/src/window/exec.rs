//! The plan's node.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr_common::sort_expr::OrderingRequirements;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PhysicalExpr, PlanProperties,
    SendableRecordBatchStream, SpillManager, StatisticsArgs, WindowExpr,
};

use super::constant;
use super::partitions::Windows;
use super::sliding::Extents;

/// Computes what a `WindowAggExec` does.
#[derive(Debug)]
pub struct WindowExec {
    /// What is computed, and what it asks of its input.
    window: WindowAggExec,
    /// Whether rows may wait in files.
    spills: bool,
    /// On which rows the functions depend, where rows may go before their partition is complete.
    extents: Option<Vec<Arc<dyn Extents>>>,
    metrics: ExecutionPlanMetricsSet,
}

/// Whether each function gives all rows of a partition one value.
pub fn is_one_value(window: &WindowAggExec) -> bool {
    constant::are_all(window.window_expr())
}

impl WindowExec {
    pub fn new(window: WindowAggExec, spills: bool) -> Self {
        Self {
            window,
            spills,
            extents: None,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same, where each function's values depend on these rows.
    pub fn sliding(mut self, extents: Option<Vec<Arc<dyn Extents>>>) -> Self {
        self.extents = extents;
        self
    }

    pub fn window_expr(&self) -> &[Arc<dyn WindowExpr>] {
        self.window.window_expr()
    }
}

impl DisplayAs for WindowExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.window.fmt_as(format, f)
    }
}

impl ExecutionPlan for WindowExec {
    fn name(&self) -> &str {
        "WindowExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.window.input()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.window.apply_expressions(f)
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.window.maintains_input_order()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.window.required_input_ordering()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.window.input_distribution_requirements()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("WindowExec has one input");
        };
        let may_spread = !self.window.partition_keys().is_empty();
        let window = WindowAggExec::try_new(self.window_expr().to_vec(), input, may_spread)?;
        Ok(Arc::new(Self::new(window, self.spills).sliding(self.extents.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.window.input().execute(partition, Arc::clone(&context))?;
        let keys = self.window.partition_by_sort_keys()?;
        let is_constant = constant::are_all(self.window_expr());
        let spills = self.spills && is_constant;
        let metrics = SpillMetrics::new(&self.metrics, partition);
        let files = spills.then(|| Arc::new(SpillManager::new(context.runtime_env(), metrics, input.schema())));
        let reservation = MemoryConsumer::new("window functions")
            .with_can_spill(spills || self.extents.is_some())
            .register(context.memory_pool());
        let windows = Windows::new(
            (input, self.schema()),
            (self.window_expr().to_vec(), keys, is_constant),
            (reservation, files),
            BaselineMetrics::new(&self.metrics, partition),
            context.session_config().batch_size(),
        )
        .sliding(self.extents.clone());
        let rows = futures::stream::try_unfold(windows, async |mut windows: Windows| {
            let batch = windows.next().await?;
            Ok(batch.map(|batch| (batch, windows)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.window.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.window.statistics_from_inputs(inputs, args)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}
