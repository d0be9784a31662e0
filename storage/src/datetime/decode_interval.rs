//! Texts of intervals: `1 year 2 mons 3 days 04:05:06.789 ago`, `1-2`, `3 4:05`, and ISO 8601's.

use super::decode::{clock, fraction_us};
use super::span::{DAY_US, IntervalRange, Span};
use super::tokens::{Kind, Token, tokens};
use super::words::{Unit, unit_word};
use super::{Conventions, IntervalForm, iso_interval};
use crate::parse::Invalid;

/// An interval; `range` says what a number without a unit counts.
pub fn parse_interval(text: &[u8], range: Option<IntervalRange>, conventions: &Conventions) -> Result<Span, Invalid> {
    let read = match tokens(text).and_then(|tokens| by_tokens(&tokens, range, conventions)) {
        Err(Invalid::Syntax) => iso_interval::parse(text),
        read => read,
    };
    read.map_err(|error| match error {
        Invalid::FieldOutOfRange => Invalid::IntervalOutOfRange,
        other => other,
    })
}

/// What a time of clock says.
const CLOCK: [Unit; 5] = [
    Unit::Hour,
    Unit::Minute,
    Unit::Second,
    Unit::Millisecond,
    Unit::Microsecond,
];

/// Months, days and microseconds, each checked as it grows. Fractions flow down: a month has 30 days.
#[derive(Default)]
pub(super) struct Sum {
    pub years: i32,
    pub months: i32,
    pub days: i32,
    pub us: i64,
}

fn past<T>(value: Option<T>) -> Result<T, Invalid> {
    value.ok_or(Invalid::FieldOutOfRange)
}

impl Sum {
    /// Adds `whole` and `fraction` of a unit.
    pub fn add(&mut self, whole: i64, fraction: f64, unit: Unit) -> Result<(), Invalid> {
        match unit {
            Unit::Microsecond => self.add_us(whole, fraction, 1),
            Unit::Millisecond => self.add_us(whole, fraction, 1000),
            Unit::Second => self.add_us(whole, fraction, 1_000_000),
            Unit::Minute => self.add_us(whole, fraction, 60_000_000),
            Unit::Hour => self.add_us(whole, fraction, 3_600_000_000),
            Unit::Day => {
                self.add_days(whole, 1)?;
                self.add_us(0, fraction, DAY_US)
            }
            Unit::Week => {
                self.add_days(whole, 7)?;
                self.add_day_fraction(fraction, 7.0)
            }
            Unit::Month => {
                let months = past(i32::try_from(whole).ok())?;
                self.months = past(self.months.checked_add(months))?;
                self.add_day_fraction(fraction, 30.0)
            }
            Unit::Year => self.add_years(whole, fraction, 1),
            Unit::Decade => self.add_years(whole, fraction, 10),
            Unit::Century => self.add_years(whole, fraction, 100),
            Unit::Millennium => self.add_years(whole, fraction, 1000),
            _ => Err(Invalid::Syntax),
        }
    }

    fn add_years(&mut self, whole: i64, fraction: f64, years: i64) -> Result<(), Invalid> {
        let whole = past(whole.checked_mul(years).and_then(|years| i32::try_from(years).ok()))?;
        self.years = past(self.years.checked_add(whole))?;
        // The fraction of a year becomes whole months.
        let rest = (fraction * years as f64 * 12.0).round_ties_even() as i32;
        self.months = past(self.months.checked_add(rest))?;
        Ok(())
    }

    fn add_days(&mut self, whole: i64, days: i64) -> Result<(), Invalid> {
        let days = past(whole.checked_mul(days).and_then(|days| i32::try_from(days).ok()))?;
        self.days = past(self.days.checked_add(days))?;
        Ok(())
    }

    fn add_day_fraction(&mut self, fraction: f64, days: f64) -> Result<(), Invalid> {
        let days = fraction * days;
        self.add_days(days.trunc() as i64, 1)?;
        self.add_us(0, days.fract(), DAY_US)
    }

    fn add_us(&mut self, whole: i64, fraction: f64, unit_us: i64) -> Result<(), Invalid> {
        let us = past(whole.checked_mul(unit_us))?;
        let part = fraction * unit_us as f64;
        let (floor, rest) = (part.trunc(), part.fract());
        let rounded = floor as i64 + i64::from(rest > 0.5) - i64::from(rest < -0.5);
        self.us = past(self.us.checked_add(us).and_then(|sum| sum.checked_add(rounded)))?;
        Ok(())
    }

