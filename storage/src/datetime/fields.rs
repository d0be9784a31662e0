//! Parts of dates, times and intervals (`extract`, `date_part`), and values cut to a part (`date_trunc`).

use super::civil::{civil_from_days, days_from_civil};
use super::decode::EPOCH_JULIAN;
use super::span::{DAY_US, Span};
use super::words::{Unit, field_word};
use super::zone::Zone;
use super::{arithmetic, out_of_range};
use crate::error::{ErrorKind, Result, StorageError};

/// A part's value: so many units of ten to the minus `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    Exact(i128, i8),
    /// The part of an infinite value that grows without end with it.
    Infinite(bool),
    /// An infinite value has none.
    None,
}

/// Whose part is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    Date,
    Time,
    TimeTz,
    Timestamp,
    TimestampTz,
    Interval,
}

impl Of {
    fn name(self) -> &'static str {
        match self {
            Of::Date => "date",
            Of::Time => "time without time zone",
            Of::TimeTz => "time with time zone",
            Of::Timestamp => "timestamp without time zone",
            Of::TimestampTz => "timestamp with time zone",
            Of::Interval => "interval",
        }
    }

    fn has(self, unit: Unit) -> bool {
        let clock = matches!(
            unit,
            Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour | Unit::Epoch
        );
        let zone = matches!(unit, Unit::Zone | Unit::ZoneHour | Unit::ZoneMinute);
        match self {
            Of::Date => (!clock && !zone) || unit == Unit::Epoch,
            Of::Time => clock,
            Of::TimeTz => clock || zone,
            Of::Timestamp => !zone,
            Of::TimestampTz => true,
            Of::Interval => {
                clock
                    || matches!(
                        unit,
                        Unit::Day
                            | Unit::Month
                            | Unit::Quarter
                            | Unit::Year
                            | Unit::Decade
                            | Unit::Century
                            | Unit::Millennium
                    )
            }
        }
    }
}

fn not_recognized(word: &str, of: Of) -> StorageError {
    let message = format!("unit \"{}\" not recognized for type {}", word.to_lowercase(), of.name());
    StorageError::new(ErrorKind::InvalidParameter, message)
}

fn not_supported(word: &str, of: Of) -> StorageError {
    let message = format!("unit \"{}\" not supported for type {}", word.to_lowercase(), of.name());
    StorageError::new(ErrorKind::Unsupported, message)
}

/// The unit of a field's name, where values of the type have it.
pub fn part_of(word: &str, of: Of) -> Result<Unit> {
    let unit = field_word(word).ok_or_else(|| not_recognized(word, of))?;
    if of.has(unit) {
        Ok(unit)
    } else {
        Err(not_supported(word, of))
    }
}

/// Digits after the point that a part has.
pub fn part_scale(unit: Unit, of: Of) -> i8 {
    match unit {
        Unit::Second => 6,
        Unit::Epoch if of != Of::Date => 6,
        Unit::Millisecond => 3,
        Unit::Julian if of != Of::Date => 20,
        _ => 0,
    }
}

fn whole(value: i64) -> Part {
    Part::Exact(value.into(), 0)
}

/// Of a time of day: microseconds from midnight.
pub fn part_of_time(us: i64, unit: Unit) -> Part {
    match unit {
        Unit::Microsecond => whole(us % 60_000_000),
        Unit::Millisecond => Part::Exact((us % 60_000_000).into(), 3),
        Unit::Second => Part::Exact((us % 60_000_000).into(), 6),
        Unit::Minute => whole(us / 60_000_000 % 60),
        Unit::Hour => whole(us / 3_600_000_000),
        Unit::Epoch => Part::Exact(us.into(), 6),
        _ => Part::None,
    }
}

/// Of a zone: seconds east of UTC.
pub fn part_of_zone(east_s: i32, unit: Unit) -> Part {
    whole(i64::from(match unit {
        Unit::Zone => east_s,
        Unit::ZoneHour => east_s / 3600,
        _ => east_s / 60 % 60,
    }))
}

/// Of a time of day with a zone.
pub fn part_of_timetz(us: i64, east_s: i32, unit: Unit) -> Part {
    match unit {
        Unit::Zone | Unit::ZoneHour | Unit::ZoneMinute => part_of_zone(east_s, unit),
        Unit::Epoch => Part::Exact(i128::from(us) - i128::from(east_s) * 1_000_000, 6),
        _ => part_of_time(us, unit),
    }
}

