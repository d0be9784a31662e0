//! `SELECT keys, aggregates FROM input GROUP BY keys`, in one node.
//!
//! Each input partition gathers groups of its own (`gathered`); when all are done, each output partition merges the shares
//! of the groups that fall to it (`merge`). One exact key is shared out by value, so that each share's keys stay dense; other
//! keys by hash. Few groups are one share. The final values are DataFusion's accumulators', fed with the partial states,
//! which are dropped when the last partition has merged them.
//! Limits: keys are exact types (see `keys`) or strings; every aggregate has a grouping accumulator; only those that
//! gather all rows know DISTINCT and ORDER BY.

use std::fmt;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr, PlanProperties,
    SendableRecordBatchStream, StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt};

use super::gathered::{Gathered, gathered};
use super::known::known;
use super::merge::{merge, slices};
use super::spec::GroupSpec;
use crate::per_execution::{MadeOnce, PerExecution};

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

    pub fn spec(&self) -> &Arc<GroupSpec> {
        &self.spec
    }

    /// Groups that the planner expects.
    pub fn estimate(&self) -> Option<usize> {
        self.estimate
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
        if let Some(row) = known(&self.input, &self.spec)? {
            let metrics = BaselineMetrics::new(&self.metrics, partition);
            metrics.record_output(row.num_rows());
            let row = futures::stream::iter([Ok(row)]);
            return Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), row)));
        }
        let shared = self.partials.get_or_make(&context, MadeOnce::default);
        let (input, spec) = (Arc::clone(&self.input), Arc::clone(&self.spec));
        let partitions = self.properties.partitioning.partition_count();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let (estimate, batch_rows) = (self.estimate, context.session_config().batch_size());
        let output = async move {
            let gathered = gathered(&input, &spec, estimate, partitions, &context);
            let shared = shared.get_or_make(gathered).await?.take()?;
            let merged = shared.of(partition, partitions).map(move |share| {
                let _timer = metrics.elapsed_compute().timer();
                let mut reservation = MemoryConsumer::new("merged groups").register(context.memory_pool());
                let batch = merge(&spec, &shared, share, &mut reservation)?;
                metrics.record_output(batch.num_rows());
                Ok::<_, DataFusionError>((batch, reservation))
            });
            let batches = futures::stream::iter(merged).map_ok(move |(batch, reservation)| {
                // Between shares: a partition may merge many without ever waiting.
                let slices = futures::stream::iter(slices(batch, batch_rows, reservation).map(Ok));
                slices.then(async |batch| {
                    tokio::task::coop::consume_budget().await;
                    batch
                })
            });
            Ok::<_, DataFusionError>(batches.try_flatten())
        };
        let output = futures::stream::once(output).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), output)))
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
            // Its input may be known better now than when it was planned.
            Some(rows) => Precision::Inexact(input.num_rows.get_value().map_or(rows, |input| rows.min(*input))),
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
