//! Texts of dates, times and timestamps: ISO 8601 fast, all other forms token by token.
//!
//! More than 400 lines because PostgreSQL reads all forms of dates and times by one loop over their tokens.

use super::civil::{MICROS_PER_DAY, civil_from_days, days_from_civil, days_in_month};
use super::tokens::{Kind, Token, tokens};
use super::words::{Unit, Word, date_word};
use super::zone::Zone;
use super::{Conventions, DateOrder, unknown_zone};
use crate::parse::Invalid;

/// The Julian day of 1970-01-01.
pub(super) const EPOCH_JULIAN: i64 = 2_440_588;
/// The first instant that timestamps have, 4714-11-24 BC.
pub const FIRST_US: i64 = -EPOCH_JULIAN * MICROS_PER_DAY;
const YEAR_MIN: i64 = -4713;
const DATE_YEAR_MAX: i64 = 5_874_897;
/// Zones lie within 16 hours of UTC.
const ZONE_HOURS_MAX: i64 = 15;

/// What has been read, as sets of fields.
mod set {
    pub const YEAR: u16 = 1;
    pub const MONTH: u16 = 2;
    pub const DAY: u16 = 4;
    pub const DATE: u16 = YEAR | MONTH | DAY;
    pub const YEAR_MONTH: u16 = YEAR | MONTH;
    pub const MONTH_DAY: u16 = MONTH | DAY;
    pub const HOUR: u16 = 8;
    pub const MINUTE: u16 = 16;
    pub const SECOND: u16 = 32;
    pub const TIME: u16 = HOUR | MINUTE | SECOND;
    pub const ZONE: u16 = 64;
    pub const DAYLIGHT: u16 = 128;
    pub const DAY_OF_YEAR: u16 = 256;
    pub const WEEKDAY: u16 = 512;
    pub const ERA: u16 = 1024;
    pub const HALF: u16 = 2048;
}

/// Days from 1970-01-01.
#[inline]
pub fn parse_date(text: &[u8], conventions: &Conventions) -> Result<i32, Invalid> {
    if let Some(days) = iso_date(text) {
        return Ok(days as i32);
    }
    match DateTime::read(text, conventions)?.moment {
        Moment::Infinity => Ok(i32::MAX),
        Moment::MinusInfinity => Ok(i32::MIN),
        Moment::Epoch => Ok(0),
        Moment::Given(found) => {
            let within = (YEAR_MIN..=DATE_YEAR_MAX).contains(&found.year);
            let days = within.then(|| days_from_civil(found.year, found.month as u32, found.day as u32));
            let days = days.filter(|days| *days >= -EPOCH_JULIAN);
            days.map(|days| days as i32).ok_or(Invalid::Past("date"))
        }
    }
}

/// Microseconds from midnight, up to 24:00:00 itself.
pub fn parse_time(text: &[u8], conventions: &Conventions) -> Result<i64, Invalid> {
    if let Some(micros) = iso_time(text) {
        return Ok(micros);
    }
    let (found, _) = Reader::new(text, conventions)?.time_only()?;
    Ok(found.micros())
}

/// Microseconds from midnight, and seconds east of UTC.
pub fn parse_timetz(text: &[u8], conventions: &Conventions) -> Result<(i64, i32), Invalid> {
    let (found, east_s) = Reader::new(text, conventions)?.time_only()?;
    Ok((found.micros(), east_s))
}

/// Microseconds from 1970-01-01 00:00:00; a zone in the text is ignored, as in PostgreSQL.
#[inline]
pub fn parse_timestamp(text: &[u8], conventions: &Conventions) -> Result<i64, Invalid> {
    if let Some(micros) = iso_timestamp(text) {
        return Ok(micros);
    }
    let read = DateTime::read(text, conventions)?;
    match read.moment {
        Moment::Given(found) => found.stamp(),
        other => Ok(other.us()),
    }
}

