//! Rows of which all columns are made, whoever reads them: functions in them do something.

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use std::fmt;
use std::sync::Arc;

/// The input, whose columns no rule leaves out. Nothing runs for it.
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
            (true, [input]) => Ok(Some(input.clone())),
            _ => Ok(None),
        }
    }
}
