//! Ranges and multiranges in the binary format: flags, then each bound that there is with its length before it; a number of
//! ranges, then each with its length before it.

use super::keys::{bound_array, bounds};
use super::{Bound, RangeType, Span, make, of_bytes, of_ranges, ranges_of_bytes, to_bytes, write_ranges};
use crate::datetime::wire::{date_to_wire, timestamp_to_wire};
use crate::error::{ErrorKind, Result, StorageError};
use crate::network;
use crate::numeric::Numeric;
use crate::parse::decode_scalar;
use crate::types::SqlType;
use arrow::array::AsArray;
use arrow::datatypes::{
    Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType,
};

const EMPTY: u8 = 0x01;
const LOWER_INCLUSIVE: u8 = 0x02;
const UPPER_INCLUSIVE: u8 = 0x04;
const LOWER_INFINITE: u8 = 0x08;
const UPPER_INFINITE: u8 = 0x10;
/// Bounds that PostgreSQL reserves.
const LOWER_NULL: u8 = 0x20;
const UPPER_NULL: u8 = 0x40;

fn malformed() -> StorageError {
    StorageError::new(ErrorKind::InvalidBinary, "incorrect binary data format")
}

/// The binary format of a value of a column.
pub fn write_wire(of: SqlType, bytes: &[u8], out: &mut Vec<u8>) {
    match of {
        SqlType::Multirange(of) => {
            let ranges = ranges_of_bytes(of, bytes);
            out.extend_from_slice(&(ranges.len() as i32).to_be_bytes());
            for range in &ranges {
                with_length(out, |out| write_range(of, Some(range), out));
            }
        }
        other => {
            let of = other.ranges().unwrap_or(RangeType::Int4);
            write_range(of, of_bytes(of, bytes).as_ref(), out);
        }
    }
}

/// What is written, behind its length.
fn with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - at - 4) as i32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn write_range(of: RangeType, range: Option<&Span>, out: &mut Vec<u8>) {
    let Some(range) = range else {
        return out.push(EMPTY);
    };
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    out.push(
        flag(range.lower.inclusive, LOWER_INCLUSIVE)
            | flag(range.upper.inclusive, UPPER_INCLUSIVE)
            | flag(range.lower.value.is_none(), LOWER_INFINITE)
            | flag(range.upper.value.is_none(), UPPER_INFINITE),
    );
    for key in [&range.lower.value, &range.upper.value].into_iter().flatten() {
        with_length(out, |out| write_bound(of, key, out));
    }
}

fn write_bound(of: RangeType, key: &[u8], out: &mut Vec<u8>) {
    let array = bound_array(of, std::iter::once(Some(key)));
    match of.subtype() {
        SqlType::Int2 => out.extend_from_slice(&array.as_primitive::<Int16Type>().value(0).to_be_bytes()),
        SqlType::Int4 => out.extend_from_slice(&array.as_primitive::<Int32Type>().value(0).to_be_bytes()),
        SqlType::Int8 => out.extend_from_slice(&array.as_primitive::<Int64Type>().value(0).to_be_bytes()),
        SqlType::Float4 => out.extend_from_slice(&array.as_primitive::<Float32Type>().value(0).to_be_bytes()),
        SqlType::Float8 => out.extend_from_slice(&array.as_primitive::<Float64Type>().value(0).to_be_bytes()),
        SqlType::Time => out.extend_from_slice(&array.as_primitive::<Time64MicrosecondType>().value(0).to_be_bytes()),
        SqlType::Text | SqlType::Varchar => out.extend_from_slice(array.as_string_view().value(0).as_bytes()),
        SqlType::Numeric => Numeric::of_key(key).write_wire(out),
        SqlType::Date => {
            let days = array.as_primitive::<Date32Type>().value(0);
            out.extend_from_slice(&date_to_wire(days).to_be_bytes());
        }
        SqlType::Timestamp | SqlType::TimestampTz => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(0);
            out.extend_from_slice(&timestamp_to_wire(us).to_be_bytes());
        }
        SqlType::Uuid => out.extend_from_slice(key),
        other => network::write_wire(other, key, out),
    }
}

/// A column's bytes of the binary format's.
///
/// # Errors
/// 22P03 for what is none, and what `make` says.
pub fn read_wire(bytes: &[u8], of: SqlType) -> Result<Vec<u8>> {
    match of {
        SqlType::Multirange(of) => {
            let (count, mut rest) = bytes.split_first_chunk::<4>().ok_or_else(malformed)?;
            let mut ranges = Vec::new();
            for _ in 0..u32::from_be_bytes(*count) {
                let own = sized(&mut rest)?;
                ranges.extend(read_range(own, of)?);
            }
            match rest.is_empty() {
                true => Ok(write_ranges(&of_ranges(ranges))),
                false => Err(malformed()),
            }
        }
        other => {
            let of = other.ranges().unwrap_or(RangeType::Int4);
            Ok(to_bytes(read_range(bytes, of)?.as_ref()))
        }
    }
}

/// The bytes behind their length.
fn sized<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(malformed)?;
    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| malformed())?;
    let (own, rest) = rest.split_at_checked(length).ok_or_else(malformed)?;
    *bytes = rest;
    Ok(own)
}

fn read_range(bytes: &[u8], of: RangeType) -> Result<Option<Span<'static>>> {
    let (flags, mut rest) = bytes.split_first().ok_or_else(malformed)?;
    let mut bound = |absent: u8, inclusive: u8| {
        if flags & absent != 0 {
            return Ok::<_, StorageError>(Bound::infinite());
        }
        let value = decode_scalar(of.subtype(), sized(&mut rest)?)?;
        let key = bounds(of, &value)?.pop().flatten().map(Into::into);
        Ok(Bound::of(key, flags & inclusive != 0))
    };
    let lower = bound(EMPTY | LOWER_INFINITE | LOWER_NULL, LOWER_INCLUSIVE)?;
    let upper = bound(EMPTY | UPPER_INFINITE | UPPER_NULL, UPPER_INCLUSIVE)?;
    if !rest.is_empty() {
        return Err(malformed());
    }
    match flags & EMPTY != 0 {
        true => Ok(None),
        false => make(of, lower, upper),
    }
}
