//! Time zones: by name, by abbreviation, or as a POSIX rule.

use super::abbreviations::{ABBREVIATIONS, Meaning};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use std::sync::Arc;

/// 400 years, after which the calendar and the zones' rules repeat.
const CYCLE_US: i64 = 146_097 * 86_400_000_000;
/// 2400-01-01 and 1600-01-01, between which a time past the rules' own range is looked up.
const LATE_US: i64 = 13_569_465_600_000_000;

/// A zone and the name that it was asked for by.
#[derive(Clone, Debug)]
pub struct Zone {
    name: Arc<str>,
    rules: Rules,
    /// Read by this abbreviation of a place's zone.
    spelled: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
enum Rules {
    /// Seconds east of UTC, and what `TZ` shows.
    Fixed(i32, Arc<str>),
    Varying(TimeZone),
}

/// How a zone shows an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Seconds east of UTC.
    pub east_s: i32,
    pub abbreviation: String,
    pub daylight: bool,
}

impl Default for Zone {
    fn default() -> Self {
        Zone {
            name: "UTC".into(),
            rules: Rules::Fixed(0, "UTC".into()),
            spelled: None,
        }
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl Zone {
    /// A zone by its full name in any case, or by a POSIX rule (whose offsets count west).
    pub fn named(text: &str) -> Option<Zone> {
        if text.len() > 255 {
            return None;
        }
        if text.eq_ignore_ascii_case("utc") {
            return Some(Zone::default());
        }
        if text.eq_ignore_ascii_case("gmt") {
            return Some(Zone {
                name: "GMT".into(),
                rules: Rules::Fixed(0, "GMT".into()),
                spelled: None,
            });
        }
        let known = text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
            && !text.to_ascii_lowercase().starts_with("posix/")
            && !text.to_ascii_lowercase().starts_with("right/");
        if known && let Ok(rules) = jiff::tz::db().get(text) {
            let name = rules.iana_name().unwrap_or(text).into();
            return Some(Zone {
                name,
                rules: Rules::Varying(rules),
                spelled: None,
            });
        }
        posix(text)
    }

    /// A zone by an abbreviation, a name or a rule, in the order in which PostgreSQL looks.
    pub fn any(text: &str) -> Option<Zone> {
        Zone::abbreviated(text).or_else(|| Zone::named(text))
    }

    /// The zone that an abbreviation means: an offset, or a place whose abbreviation has changed its meaning.
    pub fn abbreviated(text: &str) -> Option<Zone> {
        let lower = text.to_ascii_lowercase();
        let at = ABBREVIATIONS.binary_search_by(|(name, _)| (*name).cmp(&lower)).ok()?;
        match ABBREVIATIONS[at].1 {
            Meaning::Standard(east_s) | Meaning::Daylight(east_s) => Some(Zone {
                name: text.into(),
                rules: Rules::Fixed(east_s, lower.to_ascii_uppercase().into()),
                spelled: None,
            }),
            Meaning::Place(place) => Some(Zone {
                spelled: Some(lower.to_ascii_uppercase().into()),
                ..Zone::named(place)?
            }),
        }
    }

    /// Seconds east of UTC, as `SET TIME ZONE -8` makes it: named `<-08>+08`.
    pub fn east(east_s: i32) -> Zone {
        let (sign, against) = if east_s < 0 { ('-', '+') } else { ('+', '-') };
        let size = east_s.unsigned_abs();
        let mut text = format!("{:02}", size / 3600);
        if !size.is_multiple_of(3600) {
            text += &format!(":{:02}", size / 60 % 60);
            if !size.is_multiple_of(60) {
                text += &format!(":{:02}", size % 60);
            }
        }
        Zone {
            name: format!("<{sign}{text}>{against}{text}").into(),
            rules: Rules::Fixed(east_s, format!("{sign}{text}").into()),
            spelled: None,
        }
    }

    /// As SHOW gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The offset where it is always the same.
    pub fn fixed(&self) -> Option<i32> {
        match &self.rules {
            Rules::Fixed(east_s, _) => Some(*east_s),
            Rules::Varying(rules) => rules.to_fixed_offset().ok().map(|offset| offset.seconds()),
        }
    }

    /// Seconds east of UTC at an instant.
    #[inline]
    pub fn east_at(&self, us: i64) -> i32 {
        match &self.rules {
            Rules::Fixed(east_s, _) => *east_s,
            Rules::Varying(rules) if self.spelled.is_some() => self.east_spelled(rules, instant(us)),
            Rules::Varying(rules) => rules.to_offset(instant(us)).seconds(),
        }
    }

    /// An instant's time of clock here: microseconds as if it were UTC. The infinities stay; None past the range.
    #[inline]
    pub fn to_local(&self, us: i64) -> Option<i64> {
        if super::is_infinite(us) {
            return Some(us);
        }
        us.checked_add(i64::from(self.east_at(us)) * 1_000_000)
    }

    /// The instant of a time of clock here. One that a spring skips is read as before the change, one that an autumn
    /// repeats as after it. The infinities stay; None past the range.
    #[inline]
    pub fn to_utc(&self, local_us: i64) -> Option<i64> {
        if super::is_infinite(local_us) {
            return Some(local_us);
        }
        local_us
            .checked_sub(i64::from(self.east_of_local(local_us)) * 1_000_000)
            .filter(|us| (super::FIRST_US..i64::MAX).contains(us))
    }

    /// Seconds east of UTC at a time of clock here.
    pub fn east_of_local(&self, local_us: i64) -> i32 {
        let rules = match &self.rules {
            Rules::Fixed(east_s, _) => return *east_s,
            Rules::Varying(rules) => rules,
        };
        let clock: DateTime = jiff::tz::Offset::UTC.to_datetime(instant(local_us));
        let plain = match rules.to_ambiguous_timestamp(clock).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.seconds(),
            AmbiguousOffset::Gap { before, .. } => before.seconds(),
            AmbiguousOffset::Fold { after, .. } => after.seconds(),
        };
        match self.spelled {
            Some(_) => self.east_spelled(rules, instant(local_us - i64::from(plain) * 1_000_000)),
            None => plain,
        }
    }

    /// Seconds east of UTC that the abbreviation means then: as it was used last before, else first after.
    fn east_spelled(&self, rules: &TimeZone, at: Timestamp) -> i32 {
        let info = rules.to_offset_info(at);
        let abbreviation = self.spelled.as_deref().unwrap_or_default();
        if info.abbreviation() == abbreviation {
            return info.offset().seconds();
        }
        let named = |found: jiff::tz::TimeZoneTransition<'_>| {
            (found.abbreviation() == abbreviation).then(|| found.offset().seconds())
        };
        let before = rules.preceding(at).find_map(named);
        before
            .or_else(|| rules.following(at).take(200).find_map(named))
            .unwrap_or(info.offset().seconds())
    }

