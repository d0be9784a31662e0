//! `ARRAY(SELECT ...)`, and functions that return sets.

use super::row_subqueries::items;
use super::spellings::call;
use crate::pg::functions::array::OR_EMPTY;
use crate::pg::parse::select;
use crate::pg::walk::is_ungrouped;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, Ident, OrderByKind, Query, SelectItem, SetExpr, Value,
};

/// `ARRAY(subquery)` as a scalar subquery: `array_agg` of its column, or an empty array.
pub(super) fn of_subquery(function: &Function) -> Option<Expr> {
    let FunctionArguments::Subquery(query) = &function.args else {
        return None;
    };
    if super::function_name(function) != "array" {
        return None;
    }
    // One of several columns is refused as a value.
    if items(query).is_some_and(|items| items != 1) {
        return Some(Expr::Subquery(query.clone()));
    }
    Some(gathered(query.clone()))
}

/// The array of the values of a query's only column.
pub(crate) fn gathered(query: Box<Query>) -> Expr {
    let gathered = in_place(&query).unwrap_or_else(|| over_derived(query));
    call(OR_EMPTY, vec![Expr::Subquery(gathered)])
}

fn array_agg(value: Expr, query: &Query) -> Expr {
    let mut gathered = call("array_agg", vec![value.clone()]);
    if let Expr::Function(function) = &mut gathered
        && let FunctionArguments::List(list) = &mut function.args
        && let Some(order) = &query.order_by
        && let OrderByKind::Expressions(keys) = &order.kind
    {
        let mut keys = keys.clone();
        for key in &mut keys {
            // The only output column may be named by its position.
            if matches!(&key.expr, Expr::Value(position) if matches!(&position.value, Value::Number(digits, _) if digits == "1"))
            {
                key.expr = value.clone();
            }
        }
        list.clauses.push(FunctionArgumentClause::OrderBy(keys));
    }
    gathered
}

/// The subquery itself with its column gathered, which keeps the order that it asks for.
fn in_place(query: &Query) -> Option<Box<Query>> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let plain = is_ungrouped(select)
        && select.distinct.is_none()
        && select.having.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && !select.from.is_empty();
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] = select.projection.as_slice()
    else {
        return None;
    };
    if !plain
        || !matches!(
            value,
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Cast { .. }
        )
    {
        return None;
    }
    let mut gathered = Box::new(query.clone());
    gathered.order_by = None;
    if let SetExpr::Select(select) = gathered.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(array_agg(value.clone(), query))];
    }
    Some(gathered)
}

/// The name of the subquery whose column becomes an array.
pub(crate) const GATHERED: &str = "\u{1}array";

fn over_derived(query: Box<Query>) -> Box<Query> {
    let name = |text: &str| Ident::with_quote('"', text);
    let value = Expr::CompoundIdentifier(vec![name(GATHERED), name("\u{1}item")]);
    let from = select::alone(select::derived(query, GATHERED, &[name("\u{1}item")]));
    let item = SelectItem::UnnamedExpr(call("array_agg", vec![value]));
    select::query(vec![item], vec![from], None)
}
