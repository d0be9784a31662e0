//! Dates, times and timestamps: ISO 8601 fast, PostgreSQL's other spellings (DateStyle ISO, MDY) by tokens.
//!
//! Zones are UTC, offsets and the common abbreviations. A time without a zone is UTC.

use super::civil::{MICROS_PER_DAY, days_from_civil, days_in_month};
use super::{Invalid, trim};
use crate::error::ErrorKind;

/// PostgreSQL's ranges: dates to 5874897, timestamps to 294276, both from 4714 BC.
const YEAR_MIN: i64 = -4713;
const DATE_YEAR_MAX: i64 = 5_874_897;
const TIMESTAMP_YEAR_MAX: i64 = 294_276;

/// Days from 1970-01-01.
#[inline]
pub fn parse_date(text: &[u8]) -> Result<i32, Invalid> {
    if let Some(days) = iso_date(text) {
        return Ok(days as i32);
    }
    let parsed = DateTime::parse(text)?;
    parsed.days(DATE_YEAR_MAX).map(|days| days as i32)
}

/// Microseconds from midnight, up to 24:00:00 itself.
pub fn parse_time(text: &[u8]) -> Result<i64, Invalid> {
    if let Some(micros) = iso_time(text) {
        return Ok(micros);
    }
    let parsed = DateTime::parse(text)?;
    parsed.micros.ok_or(Invalid::Syntax)
}

/// Microseconds from 1970-01-01 00:00:00; a zone in the text is ignored, as in PostgreSQL.
#[inline]
pub fn parse_timestamp(text: &[u8]) -> Result<i64, Invalid> {
    if let Some(micros) = iso_timestamp(text) {
        return Ok(micros);
    }
    DateTime::parse(text)?.timestamp(false)
}

/// Microseconds from 1970-01-01 00:00:00 UTC.
pub fn parse_timestamptz(text: &[u8]) -> Result<i64, Invalid> {
    if let Some(micros) = iso_timestamp(text) {
        return Ok(micros);
    }
    DateTime::parse(text)?.timestamp(true)
}

/// `YYYY-MM-DD` of a date that exists.
#[inline]
fn iso_date(text: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else {
        return None;
    };
    let two = |a: &u8, b: &u8| {
        let (a, b) = (a.wrapping_sub(b'0'), b.wrapping_sub(b'0'));
        (a <= 9 && b <= 9).then_some(u32::from(a) * 10 + u32::from(b))
    };
    let year = i64::from(two(y1, y2)? * 100 + two(y3, y4)?);
    let (month, day) = (two(m1, m2)?, two(d1, d2)?);
    let real = year > 0 && (1..=12).contains(&month) && day >= 1 && (day <= 28 || day <= days_in_month(year, month));
    real.then(|| days_from_civil(year, month, day))
}

