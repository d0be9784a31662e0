//! `pg_settings`: the session's settings.

use super::rows::{Row, row};
use crate::bind::Binder;

pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let setting = |(name, value, description): (String, String, String)| {
        row! {
            "name": name,
            "setting": value.as_str(),
            "category": "Session",
            "short_desc": description,
            "context": "user",
            "vartype": "string",
            "source": "session",
            "boot_val": value.as_str(),
            "reset_val": value.as_str(),
            "pending_restart": false,
        }
    };
    binder.facts.settings.all().into_iter().map(setting).collect()
}
