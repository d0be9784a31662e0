//! Bound parameters: wire bytes, text or binary, to the scalar that the plan expects.
//!
//! More than 400 lines because it is a table of types, a few lines each.

use crate::encode::{Format, oid};
use crate::wire::message::{Parameter, utf8};
use arrow::array::StructArray;
use arrow::datatypes::{DataType, Fields, IntervalMonthDayNano};
use bytes::Bytes;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use tenon_planner::error::{Result, SqlError, state};
use tenon_planner::outcome::PgType;
use tenon_planner::settings::Charset;
use tenon_planner::{parse_record, wire_type};
use tenon_storage::bits;
use tenon_storage::datetime::wire::{EPOCH_DAYS, EPOCH_US};
use tenon_storage::datetime::{Conventions, timetz_bytes};
use tenon_storage::network;
use tenon_storage::numeric::Numeric;
use tenon_storage::parse::{nested_offsets, parse_array, parse_scalar_by};
use tenon_storage::range::{self, is_range};
use tenon_storage::{EnumType, SqlType};

/// Decodes parameter `number` (from 1) of the type that the client was told, as a scalar of the plan's own type.
///
/// # Errors
/// 22P02 and its kin for bad text, 22P03 for bytes that are no value of the type, 22021 for text that is not in
/// the client's encoding.
pub fn decode(
    parameter: &Parameter,
    pg: PgType,
    data_type: &DataType,
    number: usize,
    (conventions, charset): (&Conventions, Charset),
) -> Result<ScalarValue> {
    if parameter.value.is_some() && matches!(pg.oid, oid::RECORD | oid::RECORD_ARRAY) {
        return Err(SqlError::unsupported_as(
            "input of anonymous composite types is not implemented",
        ));
    }
    decode_within(parameter, pg, data_type, number, (conventions, charset))
}

/// The same of a record's column, whose field does not say of what type it is where it is a record itself.
fn decode_within(
    parameter: &Parameter,
    pg: PgType,
    data_type: &DataType,
    number: usize,
    (conventions, charset): (&Conventions, Charset),
) -> Result<ScalarValue> {
    let Some(bytes) = &parameter.value else {
        return ScalarValue::try_from(data_type).map_err(|e| mismatch(number, e));
    };
    let value = match (element_of(pg.oid, data_type), parameter.format) {
        (None, Format::Text) => text(utf8(&charset.decode(bytes)?)?, pg.oid, data_type, conventions, number)?,
        (None, Format::Binary) => binary(bytes, pg.oid, data_type, number, charset)?,
        (Some(element), format) => {
            let mut item_type = data_type;
            while let DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) = item_type {
                item_type = item.data_type();
            }
            if item_type == data_type {
                return Err(mismatch(number, format!("an array for {data_type}")));
            }
            let (sizes, items) = match format {
                Format::Text => {
                    let read = parse_array(utf8(&charset.decode(bytes)?)?)?;
                    let items = read.items.into_iter().map(|item| match item {
                        Some(item) => cast(text(&item, element, item_type, conventions, number)?, item_type, number),
                        None => ScalarValue::try_from(item_type).map_err(|e| mismatch(number, e)),
                    });
                    (read.sizes, items.collect::<Result<Vec<_>>>()?)
                }
                Format::Binary => binary_items(bytes, element, item_type, number, charset)?,
            };
            return array(items, sizes, item_type, data_type, number);
        }
    };
    cast(value, data_type, number)
}