/// `HH:MM:SS[.ffffff]`.
#[inline]
fn iso_time(text: &[u8]) -> Option<i64> {
    if text.len() < 8 || text.len() > 15 || text[2] != b':' || text[5] != b':' {
        return None;
    }
    let two = |at: usize| {
        let (a, b) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
        (a <= 9 && b <= 9).then_some(i64::from(a) * 10 + i64::from(b))
    };
    let (hour, minute, second) = (two(0)?, two(3)?, two(6)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut micros = 0;
    if text.len() > 8 {
        if text[8] != b'.' || text.len() == 9 {
            return None;
        }
        for at in 9..15 {
            let digit = text.get(at).map_or(0, |byte| byte.wrapping_sub(b'0'));
            if digit > 9 {
                return None;
            }
            micros = micros * 10 + i64::from(digit);
        }
    }
    Some(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

#[inline]
fn iso_timestamp(text: &[u8]) -> Option<i64> {
    if text.len() < 19 || !matches!(text[10], b' ' | b'T') {
        return None;
    }
    Some(iso_date(&text[..10])? * MICROS_PER_DAY + iso_time(&text[11..])?)
}

/// What a text says, token by token.
#[derive(Default)]
struct DateTime {
    /// Year, month, day as they are; None where the text is a keyword for a day.
    date: Option<(i64, i64, i64)>,
    keyword_days: Option<i64>,
    keyword_micros: Option<i64>,
    micros: Option<i64>,
    /// Seconds east of UTC.
    zone_seconds: Option<i64>,
}

impl DateTime {
    fn parse(text: &[u8]) -> Result<DateTime, Invalid> {
        let text = std::str::from_utf8(trim(text))
            .map_err(|_| Invalid::Syntax)?
            .to_ascii_lowercase();
        let mut own = DateTime::default();
        let mut numbers: Vec<&str> = Vec::new();
        let mut month_name = None;
        let (mut before_christ, mut afternoon) = (false, None);
        for token in tokens(&text) {
            let first = token.as_bytes()[0];
            if token.contains(':') && first.is_ascii_digit() {
                let (time, zone) = split_zone(token);
                own.set_micros(clock(time)?)?;
                zone.map_or(Ok(()), |zone| own.set_zone(zone))?;
            } else if matches!(first, b'+' | b'-') && token != "-infinity" {
                own.set_zone(token)?;
            } else if first.is_ascii_digit() || (token.contains('-') && token != "-infinity") {
                own.number_token(token, &mut numbers, &mut month_name)?;
            } else {
                match token {
                    "bc" => before_christ = true,
                    "ad" => {}
                    "am" | "pm" => afternoon = Some(token == "pm"),
                    "t" => {}
                    "infinity" | "-infinity" => {
                        let message = "infinite dates and timestamps are not supported";
                        return Err(Invalid::other(ErrorKind::Unsupported, message));
                    }
                    "epoch" => own.keyword_days = Some(0),
                    "today" | "now" | "tomorrow" | "yesterday" => own.set_keyword(token),
                    "allballs" => own.set_micros(0)?,
                    _ if month_of(token).is_some() => {
                        if month_name.replace(month_of(token).unwrap_or(1)).is_some() {
                            return Err(Invalid::Syntax);
                        }
                    }
                    _ if is_weekday(token) => {}
                    _ => own.zone_seconds = Some(zone_of(token).ok_or(Invalid::Syntax)?),
                }
            }
        }
        own.set_date(&numbers, month_name)?;
        if before_christ {
            let date = own.date.as_mut().ok_or(Invalid::Syntax)?;
            date.0 = 1 - date.0;
        } else if own.date.is_some_and(|(year, ..)| year == 0) {
            return Err(Invalid::FieldOutOfRange);
        }
        if let Some(afternoon) = afternoon {
            let micros = own.micros.ok_or(Invalid::Syntax)?;
            let hour = micros / 3_600_000_000;
            if !(1..=12).contains(&hour) {
                return Err(Invalid::FieldOutOfRange);
            }
            own.micros =
                Some(micros + (if afternoon { 12 } else { 0 } - if hour == 12 { 12 } else { 0 }) * 3_600_000_000);
        }
        Ok(own)
    }

    /// A token that begins with a digit and has no colon: a whole date, a part of one, or digits run together.
    fn number_token<'a>(
        &mut self,
        token: &'a str,
        numbers: &mut Vec<&'a str>,
        month_name: &mut Option<i64>,
    ) -> Result<(), Invalid> {
        let parts: Vec<&str> = token.split(['-', '/', '.']).collect();
        let digits = token.bytes().all(|byte| byte.is_ascii_digit());
        if digits && token.len() == 8 && numbers.is_empty() && month_name.is_none() {
            numbers.extend([&token[..4], &token[4..6], &token[6..]]);
        } else if digits && token.len() == 6 && numbers.len() >= 3 {
            self.set_micros(clock(&format!("{}:{}:{}", &token[..2], &token[2..4], &token[4..]))?)?;
        } else if digits {
            numbers.push(token);
        } else if parts.len() == 3 && numbers.is_empty() {
            for part in parts {
                match month_of(part) {
                    Some(month) => *month_name = Some(month),
                    None => numbers.push(part),
                }
            }
        } else {
            return Err(Invalid::Syntax);
        }
        Ok(())
    }

    fn set_date(&mut self, numbers: &[&str], month_name: Option<i64>) -> Result<(), Invalid> {
        let number = |text: &str| match text.len() {
            1..=7 => text.parse::<i64>().map_err(|_| Invalid::Syntax),
            _ => Err(Invalid::Syntax),
        };
        let year = |text: &str| {
            number(text).map(|year| match text.len() {
                1 | 2 if year < 70 => 2000 + year,
                1 | 2 => 1900 + year,
                _ => year,
            })
        };
        self.date = match (month_name, numbers) {
            (None, []) => None,
            (None, [y, m, d]) if y.len() >= 3 => Some((number(y)?, number(m)?, number(d)?)),
            (None, [m, d, y]) => Some((year(y)?, number(m)?, number(d)?)),
            (Some(month), [y, d]) if y.len() >= 3 => Some((number(y)?, month, number(d)?)),
            (Some(month), [d, y]) => Some((year(y)?, month, number(d)?)),
            _ => return Err(Invalid::Syntax),
        };
        if self.date.is_some() && self.keyword_days.is_some() {
            return Err(Invalid::Syntax);
        }
        Ok(())
    }

    fn set_micros(&mut self, micros: i64) -> Result<(), Invalid> {
        if self.micros.replace(micros).is_some() {
            Err(Invalid::Syntax)
        } else {
            Ok(())
        }
    }

    fn set_zone(&mut self, zone: &str) -> Result<(), Invalid> {
        let seconds = if zone.starts_with(['+', '-']) {
            offset(zone)?
        } else {
            zone_of(zone).ok_or(Invalid::Syntax)?
        };
        self.zone_seconds = Some(seconds);
        Ok(())
    }

    fn set_keyword(&mut self, word: &str) {
        let now = chrono::Utc::now().timestamp_micros();
        let today = now.div_euclid(MICROS_PER_DAY);
        self.keyword_days = Some(match word {
            "tomorrow" => today + 1,
            "yesterday" => today - 1,
            _ => today,
        });
        if word == "now" {
            self.keyword_micros = Some(now.rem_euclid(MICROS_PER_DAY));
        }
    }

    fn days(&self, year_max: i64) -> Result<i64, Invalid> {
        let Some((year, month, day)) = self.date else {
            return self.keyword_days.ok_or(Invalid::Syntax);
        };
        if !(YEAR_MIN..=year_max).contains(&year) || !(1..=12).contains(&month) {
            return Err(Invalid::FieldOutOfRange);
        }
        if day < 1 || day > i64::from(days_in_month(year, month as u32)) {
            return Err(Invalid::FieldOutOfRange);
        }
        Ok(days_from_civil(year, month as u32, day as u32))
    }

    fn timestamp(&self, zoned: bool) -> Result<i64, Invalid> {
        let midnight = self.days(TIMESTAMP_YEAR_MAX)? * MICROS_PER_DAY;
        let zone = if zoned {
            self.zone_seconds.unwrap_or(0) * 1_000_000
        } else {
            0
        };
        Ok(midnight + self.micros.or(self.keyword_micros).unwrap_or(0) - zone)
    }
}

/// Splits at blanks and commas, between letters and digits, and at the `t` of ISO 8601.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && matches!(bytes[at], b' ' | b',' | b'\t' | b'\n' | b'\r') {
            at += 1;
        }
        let start = at;
        let first = *bytes.get(at)?;
        let word = !first.is_ascii_digit() && !matches!(first, b'+' | b'-');
        at += 1;
        let mut dashed = false;
        while at < bytes.len() {
            let byte = bytes[at];
            // Names of months may stand inside a dashed date: 08-jan-1999, jan-08-1999.
            dashed |= matches!(byte, b'-' | b'/');
            let continues = if word {
                byte.is_ascii_alphabetic()
                    || !byte.is_ascii()
                    || matches!(byte, b'/' | b'_')
                    || (byte == b'-' && month_of(&text[start..at]).is_some())
                    || (dashed && (byte == b'-' || byte.is_ascii_digit()))
            } else {
                let in_month = || {
                    text[..at]
                        .rfind(['-', '/'])
                        .is_some_and(|dash| is_month_start(&text[dash + 1..]))
                };
                byte.is_ascii_digit()
                    || matches!(byte, b':' | b'.' | b'-' | b'/' | b'+')
                    || (dashed && byte.is_ascii_alphabetic() && in_month())
            };
            if !continues {
                break;
            }
            at += 1;
        }
        // `-infinity` is one word.
        if first == b'-' && bytes[start + 1..].first().is_some_and(u8::is_ascii_alphabetic) {
            while at < bytes.len() && bytes[at].is_ascii_alphabetic() {
                at += 1;
            }
        }
        Some(&text[start..at])
    })
}

