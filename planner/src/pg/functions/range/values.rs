//! Arguments of functions of ranges.

use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DataFusionError, Result};
use tenon_storage::SqlType;
use tenon_storage::datetime::Conventions;
use tenon_storage::error::{ErrorKind, StorageError};
use tenon_storage::numeric::column::is_number;
use tenon_storage::parse::parse_column_by;
use tenon_storage::range::{self, RangeType, Span};
use tenon_storage::types::NUMERIC;

pub(super) fn failed(error: StorageError) -> DataFusionError {
    to_datafusion(error.into())
}

/// A literal that has no type of its own.
pub(super) fn is_unknown(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::Null)
}

/// What an argument that is a bound or an element is coerced to; None where it is none.
pub(super) fn element(of: RangeType, given: &DataType) -> Option<DataType> {
    let (subtype, own) = (of.subtype(), of.subtype().data_type());
    let is_stamp = matches!(subtype, SqlType::Timestamp | SqlType::TimestampTz);
    match given {
        given if is_unknown(given) || *given == own => Some(given.clone()),
        // A literal is an int8 here, whatever its size: read when it is called for.
        DataType::Int16 | DataType::Int64 if subtype == SqlType::Int4 => Some(given.clone()),
        DataType::Int16 | DataType::Int32 if subtype == SqlType::Int8 => Some(given.clone()),
        given if subtype == SqlType::Numeric && is_number(given) && !given.is_floating() => Some(given.clone()),
        given if matches!(subtype, SqlType::Float4 | SqlType::Float8) && is_number(given) => Some(own),
        DataType::Date32 if is_stamp => Some(own),
        DataType::Timestamp(TimeUnit::Microsecond, None) if subtype == SqlType::TimestampTz => Some(own),
        _ => None,
    }
}

/// Whether operators take it for an element, as they do values of the very type.
pub(super) fn is_element(of: RangeType, given: &DataType) -> bool {
    match of.subtype() {
        SqlType::Numeric => is_unknown(given) || given.is_decimal() || *given == NUMERIC,
        // A literal is an int8 here, whatever its size.
        SqlType::Int4 => is_unknown(given) || matches!(given, DataType::Int32 | DataType::Int64),
        _ => is_unknown(given) || *given == of.subtype().data_type(),
    }
}

/// The keys of bounds or elements; literals are read.
pub(super) fn keys(of: RangeType, array: &ArrayRef, by: &Conventions) -> Result<Vec<Option<Vec<u8>>>> {
    let own = of.subtype();
    let values = match array.data_type() {
        DataType::Utf8 => {
            let fields = array.as_string::<i32>().iter();
            parse_column_by(own, fields, by).map_err(|(_, error)| failed(error))?
        }
        given if given.is_integer() && *given != own.data_type() && own != SqlType::Numeric => {
            let options = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            let overflow = |_| {
                let message = format!("{} out of range", own.base_name());
                failed(StorageError::new(ErrorKind::NumericOutOfRange, message))
            };
            cast_with_options(array, &own.data_type(), &options).map_err(overflow)?
        }
        given if !given.is_null() && own != SqlType::Numeric && *given != own.data_type() => {
            cast(array, &own.data_type())?
        }
        _ => array.clone(),
    };
    range::bounds(of, &values).map_err(failed)
}

/// An argument that is ranges or multiranges of a type; literals are read.
pub(super) fn ranges(of: SqlType, array: &ArrayRef, by: &Conventions) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Null => new_null_array(&of.data_type(), array.len()),
        DataType::Utf8 => {
            let fields = array.as_string::<i32>().iter();
            parse_column_by(of, fields, by).map_err(|(_, error)| failed(error))?
        }
        _ => array.clone(),
    })
}

/// The ranges of a value, the empty one as none.
pub(super) fn spans(of: SqlType, bytes: &[u8]) -> Vec<Span<'_>> {
    match of {
        SqlType::Multirange(of) => range::ranges_of_bytes(of, bytes),
        SqlType::Range(of) => range::of_bytes(of, bytes).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The bytes of a value of these ranges, one at most where it is a range.
pub(super) fn to_bytes(of: SqlType, spans: &[Span]) -> Vec<u8> {
    match of {
        SqlType::Multirange(_) => range::write_ranges(spans),
        _ => range::to_bytes(spans.first()),
    }
}

/// The values of an array of ranges or multiranges.
pub(super) fn values(array: &dyn Array) -> Result<range::Values<'_>> {
    range::Values::of(array)
        .ok_or_else(|| DataFusionError::Internal(format!("ranges expected, not {}", array.data_type())))
}
