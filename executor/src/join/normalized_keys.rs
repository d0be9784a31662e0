//! Normalized keys: values of a column as unsigned integers in the same order, which sorts, searches and hash tables
//! work on, on the CPU and on the GPU.
//!
//! | type | normalized key |
//! | --- | --- |
//! | bool, integers and dates of at most 32 bits, float4 | u32 |
//! | int8, times, timestamps, float8, decimals | u64 |
//! | text, bytes, uuid | u64: the first eight bytes, so that different values may share a normalized key |
//!
//! Signed numbers have their sign bit flipped. Floats are ordered as PostgreSQL orders them: -0 equals 0, and NaN equals
//! itself and is above all others. Decimals beyond 64 bits are cut off at its ends.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::*;
use datafusion::common::{Result, internal_err};
use rayon::prelude::*;
use tenon_cpu::Stop;

use crate::offload::{PIECE_ROWS, check};

/// Rows that one core turns into normalized keys at a time.
pub const PIECE: usize = 16 * 1024;

pub enum NormalizedKeys {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// A column's normalized keys. Those of null rows are anything.
pub struct Normalized {
    pub keys: NormalizedKeys,
    /// Whether equal normalized keys mean equal values.
    pub exact: bool,
}

/// Whether columns of this type have normalized keys in the order of their values.
pub fn has_normalized_keys(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal128(..)
            | DataType::UInt64
            | DataType::Float32
            | DataType::Float64
            | DataType::Duration(_)
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    ) || crate::keys::is_integer_key(data_type)
}

/// The normalized keys of a column whose type has them, if they are wanted to the end.
pub fn normalize(array: &ArrayRef, stop: Stop<'_>) -> Result<Normalized> {
    // Numbers are read by all cores, faster than a cancel is looked for.
    if array.data_type().primitive_width().is_some() {
        check(stop)?;
        return normalize_part(array);
    }
    let mut normalized: Option<Normalized> = None;
    for from in (0..array.len().max(1)).step_by(PIECE_ROWS) {
        check(stop)?;
        let more = normalize_part(&array.slice(from, PIECE_ROWS.min(array.len() - from)))?;
        match &mut normalized {
            None => normalized = Some(more),
            Some(normalized) => normalized.append(more, array.len())?,
        }
    }
    normalized.map_or_else(|| internal_err!("a column without a piece"), Ok)
}

impl Normalized {
    /// Adds the normalized keys of the next rows, of `rows` in all.
    fn append(&mut self, more: Normalized, rows: usize) -> Result<()> {
        self.exact &= more.exact;
        match (&mut self.keys, more.keys) {
            (NormalizedKeys::U32(keys), NormalizedKeys::U32(more)) => {
                keys.reserve(rows - keys.len());
                keys.extend(more);
            }
            (NormalizedKeys::U64(keys), NormalizedKeys::U64(more)) => {
                keys.reserve(rows - keys.len());
                keys.extend(more);
            }
            _ => return internal_err!("keys of two widths in one column"),
        }
        Ok(())
    }
}

fn normalize_part(array: &ArrayRef) -> Result<Normalized> {
    macro_rules! keys {
        ($form:ident, $t:ty, $code:expr) => {
            NormalizedKeys::$form(
                array
                    .as_primitive::<$t>()
                    .values()
                    .par_iter()
                    .with_min_len(PIECE)
                    .map($code)
                    .collect(),
            )
        };
    }
    macro_rules! narrow {
        ($t:ty) => {
            keys!(U32, $t, |&v| (v as i32) as u32 ^ 1 << 31)
        };
    }
    macro_rules! wide {
        ($t:ty) => {
            keys!(U64, $t, |&v| v as u64 ^ 1 << 63)
        };
    }
    macro_rules! bytes {
        ($array:expr) => {
            NormalizedKeys::U64(
                $array
                    .iter()
                    .map(|v| prefix(v.map_or(&[][..], |v| v.as_ref())))
                    .collect(),
            )
        };
    }
    let mut exact = true;
    let keys = match array.data_type() {
        DataType::Boolean => NormalizedKeys::U32(array.as_boolean().values().iter().map(u32::from).collect()),
        DataType::Int8 => narrow!(Int8Type),
        DataType::Int16 => narrow!(Int16Type),
        DataType::Int32 => narrow!(Int32Type),
        DataType::UInt8 => keys!(U32, UInt8Type, |&v| u32::from(v)),
        DataType::UInt16 => keys!(U32, UInt16Type, |&v| u32::from(v)),
        DataType::UInt32 => keys!(U32, UInt32Type, |&v| v),
        DataType::Date32 => narrow!(Date32Type),
        DataType::Time32(TimeUnit::Second) => narrow!(Time32SecondType),
        DataType::Time32(_) => narrow!(Time32MillisecondType),
        DataType::Float32 => keys!(U32, Float32Type, |&v| float32(v)),
        DataType::Int64 => wide!(Int64Type),
        DataType::UInt64 => keys!(U64, UInt64Type, |&v| v),
        DataType::Date64 => wide!(Date64Type),
        DataType::Time64(TimeUnit::Microsecond) => wide!(Time64MicrosecondType),
        DataType::Time64(_) => wide!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => wide!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => wide!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => wide!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => wide!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => wide!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => wide!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => wide!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => wide!(DurationNanosecondType),
        DataType::Float64 => keys!(U64, Float64Type, |&v| float64(v)),
        DataType::Decimal128(_, _) => {
            let values = array.as_primitive::<Decimal128Type>();
            let fits = |v: i128| i64::try_from(v).is_ok();
            exact = (0..values.len()).all(|row| values.is_null(row) || fits(values.value(row)));
            let cut = |v: i128| v.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            NormalizedKeys::U64(values.values().iter().map(|&v| cut(v) as u64 ^ 1 << 63).collect())
        }
        other => {
            exact = false;
            match other {
                DataType::Utf8 => bytes!(array.as_string::<i32>()),
                DataType::LargeUtf8 => bytes!(array.as_string::<i64>()),
                DataType::Utf8View => bytes!(array.as_string_view()),
                DataType::Binary => bytes!(array.as_binary::<i32>()),
                DataType::LargeBinary => bytes!(array.as_binary::<i64>()),
                DataType::BinaryView => bytes!(array.as_binary_view()),
                DataType::FixedSizeBinary(_) => bytes!(array.as_fixed_size_binary()),
                _ => return internal_err!("{other} has no keys in its order"),
            }
        }
    };
    Ok(Normalized { keys, exact })
}

