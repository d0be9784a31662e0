//! How long a call's arguments are.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use std::borrow::Cow;

/// What a short value takes in an array.
const SLOT_BYTES: u64 = 16;

/// One argument's values, by row.
pub(super) enum Lengths {
    /// The same in every row.
    Same(u64),
    Each(Vec<u32>),
}

impl Lengths {
    pub fn of(value: &ColumnarValue) -> Self {
        match value {
            ColumnarValue::Scalar(scalar) => Self::Same(scalar_bytes(scalar)),
            ColumnarValue::Array(array) => Self::Each(array_bytes(array)),
        }
    }

    pub fn at(&self, row: usize) -> u64 {
        match self {
            Self::Same(bytes) => *bytes,
            Self::Each(rows) => rows.get(row).copied().unwrap_or(0).into(),
        }
    }
}

/// At least what all rows of an argument hold, without a look at each.
pub(super) fn at_most(value: &ColumnarValue, rows: usize) -> u64 {
    match value {
        ColumnarValue::Scalar(scalar) => scalar_bytes(scalar).saturating_mul(rows as u64),
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Utf8 => span(array.as_string::<i32>().value_offsets()),
            DataType::LargeUtf8 => span(array.as_string::<i64>().value_offsets()),
            DataType::Binary => span(array.as_binary::<i32>().value_offsets()),
            DataType::Utf8View => {
                let buffers = array.as_string_view().data_buffers().iter();
                buffers.map(|buffer| buffer.len() as u64).sum::<u64>() + SLOT_BYTES * rows as u64
            }
            other if other.is_nested() => held(array.as_ref()),
            _ => 0,
        },
    }
}

/// What an array holds of its own. Texts that share their buffers with others, as those do that were gathered, are counted by
/// their lengths: the buffers would be counted in each array.
fn held(array: &dyn Array) -> u64 {
    match array.data_type() {
        DataType::Utf8View => {
            let views = array.as_string_view().views();
            views.iter().map(|view| u64::from(*view as u32) + SLOT_BYTES).sum()
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            held(list.values().as_ref()) + size_of_val(list.value_offsets()) as u64
        }
        DataType::Struct(_) => array
            .as_struct()
            .columns()
            .iter()
            .map(|column| held(column.as_ref()))
            .sum(),
        _ => array.get_array_memory_size() as u64,
    }
}

fn span<T: Copy + TryInto<u64>>(offsets: &[T]) -> u64 {
    let at = |offset: Option<&T>| offset.and_then(|offset| (*offset).try_into().ok()).unwrap_or(0);
    at(offsets.last()) - at(offsets.first())
}

pub(super) fn scalar_bytes(scalar: &ScalarValue) -> u64 {
    match scalar {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            text.as_ref().map_or(0, |text| text.len() as u64)
        }
        ScalarValue::Binary(bytes) | ScalarValue::BinaryView(bytes) | ScalarValue::LargeBinary(bytes) => {
            bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)
        }
        ScalarValue::List(list) => held(list.as_ref()),
        _ => 0,
    }
}

fn array_bytes(array: &ArrayRef) -> Vec<u32> {
    let clamp = |bytes: i64| u32::try_from(bytes).unwrap_or(u32::MAX);
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().offsets().lengths().map(|n| n as u32).collect(),
        DataType::Binary => array.as_binary::<i32>().offsets().lengths().map(|n| n as u32).collect(),
        DataType::LargeUtf8 => array
            .as_string::<i64>()
            .offsets()
            .lengths()
            .map(|n| clamp(n as i64))
            .collect(),
        DataType::Utf8View => array.as_string_view().views().iter().map(|view| *view as u32).collect(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let each = (held(list.values().as_ref()) / list.values().len().max(1) as u64).max(1);
            list.offsets()
                .lengths()
                .map(|n| clamp((n as u64 * each) as i64))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The argument's whole numbers, by row; None for nulls and for other types.
pub(super) enum Numbers {
    Same(Option<i64>),
    Each(ArrayRef),
}

impl Numbers {
    pub fn of(value: &ColumnarValue) -> Self {
        let as_numbers = |array: &ArrayRef| match array.data_type().is_integer() {
            true => cast(array, &DataType::Int64).ok(),
            false => None,
        };
        match value {
            ColumnarValue::Scalar(scalar) if scalar.data_type().is_integer() => {
                let one = scalar.to_array().ok().and_then(|array| as_numbers(&array));
                Self::Same(one.and_then(|array| number(&array, 0)))
            }
            ColumnarValue::Scalar(_) => Self::Same(None),
            ColumnarValue::Array(array) => as_numbers(array).map_or(Self::Same(None), Self::Each),
        }
    }

    pub fn at(&self, row: usize) -> Option<i64> {
        match self {
            Self::Same(number) => *number,
            Self::Each(array) => number(array, row),
        }
    }
}

fn number(array: &ArrayRef, row: usize) -> Option<i64> {
    let numbers = array.as_primitive_opt::<Int64Type>()?;
    (row < numbers.len() && numbers.is_valid(row)).then(|| numbers.value(row))
}

/// A row's text.
pub(super) fn text(value: &ColumnarValue, row: usize) -> Option<Cow<'_, str>> {
    match value {
        ColumnarValue::Scalar(scalar) => scalar.try_as_str().flatten().map(Cow::Borrowed),
        ColumnarValue::Array(array) if row >= array.len() || array.is_null(row) => None,
        ColumnarValue::Array(array) => Some(Cow::Borrowed(match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().value(row),
            DataType::LargeUtf8 => array.as_string::<i64>().value(row),
            DataType::Utf8View => array.as_string_view().value(row),
            _ => return None,
        })),
    }
}
