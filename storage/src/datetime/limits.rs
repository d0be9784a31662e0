//! Columns of times and intervals brought to a declared type's digits and fields.

use super::span::{Span, rounded, rounded_stamp};
use super::{out_of_range, timetz_bytes, timetz_of};
use crate::error::Result;
use crate::types::SqlType;
use arrow::array::*;
use arrow::datatypes::*;
use std::sync::Arc;

/// Values of the type's representation as the type keeps them.
pub fn limited(array: ArrayRef, sql_type: SqlType) -> Result<ArrayRef> {
    if sql_type == sql_type.unlimited() {
        return Ok(array);
    }
    let digits = sql_type.seconds_digits().unwrap_or(6);
    Ok(match sql_type {
        SqlType::TimeOf(_) => Arc::new(
            array
                .as_primitive::<Time64MicrosecondType>()
                .unary::<_, Time64MicrosecondType>(|us| rounded(us, digits)),
        ),
        SqlType::TimestampOf(_) | SqlType::TimestampTzOf(_) => Arc::new(
            array
                .as_primitive::<TimestampMicrosecondType>()
                .unary::<_, TimestampMicrosecondType>(|us| rounded_stamp(us, digits))
                .with_data_type(array.data_type().clone()),
        ),
        SqlType::IntervalOf(range, digits) => {
            let limit = |value| Span::from(value).within(range, digits).to_arrow();
            let values = array.as_primitive::<IntervalMonthDayNanoType>();
            let values = values.try_unary::<_, IntervalMonthDayNanoType, _>(|value| {
                limit(value).ok_or_else(|| out_of_range("interval"))
            });
            Arc::new(values?)
        }
        SqlType::TimeTzOf(_) => {
            let values = array.as_fixed_size_binary().iter().map(|bytes| {
                let (us, east_s) = timetz_of(bytes?);
                Some(timetz_bytes(rounded(us, digits), east_s))
            });
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                values,
                super::TIMETZ_BYTES as i32,
            )?)
        }
        _ => array,
    })
}