/// The numbers of dimensions of parameters that are arrays, where one has another than is planned for.
pub fn other_dimensions(
    parameters: &[Parameter],
    types: &[PgType],
    planned: &[DataType],
    charset: Charset,
) -> Result<Option<Vec<usize>>> {
    let mut any = false;
    let mut found = Vec::new();
    for ((parameter, pg), data_type) in parameters.iter().zip(types).zip(planned) {
        let planned = dimensions_of(data_type);
        let is_array = element_of(pg.oid, data_type).is_some();
        let given = match &parameter.value {
            Some(bytes) if is_array && planned > 0 => match parameter.format {
                Format::Text => parse_array(utf8(&charset.decode(bytes)?)?)?.sizes.len(),
                Format::Binary => bytes.first_chunk().map_or(0, |word| i32::from_be_bytes(*word) as usize),
            },
            _ => 0,
        };
        // An empty array has none, and is of any. What is malformed is found where it is read.
        let given = if (1..=6).contains(&given) { given } else { planned };
        any |= given != planned;
        found.push(given);
    }
    Ok(any.then_some(found))
}

fn dimensions_of(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            1 + dimensions_of(item.data_type())
        }
        _ => 0,
    }
}

/// The type of the items of an array type.
fn element_of(oid: u32, data_type: &DataType) -> Option<u32> {
    let of_enum = || Some(EnumType::newest(oid).filter(|of| of.array_oid == oid)?.oid);
    oid::element_of(oid)
        .or_else(of_enum)
        .or_else(|| oid::record_of(oid, data_type))
}

