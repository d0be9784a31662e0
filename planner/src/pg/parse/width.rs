//! How many columns a query may have. PostgreSQL (MaxTupleAttributeNumber) has the same limit; here it bounds planning, too,
//! which takes time for each.

use crate::pg::error::{Result, SqlError, state};
use crate::pg::rewrite::function_name;
use crate::pg::walk::{Visit, expressions};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, GroupByExpr, OrderByKind, Query, Select, SetExpr, Statement, Visitor,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Columns of a query, keys of its order and groups, values of a row.
pub(crate) const COLUMNS_MAX: usize = 1664;

/// Different windows of a SELECT: DataFusion (55.2) looks through all of them for each column, for each of them.
const WINDOWS_MAX: usize = 256;

/// 54011 where a list in the statement, whose text has `bytes`, is longer.
pub(super) fn check(tree: &Statement, bytes: usize) -> Result<()> {
    // Two characters an item at the least.
    if bytes / 2 <= COLUMNS_MAX {
        return Ok(());
    }
    match tree.visit(&mut Lists) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The error of a query whose stars stand for too many columns, or whose list is too long.
pub(crate) fn columns(number: usize) -> Result<()> {
    bounded("target lists", number)
}

fn bounded(what: &str, number: usize) -> Result<()> {
    if number <= COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("{what} can have at most {COLUMNS_MAX} entries");
    Err(SqlError::new(state::TOO_MANY_COLUMNS, message))
}

struct Lists;

fn flow(result: Result<()>) -> ControlFlow<SqlError> {
    result.map_or_else(ControlFlow::Break, ControlFlow::Continue)
}

impl Visitor for Lists {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        let keys = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::Expressions(keys)) => keys.len(),
            _ => 0,
        };
        let values = match query.body.as_ref() {
            SetExpr::Values(values) => values.rows.first().map_or(0, |row| row.len()),
            _ => 0,
        };
        flow(columns(keys.max(values)))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        let keys = match &select.group_by {
            GroupByExpr::Expressions(keys, _) => keys.len(),
            GroupByExpr::All(_) => 0,
        };
        flow(columns(select.projection.len().max(keys)))?;
        let mut windows: HashSet<String> = HashSet::new();
        let _ = expressions(&select.projection, |expr, within| {
            if let Expr::Function(call) = expr
                && let (Some(window), false) = (&call.over, within)
            {
                windows.insert(window.to_string());
            }
            ControlFlow::<()>::Continue(())
        });
        match windows.len() {
            0..=WINDOWS_MAX => ControlFlow::Continue(()),
            _ => {
                let message = format!("a query can have at most {WINDOWS_MAX} different windows");
                ControlFlow::Break(SqlError::new(state::PROGRAM_LIMIT_EXCEEDED, message))
            }
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Tuple(items) => flow(bounded("ROW expressions", items.len())),
            Expr::Function(call) if function_name(call) == "row" => {
                let FunctionArguments::List(list) = &call.args else {
                    return ControlFlow::Continue(());
                };
                flow(bounded("ROW expressions", list.args.len()))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
