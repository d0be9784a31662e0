//! Run-time settings (`SET`, `SHOW`): the ones with an effect or that drivers ask for, each with its check.

use crate::error::{Result, SqlError, SqlState, state};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What `server_version` says: the PostgreSQL release whose behaviour clients may expect.
pub const SERVER_VERSION: &str = "15.12";
pub const SERVER_VERSION_NUM: &str = "150012";

#[derive(Clone, Copy, PartialEq)]
enum Check {
    /// Cannot be set.
    Fixed,
    Any,
    Bool,
    /// A number, within bounds, with an optional unit.
    Integer(i64, i64),
    /// Milliseconds, with an optional unit.
    Duration,
    OneOf(&'static [&'static str]),
    Utf8,
    Zone,
}

struct Known {
    name: &'static str,
    default: &'static str,
    check: Check,
    /// Reported to the client when it changes.
    report: bool,
    about: &'static str,
}

const fn known(name: &'static str, default: &'static str, check: Check, report: bool, about: &'static str) -> Known {
    Known {
        name,
        default,
        check,
        report,
        about,
    }
}

const ISOLATION: Check = Check::OneOf(&["read committed", "read uncommitted", "repeatable read", "serializable"]);

static KNOWN: &[Known] = &[
    known(
        "application_name",
        "",
        Check::Any,
        true,
        "The client's name for itself.",
    ),
    known(
        "bytea_output",
        "hex",
        Check::OneOf(&["hex"]),
        false,
        "Output format of bytea.",
    ),
    known(
        "check_function_bodies",
        "on",
        Check::Bool,
        false,
        "No effect: there are no functions to create.",
    ),
    known("client_encoding", "UTF8", Check::Utf8, true, "Always UTF8."),
    known(
        "client_min_messages",
        "notice",
        Check::Any,
        false,
        "Least severe messages sent to the client.",
    ),
    known("DateStyle", "ISO, MDY", Check::Any, true, "Output of dates is ISO."),
    known("default_tablespace", "", Check::Any, false, "No effect."),
    known("default_table_access_method", "heap", Check::Any, false, "No effect."),
    known(
        "default_transaction_isolation",
        "read committed",
        ISOLATION,
        false,
        "Isolation of new transactions.",
    ),
    known(
        "default_transaction_read_only",
        "off",
        Check::Bool,
        true,
        "Read-only state of new transactions.",
    ),
    known(
        "extra_float_digits",
        "1",
        Check::Integer(-15, 3),
        false,
        "Floats are written in shortest exact form.",
    ),
    known(
        "idle_in_transaction_session_timeout",
        "0",
        Check::Duration,
        false,
        "Longest idle time in a transaction.",
    ),
    known("in_hot_standby", "off", Check::Fixed, true, "Always off."),
    known("integer_datetimes", "on", Check::Fixed, true, "Always on."),
    known(
        "IntervalStyle",
        "postgres",
        Check::OneOf(&["postgres"]),
        true,
        "Output style of intervals.",
    ),
    known(
        "is_superuser",
        "on",
        Check::Fixed,
        true,
        "Every user may do everything.",
    ),
    known("jit", "off", Check::Bool, false, "No effect."),
    known(
        "lock_timeout",
        "0",
        Check::Duration,
        false,
        "No effect: nothing waits for locks.",
    ),
    known(
        "max_connections",
        "100",
        Check::Fixed,
        false,
        "See the server's configuration.",
    ),
    known("max_identifier_length", "63", Check::Fixed, false, "Longest name."),
    known("row_security", "on", Check::Bool, false, "No effect."),
    known(
        "search_path",
        "\"$user\", public",
        Check::Any,
        false,
        "Schemas in which names are looked up.",
    ),
    known("server_encoding", "UTF8", Check::Fixed, true, "Always UTF8."),
    known(
        "server_version",
        SERVER_VERSION,
        Check::Fixed,
        true,
        "The PostgreSQL release spoken.",
    ),
    known(
        "server_version_num",
        SERVER_VERSION_NUM,
        Check::Fixed,
        false,
        "The same as a number.",
    ),
    known(
        "session_authorization",
        "",
        Check::Fixed,
        true,
        "The user of the session.",
    ),
    known(
        "standard_conforming_strings",
        "on",
        Check::OneOf(&["on"]),
        true,
        "Backslashes in strings are plain.",
    ),
    known(
        "statement_timeout",
        "0",
        Check::Duration,
        false,
        "Longest time of a statement; 0: no limit.",
    ),
    known("synchronous_commit", "on", Check::Any, false, "No effect."),
    known(
        "TimeZone",
        "UTC",
        Check::Zone,
        true,
        "Zone in which timestamptz values are shown; input and arithmetic are in UTC.",
    ),
    known(
        "transaction_isolation",
        "read committed",
        ISOLATION,
        false,
        "Isolation of the current transaction.",
    ),
    known(
        "transaction_read_only",
        "off",
        Check::Bool,
        false,
        "Whether the current transaction may write.",
    ),
    known(
        "work_mem",
        "4MB",
        Check::Any,
        false,
        "No effect: see the server's configuration.",
    ),
    known("xmloption", "content", Check::Any, false, "No effect."),
];

