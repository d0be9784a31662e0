//! The rows of INSERT ... VALUES, where a column's values are not all of one kind: each is converted by itself to the
//! column's type, as in PostgreSQL. DataFusion gives a column of VALUES one type first: `(2.5), (2.5::float8)` would
//! both be doubles, and round otherwise, and `(true), ('x')` would have none.

use super::insert::{assigned, is_null};
use super::untyped;
use crate::pg::error::{Result, SqlError};
use crate::pg::errors::from_datafusion;
use datafusion::common::{DFSchema, internal_err};
use datafusion::logical_expr::logical_plan::Values;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, SetExpr};
use std::collections::HashMap;
use std::mem::discriminant;
use std::sync::Arc;
use tenon_storage::ColumnDef;

/// Whether a column has values of different kinds, so that its rows are to be planned by themselves.
pub(super) fn is_mixed(source: &ast::Query) -> bool {
    let SetExpr::Values(values) = source.body.as_ref() else {
        return false;
    };
    let is_bare = source.order_by.is_none() && source.limit_clause.is_none() && source.fetch.is_none();
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let mixed = |at: usize| {
        let mut cells = values
            .rows
            .iter()
            .map(|row| &row.content[at])
            .filter(|cell| !is_null(cell));
        let first = cells.next();
        first.is_some_and(|first| cells.any(|cell| !of_one_kind(first, cell)))
    };
    is_bare && values.rows.len() > 1 && (0..width).any(mixed)
}

/// Whether two values are sure to have one type, or are numbers, of which the rows' types are found together.
fn of_one_kind(a: &ast::Expr, b: &ast::Expr) -> bool {
    use ast::Expr::{Cast, TypedString, UnaryOp, Value};
    match (a, b) {
        (Value(a), Value(b)) => discriminant(&a.value) == discriminant(&b.value),
        (Cast { data_type: a, .. }, Cast { data_type: b, .. }) => a == b,
        (TypedString(a), TypedString(b)) => a.data_type == b.data_type,
        (UnaryOp { expr, .. }, other) | (other, UnaryOp { expr, .. }) => of_one_kind(expr, other),
        (a, b) => a == b,
    }
}

/// Puts the values of all rows into one, so that each column of it is one value.
pub(super) fn join(source: &mut ast::Query) {
    if let SetExpr::Values(values) = source.body.as_mut() {
        let mut rows = std::mem::take(&mut values.rows).into_iter();
        if let Some(mut first) = rows.next() {
            first.content.extend(rows.flat_map(|row| row.content));
            values.rows.push(first);
        }
    }
}

/// The rows again, of what was planned of all their values. `columns` are those of each row; None: not given.
pub(super) fn split(plan: LogicalPlan, columns: &[Option<&ColumnDef>]) -> Result<LogicalPlan> {
    let LogicalPlan::Values(Values { values, .. }) = plan else {
        let other = internal_err!("VALUES were planned as {}", plan.display());
        return other.map_err(|error| from_datafusion(&error));
    };
    let empty = DFSchema::empty();
    let failed = |error| from_datafusion(&error);
    let typed = |(cell, column): (Expr, &Option<&ColumnDef>)| {
        let Some(column) = column else {
            return Ok(cell);
        };
        untyped::check_value(&cell, &cell.to_field(&empty).map_err(failed)?.1, column)?;
        Ok::<_, SqlError>(assigned(cell, column))
    };
    let mut cells = values.into_iter().flatten();
    let mut rows = Vec::new();
    loop {
        let row = cells.by_ref().take(columns.len()).zip(columns);
        let row = row.map(typed).collect::<Result<Vec<_>>>()?;
        if row.is_empty() {
            break;
        }
        rows.push(row);
    }
    let fields = rows.iter().take(1).flatten().enumerate().map(|(at, cell)| {
        let field = cell.to_field(&empty).map_err(failed)?.1;
        let field = field.as_ref().clone().with_name(format!("column{}", at + 1));
        Ok(field.with_nullable(true))
    });
    let fields = fields.collect::<Result<Vec<_>>>()?.into();
    let schema = DFSchema::from_unqualified_fields(fields, HashMap::new()).map_err(failed)?;
    let schema = Arc::new(schema);
    Ok(LogicalPlan::Values(Values { schema, values: rows }))
}
