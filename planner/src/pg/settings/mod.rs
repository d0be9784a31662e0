//! Run-time settings (`SET`, `SHOW`): the ones with an effect or that drivers ask for, each with its check.

mod charset;
mod check;
mod dates;
mod derived;
mod known;
mod superusers;
mod units;

pub(crate) use superusers::is_of_superusers;
pub(crate) use units::bytes_text;
pub use units::{bytes, milliseconds};

use crate::pg::error::{Result, SqlError, SqlState, state};
pub use charset::Charset;
use check::Check;
pub use derived::Times;
use derived::Values;
pub(crate) use derived::{Limits, Watching};
use known::{KNOWN, find};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

/// What `server_version` says: the PostgreSQL release whose behaviour clients may expect.
pub const SERVER_VERSION: &str = "15.12";
pub const SERVER_VERSION_NUM: &str = "150012";

/// Who is connected.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    pub user: String,
    pub database: String,
    pub application_name: String,
    pub process_id: i32,
    /// None: it came by no network.
    pub ends: Option<Ends>,
}

/// Both ends of a client's connection.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

/// A setting as `SHOW ALL` and `pg_settings` tell it.
pub(crate) struct Shown {
    pub name: &'static str,
    pub value: String,
    /// The value after RESET.
    pub reset: String,
    /// The value of a server without configuration.
    pub boot: &'static str,
    pub kind: &'static str,
    /// The words that it takes, where it takes no others.
    pub words: Option<&'static [&'static str]>,
    /// Whether it is a time, which `pg_settings` gives in milliseconds.
    pub duration: bool,
    pub fixed: bool,
    pub of_superusers: bool,
    pub about: &'static str,
}

/// A session's settings. Cloning is cheap, and a clone is what ROLLBACK goes back to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Settings {
    values: Arc<Values>,
}

