//! Types of a filter in a kernel: how values are held there, and what they can be.

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::logical_expr::Operator;

/// Why a filter stays on the host.
type Refused = String;
pub type Translated<T> = Result<T, Refused>;

/// Smallest and largest unscaled value.
pub type Range = (i128, i128);

/// The type that a value has in the kernel. Intervals are one number in the order of months, days and nanoseconds.
pub fn c_type(data_type: &DataType) -> Translated<&'static str> {
    use DataType::*;
    Ok(match data_type {
        Boolean => "bool",
        // Numbers of rows or of sets, which 63 bits hold.
        UInt8 | UInt16 | UInt32 | UInt64 => "i64",
        Int8 | Int16 | Int32 | Int64 | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(_, _) => "i64",
        Decimal128(_, _) | Interval(IntervalUnit::MonthDayNano) => "i128",
        Float32 => "f32",
        Float64 => "f64",
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "Text",
        other => return Err(format!("values of {other}")),
    })
}

/// Whether values of the types compare as they are.
pub fn comparable(left: &DataType, right: &DataType) -> bool {
    left == right || (left.is_string() && right.is_string()) || (is_bytes(left) && is_bytes(right))
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    )
}

/// What values of a type can be, where arithmetic on it fails beyond.
pub fn type_range(data_type: &DataType) -> Option<Range> {
    use DataType::*;
    let signed = |bits: u32| (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1);
    match data_type {
        Int8 => Some(signed(8)),
        Int16 => Some(signed(16)),
        Int32 | Date32 | Time32(_) => Some(signed(32)),
        Int64 | Date64 | Time64(_) | Timestamp(_, _) => Some(signed(64)),
        UInt64 => Some((0, i64::MAX.into())),
        Decimal128(precision, _) => {
            let bound = 10i128.checked_pow((*precision).into())? - 1;
            Some((-bound, bound))
        }
        _ => None,
    }
}

/// Whether arithmetic is on whole numbers: integers and decimals.
pub fn is_exact(data_type: &DataType) -> bool {
    data_type.is_signed_integer() || matches!(data_type, DataType::Decimal128(_, _))
}

/// Digits after the point.
pub fn scale(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// What a sum, a difference or a product of two numbers can be, if 128 bits hold it.
pub fn combined(left: Range, op: Operator, right: Range) -> Option<Range> {
    match op {
        Operator::Plus => Some((left.0.checked_add(right.0)?, left.1.checked_add(right.1)?)),
        Operator::Minus => Some((left.0.checked_sub(right.1)?, left.1.checked_sub(right.0)?)),
        _ => {
            let mut corners = vec![];
            for l in [left.0, left.1] {
                for r in [right.0, right.1] {
                    corners.push(l.checked_mul(r)?);
                }
            }
            Some((*corners.iter().min()?, *corners.iter().max()?))
        }
    }
}

/// The largest magnitude in a range.
pub fn magnitude(range: Range) -> Option<i128> {
    Some(range.0.checked_abs()?.max(range.1.checked_abs()?))
}

/// A whole number as C++.
pub fn c_number(value: i128) -> String {
    match i64::try_from(value) {
        Ok(i64::MIN) | Err(_) => format!("bits_128({:#x}ull, {:#x}ull)", (value >> 64) as u64, value as u64),
        Ok(value) => format!("(i64){value}ll"),
    }
}
