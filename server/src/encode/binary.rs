//! Cells in the binary format.

use super::cell::{Column, Values};
use super::numeric::Digits;
use super::text::{date64, day_time, microseconds, months};
use super::{array, interval, oid};
use tenon_planner::error::{Result, SqlError, state};
use tenon_storage::bits;
use tenon_storage::datetime::{Span, timetz_of, wire};
use tenon_storage::network;
use tenon_storage::numeric::Numeric;
use tenon_storage::range;

impl Column<'_> {
    /// Appends the binary form of a cell that is not NULL, as the announced type wants it.
    ///
    /// # Errors
    /// 0A000 for a nested array that is no rectangle, which the format cannot carry; 22003 for a number outside the
    /// announced type; 22P05 for text that the client's encoding lacks.
    #[inline]
    pub fn write_binary(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match &self.values {
            Values::AllNull => {}
            Values::Bool(v) => out.push(u8::from(v.value(row))),
            Values::I8(v) => return self.write_int(v[row].into(), out),
            Values::I16(v) => return self.write_int(v[row].into(), out),
            Values::I32(v) => return self.write_int(v[row].into(), out),
            Values::I64(v) => return self.write_int(v[row].into(), out),
            Values::U8(v) => return self.write_int(v[row].into(), out),
            Values::U16(v) => return self.write_int(v[row].into(), out),
            Values::U32(v) => return self.write_int(v[row].into(), out),
            Values::U64(v) => return self.write_int(v[row].into(), out),
            Values::F16(v) => self.write_float(v.value(row).to_f64(), out),
            Values::F32(v) => self.write_float(v[row].into(), out),
            Values::F64(v) => self.write_float(v[row], out),
            Values::Decimal32(v, scale) => Digits::of_i128(v[row].into()).write_binary(*scale, out),
            Values::Decimal64(v, scale) => Digits::of_i128(v[row].into()).write_binary(*scale, out),
            Values::Decimal128(v, scale) => Digits::of_i128(v[row]).write_binary(*scale, out),
            Values::Decimal256(v, scale) => Digits::of_i256(v[row]).write_binary(*scale, out),
            Values::Numeric(v) => Numeric::from_bytes(v.value(row)).write_wire(out),
            Values::Utf8(v) => return self.write_string(v.value(row), out),
            Values::LargeUtf8(v) => return self.write_string(v.value(row), out),
            Values::Utf8View(v) => return self.write_string(v.value(row), out),
            Values::Formatted(v) => return self.write_string(v.value(row), out),
            Values::Bits(v) => bits::write_wire(v.value(row), out),
            Values::BinaryView(v) => out.extend_from_slice(v.value(row)),
            Values::FixedBinary(v) if self.oid == oid::TIMETZ => {
                let (us, east_s) = timetz_of(v.value(row));
                out.extend_from_slice(&us.to_be_bytes());
                out.extend_from_slice(&(-east_s).to_be_bytes());
            }
            Values::FixedBinary(v) if let Some(of) = oid::address(self.oid) => {
                network::write_wire(of, v.value(row), out)
            }
            Values::Ranges(v, of) => range::write_wire(*of, v.get(row).unwrap_or_default(), out),
            Values::FixedBinary(v) => out.extend_from_slice(v.value(row)),
            Values::Date32(v) => out.extend_from_slice(&wire::date_to_wire(v[row]).to_be_bytes()),
            Values::Date64(v) => out.extend_from_slice(&wire::date_to_wire(date64(v[row])).to_be_bytes()),
            Values::Time32(v, unit) => out.extend_from_slice(&microseconds(v[row].into(), *unit).to_be_bytes()),
            Values::Time64(v, unit) => out.extend_from_slice(&microseconds(v[row], *unit).to_be_bytes()),
            Values::Timestamp(v, unit, _) => {
                out.extend_from_slice(&wire::timestamp_to_wire(microseconds(v[row], *unit)).to_be_bytes());
            }
            Values::Duration(v, unit) => {
                interval::write_binary(Span::of_us(microseconds(v[row], *unit)), out);
            }
            Values::IntervalMonths(v) => interval::write_binary(months(v[row]), out),
            Values::IntervalDayTime(v) => interval::write_binary(day_time(v[row]), out),
            Values::IntervalMonthDayNano(v) => interval::write_binary(v[row].into(), out),
            Values::List(spans, items) => return array::write_binary(spans, items, row, out),
            Values::Record(fields) => return array::write_record_binary(fields, row, out),
            Values::Dictionary(keys, values) => return values.write_binary(keys.get(row), out),
        }
        Ok(())
    }

    /// An integer in the width of the announced type.
    #[inline]
    fn write_int(&self, value: i128, out: &mut Vec<u8>) -> Result<()> {
        let fits = match self.oid {
            oid::INT2 => i16::try_from(value)
                .map(|v| out.extend_from_slice(&v.to_be_bytes()))
                .is_ok(),
            oid::INT4 => i32::try_from(value)
                .map(|v| out.extend_from_slice(&v.to_be_bytes()))
                .is_ok(),
            oid::INT8 => i64::try_from(value)
                .map(|v| out.extend_from_slice(&v.to_be_bytes()))
                .is_ok(),
            oid::OID | oid::REGPROC | oid::REGCLASS | oid::REGTYPE | oid::XID | oid::CID => {
                out.extend_from_slice(&(value as u32).to_be_bytes());
                true
            }
            oid::NUMERIC => {
                Digits::of_i128(value).write_binary(0, out);
                true
            }
            oid::CHAR => {
                out.push(value as u8);
                true
            }
            // A type that the server announces but has no own format for: its text, as the text types have.
            _ => {
                super::number::write_int(value, out);
                true
            }
        };
        if fits {
            return Ok(());
        }
        Err(SqlError::new(
            state::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value {value} is out of range of its column type"),
        ))
    }

    #[inline]
    fn write_float(&self, value: f64, out: &mut Vec<u8>) {
        if self.oid == oid::FLOAT4 {
            out.extend_from_slice(&(value as f32).to_be_bytes());
        } else {
            out.extend_from_slice(&value.to_be_bytes());
        }
    }

    /// Text types travel as their bytes; `jsonb` and `jsonpath` have a version byte before them.
    #[inline]
    fn write_string(&self, value: &str, out: &mut Vec<u8>) -> Result<()> {
        if matches!(self.oid, oid::JSONB | oid::JSONPATH) {
            out.push(1);
        }
        // The one byte of `"char"` is there even where the text is empty.
        if self.oid == oid::CHAR && value.is_empty() {
            out.push(0);
        }
        let start = out.len();
        self.write_padded(value, out);
        self.charset.encode(start, out)
    }
}