    pub fn finish(self) -> Result<Span, Invalid> {
        let months = i64::from(self.years) * 12 + i64::from(self.months);
        Ok(Span {
            months: i32::try_from(months).map_err(|_| Invalid::Past("interval"))?,
            days: self.days,
            us: self.us,
        })
    }
}

/// A sign, a whole number and the fraction after it.
pub(super) fn amount(text: &str) -> Result<(i64, f64), Invalid> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (text, ""),
    };
    let negative = whole.starts_with('-');
    let unsigned = whole.trim_start_matches(['+', '-']);
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(unsigned) || !digits(fraction) || whole.len() > unsigned.len() + 1 {
        return Err(Invalid::Syntax);
    }
    let number = match unsigned {
        "" => 0,
        _ => whole
            .strip_prefix('+')
            .unwrap_or(whole)
            .parse::<i64>()
            .map_err(|_| Invalid::FieldOutOfRange)?,
    };
    let part: f64 = format!("0.{fraction}0").parse().map_err(|_| Invalid::Syntax)?;
    Ok((number, if negative { -part } else { part }))
}

/// Reads from the end, so that a unit is known before its number.
fn by_tokens(tokens: &[Token], range: Option<IntervalRange>, conventions: &Conventions) -> Result<Span, Invalid> {
    let (mut sum, mut seen, mut ago) = (Sum::default(), Seen::default(), false);
    let mut unit: Option<Unit> = None;
    // SQL's one sign before the whole of it.
    let all_negative = conventions.interval_form == IntervalForm::SqlStandard
        && tokens.first().is_some_and(|first| first.text.starts_with('-'))
        && !tokens[1..].iter().any(|token| token.text.starts_with(['-', '+']));
    let signed = |(whole, fraction): (i64, f64)| match all_negative {
        true => (-whole.saturating_abs(), -fraction.abs()),
        false => (whole, fraction),
    };
    for token in tokens.iter().rev() {
        let text = token.text.as_str();
        match token.kind {
            Kind::Time => {
                seen.take(&CLOCK)?;
                let (us, _) = signed((clock_us(text, range)?, 0.0));
                sum.us = past(sum.us.checked_add(us))?;
                unit = Some(Unit::Day);
            }
            Kind::Signed if text.contains(':') && clock_us(&text[1..], range).is_ok() => {
                seen.take(&CLOCK)?;
                let us = clock_us(&text[1..], range)?;
                let us = if text.starts_with('-') { -us } else { us };
                sum.us = past(sum.us.checked_add(us))?;
                // A bare number before it counts days.
                unit = Some(Unit::Day);
            }
            Kind::Signed | Kind::Date | Kind::Number => {
                let own = unit.unwrap_or_else(|| range.map_or(Unit::Second, IntervalRange::last));
                match text.char_indices().skip(1).find(|(_, c)| *c == '-') {
                    // SQL's years and months.
                    Some((dash, _)) => {
                        let (years, months) = (&text[..dash], &text[dash + 1..]);
                        let (years, fraction) = amount(years)?;
                        if months.is_empty() || !months.bytes().all(|byte| byte.is_ascii_digit()) || fraction != 0.0 {
                            return Err(Invalid::Syntax);
                        }
                        let months: i64 = months.parse().map_err(|_| Invalid::FieldOutOfRange)?;
                        if months >= 12 {
                            return Err(Invalid::FieldOutOfRange);
                        }
                        let months = if text.starts_with('-') { -months } else { months };
                        seen.take(&[Unit::Month])?;
                        let (years, _) = signed((years, 0.0));
                        let (months, _) = signed((months, 0.0));
                        let all = past(years.checked_mul(12).and_then(|years| years.checked_add(months)))?;
                        sum.add(all, 0.0, Unit::Month)?;
                        unit = Some(Unit::Month);
                    }
                    None => {
                        let (whole, fraction) = signed(amount(text)?);
                        match own {
                            Unit::Second if fraction != 0.0 => {
                                seen.take(&[Unit::Second, Unit::Millisecond, Unit::Microsecond])?;
                            }
                            own => seen.take(&[own])?,
                        }
                        sum.add(whole, fraction, own)?;
                        // `1 2` day to hour.
                        unit = Some(if own == Unit::Hour { Unit::Day } else { own });
                    }
                }
            }
            Kind::Word | Kind::Special => match text {
                "ago" => ago = true,
                word => unit = Some(unit_word(word).ok_or(Invalid::Syntax)?),
            },
        }
    }
    if !seen.any() {
        return Err(Invalid::Syntax);
    }
    let span = sum.finish()?;
    if ago { past(span.negated()) } else { Ok(span) }
}

