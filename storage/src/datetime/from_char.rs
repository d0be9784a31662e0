//! `to_timestamp` and `to_date`: texts read by a pattern.
//!
//! More than 400 lines because the fields of a pattern check each other.

use super::civil::{civil_from_days, days_from_civil, days_in_month};
use super::decode::EPOCH_JULIAN;
use super::fields::{monday_of, weekday};
use super::span::{DAY_US, rounded};
use super::template::{Field, Key, MONTHS, ROMAN, Template, TemplateNode, WEEKDAYS, is_separator};
use crate::error::{ErrorKind, Result, StorageError};

/// What a text says: a time of clock, and its zone where it names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// From 1970.
    pub days: i64,
    pub time_us: i64,
    /// Seconds east of UTC.
    pub east_s: Option<i32>,
}

fn invalid(message: String) -> StorageError {
    StorageError::new(ErrorKind::InvalidDatetimeFormat, message)
}

fn overflow(text: &str) -> StorageError {
    let message = format!("date/time field value out of range: \"{text}\"");
    StorageError::new(ErrorKind::DatetimeOverflow, message)
}

pub fn from_char(text: &str, pattern: &Template) -> Result<Read> {
    let mut reader = Reader {
        rest: text,
        before: None,
        skipped: 0,
        exact: false,
        found: Found::default(),
    };
    reader.read(&pattern.0)?;
    reader.found.finish(text)
}

/// Fields as they were read; None: not in the pattern.
#[derive(Default)]
struct Found {
    iso: Option<bool>,
    half_day: bool,
    afternoon: bool,
    hour: i64,
    minute: i64,
    second: i64,
    seconds_of_day: i64,
    day_of_week: i64,
    day: i64,
    day_of_year: i64,
    month: i64,
    milliseconds: i64,
    year: i64,
    /// How many digits the year's field has.
    year_digits: u8,
    before_christ: bool,
    week: i64,
    week_of_month: i64,
    century: i64,
    julian: i64,
    microseconds: i64,
    /// Digits of the seconds that the pattern keeps.
    digits: Option<u8>,
    zone_sign: Option<i64>,
    zone_hours: i64,
    zone_minutes: i64,
}

struct Reader<'a> {
    rest: &'a str,
    /// The character before `rest`, if it was skipped.
    before: Option<char>,
    /// Characters skipped beyond those that the pattern asked for.
    skipped: i64,
    exact: bool,
    found: Found,
}

impl<'a> Reader<'a> {
    fn next(&mut self) {
        let mut letters = self.rest.chars();
        self.before = letters.next();
        self.rest = letters.as_str();
    }

    fn skip_blanks(&mut self) {
        while self.rest.starts_with(|c: char| c.is_ascii_whitespace()) {
            self.next();
            self.skipped += 1;
        }
    }

