//! `make_date` and its kin.

use super::function::{
    Call, INTERVAL, STAMP, STAMPTZ, TIME, arrow, dates, fail, function, intervals, is_text, stamps, stampstz, times,
};
use crate::pg::numeric::floats::with_numerics;
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use tenon_storage::datetime::arithmetic::{make_date, make_time, stamp};
use tenon_storage::datetime::{Span, Zone, out_of_range, unknown_zone};
use tenon_storage::types::NUMERIC;
use tenon_storage::{ErrorKind, StorageError};

const WHOLE: DataType = DataType::Int64;
const REAL: DataType = DataType::Float64;

fn numbers(types: &[DataType], wanted: &[DataType]) -> Option<Vec<DataType>> {
    let fit = types.len() == wanted.len()
        && types.iter().zip(wanted).all(|(of, wanted)| match *wanted {
            WHOLE => of.is_integer() || is_text(of),
            REAL => of.is_numeric() || *of == NUMERIC || is_text(of),
            _ => is_text(of),
        });
    fit.then(|| with_numerics(types, wanted.to_vec()))
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        function(
            "make_date",
            |types| numbers(types, &[WHOLE, WHOLE, WHOLE]),
            |_| DataType::Date32,
            |call| {
                let days = rows(call, |row| day(call, row).map(|days| days as i32))?;
                Ok(dates(days.into_iter().collect()))
            },
        ),
        function(
            "make_time",
            |types| numbers(types, &[WHOLE, WHOLE, REAL]),
            |_| TIME,
            |call| Ok(times(rows(call, |row| time(call, 0, row))?.into_iter().collect())),
        ),
        function(
            "make_timestamp",
            |types| numbers(types, &[WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, REAL]),
            |_| STAMP,
            |call| Ok(stamps(rows(call, |row| point(call, row))?.into_iter().collect())),
        ),
        function(
            "make_timestamptz",
            |types| {
                let all = [WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, REAL, DataType::Utf8View];
                numbers(types, &all).or_else(|| numbers(types, &all[..6]))
            },
            |_| STAMPTZ.clone(),
            |call| {
                let found = rows(call, |row| {
                    let local = point(call, row)?;
                    let past = || out_of_range("timestamp");
                    let Some(names) = call.args.get(6) else {
                        return call.conventions.zone.to_utc(local).ok_or_else(past);
                    };
                    let name = names.as_string_view().value(row);
                    let zone = zone_of(name)?;
                    zone.to_utc(local).ok_or_else(past)
                })?;
                Ok(stampstz(found.into_iter().collect()))
            },
        ),
        function(
            "make_interval",
            |types| {
                let all = [WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, REAL];
                numbers(types, all.get(..types.len())?)
            },
            |_| INTERVAL,
            |call| {
                let found = rows(call, |row| {
                    let past = || out_of_range("interval");
                    let part = |at: usize| match call.args.get(at) {
                        Some(_) => whole(call, at, row),
                        None => 0,
                    };
                    let seconds = if call.args.len() == 7 { real(call, 6, row) } else { 0.0 };
                    let us = (seconds * 1e6).round_ties_even();
                    if !us.is_finite() || us.abs() >= 9.2e18 {
                        return Err(past());
                    }
                    let months = i32::try_from(part(0) * 12 + part(1)).map_err(|_| past())?;
                    let days = i32::try_from(part(2) * 7 + part(3)).map_err(|_| past())?;
                    let time = (part(4) * 60 + part(5)).checked_mul(60_000_000).ok_or_else(past)?;
                    let us = time.checked_add(us as i64).ok_or_else(past)?;
                    arrow(Span { months, days, us })
                })?;
                Ok(intervals(found.into_iter().collect()))
            },
        ),
    ]
}

/// One value for each row whose arguments are all there.
fn rows<T>(call: &Call, of: impl Fn(usize) -> std::result::Result<T, StorageError>) -> Result<Vec<Option<T>>> {
    let found = (0..call.rows).map(|row| match call.args.iter().any(|arg| arg.is_null(row)) {
        true => Ok(None),
        false => of(row).map(Some),
    });
    found.collect::<std::result::Result<_, _>>().map_err(fail)
}

fn whole(call: &Call, at: usize, row: usize) -> i64 {
    call.args[at].as_primitive::<Int64Type>().value(row)
}

fn real(call: &Call, at: usize, row: usize) -> f64 {
    call.args[at].as_primitive::<Float64Type>().value(row)
}

fn day(call: &Call, row: usize) -> std::result::Result<i64, StorageError> {
    let (year, month, day) = (whole(call, 0, row), whole(call, 1, row), whole(call, 2, row));
    make_date(year, month, day).ok_or_else(|| {
        let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
        StorageError::new(ErrorKind::DatetimeOverflow, message)
    })
}

fn time(call: &Call, at: usize, row: usize) -> std::result::Result<i64, StorageError> {
    let (hour, minute, second) = (whole(call, at, row), whole(call, at + 1, row), real(call, at + 2, row));
    make_time(hour, minute, second).ok_or_else(|| {
        let message = format!("time field value out of range: {hour}:{minute:02}:{second:02}");
        StorageError::new(ErrorKind::DatetimeOverflow, message)
    })
}

fn point(call: &Call, row: usize) -> std::result::Result<i64, StorageError> {
    stamp(day(call, row)?, time(call, 3, row)?).ok_or_else(|| out_of_range("timestamp"))
}

/// A zone of `make_timestamptz`: where it is an offset, one that counts east.
fn zone_of(name: &str) -> std::result::Result<Zone, StorageError> {
    let offset = name.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
    if !offset {
        return Zone::any(name).ok_or_else(|| unknown_zone(name));
    }
    if !name.starts_with(['+', '-']) {
        let message = format!("invalid input syntax for type numeric time zone: \"{name}\"");
        return Err(StorageError::new(ErrorKind::InvalidParameter, message)
            .hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    match tenon_storage::datetime::zone_offset(name) {
        Some(east_s) => Ok(Zone::east(east_s)),
        None => {
            let message = format!("numeric time zone \"{name}\" out of range");
            Err(StorageError::new(ErrorKind::InvalidParameter, message))
        }
    }
}
