//! `.datetime()`: dates and times among the values of a jsonpath, read strictly by a template, compared with each other.
//!
//! More than 400 lines because the kinds of dates and times are read by one template and compared with each other.

use super::{PathError, Result};
use crate::datetime::arithmetic::{date_to_stamp, make_date};
use crate::datetime::{Conventions, Zone, write_date, write_offset, write_time, write_timestamp};
use std::cmp::Ordering;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Date,
    Time,
    TimeTz,
    Timestamp,
    TimestampTz,
}

/// A date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    kind: Kind,
    /// Of a date.
    days: i32,
    /// Microseconds of the day, or since 1970: with a zone, of its own clock.
    local_us: i64,
    /// Seconds that its clock is east of UTC.
    east_s: i32,
}

impl Kind {
    fn short(self) -> &'static str {
        match self {
            Kind::Date => "date",
            Kind::Time => "time",
            Kind::TimeTz => "timetz",
            Kind::Timestamp => "timestamp",
            Kind::TimestampTz => "timestamptz",
        }
    }

    fn is_zoned(self) -> bool {
        matches!(self, Kind::TimeTz | Kind::TimestampTz)
    }

    fn is_time(self) -> bool {
        matches!(self, Kind::Time | Kind::TimeTz)
    }
}

impl Moment {
    /// What `.type()` says.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Date => "date",
            Kind::Time => "time without time zone",
            Kind::TimeTz => "time with time zone",
            Kind::Timestamp => "timestamp without time zone",
            Kind::TimestampTz => "timestamp with time zone",
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (by, mut out) = (Conventions::default(), Vec::new());
        match self.kind {
            Kind::Date => write_date(self.days, &by, &mut out),
            Kind::Time | Kind::TimeTz => write_time(self.local_us, &mut out),
            Kind::Timestamp | Kind::TimestampTz => write_timestamp(self.local_us, &by, &mut out),
        }
        let stamp = !self.kind.is_time() && self.kind != Kind::Date;
        if let Some(blank) = out.iter().position(|byte| *byte == b' ').filter(|_| stamp) {
            out[blank] = b'T';
        }
        if self.kind.is_zoned() {
            let start = out.len();
            write_offset(self.east_s, &mut out);
            // ISO 8601 has minutes in an offset.
            if out.len() - start == 3 {
                out.extend_from_slice(b":00");
            }
        }
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

/// The order of two; None where they have none. `zone`: the session's, where it may be used.
pub(crate) fn compare(a: Moment, b: Moment, zone: Option<&Zone>) -> Result<Option<Ordering>> {
    if a.kind.is_time() != b.kind.is_time() {
        return Ok(None);
    }
    let zoned = a.kind.is_zoned() || b.kind.is_zoned();
    if zoned && a.kind.is_zoned() != b.kind.is_zoned() && zone.is_none() {
        let (from, to) = if a.kind.is_zoned() { (b, a) } else { (a, b) };
        let message = format!(
            "cannot convert value from {} to {} without time zone usage",
            from.kind.short(),
            to.kind.short()
        );
        return Err(PathError::Hard("0A000", message));
    }
    let local = |of: Moment| match of.kind {
        Kind::Date => i128::from(of.days) * 86_400_000_000,
        _ => i128::from(of.local_us),
    };
    if !zoned {
        return Ok(Some(local(a).cmp(&local(b))));
    }
    let east = |of: Moment| match (of.kind.is_zoned(), zone) {
        (true, _) | (_, None) => of.east_s,
        (false, Some(zone)) if of.kind.is_time() => zone.east_at(Conventions::default().now_us()),
        (false, Some(zone)) => zone.east_of_local(local(of).clamp(i64::MIN.into(), i64::MAX.into()) as i64),
    };
    let utc = |of: Moment| local(of) - i128::from(east(of)) * 1_000_000;
    let order = utc(a).cmp(&utc(b));
    // Of times at one instant, the zone that is further west is the greater.
    Ok(Some(match a.kind.is_time() {
        true => order.then(east(b).cmp(&east(a))),
        false => order,
    }))
}

fn soft<T>(code: &'static str, message: impl Into<String>) -> Result<T> {
    Err(PathError::Soft(code, message.into()))
}

/// A text without a template is read by the first of these that fits.
const FORMS: [&str; 19] = [
    "yyyy-mm-dd",
    "HH24:MI:SS.USTZH:TZM",
    "HH24:MI:SS.USTZH",
    "HH24:MI:SSTZH:TZM",
    "HH24:MI:SSTZH",
    "HH24:MI:SS.US",
    "HH24:MI:SS",
    "yyyy-mm-dd HH24:MI:SS.USTZH:TZM",
    "yyyy-mm-dd HH24:MI:SS.USTZH",
    "yyyy-mm-dd HH24:MI:SSTZH:TZM",
    "yyyy-mm-dd HH24:MI:SSTZH",
    "yyyy-mm-dd\"T\"HH24:MI:SS.USTZH:TZM",
    "yyyy-mm-dd\"T\"HH24:MI:SS.USTZH",
    "yyyy-mm-dd\"T\"HH24:MI:SSTZH:TZM",
    "yyyy-mm-dd\"T\"HH24:MI:SSTZH",
    "yyyy-mm-dd HH24:MI:SS.US",
    "yyyy-mm-dd HH24:MI:SS",
    "yyyy-mm-dd\"T\"HH24:MI:SS.US",
    "yyyy-mm-dd\"T\"HH24:MI:SS",
];

pub(crate) fn read(text: &str, template: Option<&str>) -> Result<Moment> {
    if let Some(template) = template {
        return read_by(text, &nodes(template)?);
    }
    for form in FORMS {
        if let Ok(found) = nodes(form).and_then(|nodes| read_by(text, &nodes)) {
            return Ok(found);
        }
    }
    soft("22031", format!("datetime format is not recognized: \"{text}\""))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Year(usize),
    RoundedYear(usize),
    Month,
    Day,
    DayOfYear,
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    /// So many digits behind the point.
    Fraction(usize),
    Noon,
    ZoneHour,
    ZoneMinute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Field(Field, &'static str),
    Separator(char),
    Literal(char),
}

/// The fields that the standard has, the longer names first.
const FIELDS: [(&str, Field); 32] = [
    ("SSSSS", Field::SecondOfDay),
    ("SSSS", Field::SecondOfDay),
    ("YYYY", Field::Year(4)),
    ("RRRR", Field::RoundedYear(4)),
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("A.M.", Field::Noon),
    ("P.M.", Field::Noon),
    ("YYY", Field::Year(3)),
    ("DDD", Field::DayOfYear),
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("TZH", Field::ZoneHour),
    ("TZM", Field::ZoneMinute),
    ("YY", Field::Year(2)),
    ("RR", Field::RoundedYear(2)),
    ("MM", Field::Month),
    ("DD", Field::Day),
    ("HH", Field::Hour12),
    ("MI", Field::Minute),
    ("SS", Field::Second),
    ("MS", Field::Fraction(3)),
    ("US", Field::Fraction(6)),
    ("AM", Field::Noon),
    ("PM", Field::Noon),
    ("Y", Field::Year(1)),
    ("a.m.", Field::Noon),
    ("p.m.", Field::Noon),
];

fn nodes(template: &str) -> Result<Vec<Node>> {
    let (mut out, mut rest) = (Vec::new(), template);
    'next: while let Some(c) = rest.chars().next() {
        for (name, field) in FIELDS {
            let given = rest.get(..name.len());
            if given.is_some_and(|given| given.eq_ignore_ascii_case(name)) {
                out.push(Node::Field(field, name));
                rest = &rest[name.len()..];
                continue 'next;
            }
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => {
                let mut escaped = false;
                while let Some(c) = rest.chars().next() {
                    rest = &rest[c.len_utf8()..];
                    match c {
                        '\\' if !escaped => escaped = true,
                        '"' if !escaped => break,
                        c => {
                            out.push(Node::Literal(c));
                            escaped = false;
                        }
                    }
                }
            }
            '-' | '.' | '/' | ',' | '\'' | ';' | ':' | ' ' => out.push(Node::Separator(c)),
            c => return soft("22007", format!("invalid datetime format separator: \"{c}\"")),
        }
    }
    Ok(out)
}

/// What has been read so far.
#[derive(Default)]
struct Parts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: Option<i64>,
    twelve: bool,
    afternoon: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    second_of_day: Option<i64>,
    fraction_us: Option<i64>,
    zone_hour: Option<i64>,
    zone_minute: i64,
    west: bool,
}

