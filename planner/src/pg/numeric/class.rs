//! What kind of number a type is.

use datafusion::arrow::datatypes::DataType;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Integer,
    /// An Arrow decimal.
    Decimal,
    /// A numeric of any precision.
    Numeric,
    Float,
    Text,
    Null,
    Other,
}

impl Class {
    pub fn of(data_type: &DataType) -> Class {
        match data_type {
            DataType::LargeBinary => Class::Numeric,
            DataType::Null => Class::Null,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Class::Text,
            other if other.is_integer() => Class::Integer,
            other if other.is_floating() => Class::Float,
            other if other.is_decimal() => Class::Decimal,
            _ => Class::Other,
        }
    }

    pub fn is_exact(self) -> bool {
        matches!(self, Class::Integer | Class::Decimal | Class::Numeric)
    }
}

/// Precision and scale of integers and decimals.
pub(crate) fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => (5, 0),
        DataType::UInt16 | DataType::Int32 => (10, 0),
        DataType::UInt32 | DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (*precision, *scale),
        _ => return None,
    })
}
