//! LIMIT and OFFSET that are known only when the query runs.

use crate::pg::error::{SqlError, SqlState};
use crate::pg::errors::to_datafusion;
use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef, Result, ScalarValue, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore, cast,
};
use datafusion::physical_expr::{EquivalenceProperties, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::TryStreamExt;
use std::fmt;
use std::sync::Arc;

/// Rows of the input after `skip`, at most `fetch`; NULL is no bound.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) struct LimitByValue {
    input: LogicalPlan,
    skip: Expr,
    fetch: Expr,
}

impl LimitByValue {
    pub fn plan(input: LogicalPlan, skip: Option<Expr>, fetch: Option<Expr>) -> LogicalPlan {
        let count = |expr: Option<Expr>| match expr {
            Some(expr) => cast(expr, DataType::Int64),
            None => Expr::Literal(ScalarValue::Int64(None), None),
        };
        let node = Arc::new(Self {
            input,
            skip: count(skip),
            fetch: count(fetch),
        });
        LogicalPlan::Extension(Extension { node })
    }
}

impl UserDefinedLogicalNodeCore for LimitByValue {
    fn name(&self) -> &str {
        "LimitByValue"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.skip.clone(), self.fetch.clone()]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Limit: skip={}, fetch={}", self.skip, self.fetch)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (<[Expr; 2]>::try_from(exprs), inputs.pop()) {
            (Ok([skip, fetch]), Some(input)) => Ok(Self {
                input,
                skip: skip.unalias(),
                fetch: fetch.unalias(),
            }),
            _ => internal_err!("a limit has two bounds and one input"),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}

pub(crate) fn is_limit_by_value(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Extension(Extension { node }) if node.as_any().is::<LimitByValue>())
}

pub(crate) struct LimitPlanner;

#[async_trait]
impl ExtensionPlanner for LimitPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [input]) = (node.as_any().downcast_ref::<LimitByValue>(), inputs) else {
            return Ok(None);
        };
        let physical = |expr: &Expr| planner.create_physical_expr(expr, &DFSchema::empty(), session, context);
        let bounds = [physical(&node.skip)?, physical(&node.fetch)?];
        Ok(Some(Arc::new(LimitByValueExec::new(input.clone(), bounds))))
    }
}

#[derive(Debug)]
pub(crate) struct LimitByValueExec {
    input: Arc<dyn ExecutionPlan>,
    /// Skip and fetch.
    bounds: [Arc<dyn PhysicalExpr>; 2],
    properties: Arc<PlanProperties>,
}

impl LimitByValueExec {
    fn new(input: Arc<dyn ExecutionPlan>, bounds: [Arc<dyn PhysicalExpr>; 2]) -> Self {
        let order = input.output_ordering().cloned();
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(input.schema(), order.map(|order| order.into_iter())),
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            bounds,
            properties: Arc::new(properties),
        }
    }

    /// The same with other bounds.
    pub fn with_bounds_changed(
        &self,
        change: impl Fn(Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let [skip, fetch] = self.bounds.clone();
        Ok(Self::new(self.input.clone(), [change(skip)?, change(fetch)?]))
    }

    /// How many rows to leave out, and how many there are to be after them.
    pub fn rows(&self) -> Result<(usize, usize)> {
        rows(&self.bounds)
    }
}

fn rows([skip, fetch]: &[Arc<dyn PhysicalExpr>; 2]) -> Result<(usize, usize)> {
    Ok((
        bound(skip, "2201X", "OFFSET")?.unwrap_or(0),
        bound(fetch, "2201W", "LIMIT")?.unwrap_or(usize::MAX),
    ))
}

impl DisplayAs for LimitByValueExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "LimitByValueExec")
    }
}

/// A bound's value; None: there is none.
fn bound(expr: &Arc<dyn PhysicalExpr>, state: &'static str, what: &str) -> Result<Option<usize>> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    let value = expr.evaluate(&row)?.into_array(1)?;
    match ScalarValue::try_from_array(&value, 0)? {
        ScalarValue::Int64(Some(value)) if value < 0 => {
            let message = format!("{what} must not be negative");
            Err(to_datafusion(SqlError::new(SqlState(state), message)))
        }
        ScalarValue::Int64(value) => Ok(value.map(|value| value as usize)),
        other => internal_err!("a limit of type {}", other.data_type()),
    }
}

impl ExecutionPlan for LimitByValueExec {
    fn name(&self) -> &str {
        "LimitByValueExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    /// The rows that are left depend on the order, so the one that there is must stay.
    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let order = self.input.output_ordering().cloned();
        vec![order.map(OrderingRequirements::from)]
    }

    /// It does, but an order that is asked for above must not go below.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for bound in &self.bounds {
            if f(bound)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(Self::new(input, self.bounds.clone()))),
            None => internal_err!("LimitByValueExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let bounds = self.bounds.clone();
        let stream = futures::stream::try_unfold((input, None), move |(mut input, left)| {
            let bounds = bounds.clone();
            async move {
                let (mut skip, mut fetch) = left.map_or_else(|| rows(&bounds), Ok)?;
                while fetch > 0 {
                    let Some(batch) = input.try_next().await? else { break };
                    let skipped = skip.min(batch.num_rows());
                    skip -= skipped;
                    let taken = (batch.num_rows() - skipped).min(fetch);
                    fetch -= taken;
                    if taken > 0 {
                        return Ok(Some((batch.slice(skipped, taken), (input, Some((skip, fetch))))));
                    }
                }
                Ok(None)
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}
