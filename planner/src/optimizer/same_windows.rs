//! Window functions that are the same under two names, as after `count(coalesce(b)) OVER ()` was simplified beside
//! `count(b) OVER ()`, are computed once. DataFusion's rule for what expressions have in common (55.2) would compute them in a
//! projection below, where there are none. What it computes for the keys of windows that have these in common is a column of one
//! name in some of them and of another in others, so that they would not be one window any more.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::logical_plan::{Projection, Window};
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::sync::Arc;

/// Computes window functions once that are there more than once, in a node or those right below it.
pub(super) fn once(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Window(window) => in_window(window),
        other => Ok(Transformed::no(other)),
    })
}

fn in_window(window: Window) -> Result<Transformed<LogicalPlan>> {
    // What is computed, and the name of the column that has it.
    let mut known: Vec<(Expr, String)> = Vec::new();
    let mut below = window.input.as_ref();
    while let LogicalPlan::Window(other) = below {
        known.extend(other.window_expr.iter().map(named));
        below = other.input.as_ref();
    }
    let (mut kept, mut same) = (Vec::with_capacity(window.window_expr.len()), Vec::new());
    for expr in &window.window_expr {
        let (computed, name) = named(expr);
        let found = known
            .iter()
            .find(|(other, _)| *other == computed && !other.is_volatile());
        match found {
            Some((_, first)) => same.push((name, first.clone())),
            None => {
                kept.push(expr.clone());
                known.push((computed, name));
            }
        }
    }
    if same.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let Window { input, schema, .. } = window;
    let inputs = input.schema().fields().len();
    let columns = schema.iter().enumerate().map(|(at, (qualifier, field))| {
        let again = same.iter().find(|(name, _)| at >= inputs && name == field.name());
        match again {
            Some((name, first)) => Expr::Column(Column::new_unqualified(first)).alias(name),
            None => Expr::Column(Column::new(qualifier.cloned(), field.name())),
        }
    });
    let columns = columns.collect();
    let input = match kept.is_empty() {
        true => input,
        false => Arc::new(LogicalPlan::Window(Window::try_new(kept, input)?)),
    };
    let projection = Projection::try_new_with_schema(columns, input, schema)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// Takes the names off the keys of windows.
pub(super) fn without_names(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Window(mut window) = node else {
            return Ok(Transformed::no(node));
        };
        let mut changed = false;
        for expr in &mut window.window_expr {
            let (_, name) = expr.qualified_name();
            let mut bare = expr.clone().unalias();
            let Expr::WindowFunction(function) = &mut bare else {
                continue;
            };
            let params = &mut function.params;
            let order = params.order_by.iter_mut().map(|key| &mut key.expr);
            let keys = params.partition_by.iter_mut().chain(order);
            let named = keys.filter(|key| matches!(key, Expr::Alias(_)));
            let bared = named.map(|key| *key = std::mem::take(key).unalias()).count();
            if bared > 0 {
                changed = true;
                *expr = match bare.qualified_name().1 == name {
                    true => bare,
                    false => bare.alias(name),
                };
            }
        }
        Ok(Transformed::new_transformed(LogicalPlan::Window(window), changed))
    })
}

fn named(expr: &Expr) -> (Expr, String) {
    (expr.clone().unalias(), expr.qualified_name().1)
}
