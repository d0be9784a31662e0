//! Values in the texts of errors and plans, as a session without settings shows them.

use super::{
    Conventions, TIMETZ_BYTES, timetz_of, write_date, write_interval, write_time, write_timestamp, write_timestamptz,
    write_timetz,
};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// One value: dates and times as PostgreSQL writes them, whatever their range, others as Arrow does.
pub fn shown(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "null".into();
    }
    let (own, mut out) = (Conventions::default(), Vec::new());
    match array.data_type() {
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
        DataType::FixedSizeBinary(width) if *width == TIMETZ_BYTES as i32 => {
            let (us, east_s) = timetz_of(array.as_fixed_size_binary().value(row));
            write_timetz(us, east_s, &mut out);
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