/// A record of the values of its columns, each of which comes in this format.
fn record(
    fields: &Fields,
    values: Vec<Option<Bytes>>,
    format: Format,
    number: usize,
    by: (&Conventions, Charset),
) -> Result<ScalarValue> {
    let columns = fields.iter().zip(values).map(|(field, value)| {
        let value = decode_within(
            &Parameter { format, value },
            wire_type(field),
            field.data_type(),
            number,
            by,
        )?;
        value.to_array().map_err(|e| mismatch(number, e))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let record = match fields.is_empty() {
        true => StructArray::new_empty_fields(1, None),
        false => StructArray::try_new(fields.clone(), columns, None).map_err(|e| mismatch(number, e))?,
    };
    Ok(ScalarValue::Struct(Arc::new(record)))
}

/// The values of a binary record's columns, whose types must be those of the record's type.
fn binary_columns(bytes: &[u8], fields: &Fields, number: usize) -> Result<Vec<Option<Bytes>>> {
    let mut rest = bytes;
    let word = |rest: &mut &[u8]| {
        let (head, tail) = rest.split_first_chunk::<4>().ok_or_else(|| malformed(number))?;
        *rest = tail;
        Ok::<_, SqlError>(i32::from_be_bytes(*head))
    };
    let count = word(&mut rest)?;
    if usize::try_from(count).ok() != Some(fields.len()) {
        let message = format!("wrong number of columns: {count}, expected {}", fields.len());
        return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
    }
    let mut values = Vec::with_capacity(fields.len());
    for (at, field) in fields.iter().enumerate() {
        let (sent, wanted) = (word(&mut rest)? as u32, wire_type(field).oid);
        // Of a type within that is a record, or an array of such, the field says no more than that.
        if sent != wanted && !matches!(wanted, oid::RECORD | oid::RECORD_ARRAY) {
            let message = format!(
                "binary data has type {sent} instead of expected {wanted} in record column {}",
                at + 1
            );
            return Err(SqlError::new(state::DATATYPE_MISMATCH, message));
        }
        let length = word(&mut rest)?;
        values.push(match length {
            -1 => None,
            length => {
                let length = usize::try_from(length).ok().filter(|length| *length <= rest.len());
                let (value, tail) = rest.split_at(length.ok_or_else(|| malformed(number))?);
                rest = tail;
                Some(Bytes::copy_from_slice(value))
            }
        });
    }
    match rest.is_empty() {
        true => Ok(values),
        false => Err(malformed(number)),
    }
}

/// The items as an array of the plan's type.
fn array(
    items: Vec<ScalarValue>,
    sizes: Vec<usize>,
    item_type: &DataType,
    data_type: &DataType,
    number: usize,
) -> Result<ScalarValue> {
    let mut dimensions = 0;
    let mut inner = data_type;
    while let DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) = inner {
        (dimensions, inner) = (dimensions + 1, item.data_type());
    }
    if !sizes.is_empty() && sizes.len() != dimensions {
        return Err(SqlError::unsupported(format!(
            "a parameter that is an array of {} dimensions where one of {dimensions} is expected",
            sizes.len()
        )));
    }
    let values = match items.is_empty() {
        true => arrow::array::new_empty_array(item_type),
        false => ScalarValue::iter_to_array(items).map_err(|e| mismatch(number, e))?,
    };
    let lists = nested_offsets(values, item_type, &[sizes], dimensions, None)?;
    let value = ScalarValue::try_from_array(&lists, 0).map_err(|e| mismatch(number, e))?;
    cast(value, data_type, number)
}

fn cast(value: ScalarValue, data_type: &DataType, number: usize) -> Result<ScalarValue> {
    if value.data_type() == *data_type {
        return Ok(value);
    }
    value.cast_to(data_type).map_err(|e| mismatch(number, e))
}

fn mismatch(number: usize, why: impl std::fmt::Display) -> SqlError {
    SqlError::new(
        state::DATATYPE_MISMATCH,
        format!("parameter ${number} does not fit its type: {why}"),
    )
}

fn malformed(number: usize) -> SqlError {
    let message = format!("incorrect binary data format in bind parameter {number}");
    SqlError::new(state::INVALID_BINARY_REPRESENTATION, message)
}

/// The type whose text form a parameter has; `None` is plain text.
fn sql_type(oid: u32, data_type: &DataType) -> Option<SqlType> {
    if let Some(of) = EnumType::of(data_type) {
        return Some(SqlType::Enum(of));
    }
    Some(match oid {
        oid::BOOL => SqlType::Bool,
        oid::INT2 => SqlType::Int2,
        oid::INT4 => SqlType::Int4,
        oid::INT8 | oid::OID => SqlType::Int8,
        oid::FLOAT4 => SqlType::Float4,
        oid::FLOAT8 => SqlType::Float8,
        oid::NUMERIC => match data_type {
            DataType::Decimal128(precision, scale) => SqlType::NumericOf(*precision, *scale),
            _ => SqlType::Numeric,
        },
        oid::DATE => SqlType::Date,
        oid::TIME => SqlType::Time,
        oid::TIMETZ => SqlType::TimeTz,
        oid::TIMESTAMP => SqlType::Timestamp,
        oid::TIMESTAMPTZ => SqlType::TimestampTz,
        oid::INTERVAL => SqlType::Interval,
        oid::BYTEA => SqlType::Bytea,
        oid::UUID => SqlType::Uuid,
        oid if let Some(of) = oid::address(oid) => of,
        oid if let Some(of) = SqlType::range_of_oid(oid) => of,
        oid::BIT => SqlType::Bit,
        oid::VARBIT => SqlType::VarBit,
        oid::JSON => SqlType::Json,
        oid::JSONB => SqlType::Jsonb,
        // A type that the client left open: what the plan made of it decides.
        0 | oid::UNKNOWN => SqlType::from_data_type(data_type).filter(|found| !found.is_string())?,
        _ => return None,
    })
}

/// The columns of a record's type; ranges are carried as such, too.
fn record_fields(data_type: &DataType) -> Option<&Fields> {
    match data_type {
        DataType::Struct(fields) if !is_range(data_type) => Some(fields),
        _ => None,
    }
}

fn text(text: &str, oid: u32, data_type: &DataType, conventions: &Conventions, number: usize) -> Result<ScalarValue> {
    if let Some(fields) = record_fields(data_type) {
        let values = parse_record(text, fields.len())?.into_iter();
        let values = values.map(|value| value.map(Bytes::from)).collect();
        return record(fields, values, Format::Text, number, (conventions, Charset::default()));
    }
    let Some(sql_type) = sql_type(oid, data_type) else {
        return Ok(ScalarValue::Utf8View(Some(text.to_owned())));
    };
    let array = parse_scalar_by(sql_type, text, conventions)?;
    ScalarValue::try_from_array(&array, 0).map_err(SqlError::internal)
}

fn binary(bytes: &[u8], oid: u32, data_type: &DataType, number: usize, charset: Charset) -> Result<ScalarValue> {
    let bad = || malformed(number);
    macro_rules! fixed {
        ($type:ty) => {
            <$type>::from_be_bytes(bytes.try_into().map_err(|_| bad())?)
        };
    }
    if EnumType::of(data_type).is_some() {
        return text(
            utf8(&charset.decode(bytes)?)?,
            oid,
            data_type,
            &Conventions::default(),
            number,
        );
    }
    if let Some(fields) = record_fields(data_type) {
        let values = binary_columns(bytes, fields, number)?;
        return record(
            fields,
            values,
            Format::Binary,
            number,
            (&Conventions::default(), charset),
        );
    }
    Ok(match oid {
        oid::BOOL => ScalarValue::Boolean(Some(fixed!(u8) != 0)),
        oid::INT2 => ScalarValue::Int16(Some(fixed!(i16))),
        oid::INT4 => ScalarValue::Int32(Some(fixed!(i32))),
        oid::INT8 => ScalarValue::Int64(Some(fixed!(i64))),
        oid::OID => ScalarValue::Int64(Some(fixed!(u32).into())),
        oid::FLOAT4 => ScalarValue::Float32(Some(fixed!(f32))),
        oid::FLOAT8 => ScalarValue::Float64(Some(fixed!(f64))),
        oid::NUMERIC => {
            let value = Numeric::read_wire(bytes).ok_or_else(bad)?;
            match data_type {
                DataType::Decimal128(..) => text(&value.to_string(), oid, data_type, &Conventions::default(), number)?,
                _ => ScalarValue::LargeBinary(Some(value.to_bytes())),
            }
        }
        oid::DATE => ScalarValue::Date32(Some(match fixed!(i32) {
            infinite @ (i32::MAX | i32::MIN) => infinite,
            days => days.checked_add(EPOCH_DAYS).ok_or_else(bad)?,
        })),
        oid::TIME => ScalarValue::Time64Microsecond(Some(fixed!(i64))),
        oid::TIMETZ => {
            let (us, west_s) = bytes.split_first_chunk::<8>().ok_or_else(bad)?;
            let west_s = i32::from_be_bytes(west_s.try_into().map_err(|_| bad())?);
            let east_s = west_s
                .checked_neg()
                .filter(|east_s| east_s.abs() < 57_600)
                .ok_or_else(bad)?;
            let us = i64::from_be_bytes(*us);
            if !(0..=86_400_000_000).contains(&us) {
                return Err(bad());
            }
            ScalarValue::FixedSizeBinary(12, Some(timetz_bytes(us, east_s).to_vec()))
        }
        oid::TIMESTAMP | oid::TIMESTAMPTZ => {
            let us = match fixed!(i64) {
                infinite @ (i64::MAX | i64::MIN) => infinite,
                us => us.checked_add(EPOCH_US).ok_or_else(bad)?,
            };
            let zone = (oid == oid::TIMESTAMPTZ).then(|| tenon_storage::types::UTC.into());
            ScalarValue::TimestampMicrosecond(Some(us), zone)
        }
        oid::INTERVAL => {
            let bits = fixed!(u128);
            let nanoseconds = ((bits >> 64) as i64).checked_mul(1000).ok_or_else(bad)?;
            let (days, months) = ((bits >> 32) as i32, bits as i32);
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano {
                months,
                days,
                nanoseconds,
            }))
        }
        oid::BYTEA => ScalarValue::BinaryView(Some(bytes.to_vec())),
        oid::BIT | oid::VARBIT => ScalarValue::Binary(Some(bits::read_wire(bytes, SqlType::VarBit)?)),
        oid if let Some(of) = oid::address(oid) => {
            let value = network::read_wire(bytes, of)?;
            ScalarValue::FixedSizeBinary(value.len() as i32, Some(value))
        }
        oid if let Some(of) = SqlType::range_of_oid(oid) => {
            let value = range::read_wire(bytes, of)?;
            ScalarValue::try_from_array(&range::array(of, [Some(value)]), 0).map_err(SqlError::internal)?
        }
        oid::UUID if bytes.len() == 16 => ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())),
        oid::UUID => return Err(bad()),
        oid::JSONB | oid::JSONPATH => match bytes {
            [1, json @ ..] => text(
                utf8(&charset.decode(json)?)?,
                oid,
                data_type,
                &Conventions::default(),
                number,
            )?,
            _ => return Err(bad()),
        },
        oid::JSON => text(
            utf8(&charset.decode(bytes)?)?,
            oid,
            data_type,
            &Conventions::default(),
            number,
        )?,
        _ => ScalarValue::Utf8View(Some(utf8(&charset.decode(bytes)?)?.to_owned())),
    })
}