/// Microseconds from 1970-01-01 00:00:00 UTC.
pub fn parse_timestamptz(text: &[u8], conventions: &Conventions) -> Result<i64, Invalid> {
    if conventions.zone.fixed() == Some(0)
        && let Some(micros) = iso_timestamp(text)
    {
        return Ok(micros);
    }
    let read = DateTime::read(text, conventions)?;
    match read.moment {
        Moment::Given(found) => {
            let local = found.clock()?;
            let us = local.checked_sub(i64::from(read.east_s) * 1_000_000);
            us.filter(|us| (FIRST_US..i64::MAX).contains(us))
                .ok_or(Invalid::Past("timestamp"))
        }
        other => Ok(other.us()),
    }
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

/// A calendar date and a time of day, as they were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Civil {
    /// Year 0 is 1 BC, once it is checked.
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub us: i64,
}

impl Civil {
    pub fn micros(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.us
    }

    /// Microseconds since 1970.
    pub fn stamp(&self) -> Result<i64, Invalid> {
        let us = self.clock()?;
        if us < FIRST_US {
            return Err(Invalid::Past("timestamp"));
        }
        Ok(us)
    }

    /// The same of a time of clock, whose zone may bring it into the range.
    fn clock(&self) -> Result<i64, Invalid> {
        let past = || Invalid::Past("timestamp");
        if !(YEAR_MIN..=300_000).contains(&self.year) {
            return Err(past());
        }
        let days = days_from_civil(self.year, self.month as u32, self.day as u32);
        let us = days
            .checked_mul(MICROS_PER_DAY)
            .and_then(|us| us.checked_add(self.micros()));
        us.filter(|us| *us < i64::MAX).ok_or_else(past)
    }

    fn set_day(&mut self, days: i64) {
        let (year, month, day) = civil_from_days(days);
        (self.year, self.month, self.day) = (year, i64::from(month), i64::from(day));
    }

    fn set_micros(&mut self, us: i64) {
        self.hour = us / 3_600_000_000;
        self.minute = us / 60_000_000 % 60;
        self.second = us / 1_000_000 % 60;
        self.us = us % 1_000_000;
    }

    /// Whether the time of day exceeds 24:00:00.
    fn overflows(&self) -> bool {
        !(0..=24).contains(&self.hour)
            || !(0..=59).contains(&self.minute)
            || !(0..=60).contains(&self.second)
            || !(0..=1_000_000).contains(&self.us)
            || self.micros() > MICROS_PER_DAY
    }
}

enum Moment {
    Given(Civil),
    Epoch,
    Infinity,
    MinusInfinity,
}

impl Moment {
    fn us(&self) -> i64 {
        match self {
            Moment::Infinity => i64::MAX,
            Moment::MinusInfinity => i64::MIN,
            _ => 0,
        }
    }
}

struct DateTime {
    moment: Moment,
    /// Seconds east of UTC.
    east_s: i32,
}

impl DateTime {
    fn read(text: &[u8], conventions: &Conventions) -> Result<DateTime, Invalid> {
        Reader::new(text, conventions)?.date_time()
    }
}

/// Where the time of day counts from.
enum Place {
    East(i32),
    Zone(Zone),
}

struct Reader<'a> {
    conventions: &'a Conventions,
    tokens: Vec<Token>,
    found: Civil,
    day_of_year: i64,
    seen: u16,
    place: Option<Place>,
    /// What the token before says of the next.
    prefix: Option<Prefix>,
    text_month: bool,
    julian: bool,
    short_year: bool,
    before_christ: bool,
    /// Some(true): pm.
    half: Option<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum Prefix {
    Unit(Unit),
    Time,
}

impl<'a> Reader<'a> {
    fn new(text: &[u8], conventions: &'a Conventions) -> Result<Self, Invalid> {
        Ok(Reader {
            conventions,
            tokens: tokens(text)?,
            found: Civil::default(),
            day_of_year: 0,
            seen: 0,
            place: None,
            prefix: None,
            text_month: false,
            julian: false,
            short_year: false,
            before_christ: false,
            half: None,
        })
    }

    fn has(&self, fields: u16) -> bool {
        self.seen & fields == fields
    }

