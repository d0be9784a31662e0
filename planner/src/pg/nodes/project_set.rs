//! Rows of set-returning functions, side by side: for each row of the input as many rows as its longest set has, the
//! shorter ones filled up with NULL.
//!
//! More than 400 lines because the logical node, the physical one and the loop over sets share their fields.

use crate::pg::functions::sets::{SetFunctionRef, SetRows, UNNEST};
use async_trait::async_trait;
use datafusion::arrow::array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::TryStreamExt;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use tenon_storage::datetime::Conventions;

/// A call of a set function; its values are the column of that name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SetCall {
    pub function: SetFunctionRef,
    pub args: Vec<Expr>,
    pub field: FieldRef,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProjectSet {
    input: LogicalPlan,
    calls: Vec<SetCall>,
    /// A row whose sets are all empty is kept, with NULLs.
    outer: bool,
    schema: DFSchemaRef,
}

impl PartialOrd for ProjectSet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|_| self == other)
    }
}

impl ProjectSet {
    /// The input's columns with those of the calls behind them.
    pub fn plan(input: LogicalPlan, calls: Vec<SetCall>, outer: bool) -> Result<LogicalPlan> {
        let node = Arc::new(Self::new(input, calls, outer)?);
        Ok(LogicalPlan::Extension(Extension { node }))
    }

    fn new(input: LogicalPlan, calls: Vec<SetCall>, outer: bool) -> Result<Self> {
        let mut fields: Vec<_> = input
            .schema()
            .iter()
            .map(|(qualifier, field)| (qualifier.cloned(), field.clone()))
            .collect();
        fields.extend(calls.iter().map(|call| (None, call.field.clone())));
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(Self {
            input,
            calls,
            outer,
            schema: Arc::new(schema),
        })
    }
}

impl UserDefinedLogicalNodeCore for ProjectSet {
    fn name(&self) -> &str {
        "ProjectSet"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.calls.iter().flat_map(|call| call.args.iter().cloned()).collect()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.calls.iter().map(|call| call.field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<&str> = self.calls.iter().map(|call| call.function.0.name()).collect();
        write!(f, "ProjectSet: {}", names.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(input) = inputs.pop() else {
            return internal_err!("ProjectSet has one input");
        };
        let mut exprs = exprs.into_iter().map(Expr::unalias);
        let calls = self.calls.iter().map(|call| SetCall {
            args: exprs.by_ref().take(call.args.len()).collect(),
            ..call.clone()
        });
        Self::new(input, calls.collect(), self.outer)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|&at| at < width).collect()])
    }
}

pub(crate) struct ProjectSetPlanner;

#[async_trait]
impl ExtensionPlanner for ProjectSetPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [input]) = (node.as_any().downcast_ref::<ProjectSet>(), inputs) else {
            return Ok(None);
        };
        let physical = |arg: &Expr| planner.create_physical_expr(arg, node.input.schema(), session, context);
        let mut calls = Vec::with_capacity(node.calls.len());
        for call in &node.calls {
            calls.push(Call {
                function: call.function.clone(),
                args: call.args.iter().map(physical).collect::<Result<_>>()?,
                field: call.field.clone(),
            });
        }
        Ok(Some(Arc::new(ProjectSetExec::new(
            input.clone(),
            calls.into(),
            node.outer,
        ))))
    }
}

#[derive(Debug)]
struct Call {
    function: SetFunctionRef,
    args: Vec<Arc<dyn PhysicalExpr>>,
    field: FieldRef,
}

