//! PostgreSQL's binary form of values: COPY BINARY and binary parameters.

use super::column::{FieldError, invalid_utf8};
use super::json::check_json;
use super::number::POWERS;
use super::{Invalid, numeric_overflow};
use crate::datetime::{FIRST_US, TIMETZ_BYTES, is_infinite, is_infinite_date, timetz_bytes};
use crate::error::{ErrorKind, Result, StorageError};
use crate::json::Json;
use crate::numeric::column::does_not_fit;
use crate::numeric::{self, Numeric};
use crate::quote::cut_name;
use crate::types::SqlType;
use crate::writer::fit_string;
use crate::{bits, network, range};
use arrow::array::*;
use arrow::datatypes::*;
use std::sync::Arc;

/// PostgreSQL counts from 2000-01-01.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * super::MICROS_PER_DAY;

pub(super) fn malformed() -> StorageError {
    StorageError::new(ErrorKind::InvalidBinary, "incorrect binary data format")
}

/// The number at the beginning of what is left, which then begins behind it.
pub(super) fn next_word(rest: &mut &[u8]) -> Result<i32> {
    let (head, tail) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
    *rest = tail;
    Ok(i32::from_be_bytes(*head))
}

/// Likewise a value behind its length; None: NULL, whose length is -1.
pub(super) fn next_value<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>> {
    let length = next_word(rest)?;
    if length == -1 {
        return Ok(None);
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= rest.len());
    let (value, tail) = rest.split_at(length.ok_or_else(malformed)?);
    *rest = tail;
    Ok(Some(value))
}

fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| malformed())
}

