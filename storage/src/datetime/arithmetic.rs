//! Sums, differences and products of points in time and intervals.

use super::civil::{civil_from_days, days_from_civil, days_in_month};
use super::decode::{EPOCH_JULIAN, FIRST_US};
use super::span::{DAY_US, Span};
use super::zone::Zone;
use super::{is_infinite, out_of_range};
use crate::error::{ErrorKind, Result, StorageError};

const DATE_LAST: i64 = 2_145_031_948;

/// A day and a time as microseconds since 1970; None past the range of timestamps.
pub fn stamp(days: i64, time_us: i64) -> Option<i64> {
    days.checked_mul(DAY_US)
        .and_then(|us| us.checked_add(time_us))
        .and_then(in_range)
}

fn in_range(us: i64) -> Option<i64> {
    (FIRST_US..i64::MAX).contains(&us).then_some(us)
}

/// A date as a timestamp; the infinities stay.
pub fn date_to_stamp(days: i32) -> Result<i64> {
    match days {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        _ => stamp(days.into(), 0)
            .ok_or_else(|| StorageError::new(ErrorKind::DatetimeOverflow, "date out of range for timestamp")),
    }
}

/// A timestamp's date; the infinities stay.
pub fn stamp_to_date(us: i64) -> i32 {
    match us {
        i64::MAX => i32::MAX,
        i64::MIN => i32::MIN,
        _ => us.div_euclid(DAY_US) as i32,
    }
}

/// `date + days`; the infinities stay.
pub fn date_plus(days: i32, count: i64) -> Result<i32> {
    if super::is_infinite_date(days) {
        return Ok(days);
    }
    let sum = i64::from(days) + count;
    match (-EPOCH_JULIAN..=DATE_LAST).contains(&sum) {
        true => Ok(sum as i32),
        false => Err(out_of_range("date")),
    }
}

/// A local day moved by months, its day kept or the month's last.
fn plus_months(local_us: i64, months: i32) -> Option<i64> {
    if months == 0 {
        return Some(local_us);
    }
    let (days, time) = (local_us.div_euclid(DAY_US), local_us.rem_euclid(DAY_US));
    let (year, month, day) = civil_from_days(days);
    let count = year * 12 + i64::from(month) - 1 + i64::from(months);
    let (year, month) = (count.div_euclid(12), count.rem_euclid(12) as u32 + 1);
    if !(-4800..=300_000).contains(&year) {
        return None;
    }
    stamp(days_from_civil(year, month, day.min(days_in_month(year, month))), time)
}

fn plus_days(local_us: i64, days: i32) -> Option<i64> {
    local_us.checked_add(i64::from(days).checked_mul(DAY_US)?)
}

/// `timestamp + interval`.
#[inline]
pub fn timestamp_plus(us: i64, span: Span) -> Result<i64> {
    if is_infinite(us) {
        return Ok(us);
    }
    plus_months(us, span.months)
        .and_then(|us| plus_days(us, span.days))
        .and_then(|us| us.checked_add(span.us))
        .and_then(in_range)
        .ok_or_else(|| out_of_range("timestamp"))
}

/// `timestamptz + interval`: months and days by the zone's clock.
pub fn timestamptz_plus(us: i64, span: Span, zone: &Zone) -> Result<i64> {
    if is_infinite(us) {
        return Ok(us);
    }
    let by_clock = |us: i64, moved: &dyn Fn(i64) -> Option<i64>| zone.to_utc(moved(zone.to_local(us)?)?);
    let sum = || {
        let us = match span.months {
            0 => us,
            months => by_clock(us, &|local| plus_months(local, months))?,
        };
        let us = match span.days {
            0 => us,
            days => by_clock(us, &|local| plus_days(local, days))?,
        };
        us.checked_add(span.us).and_then(in_range)
    };
    sum().ok_or_else(|| out_of_range("timestamp"))
}

/// `timestamp - timestamp`: days and a time of day.
pub fn difference(a: i64, b: i64) -> Result<Span> {
    if is_infinite(a) || is_infinite(b) {
        let message = "cannot subtract infinite timestamps";
        return Err(StorageError::new(ErrorKind::DatetimeOverflow, message));
    }
    let us = a.checked_sub(b).ok_or_else(|| out_of_range("interval"))?;
    justify_hours(Span::of_us(us))
}

/// `age(a, b)`: years, months, days and time between, each counted by the calendar.
pub fn age(a: i64, b: i64) -> Result<Span> {
    if is_infinite(a) || is_infinite(b) {
        return Err(out_of_range("timestamp"));
    }
    let (from, to, sign) = if a >= b { (b, a, 1) } else { (a, b, -1) };
    let day = |us: i64| civil_from_days(us.div_euclid(DAY_US));
    let (x, y) = (day(from), day(to));
    let mut months = (y.0 - x.0) * 12 + i64::from(y.1) - i64::from(x.1);
    let mut days = i64::from(y.2) - i64::from(x.2);
    let mut us = to.rem_euclid(DAY_US) - from.rem_euclid(DAY_US);
    if us < 0 {
        us += DAY_US;
        days -= 1;
    }
    while days < 0 {
        // As long as the month that the earlier date is in.
        days += i64::from(days_in_month(x.0, x.1));
        months -= 1;
    }
    Ok(Span {
        months: sign * months as i32,
        days: sign * days as i32,
        us: i64::from(sign) * us,
    })
}

