//! Values of bounds as keys: bytes in the order of the values, with one key for equal values, none of which begins another.

use super::RangeType;
use crate::error::{ErrorKind, Result, StorageError};
use crate::numeric::{Numeric, column, compare_key};
use crate::types::SqlType;
use arrow::array::*;
use arrow::datatypes::*;
use std::sync::Arc;

fn of_i32(value: i32) -> [u8; 4] {
    ((value as u32) ^ (1 << 31)).to_be_bytes()
}

fn of_i64(value: i64) -> [u8; 8] {
    ((value as u64) ^ (1 << 63)).to_be_bytes()
}

/// Of a key of other length 0: none is made.
fn to_i32(key: &[u8]) -> i32 {
    key.try_into()
        .map_or(0, |key| (u32::from_be_bytes(key) ^ (1 << 31)) as i32)
}

fn to_i64(key: &[u8]) -> i64 {
    key.try_into()
        .map_or(0, |key| (u64::from_be_bytes(key) ^ (1 << 63)) as i64)
}

/// Of the order of floats, in which NaN is the last and -0 is 0.
fn of_f64(value: f64) -> [u8; 8] {
    let value = if value.is_nan() { f64::NAN.abs() } else { value + 0.0 };
    let bits = value.to_bits();
    let ordered = match bits >> 63 {
        0 => bits ^ (1 << 63),
        _ => !bits,
    };
    ordered.to_be_bytes()
}

fn to_f64(key: &[u8]) -> f64 {
    let ordered = key.try_into().map_or(0, u64::from_be_bytes);
    f64::from_bits(match ordered >> 63 {
        0 => !ordered,
        _ => ordered ^ (1 << 63),
    })
}

/// No text has it: what is behind the end of one.
const END_OF_TEXT: u8 = 0;

fn to_text(key: &[u8]) -> String {
    let text = key.strip_suffix(&[END_OF_TEXT]).unwrap_or(key);
    String::from_utf8_lossy(text).into_owned()
}

/// How many of some bytes are the key that they begin with.
pub(super) fn key_length(of: RangeType, bytes: &[u8]) -> Option<usize> {
    match of.subtype() {
        SqlType::Int2 | SqlType::Int4 | SqlType::Date => Some(4),
        SqlType::Numeric => Numeric::key_length(bytes),
        SqlType::Text | SqlType::Varchar => Some(bytes.iter().position(|byte| *byte == END_OF_TEXT)? + 1),
        other => match other.data_type() {
            DataType::FixedSizeBinary(width) => usize::try_from(width).ok(),
            _ => Some(8),
        },
    }
}

/// The first day that no date is.
const END_DAY: i32 = 2_145_042_906;

/// The key of the value behind one of a type that has such; None where that is an infinity.
pub(super) fn next(of: RangeType, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let overflow = |kind, message: &str| StorageError::new(kind, message);
    Ok(match of {
        RangeType::Int4 => {
            let next = to_i32(key).checked_add(1);
            let next = next.ok_or_else(|| overflow(ErrorKind::NumericOutOfRange, "integer out of range"))?;
            Some(of_i32(next).to_vec())
        }
        RangeType::Int8 => {
            let next = to_i64(key).checked_add(1);
            let next = next.ok_or_else(|| overflow(ErrorKind::NumericOutOfRange, "bigint out of range"))?;
            Some(of_i64(next).to_vec())
        }
        RangeType::Date => match to_i32(key) {
            i32::MIN | i32::MAX => None,
            days => {
                let next = days.checked_add(1).filter(|next| *next < END_DAY);
                let next = next.ok_or_else(|| overflow(ErrorKind::DatetimeOverflow, "date out of range"))?;
                Some(of_i32(next).to_vec())
            }
        },
        RangeType::Num | RangeType::Ts | RangeType::TsTz | RangeType::User(_) => None,
    })
}

