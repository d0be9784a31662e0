//! `SELECT ... FROM build JOIN probe ON build.k1 = probe.k1 AND ... [AND residual]`, every join kind and condition.
//!
//! The build side (left) is materialized once, by all its partitions in parallel. Then either each probe partition streams
//! past a shared table of it (`probe`), or the probe side is materialized too and one of several operators finds the pairs
//! (`materialized`): `choice` says which, from the session's options and what is known of the inputs. Nothing of the probe
//! side runs before the build side is finished, so that the runtime filters that it pushes are in place when the scans
//! below the probe side start.
//! Limits: below 2^32 rows a side.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr, PlanProperties,
    SendableRecordBatchStream, StatisticsArgs,
};
use parking_lot::Mutex;

use super::choice::Choice;
use super::expected::Expected;
use super::partition::{PartitionState, Shared};
use super::path::Operator;
use super::prepare::Preparation;
use super::spec::JoinSpec;
use crate::explain::Chosen;
use crate::options::JoinOptions;
use crate::per_execution::PerExecution;
use crate::runtime_filter::RuntimeFilter;

#[derive(Debug)]
pub struct JoinExec {
    build: Arc<dyn ExecutionPlan>,
    probe: Arc<dyn ExecutionPlan>,
    spec: Arc<JoinSpec>,
    /// Filters to fill from the build side, by key.
    filters: Vec<(usize, Arc<RuntimeFilter>)>,
    foreseen: Foreseen,
    /// What the choice was when the join last ran.
    chosen: Arc<Mutex<Option<Choice>>>,
    shared: PerExecution<Shared>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

/// What is known of a join before it runs.
#[derive(Debug, Clone, Default)]
struct Foreseen {
    /// Rows that the planner expects.
    estimate: Option<usize>,
    /// Rows of the build and the probe side that the plan expects.
    inputs: Option<[usize; 2]>,
    /// What the choice will be, as far as the plan tells.
    planned: Option<Choice>,
    /// What the plan tells of the inputs.
    expected: Option<Expected>,
}

impl JoinExec {
    /// `schema` is that of the spec's output.
    pub fn new(
        build: Arc<dyn ExecutionPlan>,
        probe: Arc<dyn ExecutionPlan>,
        spec: JoinSpec,
        schema: SchemaRef,
    ) -> Self {
        let properties = properties(schema, &probe, &spec);
        Self {
            build,
            probe,
            spec: Arc::new(spec),
            filters: vec![],
            foreseen: Foreseen::default(),
            chosen: Arc::default(),
            shared: PerExecution::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            properties,
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
        self.anew(self.inputs(), Arc::new(spec), Arc::new(schema))
    }

    /// Its inputs: build, then probe.
    fn inputs(&self) -> [Arc<dyn ExecutionPlan>; 2] {
        [Arc::clone(&self.build), Arc::clone(&self.probe)]
    }

    /// A join that has not run, with all that is known of this one.
    fn anew(&self, [build, probe]: [Arc<dyn ExecutionPlan>; 2], spec: Arc<JoinSpec>, schema: SchemaRef) -> Self {
        let properties = properties(schema, &probe, &spec);
        Self {
            build,
            probe,
            spec,
            filters: self.filters.clone(),
            foreseen: self.foreseen.clone(),
            chosen: Arc::default(),
            shared: PerExecution::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            properties,
        }
    }

    /// The same join that also fills these runtime filters.
    pub fn with_filters(mut self, filters: Vec<(usize, Arc<RuntimeFilter>)>) -> Self {
        self.filters = filters;
        self
    }

    /// The same join with its choice foreseen, for EXPLAIN. Fails where the options ask for what cannot be.
    pub fn planned(&self, options: &JoinOptions, cores: usize) -> Result<Self> {
        let mut expected = Expected::of(&self.spec, &self.build, &self.probe, self.foreseen.estimate);
        if let Some([build, probe]) = self.foreseen.inputs {
            (expected.build.rows, expected.probe.rows) = (Some(build), Some(probe));
        }
        let choice = expected.choose(&self.spec, &self.build.schema(), options, cores)?;
        let mut join = self.anew(self.inputs(), Arc::clone(&self.spec), self.schema());
        join.foreseen.planned = Some(choice);
        join.foreseen.expected = Some(expected);
        Ok(join)
    }

    /// The same join, expected to put out `rows` rows, of as many as `inputs` says on the build and the probe side.
    pub fn with_estimates(mut self, rows: usize, inputs: Option<[usize; 2]>) -> Self {
        self.foreseen.estimate = Some(rows);
        self.foreseen.inputs = inputs;
        self
    }

    /// What runs: as chosen when the join last ran, else as foreseen.
    pub fn choice(&self) -> Option<Choice> {
        self.chosen.lock().clone().or_else(|| self.foreseen.planned.clone())
    }

    /// The choice in words; what was planned too, where the join ran otherwise.
    fn account(&self) -> Option<String> {
        let (ran, planned) = (self.chosen.lock().clone(), self.foreseen.planned.as_ref());
        match (ran, planned) {
            (Some(ran), Some(planned))
                if (ran.path.operator, ran.path.on_gpu) != (planned.path.operator, planned.path.on_gpu) =>
            {
                let (operator, device) = (planned.path.operator, planned.path.device());
                Some(format!("planned {operator} on {device}, ran {ran}"))
            }
            (Some(ran), _) => Some(ran.to_string()),
            (None, planned) => planned.map(ToString::to_string),
        }
    }

    /// It was done on the device, as a part of a fragment.
    pub(crate) fn note_fused(&self, choice: Choice) {
        choice.path.operator.count(true);
        *self.chosen.lock() = Some(choice);
    }

    /// Runtime filters, by the key whose values on the build side make them.
    pub fn filters(&self) -> &[(usize, Arc<RuntimeFilter>)] {
        &self.filters
    }

    /// Probe keys whose values filter the scans below the probe side once the build side is finished.
    pub fn filtering_keys(&self) -> impl Iterator<Item = &PhysicalExprRef> {
        self.filters.iter().map(|(key, _)| &self.spec.probe_keys[*key])
    }

    pub fn with_inputs(&self, build: Arc<dyn ExecutionPlan>, probe: Arc<dyn ExecutionPlan>) -> Self {
        self.anew([build, probe], Arc::clone(&self.spec), self.schema())
    }
}

fn properties(schema: SchemaRef, probe: &Arc<dyn ExecutionPlan>, spec: &JoinSpec) -> Arc<PlanProperties> {
    let partitions = probe.output_partitioning().partition_count().max(spec.partitions);
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for JoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let keys = self.spec.build_keys.iter().zip(&self.spec.probe_keys);
        let keys: Vec<_> = keys.map(|(b, p)| format!("{b} = {p}")).collect();
        write!(f, "JoinExec: {}", self.spec.join_type)?;
        if !keys.is_empty() {
            let equal = if self.spec.null_equal { ", nulls equal" } else { "" };
            write!(f, " on {}{equal}", keys.join(" and "))?;
        }
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
        if let Some(account) = self.account() {
            write!(f, ", {account}")?;
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
        let shared = self.shared.get_or_make(&context, Shared::default);
        let from = Preparation {
            build: Arc::clone(&self.build),
            probe: Arc::clone(&self.probe),
            spec: Arc::clone(&self.spec),
            schema: self.schema(),
            filters: self.filters.clone(),
            chosen: Arc::clone(&self.chosen),
            context,
            expected: self.foreseen.expected,
            partition,
            partitions: self.properties.output_partitioning().partition_count(),
            metrics: self.metrics.clone(),
            listeners: shared.audience.join(),
        };
        let state = PartitionState::new(from, shared, BaselineMetrics::new(&self.metrics, partition));
        let stream = futures::stream::try_unfold(state, |mut state| async move {
            Ok(state.next().await?.map(|batch| (batch, state)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        match partition {
            None => vec![ChildStats::At(None); 2],
            Some(_) => vec![ChildStats::Skip; 2],
        }
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let ([build, probe], Some(rows), None) = (inputs, self.foreseen.estimate, args.partition()) else {
            return Ok(Arc::new(statistics));
        };
        statistics.num_rows = Precision::Inexact(rows);
        for (own, source) in statistics.column_statistics.iter_mut().zip(&self.spec.output) {
            let input = match source.side {
                JoinSide::Left => build,
                JoinSide::Right => probe,
                JoinSide::None => continue,
            };
            if let Some(column) = input.column_statistics.get(source.index) {
                *own = column.clone().to_inexact();
            }
        }
        Ok(Arc::new(statistics))
    }
}

impl Chosen for JoinExec {
    fn operator(&self) -> &'static str {
        match self.choice().map(|choice| choice.path.operator) {
            Some(Operator::Ninlj | Operator::Inlj) => "Nested Loop",
            Some(Operator::Smj) => "Merge",
            Some(Operator::Hj | Operator::Triton) | None => "Hash",
        }
    }

    fn device(&self) -> &'static str {
        match self.choice() {
            Some(choice) if choice.path.on_gpu => "gpu",
            _ => "cpu",
        }
    }

    fn reason(&self) -> Option<String> {
        self.account()
    }
}
