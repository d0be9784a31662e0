//! Literals of texts as values of the parameters that stand in their places.

use super::cut::Literal;
use crate::pg::outcome::PgType;
use crate::pg::settings::Settings;
use crate::pg::types::array_oid;
use crate::session::Prepared;
use crate::session::moment_words::MOMENTS;
use datafusion::arrow::array::ListArray;
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use std::sync::Arc;
use tenon_storage::parse::{parse_scalar, parse_scalar_by};
use tenon_storage::types::NUMERIC;
use tenon_storage::{ArrayType, SqlType};

/// Which literals the parameters hold without a change.
pub(super) fn fitting(prepared: &Prepared, literals: &[Literal], settings: &Settings) -> Vec<bool> {
    let fits = parameters(prepared, literals).map(|(literal, pg, of)| value(literal, pg, of, settings).is_some());
    fits.collect()
}

pub(super) fn values(prepared: &Prepared, literals: &[Literal], settings: &Settings) -> Option<Vec<ScalarValue>> {
    let values = parameters(prepared, literals).map(|(literal, pg, of)| value(literal, pg, of, settings));
    values.collect()
}

/// The literals with the types of their parameters.
fn parameters<'a>(
    prepared: &'a Prepared,
    literals: &'a [Literal],
) -> impl Iterator<Item = (&'a Literal, PgType, &'a DataType)> {
    let types = prepared.params.iter().copied().zip(&prepared.param_data_types);
    literals.iter().zip(types).map(|(literal, (pg, of))| (literal, pg, of))
}

/// A literal as a parameter of a type that compares with it as the literal's own does. None for types of which that is not
/// sure, and for values that they do not have.
fn value(literal: &Literal, pg: PgType, of: &DataType, settings: &Settings) -> Option<ScalarValue> {
    const TEXT: [u32; 2] = [25, 1043];
    match (literal, of) {
        (Literal::Integer(digits), DataType::Int16) => digits.parse().ok().map(|v| ScalarValue::Int16(Some(v))),
        (Literal::Integer(digits), DataType::Int32) => digits.parse().ok().map(|v| ScalarValue::Int32(Some(v))),
        (Literal::Integer(digits), DataType::Int64) => digits.parse().ok().map(|v| ScalarValue::Int64(Some(v))),
        (Literal::Integer(digits), DataType::Float64) => {
            let value: i32 = digits.parse().ok()?;
            Some(ScalarValue::Float64(Some(value.into())))
        }
        // Numbers that are added have int4's type, and the sum that of the other summand where that has no less of them.
        (Literal::Summand(digits), DataType::Int32) => digits.parse().ok().map(|v| ScalarValue::Int32(Some(v))),
        (Literal::Summand(digits), DataType::Int64) => {
            let value: i32 = digits.parse().ok()?;
            Some(ScalarValue::Int64(Some(value.into())))
        }
        (Literal::Summand(digits), DataType::Float64) if !digits.contains('.') => {
            let value: i32 = digits.parse().ok()?;
            Some(ScalarValue::Float64(Some(value.into())))
        }
        (Literal::Integer(digits), DataType::Decimal128(precision, scale)) => decimal(digits, "", *precision, *scale),
        (Literal::Decimal(text), DataType::Decimal128(precision, scale)) => {
            let (whole, fraction) = text.split_once('.')?;
            decimal(whole, fraction, *precision, *scale)
        }
        (Literal::Text(text), DataType::Utf8View) if TEXT.contains(&pg.oid) => {
            Some(ScalarValue::Utf8View(Some(text.clone())))
        }
        (Literal::Decimal(text) | Literal::Summand(text), DataType::Float64) => {
            text.parse().ok().map(|v| ScalarValue::Float64(Some(v)))
        }
        (Literal::Integer(text) | Literal::Decimal(text) | Literal::Summand(text), of) if *of == NUMERIC => {
            read(SqlType::Numeric, text, of, settings)
        }
        (Literal::Text(text), DataType::Decimal128(precision, scale)) => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let plain = digits(whole.strip_prefix('-').unwrap_or(whole)) && (fraction.is_empty() || digits(fraction));
            plain.then(|| decimal(whole, fraction, *precision, *scale))?
        }
        (Literal::Text(text), of) => {
            let sql_type = match SqlType::of_oid(pg.oid, -1) {
                Some(sql_type) => Some(sql_type).filter(|sql_type| is_read(*sql_type))?,
                None => SqlType::Array(ArrayType::of_items(SqlType::of_oid(item_of(pg)?, -1)?)),
            };
            let is_moment = |word: &str| text.to_ascii_lowercase().contains(word);
            if sql_type.data_type().is_temporal() && MOMENTS.into_iter().any(is_moment) {
                return None;
            }
            read(sql_type, text, of, settings)
        }
        (Literal::List(items), DataType::List(item)) => {
            let oid = item_of(pg)?;
            let items = items
                .iter()
                .map(|literal| value(literal, PgType { oid, ..pg }, item.data_type(), settings));
            let items = items.collect::<Option<Vec<_>>>()?;
            let items = ScalarValue::iter_to_array(items).ok()?;
            let offsets = OffsetBuffer::from_lengths([items.len()]);
            Some(ScalarValue::List(Arc::new(ListArray::new(
                item.clone(),
                offsets,
                items,
                None,
            ))))
        }
        _ => None,
    }
}

/// The types of which lists are compared with columns as IN does: smallint, integer, bigint, text, varchar, date, uuid.
const ITEMS: [u32; 7] = [21, 23, 20, 25, 1043, 1082, 2950];

/// The type of the items of such a list.
fn item_of(list: PgType) -> Option<u32> {
    ITEMS.into_iter().find(|item| array_oid(*item) == list.oid)
}

/// Whether a string of a statement is read as a value of the type, and as nothing else.
fn is_read(of: SqlType) -> bool {
    use SqlType::*;
    matches!(
        of,
        Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Numeric | Bpchar | Json | Jsonb
    ) || matches!(of, Date | Time | Timestamp | TimestampTz | Uuid)
}

/// The value of a type that a text says; None where it says none, or the plan expects another form.
fn read(sql_type: SqlType, text: &str, of: &DataType, settings: &Settings) -> Option<ScalarValue> {
    let value = match sql_type.data_type().is_temporal() {
        true => parse_scalar_by(sql_type, text, &settings.conventions(None)),
        false => parse_scalar(sql_type, text),
    };
    let value = ScalarValue::try_from_array(&value.ok()?, 0).ok()?;
    (value.data_type() == *of).then_some(value)
}

fn decimal(whole: &str, fraction: &str, precision: u8, scale: i8) -> Option<ScalarValue> {
    let missing = usize::try_from(scale).ok()?.checked_sub(fraction.len())?;
    let (negative, whole) = whole.strip_prefix('-').map_or((false, whole), |whole| (true, whole));
    let digits = format!("{whole}{fraction}{}", "0".repeat(missing));
    let digits = digits.trim_start_matches('0');
    if digits.len() > usize::from(precision) {
        return None;
    }
    let value: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let value = if negative { -value } else { value };
    Some(ScalarValue::Decimal128(Some(value), precision, scale))
}