/// Of a day since 1970.
pub fn part_of_date(days: i32, unit: Unit) -> Part {
    if super::is_infinite_date(days) {
        return infinite(days > 0, unit);
    }
    match unit {
        Unit::Epoch => whole(i64::from(days) * 86_400),
        Unit::Julian => whole(i64::from(days) + EPOCH_JULIAN),
        _ => calendar(days.into(), unit),
    }
}

fn infinite(positive: bool, unit: Unit) -> Part {
    match unit {
        Unit::Year | Unit::Decade | Unit::Century | Unit::Millennium | Unit::Julian | Unit::IsoYear | Unit::Epoch => {
            Part::Infinite(positive)
        }
        _ => Part::None,
    }
}

/// Of a point in time without a zone.
pub fn part_of_timestamp(us: i64, unit: Unit) -> Part {
    if super::is_infinite(us) {
        return infinite(us > 0, unit);
    }
    let (days, time) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    match unit {
        Unit::Epoch => Part::Exact(us.into(), 6),
        Unit::Julian => {
            const UNIT: i128 = 10i128.pow(20);
            let day = i128::from(days + EPOCH_JULIAN) * UNIT;
            let part = (i128::from(time) * UNIT + i128::from(DAY_US) / 2) / i128::from(DAY_US);
            Part::Exact(day + part, 20)
        }
        Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour => part_of_time(time, unit),
        _ => calendar(days, unit),
    }
}

/// Of a point in time, as a zone shows it.
pub fn part_of_timestamptz(us: i64, unit: Unit, zone: &Zone) -> Part {
    match unit {
        _ if super::is_infinite(us) => infinite(us > 0, unit),
        Unit::Epoch => Part::Exact(us.into(), 6),
        Unit::Zone | Unit::ZoneHour | Unit::ZoneMinute => part_of_zone(zone.east_at(us), unit),
        _ => part_of_timestamp(zone.to_local(us).unwrap_or(us), unit),
    }
}

/// Monday is 0.
pub fn weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7)
}