/// A session's settings. Cloning is cheap, and a clone is what ROLLBACK goes back to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Settings {
    values: Arc<BTreeMap<String, String>>,
}

fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

impl Settings {
    /// The value; None for a name that is unknown.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        match find(name) {
            Some(known) => Some(
                self.values
                    .get(known.name)
                    .map_or(known.default, String::as_str)
                    .to_string(),
            ),
            None => self.values.get(&name.to_lowercase()).cloned(),
        }
    }

    /// Sets a value after its check. `Ok(false)`: the name is unknown, and kept only because clients set such things.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let Some(known) = find(name) else {
            let custom = name.contains('.');
            self.put(name.to_lowercase(), value.to_string());
            return Ok(custom);
        };
        let value = known.checked(value)?;
        self.put(known.name.to_string(), value);
        Ok(true)
    }

    /// For the server itself: no check.
    pub(crate) fn put(&mut self, name: String, value: String) {
        Arc::make_mut(&mut self.values).insert(name, value);
    }

    pub(crate) fn reset(&mut self, name: &str, to: &Settings) -> Result<()> {
        let name = match find(name) {
            Some(known) => known.name.to_string(),
            None if self.values.contains_key(&name.to_lowercase()) => name.to_lowercase(),
            None => return Err(unrecognized(name)),
        };
        match to.values.get(&name) {
            Some(value) => self.put(name, value.clone()),
            None => {
                Arc::make_mut(&mut self.values).remove(&name);
            }
        }
        Ok(())
    }

    /// Every setting: name, value, what it is.
    pub(crate) fn all(&self) -> Vec<(String, String, String)> {
        KNOWN
            .iter()
            .map(|known| {
                (
                    known.name.to_string(),
                    self.get(known.name).unwrap_or_default(),
                    known.about.to_string(),
                )
            })
            .collect()
    }

    /// The settings that clients are told, with their values.
    pub(crate) fn reported(&self) -> Vec<(String, String)> {
        let reported = KNOWN.iter().filter(|known| known.report);
        reported
            .map(|known| (known.name.to_string(), self.get(known.name).unwrap_or_default()))
            .collect()
    }

    /// Reported settings whose value differs from an earlier state.
    pub(crate) fn changed_since(&self, earlier: &Settings) -> Vec<(String, String)> {
        if Arc::ptr_eq(&self.values, &earlier.values) {
            return Vec::new();
        }
        let before: BTreeSet<_> = earlier.reported().into_iter().collect();
        self.reported()
            .into_iter()
            .filter(|pair| !before.contains(pair))
            .collect()
    }

    /// The schemas of `search_path`, `$user` resolved.
    pub(crate) fn search_path(&self, user: &str) -> Vec<String> {
        let path = self.get("search_path").unwrap_or_default();
        split_names(&path)
            .into_iter()
            .map(|name| if name == "$user" { user.to_string() } else { name })
            .collect()
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "on")
    }
}

/// A setting's name in its own spelling.
pub(crate) fn canonical(name: &str) -> String {
    find(name).map_or_else(|| name.to_lowercase(), |known| known.name.to_string())
}

