//! From a join's inputs to what its partitions share: the build side materialized, the choice made, and, where the choice
//! wants it, the probe side materialized too and the operator made ready, or the device at work.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use parking_lot::Mutex;
use tenon_cpu::Stop;

use super::build::{BuildSide, fill_filters};
use super::choice::Choice;
use super::expected::{Expected, ascends};
use super::listeners::Listeners;
use super::materialized::{Account, ChunkLimits, MaterializedJoin, Setting, start};
use super::side::SideData;
use super::spec::JoinSpec;
use crate::offload::offload;
use crate::options::{JoinOperator, JoinOptions};
use crate::runtime_filter::RuntimeFilter;

/// How this execution computes the join.
pub enum Prepared {
    /// With the number of probe partitions that have not come to their end.
    Pipelined(Arc<BuildSide>, AtomicUsize),
    Materialized(Arc<MaterializedJoin>),
}

/// What one partition needs to prepare the join for all of them.
pub struct Preparation {
    pub build: Arc<dyn ExecutionPlan>,
    pub probe: Arc<dyn ExecutionPlan>,
    pub spec: Arc<JoinSpec>,
    pub schema: SchemaRef,
    /// Filters to fill from the build side, by key.
    pub filters: Vec<(usize, Arc<RuntimeFilter>)>,
    pub chosen: Arc<Mutex<Option<Choice>>>,
    pub context: Arc<TaskContext>,
    /// Of the inputs, as the plan knows them; none where nobody has looked.
    pub expected: Option<Expected>,
    pub partition: usize,
    /// Partitions of the output.
    pub partitions: usize,
    pub metrics: ExecutionPlanMetricsSet,
    pub listeners: Arc<Listeners>,
}

impl Preparation {
    /// Materializes what the choice wants to be, and makes it ready for all partitions.
    pub async fn prepare(&self) -> Result<Prepared> {
        let options = JoinOptions::of(self.context.session_config());
        let (spec, build_schema) = (&self.spec, self.build.schema());
        let cores = self.context.session_config().target_partitions();
        let choose = |expected: &Expected| expected.choose(spec, &build_schema, &options, cores);
        let mut expected = self
            .expected
            .unwrap_or_else(|| Expected::of(spec, &self.build, &self.probe, None));
        let time = |name| MetricBuilder::new(&self.metrics).subset_time(name, self.partition);
        let gauge = |name, value| {
            let gauge = MetricBuilder::new(&self.metrics).gauge(name, self.partition);
            gauge.set(value);
        };
        let build = {
            let build_time = time("build_time");
            let _timer = build_time.timer();
            let keys = spec.operands(JoinSide::Left);
            let ordered = in_order(&self.build, &keys);
            let build = SideData::collect(
                &self.build,
                "build",
                &keys,
                |at| spec.reads_build(at),
                ordered,
                &self.context,
                &time("assemble_time"),
            )
            .await?;
            gauge("build_rows", build.rows);
            expected.build.rows = Some(build.rows);
            expected.build.ascending = build.ascending;
            let filters = match expected.filters_in_vain() {
                true => vec![],
                false => self.filters.clone(),
            };
            let choice = choose(&expected)?;
            if choice.path.pipelined {
                choice.path.operator.count(choice.path.on_gpu);
                *self.chosen.lock() = Some(choice);
                let keys = spec.build_keys.len();
                let join_type = spec.join_type;
                let context = Arc::clone(&self.context);
                let table_time = time("table_time");
                let _timer = table_time.timer();
                let build = offload(build.rows, move |cancelled| {
                    BuildSide::of(build, join_type, keys, &filters, &context, Stop::when(cancelled))
                });
                let build = build.await?;
                gauge(build.table.kind(), build.table.bytes());
                let probing = AtomicUsize::new(self.probe.output_partitioning().partition_count());
                return Ok(Prepared::Pipelined(Arc::new(build), probing));
            }
            let (rows, context) = (build.rows, Arc::clone(&self.context));
            let fill = move |cancelled: &_| {
                fill_filters(&build, &filters, &context, Stop::when(cancelled))?;
                Ok(build)
            };
            offload(rows, fill).await?
        };
        let keys = spec.operands(JoinSide::Right);
        let probe_time = time("probe_collect_time");
        let timer = probe_time.timer();
        let ordered = in_order(&self.probe, &keys);
        let probe = SideData::collect(
            &self.probe,
            "probe",
            &keys,
            |at| spec.reads_probe(at),
            ordered,
            &self.context,
            &time("assemble_time"),
        )
        .await?;
        drop(timer);
        gauge("probe_rows", probe.rows);
        expected.probe.ascending = probe.ascending;
        expected.found(probe.rows);
        let choice = choose(&expected)?;
        // One that the device begins is counted when it is known who has done it.
        if !choice.path.on_gpu {
            choice.path.operator.count(false);
        }
        *self.chosen.lock() = Some(choice.clone());
        let prepare_time = time("prepare_time");
        let _timer = prepare_time.timer();
        let free = options.operator == JoinOperator::Auto;
        let limits = self.context.session_config().get_extension::<ChunkLimits>();
        let account = Account {
            metrics: self.metrics.clone(),
            partition: self.partition,
            choice: choice.clone(),
            free,
            chosen: Arc::clone(&self.chosen),
        };
        let setting = Setting {
            choice,
            batch_rows: self.context.session_config().batch_size(),
            workers: self.partitions,
            memory_bytes: options.gpu_memory_limit_bytes.map(|bytes| bytes as u64),
            may_spill: free,
            limits: limits.map_or_else(ChunkLimits::default, |limits| *limits),
        };
        let (spec, schema) = (Arc::clone(spec), Arc::clone(&self.schema));
        let join = MaterializedJoin::new(spec, schema, (build, probe), &setting)?;
        Ok(Prepared::Materialized(
            start(join, setting, account, &self.listeners).await?,
        ))
    }
}

/// Whether the rows may come in the order of their one key.
fn in_order(input: &Arc<dyn ExecutionPlan>, keys: &[PhysicalExprRef]) -> bool {
    matches!(keys, [key] if ascends(input, key))
}
