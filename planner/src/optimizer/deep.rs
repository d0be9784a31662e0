//! Plans whose subqueries stand deep in each other.
//!
//! DataFusion checks a plan with its subqueries, and each of these with its own once more: time by two to the power of their
//! depth, in which nothing can be cancelled. Here each subquery is checked once.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::logical_plan::check_subquery_expr;
use datafusion::logical_expr::{Expr, InvariantLevel, LogicalPlan, Subquery, lit};
use std::sync::Arc;

/// Subqueries in each other that DataFusion checks fast enough.
const DEPTH_MAX: usize = 4;

/// What DataFusion checks of a plan that can be executed.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    match is_deep(plan)? {
        true => check_once(plan),
        false => plan.check_invariants(InvariantLevel::Executable),
    }
}

fn subquery(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(InSubquery { subquery, .. }) => Some(subquery),
        Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// Calls `f` with each subquery in the expressions of a node.
fn each_subquery(node: &LogicalPlan, mut f: impl FnMut(&Expr, &Subquery) -> Result<()>) -> Result<TreeNodeRecursion> {
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Some(subquery) = subquery(expr) {
                f(expr, subquery)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })
}

fn is_deep(plan: &LogicalPlan) -> Result<bool> {
    fn depth(plan: &LogicalPlan) -> Result<usize> {
        let mut deepest = 0;
        plan.apply(|node| {
            each_subquery(node, |_, subquery| {
                deepest = deepest.max(1 + depth(&subquery.subquery)?);
                Ok(())
            })
        })?;
        Ok(deepest)
    }
    Ok(depth(plan)? > DEPTH_MAX)
}

/// The same, of each subquery once.
fn check_once(plan: &LogicalPlan) -> Result<()> {
    plan.schema().check_names()?;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Extension(extension) = node {
            extension.node.check_invariants(InvariantLevel::Always)?;
            extension.node.check_invariants(InvariantLevel::Executable)?;
        }
        each_subquery(node, |expr, subquery| {
            check_subquery_expr(node, &bare(&subquery.subquery)?, expr)
        })
    })?;
    Ok(())
}

/// A plan with constants in the places of its subqueries.
fn bare(plan: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let constant = |expr: Expr| {
        Ok(match expr {
            Expr::ScalarSubquery(subquery) => {
                let of = subquery.subquery.schema().field(0).data_type();
                Transformed::yes(lit(ScalarValue::try_from(of)?))
            }
            Expr::Exists(_) => Transformed::yes(lit(true)),
            Expr::InSubquery(InSubquery { expr, .. }) | Expr::SetComparison(SetComparison { expr, .. }) => {
                Transformed::yes(Expr::IsNull(expr))
            }
            other => Transformed::no(other),
        })
    };
    let bare = plan
        .as_ref()
        .clone()
        .transform_up(|node| node.map_expressions(|expr| expr.transform_up(constant)))?;
    Ok(bare.data)
}