pub(crate) fn unrecognized(name: &str) -> SqlError {
    SqlError::new(
        state::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

/// Names separated by commas, each folded unless quoted.
fn split_names(list: &str) -> Vec<String> {
    let mut out = Vec::new();
    for piece in list.split(',') {
        let piece = piece.trim();
        match piece.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => out.push(quoted.replace("\"\"", "\"")),
            None if piece.is_empty() => {}
            None => out.push(piece.to_lowercase()),
        }
    }
    out
}

impl Known {
    fn checked(&self, value: &str) -> Result<String> {
        let name = self.name;
        let invalid = || {
            let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
            SqlError::new(state::INVALID_PARAMETER_VALUE, message)
        };
        match self.check {
            Check::Fixed => {
                let message = format!("parameter \"{name}\" cannot be changed");
                Err(SqlError::new(SqlState("55P02"), message))
            }
            Check::Any => Ok(value.to_string()),
            Check::Bool => match value.to_lowercase().as_str() {
                "on" | "true" | "yes" | "1" | "t" | "y" => Ok("on".into()),
                "off" | "false" | "no" | "0" | "f" | "n" => Ok("off".into()),
                _ => Err(invalid().hint("It takes a Boolean value: on or off.")),
            },
            Check::Integer(low, high) => {
                let number: i64 = value.trim().parse().map_err(|_| invalid())?;
                if (low..=high).contains(&number) {
                    return Ok(number.to_string());
                }
                let message = format!("{number} is outside the valid range for parameter \"{name}\" ({low} .. {high})");
                Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
            }
            Check::Duration => match milliseconds(value) {
                Some(_) => Ok(value.trim().to_string()),
                None => Err(invalid()
                    .hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")),
            },
            Check::OneOf(allowed) => match allowed.iter().find(|word| word.eq_ignore_ascii_case(value)) {
                Some(word) => Ok(word.to_string()),
                None => Err(invalid().hint(format!("Available values: {}.", allowed.join(", ")))),
            },
            Check::Utf8 => match value.to_lowercase().replace(['-', '_', '\''], "").as_str() {
                "utf8" | "unicode" | "auto" => Ok("UTF8".into()),
                "sqlascii" => Ok("UTF8".into()),
                _ => Err(SqlError::unsupported(format!("client encoding \"{value}\"")).hint("The encoding is UTF8.")),
            },
            // Names are those of the wire's encoder; the server itself reckons in UTC.
            Check::Zone => {
                let plain = |c: char| c.is_ascii_alphanumeric() || "/_+-:".contains(c);
                match value.to_lowercase().as_str() {
                    "default" | "local" | "zulu" | "z" | "gmt" | "utc" => Ok("UTC".into()),
                    _ if value.is_empty() || !value.chars().all(plain) => Err(invalid()),
                    _ => Ok(value.to_string()),
                }
            }
        }
    }
}

/// A duration setting in milliseconds: a number, in milliseconds unless it has a unit.
pub fn milliseconds(value: &str) -> Option<u64> {
    let value = value.trim().trim_matches('\'');
    let digits = value
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(value.len());
    let number: f64 = value[..digits].parse().ok()?;
    let factor = match value[digits..].trim() {
        "us" => 0.001,
        "" | "ms" => 1.0,
        "s" => 1e3,
        "min" => 60e3,
        "h" => 3_600e3,
        "d" => 86_400e3,
        _ => return None,
    };
    Some((number * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked() {
        let mut settings = Settings::default();
        assert_eq!(settings.get("datestyle").as_deref(), Some("ISO, MDY"));
        settings.set("extra_float_digits", "3").unwrap();
        assert_eq!(settings.get("extra_float_digits").as_deref(), Some("3"));
        assert_eq!(settings.set("extra_float_digits", "9").unwrap_err().state.0, "22023");
        assert_eq!(settings.set("server_version", "9").unwrap_err().state.0, "55P02");
        assert!(!settings.set("no_such_thing", "1").unwrap());
        assert!(settings.set("my.own", "1").unwrap());
        assert_eq!(settings.set("client_encoding", "latin1").unwrap_err().state.0, "0A000");
        assert_eq!(settings.get("nothing"), None);
    }

    #[test]
    fn durations_and_paths() {
        assert_eq!(milliseconds("1500"), Some(1500));
        assert_eq!(milliseconds("2s"), Some(2000));
        assert_eq!(milliseconds("1.5 min"), Some(90_000));
        assert_eq!(milliseconds("soon"), None);
        let mut settings = Settings::default();
        settings.set("search_path", "\"$user\", \"My S\", Public").unwrap();
        assert_eq!(settings.search_path("ann"), ["ann", "My S", "public"]);
    }
}
