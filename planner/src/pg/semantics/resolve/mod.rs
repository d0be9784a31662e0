//! PostgreSQL's types of operands: a literal without a type of its own takes the one that its operator or its neighbours
//! give it, and types that no operator takes together are refused.
//!
//! - `operands`: the two sides of an operator, while names are bound;
//! - `items`: arrays of `char(n)`;
//! - `like`: LIKE;
//! - `open`: parameters without a type;
//! - `casts`: which of those in the text there are;
//! - `columns`: the columns of set operations and of VALUES, while names are bound;
//! - `neighbours`: expressions that get one type (IN, BETWEEN, CASE, COALESCE), before type coercion;
//! - `arrays`: arrays among these;
//! - `becoming`: values that become such of their neighbours' type;
//! - `strings`: strings that get one type;
//! - `pairs`: strings that are compared;
//! - `quantified`: values and the items of arrays after ANY and ALL;
//! - `results`: what aggregates and window functions give of strings;
//! - `rows`: the columns of VALUES;
//! - `sets`: the columns of UNION, INTERSECT, EXCEPT and of subqueries after IN.

mod arrays;
mod becoming;
mod booleans;
mod carried;
mod casts;
pub(crate) mod columns;
mod items;
mod like;
mod neighbours;
pub(crate) mod open;
mod operands;
mod pairs;
mod quantified;
mod results;
mod rows;
mod sets;
mod strings;

pub(crate) use becoming::to_one_moment;
pub(super) use carried::is_of_any_type;
pub(super) use neighbours::LiteralsTakeTypes;
pub(crate) use neighbours::{common_type, unmatched};
pub(crate) use operands::{operands, undefined, undefined_prefix};
pub(super) use results::of_call;
pub(crate) use strings::{is_blank, of_fields, with_type};

use crate::pg::semantics::fields;
use crate::pg::types::type_oid;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Cast;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::quote::cut_name;
use tenon_storage::range::RangeType;

/// A string or NULL as it stands in the text, whose type is yet to be found.
pub(crate) fn is_unknown(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Null, None))
}

/// An expression's type, where it is one that tables can have.
pub(crate) fn known(expr: &Expr, schema: &DFSchema) -> Option<SqlType> {
    if is_unknown(expr) {
        return None;
    }
    fields::field(expr, schema).ok().and_then(|field| known_of(&field))
}

/// The same of the field of an expression that is no literal of unknown type.
pub(crate) fn known_of(field: &Field) -> Option<SqlType> {
    match field.data_type() {
        DataType::Null | DataType::UInt32 | DataType::List(_) | DataType::LargeList(_) => None,
        DataType::UInt64 => Some(SqlType::Int8),
        _ if type_oid(field).is_some() => None,
        _ => SqlType::from_field(field).map(SqlType::unlimited),
    }
}

/// Types that are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Number,
    String,
    Moment,
    Time,
    Interval,
    Bool,
    Bytea,
    Uuid,
    Json,
    Jsonb,
    Bits,
    Network,
    Interface,
    Address,
    Range(RangeType),
    Multirange(RangeType),
    /// Each type for itself: its oid.
    Enum(u32),
}

fn group(of: SqlType) -> Group {
    match of {
        SqlType::Int2
        | SqlType::Int4
        | SqlType::Int8
        | SqlType::Float4
        | SqlType::Float8
        | SqlType::Numeric
        | SqlType::NumericOf(..)
        | SqlType::NumericWide(..) => Group::Number,
        SqlType::Text | SqlType::Name | SqlType::Varchar | SqlType::VarcharOf(_) => Group::String,
        SqlType::CharOf(_) | SqlType::Bpchar => Group::String,
        SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz => Group::Moment,
        SqlType::Time | SqlType::TimeTz => Group::Time,
        SqlType::Interval => Group::Interval,
        SqlType::Bool => Group::Bool,
        SqlType::Bytea => Group::Bytea,
        SqlType::Uuid => Group::Uuid,
        SqlType::Json => Group::Json,
        SqlType::Jsonb => Group::Jsonb,
        SqlType::Bit | SqlType::BitOf(_) | SqlType::VarBit | SqlType::VarBitOf(_) => Group::Bits,
        SqlType::Inet | SqlType::Cidr => Group::Network,
        SqlType::MacAddr | SqlType::MacAddr8 => Group::Interface,
        SqlType::Tid => Group::Address,
        SqlType::Range(of) => Group::Range(of),
        SqlType::Multirange(of) => Group::Multirange(of),
        SqlType::Enum(of) => Group::Enum(of.oid),
        #[allow(unreachable_patterns)]
        _ => Group::String,
    }
}

/// Whether strings are what a type's values are.
pub(crate) fn is_text(of: SqlType) -> bool {
    group(of) == Group::String
}

/// The name of a type in errors about operators and common types.
fn name(of: Option<SqlType>) -> String {
    match of {
        None => "unknown".into(),
        Some(SqlType::Timestamp) => "timestamp without time zone".into(),
        Some(SqlType::Time) => "time without time zone".into(),
        Some(known) => known.base_name().to_string(),
    }
}

/// The literal as a value of a type.
fn typed(literal: Expr, to: SqlType) -> Expr {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), None) = &literal else {
        // DataFusion gives a NULL no type beside these.
        if to.is_bits() || to.is_address() || to.is_range() || to == SqlType::Uuid {
            return Expr::Cast(Cast::new_from_field(Box::new(literal), Arc::new(to.field("", true))));
        }
        return literal;
    };
    if let SqlType::Enum(of) = to
        && let Some(at) = of.position(text)
    {
        let zone = of.mark();
        return Expr::Literal(ScalarValue::TimestampMicrosecond(Some(at), Some(zone)), None);
    }
    let to = match to {
        SqlType::Text | SqlType::Varchar | SqlType::VarcharOf(_) => return literal,
        SqlType::Name => {
            let cut = cut_name(text).to_string();
            return Expr::Literal(ScalarValue::Utf8(Some(cut)), None);
        }
        // Blanks at its end do not count.
        SqlType::CharOf(_) | SqlType::Bpchar => {
            let bare = text.trim_end_matches(' ').to_string();
            return Expr::Literal(ScalarValue::Utf8(Some(bare)), None);
        }
        SqlType::Numeric | SqlType::NumericOf(..) | SqlType::NumericWide(..) => with_scale(text),
        other => other,
    };
    Expr::Cast(Cast::new_from_field(Box::new(literal), Arc::new(to.field("", true))))
}

/// The numeric type that keeps all digits of a text.
fn with_scale(text: &str) -> SqlType {
    let digits = text.trim().trim_start_matches(['+', '-']);
    let whole = digits.find('.').unwrap_or(digits.len());
    let plain = digits.len() <= 38 && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match i8::try_from(digits.len().saturating_sub(whole + 1)) {
        Ok(scale) if plain => SqlType::NumericOf(38, scale),
        _ => SqlType::Numeric,
    }
}