    pub fn at(&self, us: i64) -> Local {
        match &self.rules {
            Rules::Fixed(east_s, abbreviation) => Local {
                east_s: *east_s,
                abbreviation: abbreviation.to_string(),
                daylight: false,
            },
            Rules::Varying(rules) => {
                let info = rules.to_offset_info(instant(us));
                Local {
                    east_s: info.offset().seconds(),
                    abbreviation: info.abbreviation().to_string(),
                    daylight: info.dst().is_dst(),
                }
            }
        }
    }
}

/// The instant, moved by whole cycles of the calendar where the rules do not reach.
fn instant(us: i64) -> Timestamp {
    let us = if us > LATE_US {
        us - ((us - LATE_US) / CYCLE_US + 1) * CYCLE_US
    } else {
        us
    };
    Timestamp::from_microsecond(us).unwrap_or_default()
}

/// `EST5EDT,M3.2.0,M11.1.0`, `FOO+3`, `<+03>-3`, `+05:30`.
fn posix(text: &str) -> Option<Zone> {
    if !text.is_ascii() || text.starts_with('"') {
        return None;
    }
    let (name, rest) = match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?,
        None => {
            let end = text.find(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | ','));
            text.split_at(end?)
        }
    };
    let digits = rest
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | ':')))
        .unwrap_or(rest.len());
    let (offset, after) = rest.split_at(digits);
    let west_s = hours(offset)?;
    let name_upper = name.to_ascii_uppercase();
    let shown: Arc<str> = match text.starts_with('<') {
        true => text.into(),
        false => text.to_ascii_uppercase().into(),
    };
    if after.is_empty() {
        return Some(Zone {
            name: shown,
            rules: Rules::Fixed(-west_s, name_upper.into()),
            spelled: None,
        });
    }
    // Daylight time without its rules has those of the United States.
    let ruled = match after.contains(',') {
        true => format!("<{name_upper}>{offset}{}", after.to_ascii_uppercase()),
        false => format!("<{name_upper}>{offset}{},M3.2.0,M11.1.0", after.to_ascii_uppercase()),
    };
    let rules = TimeZone::posix(&ruled).ok()?;
    Some(Zone {
        name: shown,
        rules: Rules::Varying(rules),
        spelled: None,
    })
}

