//! FOREIGN KEY constraints as `pg_constraint`, `pg_get_constraintdef` and the information schema show them.

use super::relations::{schema_oid, stored};
use super::rows::{Row, row};
use crate::catalog::bind::Binder;
use std::collections::HashSet;
use std::sync::Arc;
use tenon_storage::{ForeignKey, ReferentialAction, TableVersion, quote};

/// All foreign keys: each with its table, the referenced one, and the columns of that.
pub(super) struct Shown<'a> {
    pub table: &'a Arc<TableVersion>,
    pub key: &'a ForeignKey,
    pub referenced: &'a Arc<TableVersion>,
    pub columns: Vec<usize>,
}

pub(super) fn all(binder: &Binder) -> impl Iterator<Item = Shown<'_>> {
    let keys = stored(binder).flat_map(|table| table.definition().foreign_keys.iter().map(move |key| (table, key)));
    keys.filter_map(|(table, key)| {
        let referenced = binder.snapshot.table_by_oid(key.references)?;
        Some(Shown {
            table,
            key,
            referenced,
            columns: key.referenced_columns(referenced.definition())?,
        })
    })
}

/// The tables that have foreign keys, or are referenced by some: PostgreSQL checks these by triggers, which psql asks for.
pub(super) fn tables(binder: &Binder) -> HashSet<u32> {
    let keys = stored(binder).flat_map(|table| table.definition().foreign_keys.iter().map(move |key| (table, key)));
    keys.flat_map(|(table, key)| [table.oid(), key.references]).collect()
}

fn numbers(columns: &[usize]) -> Vec<i64> {
    columns.iter().map(|at| *at as i64 + 1).collect()
}

fn letter(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "a",
        ReferentialAction::Restrict => "r",
        ReferentialAction::Cascade => "c",
        ReferentialAction::SetNull => "n",
        ReferentialAction::SetDefault => "d",
    }
}

fn words(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "NO ACTION",
        ReferentialAction::Restrict => "RESTRICT",
        ReferentialAction::Cascade => "CASCADE",
        ReferentialAction::SetNull => "SET NULL",
        ReferentialAction::SetDefault => "SET DEFAULT",
    }
}

/// Rows of `pg_constraint`.
pub(super) fn constraints(binder: &Binder) -> impl Iterator<Item = Row> {
    all(binder).map(|shown| {
        let Shown { table, key, .. } = &shown;
        row! {
            "oid": key.oid,
            "conname": key.name.as_str(),
            "connamespace": schema_oid(binder, &table.definition().schema_name),
            "contype": "f",
            "condeferrable": key.deferrable,
            "condeferred": key.initially_deferred,
            "convalidated": key.validated,
            "conrelid": table.oid(),
            "contypid": 0_i64,
            "conindid": key.index,
            "conparentid": 0_i64,
            "confrelid": key.references,
            "confupdtype": letter(key.on_update),
            "confdeltype": letter(key.on_delete),
            "confmatchtype": if key.match_full { "f" } else { "s" },
            "conislocal": true,
            "coninhcount": 0_i64,
            "connoinherit": true,
            "conkey": numbers(&key.columns),
            "confkey": numbers(&shown.columns),
            "confdelsetcols": (!key.on_delete_columns.is_empty()).then(|| numbers(&key.on_delete_columns)),
        }
    })
}

/// Whether there is a foreign key with this oid.
pub(super) fn is_one(binder: &Binder, oid: u32) -> bool {
    stored(binder).any(|table| table.definition().foreign_keys.iter().any(|key| key.oid == oid))
}

/// `pg_get_constraintdef` of the foreign key with this oid.
pub(super) fn definition(binder: &Binder, oid: i64) -> Option<String> {
    let shown = all(binder).find(|shown| i64::from(shown.key.oid) == oid)?;
    let list = |table: &TableVersion, columns: &[usize]| {
        let names = columns
            .iter()
            .map(|at| quote::identifier(&table.definition().columns[*at].name));
        names.collect::<Vec<_>>().join(", ")
    };
    let Shown {
        table, key, referenced, ..
    } = &shown;
    let mut out = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        list(table, &key.columns),
        relation_name(binder, referenced),
        list(referenced, &shown.columns)
    );
    if key.match_full {
        out.push_str(" MATCH FULL");
    }
    for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if action != ReferentialAction::NoAction {
            out.push_str(&format!(" ON {event} {}", words(action)));
        }
        if event == "DELETE" && !key.on_delete_columns.is_empty() {
            out.push_str(&format!(" ({})", list(table, &key.on_delete_columns)));
        }
    }
    for (said, what) in [
        (key.deferrable, " DEFERRABLE"),
        (key.initially_deferred, " INITIALLY DEFERRED"),
        (!key.validated, " NOT VALID"),
    ] {
        out.push_str(if said { what } else { "" });
    }
    Some(out)
}

