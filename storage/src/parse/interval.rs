//! Intervals: `1 year 2 mons 3 days 04:05:06.789 ago`, `P1Y2M3DT4H5M6S`, `1-2`, `3 4:05`.

use super::datetime::fraction_micros;
use super::{Invalid, trim};
use arrow::datatypes::IntervalMonthDayNano;

/// Sums of months, days and nanoseconds; fractions flow down as in PostgreSQL (a month has 30 days).
#[derive(Default)]
struct Sum {
    months: f64,
    days: f64,
    micros: f64,
}

impl Sum {
    fn add(&mut self, amount: f64, unit: &str) -> Result<(), Invalid> {
        let months = |count: f64| (amount * count, 0.0, 0.0);
        let micros = |count: f64| (0.0, 0.0, (amount * count).round());
        let (months, days, micros) = match unit {
            "millennium" | "millennia" | "mil" | "mils" | "millenniums" => months(12_000.0),
            "century" | "centuries" | "c" | "cent" => months(1200.0),
            "decade" | "decades" | "dec" | "decs" => months(120.0),
            "year" | "years" | "y" | "yr" | "yrs" => months(12.0),
            "month" | "months" | "mon" | "mons" => months(1.0),
            "week" | "weeks" | "w" => (0.0, amount * 7.0, 0.0),
            "day" | "days" | "d" => (0.0, amount, 0.0),
            "hour" | "hours" | "h" | "hr" | "hrs" => micros(3_600e6),
            "minute" | "minutes" | "m" | "min" | "mins" => micros(60e6),
            "second" | "seconds" | "s" | "sec" | "secs" => micros(1e6),
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => micros(1e3),
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => micros(1.0),
            _ => return Err(Invalid::Syntax),
        };
        self.months += months.trunc();
        // Years keep whole months; a month's fraction becomes days.
        let month_fraction = if matches!(unit.as_bytes()[0], b'm') && unit != "m" {
            months.fract() * 30.0
        } else {
            0.0
        };
        let days = days + month_fraction;
        self.days += days.trunc();
        self.micros += micros + (days.fract() * 86_400e6).round();
        Ok(())
    }

    fn finish(self, negate: bool) -> Result<IntervalMonthDayNano, Invalid> {
        let sign = if negate { -1.0 } else { 1.0 };
        let fits = |value: f64, limit: f64| {
            if value.is_finite() && value.abs() <= limit {
                Ok(value * sign)
            } else {
                Err(Invalid::FieldOutOfRange)
            }
        };
        let months = fits(self.months, f64::from(i32::MAX))? as i32;
        let days = fits(self.days, f64::from(i32::MAX))? as i32;
        // Below 2^53 microseconds, so that the sum is exact, and within 64 bits of nanoseconds (292 years).
        let micros = fits(self.micros, 9_007_199_254_740_992.0)? as i64;
        Ok(IntervalMonthDayNano::new(months, days, micros * 1000))
    }
}

pub fn parse_interval(text: &[u8]) -> Result<IntervalMonthDayNano, Invalid> {
    let text = std::str::from_utf8(trim(text))
        .map_err(|_| Invalid::Syntax)?
        .to_ascii_lowercase();
    if let Some(iso) = text.strip_prefix('p') {
        return iso_interval(iso, false);
    }
    if let Some(iso) = text.strip_prefix("-p") {
        return iso_interval(iso, true);
    }
    let mut sum = Sum::default();
    let mut ago = false;
    let mut waiting: Option<f64> = None;
    let mut any = false;
    for token in words(text.strip_prefix('@').unwrap_or(&text)) {
        let number = token.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.'));
        if ago {
            return Err(Invalid::Syntax);
        }
        if token == "ago" {
            ago = true;
            continue;
        }
        any = true;
        if !number {
            sum.add(waiting.take().ok_or(Invalid::Syntax)?, token)?;
            continue;
        }
        if let Some(days) = waiting.take() {
            // `3 04:05:06`: a bare number before a time counts days.
            if !token.contains(':') {
                return Err(Invalid::Syntax);
            }
            sum.add(days, "day")?;
        }
        if token.contains(':') {
            sum.micros += clock(token)?;
        } else if let Some(dash) = token[1..].find('-') {
            let (years, months) = (&token[..=dash], &token[dash + 2..]);
            let years = amount(years)?;
            let months = amount(months)?;
            sum.months += years * 12.0 + if token.starts_with('-') { -months } else { months };
        } else {
            waiting = Some(amount(token)?);
        }
    }
    if let Some(seconds) = waiting {
        sum.add(seconds, "second")?;
    }
    if any { sum.finish(ago) } else { Err(Invalid::Syntax) }
}

