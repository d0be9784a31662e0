//! Patterns of `to_char` and `to_timestamp` as a list of fields and the text between them.

/// What a field of a pattern stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    HalfDotted,
    Half,
    EraDotted,
    Era,
    Century,
    DayName,
    DayShort,
    DayOfYear,
    IsoDayOfYear,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    Fraction(u8),
    Exact,
    Hour24,
    Hour12,
    Julian,
    Minute,
    Month,
    MonthName,
    MonthShort,
    Millisecond,
    Offset,
    Quarter,
    Roman,
    SecondsOfDay,
    Second,
    ZoneHour,
    ZoneMinute,
    Zone,
    Microsecond,
    Week,
    IsoWeek,
    WeekOfMonth,
    YearComma,
    /// So many digits of the year.
    Year(u8),
    IsoYear(u8),
}

/// How letters of a field are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Capital,
    Lower,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TemplateNode {
    Field(Field),
    /// A character between fields, as it is.
    Text(char),
    /// One that a reader may find any mark for.
    Separator(char),
    Blank(char),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub key: Key,
    pub case: Case,
    /// As it stands in the pattern.
    pub name: &'static str,
    /// `FM`: without padding.
    pub fill: bool,
    /// `TH` or `th` after it.
    pub ordinal: Option<Case>,
}

impl Key {
    /// Of a day or a month.
    fn is_name(self) -> bool {
        matches!(self, Key::DayName | Key::DayShort | Key::MonthName | Key::MonthShort)
    }

    /// Whether it is written in digits only.
    pub fn is_digits(self) -> bool {
        !matches!(
            self,
            Key::HalfDotted
                | Key::Half
                | Key::EraDotted
                | Key::Era
                | Key::DayName
                | Key::DayShort
                | Key::Exact
                | Key::MonthName
                | Key::MonthShort
                | Key::Offset
                | Key::Roman
                | Key::Zone
        )
    }
}

/// Longer names before those that begin them.
const KEYS: &[(&str, Key, Case)] = &[
    ("A.D.", Key::EraDotted, Case::Upper),
    ("A.M.", Key::HalfDotted, Case::Upper),
    ("AD", Key::Era, Case::Upper),
    ("AM", Key::Half, Case::Upper),
    ("B.C.", Key::EraDotted, Case::Upper),
    ("BC", Key::Era, Case::Upper),
    ("CC", Key::Century, Case::Upper),
    ("DAY", Key::DayName, Case::Upper),
    ("DDD", Key::DayOfYear, Case::Upper),
    ("DD", Key::Day, Case::Upper),
    ("DY", Key::DayShort, Case::Upper),
    ("Day", Key::DayName, Case::Capital),
    ("Dy", Key::DayShort, Case::Capital),
    ("D", Key::DayOfWeek, Case::Upper),
    ("FF1", Key::Fraction(1), Case::Upper),
    ("FF2", Key::Fraction(2), Case::Upper),
    ("FF3", Key::Fraction(3), Case::Upper),
    ("FF4", Key::Fraction(4), Case::Upper),
    ("FF5", Key::Fraction(5), Case::Upper),
    ("FF6", Key::Fraction(6), Case::Upper),
    ("FX", Key::Exact, Case::Upper),
    ("HH24", Key::Hour24, Case::Upper),
    ("HH12", Key::Hour12, Case::Upper),
    ("HH", Key::Hour12, Case::Upper),
    ("IDDD", Key::IsoDayOfYear, Case::Upper),
    ("ID", Key::IsoDayOfWeek, Case::Upper),
    ("IW", Key::IsoWeek, Case::Upper),
    ("IYYY", Key::IsoYear(4), Case::Upper),
    ("IYY", Key::IsoYear(3), Case::Upper),
    ("IY", Key::IsoYear(2), Case::Upper),
    ("I", Key::IsoYear(1), Case::Upper),
    ("J", Key::Julian, Case::Upper),
    ("MI", Key::Minute, Case::Upper),
    ("MM", Key::Month, Case::Upper),
    ("MONTH", Key::MonthName, Case::Upper),
    ("MON", Key::MonthShort, Case::Upper),
    ("MS", Key::Millisecond, Case::Upper),
    ("Month", Key::MonthName, Case::Capital),
    ("Mon", Key::MonthShort, Case::Capital),
    ("OF", Key::Offset, Case::Upper),
    ("P.M.", Key::HalfDotted, Case::Upper),
    ("PM", Key::Half, Case::Upper),
    ("Q", Key::Quarter, Case::Upper),
    ("RM", Key::Roman, Case::Upper),
    ("SSSSS", Key::SecondsOfDay, Case::Upper),
    ("SSSS", Key::SecondsOfDay, Case::Upper),
    ("SS", Key::Second, Case::Upper),
    ("TZH", Key::ZoneHour, Case::Upper),
    ("TZM", Key::ZoneMinute, Case::Upper),
    ("TZ", Key::Zone, Case::Upper),
    ("US", Key::Microsecond, Case::Upper),
    ("WW", Key::Week, Case::Upper),
    ("W", Key::WeekOfMonth, Case::Upper),
    ("Y,YYY", Key::YearComma, Case::Upper),
    ("YYYY", Key::Year(4), Case::Upper),
    ("YYY", Key::Year(3), Case::Upper),
    ("YY", Key::Year(2), Case::Upper),
    ("Y", Key::Year(1), Case::Upper),
    ("a.d.", Key::EraDotted, Case::Lower),
    ("a.m.", Key::HalfDotted, Case::Lower),
    ("ad", Key::Era, Case::Lower),
    ("am", Key::Half, Case::Lower),
    ("b.c.", Key::EraDotted, Case::Lower),
    ("bc", Key::Era, Case::Lower),
    ("cc", Key::Century, Case::Lower),
    ("day", Key::DayName, Case::Lower),
    ("ddd", Key::DayOfYear, Case::Lower),
    ("dd", Key::Day, Case::Lower),
    ("dy", Key::DayShort, Case::Lower),
    ("d", Key::DayOfWeek, Case::Lower),
    ("ff1", Key::Fraction(1), Case::Lower),
    ("ff2", Key::Fraction(2), Case::Lower),
    ("ff3", Key::Fraction(3), Case::Lower),
    ("ff4", Key::Fraction(4), Case::Lower),
    ("ff5", Key::Fraction(5), Case::Lower),
    ("ff6", Key::Fraction(6), Case::Lower),
    ("fx", Key::Exact, Case::Lower),
    ("hh24", Key::Hour24, Case::Lower),
    ("hh12", Key::Hour12, Case::Lower),
    ("hh", Key::Hour12, Case::Lower),
    ("iddd", Key::IsoDayOfYear, Case::Lower),
    ("id", Key::IsoDayOfWeek, Case::Lower),
    ("iw", Key::IsoWeek, Case::Lower),
    ("iyyy", Key::IsoYear(4), Case::Lower),
    ("iyy", Key::IsoYear(3), Case::Lower),
    ("iy", Key::IsoYear(2), Case::Lower),
    ("i", Key::IsoYear(1), Case::Lower),
    ("j", Key::Julian, Case::Lower),
    ("mi", Key::Minute, Case::Lower),
    ("mm", Key::Month, Case::Lower),
    ("month", Key::MonthName, Case::Lower),
    ("mon", Key::MonthShort, Case::Lower),
    ("ms", Key::Millisecond, Case::Lower),
    ("of", Key::Offset, Case::Lower),
    ("p.m.", Key::HalfDotted, Case::Lower),
    ("pm", Key::Half, Case::Lower),
    ("q", Key::Quarter, Case::Lower),
    ("rm", Key::Roman, Case::Lower),
    ("sssss", Key::SecondsOfDay, Case::Lower),
    ("ssss", Key::SecondsOfDay, Case::Lower),
    ("ss", Key::Second, Case::Lower),
    ("tzh", Key::ZoneHour, Case::Lower),
    ("tzm", Key::ZoneMinute, Case::Lower),
    ("tz", Key::Zone, Case::Lower),
    ("us", Key::Microsecond, Case::Lower),
    ("ww", Key::Week, Case::Lower),
    ("w", Key::WeekOfMonth, Case::Lower),
    ("y,yyy", Key::YearComma, Case::Lower),
    ("yyyy", Key::Year(4), Case::Lower),
    ("yyy", Key::Year(3), Case::Lower),
    ("yy", Key::Year(2), Case::Lower),
    ("y", Key::Year(1), Case::Lower),
];

