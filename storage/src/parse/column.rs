//! A column of text fields to an array of the column's type.

use super::*;
use crate::datetime::{
    self, Conventions, TIMETZ_BYTES, parse_date, parse_interval, parse_time, parse_timestamp, parse_timestamptz,
    parse_timetz, timetz_bytes,
};
use crate::error::Result;
use crate::json::Json;
use crate::numeric::column::Builder;
use crate::quote::cut_name;
use crate::writer::fit_string;
use crate::{bits, network, range};
use arrow::array::*;
use arrow::datatypes::*;
use std::sync::Arc;

/// The first field of a column that is no value, by its row.
pub type FieldError = (usize, StorageError);

/// Parses fields (None: NULL), or gives the first field that is no value of the type. Dates are read by the conventions of
/// a session without settings.
pub fn parse_column<'a>(
    sql_type: SqlType,
    fields: impl ExactSizeIterator<Item = Option<&'a str>> + Clone,
) -> Result<ArrayRef, FieldError> {
    parse_column_by(sql_type, fields, &Conventions::default())
}

/// The same, by a session's conventions.
pub fn parse_column_by<'a>(
    sql_type: SqlType,
    fields: impl ExactSizeIterator<Item = Option<&'a str>> + Clone,
    conventions: &Conventions,
) -> Result<ArrayRef, FieldError> {
    match sql_type {
        SqlType::Bool => {
            let mut builder = BooleanBuilder::with_capacity(fields.len());
            for (row, field) in fields.enumerate() {
                builder.append_option(optional(sql_type, row, field, parse_bool)?);
            }
            Ok(Arc::new(builder.finish()))
        }
        SqlType::Int2 => primitive::<Int16Type>(sql_type, fields, parse_int2),
        SqlType::Int4 => primitive::<Int32Type>(sql_type, fields, parse_int4),
        SqlType::Int8 => primitive::<Int64Type>(sql_type, fields, parse_int8),
        SqlType::Float4 => primitive::<Float32Type>(sql_type, fields, parse_float4),
        SqlType::Float8 => primitive::<Float64Type>(sql_type, fields, parse_float8),
        SqlType::NumericOf(precision, scale) => {
            primitive::<Decimal128Type>(sql_type, fields, |text| parse_decimal(text, precision, scale))
        }
        SqlType::Numeric | SqlType::NumericWide(..) => {
            let mut builder = Builder::with_capacity(fields.len());
            for (row, field) in fields.enumerate() {
                builder.append(optional(sql_type, row, field, |text| parse_numeric(text, sql_type))?.as_ref());
            }
            Ok(builder.finish())
        }
        SqlType::Date => primitive::<Date32Type>(sql_type, fields, |text| parse_date(text, conventions)),
        SqlType::Time | SqlType::TimeOf(_) => primitive::<Time64MicrosecondType>(sql_type, fields, |text| {
            let us = parse_time(text, conventions)?;
            Ok(sql_type
                .seconds_digits()
                .map_or(us, |digits| datetime::rounded(us, digits)))
        }),
        SqlType::TimeTz | SqlType::TimeTzOf(_) => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(fields.len(), TIMETZ_BYTES as i32);
            for (row, field) in fields.enumerate() {
                let parsed = optional(sql_type, row, field, |text| parse_timetz(text, conventions))?;
                match parsed {
                    Some((us, east_s)) => {
                        let us = sql_type
                            .seconds_digits()
                            .map_or(us, |digits| datetime::rounded(us, digits));
                        let bytes = timetz_bytes(us, east_s);
                        builder.append_value(bytes).map_err(|error| (row, error.into()))?;
                    }
                    None => builder.append_null(),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        SqlType::Timestamp | SqlType::TimestampOf(_) => {
            primitive::<TimestampMicrosecondType>(sql_type, fields, |text| {
                let us = parse_timestamp(text, conventions)?;
                Ok(sql_type
                    .seconds_digits()
                    .map_or(us, |digits| datetime::rounded_stamp(us, digits)))
            })
        }
        SqlType::TimestampTz | SqlType::TimestampTzOf(_) => {
            primitive::<TimestampMicrosecondType>(sql_type, fields, |text| {
                let us = parse_timestamptz(text, conventions)?;
                Ok(sql_type
                    .seconds_digits()
                    .map_or(us, |digits| datetime::rounded_stamp(us, digits)))
            })
        }
        SqlType::Interval | SqlType::IntervalOf(..) => {
            let (range, digits) = sql_type.interval_limits();
            primitive::<IntervalMonthDayNanoType>(sql_type, fields, |text| {
                let span = parse_interval(text, range, conventions)?.within(range, digits);
                span.to_arrow().ok_or(Invalid::IntervalOutOfRange)
            })
        }
        SqlType::Bytea => {
            let mut builder = BinaryViewBuilder::with_capacity(fields.len());
            for (row, field) in fields.enumerate() {
                builder.append_option(optional(sql_type, row, field, parse_bytea)?);
            }
            Ok(Arc::new(builder.finish()))
        }
        SqlType::Uuid => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(fields.len(), 16);
            for (row, field) in fields.enumerate() {
                match optional(sql_type, row, field, parse_uuid)? {
                    Some(uuid) => builder.append_value(uuid).map_err(|error| (row, error.into()))?,
                    None => builder.append_null(),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        SqlType::Text | SqlType::Varchar | SqlType::Bpchar => strings(sql_type, fields, Ok),
        SqlType::Name => strings(sql_type, fields, |text| Ok(cut_name(text))),
        SqlType::VarcharOf(limit) => strings(sql_type, fields, |text| fit(text, limit, false, sql_type)),
        SqlType::CharOf(limit) => strings(sql_type, fields, |text| fit(text, limit, true, sql_type)),
        SqlType::Json => strings(sql_type, fields, |text| check_json(text).map(|()| text)),
        SqlType::Jsonb => {
            let mut builder = LargeStringBuilder::new();
            for (row, field) in fields.enumerate() {
                let value = field.map(|text| Json::parse(text).map_err(|invalid| failed(invalid, sql_type, row, text)));
                builder.append_option(value.transpose()?.map(|value| value.to_string()));
            }
            Ok(Arc::new(builder.finish()))
        }
        SqlType::Bit | SqlType::BitOf(_) | SqlType::VarBit | SqlType::VarBitOf(_) => {
            let mut builder = BinaryBuilder::with_capacity(fields.len(), 0);
            for (row, field) in fields.enumerate() {
                builder.append_option(optional(sql_type, row, field, |text| bits::parse(text, sql_type))?);
            }
            Ok(Arc::new(builder.finish()))
        }
        SqlType::Inet | SqlType::Cidr | SqlType::MacAddr | SqlType::MacAddr8 | SqlType::Tid => {
            let read = |(row, field)| optional(sql_type, row, field, |text| network::parse(text, sql_type));
            let values: Vec<_> = fields.enumerate().map(read).collect::<Result<_, _>>()?;
            network::array(sql_type, values).map_err(|error| (0, error))
        }
        SqlType::Range(_) | SqlType::Multirange(_) => {
            let read = |(row, field): (usize, Option<&str>)| {
                let read = field.map(|text| range::parse(text, sql_type, conventions));
                read.transpose().map_err(|error| (row, error))
            };
            let values: Vec<_> = fields.enumerate().map(read).collect::<Result<_, _>>()?;
            Ok(range::array(sql_type, values))
        }
        SqlType::Enum(of) => {
            primitive::<TimestampMicrosecondType>(sql_type, fields, |label| of.parse(&String::from_utf8_lossy(label)))
        }
        SqlType::Composite(of) => super::record::parse_records(of, fields, conventions),
        SqlType::Array(of) => super::array::parse_arrays(of, fields),
    }
}

/// One value as an array of one.
pub fn parse_scalar(sql_type: SqlType, text: &str) -> Result<ArrayRef> {
    parse_scalar_by(sql_type, text, &Conventions::default())
}

/// The same, by a session's conventions.
pub fn parse_scalar_by(sql_type: SqlType, text: &str, conventions: &Conventions) -> Result<ArrayRef> {
    parse_column_by(sql_type, std::iter::once(Some(text)), conventions).map_err(|(_, error)| error)
}

fn fit(text: &str, limit: u32, strip: bool, sql_type: SqlType) -> Result<&str, Invalid> {
    if text.len() <= limit as usize {
        return Ok(if strip { text.trim_end_matches(' ') } else { text });
    }
    fit_string(text, limit as usize, strip, sql_type).map_err(|error| Invalid::Other(Box::new(error)))
}

fn optional<'a, T>(
    sql_type: SqlType,
    row: usize,
    field: Option<&'a str>,
    parse: impl Fn(&'a [u8]) -> Result<T, Invalid>,
) -> Result<Option<T>, FieldError> {
    let Some(text) = field else { return Ok(None) };
    parse(text.as_bytes())
        .map(Some)
        .map_err(|invalid| failed(invalid, sql_type, row, text))
}

#[cold]
fn failed(invalid: Invalid, sql_type: SqlType, row: usize, text: &str) -> FieldError {
    (row, invalid.into_error(sql_type, text))
}

fn primitive<'a, T: ArrowPrimitiveType>(
    sql_type: SqlType,
    fields: impl ExactSizeIterator<Item = Option<&'a str>>,
    parse: impl Fn(&'a [u8]) -> Result<T::Native, Invalid>,
) -> Result<ArrayRef, FieldError> {
    let mut values = Vec::with_capacity(fields.len());
    let mut nulls: Option<NullBufferBuilder> = None;
    let rows = fields.len();
    for (row, field) in fields.enumerate() {
        match field {
            Some(text) => {
                values.push(parse(text.as_bytes()).map_err(|invalid| failed(invalid, sql_type, row, text))?);
                if let Some(nulls) = &mut nulls {
                    nulls.append_non_null();
                }
            }
            None => {
                values.push(T::Native::default());
                let nulls = nulls.get_or_insert_with(|| {
                    let mut nulls = NullBufferBuilder::new(rows);
                    nulls.append_n_non_nulls(row);
                    nulls
                });
                nulls.append_null();
            }
        }
    }
    let nulls = nulls.and_then(|mut nulls| nulls.finish());
    let array = PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(sql_type.data_type());
    Ok(Arc::new(array))
}

fn strings<'a>(
    sql_type: SqlType,
    fields: impl ExactSizeIterator<Item = Option<&'a str>> + Clone,
    check: impl Fn(&'a str) -> Result<&'a str, Invalid>,
) -> Result<ArrayRef, FieldError> {
    // One block for all strings that do not stand in their views.
    let long: usize = fields
        .clone()
        .flatten()
        .map(str::len)
        .filter(|length| *length > 12)
        .sum();
    let block = u32::try_from(long.max(1)).unwrap_or(u32::MAX);
    let mut builder = StringViewBuilder::with_capacity(fields.len()).with_fixed_block_size(block);
    for (row, field) in fields.enumerate() {
        match field {
            None => builder.append_null(),
            Some(text) => builder.append_value(check(text).map_err(|invalid| failed(invalid, sql_type, row, text))?),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// 22021 for the first bytes that are not UTF-8.
pub(crate) fn invalid_utf8(bytes: &[u8]) -> StorageError {
    let at = match std::str::from_utf8(bytes) {
        Err(error) => error.valid_up_to(),
        Ok(text) => text.find('\0').unwrap_or(0),
    };
    let wanted = match bytes.get(at) {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<_> = bytes[at..]
        .iter()
        .take(wanted)
        .map(|byte| format!("0x{byte:02x}"))
        .collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    StorageError::new(ErrorKind::InvalidEncoding, message)
}