    fn date_time(mut self) -> Result<DateTime, Invalid> {
        let tokens = std::mem::take(&mut self.tokens);
        let mut moment = None;
        for (at, token) in tokens.iter().enumerate() {
            let text = token.text.as_str();
            let added = match token.kind {
                Kind::Date => self.date_token(text)?,
                Kind::Time => {
                    if self.prefix.take().is_some_and(|prefix| prefix != Prefix::Time) {
                        return Err(Invalid::Syntax);
                    }
                    let added = self.clock(text)?;
                    if self.found.overflows() {
                        return Err(Invalid::FieldOutOfRange);
                    }
                    added
                }
                Kind::Signed => self.displacement(text)?,
                Kind::Number => self.number_token(text)?,
                Kind::Word | Kind::Special => match self.zone_abbreviation(text) {
                    Some(place) => {
                        self.place = Some(place);
                        set::ZONE
                    }
                    None => match date_word(text) {
                        Some(Word::Ignored) => continue,
                        Some(word @ (Word::Epoch | Word::Infinity | Word::MinusInfinity)) => {
                            moment = Some(match word {
                                Word::Epoch => Moment::Epoch,
                                Word::Infinity => Moment::Infinity,
                                _ => Moment::MinusInfinity,
                            });
                            set::DATE | set::TIME | set::ZONE
                        }
                        Some(word) => self.word(word, tokens.get(at + 1).map(|next| next.kind))?,
                        None => {
                            self.place = Some(Place::Zone(Zone::named(text).ok_or(Invalid::Syntax)?));
                            set::ZONE
                        }
                    },
                },
            };
            if added & self.seen != 0 {
                return Err(Invalid::Syntax);
            }
            self.seen |= added;
        }
        if let Some(moment) = moment {
            return Ok(DateTime { moment, east_s: 0 });
        }
        self.check_date()?;
        self.apply_half()?;
        if !self.has(set::DATE) {
            return Err(Invalid::Syntax);
        }
        let east_s = self.east_s()?;
        Ok(DateTime {
            moment: Moment::Given(self.found),
            east_s,
        })
    }

