//! `to_char` of dates, times and intervals; `to_timestamp` and `to_date`.

use super::function::{Call, INTERVAL, STAMPTZ, TIME, TIMETZ, dates, exact, fail, function, is_text, stampstz, zoned};
use super::zones::converted;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::numeric::floats::with_numerics;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, IntervalMonthDayNanoType, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use std::convert::Infallible;
use std::sync::Arc;
use tenon_storage::datetime::arithmetic::{date_plus, stamp};
use tenon_storage::datetime::{
    FIRST_US, Template, from_char, interval_to_char, is_infinite, out_of_range, timestamp_to_char,
};
use tenon_storage::types::NUMERIC;
use tenon_storage::{ErrorKind, Latest, StorageError};

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        function(
            "to_char",
            |types| match types {
                [of, pattern] if is_text(pattern) => Some(vec![pattern_of(of)?, DataType::Utf8View]),
                _ => None,
            },
            |_| DataType::Utf8View,
            to_char,
        ),
        function(
            "to_timestamp",
            |types| match types {
                [seconds] if seconds.is_numeric() || *seconds == NUMERIC || is_text(seconds) => {
                    Some(with_numerics(types, vec![DataType::Float64]))
                }
                [text, pattern] if is_text(text) && is_text(pattern) => {
                    Some(vec![DataType::Utf8View, DataType::Utf8View])
                }
                _ => None,
            },
            |_| STAMPTZ.clone(),
            to_timestamp,
        ),
        function(
            "to_date",
            |types| match types {
                [text, pattern] if is_text(text) && is_text(pattern) => {
                    Some(vec![DataType::Utf8View, DataType::Utf8View])
                }
                _ => None,
            },
            |_| DataType::Date32,
            |call| {
                let found = read(call, |text, pattern| {
                    let read = from_char(text, pattern)?;
                    date_plus(0, read.days).map_err(|_| {
                        StorageError::new(ErrorKind::DatetimeOverflow, format!("date out of range: \"{text}\""))
                    })
                })?;
                Ok(dates(found.into_iter().collect()))
            },
        ),
    ]
}

/// What `to_char` takes a value as.
fn pattern_of(of: &DataType) -> Option<DataType> {
    match exact(of) {
        Some(DataType::Date32) => Some(STAMPTZ.clone()),
        Some(TIMETZ) => None,
        Some(found) => Some(found),
        None => None,
    }
}

fn template<'l>(latest: &'l mut Latest<Template>, pattern: &str) -> &'l Template {
    let Ok(template) = latest.of(pattern, |pattern| Ok::<_, Infallible>(Template::of(pattern)));
    template
}

fn to_char(call: &Call) -> Result<ArrayRef> {
    let patterns = call.args[1].as_string_view();
    let rows = 0..call.rows;
    let mut latest = Latest::default();
    let values = match call.args[0].data_type() {
        time if *time == TIME => &converted(&call.args[0], &INTERVAL, &call.conventions)?,
        _ => &call.args[0],
    };
    if values.data_type() == &INTERVAL {
        let spans = values.as_primitive::<IntervalMonthDayNanoType>();
        let out = rows.map(|row| match spans.is_valid(row) && patterns.is_valid(row) {
            true => interval_to_char(spans.value(row).into(), template(&mut latest, patterns.value(row))),
            false => Ok(None),
        });
        let out: StringViewArray = out.collect::<std::result::Result<_, _>>().map_err(fail)?;
        return Ok(Arc::new(out));
    }
    let (stamps, by_zone) = (values.as_primitive::<TimestampMicrosecondType>(), zoned(values));
    let out = rows.map(|row| {
        if stamps.is_null(row) || patterns.is_null(row) {
            return Ok(None);
        }
        let (us, pattern) = (stamps.value(row), template(&mut latest, patterns.value(row)));
        if !by_zone {
            return timestamp_to_char(us, None, pattern);
        }
        if is_infinite(us) {
            return Ok(None);
        }
        let local = call.conventions.zone.at(us);
        timestamp_to_char(us + i64::from(local.east_s) * 1_000_000, Some(&local), pattern)
    });
    let out: StringViewArray = out.collect::<std::result::Result<_, _>>().map_err(fail)?;
    Ok(Arc::new(out))
}

/// One value for each text with its pattern.
fn read<T>(
    call: &Call,
    of: impl Fn(&str, &Template) -> std::result::Result<T, StorageError>,
) -> Result<Vec<Option<T>>> {
    let pairs = call.args[0].as_string_view().iter().zip(call.args[1].as_string_view());
    let mut latest = Latest::default();
    let found = pairs.map(|pair| match pair {
        (Some(text), Some(pattern)) => of(text, template(&mut latest, pattern)).map(Some),
        _ => Ok(None),
    });
    found.collect::<std::result::Result<_, _>>().map_err(fail)
}

fn to_timestamp(call: &Call) -> Result<ArrayRef> {
    if call.args.len() == 1 {
        let seconds = call.args[0].as_primitive::<Float64Type>().iter();
        let found = seconds.map(|seconds| seconds.map(of_seconds).transpose());
        return Ok(stampstz(found.collect::<Result<_>>()?));
    }
    let found = read(call, |text, pattern| {
        let past = || {
            StorageError::new(
                ErrorKind::DatetimeOverflow,
                format!("timestamp out of range: \"{text}\""),
            )
        };
        let read = from_char(text, pattern)?;
        let local = stamp(read.days, read.time_us).ok_or_else(past)?;
        match read.east_s {
            Some(east_s) => local.checked_sub(i64::from(east_s) * 1_000_000).ok_or_else(past),
            None => call
                .conventions
                .zone
                .to_utc(local)
                .ok_or_else(|| out_of_range("timestamp")),
        }
    })?;
    Ok(stampstz(found.into_iter().collect()))
}

/// Seconds since 1970, in UTC.
fn of_seconds(seconds: f64) -> Result<i64> {
    if seconds.is_nan() {
        return Err(to_datafusion(SqlError::new(
            state::DATETIME_FIELD_OVERFLOW,
            "timestamp cannot be NaN",
        )));
    }
    if seconds.is_infinite() {
        return Ok(if seconds > 0.0 { i64::MAX } else { i64::MIN });
    }
    let us = (seconds * 1e6).round_ties_even();
    if us < FIRST_US as f64 || us >= i64::MAX as f64 {
        let message = format!("timestamp out of range: \"{seconds}\"");
        return Err(to_datafusion(SqlError::new(state::DATETIME_FIELD_OVERFLOW, message)));
    }
    Ok(us as i64)
}