/// A time from its zone: `10:00:00+02` or `10:00:00-05:30`.
fn split_zone(token: &str) -> (&str, Option<&str>) {
    match token.find(['+', '-']) {
        Some(at) => (&token[..at], Some(&token[at..])),
        None => (token, None),
    }
}

/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.f` with any number of digits after the point.
fn clock(text: &str) -> Result<i64, Invalid> {
    let mut parts = text.split(':');
    let field = |part: Option<&str>| match part {
        Some(part) if (1..=2).contains(&part.len()) => part.parse::<u8>().map(i64::from).map_err(|_| Invalid::Syntax),
        _ => Err(Invalid::Syntax),
    };
    let (hour, minute) = (field(parts.next())?, field(parts.next())?);
    let (seconds, micros) = match parts.next() {
        None => (0, 0),
        Some(part) => {
            let (whole, fraction) = part.split_once('.').unwrap_or((part, ""));
            (field(Some(whole))?, fraction_micros(fraction)?)
        }
    };
    if parts.next().is_some() {
        return Err(Invalid::Syntax);
    }
    let total = ((hour * 60 + minute) * 60 + seconds) * 1_000_000 + micros;
    if minute > 59 || seconds > 60 || total > MICROS_PER_DAY {
        return Err(Invalid::FieldOutOfRange);
    }
    Ok(total)
}

/// The digits after a decimal point as microseconds, rounded.
pub(super) fn fraction_micros(digits: &str) -> Result<i64, Invalid> {
    if digits.is_empty() {
        return Ok(0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Invalid::Syntax);
    }
    let micros = (0..6).fold(0, |micros, at| {
        micros * 10 + digits.as_bytes().get(at).map_or(0, |b| i64::from(b - b'0'))
    });
    Ok(micros + i64::from(digits.as_bytes().get(6).is_some_and(|byte| *byte >= b'5')))
}

/// `+HH`, `+HHMM`, `+HH:MM` or `+HH:MM:SS` as seconds east of UTC.
fn offset(text: &str) -> Result<i64, Invalid> {
    let (sign, rest) = (if text.starts_with('-') { -1 } else { 1 }, &text[1..]);
    let fields: Vec<&str> = match rest.len() {
        4 if !rest.contains(':') && rest.is_ascii() => vec![&rest[..2], &rest[2..]],
        _ => rest.split(':').collect(),
    };
    if fields.len() > 3 || fields.iter().any(|field| !(1..=2).contains(&field.len())) {
        return Err(Invalid::Syntax);
    }
    let mut seconds = 0;
    for (field, unit) in fields.iter().zip([3600, 60, 1]) {
        seconds += i64::from(field.parse::<u8>().map_err(|_| Invalid::Syntax)?) * unit;
    }
    if seconds >= 16 * 3600 {
        let message = format!("time zone displacement out of range: \"{text}\"");
        return Err(Invalid::other(ErrorKind::DatetimeOverflow, message));
    }
    Ok(sign * seconds)
}

fn zone_of(name: &str) -> Option<i64> {
    let hours = match name {
        "z" | "zulu" | "utc" | "gmt" | "ut" | "uct" | "wet" | "etc/utc" => 0,
        "cet" | "bst" | "met" | "west" => 1,
        "eet" | "cest" | "sast" => 2,
        "msk" | "eest" => 3,
        "jst" | "kst" => 9,
        "est" | "cdt" => -5,
        "edt" => -4,
        "cst" | "mdt" => -6,
        "mst" | "pdt" => -7,
        "pst" | "akdt" => -8,
        "akst" => -9,
        "hst" => -10,
        _ => return None,
    };
    Some(hours * 3600)
}

fn month_of(word: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let found = MONTHS.iter().position(|month| word == *month || word == &month[..3]);
    found.or((word == "sept").then_some(8)).map(|index| index as i64 + 1)
}

fn is_month_start(text: &str) -> bool {
    text.get(..3).is_some_and(|word| month_of(word).is_some())
}

fn is_weekday(word: &str) -> bool {
    let days = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    days.iter().any(|day| word == *day || word == &day[..3])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Option<i32> {
        parse_date(text.as_bytes()).ok()
    }

    #[test]
    fn dates() {
        let day = Some(days_from_civil(1999, 1, 8) as i32);
        for text in [
            "1999-01-08",
            " 1999-1-8 ",
            "January 8, 1999",
            "1/8/1999",
            "1999-Jan-08",
            "Jan-08-1999",
            "08-Jan-1999",
            "19990108",
            "8 jan 1999",
            "1999/01/08",
            "Fri Jan 8 1999",
            "1999-01-08 10:00:00",
            "1/8/99",
        ] {
            assert_eq!(date(text), day, "{text}");
        }
        assert_eq!(date("08-oct-1999"), Some(days_from_civil(1999, 10, 8) as i32));
        assert_eq!(date("08-august-1999"), Some(days_from_civil(1999, 8, 8) as i32));
        assert_eq!(date("0044-03-15 BC"), Some(days_from_civil(-43, 3, 15) as i32));
        for bad in ["", "x", "1999", "1999-01", "1999-01-08x", "99-99", "1999-01-08-02", "é"] {
            assert!(matches!(parse_date(bad.as_bytes()), Err(Invalid::Syntax)), "{bad}");
        }
        for bad in ["1999-02-29", "1999-13-01", "0000-01-01", "9999999-01-01"] {
            assert!(
                matches!(parse_date(bad.as_bytes()), Err(Invalid::FieldOutOfRange)),
                "{bad}"
            );
        }
        assert!(matches!(parse_date(b"infinity"), Err(Invalid::Other(_))));
        assert!(matches!(parse_date(b"-infinity"), Err(Invalid::Other(_))));
    }

    #[test]
    fn times() {
        let micros = |text: &str| parse_time(text.as_bytes()).ok();
        assert_eq!(micros("04:05:06.789"), Some(14_706_789_000));
        assert_eq!(micros("04:05"), Some(14_700_000_000));
        assert_eq!(micros("04:05 PM"), Some(57_900_000_000));
        assert_eq!(micros("12:00 am"), Some(0));
        assert_eq!(micros("24:00:00"), Some(MICROS_PER_DAY));
        assert_eq!(micros("24:00:01"), None);
        assert_eq!(micros("25:00"), None);
        assert_eq!(micros("1"), None);
        assert_eq!(micros("00:00:00.0000005"), Some(1));
    }

    #[test]
    fn timestamps() {
        let expected = days_from_civil(2024, 2, 29) * MICROS_PER_DAY + 36_000_000_000;
        let plain = |text: &str| parse_timestamp(text.as_bytes()).ok();
        let zoned = |text: &str| parse_timestamptz(text.as_bytes()).ok();
        assert_eq!(plain("2024-02-29 10:00:00"), Some(expected));
        assert_eq!(plain("2024-02-29T10:00:00.000000"), Some(expected));
        assert_eq!(plain("2024-02-29 10:00:00+02"), Some(expected));
        assert_eq!(plain("Thu Feb 29 10:00:00 2024"), Some(expected));
        assert_eq!(zoned("2024-02-29 12:00:00+02"), Some(expected));
        assert_eq!(zoned("2024-02-29T04:30:00-05:30"), Some(expected));
        assert_eq!(zoned("2024-02-29T10:00:00Z"), Some(expected));
        assert_eq!(zoned("2024-02-29 10:00:00 UTC"), Some(expected));
        assert_eq!(zoned("2024-02-29 02:00 PST"), Some(expected));
        assert_eq!(plain("2024-02-29"), Some(expected - 36_000_000_000));
        assert_eq!(plain("epoch"), Some(0));
        assert!(plain("2024-02-30 10:00:00").is_none());
        assert!(plain("2024-02-29 10:00:00 Nowhere").is_none());
        assert!(plain("300000-01-01").is_none());
    }
}
