//! Values of a column as unsigned words in the same order: what sorts, searches and hash tables work on, on the CPU and
//! on the GPU.
//!
//! | type | word |
//! | --- | --- |
//! | bool, integers and dates of at most 32 bits, float4 | u32 |
//! | int8, times, timestamps, float8, decimals | u64 |
//! | text, bytes, uuid | u64: the first eight bytes, so that different values may share a word |
//!
//! Signed numbers have their sign bit flipped. Floats are ordered as PostgreSQL orders them: -0 equals 0, and NaN equals
//! itself and is above all others. Decimals beyond 64 bits are cut off at its ends.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::*;
use datafusion::common::{Result, internal_err};
use rayon::prelude::*;
use tenon_gpu::cpu::Stop;

use crate::apart::{PIECE_ROWS, check};

/// Rows that one core turns into words at a time.
pub const PIECE: usize = 16 * 1024;

pub enum Words {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// A column's words. Those of null rows are anything.
pub struct Codes {
    pub words: Words,
    /// Whether equal words mean equal values.
    pub exact: bool,
}

/// Whether columns of this type have words in the order of their values.
pub fn has_order_codes(data_type: &DataType) -> bool {
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
    ) || crate::keys::is_exact(data_type)
}

/// The words of a column whose type has them, if they are wanted to the end.
pub fn order_codes(array: &ArrayRef, stop: Stop<'_>) -> Result<Codes> {
    // Numbers are read by all cores, faster than a cancel is looked for.
    if array.data_type().primitive_width().is_some() {
        check(stop)?;
        return piece_codes(array);
    }
    let mut codes: Option<Codes> = None;
    for from in (0..array.len().max(1)).step_by(PIECE_ROWS) {
        check(stop)?;
        let more = piece_codes(&array.slice(from, PIECE_ROWS.min(array.len() - from)))?;
        match &mut codes {
            None => codes = Some(more),
            Some(codes) => codes.append(more, array.len())?,
        }
    }
    codes.map_or_else(|| internal_err!("a column without a piece"), Ok)
}

impl Codes {
    /// Adds the words of the next rows, of `rows` in all.
    fn append(&mut self, more: Codes, rows: usize) -> Result<()> {
        self.exact &= more.exact;
        match (&mut self.words, more.words) {
            (Words::U32(words), Words::U32(more)) => {
                words.reserve(rows - words.len());
                words.extend(more);
            }
            (Words::U64(words), Words::U64(more)) => {
                words.reserve(rows - words.len());
                words.extend(more);
            }
            _ => return internal_err!("words of two widths in one column"),
        }
        Ok(())
    }
}

fn piece_codes(array: &ArrayRef) -> Result<Codes> {
    macro_rules! words {
        ($form:ident, $t:ty, $code:expr) => {
            Words::$form(
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
            words!(U32, $t, |&v| (v as i32) as u32 ^ 1 << 31)
        };
    }
    macro_rules! wide {
        ($t:ty) => {
            words!(U64, $t, |&v| v as u64 ^ 1 << 63)
        };
    }
    macro_rules! bytes {
        ($array:expr) => {
            Words::U64(
                $array
                    .iter()
                    .map(|v| prefix(v.map_or(&[][..], |v| v.as_ref())))
                    .collect(),
            )
        };
    }
    let mut exact = true;
    let words = match array.data_type() {
        DataType::Boolean => Words::U32(array.as_boolean().values().iter().map(u32::from).collect()),
        DataType::Int8 => narrow!(Int8Type),
        DataType::Int16 => narrow!(Int16Type),
        DataType::Int32 => narrow!(Int32Type),
        DataType::UInt8 => words!(U32, UInt8Type, |&v| u32::from(v)),
        DataType::UInt16 => words!(U32, UInt16Type, |&v| u32::from(v)),
        DataType::UInt32 => words!(U32, UInt32Type, |&v| v),
        DataType::Date32 => narrow!(Date32Type),
        DataType::Time32(TimeUnit::Second) => narrow!(Time32SecondType),
        DataType::Time32(_) => narrow!(Time32MillisecondType),
        DataType::Float32 => words!(U32, Float32Type, |&v| float32(v)),
        DataType::Int64 => wide!(Int64Type),
        DataType::UInt64 => words!(U64, UInt64Type, |&v| v),
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
        DataType::Float64 => words!(U64, Float64Type, |&v| float64(v)),
        DataType::Decimal128(_, _) => {
            let values = array.as_primitive::<Decimal128Type>();
            let fits = |v: i128| i64::try_from(v).is_ok();
            exact = (0..values.len()).all(|row| values.is_null(row) || fits(values.value(row)));
            let cut = |v: i128| v.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            Words::U64(values.values().iter().map(|&v| cut(v) as u64 ^ 1 << 63).collect())
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
                _ => return internal_err!("{other} has no words in its order"),
            }
        }
    };
    Ok(Codes { words, exact })
}

/// The first eight bytes as a number, big end first; shorter values are filled up with zeros.
fn prefix(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let head = bytes.len().min(8);
    word[..head].copy_from_slice(&bytes[..head]);
    u64::from_be_bytes(word)
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

impl Words {
    /// The words of these rows only.
    pub fn pick(self, rows: &[u32]) -> Self {
        match self {
            Words::U32(words) => Words::U32(rows.iter().map(|&row| words[row as usize]).collect()),
            Words::U64(words) => Words::U64(rows.iter().map(|&row| words[row as usize]).collect()),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Words::U32(words) => words.len(),
            Words::U64(words) => words.len(),
        }
    }

    /// The lowest and the highest; none if there are no words.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        fn of<W: Copy + Ord + Send + Sync + Into<u64>>(words: &[W]) -> Option<(u64, u64)> {
            let ends = words.par_iter().map(|&word| (word, word));
            let (low, high) = ends.reduce_with(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
            Some((low.into(), high.into()))
        }
        match self {
            Words::U32(words) => of(words),
            Words::U64(words) => of(words),
        }
    }

    /// Bytes of one word.
    pub fn width(&self) -> usize {
        match self {
            Words::U32(_) => 4,
            Words::U64(_) => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Float32Array, Float64Array, Int16Array, Int64Array, StringViewArray};
    use std::sync::Arc;

    fn wide(array: ArrayRef) -> (Vec<u64>, bool) {
        let codes = order_codes(&array, Stop::never()).unwrap();
        match codes.words {
            Words::U32(words) => (words.into_iter().map(u64::from).collect(), codes.exact),
            Words::U64(words) => (words, codes.exact),
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
        let (words, exact) = wide(Arc::new(decimals));
        assert!(words.is_sorted() && !exact);
        assert!(wide(Arc::new(Decimal128Array::from(vec![-5, 5]))).1);
    }
}
