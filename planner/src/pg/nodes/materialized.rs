//! Rows that are made once and read as often as the query names them: WITH ... AS MATERIALIZED, or over volatile functions. They
//! lie in memory, or where that is too little and the plan may, in files.

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties, SpillManager,
    execute_stream,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::{StreamExt, TryStreamExt};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tenon_executor::options::PlanOptions;
use tenon_executor::per_execution::{MadeOnce, PerExecution};
use tenon_executor::test_hooks;

/// The rows, shared by all copies of the node in a plan.
#[derive(Debug, Default)]
pub(crate) struct MaterializedRows(PerExecution<MadeOnce<Made>>);

struct Made {
    /// Of each partition.
    parts: Vec<Part>,
    files: SpillManager,
    _reservation: MemoryReservation,
}

enum Part {
    Held(Vec<RecordBatch>),
    /// None: it has no rows.
    Written(Option<Arc<dyn SpillFile>>),
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Made({} parts)", self.parts.len())
    }
}

impl Made {
    fn read(&self, partition: usize) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(self.files.schema());
        let batches = match self.parts.get(partition) {
            Some(Part::Written(Some(file))) => return self.files.read_spill_as_stream(Arc::clone(file), None),
            Some(Part::Held(batches)) => batches.clone(),
            Some(Part::Written(None)) | None => Vec::new(),
        };
        let batches = futures::stream::iter(batches.into_iter().map(Ok));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

#[derive(Debug)]
pub(crate) struct Materialized {
    pub input: LogicalPlan,
    pub rows: Arc<MaterializedRows>,
    filters: Filters,
}

/// Whether rows that no reader wants may be left out.
#[derive(Clone, Debug)]
enum Filters {
    /// Not even these: the query asks for them, or volatile functions make them.
    None,
    Some,
    /// That was done, by a condition over columns by their places.
    Done(Expr),
}

impl Materialized {
    /// `is_whole`: no rows may be left out that nothing reads.
    pub fn plan(input: LogicalPlan, is_whole: bool) -> LogicalPlan {
        let filters = match is_whole {
            true => Filters::None,
            false => Filters::Some,
        };
        let node = Self {
            input,
            rows: Arc::default(),
            filters,
        };
        node.into_plan()
    }

    pub fn with_rows(&self, rows: Arc<MaterializedRows>) -> LogicalPlan {
        let node = Self {
            input: self.input.clone(),
            rows,
            filters: self.filters.clone(),
        };
        node.into_plan()
    }

    /// The same of fewer rows, those of `input`, of which `condition` is true.
    pub fn narrowed(&self, input: LogicalPlan, condition: Expr) -> LogicalPlan {
        let node = Self {
            input,
            rows: self.rows.clone(),
            filters: Filters::Done(condition),
        };
        node.into_plan()
    }

    fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// Whether it may get a filter still.
    pub fn takes_filter(&self) -> bool {
        matches!(self.filters, Filters::Some)
    }

    /// The condition by which rows were left out.
    pub fn filter(&self) -> Option<&Expr> {
        match &self.filters {
            Filters::Done(condition) => Some(condition),
            Filters::None | Filters::Some => None,
        }
    }
}

impl PartialEq for Materialized {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows) && self.input == other.input
    }
}

impl Eq for Materialized {}

impl Hash for Materialized {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.input.hash(hasher);
    }
}

impl PartialOrd for Materialized {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|_| self == other)
    }
}

impl UserDefinedLogicalNodeCore for Materialized {
    fn name(&self) -> &str {
        "Materialized"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Materialized")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.pop() {
            Some(input) => Ok(Self {
                input,
                rows: self.rows.clone(),
                filters: self.filters.clone(),
            }),
            None => internal_err!("Materialized has one input"),
        }
    }
}

pub(crate) struct MaterializedPlanner;

#[async_trait]
impl ExtensionPlanner for MaterializedPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        match (node.as_any().downcast_ref::<Materialized>(), inputs) {
            (Some(node), [input]) => Ok(Some(Arc::new(MaterializedExec::new(input.clone(), node.rows.clone())))),
            _ => Ok(None),
        }
    }
}

#[derive(Debug)]
struct MaterializedExec {
    input: Arc<dyn ExecutionPlan>,
    rows: Arc<MaterializedRows>,
    properties: Arc<PlanProperties>,
}

impl MaterializedExec {
    fn new(input: Arc<dyn ExecutionPlan>, rows: Arc<MaterializedRows>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            input,
            rows,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for MaterializedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "MaterializedExec")
    }
}

impl ExecutionPlan for MaterializedExec {
    fn name(&self) -> &str {
        "MaterializedExec"
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
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(Self::new(input, self.rows.clone()))),
            None => internal_err!("MaterializedExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let shared = self.rows.0.get_or_make(&context, MadeOnce::default);
        let input = self.input.clone();
        let schema = self.schema();
        let renamed = schema.clone();
        let partitions = self.properties.output_partitioning().partition_count();
        let batches = async move {
            let made = shared.get_or_make(make(input, partitions, context)).await?;
            // The copies of the plan may differ in what they call their columns.
            let batches = made.read(partition)?;
            Ok::<_, DataFusionError>(batches.map(move |batch| Ok(batch?.with_schema(renamed.clone())?)))
        };
        let stream = futures::stream::once(batches).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }
}

async fn make(input: Arc<dyn ExecutionPlan>, partitions: usize, context: Arc<TaskContext>) -> Result<Made> {
    let options = context.session_config().options().extensions.get::<PlanOptions>();
    let spills = options.is_some_and(|plan| plan.spill);
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let files = SpillManager::new(context.runtime_env(), metrics, input.schema());
    let reservation = MemoryConsumer::new("WITH")
        .with_can_spill(spills)
        .register(context.memory_pool());
    let mut stream = execute_stream(input, context)?;
    let mut held = vec![Vec::new(); partitions];
    let mut written = Vec::new();
    let mut at = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        let part = at % partitions;
        at += 1;
        if written.is_empty() {
            let fits = reservation.try_grow(batch.get_array_memory_size());
            if fits.is_ok() && !(spills && test_hooks::through_files()) {
                held[part].push(batch);
                continue;
            }
            if !spills {
                fits?;
            }
            for batches in &mut held {
                let mut file = files.create_in_progress_file("WITH")?;
                for batch in batches.drain(..) {
                    file.append_batch(&batch)?;
                }
                written.push(file);
            }
            reservation.free();
        }
        written[part].append_batch(&batch)?;
    }
    let parts = match written.is_empty() {
        true => held.into_iter().map(Part::Held).collect(),
        false => {
            let parts = written.iter_mut().map(|file| Ok(Part::Written(file.finish()?)));
            parts.collect::<Result<_>>()?
        }
    };
    Ok(Made {
        parts,
        files,
        _reservation: reservation,
    })
}