/// A pattern read.
#[derive(Debug)]
pub struct Template(pub(super) Vec<TemplateNode>);

impl Template {
    pub fn of(pattern: &str) -> Self {
        Self(nodes(pattern))
    }
}

fn nodes(pattern: &str) -> Vec<TemplateNode> {
    let (mut out, mut rest) = (Vec::new(), pattern);
    while let Some(first) = rest.chars().next() {
        let (mut fill, mut translated) = (false, false);
        let mut after = rest;
        while let Some(found) = ["FM", "fm", "TM", "tm"]
            .iter()
            .find(|prefix| after.starts_with(**prefix))
        {
            fill |= found.eq_ignore_ascii_case("fm");
            translated |= found.eq_ignore_ascii_case("tm");
            after = &after[2..];
        }
        if let Some((name, key, case)) = KEYS.iter().find(|(name, ..)| after.starts_with(name)) {
            after = &after[name.len()..];
            let ordinal = match after.get(..2) {
                Some("TH") => Some(Case::Upper),
                Some("th") => Some(Case::Lower),
                _ => None,
            };
            if ordinal.is_some() || matches!(after.get(..2), Some("SP")) {
                after = &after[2..];
            }
            out.push(TemplateNode::Field(Field {
                key: *key,
                case: *case,
                name,
                // A name in the session's language, which is English, has no padding.
                fill: fill || (translated && key.is_name()),
                ordinal,
            }));
            rest = after;
            continue;
        }
        if after.len() < rest.len() {
            // A prefix of nothing is nothing.
            rest = after;
            continue;
        }
        if first == '"' {
            rest = quoted(&rest[1..], &mut out);
            continue;
        }
        // A backslash is only there to escape a quote.
        let (shown, skipped) = match rest.strip_prefix("\\\"") {
            Some(_) => ('"', 2),
            None => (first, first.len_utf8()),
        };
        out.push(match shown {
            blank if blank.is_ascii_whitespace() => TemplateNode::Blank(blank),
            mark if is_separator(mark) && skipped == 1 => TemplateNode::Separator(mark),
            other => TemplateNode::Text(other),
        });
        rest = &rest[skipped..];
    }
    out
}

/// Text between quotes; a backslash escapes.
fn quoted<'a>(text: &'a str, out: &mut Vec<TemplateNode>) -> &'a str {
    let mut letters = text.char_indices();
    while let Some((at, c)) = letters.next() {
        match c {
            '"' => return &text[at + 1..],
            '\\' => {
                if let Some((_, escaped)) = letters.next() {
                    out.push(TemplateNode::Text(escaped));
                }
            }
            _ => out.push(TemplateNode::Text(c)),
        }
    }
    ""
}

pub(super) fn is_separator(c: char) -> bool {
    c.is_ascii_graphic() && !c.is_ascii_alphanumeric()
}

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Sunday first.
pub(super) const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
pub(super) const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
