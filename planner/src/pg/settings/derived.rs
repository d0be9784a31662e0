//! What is made of a session's settings for each of its statements: made once, and anew where a setting changes.

use super::{Settings, bytes, milliseconds};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tenon_executor::options::{DeviceChoice, JoinOperator, JoinOptions};
use tenon_storage::datetime::Conventions;

/// Settings that change no plan.
const OF_NO_PLAN: [&str; 24] = [
    "application_name",
    "auto_explain.log_analyze",
    "auto_explain.log_min_duration",
    "client_min_messages",
    "compute_query_id",
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "log_min_duration_statement",
    "log_parameter_max_length",
    "pg_stat_statements.track",
    "pg_stat_statements.track_planning",
    "pg_stat_statements.track_utility",
    "statement_timeout",
    "tenon.client_stalled_timeout",
    "tenon.query_memory_limit",
    "tenon.role_concurrency",
    "tenon.role_memory_limit",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
];

/// Settings that have been set, by their names.
#[derive(Debug, Default)]
pub(super) struct Values {
    set: BTreeMap<String, String>,
    derived: OnceLock<Derived>,
}

#[derive(Debug)]
struct Derived {
    joins: JoinOptions,
    conventions: Conventions,
    times: Times,
    limits: Limits,
    watching: Watching,
    floats: Option<i32>,
    escaped_bytea: bool,
    serializable: bool,
    of_plans: BTreeMap<String, String>,
}

/// Limits of time; None: there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    pub statement: Option<Duration>,
    pub lock: Option<Duration>,
    pub idle: Option<Duration>,
    pub idle_in_transaction: Option<Duration>,
    pub client_stalled: Option<Duration>,
}

/// What the session's statements may use, beside the server's own limits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// Memory of one statement; None: there is no limit.
    pub statement_bytes: Option<usize>,
    /// The same of all statements of the role's sessions.
    pub role_bytes: Option<usize>,
    /// Sessions of the role that run queries at a time; 0: any number.
    pub concurrency: usize,
}

/// What is told of executions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watching {
    /// Whether `pg_stat_statements` counts them, commands and the time of planning too.
    pub counts: bool,
    pub counts_utility: bool,
    pub counts_planning: bool,
    /// The log has a line for those that take so long, or their plans, with what their nodes did.
    pub log_statement: Option<Duration>,
    pub log_plan: Option<Duration>,
    pub log_analyze: bool,
    /// Of a parameter's value in the log; None: all of it.
    pub parameter_bytes: Option<usize>,
}

impl Watching {
    /// Whether the log may have something of an execution.
    pub fn logs(&self) -> bool {
        self.log_statement.is_some() || self.log_plan.is_some()
    }
}

impl Values {
    pub fn set(&self) -> &BTreeMap<String, String> {
        &self.set
    }

    pub fn change(&mut self) -> &mut BTreeMap<String, String> {
        self.derived = OnceLock::new();
        &mut self.set
    }
}

impl Clone for Values {
    /// For a change: what follows from the values is made anew.
    fn clone(&self) -> Self {
        Self {
            set: self.set.clone(),
            derived: OnceLock::new(),
        }
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.set == other.set
    }
}

impl Eq for Values {}

impl Hash for Values {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.set.hash(state);
    }
}

impl Settings {
    fn derived(&self) -> &Derived {
        self.values.derived.get_or_init(|| {
            let value = |name| self.get(name).unwrap_or_default();
            let limit = |name| {
                milliseconds(&value(name))
                    .filter(|ms| *ms > 0)
                    .map(Duration::from_millis)
            };
            let mut of_plans = self.values.set.clone();
            of_plans.retain(|name, _| !OF_NO_PLAN.contains(&name.as_str()));
            Derived {
                joins: JoinOptions {
                    operator: JoinOperator::named(&value("tenon.join_operator")).unwrap_or_default(),
                    device: DeviceChoice::named(&value("tenon.device")).unwrap_or_default(),
                    gpu_memory_limit_bytes: bytes(&value("tenon.gpu_memory_limit")),
                    wait_for_compile: value("tenon.wait_for_compile") == "on",
                    count_rows: false,
                },
                conventions: self.conventions_at(None),
                times: Times {
                    statement: limit("statement_timeout"),
                    lock: limit("lock_timeout"),
                    idle: limit("idle_session_timeout"),
                    idle_in_transaction: limit("idle_in_transaction_session_timeout"),
                    client_stalled: limit("tenon.client_stalled_timeout"),
                },
                limits: Limits {
                    statement_bytes: bytes(&value("tenon.query_memory_limit")),
                    role_bytes: bytes(&value("tenon.role_memory_limit")),
                    concurrency: value("tenon.role_concurrency").parse().unwrap_or(0),
                },
                watching: Watching {
                    counts: value("compute_query_id") != "off" && value("pg_stat_statements.track") != "none",
                    counts_utility: value("pg_stat_statements.track_utility") == "on",
                    counts_planning: value("pg_stat_statements.track_planning") == "on",
                    log_statement: milliseconds(&value("log_min_duration_statement")).map(Duration::from_millis),
                    log_plan: milliseconds(&value("auto_explain.log_min_duration")).map(Duration::from_millis),
                    log_analyze: value("auto_explain.log_analyze") == "on",
                    parameter_bytes: value("log_parameter_max_length").parse().ok(),
                },
                floats: value("extra_float_digits").parse().ok().filter(|digits| *digits <= 0),
                escaped_bytea: value("bytea_output") == "escape",
                serializable: value("default_transaction_isolation") == "serializable",
                of_plans,
            }
        })
    }

    /// What the session asks of its joins.
    pub(crate) fn join_options(&self) -> JoinOptions {
        self.derived().joins
    }

    /// How the session reads and writes dates, times and intervals; `now_us`: what `now` means in a text.
    pub(crate) fn conventions(&self, now_us: Option<i64>) -> Conventions {
        Conventions {
            now_us,
            ..self.derived().conventions.clone()
        }
    }

    pub(crate) fn times(&self) -> Times {
        self.derived().times
    }

    pub(crate) fn limits(&self) -> Limits {
        self.derived().limits
    }

    pub(crate) fn watching(&self) -> Watching {
        self.derived().watching
    }

    /// `extra_float_digits` where it is 0 or less.
    pub(crate) fn fewer_float_digits(&self) -> Option<i32> {
        self.derived().floats
    }

    /// Whether `bytea` is written with octal escapes.
    pub(crate) fn escapes_bytea(&self) -> bool {
        self.derived().escaped_bytea
    }

    /// Whether a transaction is serializable that does not say how it is isolated.
    pub(crate) fn is_serializable(&self) -> bool {
        self.derived().serializable
    }

    /// Whether both are one, so that nothing was set between them.
    pub(crate) fn is_same(&self, other: &Settings) -> bool {
        Arc::ptr_eq(&self.values, &other.values)
    }

    /// Whether a plan made under the one is right under the other.
    pub(crate) fn plans_like(&self, other: &Settings) -> bool {
        Arc::ptr_eq(&self.values, &other.values) || self.derived().of_plans == other.derived().of_plans
    }
}
