//! Cells in the text format.

use super::cell::{Column, Values};
use super::numeric::Digits;
use super::{Style, array, number, oid};
use arrow::datatypes::{IntervalDayTime, TimeUnit};
use std::io::Write;
use tenon_storage::datetime::{self, Span};
use tenon_storage::float_text;
use tenon_storage::network;
use tenon_storage::numeric::Numeric;
use tenon_storage::range;

impl Column<'_> {
    /// Appends the text of a cell that is not NULL.
    #[inline]
    pub fn write_text(&self, row: usize, style: &Style, out: &mut Vec<u8>) {
        match &self.values {
            Values::AllNull => {}
            Values::Bool(v) => out.push(if v.value(row) { b't' } else { b'f' }),
            Values::I8(v) => number::write_int(v[row], out),
            Values::I16(v) => number::write_int(v[row], out),
            Values::I32(v) => number::write_int(v[row], out),
            Values::I64(v) => number::write_int(v[row], out),
            Values::U8(v) => number::write_int(v[row], out),
            Values::U16(v) => number::write_int(v[row], out),
            Values::U32(v) => number::write_int(v[row], out),
            Values::U64(v) => number::write_int(v[row], out),
            Values::F16(v) => float_text::write_f32(v.value(row).to_f32(), out),
            Values::F32(v) => match style.extra_float_digits {
                None => float_text::write_f32(v[row], out),
                Some(extra) => float_text::write_digits(v[row].into(), 6 + extra, out),
            },
            Values::F64(v) => match style.extra_float_digits {
                None => float_text::write_f64(v[row], out),
                Some(extra) => float_text::write_digits(v[row], 15 + extra, out),
            },
            Values::Decimal32(v, scale) => Digits::of_i128(v[row].into()).write_text(*scale, out),
            Values::Decimal64(v, scale) => Digits::of_i128(v[row].into()).write_text(*scale, out),
            Values::Decimal128(v, scale) => Digits::of_i128(v[row]).write_text(*scale, out),
            Values::Decimal256(v, scale) => Digits::of_i256(v[row]).write_text(*scale, out),
            Values::Numeric(v) => {
                let _ = write!(out, "{}", Numeric::from_bytes(v.value(row)));
            }
            Values::Utf8(v) => self.write_padded(v.value(row), out),
            Values::LargeUtf8(v) => self.write_padded(v.value(row), out),
            Values::Utf8View(v) => self.write_padded(v.value(row), out),
            Values::Formatted(v) => out.extend_from_slice(v.value(row).as_bytes()),
            Values::Bits(v) => out.extend_from_slice(v.value(row)),
            Values::BinaryView(v) => write_bytea(v.value(row), style, out),
            Values::FixedBinary(v) if self.oid == oid::UUID => write_uuid(v.value(row), out),
            Values::FixedBinary(v) if self.oid == oid::TIMETZ => {
                let (us, east_s) = datetime::timetz_of(v.value(row));
                datetime::write_timetz(us, east_s, out);
            }
            Values::FixedBinary(v) if let Some(of) = oid::address(self.oid) => {
                network::write_text(of, v.value(row), out)
            }
            Values::Ranges(v, of) => range::write_text(*of, v.get(row).unwrap_or_default(), &style.conventions, out),
            Values::FixedBinary(v) => write_bytea(v.value(row), style, out),
            Values::Date32(v) => datetime::write_date(v[row], &style.conventions, out),
            Values::Date64(v) => datetime::write_date(date64(v[row]), &style.conventions, out),
            Values::Time32(v, unit) => datetime::write_time(microseconds(v[row].into(), *unit), out),
            Values::Time64(v, unit) => datetime::write_time(microseconds(v[row], *unit), out),
            Values::Timestamp(v, unit, false) => {
                datetime::write_timestamp(microseconds(v[row], *unit), &style.conventions, out);
            }
            Values::Timestamp(v, unit, true) => {
                datetime::write_timestamptz(microseconds(v[row], *unit), &style.conventions, out);
            }
            Values::Duration(v, unit) => {
                let span = Span::of_us(microseconds(v[row], *unit));
                datetime::write_interval(span, &style.conventions, out);
            }
            Values::IntervalMonths(v) => datetime::write_interval(months(v[row]), &style.conventions, out),
            Values::IntervalDayTime(v) => datetime::write_interval(day_time(v[row]), &style.conventions, out),
            Values::IntervalMonthDayNano(v) => datetime::write_interval(v[row].into(), &style.conventions, out),
            Values::List(spans, items) if matches!(self.oid, oid::INT2VECTOR | oid::OIDVECTOR) => {
                array::write_vector_text(spans, items, row, style, out);
            }
            Values::List(spans, items) => array::write_text(spans, items, row, style, out),
            Values::Record(fields) => array::write_record_text(fields, row, style, out),
            Values::Dictionary(keys, values) => values.write_text(keys.get(row), style, out),
        }
    }

    /// A string, `char(n)` with the blanks that storage leaves away.
    #[inline]
    pub(super) fn write_padded(&self, value: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(value.as_bytes());
        if self.pad > value.len() || (self.pad > 0 && !value.is_ascii()) {
            out.resize(out.len() + self.pad.saturating_sub(value.chars().count()), b' ');
        }
    }

    /// The text never holds a character that COPY, an array or a record would have to escape: digits, letters of
    /// fixed words, `.`, `+` and `-` only.
    pub fn is_plain(&self) -> bool {
        match &self.values {
            Values::Dictionary(_, values) => values.is_plain(),
            Values::FixedBinary(_) => self.oid == oid::UUID,
            Values::Bool(_)
            | Values::I8(_)
            | Values::I16(_)
            | Values::I32(_)
            | Values::I64(_)
            | Values::U8(_)
            | Values::U16(_)
            | Values::U32(_)
            | Values::U64(_)
            | Values::F16(_)
            | Values::F32(_)
            | Values::F64(_)
            | Values::Decimal32(..)
            | Values::Decimal64(..)
            | Values::Decimal128(..)
            | Values::Decimal256(..)
            | Values::Numeric(_) => true,
            _ => false,
        }
    }
}

