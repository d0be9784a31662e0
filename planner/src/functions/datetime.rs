//! Functions on dates, timestamps and intervals that DataFusion lacks or means otherwise.

use super::operators::INTERVAL;
use super::simple::function;
use crate::error::{SqlError, state};
use crate::errors::to_datafusion;
use chrono::{Datelike, NaiveDate, Timelike};
use datafusion::arrow::array::{
    ArrayRef, AsArray, BooleanArray, Date32Array, IntervalMonthDayNanoArray, StringViewArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::Result;
use datafusion::logical_expr::{ScalarUDF, Signature, TypeSignature, Volatility};
use std::sync::{Arc, LazyLock};

const DAY_US: i64 = 86_400_000_000;
const STAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// `timestamp - timestamp`: days and time of day.
pub(super) fn difference() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(function("timestamp_difference", signature, INTERVAL, |args, _| {
            let (a, b) = (stamps(&args[0])?, stamps(&args[1])?);
            let (a, b) = (
                a.as_primitive::<TimestampMicrosecondType>(),
                b.as_primitive::<TimestampMicrosecondType>(),
            );
            let out = a.iter().zip(b).map(|pair| {
                let (Some(a), Some(b)) = pair else { return None };
                let us = a.wrapping_sub(b);
                Some(IntervalMonthDayNano::new(0, (us / DAY_US) as i32, us % DAY_US * 1000))
            });
            Ok(Arc::new(IntervalMonthDayNanoArray::from_iter(out)) as ArrayRef)
        }))
    });
    FUNCTION.clone()
}

/// Points in time as timestamps, in UTC.
fn stamps(values: &ArrayRef) -> Result<ArrayRef> {
    let values = match values.data_type() {
        DataType::Timestamp(_, Some(_)) => {
            cast(values, &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))?
        }
        _ => values.clone(),
    };
    Ok(cast(&values, &STAMP)?)
}

/// `interval * float8`, fractions carried down to the smaller units.
pub(super) fn scaled() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(function("interval_multiply", signature, INTERVAL, |args, _| {
            let wide = cast(&args[0], &INTERVAL)?;
            let factors = cast(&args[1], &DataType::Float64)?;
            let pairs = wide
                .as_primitive::<IntervalMonthDayNanoType>()
                .iter()
                .zip(factors.as_primitive::<Float64Type>());
            let out = pairs.map(|pair| {
                let (Some(value), Some(factor)) = pair else {
                    return Ok(None);
                };
                let months = f64::from(value.months) * factor;
                let days = f64::from(value.days) * factor + (months - months.trunc()) * 30.0;
                let nanoseconds = value.nanoseconds as f64 * factor + (days - days.trunc()) * DAY_US as f64 * 1000.0;
                if !(months.abs() < 2e9 && days.abs() < 2e9 && nanoseconds.abs() < 9e18) {
                    let error = SqlError::new(state::DATETIME_FIELD_OVERFLOW, "interval out of range");
                    return Err(to_datafusion(error));
                }
                let micros = (nanoseconds / 1000.0).round() as i64;
                Ok(Some(IntervalMonthDayNano::new(
                    months.trunc() as i32,
                    days.trunc() as i32,
                    micros * 1000,
                )))
            });
            Ok(Arc::new(out.collect::<Result<IntervalMonthDayNanoArray>>()?) as ArrayRef)
        }))
    });
    FUNCTION.clone()
}

fn date_time(us: i64) -> chrono::NaiveDateTime {
    chrono::DateTime::from_timestamp_micros(us)
        .unwrap_or_default()
        .naive_utc()
}