/// The first eight bytes as a number, big end first; shorter values are filled up with zeros.
fn prefix(bytes: &[u8]) -> u64 {
    let mut key = [0; 8];
    let head = bytes.len().min(8);
    key[..head].copy_from_slice(&bytes[..head]);
    u64::from_be_bytes(key)
}

fn float32(value: f32) -> u32 {
    if value.is_nan() {
        return u32::MAX;
    }
    // Adding 0 makes -0 to 0.
    let bits = (value + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits ^ 1 << 31 }
}

fn float64(value: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 }
}

impl NormalizedKeys {
    /// The normalized keys of these rows only.
    pub fn pick(self, rows: &[u32]) -> Self {
        match self {
            NormalizedKeys::U32(keys) => NormalizedKeys::U32(rows.iter().map(|&row| keys[row as usize]).collect()),
            NormalizedKeys::U64(keys) => NormalizedKeys::U64(rows.iter().map(|&row| keys[row as usize]).collect()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        match self {
            NormalizedKeys::U32(keys) => keys.len(),
            NormalizedKeys::U64(keys) => keys.len(),
        }
    }

    /// The lowest and the highest; none if there are no normalized keys.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        fn of<W: Copy + Ord + Send + Sync + Into<u64>>(keys: &[W]) -> Option<(u64, u64)> {
            let ends = keys.par_iter().map(|&key| (key, key));
            let (low, high) = ends.reduce_with(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
            Some((low.into(), high.into()))
        }
        match self {
            NormalizedKeys::U32(keys) => of(keys),
            NormalizedKeys::U64(keys) => of(keys),
        }
    }

    /// Bytes of one normalized key.
    pub fn width(&self) -> usize {
        match self {
            NormalizedKeys::U32(_) => 4,
            NormalizedKeys::U64(_) => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Float32Array, Float64Array, Int16Array, Int64Array, StringViewArray};
    use std::sync::Arc;

    fn wide(array: ArrayRef) -> (Vec<u64>, bool) {
        let normalized = normalize(&array, Stop::never()).unwrap();
        match normalized.keys {
            NormalizedKeys::U32(keys) => (keys.into_iter().map(u64::from).collect(), normalized.exact),
            NormalizedKeys::U64(keys) => (keys, normalized.exact),
        }
    }

    fn ascends(array: ArrayRef) -> bool {
        wide(array).0.is_sorted_by(|a, b| a < b)
    }

    #[test]
    fn words_keep_the_order() {
        assert!(ascends(Arc::new(Int16Array::from(vec![i16::MIN, -1, 0, 7, i16::MAX]))));
        assert!(ascends(Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, 7, i64::MAX]))));
        let floats = [
            f64::NEG_INFINITY,
            -1.5,
            -1e-300,
            0.0,
            1e-300,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(ascends(Arc::new(Float64Array::from(floats.to_vec()))));
        let floats = [
            f32::NEG_INFINITY,
            -1.5,
            -1e-30,
            0.0,
            1e-30,
            2.0,
            f32::INFINITY,
            f32::NAN,
        ];
        assert!(ascends(Arc::new(Float32Array::from(floats.to_vec()))));
        assert!(ascends(Arc::new(StringViewArray::from(vec![
            "",
            "a",
            "ab",
            "b",
            "ba",
            "c long one"
        ]))));
    }

    #[test]
    fn equal_floats_share_a_word() {
        let (zero, _) = wide(Arc::new(Float64Array::from(vec![0.0, -0.0])));
        assert_eq!(zero[0], zero[1]);
        let (nan, _) = wide(Arc::new(Float32Array::from(vec![f32::NAN, -f32::NAN])));
        assert_eq!(nan[0], nan[1]);
    }

    #[test]
    fn wide_decimals_are_cut_off() {
        let decimals = Decimal128Array::from(vec![i128::MIN, -5, 0, 5, i128::MAX]);
        let (keys, exact) = wide(Arc::new(decimals));
        assert!(keys.is_sorted() && !exact);
        assert!(wide(Arc::new(Decimal128Array::from(vec![-5, 5]))).1);
    }
}
