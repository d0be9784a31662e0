//! `pg_locks`: advisory locks and those on tables. What rows are locked is not told.

use super::DATABASE_OID;
use super::rows::{Row, Value, row};
use crate::catalog::bind::Binder;
use crate::pg::functions::advisory::{Key, Shown, mode_name};

pub(super) const NAME: &str = "pg_locks";

pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("locktype", "text"),
    ("database", "oid"),
    ("relation", "oid"),
    ("page", "int"),
    ("tuple", "smallint"),
    ("virtualxid", "text"),
    ("transactionid", "bigint"),
    ("classid", "oid"),
    ("objid", "oid"),
    ("objsubid", "smallint"),
    ("virtualtransaction", "text"),
    ("pid", "int"),
    ("mode", "text"),
    ("granted", "bool"),
    ("fastpath", "bool"),
    ("waitstart", "timestamptz"),
];

pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let shown = binder.facts.advisory.shown().into_iter();
    let row = |lock: Shown| {
        // One number by its halves.
        let (class, object, part) = match lock.key {
            Key::One(number) => ((number >> 32) as u32, number as u32, 1),
            Key::Two(first, second) => (first as u32, second as u32, 2),
        };
        row! {
            "locktype": "advisory",
            "database": DATABASE_OID,
            "classid": class,
            "objid": object,
            "objsubid": part,
            "pid": lock.process_id,
            "mode": mode_name(lock.mode),
            "granted": lock.waits_since_us.is_none(),
            "fastpath": false,
            "waitstart": lock.waits_since_us.map_or(Value::Null, Value::Time),
        }
    };
    let tables = binder.services.database.locked_tables().into_iter().map(|lock| {
        row! {
            "locktype": "relation",
            "database": DATABASE_OID,
            "relation": lock.table,
            "pid": lock.process,
            "mode": lock.mode.name(),
            "granted": lock.granted,
            "fastpath": false,
        }
    });
    shown.map(row).chain(tables).collect()
}
