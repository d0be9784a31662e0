//! `pg_settings`: the session's settings.

use super::rows::{Row, row};
use crate::catalog::bind::Binder;
use crate::pg::settings::{Shown, milliseconds};

pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let facts = &binder.facts;
    let all = facts.settings.all(&facts.startup).into_iter();
    all.map(|of| {
        let source = facts.sources.get(of.name).copied();
        row_of(of, source.unwrap_or("default"))
    })
    .collect()
}

fn row_of(of: Shown, source: &str) -> Row {
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
        "context": match (of.fixed, of.of_superusers) {
            (true, _) => "internal",
            (false, true) => "superuser",
            (false, false) => "user",
        },
        "vartype": of.kind,
        "enumvals": of.words.map(|words| format!("{{{}}}", words.join(","))),
        "source": if changed { "session" } else { source },
        "boot_val": of.boot,
        "reset_val": plain(of.reset),
        "pending_restart": false,
    }
}