    /// A time of day with a zone, and perhaps a date that says which offset the zone has.
    fn time_only(mut self) -> Result<(Civil, i32), Invalid> {
        let tokens = std::mem::take(&mut self.tokens);
        let last_is_date = tokens.last().is_some_and(|last| last.kind == Kind::Date);
        let dated = tokens.len() >= 2 && (last_is_date || tokens[1].kind == Kind::Time);
        for (at, token) in tokens.iter().enumerate() {
            let text = token.text.as_str();
            let added = match token.kind {
                Kind::Date if at == 0 && dated => self.date(text)?,
                Kind::Date if text.starts_with(|c: char| c.is_ascii_digit()) => {
                    if self.has(set::TIME) {
                        return Err(Invalid::Syntax);
                    }
                    self.digits_with_zone(text, set::DATE)?
                }
                Kind::Date => self.zone_name(text)?,
                Kind::Time => self.clock(text)?,
                Kind::Signed => self.displacement(text)?,
                Kind::Number => match self.prefix.take() {
                    Some(Prefix::Time) => match self.run_together(text, self.seen | set::DATE)? {
                        set::TIME => set::TIME,
                        _ => return Err(Invalid::Syntax),
                    },
                    Some(Prefix::Unit(unit)) => self.prefixed(unit, text)?,
                    None => match text.find('.') {
                        Some(_) if at == 0 && tokens.len() >= 2 && last_is_date => self.date(text)?,
                        Some(point) if point > 2 => self.run_together(text, self.seen | set::DATE)?,
                        Some(_) => return Err(Invalid::Syntax),
                        None if text.len() > 4 => self.run_together(text, self.seen | set::DATE)?,
                        None => self.number(text, self.seen | set::DATE)?,
                    },
                },
                Kind::Word | Kind::Special => match self.zone_abbreviation(text) {
                    Some(place) => {
                        self.place = Some(place);
                        set::ZONE
                    }
                    None => match date_word(text) {
                        Some(Word::Ignored) => continue,
                        Some(
                            word @ (Word::Now
                            | Word::Midnight
                            | Word::Daylight
                            | Word::Ante
                            | Word::Post
                            | Word::Christ
                            | Word::BeforeChrist
                            | Word::Prefix(_)
                            | Word::Time),
                        ) => {
                            // A time may stand without a date here.
                            let before = self.seen;
                            if word == Word::Time {
                                self.seen |= set::DATE;
                            }
                            let added = self.word(word, tokens.get(at + 1).map(|next| next.kind));
                            self.seen = before;
                            match word {
                                Word::Now => added? & !set::DATE,
                                _ => added?,
                            }
                        }
                        Some(_) => return Err(Invalid::Syntax),
                        None => {
                            self.place = Some(Place::Zone(Zone::named(text).ok_or(Invalid::Syntax)?));
                            set::ZONE
                        }
                    },
                },
            };
            if added & self.seen != 0 {
                return Err(Invalid::Syntax);
            }
            self.seen |= added;
        }
        self.check_date()?;
        self.apply_half()?;
        if self.found.overflows() {
            return Err(Invalid::FieldOutOfRange);
        }
        if !self.has(set::TIME) {
            return Err(Invalid::Syntax);
        }
        let varies = match &self.place {
            Some(Place::Zone(zone)) => zone.fixed().is_none(),
            _ => false,
        };
        // Half a date says nothing of the offset.
        let given = matches!(self.place, Some(Place::East(_)));
        if !self.has(set::DATE) && (varies || (!given && self.has_any(set::DATE))) {
            return Err(Invalid::Syntax);
        }
        if !self.has(set::DATE) {
            let today = self.today();
            self.found.set_day(today);
        }
        let east_s = self.east_s()?;
        Ok((self.found, east_s))
    }

    /// The session's day now.
    fn today(&self) -> i64 {
        let now = self.conventions.now_us();
        self.conventions
            .zone
            .to_local(now)
            .unwrap_or(now)
            .div_euclid(MICROS_PER_DAY)
    }

    fn zone_abbreviation(&self, text: &str) -> Option<Place> {
        let zone = Zone::abbreviated(text)?;
        Some(match zone.fixed() {
            Some(east_s) => Place::East(east_s),
            None => Place::Zone(zone),
        })
    }

    fn word(&mut self, word: Word, next: Option<Kind>) -> Result<u16, Invalid> {
        Ok(match word {
            Word::Now => {
                let now = self.conventions.now_us();
                let east_s = self.conventions.zone.east_at(now);
                let local = now + i64::from(east_s) * 1_000_000;
                self.found.set_day(local.div_euclid(MICROS_PER_DAY));
                self.found.set_micros(local.rem_euclid(MICROS_PER_DAY));
                self.place = Some(Place::East(east_s));
                set::DATE | set::TIME | set::ZONE
            }
            Word::Today | Word::Tomorrow | Word::Yesterday => {
                let day = self.today()
                    + match word {
                        Word::Tomorrow => 1,
                        Word::Yesterday => -1,
                        _ => 0,
                    };
                self.found.set_day(day);
                set::DATE
            }
            Word::Midnight => {
                self.found.set_micros(0);
                self.place = Some(Place::East(0));
                set::TIME | set::ZONE
            }
            Word::Month(month) => {
                // `01 mar` may have been read as a month and a month.
                let mut added = set::MONTH;
                if self.has(set::MONTH)
                    && !self.text_month
                    && !self.has(set::DAY)
                    && (1..=31).contains(&self.found.month)
                {
                    self.found.day = self.found.month;
                    added = set::DAY;
                }
                self.text_month = true;
                self.found.month = month;
                added
            }
            Word::Daylight => {
                match &mut self.place {
                    Some(Place::East(east_s)) => *east_s += 3600,
                    _ => return Err(Invalid::Syntax),
                }
                set::DAYLIGHT
            }
            Word::Ante | Word::Post => {
                self.half = Some(word == Word::Post);
                set::HALF
            }
            Word::Christ | Word::BeforeChrist => {
                self.before_christ = word == Word::BeforeChrist;
                set::ERA
            }
            Word::Weekday => set::WEEKDAY,
            Word::Prefix(unit) => {
                self.prefix = Some(Prefix::Unit(unit));
                0
            }
            Word::Time => {
                let follows = matches!(next, Some(Kind::Number | Kind::Time | Kind::Date));
                if !self.has(set::DATE) || !follows {
                    return Err(Invalid::Syntax);
                }
                self.prefix = Some(Prefix::Time);
                0
            }
            _ => return Err(Invalid::Syntax),
        })
    }

