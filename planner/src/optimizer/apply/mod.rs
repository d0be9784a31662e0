//! A subquery that is run for each row of an input, with the row's values in it: what no join says.
//!
//! More than 400 lines because the node, its keeper of results and its running loop share their fields.
//!
//! The subquery's references to the row are placeholders. Its physical plan is made once where placeholders can be filled
//! into it, and otherwise for each row's values again. Rows of equal values share a run, and many rows do where the subquery
//! is a plan over the values of them all (`unnested`, `together`).

mod asked;
mod pairs;
mod rows;
mod together;
mod unnested;

use super::execution::{fresh, shares_state, task};
use super::parameters::{is_fillable, opened};
use crate::optimizer::{self, passes};
use crate::pg::nodes::{Apply, ApplyKind, Binding, GUARD, Materialized, ProjectSet, applies};
use crate::pg::occurring::is_volatile;
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties, execute_stream,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use tenon_executor::gather::{concat_batches, pick};
use together::Lazy;
use tokio::sync::mpsc::Sender;

pub(crate) struct ApplyPlanner;

#[async_trait]
impl ExtensionPlanner for ApplyPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [input]) = (node.as_any().downcast_ref::<Apply>(), inputs) else {
            return Ok(None);
        };
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("no session to plan with");
        };
        let values = node.bindings.iter();
        let values = values.map(|b| planner.create_physical_expr(&b.value, node.left.schema(), session, context));
        let values = values.collect::<Result<Vec<_>>>()?;
        let ids: Vec<String> = node.bindings.iter().map(|binding| binding.id.clone()).collect();
        let volatile = applies(&node.subquery) || is_volatile(&node.subquery)?;
        let together = match volatile {
            true => Lazy::default(),
            false => Lazy::of(node, &ids, input, &values)?,
        };
        let mut subquery = node.subquery.as_ref().clone();
        if node.kind == ApplyKind::Mark {
            subquery = datafusion::logical_expr::LogicalPlanBuilder::from(subquery)
                .limit(0, Some(1))?
                .build()?;
        }
        let open = prepared(&subquery, &ids, state).await?;
        let inner = Inner {
            volatile,
            subquery,
            ids,
            open,
            together,
            state: state.clone(),
        };
        Ok(Some(Arc::new(ApplyExec::new(
            input.clone(),
            Arc::new(inner),
            values,
            node.kind,
            Arc::clone(node.schema.inner()),
        ))))
    }
}

/// The physical plan that `fresh` fills values into; None where there is none.
async fn prepared(
    subquery: &LogicalPlan,
    ids: &[String],
    state: &SessionState,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut possible = true;
    let numbered = subquery.clone().transform_up_with_subqueries(|node| {
        let sets = |node: &dyn UserDefinedLogicalNode| node.as_any().is::<ProjectSet>();
        possible &= match &node {
            LogicalPlan::Extension(Extension { node }) => sets(node.as_ref()),
            LogicalPlan::RecursiveQuery(_) => false,
            _ => true,
        };
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match &expr {
                Expr::Placeholder(placeholder) => match ids.iter().position(|id| *id == placeholder.id) {
                    Some(at) => Ok(Transformed::yes(Expr::Placeholder(Placeholder {
                        id: format!("${}", at + 1),
                        field: placeholder.field.clone(),
                    }))),
                    None => {
                        possible = false;
                        Ok(Transformed::no(expr))
                    }
                },
                _ => Ok(Transformed::no(expr)),
            })
        })
    });
    let numbered = numbered?.data;
    if !possible {
        return Ok(None);
    }
    // What cannot be planned without values may well be with them.
    let Ok(plan) = optimized(numbered, state) else {
        return Ok(None);
    };
    let Ok(Some(plan)) = opened(plan) else { return Ok(None) };
    let Ok(plan) = optimizer::physical(&plan, state).await else {
        return Ok(None);
    };
    let usable = is_fillable(&plan)? && !shares_state(&plan);
    Ok(usable.then_some(plan))
}

/// The analyzed plan optimized.
fn optimized(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    optimizer::prepared(passes::optimized_analyzed(state, plan)?)
}

