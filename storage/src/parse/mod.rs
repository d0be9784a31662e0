//! Text to values, by the rules of PostgreSQL's input functions. Loaders and text parameters share these.

mod array;
mod binary;
mod column;
mod json;
mod number;
mod record;
mod wire;

pub use crate::datetime::civil::{MICROS_PER_DAY, civil_from_days, days_from_civil};
pub use array::{ArrayText, nested_offsets, parse_array, write_array};
pub use binary::{parse_bytea, parse_uuid};
pub(crate) use column::invalid_utf8;
pub use column::{FieldError, parse_column, parse_column_by, parse_scalar, parse_scalar_by};
pub use json::check_json;
pub use number::{
    parse_bool, parse_decimal, parse_float4, parse_float8, parse_int2, parse_int4, parse_int8, parse_numeric,
};
pub use record::{parse_record, write_record};
pub use wire::{decode_column, decode_scalar};

use crate::error::{ErrorKind, StorageError};
use crate::types::SqlType;

/// Why a text is no value of a type. Small, because the parsers of whole columns return it for every field.
#[derive(Clone, Debug)]
pub enum Invalid {
    /// Not of the type's form (22P02, for dates and times 22007).
    Syntax,
    /// A number that the type does not hold (22003).
    OutOfRange,
    /// A month, hour or year that does not exist or is not kept (22008).
    FieldOutOfRange,
    /// A month or day past the calendar's: perhaps the session expects another order (22008).
    MonthOrDay,
    /// A date or timestamp past those that are kept (22008).
    Past(&'static str),
    /// 22015.
    IntervalOutOfRange,
    /// 22009.
    ZoneOutOfRange,
    Other(Box<StorageError>),
}

impl Invalid {
    /// The statement is to end before it is known.
    pub(crate) fn stopped() -> Invalid {
        Self::other(ErrorKind::Canceled, "canceling statement due to user request")
    }

    pub(crate) fn other(kind: ErrorKind, message: impl Into<String>) -> Invalid {
        Invalid::Other(Box::new(StorageError::new(kind, message)))
    }

    /// The error that PostgreSQL reports for `text` as input of `sql_type`.
    pub fn into_error(self, sql_type: SqlType, text: &str) -> StorageError {
        let name = sql_type.base_name();
        match self {
            Invalid::Other(error) => *error,
            Invalid::Syntax => {
                let kind = if sql_type.is_temporal() {
                    ErrorKind::InvalidDatetimeFormat
                } else {
                    ErrorKind::InvalidText
                };
                StorageError::new(kind, format!("invalid input syntax for type {name}: \"{text}\""))
            }
            Invalid::IntervalOutOfRange => {
                let message = format!("interval field value out of range: \"{text}\"");
                StorageError::new(ErrorKind::IntervalFieldOverflow, message)
            }
            Invalid::ZoneOutOfRange => {
                let message = format!("time zone displacement out of range: \"{text}\"");
                StorageError::new(ErrorKind::ZoneOverflow, message)
            }
            Invalid::Past(what) => {
                let message = format!("{what} out of range: \"{text}\"");
                StorageError::new(ErrorKind::DatetimeOverflow, message)
            }
            Invalid::MonthOrDay => {
                let message = format!("date/time field value out of range: \"{text}\"");
                StorageError::new(ErrorKind::DatetimeOverflow, message)
                    .hint("Perhaps you need a different \"datestyle\" setting.")
            }
            Invalid::FieldOutOfRange => {
                let message = format!("date/time field value out of range: \"{text}\"");
                StorageError::new(ErrorKind::DatetimeOverflow, message)
            }
            Invalid::OutOfRange => match sql_type {
                SqlType::NumericOf(precision, scale) => numeric_overflow(precision.into(), scale.into()),
                SqlType::NumericWide(precision, scale) => numeric_overflow(precision.into(), scale.into()),
                SqlType::Numeric => StorageError::new(ErrorKind::NumericOutOfRange, "value overflows numeric format"),
                SqlType::Float4 | SqlType::Float8 => {
                    let message = format!("\"{text}\" is out of range for type {name}");
                    StorageError::new(ErrorKind::NumericOutOfRange, message)
                }
                _ => {
                    let message = format!("value \"{text}\" is out of range for type {name}");
                    StorageError::new(ErrorKind::NumericOutOfRange, message)
                }
            },
        }
    }
}

/// 22003 for a value that `numeric(precision, scale)` cannot hold.
pub fn numeric_overflow(precision: i32, scale: i32) -> StorageError {
    let digits = precision - scale;
    let bound = if digits == 0 {
        "1".to_string()
    } else {
        format!("10^{digits}")
    };
    StorageError::new(ErrorKind::NumericOutOfRange, "numeric field overflow").detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    ))
}

/// Without the blanks that PostgreSQL ignores around numbers and dates.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let Some(start) = text.iter().position(|byte| !blank(byte)) else {
        return &[];
    };
    let end = text
        .iter()
        .rposition(|byte| !blank(byte))
        .map_or(start, |last| last + 1);
    &text[start..end]
}