    fn zone_name(&mut self, text: &str) -> Result<u16, Invalid> {
        let zone = Zone::named(text).ok_or_else(|| Invalid::Other(Box::new(unknown_zone(text))))?;
        self.place = Some(Place::Zone(zone));
        Ok(set::ZONE)
    }

    /// A token with marks inside: a date, or after one a zone's name or `hhmmss-zz`.
    fn date_token(&mut self, text: &str) -> Result<u16, Invalid> {
        let digits = text.starts_with(|c: char| c.is_ascii_digit());
        if self.prefix == Some(Prefix::Unit(Unit::Julian)) {
            self.prefix = None;
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            self.set_julian(&text[..end])?;
            return Ok(set::DATE | set::TIME | self.displacement(&text[end..])?);
        }
        if self.prefix.is_none() && !self.has(set::MONTH | set::DAY) {
            return self.date(text);
        }
        if !digits && self.prefix.is_none() {
            return self.zone_name(text);
        }
        if self.prefix.take().is_some_and(|prefix| prefix != Prefix::Time) || self.has(set::TIME) {
            return Err(Invalid::Syntax);
        }
        self.digits_with_zone(text, 0)
    }

    /// `hhmmss-zz`.
    fn digits_with_zone(&mut self, text: &str, taken: u16) -> Result<u16, Invalid> {
        let (digits, zone) = text.split_at(text.find('-').ok_or(Invalid::Syntax)?);
        let zone = self.displacement(zone)?;
        Ok(self.run_together(digits, self.seen | taken)? | zone)
    }

    /// `1999-01-08`, `8-jan-1999`, `1999.008`.
    fn date(&mut self, text: &str) -> Result<u16, Invalid> {
        let mut parts: Vec<&str> = Vec::new();
        for part in text.split(|c: char| !c.is_ascii_alphanumeric()) {
            // Digits and letters part without a mark between them too.
            let mut rest = part;
            while let Some(first) = rest.bytes().next() {
                let digits = first.is_ascii_digit();
                let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
                parts.push(&rest[..end]);
                // One character is lost where a number meets a word, as a mark would be.
                rest = rest.get(end + 1..).unwrap_or("");
            }
        }
        let (before, mut added) = (self.seen, 0);
        let mut take = |own: &mut Self, fields: u16| {
            if own.seen & fields != 0 {
                return Err(Invalid::Syntax);
            }
            own.seen |= fields;
            added |= fields;
            Ok(())
        };
        // A month's name is unambiguous, wherever it stands.
        let mut text_month = false;
        for part in &parts {
            if part.starts_with(|c: char| c.is_ascii_alphabetic()) {
                match date_word(part) {
                    Some(Word::Month(month)) => {
                        self.found.month = month;
                        text_month = true;
                        take(self, set::MONTH)?;
                    }
                    Some(Word::Ignored) => {}
                    _ => return Err(Invalid::Syntax),
                }
            }
        }
        let outer = std::mem::replace(&mut self.text_month, text_month);
        for part in &parts {
            if part.starts_with(|c: char| c.is_ascii_digit()) {
                let fields = self.number(part, self.seen)?;
                take(self, fields)?;
            }
        }
        self.text_month = outer;
        let whole = self.seen & !(set::DAY_OF_YEAR | set::ZONE) == set::DATE;
        self.seen = before;
        if whole { Ok(added) } else { Err(Invalid::Syntax) }
    }

