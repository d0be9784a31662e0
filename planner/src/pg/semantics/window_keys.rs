//! Keys in OVER that are columns of the rows below its functions.
//!
//! - Volatile ones: each has one value a row, for all windows that are by it and for the first column of the select list that is
//!   the same expression.
//! - Comparisons of what functions give, by which rows are parted: DataFusion (55.2) does not see that rows are ordered by them,
//!   since it knows no bounds of a function's values, not even of their type.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Projection, Window};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct KeysBelowWindows;

impl AnalyzerRule for KeysBelowWindows {
    fn name(&self) -> &str {
        "keys_below_windows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Projection(projection) if matches!(&*projection.input, LogicalPlan::Window(_)) => {
                over_windows(projection)
            }
            node => Ok(Transformed::no(node)),
        })
        .data()
    }
}

fn over_windows(projection: Projection) -> Result<Transformed<LogicalPlan>> {
    let mut windows: Vec<&Window> = Vec::new();
    let mut rows = &projection.input;
    while let LogicalPlan::Window(window) = rows.as_ref() {
        windows.push(window);
        rows = &window.input;
    }
    let mut keys: Vec<Expr> = Vec::new();
    for expr in windows.iter().flat_map(|window| &window.window_expr) {
        for key in keys_of(expr).filter(|key| is_below(key)) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
    }
    if keys.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let columns = rows.schema().columns().into_iter().map(Expr::Column);
    let named = keys.iter().enumerate().map(|(at, key)| key.clone().alias(name(at)));
    let below = Projection::try_new(columns.chain(named).collect(), Arc::clone(rows))?;
    let mut plan = LogicalPlan::Projection(below);
    for window in windows.iter().rev() {
        let node = LogicalPlan::Window((*window).clone());
        let names = NamePreserver::new(&node);
        let exprs = window.window_expr.iter().map(|expr| {
            let own = names.save(expr);
            let expr = expr.clone().transform_up(|expr| Ok(by_columns(expr, &keys)))?.data;
            Ok(own.restore(expr))
        });
        plan = LogicalPlan::Window(Window::try_new(exprs.collect::<Result<_>>()?, Arc::new(plan))?);
    }
    let mut free: Vec<bool> = vec![true; keys.len()];
    let items = projection.expr.iter().map(|item| {
        let bare = item.clone().unalias();
        match keys.iter().position(|key| *key == bare).filter(|&at| free[at]) {
            Some(at) => {
                free[at] = false;
                let (qualifier, own) = item.qualified_name();
                column(at).alias_qualified(qualifier, own)
            }
            None => item.clone(),
        }
    });
    let above = Projection::try_new_with_schema(items.collect(), Arc::new(plan), Arc::clone(&projection.schema))?;
    Ok(Transformed::yes(LogicalPlan::Projection(above)))
}

fn is_below(key: &Expr) -> bool {
    let calls = |expr: &Expr| expr.exists(|expr| Ok(matches!(expr, Expr::ScalarFunction(_))));
    let compares = |expr: &Expr| match expr {
        Expr::BinaryExpr(comparison) => match comparison.op {
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                Ok(calls(&comparison.left)? || calls(&comparison.right)?)
            }
            _ => Ok(false),
        },
        Expr::Between(_) => calls(expr),
        _ => Ok(false),
    };
    key.is_volatile() || key.exists(compares).unwrap_or_default()
}

fn keys_of(expr: &Expr) -> impl Iterator<Item = &Expr> {
    let call = match expr {
        Expr::Alias(alias) => match alias.expr.as_ref() {
            Expr::WindowFunction(call) => Some(call),
            _ => None,
        },
        Expr::WindowFunction(call) => Some(call),
        _ => None,
    };
    let parts = call.into_iter().flat_map(|call| &call.params.partition_by);
    let orders = call.into_iter().flat_map(|call| &call.params.order_by);
    parts.chain(orders.map(|key| &key.expr))
}

/// A window function by columns in the places of its keys.
fn by_columns(mut expr: Expr, keys: &[Expr]) -> Transformed<Expr> {
    let Expr::WindowFunction(call) = &mut expr else {
        return Transformed::no(expr);
    };
    let params = &mut call.params;
    let own = params
        .partition_by
        .iter_mut()
        .chain(params.order_by.iter_mut().map(|key| &mut key.expr));
    let mut changed = false;
    for key in own {
        if let Some(at) = keys.iter().position(|known| known == key) {
            *key = column(at);
            changed = true;
        }
    }
    Transformed::new_transformed(expr, changed)
}

fn column(at: usize) -> Expr {
    Expr::Column(Column::new_unqualified(name(at)))
}

fn name(at: usize) -> String {
    format!("\u{1}key{at}")
}
