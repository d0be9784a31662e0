//! Values in the texts of errors and plans, as a session without settings shows them.

use super::{
    Conventions, TIMETZ_BYTES, timetz_of, write_date, write_interval, write_time, write_timestamp, write_timestamptz,
    write_timetz,
};
use crate::bits::BITS;
use crate::enum_type::EnumType;
use crate::float_text::{write_f32, write_f64};
use crate::network;
use crate::numeric::Numeric;
use crate::parse::{write_array, write_record};
use crate::range;
use crate::types::{NUMERIC, SqlType};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Bytes of a value that the description of a row shows.
const IN_ROW_MAX: usize = 64;

/// A row's values, for an error's detail: those that are long not to their ends.
pub fn shown_row(columns: &[ArrayRef], row: usize) -> String {
    let values = columns.iter().map(|column| {
        let mut value = shown(column, row);
        if value.len() > IN_ROW_MAX {
            value.truncate(value.floor_char_boundary(IN_ROW_MAX));
            value.push_str("...");
        }
        value
    });
    values.collect::<Vec<_>>().join(", ")
}

/// One value as PostgreSQL writes it.
pub fn shown(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "null".into();
    }
    let (own, mut out) = (Conventions::default(), Vec::new());
    match array.data_type() {
        of if let Some(of) = EnumType::of(of) => {
            return of
                .label(array.as_primitive::<TimestampMicrosecondType>().value(row))
                .into();
        }
        DataType::Date32 => write_date(array.as_primitive::<Date32Type>().value(row), &own, &mut out),
        DataType::Time64(TimeUnit::Microsecond) => {
            write_time(array.as_primitive::<Time64MicrosecondType>().value(row), &mut out);
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(row);
            match zone {
                Some(_) => write_timestamptz(us, &own, &mut out),
                None => write_timestamp(us, &own, &mut out),
            }
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            write_interval(value.into(), &own, &mut out);
        }
        of if *of == NUMERIC => return Numeric::from_bytes(array.as_binary::<i64>().value(row)).to_string(),
        DataType::FixedSizeBinary(width) if *width == TIMETZ_BYTES as i32 => {
            let (us, east_s) = timetz_of(array.as_fixed_size_binary().value(row));
            write_timetz(us, east_s, &mut out);
        }
        DataType::FixedSizeBinary(16) => {
            for (at, byte) in array.as_fixed_size_binary().value(row).iter().enumerate() {
                let hyphen = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                out.extend(format!("{hyphen}{byte:02x}").bytes());
            }
        }
        of if let Some(of) = SqlType::address_of(of) => {
            network::write_text(of, array.as_fixed_size_binary().value(row), &mut out);
        }
        of if let (Some(of), Some(values)) = (SqlType::range_of(of), range::Values::of(array)) => {
            range::write_text(of, values.get(row).unwrap_or_default(), &own, &mut out);
        }
        DataType::Boolean => out.push(if array.as_boolean().value(row) { b't' } else { b'f' }),
        DataType::Float32 => write_f32(array.as_primitive::<Float32Type>().value(row), &mut out),
        DataType::Float64 => write_f64(array.as_primitive::<Float64Type>().value(row), &mut out),
        of if *of == BITS => out.extend_from_slice(array.as_binary::<i32>().value(row)),
        DataType::BinaryView => {
            out.extend_from_slice(b"\\x");
            for byte in array.as_binary_view().value(row) {
                out.extend(format!("{byte:02x}").bytes());
            }
        }
        DataType::List(_) => {
            let mut text = String::new();
            write_items(&array.as_list::<i32>().value(row), &mut text);
            return text;
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            let columns = columns.map(|column| column.is_valid(row).then(|| shown(column, row)));
            let (columns, mut text) = (columns.collect::<Vec<_>>(), String::new());
            write_record(columns.iter().map(Option::as_deref), &mut text);
            return text;
        }
        _ => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(array, &options);
            return formatter.map_or_else(
                |_| String::new(),
                |formatter| formatter.value(row).try_to_string().unwrap_or_default(),
            );
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Items of an array, or arrays of one dimension less, which no quotes are around.
fn write_items(items: &ArrayRef, out: &mut String) {
    let Some(inner) = items.as_list_opt::<i32>() else {
        let texts: Vec<Option<String>> = (0..items.len())
            .map(|at| items.is_valid(at).then(|| shown(items, at)))
            .collect();
        return write_array(texts.iter().map(Option::as_deref), out);
    };
    for at in 0..inner.len() {
        out.push(if at == 0 { '{' } else { ',' });
        write_items(&inner.value(at), out);
    }
    out.push_str(if inner.is_empty() { "{}" } else { "}" });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_scalar;

    #[test]
    fn as_their_types_write_them() {
        for (of, text) in [
            (SqlType::Uuid, "6ecd8c99-4036-403d-bf84-cf8400f67836"),
            (SqlType::Inet, "10.1.2.3/8"),
            (SqlType::Cidr, "10:23::8000/113"),
            (SqlType::MacAddr, "08:00:2b:01:02:03"),
            (SqlType::MacAddr8, "08:00:2b:01:02:03:04:05"),
            (SqlType::Range(range::RangeType::Date), "[2024-02-29,2024-03-01)"),
            (SqlType::TimeTz, "10:00:00+02"),
            (SqlType::Date, "2024-02-29"),
            (SqlType::Int4, "-7"),
        ] {
            assert_eq!(shown(&parse_scalar(of, text).unwrap(), 0), text);
        }
    }
}