/// Decodes fields (None: NULL), or gives the first that is no value of the type.
pub fn decode_column<'a>(
    sql_type: SqlType,
    fields: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
) -> Result<ArrayRef, FieldError> {
    match sql_type {
        SqlType::Bool => {
            let values = collect(fields, |bytes| match exact(bytes)? {
                [0] => Ok(false),
                [1] => Ok(true),
                _ => Err(malformed()),
            })?;
            Ok(Arc::new(BooleanArray::from(values)))
        }
        SqlType::Int2 => primitive::<Int16Type>(sql_type, fields, |bytes| exact(bytes).map(i16::from_be_bytes)),
        SqlType::Int4 => primitive::<Int32Type>(sql_type, fields, |bytes| exact(bytes).map(i32::from_be_bytes)),
        SqlType::Int8 => primitive::<Int64Type>(sql_type, fields, |bytes| exact(bytes).map(i64::from_be_bytes)),
        SqlType::Float4 => primitive::<Float32Type>(sql_type, fields, |bytes| exact(bytes).map(f32::from_be_bytes)),
        SqlType::Float8 => primitive::<Float64Type>(sql_type, fields, |bytes| exact(bytes).map(f64::from_be_bytes)),
        SqlType::NumericOf(precision, scale) => {
            primitive::<Decimal128Type>(sql_type, fields, |bytes| decode_numeric(bytes, precision, scale))
        }
        SqlType::Numeric | SqlType::NumericWide(..) => {
            let values = collect(fields, |bytes| {
                let value = Numeric::read_wire(bytes).ok_or_else(malformed)?;
                match sql_type {
                    SqlType::NumericWide(precision, scale) => {
                        let (precision, scale) = (precision.into(), scale.into());
                        let fitted = value.fitted(precision, scale);
                        fitted.ok_or_else(|| does_not_fit(&value, precision, scale))
                    }
                    _ => Ok(value),
                }
            })?;
            Ok(numeric::column::collect(values.into_iter()))
        }
        SqlType::Date => primitive::<Date32Type>(sql_type, fields, |bytes| {
            let days = i32::from_be_bytes(exact(bytes)?);
            if is_infinite_date(days) {
                return Ok(days);
            }
            days.checked_add(EPOCH_DAYS)
                .ok_or_else(|| StorageError::new(ErrorKind::DatetimeOverflow, "date out of range"))
        }),
        SqlType::Time | SqlType::TimeOf(_) => primitive::<Time64MicrosecondType>(sql_type, fields, |bytes| {
            let micros = i64::from_be_bytes(exact(bytes)?);
            let valid = (0..=super::MICROS_PER_DAY).contains(&micros);
            if valid {
                Ok(micros)
            } else {
                Err(StorageError::new(ErrorKind::DatetimeOverflow, "time out of range"))
            }
        }),
        SqlType::Timestamp | SqlType::TimestampTz | SqlType::TimestampOf(_) | SqlType::TimestampTzOf(_) => {
            primitive::<TimestampMicrosecondType>(sql_type, fields, |bytes| {
                let micros = i64::from_be_bytes(exact(bytes)?);
                if is_infinite(micros) {
                    return Ok(micros);
                }
                let in_range = micros
                    .checked_add(EPOCH_MICROS)
                    .filter(|micros| (FIRST_US..i64::MAX).contains(micros));
                in_range.ok_or_else(|| StorageError::new(ErrorKind::DatetimeOverflow, "timestamp out of range"))
            })
        }
        SqlType::Interval | SqlType::IntervalOf(..) => {
            primitive::<IntervalMonthDayNanoType>(sql_type, fields, |bytes| {
                let bytes: [u8; 16] = exact(bytes)?;
                let micros = i64::from_be_bytes(exact(&bytes[..8])?);
                let (days, months) = (
                    i32::from_be_bytes(exact(&bytes[8..12])?),
                    i32::from_be_bytes(exact(&bytes[12..])?),
                );
                let nanos = micros.checked_mul(1000);
                let nanos =
                    nanos.ok_or_else(|| StorageError::new(ErrorKind::DatetimeOverflow, "interval out of range"))?;
                Ok(IntervalMonthDayNano::new(months, days, nanos))
            })
        }
        SqlType::TimeTz | SqlType::TimeTzOf(_) => {
            let values = collect(fields, |bytes| {
                let bytes: [u8; 12] = exact(bytes)?;
                let us = i64::from_be_bytes(exact(&bytes[..8])?);
                let east_s = i32::from_be_bytes(exact(&bytes[8..])?)
                    .checked_neg()
                    .ok_or_else(malformed)?;
                if !(0..=super::MICROS_PER_DAY).contains(&us) {
                    return Err(StorageError::new(ErrorKind::DatetimeOverflow, "time out of range"));
                }
                if east_s.abs() > 57_599 {
                    let message = "time zone displacement out of range";
                    return Err(StorageError::new(ErrorKind::ZoneOverflow, message));
                }
                Ok(timetz_bytes(us, east_s))
            })?;
            let values = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), TIMETZ_BYTES as i32);
            Ok(Arc::new(values.map_err(|error| (0, error.into()))?))
        }
        SqlType::Enum(of) => primitive::<TimestampMicrosecondType>(sql_type, fields, |bytes| {
            let label = decode_string(bytes, SqlType::Text)?;
            of.parse(label).map_err(|invalid| invalid.into_error(sql_type, label))
        }),
        SqlType::Bytea => {
            let mut builder = BinaryViewBuilder::with_capacity(fields.len());
            fields.for_each(|field| builder.append_option(field));
            Ok(Arc::new(builder.finish()))
        }
        SqlType::Uuid => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(fields.len(), 16);
            for (row, field) in fields.enumerate() {
                match field {
                    Some(bytes) => builder.append_value(bytes).map_err(|_| (row, malformed()))?,
                    None => builder.append_null(),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
        SqlType::Bit | SqlType::BitOf(_) | SqlType::VarBit | SqlType::VarBitOf(_) => {
            let values = collect(fields, |bytes| bits::read_wire(bytes, sql_type))?;
            Ok(bits::array(values))
        }
        SqlType::Inet | SqlType::Cidr | SqlType::MacAddr | SqlType::MacAddr8 | SqlType::Tid => {
            let values = collect(fields, |bytes| network::read_wire(bytes, sql_type))?;
            network::array(sql_type, values).map_err(|error| (0, error))
        }
        SqlType::Range(_) | SqlType::Multirange(_) => {
            let values = collect(fields, |bytes| range::read_wire(bytes, sql_type))?;
            Ok(range::array(sql_type, values))
        }
        SqlType::Composite(of) => super::record::decode_records(of, fields),
        SqlType::Array(of) => super::array::decode_arrays(of, fields),
        SqlType::Jsonb => {
            let values = collect(fields, |bytes| {
                let text = decode_string(bytes, sql_type)?;
                let value = Json::parse(text).map_err(|invalid| invalid.into_error(sql_type, text))?;
                Ok(value.to_string())
            })?;
            Ok(Arc::new(LargeStringArray::from_iter(values)))
        }
        SqlType::Text
        | SqlType::Name
        | SqlType::Varchar
        | SqlType::VarcharOf(_)
        | SqlType::CharOf(_)
        | SqlType::Bpchar
        | SqlType::Json => {
            let values = collect(fields, |bytes| decode_string(bytes, sql_type))?;
            Ok(Arc::new(StringViewArray::from_iter(values)))
        }
    }
}

/// One value as an array of one.
pub fn decode_scalar(sql_type: SqlType, bytes: &[u8]) -> Result<ArrayRef> {
    decode_column(sql_type, std::iter::once(Some(bytes))).map_err(|(_, error)| error)
}

fn collect<'a, T>(
    fields: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    decode: impl Fn(&'a [u8]) -> Result<T>,
) -> Result<Vec<Option<T>>, FieldError> {
    let decoded = fields
        .enumerate()
        .map(|(row, field)| field.map(&decode).transpose().map_err(|error| (row, error)));
    decoded.collect()
}

fn primitive<'a, T: ArrowPrimitiveType>(
    sql_type: SqlType,
    fields: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    decode: impl Fn(&'a [u8]) -> Result<T::Native>,
) -> Result<ArrayRef, FieldError> {
    let values = collect(fields, decode)?;
    let array: PrimitiveArray<T> = values.into_iter().collect();
    Ok(Arc::new(array.with_data_type(sql_type.data_type())))
}

