//! The settings that have an effect or that drivers ask for.

use super::check::Check;
use super::{SERVER_VERSION, SERVER_VERSION_NUM};
use tenon_executor::options::{DeviceChoice, JoinOperator};

pub(super) struct Known {
    pub name: &'static str,
    pub default: &'static str,
    pub check: Check,
    /// Reported to the client when it changes.
    pub report: bool,
    pub about: &'static str,
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

pub(super) static KNOWN: &[Known] = &[
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
        Check::OneOf(&["hex", "escape"]),
        false,
        "Output format of bytea.",
    ),
    known(
        "check_function_bodies",
        "on",
        Check::Bool,
        false,
        "No effect: bodies are checked.",
    ),
    known(
        "client_encoding",
        "UTF8",
        Check::Charset,
        true,
        "What the client's texts are written in.",
    ),
    known(
        "client_min_messages",
        "notice",
        Check::OneOf(&[
            "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice", "warning", "error",
        ]),
        false,
        "Least severe messages sent to the client.",
    ),
    known(
        "DateStyle",
        "ISO, MDY",
        Check::DateStyle,
        true,
        "Form of dates in output, and order of day, month and year.",
    ),
    known("default_tablespace", "", Check::Any, false, "No effect."),
    known("default_table_access_method", "heap", Check::Any, false, "No effect."),
    known(
        "default_transaction_deferrable",
        "off",
        Check::Bool,
        false,
        "Deferrable state of new transactions, which nothing depends on.",
    ),
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
        "escape_string_warning",
        "on",
        Check::Bool,
        false,
        "No effect: strings with backslashes are not warned of.",
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
        "Longest idle time in a transaction; 0: no limit.",
    ),
    known(
        "idle_session_timeout",
        "0",
        Check::Duration,
        false,
        "Longest idle time outside a transaction; 0: no limit.",
    ),
    known("in_hot_standby", "off", Check::Fixed, true, "Always off."),
    known("integer_datetimes", "on", Check::Fixed, true, "Always on."),
    known(
        "IntervalStyle",
        "postgres",
        Check::OneOf(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
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
        "Longest wait for a row that another transaction changes; 0: none.",
    ),
    known(
        "max_connections",
        "100",
        Check::Fixed,
        false,
        "See the server's configuration.",
    ),
    known("max_identifier_length", "63", Check::Fixed, false, "Longest name."),
    known(
        "max_prepared_transactions",
        "0",
        Check::Fixed,
        false,
        "There is no two-phase commit.",
    ),
    known(
        "plan_cache_mode",
        "auto",
        Check::OneOf(&["auto", "force_generic_plan", "force_custom_plan"]),
        false,
        "Whether prepared statements keep plans for any values of their parameters.",
    ),
    known("role", "none", Check::Any, false, "The role that the session acts as."),
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
        Check::Any,
        true,
        "The user of the session.",
    ),
    known(
        "standard_conforming_strings",
        "on",
        Check::Bool,
        true,
        "Whether backslashes in strings are plain.",
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
        "tenon.client_stalled_timeout",
        "15min",
        Check::Duration,
        false,
        "Longest time for which a client may read nothing of its result; 0: no limit.",
    ),
    known(
        "tenon.device",
        "auto",
        Check::OneOf(DeviceChoice::NAMES),
        false,
        "Where joins run, and with scans, filters and groupings around them where that pays.",
    ),
    known(
        "tenon.gpu_memory_limit",
        "auto",
        Check::Size,
        false,
        "GPU memory that one statement may use, never more than the server's own limit; auto: what is free.",
    ),
    known(
        "tenon.join_operator",
        "auto",
        Check::OneOf(JoinOperator::NAMES),
        false,
        "The operator that joins use.",
    ),
    known(
        "tenon.shared_plans",
        "on",
        Check::Bool,
        false,
        "Whether queries and changes of rows sent as text are prepared once for all sessions, those that differ in literals among them.",
    ),
    known(
        "tenon.wait_for_compile",
        "off",
        Check::Bool,
        false,
        "Whether a statement waits for its code on the GPU, which is else compiled while the CPU does the work.",
    ),
    known(
        "TimeZone",
        "UTC",
        Check::Zone,
        true,
        "Zone in which points in time are read, shown and counted.",
    ),
    known(
        "transaction_deferrable",
        "off",
        Check::Bool,
        false,
        "Deferrable state of this transaction, which nothing depends on.",
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

pub(super) fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}