/// `hh:mm[:ss[.f]]`; with the range MINUTE TO SECOND, `mm:ss`.
fn clock_us(text: &str, range: Option<IntervalRange>) -> Result<i64, Invalid> {
    let (mut hour, mut minute, mut second, us) = match text.split_once(':') {
        // Hours reach past those of the day.
        Some((hours, rest)) if rest.contains(':') || !rest.contains('.') => {
            let whole: i64 = match hours {
                digits if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    digits.parse().map_err(|_| Invalid::FieldOutOfRange)?
                }
                _ => return Err(Invalid::Syntax),
            };
            let (_, minute, second, us) = clock(&format!("0:{rest}"))?;
            (whole, minute, second, us)
        }
        Some((minutes, rest)) => {
            let (seconds, fraction) = rest.split_once('.').unwrap_or((rest, ""));
            let number = |text: &str| text.parse::<i64>().map_err(|_| Invalid::Syntax);
            let (minute, second) = (number(minutes)?, number(seconds)?);
            if minute > 59 || second > 60 {
                return Err(Invalid::FieldOutOfRange);
            }
            (0, minute, second, fraction_us(fraction)?)
        }
        None => return Err(Invalid::Syntax),
    };
    if range == Some(IntervalRange::MinuteToSecond) && text.matches(':').count() == 1 && !text.contains('.') {
        (hour, minute, second) = (0, hour, minute);
    }
    let seconds = past(
        hour.checked_mul(3600)
            .and_then(|all| all.checked_add(minute * 60 + second)),
    )?;
    past(seconds.checked_mul(1_000_000).and_then(|all| all.checked_add(us)))
}

/// Units that have been read: each may come once.
#[derive(Default)]
struct Seen(u32);

impl Seen {
    fn take(&mut self, units: &[Unit]) -> Result<(), Invalid> {
        for unit in units {
            let bit = 1u32 << (*unit as u32);
            if self.0 & bit != 0 {
                return Err(Invalid::Syntax);
            }
            self.0 |= bit;
        }
        Ok(())
    }

    fn any(&self) -> bool {
        self.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        let hour = 3_600_000_000_i64;
        for (text, months, days, us) in [
            ("1 year 2 months 3 days 04:05:06.789", 14, 3, 14_706_789_000),
            ("P1Y2M3DT4H5M6.789S", 14, 3, 14_706_789_000),
            ("1-2", 14, 0, 0),
            ("-1-2", -14, 0, 0),
            ("@ 1 day ago", 0, -1, 0),
            ("1.5 days", 0, 1, 12 * hour),
            ("1.5 months", 1, 15, 0),
            ("1.5 years", 18, 0, 0),
            ("3 4:05", 0, 3, 4 * hour + 5 * hour / 60),
            ("90", 0, 0, 90_000_000),
            ("-2 hours", 0, 0, -2 * hour),
            ("1d2h", 0, 1, 2 * hour),
            ("2 weeks", 0, 14, 0),
            ("-00:30", 0, 0, -hour / 2),
            ("100:00:00", 0, 0, 100 * hour),
        ] {
            let parsed = parse_interval(text.as_bytes(), None, &Conventions::default());
            let parsed = parsed.unwrap_or_else(|error| panic!("{text}: {error:?}"));
            assert_eq!((parsed.months, parsed.days, parsed.us), (months, days, us), "{text}");
        }
        for bad in ["", "x", "1 x", "1 2 days 3 4", "P", "day", "é", "@"] {
            assert!(
                parse_interval(bad.as_bytes(), None, &Conventions::default()).is_err(),
                "{bad}"
            );
        }
    }
}
