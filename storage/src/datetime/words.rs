//! The words of dates and intervals.

/// A unit of time, of a date's prefix or of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Julian,
    IsoYear,
    Zone,
    ZoneHour,
    ZoneMinute,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Epoch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// 1 to 12.
    Month(i64),
    Weekday,
    Ante,
    Post,
    Christ,
    BeforeChrist,
    /// `dst` after a zone.
    Daylight,
    Now,
    Today,
    Tomorrow,
    Yesterday,
    Midnight,
    Epoch,
    Infinity,
    MinusInfinity,
    /// `t` before a time.
    Time,
    Prefix(Unit),
    Ignored,
    /// A word that dates know and that says nothing here.
    Misplaced,
}

/// A word of a date, in lower case.
pub(super) fn date_word(word: &str) -> Option<Word> {
    Some(match word {
        "jan" | "january" => Word::Month(1),
        "feb" | "february" => Word::Month(2),
        "mar" | "march" => Word::Month(3),
        "apr" | "april" => Word::Month(4),
        "may" => Word::Month(5),
        "jun" | "june" => Word::Month(6),
        "jul" | "july" => Word::Month(7),
        "aug" | "august" => Word::Month(8),
        "sep" | "sept" | "september" => Word::Month(9),
        "oct" | "october" => Word::Month(10),
        "nov" | "november" => Word::Month(11),
        "dec" | "december" => Word::Month(12),
        "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "wednesday" | "weds" | "thu"
        | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat" | "saturday" => Word::Weekday,
        "am" => Word::Ante,
        "pm" => Word::Post,
        "ad" => Word::Christ,
        "bc" => Word::BeforeChrist,
        "dst" => Word::Daylight,
        "now" => Word::Now,
        "today" => Word::Today,
        "tomorrow" => Word::Tomorrow,
        "yesterday" => Word::Yesterday,
        "allballs" => Word::Midnight,
        "epoch" => Word::Epoch,
        "infinity" => Word::Infinity,
        "-infinity" => Word::MinusInfinity,
        "t" => Word::Time,
        "at" | "on" => Word::Ignored,
        "d" => Word::Prefix(Unit::Day),
        "h" => Word::Prefix(Unit::Hour),
        "m" => Word::Prefix(Unit::Month),
        "mm" => Word::Prefix(Unit::Minute),
        "s" => Word::Prefix(Unit::Second),
        "y" => Word::Prefix(Unit::Year),
        "j" | "jd" | "julian" => Word::Prefix(Unit::Julian),
        "isoyear" => Word::Prefix(Unit::IsoYear),
        "dow" | "doy" | "isodow" => Word::Misplaced,
        _ => return None,
    })
}

/// A unit of an interval, in lower case. Ten letters tell the longer ones apart.
pub fn unit_word(word: &str) -> Option<Unit> {
    let word = word.get(..10).unwrap_or(word);
    Some(match word {
        "us" | "usec" | "usecond" | "useconds" | "usecs" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecond" | "mseconds" | "msecs" | "millisecon" => Unit::Millisecond,
        "s" | "sec" | "second" | "seconds" | "secs" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hour" | "hours" | "hr" | "hrs" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "qtr" | "quarter" => Unit::Quarter,
        "y" | "year" | "years" | "yr" | "yrs" => Unit::Year,
        "dec" | "decade" | "decades" | "decs" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
        "timezone" => Unit::Zone,
        "timezone_h" => Unit::ZoneHour,
        "timezone_m" => Unit::ZoneMinute,
        _ => return None,
    })
}

/// A field of `extract`, in any case.
pub fn field_word(word: &str) -> Option<Unit> {
    let lower = word.to_ascii_lowercase();
    unit_word(&lower).or_else(|| {
        Some(match lower.as_str() {
            "dow" => Unit::DayOfWeek,
            "isodow" => Unit::IsoDayOfWeek,
            "doy" => Unit::DayOfYear,
            "epoch" => Unit::Epoch,
            "isoyear" => Unit::IsoYear,
            "j" | "jd" | "julian" => Unit::Julian,
            _ => return None,
        })
    })
}
