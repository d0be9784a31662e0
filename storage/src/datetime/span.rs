//! Intervals: months, days and microseconds that do not carry into each other.

use super::words::Unit;
use arrow::datatypes::IntervalMonthDayNano;
use std::cmp::Ordering;

pub const DAY_US: i64 = 86_400_000_000;
const DAYS_PER_MONTH: i128 = 30;

/// An interval with the time that PostgreSQL gives it: 64 bits of microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    pub months: i32,
    pub days: i32,
    pub us: i64,
}

/// An interval's parts as `extract` and `to_char` count them, all of the sign of what they are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalFields {
    pub years: i64,
    pub months: i64,
    pub days: i64,
    pub hours: i64,
    pub minutes: i64,
    pub seconds: i64,
    pub us: i64,
}

impl From<IntervalMonthDayNano> for Span {
    fn from(value: IntervalMonthDayNano) -> Self {
        Span {
            months: value.months,
            days: value.days,
            us: value.nanoseconds / 1000,
        }
    }
}

impl Span {
    pub fn of_us(us: i64) -> Span {
        Span { months: 0, days: 0, us }
    }

    /// As Arrow keeps it; None past the 292 years that its nanoseconds hold.
    pub fn to_arrow(self) -> Option<IntervalMonthDayNano> {
        let nanoseconds = self.us.checked_mul(1000)?;
        Some(IntervalMonthDayNano::new(self.months, self.days, nanoseconds))
    }

    /// The length by which intervals compare: a month has 30 days, a day 24 hours.
    pub fn length_us(self) -> i128 {
        (i128::from(self.months) * DAYS_PER_MONTH + i128::from(self.days)) * i128::from(DAY_US) + i128::from(self.us)
    }

    pub fn compare(self, other: Span) -> Ordering {
        self.length_us().cmp(&other.length_us())
    }

    pub fn negated(self) -> Option<Span> {
        Some(Span {
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            us: self.us.checked_neg()?,
        })
    }

    pub fn plus(self, other: Span) -> Option<Span> {
        Some(Span {
            months: self.months.checked_add(other.months)?,
            days: self.days.checked_add(other.days)?,
            us: self.us.checked_add(other.us)?,
        })
    }

    pub fn fields(self) -> IntervalFields {
        let seconds = self.us / 1_000_000;
        IntervalFields {
            years: i64::from(self.months / 12),
            months: i64::from(self.months % 12),
            days: i64::from(self.days),
            hours: seconds / 3600,
            minutes: seconds / 60 % 60,
            seconds: seconds % 60,
            us: self.us % 1_000_000,
        }
    }
}

/// The fields that a declared interval keeps: `interval day to minute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntervalRange {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    YearToMonth,
    DayToHour,
    DayToMinute,
    DayToSecond,
    HourToMinute,
    HourToSecond,
    MinuteToSecond,
}

impl IntervalRange {
    pub const ALL: [IntervalRange; 13] = [
        IntervalRange::Year,
        IntervalRange::Month,
        IntervalRange::Day,
        IntervalRange::Hour,
        IntervalRange::Minute,
        IntervalRange::Second,
        IntervalRange::YearToMonth,
        IntervalRange::DayToHour,
        IntervalRange::DayToMinute,
        IntervalRange::DayToSecond,
        IntervalRange::HourToMinute,
        IntervalRange::HourToSecond,
        IntervalRange::MinuteToSecond,
    ];

    /// The smallest field: what a number without a unit counts.
    pub fn last(self) -> Unit {
        match self {
            IntervalRange::Year => Unit::Year,
            IntervalRange::Month | IntervalRange::YearToMonth => Unit::Month,
            IntervalRange::Day => Unit::Day,
            IntervalRange::Hour | IntervalRange::DayToHour => Unit::Hour,
            IntervalRange::Minute | IntervalRange::DayToMinute | IntervalRange::HourToMinute => Unit::Minute,
            _ => Unit::Second,
        }
    }

    /// The fields as bits of a type modifier.
    pub fn bits(self) -> i32 {
        const MONTH: i32 = 1 << 1;
        const YEAR: i32 = 1 << 2;
        const DAY: i32 = 1 << 3;
        const HOUR: i32 = 1 << 10;
        const MINUTE: i32 = 1 << 11;
        const SECOND: i32 = 1 << 12;
        match self {
            IntervalRange::Year => YEAR,
            IntervalRange::Month => MONTH,
            IntervalRange::Day => DAY,
            IntervalRange::Hour => HOUR,
            IntervalRange::Minute => MINUTE,
            IntervalRange::Second => SECOND,
            IntervalRange::YearToMonth => YEAR | MONTH,
            IntervalRange::DayToHour => DAY | HOUR,
            IntervalRange::DayToMinute => DAY | HOUR | MINUTE,
            IntervalRange::DayToSecond => DAY | HOUR | MINUTE | SECOND,
            IntervalRange::HourToMinute => HOUR | MINUTE,
            IntervalRange::HourToSecond => HOUR | MINUTE | SECOND,
            IntervalRange::MinuteToSecond => MINUTE | SECOND,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            IntervalRange::Year => "year",
            IntervalRange::Month => "month",
            IntervalRange::Day => "day",
            IntervalRange::Hour => "hour",
            IntervalRange::Minute => "minute",
            IntervalRange::Second => "second",
            IntervalRange::YearToMonth => "year to month",
            IntervalRange::DayToHour => "day to hour",
            IntervalRange::DayToMinute => "day to minute",
            IntervalRange::DayToSecond => "day to second",
            IntervalRange::HourToMinute => "hour to minute",
            IntervalRange::HourToSecond => "hour to second",
            IntervalRange::MinuteToSecond => "minute to second",
        }
    }
}

impl Span {
    /// Without the fields below a declared range, and with so many digits of its seconds.
    pub fn within(self, range: Option<IntervalRange>, precision: Option<u8>) -> Span {
        let mut kept = self;
        let unit_us = match range.map(IntervalRange::last) {
            Some(Unit::Year) => {
                kept = Span {
                    months: self.months / 12 * 12,
                    ..Span::default()
                };
                1
            }
            Some(Unit::Month) => {
                kept = Span {
                    months: self.months,
                    ..Span::default()
                };
                1
            }
            Some(Unit::Day) => {
                kept.us = 0;
                1
            }
            Some(Unit::Hour) => 3_600_000_000,
            Some(Unit::Minute) => 60_000_000,
            _ => 1,
        };
        kept.us = kept.us / unit_us * unit_us;
        if let Some(precision) = precision {
            kept.us = rounded(kept.us, precision);
        }
        kept
    }
}

/// Microseconds with so many digits of their seconds, half away from zero.
pub fn rounded(us: i64, precision: u8) -> i64 {
    let unit = 10i64.pow(6u32.saturating_sub(precision.into()));
    let half = unit / 2;
    match us {
        0.. => us.saturating_add(half) / unit * unit,
        _ => us.saturating_sub(half) / unit * unit,
    }
}

/// The same of a point in time, whose halves go away from 2000-01-01.
pub fn rounded_stamp(us: i64, precision: u8) -> i64 {
    const YEAR_2000_US: i64 = 10_957 * DAY_US;
    match us {
        i64::MAX | i64::MIN => us,
        _ => rounded(us.saturating_sub(YEAR_2000_US), precision).saturating_add(YEAR_2000_US),
    }
}