/// The year of a day's ISO week, and the week.
pub fn iso_week(days: i64) -> (i64, i64) {
    // Its Thursday says the year.
    let thursday = days - weekday(days) + 3;
    let year = civil_from_days(thursday).0;
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// The Monday that begins a week of an ISO year.
pub fn monday_of(year: i64, week: i64) -> i64 {
    let fourth = days_from_civil(year, 1, 4);
    fourth - weekday(fourth) + (week - 1) * 7
}

/// A year of the calendar as it is named: 1 BC is -1.
fn named(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

fn decade(year: i64) -> i64 {
    year.div_euclid(10)
}

fn century(year: i64) -> i64 {
    if year > 0 {
        (year + 99) / 100
    } else {
        -((99 - (year - 1)) / 100)
    }
}

fn millennium(year: i64) -> i64 {
    if year > 0 {
        (year + 999) / 1000
    } else {
        -((999 - (year - 1)) / 1000)
    }
}

fn calendar(days: i64, unit: Unit) -> Part {
    let (year, month, day) = civil_from_days(days);
    whole(match unit {
        Unit::Day => day.into(),
        Unit::Month => month.into(),
        Unit::Quarter => i64::from(month - 1) / 3 + 1,
        Unit::Week => iso_week(days).1,
        Unit::Year => named(year),
        Unit::Decade => decade(year),
        Unit::Century => century(year),
        Unit::Millennium => millennium(year),
        Unit::IsoYear => named(iso_week(days).0),
        Unit::DayOfWeek => (weekday(days) + 1) % 7,
        Unit::IsoDayOfWeek => weekday(days) + 1,
        Unit::DayOfYear => days - days_from_civil(year, 1, 1) + 1,
        _ => return Part::None,
    })
}

pub fn part_of_interval(span: Span, unit: Unit) -> Part {
    let fields = span.fields();
    whole(match unit {
        Unit::Microsecond => fields.seconds * 1_000_000 + fields.us,
        Unit::Millisecond => return Part::Exact((fields.seconds * 1_000_000 + fields.us).into(), 3),
        Unit::Second => return Part::Exact((fields.seconds * 1_000_000 + fields.us).into(), 6),
        Unit::Minute => fields.minutes,
        Unit::Hour => fields.hours,
        Unit::Day => fields.days,
        Unit::Month => fields.months,
        Unit::Quarter => fields.months / 3 + 1,
        Unit::Year => fields.years,
        Unit::Decade => fields.years / 10,
        Unit::Century => fields.years / 100,
        Unit::Millennium => fields.years / 1000,
        // A year has 365.25 days, a month 30.
        Unit::Epoch => {
            let quarters = fields.years * 1461 + fields.months * 120 + fields.days * 4;
            return Part::Exact(i128::from(quarters) * 21_600_000_000 + i128::from(span.us), 6);
        }
        _ => return Part::None,
    })
}

/// The unit of a cut.
pub fn cut_to(word: &str, of: Of) -> Result<Unit> {
    let unit = field_word(word).ok_or_else(|| not_recognized(word, of))?;
    let cut = matches!(
        unit,
        Unit::Microsecond
            | Unit::Millisecond
            | Unit::Second
            | Unit::Minute
            | Unit::Hour
            | Unit::Day
            | Unit::Week
            | Unit::Month
            | Unit::Quarter
            | Unit::Year
            | Unit::Decade
            | Unit::Century
            | Unit::Millennium
    );
    match (of, unit) {
        (Of::Interval, Unit::Week) => Err(not_supported(word, of).detail("Months usually have fractional weeks.")),
        _ if cut => Ok(unit),
        _ => Err(not_supported(word, of)),
    }
}

/// `date_trunc` of a point in time without a zone.
pub fn cut_timestamp(us: i64, unit: Unit) -> Result<i64> {
    if super::is_infinite(us) {
        return Ok(us);
    }
    let to = |step: i64| Ok(us.div_euclid(step) * step);
    let days = us.div_euclid(DAY_US);
    let (year, month, _) = civil_from_days(days);
    let first = |year: i64, month: u32| {
        let days = days_from_civil(year, month, 1);
        arithmetic::stamp(days, 0).ok_or_else(|| out_of_range("timestamp"))
    };
    match unit {
        Unit::Microsecond => Ok(us),
        Unit::Millisecond => to(1000),
        Unit::Second => to(1_000_000),
        Unit::Minute => to(60_000_000),
        Unit::Hour => to(3_600_000_000),
        Unit::Day => to(DAY_US),
        Unit::Week => arithmetic::stamp(days - weekday(days), 0).ok_or_else(|| out_of_range("timestamp")),
        Unit::Month => first(year, month),
        Unit::Quarter => first(year, (month - 1) / 3 * 3 + 1),
        Unit::Year => first(year, 1),
        Unit::Decade => first(decade(year) * 10, 1),
        Unit::Century => first((year - 1).div_euclid(100) * 100 + 1, 1),
        _ => first((year - 1).div_euclid(1000) * 1000 + 1, 1),
    }
}

/// `date_trunc` of a point in time, as a zone shows it.
pub fn cut_timestamptz(us: i64, unit: Unit, zone: &Zone) -> Result<i64> {
    if super::is_infinite(us) {
        return Ok(us);
    }
    let past = || out_of_range("timestamp");
    let east_s = zone.east_at(us);
    let shift = i64::from(east_s) * 1_000_000;
    let cut = cut_timestamp(us.checked_add(shift).ok_or_else(past)?, unit)?;
    let within_day = matches!(
        unit,
        Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour
    );
    match within_day {
        true => cut.checked_sub(shift).ok_or_else(past),
        false => zone.to_utc(cut).ok_or_else(past),
    }
}

pub fn cut_interval(span: Span, unit: Unit) -> Span {
    let to_months = |step: i32| Span {
        months: span.months / step * step,
        ..Span::default()
    };
    let to_us = |step: i64| Span {
        us: span.us / step * step,
        ..span
    };
    match unit {
        Unit::Microsecond => span,
        Unit::Millisecond => to_us(1000),
        Unit::Second => to_us(1_000_000),
        Unit::Minute => to_us(60_000_000),
        Unit::Hour => to_us(3_600_000_000),
        Unit::Day => Span { us: 0, ..span },
        Unit::Month => to_months(1),
        Unit::Quarter => to_months(3),
        Unit::Year => to_months(12),
        Unit::Decade => to_months(120),
        Unit::Century => to_months(1200),
        _ => to_months(12_000),
    }
}
