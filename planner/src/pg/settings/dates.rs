//! The settings of dates, times and intervals: DateStyle, IntervalStyle, TimeZone.

use super::Settings;
use crate::pg::error::{Result, SqlError, state};
use tenon_storage::datetime::{Conventions, DateForm, DateOrder, IntervalForm, Zone, parse_interval};

impl Settings {
    /// What they say together, in a transaction that began at `now_us`.
    pub(super) fn conventions_at(&self, now_us: Option<i64>) -> Conventions {
        let value = |name| self.get(name).unwrap_or_default();
        let (form, order) = split(&value("DateStyle"));
        let interval_form = match value("IntervalStyle").as_str() {
            "postgres_verbose" => IntervalForm::Verbose,
            "sql_standard" => IntervalForm::SqlStandard,
            "iso_8601" => IntervalForm::Iso8601,
            _ => IntervalForm::Postgres,
        };
        Conventions {
            order,
            form,
            interval_form,
            zone: Zone::named(&value("TimeZone")).unwrap_or_default(),
            now_us,
        }
    }
}

/// Form and order of a DateStyle as it is kept.
fn split(style: &str) -> (DateForm, DateOrder) {
    let (form, order) = style.split_once(", ").unwrap_or((style, ""));
    let form = match form {
        "SQL" => DateForm::Sql,
        "Postgres" => DateForm::Postgres,
        "German" => DateForm::German,
        _ => DateForm::Iso,
    };
    let order = match order {
        "DMY" => DateOrder::DayMonthYear,
        "YMD" => DateOrder::YearMonthDay,
        _ => DateOrder::MonthDayYear,
    };
    (form, order)
}

/// A DateStyle of words in any order; what they leave open stays as it is. Err: what is wrong with them.
pub(super) fn date_style(current: &str, value: &str) -> std::result::Result<String, String> {
    let (mut form, mut order) = (None, None);
    for word in value
        .split(',')
        .map(|word| word.trim().trim_matches('"').to_lowercase())
    {
        let (of_form, of_order) = match word.as_str() {
            "iso" => (Some("ISO"), None),
            "sql" => (Some("SQL"), None),
            "german" => (Some("German"), None),
            "ymd" => (None, Some("YMD")),
            "dmy" => (None, Some("DMY")),
            "mdy" | "us" => (None, Some("MDY")),
            "default" => (Some("ISO"), Some("MDY")),
            word if word.starts_with("postgres") => (Some("Postgres"), None),
            word if word.starts_with("euro") => (None, Some("DMY")),
            word if word.starts_with("noneuro") => (None, Some("MDY")),
            _ => return Err(format!("Unrecognized key word: \"{word}\".")),
        };
        let conflict = |had: Option<&str>, has: Option<&str>| had.is_some() && has.is_some() && had != has;
        if word != "default" && (conflict(form, of_form) || conflict(order, of_order)) {
            return Err("Conflicting \"datestyle\" specifications.".into());
        }
        (form, order) = (form.or(of_form), order.or(of_order));
    }
    if form == Some("German") {
        order = order.or(Some("DMY"));
    }
    let (old_form, old_order) = current.split_once(", ").unwrap_or((current, "MDY"));
    Ok(format!("{}, {}", form.unwrap_or(old_form), order.unwrap_or(old_order)))
}

/// A TimeZone: a name, a POSIX rule, hours east of UTC, or an interval east of it.
pub(super) fn zone(value: &str) -> Result<Option<Zone>> {
    let lower = value.to_lowercase();
    if let Some(text) = lower.strip_prefix("interval") {
        let quoted = text.split('\'').nth(1).unwrap_or_default();
        let Ok(span) = parse_interval(quoted.as_bytes(), None, &Conventions::default()) else {
            return Ok(None);
        };
        let refuse = |what: &str| {
            let message = format!("invalid value for parameter \"TimeZone\": \"{value}\"");
            SqlError::new(state::INVALID_PARAMETER_VALUE, message)
                .detail(format!("Cannot specify {what} in time zone interval."))
        };
        return match (span.months, span.days) {
            (0, 0) => Ok(Some(Zone::east((span.us / 1_000_000) as i32))),
            (0, _) => Err(refuse("days")),
            _ => Err(refuse("months")),
        };
    }
    if let Ok(hours) = value.trim().parse::<f64>()
        && hours.abs() <= 168.0
    {
        return Ok(Some(Zone::east((hours * 3600.0) as i32)));
    }
    Ok(match lower.as_str() {
        "default" | "local" => Some(Zone::default()),
        _ => Zone::named(value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles() {
        let style = |value| date_style("ISO, MDY", value);
        assert_eq!(style("ymd").as_deref(), Ok("ISO, YMD"));
        assert_eq!(style("german").as_deref(), Ok("German, DMY"));
        assert_eq!(style("SQL, European").as_deref(), Ok("SQL, DMY"));
        assert!(style("sql, iso").is_err());
        assert!(style("nothing").is_err());
    }

    #[test]
    fn zones() {
        let name = |value| zone(value).unwrap().map(|zone| zone.name().to_string());
        assert_eq!(name("-8").as_deref(), Some("<-08>+08"));
        assert_eq!(name("INTERVAL '-08:00' HOUR TO MINUTE").as_deref(), Some("<-08>+08"));
        assert_eq!(name("america/new_york").as_deref(), Some("America/New_York"));
        assert_eq!(name("PST"), None);
    }
}
