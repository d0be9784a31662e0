//! Which settings superusers alone may change.

use super::known::{Known, find};

/// Settings that superusers alone may change: those that PostgreSQL keeps for them, and what a role may use.
const OF_SUPERUSERS: [&str; 12] = [
    "auto_explain.log_analyze",
    "auto_explain.log_min_duration",
    "compute_query_id",
    "log_min_duration_statement",
    "log_parameter_max_length",
    "pg_stat_statements.track",
    "pg_stat_statements.track_planning",
    "pg_stat_statements.track_utility",
    "session_replication_role",
    "tenon.query_memory_limit",
    "tenon.role_concurrency",
    "tenon.role_memory_limit",
];

impl Known {
    pub fn is_of_superusers(&self) -> bool {
        OF_SUPERUSERS.contains(&self.name)
    }
}

/// Whether superusers alone may change a setting.
pub(crate) fn is_of_superusers(name: &str) -> bool {
    find(name).is_some_and(Known::is_of_superusers)
}
