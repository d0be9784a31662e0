//! A column as buffers that a kernel reads.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::Buffer;
use arrow::compute::{cast, max, min};
use arrow::datatypes::*;

use super::types::{Range, Translated};

/// How values lie in their buffers.
pub enum Form {
    Bit,
    /// One after the other, as this C++ type.
    Number(&'static str),
    /// Offsets of this C++ type in the first buffer, one more than values, and bytes in the next.
    Text(&'static str),
}

/// A column's values; nulls are apart.
pub struct Loaded {
    pub buffers: Vec<Buffer>,
    pub form: Form,
    /// Of whole numbers: what the values can be. Null rows are computed with, too, and count.
    pub range: Option<Range>,
    /// Of texts: whether all bytes are ASCII.
    pub ascii: bool,
    /// Bytes that the column itself did not hold.
    pub made_bytes: usize,
}

impl Loaded {
    fn new(buffer: Buffer, form: Form, range: Option<Range>) -> Self {
        Self {
            buffers: vec![buffer],
            form,
            range,
            ascii: false,
            made_bytes: 0,
        }
    }
}

/// A column without a dictionary.
pub fn plain(array: &ArrayRef) -> Translated<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values).map_err(|error| error.to_string()),
        _ => Ok(Arc::clone(array)),
    }
}

/// Loads a column without a dictionary.
pub fn load(array: &ArrayRef) -> Translated<Loaded> {
    macro_rules! ranged {
        ($t:ty, $name:literal) => {{
            let values = array.as_primitive::<$t>();
            let raw = arrow::array::PrimitiveArray::<$t>::new(values.values().clone(), None);
            let range = (min(&raw).map_or(0, i128::from), max(&raw).map_or(0, i128::from));
            Loaded::new(values.values().inner().clone(), Form::Number($name), Some(range))
        }};
    }
    macro_rules! texts {
        ($array:expr) => {{
            let array = $array;
            texts(|row| -> &[u8] { array.value(row).as_ref() }, array)
        }};
    }
    use DataType::*;
    Ok(match array.data_type() {
        Boolean => Loaded::new(array.as_boolean().values().sliced(), Form::Bit, None),
        Int8 => ranged!(Int8Type, "i8"),
        Int16 => ranged!(Int16Type, "i16"),
        Int32 => ranged!(Int32Type, "i32"),
        Int64 => ranged!(Int64Type, "i64"),
        UInt64 => {
            let values = ranged!(UInt64Type, "u64");
            match values.range {
                Some((_, high)) if high > i64::MAX.into() => return Err("numbers beyond 63 bits".into()),
                _ => values,
            }
        }
        Decimal128(_, _) => ranged!(Decimal128Type, "i128"),
        Date32 => ranged!(Date32Type, "i32"),
        Date64 => ranged!(Date64Type, "i64"),
        Time32(TimeUnit::Second) => ranged!(Time32SecondType, "i32"),
        Time32(_) => ranged!(Time32MillisecondType, "i32"),
        Time64(TimeUnit::Microsecond) => ranged!(Time64MicrosecondType, "i64"),
        Time64(_) => ranged!(Time64NanosecondType, "i64"),
        Timestamp(TimeUnit::Second, _) => ranged!(TimestampSecondType, "i64"),
        Timestamp(TimeUnit::Millisecond, _) => ranged!(TimestampMillisecondType, "i64"),
        Timestamp(TimeUnit::Microsecond, _) => ranged!(TimestampMicrosecondType, "i64"),
        Timestamp(TimeUnit::Nanosecond, _) => ranged!(TimestampNanosecondType, "i64"),
        Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            Loaded::new(values.inner().clone(), Form::Number("f32"), None)
        }
        Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            Loaded::new(values.inner().clone(), Form::Number("f64"), None)
        }
        Interval(IntervalUnit::MonthDayNano) => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>().values();
            let numbers: Vec<i128> = values.iter().map(|value| interval_number(*value)).collect();
            let made_bytes = size_of_val(&numbers[..]);
            Loaded {
                made_bytes,
                ..Loaded::new(Buffer::from_vec(numbers), Form::Number("i128"), None)
            }
        }
        Utf8 => texts!(array.as_string::<i32>()),
        LargeUtf8 => texts!(array.as_string::<i64>()),
        Utf8View => texts!(array.as_string_view()),
        Binary => texts!(array.as_binary::<i32>()),
        LargeBinary => texts!(array.as_binary::<i64>()),
        BinaryView => texts!(array.as_binary_view()),
        FixedSizeBinary(_) => texts!(array.as_fixed_size_binary()),
        other => return Err(format!("values of {other}")),
    })
}

/// An interval as one number in Arrow's order: months, then days, then nanoseconds.
fn interval_number(value: IntervalMonthDayNano) -> i128 {
    (i128::from(value.months) << 96) + (i128::from(value.days) << 64) + i128::from(value.nanoseconds)
}

/// Texts, those of null rows empty, as offsets and bytes.
fn texts<'a>(value: impl Fn(usize) -> &'a [u8], array: &dyn Array) -> Loaded {
    let each = || {
        (0..array.len()).map(|row| match array.is_valid(row) {
            true => value(row),
            false => &[],
        })
    };
    let total: usize = each().map(<[u8]>::len).sum();
    let mut bytes = Vec::with_capacity(total);
    let mut ends = vec![0u64];
    ends.reserve(array.len());
    for text in each() {
        bytes.extend_from_slice(text);
        ends.push(bytes.len() as u64);
    }
    let ascii = bytes.is_ascii();
    let (offsets, offset) = match u32::try_from(total) {
        Ok(_) => {
            let narrow: Vec<u32> = ends.into_iter().map(|end| end as u32).collect();
            (Buffer::from_vec(narrow), "u32")
        }
        Err(_) => (Buffer::from_vec(ends), "u64"),
    };
    Loaded {
        made_bytes: offsets.len() + bytes.len(),
        buffers: vec![offsets, Buffer::from_vec(bytes)],
        form: Form::Text(offset),
        range: None,
        ascii,
    }
}
