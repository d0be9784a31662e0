//! The columns of a relation in FROM by name, where it refers to rows outside of it and cannot be planned alone: `(SELECT
//! json_agg(q) FROM (SELECT * FROM t WHERE t.k = u.k) q)`. Of its queries stands what names come from: the select lists, of
//! nulls, and FROM.

use crate::pg::parse::select;
use crate::pg::rewrite::output_name;
use crate::pg::walk::null;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, Query, SelectItem, SetExpr, TableFactor, TableWithJoins,
    Value,
};

/// Leaves a relation what its columns' names come from.
pub(super) fn reduce(factor: &mut TableFactor) {
    match factor {
        TableFactor::Derived { subquery, .. } => reduce_query(subquery),
        TableFactor::NestedJoin { table_with_joins, .. } => reduce_joined(table_with_joins),
        TableFactor::Function { args, .. } => args.iter_mut().for_each(reduce_argument),
        TableFactor::Table { args: Some(given), .. } => given.args.iter_mut().for_each(reduce_argument),
        _ => {}
    }
}

/// What a function gives is called the same whatever it is called with.
fn reduce_argument(argument: &mut FunctionArg) {
    if let FunctionArg::Unnamed(value) | FunctionArg::Named { arg: value, .. } = argument {
        *value = FunctionArgExpr::Expr(null());
    }
}

fn reduce_query(query: &mut Query) {
    query.order_by = None;
    query.limit_clause = None;
    query.fetch = None;
    query.locks.clear();
    reduce_body(&mut query.body);
}

fn reduce_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(own) => {
            let mut from = std::mem::take(&mut own.from);
            from.iter_mut().for_each(reduce_joined);
            let items = own.projection.iter().map(named).collect();
            *body = *select::query(items, from, None).body;
        }
        SetExpr::Query(query) => reduce_query(query),
        SetExpr::SetOperation { left, right, .. } => {
            reduce_body(left);
            reduce_body(right);
        }
        SetExpr::Values(values) => {
            let cells = values.rows.iter_mut().flat_map(|row| &mut row.content);
            cells.for_each(|cell| *cell = null());
        }
        _ => {}
    }
}

fn reduce_joined(table: &mut TableWithJoins) {
    reduce(&mut table.relation);
    for join in &mut table.joins {
        reduce(&mut join.relation);
        if let Some(JoinConstraint::On(condition)) = crate::pg::walk::constraint(&mut join.join_operator) {
            *condition = Expr::Value(Value::Boolean(true).into());
        }
    }
}

/// A null of the item's name; stars as they are.
fn named(item: &SelectItem) -> SelectItem {
    match output_name(item) {
        Some(name) => SelectItem::ExprWithAlias {
            expr: null(),
            alias: Ident::with_quote('"', name),
        },
        None => item.clone(),
    }
}
