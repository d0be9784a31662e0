//! INSERT ... VALUES of several rows of plain literals: read column by column, as COPY reads its fields, where a plan with
//! an expression for each of them would take ten times as long.
//!
//! What is no plain literal, or none of its column's kind, is left to the planner, and so are literals that cannot be
//! read: it has the words for errors.

use super::insert::assigned_type;
use crate::catalog::bind::Binder;
use crate::pg::error::Result;
use crate::pg::errors::{from_arrow, from_datafusion};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, SetExpr, UnaryOperator, Value};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenon_storage::parse::parse_column_by;
use tenon_storage::{ColumnDef, SqlType};

/// Fewer rows are planned: their statement may keep its plan.
const ROWS_MIN: usize = 2;

/// A plan of the rows, which have a value for each of `columns`. None: they are the planner's.
pub(super) fn plan(binder: &Binder, source: &ast::Query, columns: &[&ColumnDef]) -> Result<Option<LogicalPlan>> {
    let SetExpr::Values(values) = source.body.as_ref() else {
        return Ok(None);
    };
    let is_bare = source.with.is_none()
        && source.order_by.is_none()
        && source.limit_clause.is_none()
        && source.fetch.is_none()
        && source.locks.is_empty();
    let as_wide = |row: &ast::Parens<Vec<ast::Expr>>| row.content.len() == columns.len();
    if !is_bare || values.rows.len() < ROWS_MIN || columns.is_empty() || !values.rows.iter().all(as_wide) {
        return Ok(None);
    }
    let conventions = binder.facts.settings.conventions(None);
    let mut arrays = Vec::with_capacity(columns.len());
    let mut fields: Vec<FieldRef> = Vec::with_capacity(columns.len());
    for (at, column) in columns.iter().enumerate() {
        let of = assigned_type(column.sql_type);
        let texts = values.rows.iter().map(|row| text(&row.content[at], of));
        let Some(texts) = texts.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        match parse_column_by(of, texts.iter().map(Option::as_deref), &conventions) {
            Ok(array) => arrays.push(array),
            Err(_) => return Ok(None),
        }
        fields.push(Arc::new(of.field(&format!("column{}", at + 1), true)));
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays).map_err(|error| from_arrow(&error))?;
    // What it holds is of this statement alone.
    binder.facts.used.store(true, Ordering::Relaxed);
    let table = MemTable::try_new(schema, vec![vec![batch]]);
    let table = table.map_err(|error| from_datafusion(&error))?;
    let plan = LogicalPlanBuilder::scan("*VALUES*", provider_as_source(Arc::new(table)), None)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| from_datafusion(&error))?;
    Ok(Some(plan))
}

/// The text from which a literal's value for a column of this type can be read; of NULL, None. None instead of a text: it
/// cannot be, or the type's own reading is not all that there is to it.
fn text(cell: &ast::Expr, of: SqlType) -> Option<Option<Cow<'_, str>>> {
    use SqlType::*;
    let is_integer = matches!(of, Int2 | Int4 | Int8);
    let is_number = is_integer || matches!(of, Float4 | Float8 | Numeric | NumericOf(..) | NumericWide(..));
    let is_temporal = matches!(
        of,
        Date | Time | TimeOf(_) | Timestamp | TimestampOf(_) | TimestampTz | TimestampTzOf(_)
    );
    let number = |digits: &str| {
        let digit = |byte: u8| byte.is_ascii_digit() || byte == b'.' && !is_integer;
        is_number && digits.bytes().all(digit)
    };
    match cell {
        ast::Expr::Value(value) => match &value.value {
            Value::Null => Some(None),
            Value::Number(digits, false) if number(digits) => Some(Some(digits.as_str().into())),
            Value::Boolean(value) if of == Bool => Some(Some(if *value { "true" } else { "false" }.into())),
            Value::SingleQuotedString(text) => {
                // Others may name the present.
                let is_absolute = || text.starts_with(|first: char| first.is_ascii_digit());
                let is_read = match of {
                    Bool | Text | Uuid | Json | Jsonb => true,
                    _ if is_temporal => is_absolute(),
                    _ => is_number,
                };
                is_read.then_some(Some(text.as_str().into()))
            }
            _ => None,
        },
        ast::Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match expr.as_ref() {
            ast::Expr::Value(value) => match &value.value {
                // As a numeric, zero has no sign.
                Value::Number(digits, false) if number(digits) => {
                    match digits.bytes().all(|byte| b"0.".contains(&byte)) {
                        true => Some(Some(digits.as_str().into())),
                        false => Some(Some(format!("-{digits}").into())),
                    }
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