fn read_by(text: &str, nodes: &[Node]) -> Result<Moment> {
    let (mut parts, mut rest, mut done) = (Parts::default(), text, 0);
    for (at, node) in nodes.iter().enumerate() {
        if rest.is_empty() {
            break;
        }
        match node {
            Node::Separator(c) => match rest.strip_prefix(*c) {
                Some(after) => rest = after,
                None => return soft("22007", format!("unmatched format separator \"{c}\"")),
            },
            Node::Literal(c) => match rest.strip_prefix(*c) {
                Some(after) => rest = after,
                None => return soft("22007", format!("unmatched format character \"{c}\"")),
            },
            Node::Field(field, name) => {
                let digits_follow = matches!(nodes.get(at + 1), Some(Node::Field(next, _))
                    if !matches!(next, Field::Noon | Field::ZoneHour | Field::ZoneMinute));
                rest = parts.field(*field, name, rest, digits_follow)?;
            }
        }
        done = at + 1;
    }
    if done < nodes.len() {
        return soft("22007", "input string is too short for datetime format");
    }
    if !rest.trim_start().is_empty() {
        return soft(
            "22007",
            "trailing characters remain in input string after datetime format",
        );
    }
    parts.moment(text, nodes)
}

impl Parts {
    /// Reads one field; what is left of the text.
    fn field<'a>(&mut self, field: Field, name: &str, text: &'a str, digits_follow: bool) -> Result<&'a str> {
        if field == Field::Noon {
            let bare = |mark: &str| {
                let own = text.get(..mark.len())?;
                own.eq_ignore_ascii_case(mark).then(|| &text[mark.len()..])
            };
            let dotted = name.contains('.');
            let (am, pm) = if dotted { ("a.m.", "p.m.") } else { ("am", "pm") };
            return match (bare(am), bare(pm)) {
                (Some(rest), _) => {
                    (self.afternoon, self.twelve) = (Some(false), true);
                    Ok(rest)
                }
                (_, Some(rest)) => {
                    (self.afternoon, self.twelve) = (Some(true), true);
                    Ok(rest)
                }
                _ => soft("22007", format!("invalid value \"{text}\" for \"{name}\"")),
            };
        }
        let mut text = text;
        if field == Field::ZoneHour {
            self.west = text.starts_with('-');
            text = text.strip_prefix(['+', '-', ' ']).unwrap_or(text);
        }
        let width = match field {
            Field::Year(width) | Field::RoundedYear(width) | Field::Fraction(width) => width,
            Field::DayOfYear => 3,
            Field::SecondOfDay => 5,
            _ => 2,
        };
        let text = text.trim_start();
        let signed = text.strip_prefix(['+', '-']).filter(|_| !digits_follow);
        let body = signed.unwrap_or(text);
        let count = body.bytes().take_while(u8::is_ascii_digit).count();
        let wide = digits_follow || matches!(field, Field::Fraction(_));
        let count = if wide { count.min(width) } else { count };
        let (digits, rest) = body.split_at(count);
        let (true, Ok(value)) = (count > 0, digits.parse::<i64>()) else {
            let shown: String = text.chars().take(width).collect();
            return soft("22007", format!("invalid value \"{shown}\" for \"{name}\""));
        };
        if value > i64::from(i32::MAX) {
            return soft(
                "22008",
                format!("value for \"{name}\" in source string is out of range"),
            );
        }
        let value = if signed.is_some() && text.starts_with('-') {
            -value
        } else {
            value
        };
        let slot = match field {
            Field::Year(width) => {
                self.year = Some(if width < 4 && digits.len() < 4 {
                    century(value)
                } else {
                    value
                });
                return Ok(rest);
            }
            Field::RoundedYear(_) => {
                self.year = Some(if digits.len() < 4 { century(value) } else { value });
                return Ok(rest);
            }
            Field::Fraction(width) => {
                let scale = 10_i64.pow(6 - count.min(6) as u32);
                let _ = width;
                self.fraction_us = Some(value * scale);
                return Ok(rest);
            }
            Field::ZoneMinute => {
                self.zone_minute = value;
                return Ok(rest);
            }
            Field::Hour12 => {
                self.twelve = true;
                &mut self.hour
            }
            Field::Month => &mut self.month,
            Field::Day => &mut self.day,
            Field::DayOfYear => &mut self.day_of_year,
            Field::Hour24 => &mut self.hour,
            Field::Minute => &mut self.minute,
            Field::Second => &mut self.second,
            Field::SecondOfDay => &mut self.second_of_day,
            _ => &mut self.zone_hour,
        };
        *slot = Some(value);
        Ok(rest)
    }

    fn moment(&self, text: &str, nodes: &[Node]) -> Result<Moment> {
        let any = |wanted: &[Field]| {
            nodes
                .iter()
                .any(|node| matches!(node, Node::Field(field, _) if wanted.contains(field)))
        };
        let years = nodes
            .iter()
            .any(|node| matches!(node, Node::Field(Field::Year(_) | Field::RoundedYear(_), _)));
        let fractions = nodes
            .iter()
            .any(|node| matches!(node, Node::Field(Field::Fraction(_), _)));
        let dated = years || any(&[Field::Month, Field::Day, Field::DayOfYear]);
        let clock = [
            Field::Hour24,
            Field::Hour12,
            Field::Minute,
            Field::Second,
            Field::SecondOfDay,
            Field::Noon,
        ];
        let timed = fractions || any(&clock);
        let zoned = any(&[Field::ZoneHour, Field::ZoneMinute]);
        let kind = match (dated, timed, zoned) {
            (true, true, true) => Kind::TimestampTz,
            (true, true, false) => Kind::Timestamp,
            (true, false, false) => Kind::Date,
            (true, false, true) => return soft("22007", "datetime format is zoned but not timed"),
            (false, true, true) => Kind::TimeTz,
            (false, true, false) => Kind::Time,
            (false, false, _) => return soft("22007", "datetime format is not dated and not timed"),
        };
        let past = || PathError::Soft("22008", format!("date/time field value out of range: \"{text}\""));
        let days = match dated {
            true => self.days().ok_or_else(past)?,
            false => 0,
        };
        let time = self.time().ok_or_else(past)?;
        let hours = self.zone_hour.unwrap_or(0);
        if hours > 15 || self.zone_minute > 59 {
            return soft("22009", format!("time zone displacement out of range: \"{text}\""));
        }
        let offset = (hours * 3600 + self.zone_minute * 60) as i32;
        let local_us = match dated && timed {
            true => {
                let midnight =
                    date_to_stamp(days).map_err(|_| PathError::Soft("22008", "timestamp out of range".into()));
                midnight?.checked_add(time).ok_or_else(past)?
            }
            false => time,
        };
        Ok(Moment {
            kind,
            days,
            local_us,
            east_s: if self.west { -offset } else { offset },
        })
    }

    fn days(&self) -> Option<i32> {
        // A year that is not given is that before the first of our era.
        let year = self.year.unwrap_or(0);
        let year = if year <= 0 { year - 1 } else { year };
        let first = make_date(year, 1, 1);
        let days = match self.day_of_year {
            Some(day @ 1..=366) if self.month.is_none() => first? + day - 1,
            Some(_) if self.month.is_none() => return None,
            _ => make_date(year, self.month.unwrap_or(1), self.day.unwrap_or(1))?,
        };
        i32::try_from(days).ok()
    }

    fn time(&self) -> Option<i64> {
        let fraction = self.fraction_us.unwrap_or(0);
        if let Some(seconds) = self.second_of_day {
            return (0..86_400).contains(&seconds).then(|| seconds * 1_000_000 + fraction);
        }
        let mut hour = self.hour.unwrap_or(0);
        if self.twelve {
            if self.hour.is_some() && !(1..=12).contains(&hour) {
                return None;
            }
            hour = match (self.afternoon, hour) {
                (Some(true), 0..=11) => hour + 12,
                (Some(false), 12) => 0,
                _ => hour,
            };
        }
        let (minute, second) = (self.minute.unwrap_or(0), self.second.unwrap_or(0));
        let fits = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        fits.then(|| ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction)
    }
}

/// A year of two digits, near the year 2000.
fn century(year: i64) -> i64 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}
