//! One value of any stored type, ordered: the smallest and the largest of a column.

use arrow::array::*;
use arrow::datatypes::*;
use std::cmp::Ordering;
use std::sync::Arc;

/// Strings longer than this are not kept as bounds; the column then has none.
pub const BOUND_BYTES_MAX: usize = 256;

/// A value as its column's order sees it. Dates, times and timestamps are `Int` in the unit of their Arrow type.
#[derive(Clone, Debug)]
pub enum Bound {
    Bool(bool),
    Int(i64),
    Decimal(i128),
    /// NaN is above all numbers, -0 equals 0.
    Float(f64),
    Bytes(Box<[u8]>),
}

impl Bound {
    /// An array of this one value; None where the type does not fit the value.
    pub fn to_array(&self, data_type: &DataType) -> Option<ArrayRef> {
        Some(match (self, data_type) {
            (Bound::Bool(value), DataType::Boolean) => Arc::new(BooleanArray::from(vec![*value])),
            (Bound::Int(value), DataType::Int16) => Arc::new(Int16Array::from(vec![*value as i16])),
            (Bound::Int(value), DataType::Int32) => Arc::new(Int32Array::from(vec![*value as i32])),
            (Bound::Int(value), DataType::Int64) => Arc::new(Int64Array::from(vec![*value])),
            (Bound::Int(value), DataType::Date32) => Arc::new(Date32Array::from(vec![*value as i32])),
            (Bound::Int(value), DataType::Time64(TimeUnit::Microsecond)) => {
                Arc::new(Time64MicrosecondArray::from(vec![*value]))
            }
            (Bound::Int(value), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
                Arc::new(TimestampMicrosecondArray::from(vec![*value]).with_timezone_opt(zone.clone()))
            }
            (Bound::Float(value), DataType::Float32) => Arc::new(Float32Array::from(vec![*value as f32])),
            (Bound::Float(value), DataType::Float64) => Arc::new(Float64Array::from(vec![*value])),
            (Bound::Decimal(value), DataType::Decimal128(precision, scale)) => Arc::new(
                Decimal128Array::from(vec![*value])
                    .with_precision_and_scale(*precision, *scale)
                    .ok()?,
            ),
            (Bound::Bytes(value), DataType::Utf8View) => {
                Arc::new(StringViewArray::from(vec![std::str::from_utf8(value).ok()?]))
            }
            (Bound::Bytes(value), DataType::BinaryView) => Arc::new(BinaryViewArray::from(vec![value.as_ref()])),
            (Bound::Bytes(value), DataType::Binary) => Arc::new(BinaryArray::from(vec![value.as_ref()])),
            (Bound::Bytes(value), DataType::LargeBinary) => Arc::new(LargeBinaryArray::from(vec![value.as_ref()])),
            (Bound::Bytes(value), DataType::FixedSizeBinary(_)) => {
                Arc::new(FixedSizeBinaryArray::try_from_iter(std::iter::once(value)).ok()?)
            }
            _ => return None,
        })
    }
}

impl Bound {
    /// Where `value` lies between `self` and `high`: from 0 to 1.
    pub fn fraction(&self, high: &Bound, value: &Bound) -> f64 {
        let (low, high, value) = match (self, high, value) {
            (Bound::Bytes(low), Bound::Bytes(high), Bound::Bytes(value)) => {
                // Behind what both bounds begin with, the next bytes as a number.
                let shared = low.iter().zip(high.iter()).take_while(|(a, b)| a == b).count();
                let number = |bytes: &[u8]| {
                    let next = bytes.get(shared..).unwrap_or_default().iter().chain([0; 6].iter());
                    next.take(6).fold(0.0, |sum, byte| sum * 256.0 + f64::from(*byte))
                };
                (number(low), number(high), number(value))
            }
            _ => match (self.number(), high.number(), value.number()) {
                (Some(low), Some(high), Some(value)) => (low, high, value),
                _ => return 0.5,
            },
        };
        if high > low {
            ((value - low) / (high - low)).clamp(0.0, 1.0)
        } else {
            0.5
        }
    }

    /// The value on a line, in the unit that its column counts in; None for strings.
    pub fn number(&self) -> Option<f64> {
        match self {
            Bound::Bool(value) => Some(f64::from(*value)),
            Bound::Int(value) => Some(*value as f64),
            Bound::Decimal(value) => Some(*value as f64),
            Bound::Float(value) => Some(*value),
            Bound::Bytes(_) => None,
        }
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Bound {
    /// None for values of different kinds.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Bound::Bool(a), Bound::Bool(b)) => Some(a.cmp(b)),
            (Bound::Int(a), Bound::Int(b)) => Some(a.cmp(b)),
            (Bound::Decimal(a), Bound::Decimal(b)) => Some(a.cmp(b)),
            (Bound::Float(a), Bound::Float(b)) => Some(compare_floats(*a, *b)),
            (Bound::Bytes(a), Bound::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

/// PostgreSQL's order of floats: all NaN equal and above infinity, zeros equal.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
