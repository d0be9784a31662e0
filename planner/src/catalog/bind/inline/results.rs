//! What a call gives where it stands in an expression: a value, a record of the columns that its function returns, or the items
//! of a set.

use super::variadic::is_variadic;
use super::{Inliner, alone_items, cast, cast_bare, first_row, of_columns, over};
use crate::catalog::bind::Binder;
use crate::catalog::bind::composite::parsed;
use crate::pg::error::{Result, SqlError};
use crate::pg::rewrite::{call, gathered};
use crate::pg::walk::null;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function as Call, FunctionArguments, Ident, Query, SelectItem, SetExpr,
};
use std::sync::Arc;
use tenon_storage::{Function, FunctionResult};

/// The columns of the rows that a function gives, with their types, and the composite type that the rows have.
pub(in crate::catalog::bind) struct RowType {
    pub columns: Vec<(String, String)>,
    pub of: Option<DataType>,
}

impl Binder {
    /// None: the function gives plain values, or records of which it says nothing.
    pub(in crate::catalog::bind) fn row_type_of(&self, function: &Function) -> Option<RowType> {
        match &function.returns {
            FunctionResult::Table(columns) if columns.len() > 1 => Some(RowType {
                columns: columns.clone(),
                of: None,
            }),
            FunctionResult::Table(_) => None,
            FunctionResult::Set(result) | FunctionResult::Scalar(result) => {
                let of = parsed(result).ok()?;
                let columns = self.columns_of_type(&of)?;
                Some(RowType { columns, of: Some(of) })
            }
        }
    }
}

impl Binder {
    /// What a call gives, as far as all functions that may be meant agree on it.
    pub(in crate::catalog::bind) fn row_type_of_call(&self, call: &Call) -> Option<RowType> {
        let given = match &call.args {
            FunctionArguments::List(list) => list.args.len(),
            _ => 0,
        };
        let named = self.functions_named(&call.name);
        let fits = |own: &&Arc<Function>| is_variadic(own) || own.takes(given);
        let mut fitting = named.iter().filter(fits);
        let first = self.row_type_of(fitting.next()?)?;
        let same = |own: &Arc<Function>| self.row_type_of(own).is_some_and(|rows| rows.columns == first.columns);
        fitting.all(same).then_some(first)
    }
}

/// Whether a call gives any number of rows.
pub(super) fn gives_set(function: &Function) -> bool {
    match function.returns {
        FunctionResult::Scalar(_) => false,
        FunctionResult::Set(_) => true,
        FunctionResult::Table(_) => !function.options.one_row,
    }
}

impl Inliner<'_> {
    /// The value of a call whose query is this.
    pub(super) fn value(&self, function: &Function, query: Box<Query>) -> Result<Expr> {
        let is_set = gives_set(function);
        let query = match self.binder.row_type_of(function) {
            Some(rows) => {
                if let (false, Some(items)) = (is_set, alone_items(&query))
                    && items.len() == rows.columns.len()
                    && items.len() > 1
                {
                    return self.binder.record_of(rows.of.as_ref(), &rows.columns, items);
                }
                self.records_of(query, &rows)?
            }
            None => match &function.returns {
                FunctionResult::Set(result) | FunctionResult::Scalar(result) if result == "record" => {
                    return self.untyped(query, is_set);
                }
                FunctionResult::Table(columns) => match columns.first() {
                    Some((_, declared)) => only_column(query, declared)?,
                    None => query,
                },
                FunctionResult::Set(result) if result == "void" => {
                    over(query, Vec::new(), vec![SelectItem::UnnamedExpr(cast(null(), "void")?)])
                }
                FunctionResult::Set(result) if result.starts_with("any") => query,
                FunctionResult::Set(result) => only_column(query, result)?,
                FunctionResult::Scalar(result) => {
                    let value = match alone_items(&query).as_deref() {
                        Some([only]) => Expr::Nested(Box::new(only.clone())),
                        _ => Expr::Subquery(first_row(query)),
                    };
                    return Ok(match result.as_str() {
                        "void" => cast(null(), "void")?,
                        result if result.starts_with("any") => value,
                        result => cast_bare(value, result)?,
                    });
                }
            },
        };
        if !is_set {
            return Ok(Expr::Subquery(first_row(query)));
        }
        let item = match &function.returns {
            FunctionResult::Table(columns) => columns.first().filter(|_| columns.len() == 1).map(|(_, of)| of),
            FunctionResult::Set(of) | FunctionResult::Scalar(of) => Some(of),
        };
        if item.is_some_and(|of| of.ends_with(']')) {
            let message = format!(
                "function {} in a SELECT list: it returns a set of arrays",
                function.name
            );
            return Err(SqlError::unsupported(message).hint("Call it in FROM."));
        }
        Ok(call("unnest", vec![gathered(query)]))
    }

    /// A query's rows as records.
    fn records_of(&self, query: Box<Query>, rows: &RowType) -> Result<Box<Query>> {
        let query = of_columns(query, &rows.columns)?;
        // One value for several columns is a record already.
        if width(&query) == Some(1) && rows.columns.len() > 1 {
            return Ok(query);
        }
        let names: Vec<Ident> = (0..rows.columns.len()).map(place).collect();
        let values = names.iter().cloned().map(Expr::Identifier).collect();
        let record = self.binder.record_of(rows.of.as_ref(), &rows.columns, values)?;
        Ok(over(query, names, vec![SelectItem::UnnamedExpr(record)]))
    }

    /// Records whose columns only the query knows.
    fn untyped(&self, query: Box<Query>, is_set: bool) -> Result<Expr> {
        let Some(width) = width(&query).filter(|width| *width > 1) else {
            return Err(SqlError::unsupported("a function that returns records without columns"));
        };
        let names: Vec<Ident> = (0..width).map(place).collect();
        let values = names.iter().cloned().map(Expr::Identifier).collect();
        let rows = over(query, names, vec![SelectItem::UnnamedExpr(call("row", values))]);
        Ok(match is_set {
            true => call("unnest", vec![gathered(rows)]),
            false => Expr::Subquery(first_row(rows)),
        })
    }
}

fn place(at: usize) -> Ident {
    Ident::with_quote('"', format!("\u{1}{at}"))
}

/// How many columns a query has, where its text says that.
fn width(query: &Query) -> Option<usize> {
    let mut body = query.body.as_ref();
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let is_plain = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    match body {
        SetExpr::Select(select) if select.projection.iter().all(is_plain) => Some(select.projection.len()),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

/// A query's only column as one of a type.
fn only_column(query: Box<Query>, declared: &str) -> Result<Box<Query>> {
    let value = cast_bare(Expr::Identifier(place(0)), declared)?;
    Ok(over(query, vec![place(0)], vec![SelectItem::UnnamedExpr(value)]))
}
