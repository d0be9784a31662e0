//! `pg_stat_user_tables`: how tables were read and changed; `pg_stat_progress_copy` and its like: how far statements are.

use super::DATABASE_OID;
use super::indexes::ShownIndex;
use super::relations::{relations, stored};
use super::rights;
use super::rows::{Row, Value, row};
use crate::catalog::bind::Binder;
use crate::catalog::services::{ShownSession, Work};
use tenon_storage::store::CheckpointProgress;
use tenon_storage::{Relation, TableVersion};

/// Of the crate's tables, the one that has other columns than PostgreSQL 15's.
pub(super) const NOT_BUILT_IN: &str = "pg_stat_user_tables";

pub(super) const TABLES: &[(&str, &str)] = &[
    ("relid", "oid"),
    ("schemaname", "text"),
    ("relname", "text"),
    ("seq_scan", "bigint"),
    ("seq_tup_read", "bigint"),
    ("idx_scan", "bigint"),
    ("idx_tup_fetch", "bigint"),
    ("n_tup_ins", "bigint"),
    ("n_tup_upd", "bigint"),
    ("n_tup_del", "bigint"),
    ("n_tup_hot_upd", "bigint"),
    ("n_live_tup", "bigint"),
    ("n_dead_tup", "bigint"),
    ("n_mod_since_analyze", "bigint"),
    ("n_ins_since_vacuum", "bigint"),
    ("last_vacuum", "timestamptz"),
    ("last_autovacuum", "timestamptz"),
    ("last_analyze", "timestamptz"),
    ("last_autoanalyze", "timestamptz"),
    ("vacuum_count", "bigint"),
    ("autovacuum_count", "bigint"),
    ("analyze_count", "bigint"),
    ("autoanalyze_count", "bigint"),
];

/// Rows of views of which nothing but these has any: tables are in memory, and none of their blocks is read.
pub(super) fn rows(binder: &Binder, view: &str) -> Vec<Row> {
    match view {
        "pg_statio_all_tables" | "pg_statio_user_tables" => stored(binder).map(|table| blocks_of(table)).collect(),
        "pg_statio_all_indexes" | "pg_statio_user_indexes" => ShownIndex::all(binder)
            .map(|index| {
                row! {
                    "relid": index.relation.oid(),
                    "indexrelid": index.oid,
                    "schemaname": index.relation.schema_name(),
                    "relname": index.relation.name(),
                    "indexrelname": index.name,
                    "idx_blks_read": 0_i64,
                    "idx_blks_hit": 0_i64,
                }
            })
            .collect(),
        "pg_statio_all_sequences" | "pg_statio_user_sequences" => relations(binder)
            .filter_map(Relation::as_sequence)
            .map(|sequence| {
                row! {
                    "relid": sequence.oid,
                    "schemaname": sequence.schema_name.as_str(),
                    "relname": sequence.name.as_str(),
                    "blks_read": 0_i64,
                    "blks_hit": 0_i64,
                }
            })
            .collect(),
        "pg_stat_database" => vec![row! {
            "datid": DATABASE_OID,
            "datname": binder.facts.info.database.as_str(),
            "numbackends": binder.services.sessions.shown().len() as i64,
        }],
        "pg_group" => rights::groups(binder),
        _ => Vec::new(),
    }
}

fn blocks_of(table: &TableVersion) -> Row {
    let definition = table.definition();
    let of_indexes = definition.all_indexes().next().map(|_| 0_i64);
    row! {
        "relid": table.oid(),
        "schemaname": definition.schema_name.as_str(),
        "relname": table.name(),
        "heap_blks_read": 0_i64,
        "heap_blks_hit": 0_i64,
        "idx_blks_read": of_indexes,
        "idx_blks_hit": of_indexes,
    }
}