    fn number_token(&mut self, text: &str) -> Result<u16, Invalid> {
        match self.prefix.take() {
            Some(Prefix::Time) => {
                return match self.run_together(text, self.seen)? {
                    set::TIME => Ok(set::TIME),
                    _ => Err(Invalid::Syntax),
                };
            }
            Some(Prefix::Unit(unit)) => return self.prefixed(unit, text),
            None => {}
        }
        match text.find('.') {
            Some(_) if !self.has_any(set::DATE) => self.date(text),
            Some(point) if point > 2 => self.run_together(text, self.seen),
            None if text.len() >= 6 && !(self.has_any(set::DATE) && self.has_any(set::TIME)) => {
                self.run_together(text, self.seen)
            }
            _ => self.number(text, self.seen),
        }
    }

    fn has_any(&self, fields: u16) -> bool {
        self.seen & fields != 0
    }

    /// A number after the name of its field: `y1999 m01 d08`, `j2451187`.
    fn prefixed(&mut self, unit: Unit, text: &str) -> Result<u16, Invalid> {
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (text, None),
        };
        if unit == Unit::Julian {
            self.set_julian(whole)?;
            let Some(fraction) = fraction else { return Ok(set::DATE) };
            let part: f64 = format!("0.{fraction}").parse().map_err(|_| Invalid::Syntax)?;
            self.found.set_micros((part * MICROS_PER_DAY as f64) as i64);
            return Ok(set::DATE | set::TIME);
        }
        if fraction.is_some() && unit != Unit::Second {
            return Err(Invalid::Syntax);
        }
        let value: i64 = whole.parse().map_err(|_| Invalid::FieldOutOfRange)?;
        let found = &mut self.found;
        Ok(match unit {
            Unit::Year => {
                found.year = value;
                set::YEAR
            }
            // After a month and an hour, m is a minute.
            Unit::Month if self.seen & (set::MONTH | set::HOUR) == set::MONTH | set::HOUR => {
                found.minute = value;
                set::MINUTE
            }
            Unit::Month => {
                found.month = value;
                set::MONTH
            }
            Unit::Day => {
                found.day = value;
                set::DAY
            }
            Unit::Hour => {
                found.hour = value;
                set::HOUR
            }
            Unit::Minute => {
                found.minute = value;
                set::MINUTE
            }
            Unit::Second => {
                found.second = value;
                found.us = fraction.map_or(Ok(0), fraction_us)?;
                set::SECOND
            }
            _ => return Err(Invalid::Syntax),
        })
    }

    fn set_julian(&mut self, digits: &str) -> Result<(), Invalid> {
        let day: i64 = digits.parse::<i32>().map_err(|_| Invalid::FieldOutOfRange)?.into();
        self.found.set_day(day - EPOCH_JULIAN);
        self.julian = true;
        Ok(())
    }

    /// One number of a date, whose place says what it is.
    fn number(&mut self, text: &str, seen: u16) -> Result<u16, Invalid> {
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (text, None),
        };
        if let Some(fraction) = fraction {
            // More than two digits before the point: a date or time run together.
            if whole.len() > 2 {
                return self.run_together(text, seen | set::DATE);
            }
            self.found.us = fraction_us(fraction)?;
        }
        let value: i64 = whole
            .parse::<i32>()
            .map_err(|_| {
                if whole.is_empty() {
                    Invalid::Syntax
                } else {
                    Invalid::FieldOutOfRange
                }
            })?
            .into();
        let (length, order) = (text.len(), self.conventions.order);
        let dated = seen & set::DATE;
        if length == 3 && dated == set::YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(set::DAY_OF_YEAR | set::MONTH | set::DAY);
        }
        let year_first = order == DateOrder::YearMonthDay;
        let field = match dated {
            0 if length >= 3 || year_first => set::YEAR,
            0 if order == DateOrder::DayMonthYear => set::DAY,
            0 | set::YEAR | set::DAY => set::MONTH,
            set::MONTH if self.text_month && (length >= 3 || year_first) => set::YEAR,
            set::MONTH => set::DAY,
            // What stood for the year was the day.
            set::YEAR_MONTH if self.text_month && length >= 3 && self.short_year => {
                self.found.day = self.found.year;
                self.found.year = value;
                self.short_year = false;
                return Ok(set::DAY);
            }
            set::YEAR_MONTH => set::DAY,
            set::MONTH_DAY => set::YEAR,
            set::DATE => return self.run_together(text, seen),
            _ => return Err(Invalid::Syntax),
        };
        match field {
            set::YEAR => {
                self.found.year = value;
                self.short_year = length <= 2;
            }
            set::MONTH => self.found.month = value,
            _ => self.found.day = value,
        }
        Ok(field)
    }

    /// `20011225`, `040506.789`, `0405`.
    fn run_together(&mut self, text: &str, seen: u16) -> Result<u16, Invalid> {
        let (digits, fraction) = match text.split_once('.') {
            Some((digits, fraction)) => (digits, Some(fraction)),
            None => (text, None),
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Invalid::Syntax);
        }
        let part = |from: usize, to: usize| digits[from..to].parse::<i64>().map_err(|_| Invalid::FieldOutOfRange);
        if let Some(fraction) = fraction {
            self.found.us = fraction_us(fraction)?;
        } else if seen & set::DATE != set::DATE && digits.len() >= 6 {
            let end = digits.len();
            self.found.year = part(0, end - 4)?;
            self.found.month = part(end - 4, end - 2)?;
            self.found.day = part(end - 2, end)?;
            self.short_year = end - 4 == 2;
            return Ok(set::DATE);
        }
        if seen & set::TIME != set::TIME && matches!(digits.len(), 4 | 6) {
            self.found.hour = part(0, 2)?;
            self.found.minute = part(2, 4)?;
            self.found.second = if digits.len() == 6 { part(4, 6)? } else { 0 };
            return Ok(set::TIME);
        }
        Err(Invalid::Syntax)
    }

    /// `hh:mm[:ss[.f]]`; `mm:ss.f` too.
    fn clock(&mut self, text: &str) -> Result<u16, Invalid> {
        let (hour, minute, second, us) = clock(text)?;
        (self.found.hour, self.found.minute, self.found.second, self.found.us) = (hour, minute, second, us);
        Ok(set::TIME)
    }

    /// `+hh`, `-hhmm`, `+hh:mm:ss`.
    fn displacement(&mut self, text: &str) -> Result<u16, Invalid> {
        self.place = Some(Place::East(displacement(text)?));
        Ok(set::ZONE)
    }

    /// Turns what was read into a date that exists.
    fn check_date(&mut self) -> Result<(), Invalid> {
        let found = &mut self.found;
        if self.seen & set::YEAR != 0 && !self.julian {
            if self.before_christ {
                if found.year <= 0 {
                    return Err(Invalid::FieldOutOfRange);
                }
                found.year = 1 - found.year;
            } else if self.short_year {
                found.year += if found.year < 70 { 2000 } else { 1900 };
            } else if found.year <= 0 {
                return Err(Invalid::FieldOutOfRange);
            }
        }
        if self.seen & set::DAY_OF_YEAR != 0 {
            if !(YEAR_MIN..=DATE_YEAR_MAX).contains(&found.year) {
                return Err(Invalid::Past("date"));
            }
            let day = days_from_civil(found.year, 1, 1) + self.day_of_year - 1;
            found.set_day(day);
        }
        if self.seen & set::MONTH != 0 && !(1..=12).contains(&found.month) {
            return Err(Invalid::MonthOrDay);
        }
        if self.seen & set::DAY != 0 && !(1..=31).contains(&found.day) {
            return Err(Invalid::MonthOrDay);
        }
        if self.seen & set::DATE == set::DATE && found.day > i64::from(days_in_month(found.year, found.month as u32)) {
            return Err(Invalid::FieldOutOfRange);
        }
        Ok(())
    }

    fn apply_half(&mut self) -> Result<(), Invalid> {
        let hour = &mut self.found.hour;
        match self.half {
            Some(_) if *hour > 12 => return Err(Invalid::FieldOutOfRange),
            Some(false) if *hour == 12 => *hour = 0,
            Some(true) if *hour != 12 => *hour += 12,
            _ => {}
        }
        Ok(())
    }

    /// Seconds east of UTC, by the text or by the session's zone.
    fn east_s(&self) -> Result<i32, Invalid> {
        let local = || self.found.stamp().unwrap_or_default();
        let daylight = self.has(set::DAYLIGHT);
        Ok(match &self.place {
            Some(Place::East(east_s)) => *east_s,
            _ if daylight => return Err(Invalid::Syntax),
            Some(Place::Zone(zone)) => zone.east_of_local(local()),
            None => self.conventions.zone.east_of_local(local()),
        })
    }
}

