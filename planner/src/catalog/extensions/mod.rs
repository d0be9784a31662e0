//! Extensions: those that CREATE EXTENSION makes, and those that a database has.

use std::collections::BTreeMap;
use std::sync::Arc;
use tenon_storage::{DatabaseState, Function, Object, ObjectKey};

/// What CREATE EXTENSION can make.
#[derive(Debug)]
pub(crate) struct Available {
    pub name: &'static str,
    pub version: &'static str,
    pub comment: &'static str,
    /// Its functions; empty: what it has is in every database.
    pub script: &'static str,
}

pub(crate) const AVAILABLE: [Available; 4] = [
    Available {
        name: "pg_stat_statements",
        version: "1.10",
        comment: "track planning and execution statistics of all SQL statements executed",
        script: "",
    },
    Available {
        name: "pgcrypto",
        version: "1.3",
        comment: "cryptographic functions",
        script: include_str!("pgcrypto.sql"),
    },
    Available {
        name: "plpgsql",
        version: "1.0",
        comment: "PL/pgSQL procedural language",
        script: "",
    },
    Available {
        name: "uuid-ossp",
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
        script: include_str!("uuid-ossp.sql"),
    },
];

/// The one that nobody makes, which PostgreSQL's own rows have.
const ALWAYS: &str = "plpgsql";

impl Available {
    pub fn named(name: &str) -> Option<&'static Available> {
        AVAILABLE.iter().find(|own| own.name == name)
    }
}

/// An extension of a database.
pub(crate) struct Installed<'a> {
    pub of: &'static Available,
    pub functions: Vec<(&'a ObjectKey, &'a Arc<Function>)>,
}

impl Installed<'_> {
    /// The function whose oid, owner and schema are the extension's.
    pub fn first(&self) -> Option<&Arc<Function>> {
        self.functions.iter().map(|(_, own)| *own).min_by_key(|own| own.oid)
    }
}

/// In the order of their names.
pub(crate) fn installed(state: &DatabaseState) -> impl Iterator<Item = Installed<'_>> {
    let mut by_name: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (key, object) in state.objects() {
        if let Object::Function(own) = object
            && let Some(name) = &own.options.extension
        {
            by_name.entry(name).or_default().push((key, own));
        }
    }
    AVAILABLE.iter().filter_map(move |of| {
        let functions = by_name.remove(of.name).unwrap_or_default();
        (of.name == ALWAYS || !functions.is_empty()).then_some(Installed { of, functions })
    })
}
