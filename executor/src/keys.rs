//! Integer keys: key columns as `i64`.
//!
//! Joins, runtime filters and grouping work on integer keys: integers, dates, times, booleans and narrow decimals are
//! their value; anything else is a hash of its value, and whoever uses it compares the values afterwards.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::*;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{DataFusionError, Result, internal_err};
use rayon::prelude::*;
use tenon_cpu::{Stop, filled};

use crate::offload::check;

/// Whether a column of this type maps to integer keys without loss, and in order.
pub fn is_integer_key(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _) => true,
        DataType::Decimal128(precision, _) => *precision <= 18,
        _ => false,
    }
}

/// Appends the integer keys of an exact column to `integers`. Those of null rows hold anything.
pub fn append_integer_keys(array: &dyn Array, integers: &mut Vec<i64>) -> Result<()> {
    macro_rules! widen {
        ($t:ty) => {
            integers.extend(array.as_primitive::<$t>().values().iter().map(|&v| v as i64))
        };
    }
    match array.data_type() {
        DataType::Boolean => integers.extend(array.as_boolean().values().iter().map(i64::from)),
        DataType::Int8 => widen!(Int8Type),
        DataType::Int16 => widen!(Int16Type),
        DataType::Int32 => widen!(Int32Type),
        DataType::Int64 => integers.extend_from_slice(array.as_primitive::<Int64Type>().values()),
        DataType::UInt8 => widen!(UInt8Type),
        DataType::UInt16 => widen!(UInt16Type),
        DataType::UInt32 => widen!(UInt32Type),
        DataType::Date32 => widen!(Date32Type),
        DataType::Date64 => widen!(Date64Type),
        DataType::Time32(TimeUnit::Second) => widen!(Time32SecondType),
        DataType::Time32(_) => widen!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => widen!(Time64MicrosecondType),
        DataType::Time64(_) => widen!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => widen!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => widen!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => widen!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => widen!(TimestampNanosecondType),
        DataType::Decimal128(_, _) => widen!(Decimal128Type),
        other => return internal_err!("{other} has no exact key integers"),
    }
    Ok(())
}

/// The integer keys of one exact column, the column's own values where they are already `i64`.
pub fn integer_keys(array: &ArrayRef, stop: Stop<'_>) -> Result<ScalarBuffer<i64>> {
    if let Some(values) = array.as_any().downcast_ref::<Int64Array>() {
        return Ok(values.values().clone());
    }
    if array.len() <= WIDENED_ROWS {
        let mut integers = Vec::with_capacity(array.len());
        append_integer_keys(array.as_ref(), &mut integers)?;
        return Ok(integers.into());
    }
    let mut integers = filled(0, array.len());
    let pieces = integers.par_chunks_mut(WIDENED_ROWS).enumerate();
    pieces.try_for_each(|(piece, integers)| {
        check(stop)?;
        let mut own = Vec::with_capacity(integers.len());
        append_integer_keys(array.slice(piece * WIDENED_ROWS, integers.len()).as_ref(), &mut own)?;
        integers.copy_from_slice(&own);
        Ok::<_, DataFusionError>(())
    })?;
    Ok(integers.into())
}

/// Rows of a piece whose integer keys stay in a core's caches.
const WIDENED_ROWS: usize = 1 << 15;

/// Rebuilds a column of type `data_type` from exact integer keys.
pub fn from_integer_keys(integers: &[i64], nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    use arrow::array::{BooleanArray, PrimitiveArray};
    use std::sync::Arc;
    macro_rules! narrow {
        ($t:ty) => {
            Arc::new(
                PrimitiveArray::<$t>::new(integers.iter().map(|&v| v as _).collect::<Vec<_>>().into(), nulls)
                    .with_data_type(data_type.clone()),
            )
        };
    }
    Ok(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::new(integers.iter().map(|&v| v != 0).collect(), nulls)),
        DataType::Int8 => narrow!(Int8Type),
        DataType::Int16 => narrow!(Int16Type),
        DataType::Int32 => narrow!(Int32Type),
        DataType::Int64 => narrow!(Int64Type),
        DataType::UInt8 => narrow!(UInt8Type),
        DataType::UInt16 => narrow!(UInt16Type),
        DataType::UInt32 => narrow!(UInt32Type),
        DataType::Date32 => narrow!(Date32Type),
        DataType::Date64 => narrow!(Date64Type),
        DataType::Time32(TimeUnit::Second) => narrow!(Time32SecondType),
        DataType::Time32(_) => narrow!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => narrow!(Time64MicrosecondType),
        DataType::Time64(_) => narrow!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => narrow!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => narrow!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => narrow!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => narrow!(TimestampNanosecondType),
        DataType::Decimal128(_, _) => narrow!(Decimal128Type),
        other => return internal_err!("{other} has no exact key integers"),
    })
}

/// Hashes whole rows of `columns` into integer keys, if they are wanted to the end. Equal rows have equal integer keys; the reverse
/// must be checked.
pub fn hashed_keys(columns: &[ArrayRef], rows: usize, stop: Stop<'_>) -> Result<Vec<i64>> {
    if crate::test_hooks::equal_hashes() {
        return Ok(vec![0; rows]);
    }
    let mut hashes = filled(0u64, rows);
    if rows <= HASHED_ROWS {
        create_hashes(columns, &HASH_STATE, &mut hashes)?;
    } else {
        let pieces = hashes.par_chunks_mut(HASHED_ROWS).enumerate();
        pieces.try_for_each(|(piece, hashes)| {
            check(stop)?;
            let slice = |column: &ArrayRef| column.slice(piece * HASHED_ROWS, hashes.len());
            let columns: Vec<ArrayRef> = columns.iter().map(slice).collect();
            create_hashes(&columns, &HASH_STATE, hashes)?;
            Ok::<_, DataFusionError>(())
        })?;
    }
    Ok(hashes.into_iter().map(|h| h as i64).collect())
}

/// Rows of a piece of which one core makes hashes.
const HASHED_ROWS: usize = 1 << 16;

const HASH_STATE: RandomState = RandomState::with_seed(0x7e_40_11);

/// The rows where no key is null; `None` means all of them.
pub fn all_valid(columns: &[ArrayRef]) -> Option<NullBuffer> {
    let mut valid: Option<NullBuffer> = None;
    for column in columns {
        if let Some(nulls) = column.logical_nulls().filter(|n| n.null_count() > 0) {
            valid = NullBuffer::union(valid.as_ref(), Some(&nulls));
        }
    }
    valid
}

/// Smallest and largest integer key among the valid rows, `None` where there are none.
pub fn key_range(integers: &[i64], valid: Option<&NullBuffer>) -> Option<(i64, i64)> {
    let wider = |a: (i64, i64), b: (i64, i64)| (a.0.min(b.0), a.1.max(b.1));
    let none = (i64::MAX, i64::MIN);
    let (min, max) = match valid {
        None if integers.len() <= RANGED_ROWS => integers.iter().fold(none, |range, &v| wider(range, (v, v))),
        None => {
            let pieces = integers.par_chunks(RANGED_ROWS);
            let ranges = pieces.map(|integers| integers.iter().fold(none, |range, &v| wider(range, (v, v))));
            ranges.reduce(|| none, wider)
        }
        Some(valid) => valid
            .valid_indices()
            .fold(none, |range, i| wider(range, (integers[i], integers[i]))),
    };
    (min <= max).then_some((min, max))
}

/// Rows of a piece of which one core finds the range.
const RANGED_ROWS: usize = 1 << 17;
