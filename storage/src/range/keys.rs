//! Values of bounds as keys: bytes in the order of the values, with one key for equal values.

use super::RangeType;
use crate::error::{ErrorKind, Result, StorageError};
use crate::numeric::{Numeric, column, compare_key};
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

/// How many of some bytes are the key that they begin with.
pub(super) fn key_length(of: RangeType, bytes: &[u8]) -> Option<usize> {
    match of {
        RangeType::Int4 | RangeType::Date => Some(4),
        RangeType::Int8 | RangeType::Ts | RangeType::TsTz => Some(8),
        RangeType::Num => Numeric::key_length(bytes),
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
        RangeType::Num | RangeType::Ts | RangeType::TsTz => None,
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
    Ok(match of {
        RangeType::Int4 => keys!(Int32Type, of_i32),
        RangeType::Int8 => keys!(Int64Type, of_i64),
        RangeType::Date => keys!(Date32Type, of_i32),
        RangeType::Ts | RangeType::TsTz => keys!(TimestampMicrosecondType, of_i64),
        RangeType::Num => {
            let wrong = || StorageError::internal(format!("bounds of type {}", array.data_type()));
            let values = column::Values::of(array).ok_or_else(wrong)?;
            let key = |value: Numeric| compare_key(&value.to_bytes()).to_vec();
            values.iter().map(|value| value.map(key)).collect()
        }
    })
}

/// The array of the bounds of some keys.
pub fn bound_array<'a>(of: RangeType, keys: impl ExactSizeIterator<Item = Option<&'a [u8]>>) -> ArrayRef {
    match of {
        RangeType::Int4 => Arc::new(keys.map(|key| key.map(to_i32)).collect::<Int32Array>()),
        RangeType::Date => Arc::new(keys.map(|key| key.map(to_i32)).collect::<Date32Array>()),
        RangeType::Int8 => Arc::new(keys.map(|key| key.map(to_i64)).collect::<Int64Array>()),
        RangeType::Ts | RangeType::TsTz => {
            let values: TimestampMicrosecondArray = keys.map(|key| key.map(to_i64)).collect();
            Arc::new(values.with_data_type(of.subtype().data_type()))
        }
        RangeType::Num => column::collect(keys.map(|key| key.map(Numeric::of_key))),
    }
}
