//! `SELECT ... FROM build JOIN probe ON build.k1 = probe.k1 AND ... [AND residual]`, every join kind, on the CPU.
//!
//! The build side (left) is collected once, by all its partitions in parallel, into one shared table; each probe
//! partition then streams. Nothing of the probe side runs before the build side is finished, so that the runtime
//! filters that it pushes are in place when the scans below the probe side start.
//! Limits: null keys match nothing; null-aware anti joins need keys without nulls; build rows below 2^32.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr, PlanProperties,
    SendableRecordBatchStream,
};
use futures::TryStreamExt;
use tokio::sync::OnceCell;

use super::build::BuildSide;
use super::probe::{Prober, reads_build};
use crate::per_execution::PerExecution;
use crate::runtime_filter::RuntimeFilter;

/// What is joined, apart from the inputs.
#[derive(Debug, Clone)]
pub struct JoinSpec {
    pub build_keys: Vec<PhysicalExprRef>,
    pub probe_keys: Vec<PhysicalExprRef>,
    pub join_type: JoinType,
    pub filter: Option<JoinFilter>,
    /// Source of each output column.
    pub output: Vec<ColumnIndex>,
}

impl JoinSpec {
    pub(super) fn reads_build(&self, index: usize) -> bool {
        let filter = self.filter.as_ref().map_or(&[][..], |f| f.column_indices());
        reads_build(&self.output, index) || reads_build(filter, index)
    }
}

#[derive(Debug)]
pub struct JoinExec {
    build: Arc<dyn ExecutionPlan>,
    probe: Arc<dyn ExecutionPlan>,
    spec: Arc<JoinSpec>,
    /// Filters to fill from the build side, by key.
    filters: Vec<(usize, Arc<RuntimeFilter>)>,
    shared: PerExecution<Shared>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

struct Shared {
    build: OnceCell<Arc<BuildSide>>,
    /// Probe partitions that have not come to their end.
    probing: AtomicUsize,
}

impl JoinExec {
    /// `join_schema` is the schema of the join's columns before `output` picks from them.
    pub fn new(
        build: Arc<dyn ExecutionPlan>,
        probe: Arc<dyn ExecutionPlan>,
        spec: JoinSpec,
        schema: SchemaRef,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(probe.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            build,
            probe,
            spec: Arc::new(spec),
            filters: vec![],
            shared: PerExecution::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
        }
    }

    pub fn build(&self) -> &Arc<dyn ExecutionPlan> {
        &self.build
    }

    pub fn probe(&self) -> &Arc<dyn ExecutionPlan> {
        &self.probe
    }

    pub fn spec(&self) -> &JoinSpec {
        &self.spec
    }

    /// The same join with an output of fewer or reordered columns: `columns` are positions in today's output.
    pub fn with_output(&self, columns: &[usize]) -> Self {
        let spec = JoinSpec {
            output: columns.iter().map(|&c| self.spec.output[c].clone()).collect(),
            ..(*self.spec).clone()
        };
        let fields: Vec<_> = columns.iter().map(|&c| self.schema().field(c).clone()).collect();
        let schema = Schema::new_with_metadata(fields, self.schema().metadata().clone());
        let (build, probe) = (Arc::clone(&self.build), Arc::clone(&self.probe));
        Self::new(build, probe, spec, Arc::new(schema)).with_filters(self.filters.clone())
    }

    /// The same join that also fills these runtime filters.
    pub fn with_filters(mut self, filters: Vec<(usize, Arc<RuntimeFilter>)>) -> Self {
        self.filters = filters;
        self
    }

    pub fn with_inputs(&self, build: Arc<dyn ExecutionPlan>, probe: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(build, probe, (*self.spec).clone(), self.schema()).with_filters(self.filters.clone())
    }