/// A plan with values in place of placeholders, also inside the subqueries that its nodes run row by row. Rows that are
/// kept for these values serve no others.
fn filled(plan: LogicalPlan, ids: &[String], values: &[ScalarValue]) -> Result<LogicalPlan> {
    let mut kept = HashMap::new();
    changing(&plan, ids, &mut kept)?;
    fill(plan, ids, values, &mut kept)
}

/// New rows for those that are kept, by the address of the old.
type Kept = HashMap<usize, Arc<crate::pg::nodes::materialized::MaterializedRows>>;

/// Finds the kept rows that depend on the values.
fn changing(plan: &LogicalPlan, ids: &[String], kept: &mut Kept) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Extension(Extension { node }) = node {
            if let Some(apply) = node.as_any().downcast_ref::<Apply>() {
                changing(&apply.subquery, ids, kept)?;
            }
            if let Some(rows) = node.as_any().downcast_ref::<Materialized>()
                && mentions(&rows.input, ids)?
            {
                kept.entry(Arc::as_ptr(&rows.rows) as usize).or_default();
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn mentions(plan: &LogicalPlan, ids: &[String]) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Extension(Extension { node }) = node
            && let Some(apply) = node.as_any().downcast_ref::<Apply>()
        {
            found = found || mentions(&apply.subquery, ids)?;
        }
        node.apply_expressions(|expr| {
            found = found
                || expr.exists(|expr| {
                    Ok(matches!(expr, Expr::Placeholder(placeholder) if ids.contains(&placeholder.id)))
                })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

fn fill(plan: LogicalPlan, ids: &[String], values: &[ScalarValue], kept: &mut Kept) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        if let LogicalPlan::Extension(Extension { node: own }) = &node {
            if let Some(apply) = own.as_any().downcast_ref::<Apply>() {
                let subquery = fill(apply.subquery.as_ref().clone(), ids, values, kept)?;
                let mark = apply.mark().filter(|_| apply.kind == ApplyKind::Mark);
                let bindings = apply.bindings.iter().map(|binding| {
                    Ok(Binding {
                        value: value_filled(binding.value.clone(), ids, values)?.data,
                        id: binding.id.clone(),
                    })
                });
                let bindings = bindings.collect::<Result<_>>()?;
                let again = Apply::new(apply.left.clone(), Arc::new(subquery), bindings, apply.kind, mark)?;
                return Ok(Transformed::yes(LogicalPlan::Extension(Extension {
                    node: Arc::new(again),
                })));
            }
            if let Some(rows) = own.as_any().downcast_ref::<Materialized>() {
                let own = kept.get(&(Arc::as_ptr(&rows.rows) as usize));
                let own = own.unwrap_or(&rows.rows).clone();
                return Ok(Transformed::yes(rows.with_rows(own)));
            }
        }
        let filled = node.map_expressions(|expr| value_filled(expr, ids, values))?;
        Ok(filled)
    })
    .data()
}

fn value_filled(expr: Expr, ids: &[String], values: &[ScalarValue]) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match &expr {
        Expr::Placeholder(Placeholder { id, field }) => match ids.iter().position(|known| known == id) {
            Some(at) => {
                let metadata = field
                    .as_ref()
                    .filter(|field| !field.metadata().is_empty())
                    .map(|field| FieldMetadata::from(field.metadata().clone()));
                Ok(Transformed::yes(Expr::Literal(values[at].clone(), metadata)))
            }
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    })
}

/// The subquery, ready for values.
struct Inner {
    subquery: LogicalPlan,
    ids: Vec<String>,
    open: Option<Arc<dyn ExecutionPlan>>,
    /// For many rows at once.
    together: Lazy,
    volatile: bool,
    state: SessionState,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inner")
    }
}

impl Inner {
    async fn run(&self, values: &[ScalarValue], context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let plan = match &self.open {
            Some(open) => fresh(open, Some(values))?,
            None => {
                let plan = filled(self.subquery.clone(), &self.ids, values)?;
                let plan = optimized(plan, &self.state)?;
                Box::pin(optimizer::physical(&plan, &self.state)).await?
            }
        };
        // Nodes know the runs of a plan apart by their context.
        let context = match &self.open {
            Some(_) => task(&self.state),
            None => context.clone(),
        };
        execute_stream(plan, context)
    }
}