/// The digits after a point, as microseconds.
pub(super) fn fraction_us(digits: &str) -> Result<i64, Invalid> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Invalid::Syntax);
    }
    let part: f64 = format!("0.{digits}0").parse().map_err(|_| Invalid::Syntax)?;
    Ok((part * 1e6).round_ties_even() as i64)
}

/// Hour, minute, second and microseconds.
pub(super) fn clock(text: &str) -> Result<(i64, i64, i64, i64), Invalid> {
    let (text, fraction) = match text.split_once('.') {
        Some((text, fraction)) => (text, Some(fraction)),
        None => (text, None),
    };
    let mut parts = text.split(':').map(|part| match part {
        // A mark without digits after it counts none.
        "" => Ok(0),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
            .parse::<i32>()
            .map(i64::from)
            .map_err(|_| Invalid::FieldOutOfRange),
        _ => Err(Invalid::Syntax),
    });
    let first = parts.next().ok_or(Invalid::Syntax)??;
    let second = parts.next().ok_or(Invalid::Syntax)??;
    let third = parts.next().transpose()?;
    if parts.next().is_some() {
        return Err(Invalid::Syntax);
    }
    let us = fraction.map_or(Ok(0), fraction_us)?;
    let (hour, minute, second) = match (third, fraction) {
        (Some(third), _) => (first, second, third),
        (None, Some(_)) => (0, first, second),
        (None, None) => (first, second, 0),
    };
    if minute > 59 || second > 60 {
        return Err(Invalid::FieldOutOfRange);
    }
    Ok((hour, minute, second, us))
}