    fn read(&mut self, nodes: &[TemplateNode]) -> Result<()> {
        for (at, node) in nodes.iter().enumerate() {
            let exact_mark = matches!(node, TemplateNode::Field(field) if field.key == Key::Exact);
            if !self.exact && !exact_mark && (matches!(node, TemplateNode::Field(_)) || at == 0) {
                self.skip_blanks();
            }
            if self.rest.is_empty() && !exact_mark {
                break;
            }
            match node {
                TemplateNode::Blank(_) | TemplateNode::Separator(_) => {
                    if !self.exact {
                        self.skipped -= 1;
                        let passes = |c: char| c.is_ascii_whitespace() || is_separator(c);
                        if self.rest.starts_with(passes) {
                            self.next();
                            self.skipped += 1;
                        }
                    } else {
                        self.next();
                    }
                }
                TemplateNode::Text(_) => {
                    // What was skipped too much may belong to a field.
                    if !self.exact && self.skipped > 0 {
                        self.skipped -= 1;
                    } else {
                        self.next();
                    }
                }
                TemplateNode::Field(field) => {
                    self.field(field, slurps(field, nodes.get(at + 1)))?;
                    if !self.exact {
                        self.skipped = 0;
                        self.skip_blanks();
                    }
                }
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, slurps: bool) -> Result<()> {
        let iso = match field.key {
            Key::IsoDayOfYear | Key::IsoDayOfWeek | Key::IsoWeek | Key::IsoYear(_) => Some(true),
            Key::Century
            | Key::DayName
            | Key::DayShort
            | Key::DayOfYear
            | Key::Day
            | Key::DayOfWeek
            | Key::Month
            | Key::MonthName
            | Key::MonthShort
            | Key::Roman
            | Key::Week
            | Key::WeekOfMonth
            | Key::YearComma
            | Key::Year(_) => Some(false),
            _ => None,
        };
        if let Some(iso) = iso
            && *self.found.iso.get_or_insert(iso) != iso
        {
            return Err(invalid("invalid combination of date conventions".into())
                .hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
        }
        // A number of so many digits into a field of `found`.
        macro_rules! number {
            ($into:ident, $digits:expr) => {{
                let (value, _) = self.number(field, $digits, slurps)?;
                set(&mut self.found.$into, value, field)?;
            }};
        }
        match field.key {
            Key::Exact => self.exact = true,
            Key::HalfDotted | Key::Half => {
                let words: &[&str] = match field.key {
                    Key::Half => &["am", "pm"],
                    _ => &["a.m.", "p.m."],
                };
                self.found.afternoon = self.word(words, field)? == 1;
                self.found.half_day = true;
            }
            Key::EraDotted | Key::Era => {
                let words: &[&str] = match field.key {
                    Key::Era => &["ad", "bc"],
                    _ => &["a.d.", "b.c."],
                };
                self.found.before_christ = self.word(words, field)? == 1;
            }
            Key::Hour12 => {
                number!(hour, 2);
                self.found.half_day = true;
                self.ordinal(field);
            }
            Key::Hour24 => {
                number!(hour, 2);
                self.ordinal(field);
            }
            Key::Minute => {
                number!(minute, 2);
                self.ordinal(field);
            }
            Key::Second => {
                number!(second, 2);
                self.ordinal(field);
            }
            Key::Millisecond => {
                let (value, digits) = self.number(field, 3, slurps)?;
                let value = value * [1, 100, 10, 1][digits.min(3)];
                set(&mut self.found.milliseconds, value, field)?;
                self.ordinal(field);
            }
            Key::Fraction(wanted) => {
                self.fraction(field, wanted.into(), slurps)?;
                self.found.digits = Some(wanted);
            }
            Key::Microsecond => self.fraction(field, 6, slurps)?,
            Key::SecondsOfDay => {
                number!(seconds_of_day, field.name.len());
                self.ordinal(field);
            }
            Key::Zone | Key::Offset => {
                let message = format!("formatting field \"{}\" is only supported in to_char", field.name);
                return Err(StorageError::new(ErrorKind::Unsupported, message));
            }
            Key::ZoneHour => {
                let sign = match self.rest.chars().next() {
                    Some(sign @ ('+' | '-' | ' ')) => {
                        self.next();
                        if sign == '-' { -1 } else { 1 }
                    }
                    // The sign may have been taken for a separator.
                    _ if self.skipped > 0 && self.before == Some('-') => -1,
                    _ => 1,
                };
                self.found.zone_sign = Some(sign);
                number!(zone_hours, 2);
            }
            Key::ZoneMinute => {
                self.found.zone_sign.get_or_insert(1);
                number!(zone_minutes, 2);
            }
            Key::MonthName => {
                let value = self.word(&MONTHS, field)? as i64 + 1;
                set(&mut self.found.month, value, field)?;
            }
            Key::MonthShort => {
                let short = MONTHS.map(|name| &name[..3]);
                let value = self.word(&short, field)? as i64 + 1;
                set(&mut self.found.month, value, field)?;
            }
            Key::Roman => {
                // Longer numbers first, of those that begin alike.
                let mut order: Vec<usize> = (0..12).collect();
                order.sort_by_key(|at| std::cmp::Reverse(ROMAN[*at].len()));
                let words: Vec<&str> = order.iter().map(|at| ROMAN[*at]).collect();
                let value = order[self.word(&words, field)?] as i64 + 1;
                set(&mut self.found.month, value, field)?;
            }
            Key::Month => {
                number!(month, 2);
                self.ordinal(field);
            }
            Key::DayName => {
                let value = self.word(&WEEKDAYS, field)? as i64 + 1;
                set(&mut self.found.day_of_week, value, field)?;
            }
            Key::DayShort => {
                let short = WEEKDAYS.map(|name| &name[..3]);
                let value = self.word(&short, field)? as i64 + 1;
                set(&mut self.found.day_of_week, value, field)?;
            }
            Key::DayOfYear | Key::IsoDayOfYear => {
                number!(day_of_year, 3);
                self.ordinal(field);
            }
            Key::Day => {
                number!(day, 2);
                self.ordinal(field);
            }
            Key::DayOfWeek => {
                number!(day_of_week, 1);
                self.ordinal(field);
            }
            Key::IsoDayOfWeek => {
                let (value, _) = self.number(field, 1, slurps)?;
                // Sunday is the first day elsewhere.
                set(
                    &mut self.found.day_of_week,
                    if value == 7 { 1 } else { value + 1 },
                    field,
                )?;
                self.ordinal(field);
            }
            Key::Week | Key::IsoWeek => {
                number!(week, 2);
                self.ordinal(field);
            }
            Key::WeekOfMonth => {
                number!(week_of_month, 1);
                self.ordinal(field);
            }
            // Which day of it is not said.
            Key::Quarter => {
                self.number(field, 1, slurps)?;
                self.ordinal(field);
            }
            Key::Century => {
                number!(century, 2);
                self.ordinal(field);
            }
            Key::YearComma => {
                let bad = || invalid(format!("invalid input string for \"{}\"", field.name));
                let (thousands, rest) = self.rest.split_once(',').ok_or_else(bad)?;
                let digits = rest.bytes().take(3).take_while(u8::is_ascii_digit).count();
                let thousands: i64 = thousands.trim().parse().map_err(|_| bad())?;
                let below: i64 = rest[..digits].parse().map_err(|_| bad())?;
                self.rest = &rest[digits..];
                set(&mut self.found.year, thousands * 1000 + below, field)?;
                self.found.year_digits = 4;
                self.ordinal(field);
            }
            Key::Year(digits) | Key::IsoYear(digits) => {
                let (value, read) = self.number(field, digits.into(), slurps)?;
                let value = match digits {
                    4 => value,
                    _ if read < 4 => nearest_2020(value),
                    _ => value,
                };
                set(&mut self.found.year, value, field)?;
                self.found.year_digits = digits;
                self.ordinal(field);
            }
            Key::Julian => {
                number!(julian, 1);
                self.ordinal(field);
            }
        }
        Ok(())
    }

    /// Leaves out `th` after a number.
    fn ordinal(&mut self, field: &Field) {
        if field.ordinal.is_some() {
            for _ in 0..2 {
                self.next();
            }
        }
    }

    fn fraction(&mut self, field: &Field, wanted: usize, slurps: bool) -> Result<()> {
        let (value, digits) = self.number(field, wanted, slurps)?;
        let value = value * 10i64.pow(6 - digits.min(6) as u32);
        set(&mut self.found.microseconds, value, field)?;
        self.ordinal(field);
        Ok(())
    }

    /// A number of `digits` digits, or as many as there are where something else follows; and how many were read.
    fn number(&mut self, field: &Field, digits: usize, slurps: bool) -> Result<(i64, usize)> {
        let text = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let name = field.name;
        let hint = "If your source string is not fixed-width, try using the \"FM\" modifier.";
        let limit = if slurps {
            text.len()
        } else {
            let all = text.chars().count();
            if all < digits {
                return Err(
                    invalid(format!("source string too short for \"{name}\" formatting field"))
                        .detail(format!("Field requires {digits} characters, but only {all} remain."))
                        .hint(hint),
                );
            }
            text.char_indices().nth(digits).map_or(text.len(), |(end, _)| end)
        };
        let window = &text[..limit];
        let inner = window.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let blanks = window.len() - inner.len();
        let signed = usize::from(inner.starts_with(['+', '-']));
        let count = inner[signed..].bytes().take_while(u8::is_ascii_digit).count();
        let used = if count == 0 { 0 } else { blanks + signed + count };
        let shown: String = text.chars().take(if slurps { digits.max(1) } else { digits }).collect();
        if used == 0 {
            return Err(
                invalid(format!("invalid value \"{shown}\" for \"{name}\"")).detail("Value must be an integer.")
            );
        }
        if !slurps && used < digits {
            return Err(invalid(format!("invalid value \"{shown}\" for \"{name}\""))
                .detail(format!(
                    "Field requires {digits} characters, but only {used} could be parsed."
                ))
                .hint(hint));
        }
        let number = inner[..signed + count]
            .trim_start_matches('+')
            .parse::<i32>()
            .map_err(|_| {
                let message = format!("value for \"{name}\" in source string is out of range");
                StorageError::new(ErrorKind::DatetimeOverflow, message)
                    .detail("Value must be in the range -2147483648 to 2147483647.")
            })?;
        self.before = text[..used].chars().next_back();
        self.rest = &text[used..];
        Ok((number.into(), used))
    }

    /// Which of the words comes next.
    fn word(&mut self, words: &[&str], field: &Field) -> Result<usize> {
        let found = words.iter().position(|word| {
            self.rest
                .get(..word.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
        });
        let Some(at) = found else {
            let end = self
                .rest
                .find(|c: char| c.is_ascii_whitespace())
                .unwrap_or(self.rest.len());
            let message = format!("invalid value \"{}\" for \"{}\"", &self.rest[..end], field.name);
            return Err(
                invalid(message).detail("The given value did not match any of the allowed values for this field.")
            );
        };
        self.rest = &self.rest[words[at].len()..];
        Ok(at)
    }
}

/// Whether a number ends where its digits do: what follows is no digit, or `FM` says so.
fn slurps(field: &Field, next: Option<&TemplateNode>) -> bool {
    field.fill
        || field.ordinal.is_some()
        || match next {
            None => true,
            Some(TemplateNode::Field(next)) => !next.key.is_digits(),
            Some(TemplateNode::Text(c) | TemplateNode::Separator(c) | TemplateNode::Blank(c)) => !c.is_ascii_digit(),
        }
}

fn set(into: &mut i64, value: i64, field: &Field) -> Result<()> {
    if *into != 0 && *into != value {
        let message = format!("conflicting values for \"{}\" field in formatting string", field.name);
        return Err(invalid(message).detail("This value contradicts a previous setting for the same field type."));
    }
    *into = value;
    Ok(())
}

/// A year of up to three digits, near 2020.
fn nearest_2020(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

impl Found {
    fn finish(mut self, text: &str) -> Result<Read> {
        if self.seconds_of_day != 0 {
            let all = self.seconds_of_day;
            (self.hour, self.minute, self.second) = (all / 3600, all / 60 % 60, all % 60);
        }
        if self.half_day {
            if !(1..=12).contains(&self.hour) {
                let message = format!("hour \"{}\" is invalid for the 12-hour clock", self.hour);
                return Err(invalid(message).hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            match self.afternoon {
                true if self.hour < 12 => self.hour += 12,
                false if self.hour == 12 => self.hour = 0,
                _ => {}
            }
        }
        let days = self.day_found(text)?;
        let past = !(0..24).contains(&self.hour) || !(0..60).contains(&self.minute) || !(0..60).contains(&self.second);
        let us = self.microseconds + self.milliseconds * 1000;
        if past || !(0..=1_000_000).contains(&us) {
            return Err(overflow(text));
        }
        let east_s = match self.zone_sign {
            Some(_) if !(0..=15).contains(&self.zone_hours) || !(0..60).contains(&self.zone_minutes) => {
                let message = format!("time zone displacement out of range: \"{text}\"");
                return Err(StorageError::new(ErrorKind::ZoneOverflow, message));
            }
            Some(sign) => Some((sign * (self.zone_hours * 3600 + self.zone_minutes * 60)) as i32),
            None => None,
        };
        let time_us = ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + us;
        let time_us = self.digits.map_or(time_us, |digits| rounded(time_us, digits));
        debug_assert!(time_us <= DAY_US);
        Ok(Read { days, time_us, east_s })
    }

    fn year_found(&self) -> i64 {
        if self.year != 0 {
            if self.century != 0 && self.year_digits <= 2 {
                let century = if self.before_christ {
                    -self.century
                } else {
                    self.century
                };
                return match (self.year % 100, century) {
                    (0, 0..) => century * 100,
                    (0, _) => century * 100 + 1,
                    (below, 0..) => (century - 1) * 100 + below,
                    (below, _) => (century + 1) * 100 - below + 1,
                };
            }
            let year = if self.before_christ { -self.year } else { self.year };
            return if year < 0 { year + 1 } else { year };
        }
        match self.century {
            0 => 0,
            century if self.before_christ => -century * 100 + 1,
            century => (century - 1) * 100 + 1,
        }
    }

    /// The day, from 1970.
    fn day_found(&mut self, text: &str) -> Result<i64> {
        let iso = self.iso == Some(true);
        let (mut year, mut month, mut day) = (self.year_found(), 1, 1);
        if self.julian != 0 {
            let (y, m, d) = civil_from_days(self.julian - EPOCH_JULIAN);
            (year, month, day) = (y, i64::from(m), i64::from(d));
        }
        if self.week != 0 {
            if iso {
                let monday = monday_of(year, self.week);
                let shift = match self.day_of_week {
                    0 => 0,
                    1 => 6,
                    later => later - 2,
                };
                let (y, m, d) = civil_from_days(monday + shift);
                (year, month, day) = (y, i64::from(m), i64::from(d));
            } else {
                self.day_of_year = (self.week - 1) * 7 + 1;
            }
        }
        if self.week_of_month != 0 {
            self.day = (self.week_of_month - 1) * 7 + 1;
        }
        if self.day != 0 {
            day = self.day;
        }
        if self.month != 0 {
            month = self.month;
        }
        if self.day_of_year != 0 && (month <= 1 || day <= 1) {
            if year == 0 && !self.before_christ {
                return Err(invalid("cannot calculate day of year without year information".into()));
            }
            if iso {
                return Ok(monday_of(year, 1) + self.day_of_year - 1);
            }
            let leap = days_in_month(year, 2) == 29;
            if !(1..=365 + i64::from(leap)).contains(&self.day_of_year) {
                return Err(overflow(text));
            }
            return Ok(days_from_civil(year, 1, 1) + self.day_of_year - 1);
        }
        let real = (-4713..=5_874_897).contains(&year)
            && (1..=12).contains(&month)
            && day >= 1
            && day <= i64::from(days_in_month(year, month as u32));
        debug_assert!(weekday(0) == 3);
        if real {
            Ok(days_from_civil(year, month as u32, day as u32))
        } else {
            Err(overflow(text))
        }
    }
}