/// `\x` and lower-case hex, or the bytes with octal escapes for those that are no ASCII.
fn write_bytea(bytes: &[u8], style: &Style, out: &mut Vec<u8>) {
    if style.escaped_bytea {
        for &byte in bytes {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                0x20..=0x7e => out.push(byte),
                _ => out.extend([b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]),
            }
        }
        return;
    }
    out.extend_from_slice(b"\\x");
    write_hex(bytes, out);
}

fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.extend(
        bytes
            .iter()
            .flat_map(|b| [HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]),
    );
}

fn write_uuid(bytes: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    for (i, len) in [4, 2, 2, 2, 6].into_iter().enumerate() {
        if i > 0 {
            out.push(b'-');
        }
        let end = (at + len).min(bytes.len());
        write_hex(&bytes[at..end], out);
        at = end;
    }
}

/// Microseconds of a count of `unit`, rounded down; the ends of the range stand for the infinities.
#[inline]
pub(super) fn microseconds(value: i64, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => value.saturating_mul(1_000_000),
        TimeUnit::Millisecond => value.saturating_mul(1000),
        TimeUnit::Microsecond => value,
        TimeUnit::Nanosecond => value.div_euclid(1000),
    }
}

/// Days of a Date64's milliseconds.
pub(super) fn date64(ms: i64) -> i32 {
    ms.div_euclid(86_400_000)
        .clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

pub(super) fn months(months: i32) -> Span {
    Span {
        months,
        ..Span::default()
    }
}

pub(super) fn day_time(v: IntervalDayTime) -> Span {
    Span {
        months: 0,
        days: v.days,
        us: i64::from(v.milliseconds) * 1000,
    }
}