#[derive(Debug)]
pub(crate) struct ProjectSetExec {
    input: Arc<dyn ExecutionPlan>,
    calls: Arc<[Call]>,
    outer: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ProjectSetExec {
    fn new(input: Arc<dyn ExecutionPlan>, calls: Arc<[Call]>, outer: bool) -> Self {
        let mut fields: Vec<FieldRef> = input.schema().fields().iter().cloned().collect();
        fields.extend(calls.iter().map(|call| call.field.clone()));
        let schema = Arc::new(Schema::new_with_metadata(fields, input.schema().metadata().clone()));
        // The rows of one input row follow each other.
        let order = input.output_ordering().cloned();
        let order = EquivalenceProperties::new_with_orderings(schema, order.map(|order| order.into_iter()));
        let properties = PlanProperties::new(
            order,
            datafusion::physical_plan::Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            calls,
            outer,
            properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl ProjectSetExec {
    /// Whether its sets are the items of arrays, which take a short time each.
    pub fn is_of_items(&self) -> bool {
        let of_items = |call: &Call| call.function.0.is_ordinality() || call.function.0.name() == UNNEST;
        self.calls.iter().all(of_items)
    }

    /// Its rows for these of its input, with arguments that `change` makes; None: they are more than `rows_max`.
    pub fn few(
        &self,
        batches: Vec<RecordBatch>,
        change: impl Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
        rows_max: usize,
    ) -> Result<Option<Vec<RecordBatch>>> {
        let mut running = Running {
            calls: changed(&self.calls, change)?,
            outer: self.outer,
            schema: self.schema(),
            rows_most: rows_max + 1,
            current: None,
            conventions: Arc::default(),
            metrics: BaselineMetrics::new(&self.metrics, 0),
        };
        let (mut rows, mut given) = (0, vec![]);
        for batch in batches {
            running.enter(batch)?;
            while running.current.is_some() {
                let batch = running.next()?;
                rows += batch.num_rows();
                given.push(batch);
                if rows > rows_max {
                    return Ok(None);
                }
            }
        }
        Ok(Some(given))
    }
}

fn changed(
    calls: &[Call],
    change: impl Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
) -> Result<Arc<[Call]>> {
    let changed = calls.iter().map(|call| {
        Ok(Call {
            function: call.function.clone(),
            args: call.args.iter().map(&change).collect::<Result<_>>()?,
            field: call.field.clone(),
        })
    });
    changed.collect()
}

/// A physical ProjectSet with its arguments changed; None: the plan is another node.
pub(crate) fn with_args_changed(
    plan: &Arc<dyn ExecutionPlan>,
    change: impl Fn(Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
) -> Option<Result<Arc<dyn ExecutionPlan>>> {
    let own = plan.downcast_ref::<ProjectSetExec>()?;
    let calls = changed(&own.calls, |arg| change(arg.clone()));
    Some(calls.map(|calls| Arc::new(ProjectSetExec::new(own.input.clone(), calls, own.outer)) as _))
}

impl DisplayAs for ProjectSetExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ProjectSetExec")
    }
}

impl ExecutionPlan for ProjectSetExec {
    fn name(&self) -> &str {
        "ProjectSetExec"
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

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for arg in self.calls.iter().flat_map(|call| &call.args) {
            if f(arg)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(Self::new(input, self.calls.clone(), self.outer))),
            None => internal_err!("ProjectSetExec has one input"),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let running = Running {
            calls: self.calls.clone(),
            outer: self.outer,
            schema: self.schema(),
            rows_most: context.session_config().batch_size(),
            current: None,
            conventions: crate::pg::conventions::of(context.session_config().options()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let stream = futures::stream::try_unfold((running, input), |(mut running, mut input)| async move {
            loop {
                // A series waits for nothing: without this it would never give its thread back.
                tokio::task::coop::consume_budget().await;
                if running.current.is_none() {
                    match input.try_next().await? {
                        Some(batch) => running.enter(batch)?,
                        None => return Ok(None),
                    }
                }
                let batch = running.next()?;
                if batch.num_rows() > 0 {
                    running.metrics.record_output(batch.num_rows());
                    return Ok(Some((batch, (running, input))));
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}

struct Running {
    calls: Arc<[Call]>,
    outer: bool,
    schema: SchemaRef,
    rows_most: usize,
    current: Option<Current>,
    metrics: BaselineMetrics,
    conventions: Arc<Conventions>,
}

/// A batch of the input.
struct Current {
    batch: RecordBatch,
    args: Vec<Vec<ArrayRef>>,
    row: usize,
    sets: Option<Sets>,
}

/// The sets of one row. None: has ended.
struct Sets {
    rows: Vec<Option<Box<dyn SetRows>>>,
    /// Rows given so far.
    given: usize,
}

/// A batch in the making.
struct Output {
    rows: Vec<u32>,
    columns: Vec<Vec<ArrayRef>>,
}

impl Running {
    fn enter(&mut self, batch: RecordBatch) -> Result<()> {
        let count = batch.num_rows();
        let evaluate = |arg: &Arc<dyn PhysicalExpr>| arg.evaluate(&batch)?.into_array(count);
        let args = self
            .calls
            .iter()
            .map(|call| call.args.iter().map(evaluate).collect::<Result<Vec<_>>>())
            .collect::<Result<Vec<_>>>()?;
        self.current = Some(Current {
            batch,
            args,
            row: 0,
            sets: None,
        });
        Ok(())
    }

    /// The next rows of the current batch, none at its end.
    fn next(&mut self) -> Result<RecordBatch> {
        let mut output = Output {
            rows: Vec::new(),
            columns: vec![Vec::new(); self.calls.len()],
        };
        let Some(mut current) = self.current.take() else {
            return Ok(RecordBatch::new_empty(self.schema.clone()));
        };
        while current.row < current.batch.num_rows() && output.rows.len() < self.rows_most {
            let mut sets = match current.sets.take() {
                Some(sets) => sets,
                None => self.sets(&current)?,
            };
            let wanted = self.rows_most - output.rows.len();
            let given = self.piece(&mut sets, wanted, current.row, &mut output)?;
            if given == wanted {
                current.sets = Some(sets);
            } else {
                current.row += 1;
            }
        }
        let batch = self.finish(&current.batch, output)?;
        if current.row < current.batch.num_rows() {
            self.current = Some(current);
        }
        Ok(batch)
    }

    fn sets(&self, current: &Current) -> Result<Sets> {
        let open = |(call, args): (&Call, &Vec<ArrayRef>)| {
            let null = call.function.0.is_strict() && args.iter().any(|arg| arg.is_null(current.row));
            if null || call.function.0.is_ordinality() {
                return Ok(None);
            }
            call.function.0.rows_by(args, current.row, &self.conventions).map(Some)
        };
        Ok(Sets {
            rows: self.calls.iter().zip(&current.args).map(open).collect::<Result<_>>()?,
            given: 0,
        })
    }

    /// Up to so many rows of the sets; fewer where they end.
    fn piece(&self, sets: &mut Sets, wanted: usize, row: usize, output: &mut Output) -> Result<usize> {
        let mut pieces: Vec<Option<ArrayRef>> = Vec::with_capacity(sets.rows.len());
        for rows in &mut sets.rows {
            let piece = match rows {
                Some(open) => Some(open.next(wanted)?),
                None => None,
            };
            if piece.as_ref().is_some_and(|piece| piece.len() < wanted) {
                *rows = None;
            }
            pieces.push(piece);
        }
        let mut count = pieces.iter().flatten().map(|piece| piece.len()).max().unwrap_or(0);
        let given = count;
        let kept = self.outer && count == 0 && sets.given == 0;
        if kept {
            count = 1;
        }
        if count == 0 {
            return Ok(0);
        }
        for ((call, piece), column) in self.calls.iter().zip(pieces).zip(&mut output.columns) {
            if call.function.0.is_ordinality() && !kept {
                let first = sets.given as i64 + 1;
                column.push(Arc::new(Int64Array::from_iter_values(first..first + count as i64)));
                continue;
            }
            let own = piece.as_ref().map_or(0, |piece| piece.len());
            column.extend(piece.filter(|piece| !piece.is_empty()));
            if own < count {
                column.push(new_null_array(call.field.data_type(), count - own));
            }
        }
        output.rows.extend(std::iter::repeat_n(row as u32, count));
        sets.given += count;
        Ok(given)
    }

    fn finish(&self, input: &RecordBatch, output: Output) -> Result<RecordBatch> {
        let count = output.rows.len();
        if count == 0 {
            return Ok(RecordBatch::new_empty(self.schema.clone()));
        }
        let rows = UInt32Array::from(output.rows);
        let mut columns = input
            .columns()
            .iter()
            .map(|column| take(column, &rows, None))
            .collect::<Result<Vec<_>, _>>()?;
        for (call, pieces) in self.calls.iter().zip(output.columns) {
            let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
            columns.push(match pieces.as_slice() {
                [] => new_null_array(call.field.data_type(), count),
                pieces => concat(pieces)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            columns,
            &options,
        )?)
    }
}
