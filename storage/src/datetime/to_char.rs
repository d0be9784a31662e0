//! `to_char` of points in time and intervals.

use super::civil::{civil_from_days, days_from_civil};
use super::decode::EPOCH_JULIAN;
use super::fields::{iso_week, monday_of, weekday};
use super::span::{DAY_US, Span};
use super::template::{Case, Field, Key, MONTHS, ROMAN, Template, TemplateNode, WEEKDAYS};
use super::zone::Local;
use crate::error::{ErrorKind, Result, StorageError};
use std::fmt::Write;

/// What the fields are filled from.
struct Shown<'a> {
    interval: bool,
    /// Astronomical: year 0 is 1 BC.
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    us: i64,
    /// From 1970; of a date only.
    days: i64,
    day_of_year: i64,
    zone: Option<&'a Local>,
}

/// Of a time of clock; None for the infinities and an empty pattern.
pub fn timestamp_to_char(local_us: i64, zone: Option<&Local>, pattern: &Template) -> Result<Option<String>> {
    if super::is_infinite(local_us) || pattern.0.is_empty() {
        return Ok(None);
    }
    let (days, time) = (local_us.div_euclid(DAY_US), local_us.rem_euclid(DAY_US));
    let (year, month, day) = civil_from_days(days);
    let shown = Shown {
        interval: false,
        year,
        month: month.into(),
        day: day.into(),
        hour: time / 3_600_000_000,
        minute: time / 60_000_000 % 60,
        second: time / 1_000_000 % 60,
        us: time % 1_000_000,
        days,
        day_of_year: days - days_from_civil(year, 1, 1) + 1,
        zone,
    };
    shown.write(pattern).map(Some)
}

/// Of an interval; None for an empty pattern.
pub fn interval_to_char(span: Span, pattern: &Template) -> Result<Option<String>> {
    if pattern.0.is_empty() {
        return Ok(None);
    }
    let fields = span.fields();
    let shown = Shown {
        interval: true,
        year: fields.years,
        month: fields.months,
        day: fields.days,
        hour: fields.hours,
        minute: fields.minutes,
        second: fields.seconds,
        us: fields.us,
        days: 0,
        day_of_year: (fields.years * 12 + fields.months) * 30 + fields.days,
        zone: None,
    };
    shown.write(pattern).map(Some)
}

fn cased(text: &str, case: Case) -> String {
    match case {
        Case::Upper => text.to_ascii_uppercase(),
        Case::Lower => text.to_ascii_lowercase(),
        Case::Capital => text.to_string(),
    }
}

/// `st`, `nd`, `rd`, `th`.
fn ordinal(number: &str) -> &'static str {
    let digits = number.as_bytes();
    let (last, teen) = (digits.last(), digits.len() > 1 && digits[digits.len() - 2] == b'1');
    match last {
        Some(b'1') if !teen => "st",
        Some(b'2') if !teen => "nd",
        Some(b'3') if !teen => "rd",
        _ => "th",
    }
}