/// The name by which the session finds a table: with its schema where the search path does not lead there.
fn relation_name(binder: &Binder, table: &TableVersion) -> String {
    let definition = table.definition();
    let mut path = binder.facts.path.iter();
    let first = path.find(|schema| binder.snapshot.relation(schema, &definition.name).is_some());
    match first == Some(&definition.schema_name) {
        true => quote::identifier(&definition.name),
        false => format!(
            "{}.{}",
            quote::identifier(&definition.schema_name),
            quote::identifier(&definition.name)
        ),
    }
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "YES" } else { "NO" }
}

/// Rows of `information_schema.table_constraints`.
pub(super) fn table_constraints<'a>(binder: &'a Binder, database: &'a str) -> impl Iterator<Item = Row> + 'a {
    all(binder).map(move |Shown { table, key, .. }| {
        let schema = table.definition().schema_name.as_str();
        row! {
            "constraint_catalog": database,
            "constraint_schema": schema,
            "constraint_name": key.name.as_str(),
            "table_catalog": database,
            "table_schema": schema,
            "table_name": table.name(),
            "constraint_type": "FOREIGN KEY",
            "is_deferrable": yes_or_no(key.deferrable),
            "initially_deferred": yes_or_no(key.initially_deferred),
            "enforced": "YES",
        }
    })
}

/// Rows of `information_schema.key_column_usage`.
pub(super) fn key_columns<'a>(binder: &'a Binder, database: &'a str) -> impl Iterator<Item = Row> + 'a {
    all(binder).flat_map(move |Shown { table, key, .. }| {
        let schema = table.definition().schema_name.as_str();
        let columns = key.columns.iter().zip(&key.places).enumerate();
        columns.map(move |(number, (at, place))| {
            row! {
                "constraint_catalog": database,
                "constraint_schema": schema,
                "constraint_name": key.name.as_str(),
                "table_catalog": database,
                "table_schema": schema,
                "table_name": table.name(),
                "column_name": table.definition().columns[*at].name.as_str(),
                "ordinal_position": number as i64 + 1,
                "position_in_unique_constraint": *place as i64 + 1,
            }
        })
    })
}

/// Rows of `information_schema.constraint_column_usage`: the columns that are referenced.
pub(super) fn used_columns<'a>(binder: &'a Binder, database: &'a str) -> impl Iterator<Item = Row> + 'a {
    all(binder).flat_map(move |shown| {
        let Shown {
            table,
            key,
            referenced,
            columns,
        } = shown;
        columns.into_iter().map(move |at| {
            row! {
                "table_catalog": database,
                "table_schema": referenced.definition().schema_name.as_str(),
                "table_name": referenced.name(),
                "column_name": referenced.definition().columns[at].name.as_str(),
                "constraint_catalog": database,
                "constraint_schema": table.definition().schema_name.as_str(),
                "constraint_name": key.name.as_str(),
            }
        })
    })
}

/// Rows of `information_schema.referential_constraints`.
pub(super) fn referential(binder: &Binder, database: &str) -> Vec<Row> {
    let constraint = |Shown {
                          table, key, referenced, ..
                      }: Shown<'_>| {
        let unique = key
            .index_of(referenced.definition())
            .filter(|index| index.is_constraint());
        let of_unique = |value: &str| unique.map(|_| value.to_string());
        row! {
            "constraint_catalog": database,
            "constraint_schema": table.definition().schema_name.as_str(),
            "constraint_name": key.name.as_str(),
            "unique_constraint_catalog": of_unique(database),
            "unique_constraint_schema": of_unique(&referenced.definition().schema_name),
            "unique_constraint_name": unique.map(|index| index.name.as_str()),
            "match_option": if key.match_full { "FULL" } else { "NONE" },
            "update_rule": words(key.on_update),
            "delete_rule": words(key.on_delete),
        }
    };
    all(binder).map(constraint).collect()
}