impl Settings {
    /// The value; None for a name that is unknown.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        match find(name) {
            Some(known) => Some(
                self.values
                    .set()
                    .get(known.name)
                    .map_or(known.default, String::as_str)
                    .to_string(),
            ),
            None => self.values.set().get(&name.to_lowercase()).cloned(),
        }
    }

    /// A value as it is once these are set, which have been checked: name, value, only for the transaction.
    pub(crate) fn get_after(&self, assigned: &[(String, String, bool)], name: &str) -> Option<String> {
        if assigned.is_empty() {
            return self.get(name);
        }
        let mut settings = self.clone();
        for (name, value, _) in assigned {
            let _ = settings.set(name, value);
        }
        settings.get(name)
    }

    /// Sets a value after its check. `Ok(false)`: the name is unknown, and kept only because clients set such things.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let Some(known) = find(name) else {
            if name.to_lowercase().starts_with("tenon.") {
                let message = format!("invalid configuration parameter name \"{name}\"");
                return Err(SqlError::new(SqlState("42602"), message).detail("\"tenon\" is a reserved prefix."));
            }
            let custom = name.contains('.');
            self.put(name.to_lowercase(), value.to_string());
            return Ok(custom);
        };
        let value = known
            .check
            .apply(known.name, value, &self.get(known.name).unwrap_or_default())?;
        self.put(known.name.to_string(), value);
        Ok(true)
    }

    /// For the server itself: no check. What changes nothing leaves the settings the same as all copies of them: BEGIN and COMMIT
    /// come here each time, and what follows from settings is not computed anew.
    pub(crate) fn put(&mut self, name: String, value: String) {
        if self.get(&name).as_ref() == Some(&value) {
            return;
        }
        Arc::make_mut(&mut self.values).change().insert(name, value);
    }

    pub(crate) fn reset(&mut self, name: &str, to: &Settings) -> Result<()> {
        let name = match find(name) {
            Some(known) => known.name.to_string(),
            None if self.values.set().contains_key(&name.to_lowercase()) => name.to_lowercase(),
            None => return Err(unrecognized(name)),
        };
        match to.values.set().get(&name) {
            Some(value) => self.put(name, value.clone()),
            None => {
                Arc::make_mut(&mut self.values).change().remove(&name);
            }
        }
        Ok(())
    }

    /// Every setting, as `reset` would leave it too.
    pub(crate) fn all(&self, startup: &Settings) -> Vec<Shown> {
        let value = |of: &Settings, name: &str| of.get(name).unwrap_or_default();
        KNOWN
            .iter()
            .map(|known| Shown {
                name: known.name,
                value: value(self, known.name),
                reset: value(startup, known.name),
                boot: known.default,
                kind: known.check.kind(),
                words: match known.check {
                    Check::OneOf(words) => Some(words),
                    _ => None,
                },
                duration: matches!(known.check, Check::Duration | Check::DurationOrOff),
                fixed: known.check == Check::Fixed,
                of_superusers: known.is_of_superusers(),
                about: known.about,
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

    /// Whom the session is of; `connected` as long as it was not told otherwise.
    pub(crate) fn session_user(&self, connected: &str) -> String {
        let told = self.get("session_authorization").filter(|name| !name.is_empty());
        told.unwrap_or_else(|| connected.to_string())
    }

    /// The role that the session acts as.
    pub(crate) fn current_user(&self, connected: &str) -> String {
        let told = self.get("role").filter(|name| name != "none");
        told.unwrap_or_else(|| self.session_user(connected))
    }

    /// Whether rows are written as another server has checked them.
    pub(crate) fn is_replica(&self) -> bool {
        let own = self.values.set().get(known::REPLICATION_ROLE);
        own.is_some_and(|own| own == "replica")
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "on")
    }
}

/// A setting's name in its own spelling.
pub(crate) fn canonical(name: &str) -> String {
    find(name).map_or_else(|| name.to_lowercase(), |known| known.name.to_string())
}

/// Whether it is none that the server has, but a client's own.
pub(crate) fn is_custom(name: &str) -> bool {
    find(name).is_none()
}

pub(crate) fn unrecognized(name: &str) -> SqlError {
    SqlError::new(
        state::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

/// Names separated by commas, each folded unless quoted.
pub(crate) fn split_names(list: &str) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_executor::options::{DeviceChoice, JoinOperator, JoinOptions};

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
        assert!(settings.set("client_encoding", "latin1").unwrap());
        assert_eq!(settings.set("client_encoding", "sjis").unwrap_err().state.0, "0A000");
        assert_eq!(settings.get("nothing"), None);
        settings.set("statement_timeout", "7000").unwrap();
        assert_eq!(settings.get("statement_timeout").as_deref(), Some("7s"));
    }

    /// What is made of the settings changes with them, and not for those who have a copy of before.
    #[test]
    fn what_follows_from_settings_follows_them() {
        let seconds = |settings: &Settings| settings.times().statement.map(|limit| limit.as_secs());
        let mut settings = Settings::default();
        assert_eq!(seconds(&settings), None);
        settings.set("statement_timeout", "7000").unwrap();
        assert_eq!(seconds(&settings), Some(7));
        let before = settings.clone();
        assert!(before.plans_like(&settings));
        settings.set("statement_timeout", "8000").unwrap();
        assert_eq!((seconds(&before), seconds(&settings)), (Some(7), Some(8)));
        assert!(before.plans_like(&settings) && before != settings);
        settings.set("extra_float_digits", "0").unwrap();
        assert!(!before.plans_like(&settings));
        settings.reset("extra_float_digits", &before).unwrap();
        assert!(before.plans_like(&settings));
        settings.reset("statement_timeout", &Settings::default()).unwrap();
        assert_eq!(seconds(&settings), None);
    }

    #[test]
    fn joins_are_asked_for_by_name() {
        let mut settings = Settings::default();
        assert_eq!(settings.join_options(), JoinOptions::default());
        settings.set("tenon.join_operator", "SMJ").unwrap();
        settings.set("tenon.device", "cpu").unwrap();
        settings.set("tenon.gpu_memory_limit", "2GiB").unwrap();
        settings.set("tenon.wait_for_compile", "true").unwrap();
        let expected = JoinOptions {
            operator: JoinOperator::Smj,
            device: DeviceChoice::Cpu,
            gpu_memory_limit_bytes: Some(2 << 30),
            wait_for_compile: true,
            count_rows: false,
        };
        assert_eq!(settings.join_options(), expected);
        for (name, value) in [
            ("join_operator", "hash"),
            ("device", "tpu"),
            ("gpu_memory_limit", "much"),
        ] {
            let error = settings.set(&format!("tenon.{name}"), value).unwrap_err();
            assert_eq!(error.state.0, "22023", "{name}");
            assert!(error.hint.is_some_and(|hint| hint.contains("auto")), "{name}");
        }
        assert_eq!(settings.set("tenon.nothing", "1").unwrap_err().state.0, "42602");
    }

    #[test]
    fn paths() {
        let mut settings = Settings::default();
        settings.set("search_path", "\"$user\", \"My S\", Public").unwrap();
        assert_eq!(settings.search_path("ann"), ["ann", "My S", "public"]);
    }
}