/// Seconds east of UTC.
pub(super) fn displacement(text: &str) -> Result<i32, Invalid> {
    let (sign, rest) = match text.as_bytes().first() {
        Some(b'+') => (1, &text[1..]),
        Some(b'-') => (-1, &text[1..]),
        _ => return Err(Invalid::Syntax),
    };
    let number = |part: &str| match part {
        "" => Err(Invalid::Syntax),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse::<i64>().map_err(|_| Invalid::ZoneOutOfRange)
        }
        _ => Err(Invalid::Syntax),
    };
    // After a colon, no digits count none.
    let below = |part: &str| if part.is_empty() { Ok(0) } else { number(part) };
    let mut parts = rest.split(':');
    let first = number(parts.next().unwrap_or_default())?;
    let (hours, minutes, seconds) = match (parts.next(), parts.next(), parts.next()) {
        (None, ..) if rest.len() > 2 => (first / 100, first % 100, 0),
        (None, ..) => (first, 0, 0),
        (Some(minutes), None, _) => (first, below(minutes)?, 0),
        (Some(minutes), Some(seconds), None) => (first, below(minutes)?, below(seconds)?),
        _ => return Err(Invalid::Syntax),
    };
    if hours > ZONE_HOURS_MAX || minutes > 59 || seconds > 59 {
        return Err(Invalid::ZoneOutOfRange);
    }
    Ok(sign * ((hours * 60 + minutes) * 60 + seconds) as i32)
}
