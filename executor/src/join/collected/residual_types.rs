//! Types of a filter in a kernel: how columns are stored, what their values can be, and whether arithmetic on them stays
//! within its type.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::Buffer;
use arrow::compute::{max, min};
use arrow::datatypes::*;
use datafusion::logical_expr::Operator;

/// Why a filter stays on the host.
type Refused = String;
pub type Translated<T> = Result<T, Refused>;

/// Smallest and largest unscaled value.
pub type Range = (i128, i128);

/// The type that a column's values have in the kernel.
pub fn c_type(data_type: &DataType) -> Translated<&'static str> {
    use DataType::*;
    Ok(match data_type {
        Boolean => "bool",
        Int8 | Int16 | Int32 | Int64 | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(_, _) => "i64",
        Decimal128(_, _) => "i128",
        Float32 => "f32",
        Float64 => "f64",
        other => return Err(format!("the filter reads {other}")),
    })
}

/// What values of a type can be, where arithmetic on it fails beyond.
pub fn type_range(data_type: &DataType) -> Option<Range> {
    use DataType::*;
    let signed = |bits: u32| (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1);
    match data_type {
        Int8 => Some(signed(8)),
        Int16 => Some(signed(16)),
        Int32 => Some(signed(32)),
        Int64 => Some(signed(64)),
        Decimal128(precision, _) => {
            let bound = 10i128.checked_pow((*precision).into())? - 1;
            Some((-bound, bound))
        }
        _ => None,
    }
}

/// Whether the unscaled numbers can be combined as they are.
pub fn scales_agree(left: &DataType, right: &DataType, op: Operator, result: &DataType) -> bool {
    match (left, right, result) {
        (DataType::Decimal128(_, l), DataType::Decimal128(_, r), DataType::Decimal128(_, s)) => match op {
            Operator::Multiply => l + r == *s,
            _ => l == r && l == s,
        },
        _ => left == right && left == result,
    }
}

/// What two numbers can give.
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

/// A column's bytes, the type they are stored as, and the range of its values where arithmetic needs one.
pub fn values(array: &ArrayRef) -> Translated<(Buffer, &'static str, Option<Range>)> {
    macro_rules! stored {
        ($t:ty, $name:literal) => {
            (array.as_primitive::<$t>().values().inner().clone(), $name, None)
        };
    }
    macro_rules! ranged {
        ($t:ty, $name:literal) => {{
            let values = array.as_primitive::<$t>();
            // Values of null rows are computed with, too.
            let raw = arrow::array::PrimitiveArray::<$t>::new(values.values().clone(), None);
            let range = (min(&raw).map_or(0, i128::from), max(&raw).map_or(0, i128::from));
            (values.values().inner().clone(), $name, Some(range))
        }};
    }
    use DataType::*;
    Ok(match array.data_type() {
        Boolean => (array.as_boolean().values().sliced(), "bit", None),
        Int8 => ranged!(Int8Type, "i8"),
        Int16 => ranged!(Int16Type, "i16"),
        Int32 => ranged!(Int32Type, "i32"),
        Int64 => ranged!(Int64Type, "i64"),
        Decimal128(_, _) => ranged!(Decimal128Type, "i128"),
        Date32 => stored!(Date32Type, "i32"),
        Date64 => stored!(Date64Type, "i64"),
        Time32(TimeUnit::Second) => stored!(Time32SecondType, "i32"),
        Time32(_) => stored!(Time32MillisecondType, "i32"),
        Time64(TimeUnit::Microsecond) => stored!(Time64MicrosecondType, "i64"),
        Time64(_) => stored!(Time64NanosecondType, "i64"),
        Timestamp(TimeUnit::Second, _) => stored!(TimestampSecondType, "i64"),
        Timestamp(TimeUnit::Millisecond, _) => stored!(TimestampMillisecondType, "i64"),
        Timestamp(TimeUnit::Microsecond, _) => stored!(TimestampMicrosecondType, "i64"),
        Timestamp(TimeUnit::Nanosecond, _) => stored!(TimestampNanosecondType, "i64"),
        Float32 => stored!(Float32Type, "f32"),
        Float64 => stored!(Float64Type, "f64"),
        other => return Err(format!("the filter reads {other}")),
    })
}
