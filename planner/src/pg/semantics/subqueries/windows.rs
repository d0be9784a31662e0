//! Window functions in a correlated subquery. Decorrelation tests the correlated condition above them, where the rows of
//! all outer rows are together: so each function's partitions are those that the condition tells apart.

use super::domain::is_equality;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Window};
use std::sync::Arc;

pub(super) fn partitioned(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        let LogicalPlan::Window(window) = node else {
            return Ok(Transformed::no(node));
        };
        let keys = keys(&window.input)?;
        if keys.is_empty() {
            return Ok(Transformed::no(LogicalPlan::Window(window)));
        }
        let exprs = window.window_expr.into_iter().map(|expr| by(expr, &keys));
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        Ok(Transformed::yes(LogicalPlan::Window(Window::try_new(
            exprs,
            window.input,
        )?)))
    })
    .data()
}

/// What the conditions below equate with values of the outer row.
fn keys(plan: &Arc<LogicalPlan>) -> Result<Vec<Expr>> {
    let mut keys: Vec<Expr> = Vec::new();
    plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            for condition in split_conjunction(&filter.predicate) {
                if let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = condition
                    && condition.contains_outer()
                    && is_equality(condition)
                {
                    let own = if left.any_column_refs() { left } else { right };
                    let known = own.column_refs().iter().all(|column| plan.schema().has_column(column));
                    if known && !keys.contains(own) {
                        keys.push(own.as_ref().clone());
                    }
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(keys)
}

/// The function with more to partition by, under its old name.
fn by(expr: Expr, keys: &[Expr]) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let (call, alias): (Box<WindowFunction>, _) = match expr.unalias() {
        Expr::WindowFunction(call) => (call, name),
        other => return Ok(other),
    };
    let mut call = call;
    call.params.partition_by.extend(keys.iter().cloned());
    Ok(Expr::WindowFunction(call).alias(alias))
}
