//! CHECK constraints of tables, partitions and domains as `pg_constraint` and `pg_get_constraintdef` show them.

use super::relations::{relations, schema_oid};
use super::rows::{Row, row};
use crate::catalog::bind::Binder;
use tenon_storage::{Check, Object, Relation};

/// A condition with the oids of the table, or the domain, that it is of.
struct Shown<'a> {
    oid: u32,
    name: &'a str,
    schema: &'a str,
    table: u32,
    domain: u32,
    condition: &'a str,
}

/// An oid for what storage gives none: a part of the object with this oid. No other object's, as long as there are fewer than
/// half a million of them; the same until the object changes.
pub(super) fn part_oid(of: u32, at: usize) -> u32 {
    const PARTS_MAX: u32 = 2048;
    (1 << 30) | (of.wrapping_mul(PARTS_MAX).wrapping_add(at as u32) & ((1 << 30) - 1))
}

/// The conditions of a relation's own rows.
pub(super) fn of_relation(relation: &Relation) -> &[Check] {
    match relation {
        Relation::Table(table) => &table.definition().checks,
        Relation::Partition(partition) => &partition.checks,
        Relation::View(_) | Relation::Sequence(_) => &[],
    }
}

fn all(binder: &Binder) -> Vec<Shown<'_>> {
    let of_tables = relations(binder).flat_map(|relation| {
        of_relation(relation).iter().enumerate().map(|(at, check)| Shown {
            oid: part_oid(relation.oid(), at),
            name: &check.name,
            schema: relation.schema_name(),
            table: relation.oid(),
            domain: 0,
            condition: &check.condition,
        })
    });
    let domains = binder.snapshot.objects().values().filter_map(|object| match object {
        Object::Domain(of) => Some(of),
        _ => None,
    });
    let of_domains = domains.flat_map(|of| {
        of.checks.iter().enumerate().map(|(at, (name, condition))| Shown {
            oid: part_oid(of.oid, at),
            name,
            schema: &of.schema_name,
            table: 0,
            domain: of.oid,
            condition,
        })
    });
    of_tables.chain(of_domains).collect()
}

/// Rows of `pg_constraint`.
pub(super) fn constraints(binder: &Binder) -> Vec<Row> {
    let constraint = |shown: Shown<'_>| {
        row! {
            "oid": shown.oid,
            "conname": shown.name,
            "connamespace": schema_oid(binder, shown.schema),
            "contype": "c",
            "condeferrable": false,
            "condeferred": false,
            "convalidated": true,
            "conrelid": shown.table,
            "contypid": shown.domain,
            "conindid": 0_i64,
            "conparentid": 0_i64,
            "confrelid": 0_i64,
            "confupdtype": " ",
            "confdeltype": " ",
            "confmatchtype": " ",
            "conislocal": true,
            "coninhcount": 0_i64,
            "connoinherit": false,
            "conbin": shown.condition,
        }
    };
    all(binder).into_iter().map(constraint).collect()
}

/// `pg_get_constraintdef` of the condition with this oid.
pub(super) fn definition(binder: &Binder, oid: i64) -> Option<String> {
    let shown = all(binder).into_iter().find(|shown| i64::from(shown.oid) == oid)?;
    Some(format!("CHECK (({}))", shown.condition))
}