/// Splits at blanks and between numbers and their units.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t', '\n', ',']).flat_map(|word| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let letters = rest.chars().next()?.is_alphabetic();
            let end = rest.find(|c: char| c.is_alphabetic() != letters).unwrap_or(rest.len());
            let (first, after) = rest.split_at(end);
            rest = after;
            Some(first)
        })
    })
}

fn amount(text: &str) -> Result<f64, Invalid> {
    if !text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.'))
    {
        return Err(Invalid::Syntax);
    }
    fast_float2::parse(text).map_err(|_| Invalid::Syntax)
}

/// `[-]HH:MM[:SS[.f]]` in microseconds; hours are not bounded by a day.
fn clock(text: &str) -> Result<f64, Invalid> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = text.split(':');
    let field = |part: Option<&str>| match part {
        Some(part) if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) => {
            part.parse::<u32>().map(f64::from).map_err(|_| Invalid::FieldOutOfRange)
        }
        _ => Err(Invalid::Syntax),
    };
    let (hours, minutes) = (field(parts.next())?, field(parts.next())?);
    let (seconds, micros) = match parts.next() {
        None => (0.0, 0),
        Some(part) => {
            let (whole, fraction) = part.split_once('.').unwrap_or((part, ""));
            (field(Some(whole))?, fraction_micros(fraction)?)
        }
    };
    if parts.next().is_some() {
        return Err(Invalid::Syntax);
    }
    if minutes > 59.0 || seconds > 60.0 {
        return Err(Invalid::FieldOutOfRange);
    }
    Ok(sign * (((hours * 60.0 + minutes) * 60.0 + seconds) * 1e6 + micros as f64))
}

/// ISO 8601 with designators, after the `p`.
fn iso_interval(text: &str, negate: bool) -> Result<IntervalMonthDayNano, Invalid> {
    let mut sum = Sum::default();
    let (mut rest, mut in_time, mut any) = (text, false, false);
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('t').filter(|_| !in_time) {
            (rest, in_time) = (time, true);
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or(Invalid::Syntax)?;
        let (number, unit) = (&rest[..end], &rest[end..end + 1]);
        let unit = match (unit, in_time) {
            ("y", false) => "year",
            ("m", false) => "month",
            ("w", false) => "week",
            ("d", false) => "day",
            ("h", true) => "hour",
            ("m", true) => "minute",
            ("s", true) => "second",
            _ => return Err(Invalid::Syntax),
        };
        sum.add(amount(number)?, unit)?;
        any = true;
        rest = &rest[end + 1..];
    }
    if any { sum.finish(negate) } else { Err(Invalid::Syntax) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        let hour = 3_600_000_000_000_i64;
        for (text, months, days, nanos) in [
            ("1 year 2 months 3 days 04:05:06.789", 14, 3, 14_706_789_000_000),
            ("P1Y2M3DT4H5M6.789S", 14, 3, 14_706_789_000_000),
            ("1-2", 14, 0, 0),
            ("-1-2", -14, 0, 0),
            ("@ 1 day ago", 0, -1, 0),
            ("1.5 days", 0, 1, 12 * hour),
            ("1.5 months", 1, 15, 0),
            ("1.5 years", 18, 0, 0),
            ("3 4:05", 0, 3, 4 * hour + 5 * hour / 60),
            ("90", 0, 0, 90_000_000_000),
            ("-2 hours", 0, 0, -2 * hour),
            ("1d2h", 0, 1, 2 * hour),
            ("2 weeks", 0, 14, 0),
            ("-00:30", 0, 0, -hour / 2),
            ("100:00:00", 0, 0, 100 * hour),
        ] {
            let parsed = parse_interval(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            assert_eq!(
                (parsed.months, parsed.days, parsed.nanoseconds),
                (months, days, nanos),
                "{text}"
            );
        }
        for bad in [
            "",
            "x",
            "1 x",
            "1 2 days 3 4",
            "P",
            "PT",
            "P1",
            "day",
            "1 day ago 2",
            "é",
            "@",
        ] {
            assert!(parse_interval(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(matches!(
            parse_interval(b"999999999999 days"),
            Err(Invalid::FieldOutOfRange)
        ));
    }
}