/// `age(a, b)`: years, months, days and time between, each counted by the calendar.
fn age(a: i64, b: i64) -> IntervalMonthDayNano {
    let (from, to, sign) = if a >= b { (b, a, 1) } else { (a, b, -1) };
    let (x, y) = (date_time(from), date_time(to));
    let mut months = (y.year() - x.year()) * 12 + y.month() as i32 - x.month() as i32;
    let mut days = y.day() as i32 - x.day() as i32;
    let mut us = to.rem_euclid(DAY_US) - from.rem_euclid(DAY_US);
    if us < 0 {
        us += DAY_US;
        days -= 1;
    }
    if days < 0 {
        months -= 1;
        let (year, month) = if x.month() == 12 {
            (x.year() + 1, 1)
        } else {
            (x.year(), x.month() + 1)
        };
        let first = NaiveDate::from_ymd_opt(x.year(), x.month(), 1);
        let next = NaiveDate::from_ymd_opt(year, month, 1);
        if let (Some(first), Some(next)) = (first, next) {
            days += (next - first).num_days() as i32;
        }
    }
    IntervalMonthDayNano::new(sign * months, sign * days, i64::from(sign) * us * 1000)
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let immutable = Volatility::Immutable;
    let points = || {
        let stamp = || vec![STAMP, STAMP];
        Signature::one_of(
            vec![TypeSignature::Exact(stamp()), TypeSignature::Any(2)],
            Volatility::Immutable,
        )
    };
    vec![
        function("age", points(), INTERVAL, |args, _| {
            let (a, b) = (stamps(&args[0])?, stamps(&args[1])?);
            let pairs = a
                .as_primitive::<TimestampMicrosecondType>()
                .iter()
                .zip(b.as_primitive::<TimestampMicrosecondType>());
            let out = pairs.map(|(a, b)| Some(age(a?, b?)));
            Ok(Arc::new(IntervalMonthDayNanoArray::from_iter(out)))
        }),
        function(
            "justify_days",
            Signature::exact(vec![INTERVAL], immutable),
            INTERVAL,
            |args, _| {
                let out = args[0].as_primitive::<IntervalMonthDayNanoType>().iter().map(|value| {
                    let value = value?;
                    Some(IntervalMonthDayNano::new(
                        value.months + value.days / 30,
                        value.days % 30,
                        value.nanoseconds,
                    ))
                });
                Ok(Arc::new(IntervalMonthDayNanoArray::from_iter(out)))
            },
        ),
        function(
            "justify_hours",
            Signature::exact(vec![INTERVAL], immutable),
            INTERVAL,
            |args, _| {
                let out = args[0].as_primitive::<IntervalMonthDayNanoType>().iter().map(|value| {
                    let (value, day) = (value?, DAY_US * 1000);
                    let days = value.days + (value.nanoseconds / day) as i32;
                    Some(IntervalMonthDayNano::new(value.months, days, value.nanoseconds % day))
                });
                Ok(Arc::new(IntervalMonthDayNanoArray::from_iter(out)))
            },
        ),
        function(
            "isfinite",
            Signature::any(1, immutable),
            DataType::Boolean,
            |args, _| {
                let finite = match args[0].data_type() {
                    DataType::Interval(_) => return Ok(Arc::new(BooleanArray::from(vec![true; args[0].len()]))),
                    _ => stamps(&args[0])?,
                };
                let out = finite.as_primitive::<TimestampMicrosecondType>().iter();
                Ok(Arc::new(BooleanArray::from_iter(
                    out.map(|us| us.map(|us| us != i64::MAX && us != i64::MIN)),
                )))
            },
        ),
        function(
            "to_char",
            Signature::any(2, immutable),
            DataType::Utf8View,
            |args, _| {
                let patterns = cast(&args[1], &DataType::Utf8View)?;
                if !matches!(
                    args[0].data_type(),
                    DataType::Date32 | DataType::Timestamp(..) | DataType::Null
                ) {
                    return Err(to_datafusion(SqlError::unsupported(
                        "to_char of anything but dates and timestamps",
                    )));
                }
                let stamps = stamps(&args[0])?;
                let pairs = stamps
                    .as_primitive::<TimestampMicrosecondType>()
                    .iter()
                    .zip(patterns.as_string_view());
                Ok(Arc::new(StringViewArray::from_iter(
                    pairs.map(|(us, pattern)| Some(to_char(us?, pattern?))),
                )))
            },
        ),
        function("to_date", Signature::any(2, immutable), DataType::Date32, |args, _| {
            let (texts, patterns) = (
                cast(&args[0], &DataType::Utf8View)?,
                cast(&args[1], &DataType::Utf8View)?,
            );
            let pairs = texts.as_string_view().iter().zip(patterns.as_string_view());
            let out = pairs.map(|pair| match pair {
                (Some(text), Some(pattern)) => to_date(text, pattern).map(Some),
                _ => Ok(None),
            });
            Ok(Arc::new(out.collect::<Result<Date32Array>>()?))
        }),
    ]
}

/// The longest pattern of PostgreSQL's that a format begins with.
fn next_pattern(format: &str) -> Option<&'static str> {
    const PATTERNS: [&str; 34] = [
        "YYYY", "YYY", "YY", "Y", "MONTH", "Month", "month", "MON", "Mon", "mon", "MM", "DDD", "DD", "DAY", "Day",
        "day", "DY", "Dy", "dy", "D", "HH24", "HH12", "HH", "MI", "SS", "MS", "US", "AM", "PM", "am", "pm", "Q", "WW",
        "FM",
    ];
    PATTERNS.iter().copied().find(|pattern| format.starts_with(pattern))
}