/// `[+-]hh[:mm[:ss]]` in seconds.
fn hours(text: &str) -> Option<i32> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut total = 0;
    let mut parts = text.split(':');
    for (unit, limit) in [(3600, 167), (60, 59), (1, 59)] {
        let Some(part) = parts.next() else { break };
        let number: i32 = part.parse().ok().filter(|number| (0..=limit).contains(number))?;
        total += number * unit;
    }
    parts.next().is_none().then_some(sign * total)
}

/// All abbreviations, each with what it means at `us`.
pub fn abbreviations(us: i64) -> Vec<(String, i32, bool)> {
    let known = ABBREVIATIONS.iter().filter_map(|(name, meaning)| {
        let shown = name.to_ascii_uppercase();
        Some(match meaning {
            Meaning::Standard(east_s) => (shown, *east_s, false),
            Meaning::Daylight(east_s) => (shown, *east_s, true),
            Meaning::Place(place) => {
                let local = Zone::named(place)?.at(us);
                (shown, local.east_s, local.daylight)
            }
        })
    });
    known.collect()
}

/// The names of all zones.
pub fn names() -> Vec<String> {
    jiff::tz::db().available().map(|name| name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR_2001_US: i64 = 978_307_200_000_000;

    #[test]
    fn names_rules_and_abbreviations() {
        let east = |text: &str| Zone::any(text).map(|zone| zone.east_at(YEAR_2001_US));
        assert_eq!(east("america/new_york"), Some(-5 * 3600));
        assert_eq!(east("GMT+4"), Some(-4 * 3600));
        assert_eq!(east("FOO3"), Some(-3 * 3600));
        assert_eq!(east("+05:30"), Some(-19_800));
        assert_eq!(east("<+03>-3"), Some(3 * 3600));
        assert_eq!(east("PST"), Some(-8 * 3600));
        assert_eq!(east("msk"), Some(3 * 3600));
        assert_eq!(east("FOO"), None);
        assert_eq!(Zone::east(-28_800).name(), "<-08>+08");
    }

    #[test]
    fn skipped_and_repeated_hours() {
        let zone = Zone::named("America/Los_Angeles").unwrap();
        let clock = |text: &str| super::super::parse_timestamp(text.as_bytes(), &Default::default()).unwrap();
        let east = |text: &str| zone.east_of_local(clock(text)) / 3600;
        assert_eq!(east("2024-03-10 02:30:00"), -8);
        assert_eq!(east("2024-11-03 01:30:00"), -8);
        assert_eq!(east("2024-11-03 00:30:00"), -7);
        assert_eq!(east("12024-07-03 00:30:00"), -7);
    }
}
