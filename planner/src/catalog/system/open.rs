//! `pg_cursors` and `pg_prepared_statements`: what the session has open.

use super::rows::{Row, Value, row};
use super::types;
use crate::catalog::bind::Binder;

pub(super) const CURSORS: &str = "pg_cursors";
pub(super) const CURSOR_COLUMNS: &[(&str, &str)] = &[
    ("name", "text"),
    ("statement", "text"),
    ("is_holdable", "bool"),
    ("is_binary", "bool"),
    ("is_scrollable", "bool"),
    ("creation_time", "timestamptz"),
];

pub(super) const STATEMENTS: &str = "pg_prepared_statements";
pub(super) const STATEMENT_COLUMNS: &[(&str, &str)] = &[
    ("name", "text"),
    ("statement", "text"),
    ("prepare_time", "timestamptz"),
    ("parameter_types", "texts"),
    ("from_sql", "bool"),
    ("generic_plans", "bigint"),
    ("custom_plans", "bigint"),
];

pub(super) fn cursors(binder: &Binder) -> Vec<Row> {
    let cursors = binder.facts.listed.cursors.iter();
    let cursor = cursors.map(|own| {
        row! {
            "name": own.name.as_str(),
            "statement": own.statement.as_str(),
            "is_holdable": own.is_holdable,
            "is_binary": own.is_binary,
            "is_scrollable": own.is_scrollable,
            "creation_time": own.created_us,
        }
    });
    cursor.collect()
}

pub(super) fn statements(binder: &Binder) -> Vec<Row> {
    let statements = binder.facts.listed.statements.iter();
    let statement = statements.map(|own| {
        let types = own.parameters.iter().map(|oid| {
            let name = types::display(binder, i64::from(*oid), None);
            name.unwrap_or_else(|| oid.to_string())
        });
        row! {
            "name": own.name.as_str(),
            "statement": own.statement.as_str(),
            "prepare_time": own.prepared_us,
            "parameter_types": Value::Texts(types.collect()),
            "from_sql": own.from_sql,
        }
    });
    statement.collect()
}
