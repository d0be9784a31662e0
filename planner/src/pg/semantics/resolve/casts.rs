//! Which casts there are.

use super::{Group, group, is_unknown, known, name};
use crate::pg::error::{SqlError, SqlState};
use crate::pg::errors::to_datafusion;
use crate::pg::types::planner::WRITTEN;
use crate::pg::types::type_oid;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr, ExprSchemable};
use tenon_storage::SqlType;

/// Whether a cast is one of the statement's text that may be wrong. Most are what literals of integers are made.
pub(super) fn is_doubtful(cast: &Cast) -> bool {
    let literal = matches!(
        cast.expr.as_ref(),
        Expr::Literal(ScalarValue::Int64(_) | ScalarValue::Utf8(_), _)
    );
    cast.field.name() == WRITTEN && !(literal && cast.field.data_type().is_numeric())
}

/// 42846 for a cast that PostgreSQL does not know.
pub(super) fn check(cast: &Cast, schema: &DFSchema) -> Result<()> {
    if is_unknown(&cast.expr) || type_oid(&cast.field).is_some() {
        return Ok(());
    }
    let Ok((_, from)) = cast.expr.to_field(schema) else {
        return Ok(());
    };
    let allowed = match (list_item(&from), list_item(&cast.field)) {
        (None, None) => match (own_type(&cast.expr, schema), SqlType::from_field(&cast.field)) {
            (Some(from), Some(to)) => is_castable(from, to),
            _ => true,
        },
        (Some(_), None) => SqlType::from_field(&cast.field).is_none_or(|to| group(to) == Group::String),
        (None, Some(_)) => known(&cast.expr, schema).is_none_or(|from| group(from) == Group::String),
        (Some(_), Some(_)) => true,
    };
    if allowed {
        return Ok(());
    }
    let from = own_type(&cast.expr, schema).map_or_else(|| shown(&from), |own| name(Some(own)));
    let message = format!("cannot cast type {from} to {}", shown(&cast.field));
    Err(to_datafusion(SqlError::new(SqlState("42846"), message)))
}

/// An expression's type; a literal right below a cast is an int4 where it fits, though it is kept as an int8.
fn own_type(expr: &Expr, schema: &DFSchema) -> Option<SqlType> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(*value).is_ok() => Some(SqlType::Int4),
        other => known(other, schema),
    }
}

fn list_item(field: &Field) -> Option<&Field> {
    match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) => Some(item),
        _ => None,
    }
}

fn shown(field: &Field) -> String {
    match list_item(field) {
        Some(item) => format!("{}[]", shown(item)),
        None => name(SqlType::from_field(field)),
    }
}

fn is_castable(from: SqlType, to: SqlType) -> bool {
    let integer = |of| of == SqlType::Int4;
    match (group(from), group(to)) {
        (a, b) if a == b => true,
        (Group::String, _) | (_, Group::String) => true,
        (Group::Range(a), Group::Multirange(b)) => a == b,
        (Group::Bool, Group::Number) => integer(to),
        (Group::Number, Group::Bool) => integer(from),
        (Group::Moment, Group::Time) => from != SqlType::Date,
        (Group::Time, Group::Interval) | (Group::Interval, Group::Time) => true,
        (Group::Number, Group::Bits) => matches!(
            (from, to),
            (SqlType::Int4 | SqlType::Int8, SqlType::Bit | SqlType::BitOf(_))
        ),
        (Group::Bits, Group::Number) => matches!(
            (from, to),
            (SqlType::Bit | SqlType::BitOf(_), SqlType::Int4 | SqlType::Int8)
        ),
        (Group::Json, Group::Jsonb) | (Group::Jsonb, Group::Json | Group::Number | Group::Bool) => true,
        _ => false,
    }
}
