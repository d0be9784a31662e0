//! `ARRAY(SELECT ...)`, and functions that return sets.

use super::spellings::{call, row_number};
use crate::functions::array::OR_EMPTY;
use crate::statements::select_of;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, OrderByKind, Query, Select,
    SelectItem, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, Value,
};

/// `ARRAY(subquery)` as a scalar subquery: `array_agg` of its column, or an empty array.
pub(super) fn of_subquery(function: &Function) -> Option<Expr> {
    let FunctionArguments::Subquery(query) = &function.args else {
        return None;
    };
    if super::function_name(function) != "array" {
        return None;
    }
    let gathered = in_place(query).unwrap_or_else(|| over_derived(query.clone()));
    Some(call(OR_EMPTY, vec![Expr::Subquery(gathered)]))
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
    let ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let plain = ungrouped
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

fn over_derived(query: Box<Query>) -> Box<Query> {
    let name = |text: &str| Ident::with_quote('"', text);
    let value = Expr::CompoundIdentifier(vec![name("\u{1}array"), name("\u{1}item")]);
    let from = derived(query, name("\u{1}array"), vec![name("\u{1}item")]);
    let item = SelectItem::UnnamedExpr(call("array_agg", vec![value]));
    match select_of(vec![item], vec![from], None) {
        Statement::Query(query) => query,
        _ => unreachable!("select_of makes a query"),
    }
}

fn derived(subquery: Box<Query>, alias: Ident, columns: Vec<Ident>) -> TableWithJoins {
    TableWithJoins {
        relation: TableFactor::Derived {
            lateral: false,
            subquery,
            alias: Some(TableAlias {
                explicit: true,
                name: alias,
                columns: columns
                    .into_iter()
                    .map(|name| TableAliasColumnDef { name, data_type: None })
                    .collect(),
                at: None,
            }),
            sample: None,
        },
        joins: Vec::new(),
    }
}

/// `generate_series(...)` as an item of a select list gives a row for each value.
pub(super) fn series_in_list(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Expr::Function(function) = expr
            && function.over.is_none()
            && super::function_name(function) == "generate_series"
        {
            let series = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *expr = call("unnest", vec![series]);
        }
    }
}

/// `unnest(array) WITH ORDINALITY AS u(x, o)`: the items, and their numbers.
pub(super) fn ordinality(factor: &mut TableFactor) {
    let TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs,
        with_offset: false,
        with_ordinality: true,
        ..
    } = factor
    else {
        return;
    };
    let name = |text: &str| Ident::with_quote('"', text);
    let items: Vec<Ident> = (0..array_exprs.len())
        .map(|at| name(&format!("\u{1}item{at}")))
        .collect();
    let inner = TableWithJoins {
        relation: TableFactor::UNNEST {
            alias: Some(TableAlias {
                explicit: true,
                name: name("\u{1}unnest"),
                columns: items
                    .iter()
                    .map(|name| TableAliasColumnDef {
                        name: name.clone(),
                        data_type: None,
                    })
                    .collect(),
                at: None,
            }),
            array_exprs: std::mem::take(array_exprs),
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: false,
        },
        joins: Vec::new(),
    };
    let given: Vec<Ident> = alias.columns.iter().map(|column| column.name.clone()).collect();
    let mut names: Vec<Ident> = (0..items.len())
        .map(|at| given.get(at).cloned().unwrap_or_else(|| alias.name.clone()))
        .collect();
    names.push(given.get(items.len()).cloned().unwrap_or_else(|| name("ordinality")));
    let mut columns: Vec<SelectItem> = items
        .into_iter()
        .map(Expr::Identifier)
        .map(SelectItem::UnnamedExpr)
        .collect();
    columns.push(SelectItem::ExprWithAlias {
        expr: row_number(Vec::new()),
        alias: name("\u{1}ordinality"),
    });
    if let Statement::Query(query) = select_of(columns, vec![inner], None) {
        *factor = derived(query, alias.name.clone(), names).relation;
    }
}
