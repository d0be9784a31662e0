//! `oidvector` and `int2vector`: the types of the system tables' lists of types and columns, and what is compared with them.

use super::columns::vector_type;
use super::functions::{Fallible, elements, text};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{ArrayRef, LargeListArray, StringArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use std::sync::Arc;

/// The function that reads a text or an array as a vector type does.
pub(super) fn reader(of: &str) -> Option<String> {
    vector_type(of).map(|_| format!("tenon_{of}"))
}

/// The same, by its name.
pub(super) fn function(name: &str) -> Option<(DataType, Box<Fallible>)> {
    let of = name.strip_prefix("tenon_")?.to_string();
    let returns = vector_type(&of)?;
    let own = returns.clone();
    let read = move |args: &[ScalarValue]| match args.first().map(|value| (value, elements(value))) {
        Some((_, Some(items))) => vector(&items, &own),
        Some((value, None)) if !value.is_null() => vector(&numbers(&of, args)?, &own),
        _ => ScalarValue::try_new_null(&own),
    };
    Some((returns, Box::new(read)))
}

fn vector(items: &ArrayRef, of: &DataType) -> Result<ScalarValue> {
    let DataType::LargeList(item) = of else {
        return ScalarValue::try_new_null(of);
    };
    let items = cast(items, item.data_type())?;
    let offsets = OffsetBuffer::from_lengths([items.len()]);
    let list = LargeListArray::try_new(Arc::clone(item), offsets, items, None)?;
    Ok(ScalarValue::LargeList(Arc::new(list)))
}

/// The numbers of a text such as `1 2`.
fn numbers(of: &str, args: &[ScalarValue]) -> Result<ArrayRef> {
    let text = text(args, 0).unwrap_or_default();
    let (kind, most) = match of {
        "oidvector" => ("oid", i64::from(u32::MAX)),
        _ => ("smallint", i64::from(i16::MAX)),
    };
    for word in text.split_ascii_whitespace() {
        if !word.parse::<i64>().is_ok_and(|number| number.abs() <= most) {
            let message = format!("invalid input syntax for type {kind}: \"{word}\"");
            return Err(to_datafusion(SqlError::new(
                state::INVALID_TEXT_REPRESENTATION,
                message,
            )));
        }
    }
    Ok(Arc::new(StringArray::from_iter_values(text.split_ascii_whitespace())))
}