pub(super) fn tables(binder: &Binder) -> Vec<Row> {
    let mut out = vec![];
    for table in stored(binder) {
        let definition = table.definition();
        let uses = definition.usage.get();
        let has_index = definition.all_indexes().next().is_some();
        // Rows that are gone and lie in segments still.
        let dead = table.segments().iter().filter_map(|segment| segment.live());
        let dead: usize = dead.map(|live| live.all_rows() - live.rows()).sum();
        out.push(row! {
            "relid": table.oid(),
            "schemaname": definition.schema_name.as_str(),
            "relname": table.name(),
            "seq_scan": uses.scans as i64,
            "seq_tup_read": uses.scanned_rows as i64,
            "idx_scan": has_index.then_some(uses.index_scans as i64),
            "idx_tup_fetch": has_index.then_some(uses.index_rows as i64),
            "n_tup_ins": uses.inserted as i64,
            "n_tup_upd": uses.updated as i64,
            "n_tup_del": uses.deleted as i64,
            "n_tup_hot_upd": 0_i64,
            "n_live_tup": table.rows() as i64,
            "n_dead_tup": dead as i64,
            "n_mod_since_analyze": uses.changed_since as i64,
            "n_ins_since_vacuum": uses.inserted as i64,
            "last_analyze": uses.analyzed_us.map_or(Value::Null, Value::Time),
            "vacuum_count": 0_i64,
            "autovacuum_count": 0_i64,
            "analyze_count": uses.analyzed as i64,
            "autoanalyze_count": 0_i64,
        });
    }
    out
}

pub(super) const COPIES: &[(&str, &str)] = &[
    ("pid", "int"),
    ("datid", "oid"),
    ("datname", "text"),
    ("relid", "oid"),
    ("command", "text"),
    ("type", "text"),
    ("bytes_processed", "bigint"),
    ("bytes_total", "bigint"),
    ("tuples_processed", "bigint"),
    ("tuples_excluded", "bigint"),
];

pub(super) fn copies(binder: &Binder) -> Vec<Row> {
    let row = |session: ShownSession| {
        let Some(Work::Copy {
            relation,
            from,
            total_bytes,
            progress,
        }) = session.work
        else {
            return None;
        };
        let (bytes, rows) = progress.get();
        Some(row! {
            "pid": session.info.process_id,
            "datid": DATABASE_OID,
            "datname": session.info.database.as_str(),
            "relid": relation,
            "command": if from { "COPY FROM" } else { "COPY TO" },
            "type": if total_bytes > 0 { "FILE" } else { "PIPE" },
            "bytes_processed": bytes as i64,
            "bytes_total": total_bytes as i64,
            "tuples_processed": rows as i64,
            "tuples_excluded": 0_i64,
        })
    };
    binder.services.sessions.shown().into_iter().filter_map(row).collect()
}

pub(super) const INDEXES: &[(&str, &str)] = &[
    ("pid", "int"),
    ("datid", "oid"),
    ("datname", "text"),
    ("relid", "oid"),
    ("index_relid", "oid"),
    ("command", "text"),
    ("phase", "text"),
    ("lockers_total", "bigint"),
    ("lockers_done", "bigint"),
    ("current_locker_pid", "bigint"),
    ("blocks_total", "bigint"),
    ("blocks_done", "bigint"),
    ("tuples_total", "bigint"),
    ("tuples_done", "bigint"),
    ("partitions_total", "bigint"),
    ("partitions_done", "bigint"),
];

/// An index is sorted as a whole: it has no rows until it has all of them.
pub(super) fn indexes(binder: &Binder) -> Vec<Row> {
    let row = |session: ShownSession| {
        let Some(Work::CreateIndex { table, rows }) = session.work else {
            return None;
        };
        let mut row = row! {
            "pid": session.info.process_id,
            "datid": DATABASE_OID,
            "datname": session.info.database.as_str(),
            "relid": table,
            "index_relid": 0_i64,
            "command": "CREATE INDEX",
            "phase": "building index",
            "tuples_total": rows as i64,
        };
        let none = INDEXES[7..].iter().filter(|(name, _)| *name != "tuples_total");
        row.extend(none.map(|(name, _)| (*name, Value::Number(0))));
        Some(row)
    };
    binder.services.sessions.shown().into_iter().filter_map(row).collect()
}

/// PostgreSQL has no such view.
pub(super) const CHECKPOINTS: &[(&str, &str)] = &[
    ("datid", "oid"),
    ("datname", "text"),
    ("started", "timestamptz"),
    ("phase", "text"),
    ("segments_total", "bigint"),
    ("segments_copied", "bigint"),
    ("bytes_copied", "bigint"),
];

pub(super) fn checkpoints(binder: &Binder) -> Vec<Row> {
    let store = binder.services.database.store();
    let progress = store.and_then(|store| store.checkpoint_progress());
    let row = |progress: CheckpointProgress| {
        row! {
            "datid": DATABASE_OID,
            "datname": "tenon",
            "started": Value::Time(progress.started_us),
            "phase": progress.phase,
            "segments_total": progress.segments_total as i64,
            "segments_copied": progress.segments_copied as i64,
            "bytes_copied": progress.bytes_copied as i64,
        }
    };
    progress.into_iter().map(row).collect()
}