/// The sizes of a binary array's dimensions, and its items.
fn binary_items(
    bytes: &Bytes,
    element: u32,
    item_type: &DataType,
    number: usize,
    charset: Charset,
) -> Result<(Vec<usize>, Vec<ScalarValue>)> {
    let mut rest: &[u8] = bytes;
    let mut word = || {
        let (head, tail) = rest.split_first_chunk::<4>().ok_or_else(|| malformed(number))?;
        rest = tail;
        Ok::<_, SqlError>(i32::from_be_bytes(*head))
    };
    let (dimensions, _has_nulls, sent) = (word()?, word()?, word()? as u32);
    if sent != element && element != oid::RECORD {
        return Err(mismatch(
            number,
            format!("an array of type {sent} where type {element} was declared"),
        ));
    }
    if !(0..=6).contains(&dimensions) {
        return Err(malformed(number));
    }
    let mut sizes = Vec::new();
    for _ in 0..dimensions {
        let (size, lower) = (word()?, word()?);
        if lower != 1 {
            return Err(SqlError::unsupported("an array whose subscripts do not begin at 1"));
        }
        sizes.push(usize::try_from(size).map_err(|_| malformed(number))?);
    }
    let count = match sizes.is_empty() {
        true => Some(0),
        false => sizes.iter().try_fold(1_usize, |all, size| all.checked_mul(*size)),
    };
    let count = count.ok_or_else(|| malformed(number))?;
    if count == 0 {
        sizes.clear();
    }
    let mut items = Vec::new();
    for _ in 0..count {
        let (length, tail) = rest.split_first_chunk::<4>().ok_or_else(|| malformed(number))?;
        let item = match i32::from_be_bytes(*length) {
            -1 => {
                rest = tail;
                ScalarValue::try_from(item_type).map_err(|e| mismatch(number, e))?
            }
            length => {
                let length = usize::try_from(length).ok().filter(|length| *length <= tail.len());
                let (value, tail) = tail.split_at(length.ok_or_else(|| malformed(number))?);
                rest = tail;
                cast(binary(value, element, item_type, number, charset)?, item_type, number)?
            }
        };
        items.push(item);
    }
    if rest.is_empty() {
        Ok((sizes, items))
    } else {
        Err(malformed(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_storage::types::NUMERIC;

    fn parameter(format: Format, value: &[u8]) -> Parameter {
        Parameter {
            format,
            value: Some(Bytes::copy_from_slice(value)),
        }
    }

    fn one(format: Format, value: &[u8], oid: u32, data_type: DataType) -> Result<ScalarValue> {
        decode(
            &parameter(format, value),
            PgType { oid, typmod: -1 },
            &data_type,
            1,
            (&Conventions::default(), Charset::default()),
        )
    }

    #[test]
    fn scalars_of_both_formats() {
        let int = |n| ScalarValue::Int32(Some(n));
        assert_eq!(one(Format::Text, b" 42 ", oid::INT4, DataType::Int32).unwrap(), int(42));
        assert_eq!(
            one(Format::Binary, &42i32.to_be_bytes(), oid::INT4, DataType::Int32).unwrap(),
            int(42)
        );
        assert_eq!(
            one(Format::Binary, &7i16.to_be_bytes(), oid::INT2, DataType::Int32).unwrap(),
            int(7)
        );
        assert_eq!(
            one(Format::Binary, &1i32.to_be_bytes(), oid::DATE, DataType::Date32).unwrap(),
            ScalarValue::Date32(Some(10_958))
        );
        assert_eq!(
            one(Format::Text, b"2000-01-02", oid::DATE, DataType::Date32).unwrap(),
            ScalarValue::Date32(Some(10_958))
        );
        let null = Parameter {
            format: Format::Text,
            value: None,
        };
        let null = decode(
            &null,
            PgType {
                oid: oid::INT4,
                typmod: -1,
            },
            &DataType::Int32,
            1,
            (&Conventions::default(), Charset::default()),
        )
        .unwrap();
        assert_eq!(null, ScalarValue::Int32(None));
    }

    #[test]
    fn numeric_from_binary() {
        for (value, scale) in [
            (12345i128, 2i8),
            (-5, 2),
            (0, 3),
            (100_000_000, 0),
            (1, 8),
            (i128::MAX / 10, 10),
        ] {
            let mut bytes = Vec::new();
            crate::encode::numeric::Digits::of_i128(value).write_binary(scale, &mut bytes);
            let got = one(Format::Binary, &bytes, oid::NUMERIC, DataType::Decimal128(38, scale)).unwrap();
            assert_eq!(got, ScalarValue::Decimal128(Some(value), 38, scale));
        }
        let short = one(Format::Binary, &[0, 1, 0, 0, 0, 0, 0, 0], oid::NUMERIC, NUMERIC);
        assert_eq!(short.unwrap_err().state.0, "22P03");
    }

    #[test]
    fn arrays_of_both_formats() {
        let list = DataType::new_list(DataType::Int32, true);
        let expected = ScalarValue::List(ScalarValue::new_list_nullable(
            &[ScalarValue::Int32(Some(1)), ScalarValue::Int32(None)],
            &DataType::Int32,
        ));
        assert_eq!(one(Format::Text, b"{1, NULL}", 1007, list.clone()).unwrap(), expected);
        let words = [1i32, 1, 23, 2, 1, 4, 1, -1];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(one(Format::Binary, &bytes, 1007, list.clone()).unwrap(), expected);
        assert_eq!(
            one(Format::Binary, &bytes[..30], 1007, list.clone())
                .unwrap_err()
                .state
                .0,
            "22P03"
        );
        assert_eq!(one(Format::Text, b"{1,,2}", 1007, list).unwrap_err().state.0, "22P02");
    }

    #[test]
    fn bad_parameters() {
        for (format, bytes, oid, data_type, code) in [
            (Format::Text, &b"x"[..], oid::INT4, DataType::Int32, "22P02"),
            (Format::Text, b"3000000000", oid::INT4, DataType::Int32, "22003"),
            (Format::Binary, b"xyz", oid::INT4, DataType::Int32, "22P03"),
            (Format::Text, b"\xff", oid::TEXT, DataType::Utf8View, "22021"),
            (Format::Text, b"a\0b", oid::TEXT, DataType::Utf8View, "22021"),
            (Format::Binary, b"a\0b", oid::VARCHAR, DataType::Utf8View, "22021"),
            (Format::Binary, b"\x01\"a\0\"", oid::JSONB, DataType::Utf8View, "22021"),
            (Format::Binary, b"x", oid::UUID, DataType::FixedSizeBinary(16), "22P03"),
            (Format::Text, b"2001-02-30", oid::DATE, DataType::Date32, "22008"),
        ] {
            assert_eq!(
                one(format, bytes, oid, data_type).unwrap_err().state.0,
                code,
                "{bytes:?}"
            );
        }
    }
}
