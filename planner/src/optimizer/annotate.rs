//! Carries estimates from the logical plan, where statistics are understood, into the nodes that run.
//!
//! A join, aggregation or scan that is expected to give so many rows is told so: scans through their table provider,
//! the others through a logical node that stands above them until physical planning and is gone afterwards.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, TableScan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use tenon_executor::aggregate::{GroupExec, GroupSpec};
use tenon_executor::join::JoinExec;
use tenon_executor::node::ExecutorNode;
use tenon_executor::scan::SegmentTable;

use super::estimate::Profile;

/// `input`, which is expected to give `rows` rows.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd)]
struct Expected {
    input: LogicalPlan,
    rows: usize,
    /// Of a join: rows of its left and right input.
    inputs: Option<[usize; 2]>,
}

impl UserDefinedLogicalNodeCore for Expected {
    fn name(&self) -> &str {
        "Expected"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Expected: {} rows", self.rows)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.pop() {
            Some(input) => Ok(Self {
                input,
                rows: self.rows,
                inputs: self.inputs,
            }),
            None => datafusion::common::internal_err!("an expectation has one input"),
        }
    }
}

/// The plan with estimates on its joins, aggregations and filtered scans.
pub fn annotate(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(profiled(plan, None)?.0)
}

/// `alias` is what the node above calls a table.
fn profiled(plan: LogicalPlan, alias: Option<String>) -> Result<(LogicalPlan, Profile)> {
    let plan = plan
        .map_subqueries(|subquery| Ok(Transformed::yes(annotate(subquery)?)))?
        .data;
    let name = match &plan {
        // Names that the optimizer makes up say nothing.
        LogicalPlan::SubqueryAlias(named) => {
            let name = named.alias.table();
            (!name.starts_with("__")).then(|| name.to_string())
        }
        // Between a table and its name there may be filters.
        LogicalPlan::Filter(_) => alias.clone(),
        _ => None,
    };
    let mut inputs = Vec::new();
    let plan = plan.map_children(|child| {
        let (child, profile) = profiled(child, name.clone())?;
        inputs.push(profile);
        Ok(Transformed::yes(child))
    })?;
    let plan = plan.data;
    let whole = |profile: &Profile| profile.rows.clamp(1.0, 1e15).round() as usize;
    let input_rows = match (&plan, inputs.as_slice()) {
        (LogicalPlan::Join(_), [left, right]) => Some([whole(left), whole(right)]),
        _ => None,
    };
    let profile = Profile::over(&plan, inputs);
    let rows = whole(&profile);
    let plan = match plan {
        LogicalPlan::Join(_) | LogicalPlan::Aggregate(_) => LogicalPlan::Extension(Extension {
            node: Arc::new(Expected {
                input: plan,
                rows,
                inputs: input_rows,
            }),
        }),
        LogicalPlan::TableScan(scan) => LogicalPlan::TableScan(expecting(scan, alias, rows)),
        other => other,
    };
    Ok((plan, profile))
}

fn expecting(scan: TableScan, alias: Option<String>, rows: usize) -> TableScan {
    let Ok(provider) = source_as_provider(&scan.source) else {
        return scan;
    };
    match provider.downcast_ref::<SegmentTable>() {
        Some(table) => TableScan {
            source: provider_as_source(Arc::new(table.in_query(alias, rows))),
            ..scan
        },
        None => scan,
    }
}

/// The node below an expectation; other nodes are themselves.
pub fn bare(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Extension(Extension { node }) => match node.as_any().downcast_ref::<Expected>() {
            Some(expected) => &expected.input,
            None => plan,
        },
        other => other,
    }
}

/// Turns an expectation into the node that it is about, told of it.
pub struct ExpectationPlanner;

#[async_trait]
impl ExtensionPlanner for ExpectationPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        match (node.as_any().downcast_ref::<Expected>(), inputs) {
            (Some(expected), [input]) => {
                let input = Arc::clone(input);
                Ok(Some(told(input, expected, session.config_options())?))
            }
            _ => Ok(None),
        }
    }
}

fn told(plan: Arc<dyn ExecutionPlan>, expected: &Expected, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        // Joins on expressions are wrapped in a projection that drops the keys.
        let input = told(Arc::clone(projection.input()), expected, options)?;
        let exprs = projection.expr().iter().cloned();
        return Ok(Arc::new(ProjectionExec::try_new(exprs, input)?));
    }
    let rows = expected.rows;
    let plan = super::replace(plan, options, Some(rows))?;
    let told: Arc<dyn ExecutionPlan> = match ExecutorNode::of(plan.as_ref()) {
        Some(ExecutorNode::Join(join)) => Arc::new(join.with_output(&all(join)).with_estimates(rows, expected.inputs)),
        Some(ExecutorNode::IndexJoin(join)) => Arc::new(join.with_outer(Arc::clone(join.outer())).with_estimate(rows)),
        Some(ExecutorNode::Group(group)) => {
            let own = GroupExec::new(Arc::clone(group.input()), GroupSpec::clone(group.spec()));
            Arc::new(own.with_estimate(rows))
        }
        // Scans are told through their tables.
        Some(
            ExecutorNode::Scan(_) | ExecutorNode::GroupTop(_) | ExecutorNode::Window(_) | ExecutorNode::Offload(_),
        )
        | None => return Ok(plan),
    };
    Ok(told)
}

fn all(join: &JoinExec) -> Vec<usize> {
    (0..join.schema().fields().len()).collect()
}