    /// Whether probe rows without partner leave no trace in the output, so that they may be dropped early.
    pub fn drops_unmatched_probe_rows(join_type: JoinType) -> bool {
        use JoinType::*;
        match join_type {
            Inner | Left | LeftSemi | RightSemi | LeftAnti | LeftMark => true,
            Right | Full | RightAnti | RightMark => false,
        }
    }
}

impl DisplayAs for JoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let keys = self.spec.build_keys.iter().zip(&self.spec.probe_keys);
        let keys: Vec<_> = keys.map(|(b, p)| format!("{b} = {p}")).collect();
        write!(f, "JoinExec: {} on {}", self.spec.join_type, keys.join(" and "))?;
        if let Some(filter) = &self.spec.filter {
            write!(f, ", where {filter}")?;
        }
        if !self.filters.is_empty() {
            let keys: Vec<_> = self
                .filters
                .iter()
                .map(|(k, _)| self.spec.probe_keys[*k].to_string())
                .collect();
            write!(f, ", filters scan by {}", keys.join(", "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for JoinExec {
    fn name(&self) -> &str {
        "JoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.build, &self.probe]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.spec.build_keys.iter().chain(&self.spec.probe_keys) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        match &self.spec.filter {
            Some(filter) => f(filter.expression()),
            None => Ok(TreeNodeRecursion::Continue),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([build, probe]) = <[_; 2]>::try_from(children) else {
            return internal_err!("JoinExec has two inputs");
        };
        Ok(Arc::new(self.with_inputs(build, probe)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.probe.output_partitioning().partition_count();
        let shared = self.shared.get_or_make(&context, || Shared {
            build: OnceCell::new(),
            probing: AtomicUsize::new(partitions),
        });
        let state = State {
            build: Arc::clone(&self.build),
            probe: Arc::clone(&self.probe),
            spec: Arc::clone(&self.spec),
            schema: self.schema(),
            filters: self.filters.clone(),
            shared,
            context,
            partition,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            plan_metrics: self.metrics.clone(),
            phase: Phase::Start,
            ready: VecDeque::new(),
        };
        let stream = futures::stream::try_unfold(state, |mut state| async move {
            Ok(state.next().await?.map(|batch| (batch, state)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One probe partition under way.
struct State {
    build: Arc<dyn ExecutionPlan>,
    probe: Arc<dyn ExecutionPlan>,
    spec: Arc<JoinSpec>,
    schema: SchemaRef,
    filters: Vec<(usize, Arc<RuntimeFilter>)>,
    shared: Arc<Shared>,
    context: Arc<TaskContext>,
    partition: usize,
    metrics: BaselineMetrics,
    plan_metrics: ExecutionPlanMetricsSet,
    phase: Phase,
    ready: VecDeque<RecordBatch>,
}

enum Phase {
    Start,
    Probing(Prober, SendableRecordBatchStream),
    /// Build rows from this one on are still owed.
    Finishing(Prober, usize),
    End,
}

impl State {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            match &mut self.phase {
                Phase::Start => self.start().await?,
                Phase::Probing(prober, input) => match input.try_next().await? {
                    Some(batch) => {
                        let _timer = self.metrics.elapsed_compute().timer();
                        prober.probe(&batch, &mut self.ready)?;
                    }
                    None => self.end_probing(),
                },
                Phase::Finishing(prober, from) if *from < prober.build.rows => {
                    let _timer = self.metrics.elapsed_compute().timer();
                    *from = prober.finish(*from, &mut self.ready)?;
                }
                Phase::Finishing(..) => self.phase = Phase::End,
                Phase::End => return Ok(None),
            }
        }
    }

    async fn start(&mut self) -> Result<()> {
        let build = self.shared.build.get_or_try_init(|| async {
            let time = MetricBuilder::new(&self.plan_metrics).subset_time("build_time", self.partition);
            let _timer = time.timer();
            let build = BuildSide::collect(&self.build, &self.spec, &self.filters, &self.context).await?;
            let rows = MetricBuilder::new(&self.plan_metrics).gauge("build_rows", self.partition);
            rows.set(build.rows);
            MetricBuilder::new(&self.plan_metrics)
                .gauge(build.table.kind(), self.partition)
                .set(build.table.bytes());
            Ok::<_, datafusion::error::DataFusionError>(Arc::new(build))
        });
        let build = Arc::clone(build.await?);
        if build.rows == 0 && JoinExec::drops_unmatched_probe_rows(self.spec.join_type) {
            self.phase = Phase::End;
            return Ok(());
        }
        let prober = Prober::new(Arc::clone(&self.spec), Arc::clone(&self.schema), build);
        self.phase = Phase::Probing(prober, self.probe.execute(self.partition, Arc::clone(&self.context))?);
        Ok(())
    }

    /// The partition that comes last sees to the build rows: all the others' marks are set by then.
    fn end_probing(&mut self) {
        let last = self.shared.probing.fetch_sub(1, Ordering::AcqRel) == 1;
        self.phase = match std::mem::replace(&mut self.phase, Phase::End) {
            Phase::Probing(prober, _) if last && prober.build.visited.is_some() => Phase::Finishing(prober, 0),
            _ => Phase::End,
        };
    }
}