#[derive(Debug)]
struct ApplyExec {
    input: Arc<dyn ExecutionPlan>,
    inner: Arc<Inner>,
    values: Vec<Arc<dyn PhysicalExpr>>,
    kind: ApplyKind,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ApplyExec {
    fn new(
        input: Arc<dyn ExecutionPlan>,
        inner: Arc<Inner>,
        values: Vec<Arc<dyn PhysicalExpr>>,
        kind: ApplyKind,
        schema: SchemaRef,
    ) -> Self {
        let order = input.output_ordering().cloned();
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, order.map(|order| order.into_iter())),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            inner,
            values,
            kind,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for ApplyExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ApplyExec: {:?}", self.kind)
    }
}

impl ExecutionPlan for ApplyExec {
    fn name(&self) -> &str {
        "ApplyExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for value in &self.values {
            if f(value)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(Self::new(
                input,
                self.inner.clone(),
                self.values.clone(),
                self.kind,
                self.schema(),
            ))),
            None => internal_err!("ApplyExec has one input"),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut input = self.input.execute(partition, context.clone())?;
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema(), 2);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let mut running = Running {
            inner: self.inner.clone(),
            kind: self.kind,
            schema: self.schema(),
            rows_most: context.session_config().batch_size(),
            memo: Memo::new(&context),
            context,
            output: builder.tx(),
            metrics,
        };
        let values = self.values.clone();
        builder.spawn(async move {
            if running.inner.together.is_possible() {
                return running.all(input, &values).await;
            }
            while let Some(batch) = input.next().await {
                if !running.batch(batch?, &values).await? {
                    break;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }
}

/// What earlier values gave, as far as memory goes.
struct Memo {
    found: HashMap<Vec<ScalarValue>, Arc<Vec<RecordBatch>>>,
    reservation: datafusion::execution::memory_pool::MemoryReservation,
}

/// Bytes that a memo may hold.
const MEMO_BYTES_MAX: usize = 16 << 20;

impl Memo {
    fn new(context: &TaskContext) -> Self {
        Self {
            found: HashMap::new(),
            reservation: MemoryConsumer::new("subquery").register(context.memory_pool()),
        }
    }

    fn keep(&mut self, values: Vec<ScalarValue>, batches: Arc<Vec<RecordBatch>>) {
        let bytes = 256
            + values.iter().map(ScalarValue::size).sum::<usize>()
            + batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        if self.reservation.size() + bytes <= MEMO_BYTES_MAX && self.reservation.try_grow(bytes).is_ok() {
            self.found.insert(values, batches);
        }
    }
}

struct Running {
    inner: Arc<Inner>,
    kind: ApplyKind,
    schema: SchemaRef,
    rows_most: usize,
    context: Arc<TaskContext>,
    memo: Memo,
    output: Sender<Result<RecordBatch>>,
    metrics: BaselineMetrics,
}

/// Rows on their way out: rows of the input, and what stands beside each.
#[derive(Default)]
struct Pending {
    rows: Vec<u32>,
    /// The subquery's rows, and how many NULL rows follow them.
    beside: Vec<Beside>,
    marks: Vec<bool>,
}

enum Beside {
    Rows(RecordBatch),
    Nulls(usize),
}

/// The most that a memo's entry is gathered to.
const MEMO_ROWS_MAX: usize = 1024;

impl Running {
    /// False where nobody waits for more.
    async fn batch(&mut self, batch: RecordBatch, values: &[Arc<dyn PhysicalExpr>]) -> Result<bool> {
        let count = batch.num_rows();
        let arrays = values
            .iter()
            .map(|value| value.evaluate(&batch)?.into_array(count))
            .collect::<Result<Vec<ArrayRef>>>()?;
        let guard = self.inner.ids.iter().position(|id| id == GUARD);
        let mut pending = Pending::default();
        for row in 0..count {
            tokio::task::coop::consume_budget().await;
            let key = arrays
                .iter()
                .map(|array| ScalarValue::try_from_array(array, row))
                .collect::<Result<Vec<_>>>()?;
            if guard.is_some_and(|at| key[at] != ScalarValue::Boolean(Some(true))) {
                self.end_row(row, false, &mut pending);
                continue;
            }
            if let Some(known) = self.memo.found.get(&key).cloned() {
                let mut any = false;
                for beside in known.iter() {
                    any = true;
                    if !self.add(&batch, row, beside.clone(), &mut pending).await? {
                        return Ok(false);
                    }
                }
                self.end_row(row, any, &mut pending);
                continue;
            }
            let mut stream = self.inner.run(&key, &self.context).await?;
            let (mut any, mut gathered, mut rows) = (false, Vec::new(), 0);
            while let Some(beside) = stream.next().await {
                let beside = beside?;
                if beside.num_rows() == 0 {
                    continue;
                }
                any = true;
                rows += beside.num_rows();
                if rows <= MEMO_ROWS_MAX {
                    gathered.push(beside.clone());
                }
                if !self.add(&batch, row, beside, &mut pending).await? {
                    return Ok(false);
                }
                if self.kind == ApplyKind::Mark {
                    break;
                }
            }
            drop(stream);
            self.end_row(row, any, &mut pending);
            if !self.inner.volatile && rows <= MEMO_ROWS_MAX {
                self.memo.keep(key, Arc::new(gathered));
            }
            if pending.rows.len() >= self.rows_most && !self.send(&batch, &mut pending).await? {
                return Ok(false);
            }
        }
        self.send(&batch, &mut pending).await
    }

    async fn add(
        &mut self,
        input: &RecordBatch,
        row: usize,
        beside: RecordBatch,
        pending: &mut Pending,
    ) -> Result<bool> {
        if self.kind == ApplyKind::Mark {
            return Ok(true);
        }
        pending.rows.extend(std::iter::repeat_n(row as u32, beside.num_rows()));
        pending.beside.push(Beside::Rows(beside));
        if pending.rows.len() >= self.rows_most {
            return self.send(input, pending).await;
        }
        Ok(true)
    }

    fn end_row(&self, row: usize, any: bool, pending: &mut Pending) {
        match self.kind {
            ApplyKind::Inner => {}
            ApplyKind::Left if any => {}
            ApplyKind::Left => {
                pending.rows.push(row as u32);
                match pending.beside.last_mut() {
                    Some(Beside::Nulls(count)) => *count += 1,
                    _ => pending.beside.push(Beside::Nulls(1)),
                }
            }
            ApplyKind::Mark => {
                pending.rows.push(row as u32);
                pending.marks.push(any);
            }
        }
    }

    async fn send(&mut self, input: &RecordBatch, pending: &mut Pending) -> Result<bool> {
        let Pending { rows, beside, marks } = std::mem::take(pending);
        let count = rows.len();
        if count == 0 {
            return Ok(true);
        }
        let rows = UInt32Array::from(rows);
        let mut columns = input
            .columns()
            .iter()
            .map(|column| pick(column, &rows))
            .collect::<Result<Vec<_>>>()?;
        match self.kind {
            ApplyKind::Mark => columns.push(Arc::new(BooleanArray::from(marks))),
            ApplyKind::Inner | ApplyKind::Left => columns.extend(self.beside(columns.len(), beside)?),
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        self.metrics.record_output(count);
        Ok(self.output.send(Ok(batch)).await.is_ok())
    }

    fn beside(&self, from: usize, pieces: Vec<Beside>) -> Result<Vec<ArrayRef>> {
        let schema = Arc::new(Schema::new(self.schema.fields()[from..].to_vec()));
        let batches = pieces.into_iter().map(|piece| {
            let (count, columns) = match piece {
                Beside::Rows(batch) => (batch.num_rows(), batch.columns().to_vec()),
                Beside::Nulls(count) => {
                    let nulls = schema
                        .fields()
                        .iter()
                        .map(|field| new_null_array(field.data_type(), count));
                    (count, nulls.collect())
                }
            };
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
        });
        let batches = batches.collect::<Result<Vec<_>>>()?;
        let all = concat_batches(&batches)?.unwrap_or_else(|| RecordBatch::new_empty(schema));
        Ok(all.columns().to_vec())
    }
}