/// The keys of an array of bounds, which has the type's own type of them (any numbers for `numrange`).
pub fn bounds(of: RangeType, array: &dyn Array) -> Result<Vec<Option<Vec<u8>>>> {
    macro_rules! keys {
        ($type:ty, $key:expr) => {{
            let wrong = || StorageError::internal(format!("bounds of type {}", array.data_type()));
            let values = array.as_primitive_opt::<$type>().ok_or_else(wrong)?;
            values
                .iter()
                .map(|value| value.map(|value| $key(value).to_vec()))
                .collect()
        }};
    }
    if *array.data_type() == DataType::Null {
        return Ok(vec![None; array.len()]);
    }
    let wrong = || StorageError::internal(format!("bounds of type {}", array.data_type()));
    Ok(match of.subtype() {
        SqlType::Int2 => keys!(Int16Type, |value| of_i32(i32::from(value))),
        SqlType::Int4 => keys!(Int32Type, of_i32),
        SqlType::Int8 => keys!(Int64Type, of_i64),
        SqlType::Float4 => keys!(Float32Type, |value| of_f64(f64::from(value))),
        SqlType::Float8 => keys!(Float64Type, of_f64),
        SqlType::Date => keys!(Date32Type, of_i32),
        SqlType::Time => keys!(Time64MicrosecondType, of_i64),
        SqlType::Timestamp | SqlType::TimestampTz => keys!(TimestampMicrosecondType, of_i64),
        SqlType::Text | SqlType::Varchar => {
            let texts = arrow::compute::cast(array, &DataType::Utf8View).map_err(|_| wrong())?;
            let key = |text: &str| [text.as_bytes(), &[END_OF_TEXT]].concat();
            texts.as_string_view().iter().map(|text| text.map(key)).collect()
        }
        SqlType::Numeric => {
            let values = column::Values::of(array).ok_or_else(wrong)?;
            let key = |value: Numeric| compare_key(&value.to_bytes()).to_vec();
            values.iter().map(|value| value.map(key)).collect()
        }
        _ => {
            let values = array.as_fixed_size_binary_opt().ok_or_else(wrong)?;
            values.iter().map(|value| value.map(<[u8]>::to_vec)).collect()
        }
    })
}

/// The array of the bounds of some keys.
pub fn bound_array<'a>(of: RangeType, keys: impl ExactSizeIterator<Item = Option<&'a [u8]>>) -> ArrayRef {
    match of.subtype() {
        SqlType::Int2 => Arc::new(
            keys.map(|key| key.map(|key| to_i32(key) as i16))
                .collect::<Int16Array>(),
        ),
        SqlType::Int4 => Arc::new(keys.map(|key| key.map(to_i32)).collect::<Int32Array>()),
        SqlType::Date => Arc::new(keys.map(|key| key.map(to_i32)).collect::<Date32Array>()),
        SqlType::Int8 => Arc::new(keys.map(|key| key.map(to_i64)).collect::<Int64Array>()),
        SqlType::Float4 => Arc::new(
            keys.map(|key| key.map(|key| to_f64(key) as f32))
                .collect::<Float32Array>(),
        ),
        SqlType::Float8 => Arc::new(keys.map(|key| key.map(to_f64)).collect::<Float64Array>()),
        SqlType::Time => Arc::new(keys.map(|key| key.map(to_i64)).collect::<Time64MicrosecondArray>()),
        SqlType::Timestamp | SqlType::TimestampTz => {
            let values: TimestampMicrosecondArray = keys.map(|key| key.map(to_i64)).collect();
            Arc::new(values.with_data_type(of.subtype().data_type()))
        }
        SqlType::Text | SqlType::Varchar => Arc::new(keys.map(|key| key.map(to_text)).collect::<StringViewArray>()),
        SqlType::Numeric => column::collect(keys.map(|key| key.map(Numeric::of_key))),
        other => {
            let width = match other.data_type() {
                DataType::FixedSizeBinary(width) => width,
                _ => 0,
            };
            let mut values = FixedSizeBinaryBuilder::new(width);
            for key in keys {
                // Of a key of another width none is made.
                match key.filter(|key| key.len() == width as usize) {
                    Some(key) if values.append_value(key).is_ok() => {}
                    _ => values.append_null(),
                }
            }
            Arc::new(values.finish())
        }
    }
}
