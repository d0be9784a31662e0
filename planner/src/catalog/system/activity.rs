//! `pg_stat_activity`: the sessions and what they do; `pg_stat_statements`: what was done, how often and for how long.

use super::DATABASE_OID;
use super::rows::{Row, Value, row};
use crate::catalog::bind::Binder;
use crate::catalog::services::{CountedStatement, ShownSession};
use tenon_storage::roles::{BOOTSTRAP, READ_ALL_STATS};

/// What stands in the place of a text that is withheld.
const WITHHELD: &str = "<insufficient privilege>";

/// Whether the role sees what others do.
pub(super) fn sees_all(binder: &Binder) -> bool {
    binder.acting.has_rights_of(&binder.snapshot, READ_ALL_STATS)
}

pub(super) const SESSIONS: &[(&str, &str)] = &[
    ("datid", "oid"),
    ("datname", "text"),
    ("pid", "int"),
    ("leader_pid", "int"),
    ("usesysid", "oid"),
    ("usename", "text"),
    ("application_name", "text"),
    ("client_addr", "inet"),
    ("client_hostname", "text"),
    ("client_port", "int"),
    ("backend_start", "timestamptz"),
    ("xact_start", "timestamptz"),
    ("query_start", "timestamptz"),
    ("state_change", "timestamptz"),
    ("wait_event_type", "text"),
    ("wait_event", "text"),
    ("state", "text"),
    ("backend_xid", "bigint"),
    ("backend_xmin", "bigint"),
    ("query_id", "bigint"),
    ("query", "text"),
    ("backend_type", "text"),
];

pub(super) fn sessions(binder: &Binder) -> Vec<Row> {
    let shown = binder.services.sessions.shown().into_iter();
    let (sees_all, state) = (sees_all(binder), &binder.snapshot);
    let row = |session: ShownSession| {
        let user = session.info.user.as_str();
        // A name that is no role is the first superuser's.
        let role = state.role(user).map_or(BOOTSTRAP, |role| role.oid);
        let mut shown = row! {
            "datid": DATABASE_OID,
            "datname": session.info.database.as_str(),
            "pid": session.info.process_id,
            "usesysid": role,
            "usename": user,
            "application_name": session.application_name,
        };
        if !sees_all && !binder.acting.has_rights_of(state, role) {
            shown.extend(row! { "query": WITHHELD });
            return shown;
        }
        let time = |us: Option<i64>| us.map_or(Value::Null, Value::Time);
        shown.extend(row! {
            "client_addr": session.info.ends.map(|ends| ends.client.ip()),
            // As there, a client that came by no network has this.
            "client_port": session.info.ends.map_or(-1, |ends| i32::from(ends.client.port())),
            "backend_start": Value::Time(session.start_us),
            "xact_start": time(session.transaction_us),
            "query_start": time(session.query_start_us),
            "state_change": Value::Time(session.changed_us),
            "wait_event_type": session.waits.map(|(kind, _)| kind),
            "wait_event": session.waits.map(|(_, event)| event),
            "state": session.state,
            "query_id": session.query_id,
            "query": session.query,
            "backend_type": "client backend",
        });
        shown
    };
    shown.map(row).collect()
}

/// As the extension's version 1.10 has them.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("userid", "oid"),
    ("dbid", "oid"),
    ("toplevel", "bool"),
    ("queryid", "bigint"),
    ("query", "text"),
    ("plans", "bigint"),
    ("total_plan_time", "float"),
    ("min_plan_time", "float"),
    ("max_plan_time", "float"),
    ("mean_plan_time", "float"),
    ("stddev_plan_time", "float"),
    ("calls", "bigint"),
    ("total_exec_time", "float"),
    ("min_exec_time", "float"),
    ("max_exec_time", "float"),
    ("mean_exec_time", "float"),
    ("stddev_exec_time", "float"),
    ("rows", "bigint"),
    ("shared_blks_hit", "bigint"),
    ("shared_blks_read", "bigint"),
    ("shared_blks_dirtied", "bigint"),
    ("shared_blks_written", "bigint"),
    ("local_blks_hit", "bigint"),
    ("local_blks_read", "bigint"),
    ("local_blks_dirtied", "bigint"),
    ("local_blks_written", "bigint"),
    ("temp_blks_read", "bigint"),
    ("temp_blks_written", "bigint"),
    ("blk_read_time", "float"),
    ("blk_write_time", "float"),
    ("temp_blk_read_time", "float"),
    ("temp_blk_write_time", "float"),
    ("wal_records", "bigint"),
    ("wal_fpi", "bigint"),
    ("wal_bytes", "bigint"),
    ("jit_functions", "bigint"),
    ("jit_generation_time", "float"),
    ("jit_inlining_count", "bigint"),
    ("jit_inlining_time", "float"),
    ("jit_optimization_count", "bigint"),
    ("jit_optimization_time", "float"),
    ("jit_emission_count", "bigint"),
    ("jit_emission_time", "float"),
];

pub(super) fn statements(binder: &Binder) -> Vec<Row> {
    // There are no blocks, and nothing is known of what they would count.
    let zeros = || STATEMENTS[18..].iter().map(|(name, _)| (*name, Value::Number(0)));
    let sees_all = sees_all(binder);
    let row = |statement: CountedStatement| {
        let (id, text) = match sees_all {
            true => (Some(statement.id), &*statement.text),
            false => (None, WITHHELD),
        };
        let (plans, runs) = (statement.plans, statement.executions);
        let mut row = row! {
            "userid": BOOTSTRAP,
            "dbid": DATABASE_OID,
            "toplevel": true,
            "queryid": id,
            "query": text,
            "plans": plans.count as i64,
            "total_plan_time": plans.total_ms,
            "min_plan_time": plans.min_ms,
            "max_plan_time": plans.max_ms,
            "mean_plan_time": plans.mean_ms,
            "stddev_plan_time": plans.deviation_ms,
            "calls": runs.count as i64,
            "total_exec_time": runs.total_ms,
            "min_exec_time": runs.min_ms,
            "max_exec_time": runs.max_ms,
            "mean_exec_time": runs.mean_ms,
            "stddev_exec_time": runs.deviation_ms,
            "rows": statement.rows as i64,
        };
        row.extend(zeros());
        row
    };
    binder.services.counted.shown().into_iter().map(row).collect()
}

pub(super) const INFO: &[(&str, &str)] = &[("dealloc", "bigint"), ("stats_reset", "timestamptz")];

pub(super) fn info(binder: &Binder) -> Vec<Row> {
    let (given_up, reset_us) = binder.services.counted.info();
    vec![row! { "dealloc": given_up as i64, "stats_reset": Value::Time(reset_us) }]
}
