//! `pg_hba_file_rules`: who may connect from where, as the server's file of rules says.

use super::rows::{Row, Value, row};
use crate::catalog::bind::Binder;
use crate::catalog::services::ConnectionRule;

pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("line_number", "int"),
    ("type", "text"),
    ("database", "texts"),
    ("user_name", "texts"),
    ("address", "text"),
    ("netmask", "text"),
    ("auth_method", "text"),
    ("options", "texts"),
    ("error", "text"),
];

/// Those that hold: a file with a line that cannot be read is not taken.
pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let rules = binder.services.connection_rules.read();
    let rule = |rule: &ConnectionRule| {
        row! {
            "line_number": rule.line as i64,
            "type": rule.kind,
            "database": Value::Texts(rule.databases.clone()),
            "user_name": Value::Texts(rule.users.clone()),
            "address": rule.address.as_str(),
            "netmask": rule.netmask.clone(),
            "auth_method": rule.method,
            "options": if rule.options.is_empty() { Value::Null } else { Value::Texts(rule.options.clone()) },
        }
    };
    rules.iter().map(rule).collect()
}
