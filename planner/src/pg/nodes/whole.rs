//! Rows of which all columns are made, whoever reads them: functions in them do something.

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The input, whose columns no rule leaves out.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) struct WholeRows {
    input: LogicalPlan,
}

impl WholeRows {
    pub fn plan(input: LogicalPlan) -> LogicalPlan {
        let node = Arc::new(Self { input });
        LogicalPlan::Extension(Extension { node })
    }

    pub fn is(plan: &LogicalPlan) -> bool {
        matches!(plan, LogicalPlan::Extension(extension) if extension.node.as_any().is::<Self>())
    }
}

impl UserDefinedLogicalNodeCore for WholeRows {
    fn name(&self) -> &str {
        "WholeRows"
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

    /// Conditions go below that are about other columns than those that volatile functions make.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let names = self.input.schema().fields().iter().map(|field| field.name().clone());
        match &self.input {
            LogicalPlan::Projection(made) => {
                let own = names.zip(&made.expr).filter(|(_, expr)| expr.is_volatile());
                own.map(|(name, _)| name).collect()
            }
            _ => names.collect(),
        }
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WholeRows")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.pop() {
            Some(input) => Ok(Self { input }),
            None => internal_err!("WholeRows has one input"),
        }
    }
}

pub(crate) struct WholeRowsPlanner;

#[async_trait]
impl ExtensionPlanner for WholeRowsPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        match (node.as_any().is::<WholeRows>(), inputs) {
            (true, [input]) => Ok(Some(Arc::new(WholeRowsExec::new(input.clone())))),
            _ => Ok(None),
        }
    }
}

/// Hands the input's rows on. Projections above do not go below it.
#[derive(Debug)]
struct WholeRowsExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl WholeRowsExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let order = input.output_ordering().cloned();
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(input.schema(), order.map(|order| order.into_iter())),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for WholeRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WholeRowsExec")
    }
}

impl ExecutionPlan for WholeRowsExec {
    fn name(&self) -> &str {
        "WholeRowsExec"
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
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(Self::new(input))),
            None => internal_err!("WholeRowsExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
