//! EXISTS asks whether there is a row: how many of them its subquery keeps, in which order and which of equal ones is nothing to
//! it, and would stand in the way of a join.

use super::shape::calls_sets;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Distinct, Expr, Limit, LogicalPlan};
use std::sync::Arc;

/// The plan whose EXISTS have no LIMIT, ORDER BY and DISTINCT.
pub(super) fn of_any_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match expr {
                Expr::Exists(mut exists) => {
                    let rows = Arc::unwrap_or_clone(exists.subquery.subquery);
                    let rows = any_rows(rows)?;
                    exists.subquery.subquery = Arc::new(rows.data);
                    Ok(Transformed::new_transformed(Expr::Exists(exists), rows.transformed))
                }
                other => Ok(Transformed::no(other)),
            })
        })
    })
    .data()
}

fn any_rows(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if plan.contains_outer_reference() {
        return Ok(Transformed::no(plan));
    }
    let input = match plan {
        LogicalPlan::Limit(limit) if keeps_one(&limit) => limit.input,
        LogicalPlan::Sort(sort) if sort.fetch != Some(0) => sort.input,
        LogicalPlan::Distinct(Distinct::All(input)) => input,
        // A function may give none for the rows that a LIMIT keeps.
        LogicalPlan::Projection(projection) if calls_sets(&projection.expr)? => {
            return Ok(Transformed::no(LogicalPlan::Projection(projection)));
        }
        plan @ LogicalPlan::Projection(_) => return plan.map_children(any_rows),
        plan => return Ok(Transformed::no(plan)),
    };
    any_rows(Arc::unwrap_or_clone(input)).map(|rows| Transformed::yes(rows.data))
}

/// Whether of some rows some are left.
fn keeps_one(limit: &Limit) -> bool {
    let skips_none = limit.skip.as_deref().is_none_or(|skip| number(skip) == Some(0));
    skips_none
        && limit
            .fetch
            .as_deref()
            .is_none_or(|fetch| number(fetch).is_some_and(|n| n > 0))
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Cast(cast) => number(&cast.expr),
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(number)) => number,
            _ => None,
        },
        _ => None,
    }
}