/// Of one sign with what is larger.
fn balanced(large: &mut i64, small: &mut i64, size: i64) {
    if *large > 0 && *small < 0 {
        (*large, *small) = (*large - 1, *small + size);
    } else if *large < 0 && *small > 0 {
        (*large, *small) = (*large + 1, *small - size);
    }
}

fn span(months: i64, days: i64, us: i64) -> Result<Span> {
    let part = |value: i64| i32::try_from(value).map_err(|_| out_of_range("interval"));
    Ok(Span {
        months: part(months)?,
        days: part(days)?,
        us,
    })
}

/// Whole days of the time become days, of its sign.
pub fn justify_hours(value: Span) -> Result<Span> {
    let (mut days, mut us) = (i64::from(value.days) + value.us / DAY_US, value.us % DAY_US);
    balanced(&mut days, &mut us, DAY_US);
    span(value.months.into(), days, us)
}

/// Thirty days become a month.
pub fn justify_days(value: Span) -> Result<Span> {
    let mut months = i64::from(value.months) + i64::from(value.days / 30);
    let mut days = i64::from(value.days % 30);
    balanced(&mut months, &mut days, 30);
    span(months, days, value.us)
}

/// Both, with one sign for all.
pub fn justify_interval(value: Span) -> Result<Span> {
    let mut days = i64::from(value.days) + value.us / DAY_US;
    let mut us = value.us % DAY_US;
    let mut months = i64::from(value.months) + days / 30;
    days %= 30;
    if months > 0 && (days < 0 || (days == 0 && us < 0)) {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && (days > 0 || (days == 0 && us > 0)) {
        (months, days) = (months + 1, days - 30);
    }
    balanced(&mut days, &mut us, DAY_US);
    span(months, days, us)
}

/// `interval * factor`, fractions carried down to the smaller units.
pub fn multiply(span: Span, factor: f64) -> Result<Span> {
    scale(span, |value| value * factor)
}

/// `interval / divisor`.
pub fn divide(span: Span, divisor: f64) -> Result<Span> {
    scale(span, |value| value / divisor)
}

fn scale(span: Span, by: impl Fn(f64) -> f64) -> Result<Span> {
    let past = || out_of_range("interval");
    let fits = |value: f64| {
        let held = (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value);
        held.then_some(value as i32).ok_or_else(past)
    };
    // What is lost in binary fractions is put right at the sixth digit.
    let at_micros = |value: f64| (value * 1e6).round_ties_even() / 1e6;
    let (exact_months, exact_days) = (by(span.months.into()), by(span.days.into()));
    let (months, mut days) = (fits(exact_months)?, fits(exact_days)?);
    let month_days = at_micros((exact_months - f64::from(months)) * 30.0);
    let mut seconds = at_micros((exact_days - f64::from(days) + month_days - month_days.trunc()) * 86_400.0);
    if seconds.abs() >= 86_400.0 {
        let whole = (seconds / 86_400.0).trunc();
        days = days.checked_add(whole as i32).ok_or_else(past)?;
        seconds -= whole * 86_400.0;
    }
    days = days.checked_add(month_days as i32).ok_or_else(past)?;
    let us = (by(span.us as f64) + seconds * 1e6).round_ties_even();
    if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&us) {
        return Err(past());
    }
    Ok(Span {
        months,
        days,
        us: us as i64,
    })
}

/// `date_bin`: the start of the stride that a timestamp is in.
pub fn bin(stride: Span, us: i64, origin: i64) -> Result<i64> {
    if is_infinite(us) {
        return Ok(us);
    }
    if is_infinite(origin) {
        return Err(out_of_range("origin"));
    }
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(StorageError::new(ErrorKind::Unsupported, message));
    }
    let past = || out_of_range("interval");
    let step = i64::from(stride.days)
        .checked_mul(DAY_US)
        .and_then(|days| days.checked_add(stride.us))
        .ok_or_else(past)?;
    if step <= 0 {
        let message = "stride must be greater than zero";
        return Err(StorageError::new(ErrorKind::DatetimeOverflow, message));
    }
    let since = us.checked_sub(origin).ok_or_else(past)?;
    since
        .div_euclid(step)
        .checked_mul(step)
        .and_then(|bins| origin.checked_add(bins))
        .and_then(in_range)
        .ok_or_else(|| out_of_range("timestamp"))
}

/// A date of its parts; a year below zero is BC. None where there is no such date.
pub fn make_date(year: i64, month: i64, day: i64) -> Option<i64> {
    let year = match year {
        0 => return None,
        ..0 => year + 1,
        _ => year,
    };
    let known = (-4713..=5_874_897).contains(&year) && (1..=12).contains(&month);
    if !known || day < 1 || day > i64::from(days_in_month(year, month as u32)) {
        return None;
    }
    Some(days_from_civil(year, month as u32, day as u32)).filter(|days| *days >= -EPOCH_JULIAN)
}

/// Microseconds from midnight. None where there is no such time.
pub fn make_time(hour: i64, minute: i64, second: f64) -> Option<i64> {
    let known = (0..=24).contains(&hour) && (0..=59).contains(&minute) && (0.0..=60.0).contains(&second);
    if !known {
        return None;
    }
    let us = (second * 1e6).round_ties_even();
    let all = (hour * 60 + minute) * 60_000_000 + us as i64;
    (all <= DAY_US).then_some(all)
}
