//! `pg_settings`: the session's settings.

use super::rows::{Row, row};
use crate::catalog::bind::Binder;
use crate::pg::settings::{Shown, milliseconds};

pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let facts = &binder.facts;
    facts.settings.all(&facts.startup).into_iter().map(row_of).collect()
}

fn row_of(of: Shown) -> Row {
    // SHOW gives times with their unit, this table the plain number.
    let plain = |text: String| match milliseconds(&text) {
        Some(ms) if of.duration => ms.to_string(),
        _ => text,
    };
    let changed = of.value != of.reset;
    row! {
        "name": of.name,
        "setting": plain(of.value),
        "unit": of.duration.then_some("ms"),
        "category": if of.name.starts_with("tenon.") { "Tenon" } else { "Session" },
        "short_desc": of.about,
        "context": if of.fixed { "internal" } else { "user" },
        "vartype": of.kind,
        "enumvals": of.words.map(|words| format!("{{{}}}", words.join(","))),
        "source": if changed { "session" } else { "default" },
        "boot_val": of.boot,
        "reset_val": plain(of.reset),
        "pending_restart": false,
    }
}