impl Shown<'_> {
    fn write(&self, pattern: &Template) -> Result<String> {
        let mut out = String::new();
        for node in &pattern.0 {
            match node {
                TemplateNode::Field(field) => self.field(field, &mut out)?,
                TemplateNode::Text(c) | TemplateNode::Separator(c) | TemplateNode::Blank(c) => out.push(*c),
            }
        }
        Ok(out)
    }

    /// The year as it is named: 1 BC is 1.
    fn named(&self, year: i64) -> i64 {
        if self.interval || year > 0 { year } else { 1 - year }
    }

    fn iso_year(&self) -> i64 {
        iso_week(self.days).0
    }

    fn field(&self, field: &Field, out: &mut String) -> Result<()> {
        let calendar = matches!(
            field.key,
            Key::EraDotted
                | Key::Era
                | Key::DayName
                | Key::DayShort
                | Key::DayOfWeek
                | Key::IsoDayOfWeek
                | Key::MonthName
                | Key::MonthShort
                | Key::Zone
                | Key::ZoneHour
                | Key::ZoneMinute
                | Key::Offset
        );
        if self.interval && calendar {
            let message = "invalid format specification for an interval value";
            return Err(StorageError::new(ErrorKind::InvalidDatetimeFormat, message)
                .hint("Intervals are not tied to specific calendar dates."));
        }
        let fill = field.fill;
        // A number of so many digits, and a sign more.
        let number = |value: i64, width: usize, out: &mut String| {
            let mut text = match (fill, value < 0) {
                (true, _) => value.to_string(),
                (false, false) => format!("{value:0width$}"),
                (false, true) => format!("{value:0least$}", least = width + 1),
            };
            if let Some(case) = field.ordinal {
                text += &cased(ordinal(&text), case);
            }
            out.push_str(&text);
        };
        let name = |text: &str, width: usize, out: &mut String| {
            let text = cased(text, field.case);
            let _ = match fill {
                true => write!(out, "{text}"),
                false => write!(out, "{text:<width$}"),
            };
        };
        match field.key {
            Key::HalfDotted | Key::Half => {
                let text = match (self.hour.rem_euclid(24) >= 12, field.key) {
                    (false, Key::Half) => "AM",
                    (true, Key::Half) => "PM",
                    (false, _) => "A.M.",
                    (true, _) => "P.M.",
                };
                out.push_str(&cased(text, field.case));
            }
            Key::EraDotted | Key::Era => {
                let text = match (self.year > 0, field.key) {
                    (true, Key::Era) => "AD",
                    (false, Key::Era) => "BC",
                    (true, _) => "A.D.",
                    (false, _) => "B.C.",
                };
                out.push_str(&cased(text, field.case));
            }
            Key::Hour12 => {
                let hour = match self.hour % 12 {
                    0 => 12,
                    hour => hour,
                };
                let width = if self.hour < 0 && hour > 0 { 3 } else { 2 };
                number(hour, width, out);
            }
            Key::Hour24 => number(self.hour, 2, out),
            Key::Minute => number(self.minute, 2, out),
            Key::Second => number(self.second, 2, out),
            Key::Fraction(digits) => {
                let unit = 10i64.pow(6 - u32::from(digits));
                self.fraction(self.us / unit, digits.into(), field, out);
            }
            Key::Millisecond => self.fraction(self.us / 1000, 3, field, out),
            Key::Microsecond => self.fraction(self.us, 6, field, out),
            Key::SecondsOfDay => {
                let mut text = (self.hour * 3600 + self.minute * 60 + self.second).to_string();
                if let Some(case) = field.ordinal {
                    text += &cased(ordinal(&text), case);
                }
                out.push_str(&text);
            }
            Key::Zone => {
                if let Some(zone) = self.zone {
                    out.push_str(&match field.case {
                        Case::Lower => zone.abbreviation.to_ascii_lowercase(),
                        _ => zone.abbreviation.clone(),
                    });
                }
            }
            Key::ZoneHour | Key::ZoneMinute | Key::Offset => self.offset(field, out),
            Key::MonthName | Key::MonthShort | Key::DayName | Key::DayShort => {
                let full = match field.key {
                    Key::MonthName | Key::MonthShort => MONTHS[(self.month - 1).rem_euclid(12) as usize],
                    _ => WEEKDAYS[((weekday(self.days) + 1) % 7) as usize],
                };
                match field.key {
                    Key::MonthName | Key::DayName => name(full, 9, out),
                    _ => name(&full[..3], 3, out),
                }
            }
            Key::Month => number(self.month, 2, out),
            Key::DayOfYear => number(self.day_of_year, if self.day_of_year < 0 { 2 } else { 3 }, out),
            Key::IsoDayOfYear => number(self.days - monday_of(self.iso_year(), 1) + 1, 3, out),
            // A sign counts among its digits.
            Key::Day => number(self.day, if self.day < 0 { 1 } else { 2 }, out),
            Key::DayOfWeek => number((weekday(self.days) + 1) % 7 + 1, 1, out),
            Key::IsoDayOfWeek => number(weekday(self.days) + 1, 1, out),
            Key::Week => number((self.day_of_year - 1) / 7 + 1, 2, out),
            Key::IsoWeek => number(iso_week(self.days).1, 2, out),
            Key::WeekOfMonth => number((self.day - 1) / 7 + 1, 1, out),
            Key::Quarter => {
                if self.month != 0 {
                    number((self.month - 1) / 3 + 1, 1, out);
                }
            }
            Key::Century => {
                let century = match self.year {
                    year if self.interval => year / 100,
                    year @ 1.. => (year - 1) / 100 + 1,
                    year => year / 100 - 1,
                };
                number(century, 2, out);
            }
            Key::YearComma => {
                let year = self.named(self.year);
                let mut text = format!("{},{:03}", year / 1000, year % 1000);
                if let Some(case) = field.ordinal {
                    text += &cased(ordinal(&text), case);
                }
                out.push_str(&text);
            }
            Key::Year(digits) | Key::IsoYear(digits) => {
                let year = match field.key {
                    Key::Year(_) => self.named(self.year),
                    _ => self.named(self.iso_year()),
                };
                match digits {
                    4 => number(year, 4, out),
                    _ => number(year % 10i64.pow(digits.into()), digits.into(), out),
                }
            }
            Key::Roman => {
                if self.month == 0 && self.year == 0 {
                    return Ok(());
                }
                let at = match self.month {
                    0 if self.year >= 0 => 11,
                    0 => 0,
                    month @ 1.. => month - 1,
                    month => 12 + month,
                };
                name(ROMAN[at.clamp(0, 11) as usize], 4, out);
            }
            Key::Julian => {
                let day = match self.interval {
                    // Counted as if the parts were those of a date.
                    true => days_from_civil(self.year, self.month.clamp(1, 12) as u32, 1) + self.day - 1,
                    false => self.days,
                };
                number(day + EPOCH_JULIAN, 1, out);
            }
            Key::Exact => {}
        }
        Ok(())
    }

    fn fraction(&self, value: i64, digits: usize, field: &Field, out: &mut String) {
        let mut text = match value < 0 {
            true => format!("{value:0digits$}"),
            false => format!("{value:0digits$}"),
        };
        if let Some(case) = field.ordinal {
            text += &cased(ordinal(&text), case);
        }
        out.push_str(&text);
    }

    fn offset(&self, field: &Field, out: &mut String) {
        let east_s = self.zone.map_or(0, |zone| zone.east_s);
        let (sign, size) = (if east_s < 0 { '-' } else { '+' }, east_s.unsigned_abs());
        let (hours, minutes) = (size / 3600, size / 60 % 60);
        let _ = match field.key {
            Key::ZoneHour => write!(out, "{sign}{hours:02}"),
            Key::ZoneMinute => write!(out, "{minutes:02}"),
            _ if field.fill => write!(out, "{sign}{hours}"),
            _ => write!(out, "{sign}{hours:02}"),
        };
        if field.key == Key::Offset && minutes != 0 {
            let _ = write!(out, ":{minutes:02}");
        }
    }
}