fn to_char(us: i64, format: &str) -> String {
    let at = date_time(us);
    let (mut out, mut rest, mut plain) = (String::new(), format, false);
    let cased = |pattern: &str, name: &str, width: usize, plain: bool| {
        let name = match pattern.as_bytes() {
            [first, second, ..] if first.is_ascii_uppercase() && second.is_ascii_uppercase() => name.to_uppercase(),
            [first, ..] if first.is_ascii_lowercase() => name.to_lowercase(),
            _ => name.to_string(),
        };
        if plain { name } else { format!("{name:<width$}") }
    };
    while let Some(c) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            out.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or("");
            continue;
        }
        let Some(pattern) = next_pattern(rest) else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        rest = &rest[pattern.len()..];
        let two = |value: u32| {
            if plain {
                value.to_string()
            } else {
                format!("{value:02}")
            }
        };
        let piece = match pattern {
            "FM" => {
                plain = true;
                continue;
            }
            "YYYY" => format!("{:04}", at.year()),
            "YYY" => format!("{:03}", at.year().rem_euclid(1000)),
            "YY" => format!("{:02}", at.year().rem_euclid(100)),
            "Y" => at.year().rem_euclid(10).to_string(),
            "MM" => two(at.month()),
            "DDD" => format!("{:03}", at.ordinal()),
            "DD" => two(at.day()),
            "D" => (at.weekday().num_days_from_sunday() + 1).to_string(),
            "HH24" => two(at.hour()),
            "HH12" | "HH" => two((at.hour() + 11) % 12 + 1),
            "MI" => two(at.minute()),
            "SS" => two(at.second()),
            "MS" => format!("{:03}", us.rem_euclid(1_000_000) / 1000),
            "US" => format!("{:06}", us.rem_euclid(1_000_000)),
            "AM" | "PM" => if at.hour() < 12 { "AM" } else { "PM" }.to_string(),
            "am" | "pm" => if at.hour() < 12 { "am" } else { "pm" }.to_string(),
            "Q" => (at.month0() / 3 + 1).to_string(),
            "WW" => format!("{:02}", at.ordinal0() / 7 + 1),
            "MONTH" | "Month" | "month" => cased(pattern, &at.format("%B").to_string(), 9, plain),
            "MON" | "Mon" | "mon" => cased(pattern, &at.format("%b").to_string(), 3, plain),
            "DAY" | "Day" | "day" => cased(pattern, &at.format("%A").to_string(), 9, plain),
            _ => cased(pattern, &at.format("%a").to_string(), 3, plain),
        };
        plain = false;
        out.push_str(&piece);
    }
    out
}

fn to_date(text: &str, format: &str) -> Result<i32> {
    let invalid = || {
        let message = format!("invalid value \"{text}\" for format \"{format}\"");
        to_datafusion(SqlError::new(state::INVALID_DATETIME_FORMAT, message))
    };
    let (mut year, mut month, mut day) = (1, 1u32, 1u32);
    let (mut rest, mut left) = (format, text);
    while let Some(c) = rest.chars().next() {
        let Some(pattern) = next_pattern(rest) else {
            rest = &rest[c.len_utf8()..];
            left = left
                .strip_prefix(|own: char| own == c || (!own.is_alphanumeric() && !c.is_alphanumeric()))
                .unwrap_or(left);
            continue;
        };
        rest = &rest[pattern.len()..];
        let width = if pattern == "YYYY" { 4 } else { 2 };
        if pattern.eq_ignore_ascii_case("mon") || pattern.eq_ignore_ascii_case("month") {
            let lower = left.to_lowercase();
            let names = [
                "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
            ];
            month = names
                .iter()
                .position(|name| lower.starts_with(name))
                .ok_or_else(invalid)? as u32
                + 1;
            left = left.trim_start_matches(|own: char| own.is_alphabetic());
            continue;
        }
        let digits = left.chars().take(width).take_while(char::is_ascii_digit).count();
        let number: i32 = left[..digits].parse().map_err(|_| invalid())?;
        left = &left[digits..];
        match pattern {
            "YYYY" => year = number,
            "YY" => year = if number < 70 { 2000 + number } else { 1900 + number },
            "MM" => month = number as u32,
            "DD" => day = number as u32,
            "FM" | "HH24" | "HH12" | "HH" | "MI" | "SS" => {}
            _ => {
                return Err(to_datafusion(SqlError::unsupported(format!(
                    "to_date pattern \"{pattern}\""
                ))));
            }
        }
    }
    let date = NaiveDate::from_ymd_opt(year, month, day).ok_or_else(|| {
        let message = format!("date/time field value out of range: \"{text}\"");
        to_datafusion(SqlError::new(state::DATETIME_FIELD_OVERFLOW, message))
    })?;
    Ok(date.num_days_from_ce() - 719_163)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(text: &str) -> i64 {
        tenon_storage::parse::parse_timestamp(text.as_bytes()).expect("a timestamp")
    }

    #[test]
    fn ages_count_by_the_calendar() {
        let age = age(us("2024-03-15 00:00:00"), us("2024-01-10 00:00:00"));
        assert_eq!((age.months, age.days, age.nanoseconds), (2, 5, 0));
        let back = super::age(us("2024-01-31 00:00:00"), us("2024-03-01 00:00:00"));
        assert_eq!((back.months, back.days), (-1, -1));
    }

    #[test]
    fn formats() {
        let at = us("2024-05-06 17:08:09.25");
        assert_eq!(to_char(at, "YYYY-MM-DD HH24:MI:SS.MS"), "2024-05-06 17:08:09.250");
        assert_eq!(to_char(at, "FMMonth FMDD, HH12 am"), "May 6, 05 pm");
        assert_eq!(to_char(at, "Dy \"at\" Q"), "Mon at 2");
        assert_eq!(to_date("06.05.2024", "DD.MM.YYYY").unwrap(), 19_849);
        assert_eq!(to_date("2024May06", "YYYYMonDD").unwrap(), 19_849);
        assert!(to_date("x", "YYYY").is_err());
    }
}