fn decode_string(bytes: &[u8], sql_type: SqlType) -> Result<&str> {
    let bytes = match (sql_type, bytes) {
        (SqlType::Jsonb, [1, rest @ ..]) => rest,
        (SqlType::Jsonb, _) => return Err(malformed()),
        _ => bytes,
    };
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| invalid_utf8(bytes))?;
    match sql_type {
        SqlType::Name => Ok(cut_name(text)),
        SqlType::VarcharOf(limit) => fit_string(text, limit as usize, false, sql_type),
        SqlType::CharOf(limit) => fit_string(text, limit as usize, true, sql_type),
        SqlType::Json => check_json(text)
            .map(|()| text)
            .map_err(|invalid: Invalid| invalid.into_error(sql_type, text)),
        _ => Ok(text),
    }
}

/// Digits of base 10000, the first of weight `weight`, rounded to the scale half away from zero.
fn decode_numeric(bytes: &[u8], precision: u8, scale: i8) -> Result<i128> {
    let int2 =
        |at: usize| -> Result<i16> { Ok(i16::from_be_bytes(exact(bytes.get(at..at + 2).ok_or_else(malformed)?)?)) };
    let (digits, weight, sign) = (int2(0)?, i32::from(int2(2)?), int2(4)? as u16);
    let negative = match sign {
        0 => false,
        0x4000 => true,
        0xc000 | 0xd000 | 0xf000 => {
            let message = "NaN and infinity are not supported in numeric columns";
            return Err(StorageError::new(ErrorKind::Unsupported, message));
        }
        _ => return Err(malformed()),
    };
    if digits < 0 || bytes.len() != 8 + 2 * digits as usize {
        return Err(malformed());
    }
    let overflow = || numeric_overflow(precision.into(), scale.into());
    let (mut value, mut half_up) = (0_i128, false);
    for index in 0..i32::from(digits) {
        let digit = i128::from(int2(8 + 2 * index as usize)?);
        if !(0..10_000).contains(&digit) {
            return Err(malformed());
        }
        // The power of ten of this digit's last decimal place, in units of the scale.
        let power = (weight - index) * 4 + i32::from(scale);
        if digit == 0 {
            continue;
        }
        if power >= 0 {
            let factor = POWERS.get(power as usize).ok_or_else(overflow)?;
            let part = digit.checked_mul(*factor).ok_or_else(overflow)?;
            value = value.checked_add(part).ok_or_else(overflow)?;
        } else if power > -4 {
            let divisor = POWERS[-power as usize];
            value = value.checked_add(digit / divisor).ok_or_else(overflow)?;
            half_up = digit % divisor * 2 >= divisor;
        } else if power == -4 {
            half_up = digit >= 5000;
        }
    }
    value += i128::from(half_up);
    if value >= POWERS[precision as usize] {
        return Err(overflow());
    }
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(digits: &[i16], weight: i16, negative: bool) -> Vec<u8> {
        let sign = if negative { 0x4000 } else { 0 };
        let head = [digits.len() as i16, weight, sign, 0];
        head.iter().chain(digits).flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn numerics() {
        // 12345.678 is 1 2345 . 6780
        assert_eq!(
            decode_numeric(&numeric(&[1, 2345, 6780], 1, false), 15, 2).unwrap(),
            1_234_568
        );
        assert_eq!(
            decode_numeric(&numeric(&[1, 2345, 6780], 1, true), 15, 3).unwrap(),
            -12_345_678
        );
        assert_eq!(decode_numeric(&numeric(&[5000], -1, false), 15, 0).unwrap(), 1);
        assert_eq!(decode_numeric(&numeric(&[4999], -1, false), 15, 0).unwrap(), 0);
        assert_eq!(decode_numeric(&numeric(&[], 0, false), 15, 2).unwrap(), 0);
        assert_eq!(decode_numeric(&numeric(&[1], 1, false), 5, 0).unwrap(), 10_000);
        assert_eq!(
            decode_numeric(&numeric(&[1], 1, false), 4, 0).unwrap_err().kind,
            ErrorKind::NumericOutOfRange
        );
        assert_eq!(
            decode_numeric(&numeric(&[1], 3000, false), 38, 0).unwrap_err().kind,
            ErrorKind::NumericOutOfRange
        );
        assert_eq!(
            decode_numeric(&[0, 1], 4, 0).unwrap_err().kind,
            ErrorKind::InvalidBinary
        );
    }

    #[test]
    fn dates_count_from_2000() {
        let array = decode_scalar(SqlType::Date, &0_i32.to_be_bytes()).unwrap();
        assert_eq!(array.as_primitive::<Date32Type>().value(0), 10_957);
        let infinity = decode_scalar(SqlType::Date, &i32::MAX.to_be_bytes()).unwrap();
        assert_eq!(infinity.as_primitive::<Date32Type>().value(0), i32::MAX);
        assert!(decode_scalar(SqlType::Date, &(i32::MAX - 1).to_be_bytes()).is_err());
        assert!(decode_scalar(SqlType::Int4, &[0; 3]).is_err());
        assert!(decode_scalar(SqlType::Text, &[0xff]).is_err());
    }
}
