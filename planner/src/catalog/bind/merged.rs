//! The value of a column that `JOIN ... USING` merges of two: it has the type that both have together, as PostgreSQL's
//! `buildMergedJoinVar` chooses.

use crate::pg::error::{Result, SqlError, state};
use crate::pg::rewrite::call;
use crate::pg::semantics::resolve::{common_type, is_text};
use datafusion::sql::sqlparser::ast::{CastKind, DataType, ExactNumberInfo, Expr, JoinOperator, TimezoneInfo};
use tenon_storage::SqlType;

/// Which table's value a merged column has.
#[derive(Clone, Copy)]
pub(super) enum Side {
    /// Either one's, for they are equal.
    Equal,
    First,
    Second,
    /// That of the one which has a row.
    Either,
}

impl Side {
    pub(super) fn of(operator: &JoinOperator) -> Side {
        match operator {
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => Side::First,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => Side::Second,
            JoinOperator::FullOuter(_) => Side::Either,
            _ => Side::Equal,
        }
    }
}

/// One of both columns; a type that is not known is none that tables can have.
pub(super) struct Merging {
    pub(super) value: Expr,
    pub(super) of: Option<SqlType>,
}

/// The merged column.
pub(super) fn merged(first: Merging, second: Merging, side: Side) -> Result<Merging> {
    let of = match (first.of, second.of) {
        (Some(one), Some(other)) => Some(common_type(one, other).ok_or_else(|| apart(one, other))?),
        _ => None,
    };
    let value = match side {
        // The one that needs no cast, the first where both do.
        Side::Equal => match !is(&first, of) && is(&second, of) && is_plain(&second) {
            true => second.value,
            false => as_type(first, of),
        },
        Side::First => as_type(first, of),
        Side::Second => as_type(second, of),
        Side::Either => call("coalesce", vec![first.value, second.value]),
    };
    Ok(Merging { value, of })
}

fn apart(one: SqlType, other: SqlType) -> SqlError {
    let name = |of: SqlType| match of {
        SqlType::Timestamp => "timestamp without time zone",
        SqlType::Time => "time without time zone",
        other => other.base_name(),
    };
    let message = format!("JOIN/USING types {} and {} cannot be matched", name(one), name(other));
    SqlError::new(state::DATATYPE_MISMATCH, message)
}

/// Whether a column is of the type but for a length or a scale.
fn is(column: &Merging, of: Option<SqlType>) -> bool {
    match (column.of, of) {
        (Some(own), Some(of)) => own.base_name() == of.base_name() || is_text(of),
        _ => true,
    }
}

/// Whether a column has no scale of its own, which would have to be taken from it.
fn is_plain(column: &Merging) -> bool {
    let scaled = |of: SqlType| matches!(of, SqlType::NumericOf(..) | SqlType::NumericWide(..));
    matches!(column.value, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) && !column.of.is_some_and(scaled)
}

/// A column as a value of the type. Only numbers and points in time become others of their kind.
fn as_type(column: Merging, of: Option<SqlType>) -> Expr {
    let data_type = match of.filter(|of| !is(&column, Some(*of))) {
        Some(SqlType::Int4) => DataType::Integer(None),
        Some(SqlType::Int8) => DataType::BigInt(None),
        Some(SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..)) => {
            DataType::Numeric(ExactNumberInfo::None)
        }
        Some(SqlType::Float4) => DataType::Real,
        Some(SqlType::Float8) => DataType::DoublePrecision,
        Some(SqlType::Timestamp) => DataType::Timestamp(None, TimezoneInfo::None),
        Some(SqlType::TimestampTz) => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        _ => return column.value,
    };
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(column.value),
        data_type,
        array: false,
        format: None,
    }
}
