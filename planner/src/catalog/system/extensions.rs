//! `pg_extension`, and the views of what CREATE EXTENSION can make.

use super::regnames::system_table;
use super::relations::schema_oid;
use super::rows::{Row, row};
use crate::catalog::bind::Binder;
use crate::catalog::extensions::{AVAILABLE, Available, Installed, installed};

pub(super) const AVAILABLE_COLUMNS: &[(&str, &str)] = &[
    ("name", "name"),
    ("default_version", "text"),
    ("installed_version", "text"),
    ("comment", "text"),
];

pub(super) const VERSION_COLUMNS: &[(&str, &str)] = &[
    ("name", "name"),
    ("version", "text"),
    ("installed", "bool"),
    ("superuser", "bool"),
    ("trusted", "bool"),
    ("relocatable", "bool"),
    ("schema", "name"),
    ("requires", "texts"),
    ("comment", "text"),
];

/// Those beside the one that every database has.
pub(super) fn rows(binder: &Binder) -> Vec<Row> {
    let one = |own: Installed<'_>| {
        let first = own.first()?;
        Some(row! {
            "oid": first.oid,
            "extname": own.of.name,
            "extowner": binder.snapshot.owner(first.oid),
            "extnamespace": schema_oid(binder, &first.schema_name),
            "extrelocatable": true,
            "extversion": own.of.version,
        })
    };
    installed(&binder.snapshot).filter_map(one).collect()
}

/// What `\dx` says of them.
pub(super) fn descriptions(binder: &Binder) -> Vec<Row> {
    let class = system_table("pg_extension").unwrap_or_default();
    let one = |own: Installed<'_>| {
        let oid = own.first()?.oid;
        Some(row! { "objoid": oid, "classoid": class, "objsubid": 0i64, "description": own.of.comment })
    };
    installed(&binder.snapshot).filter_map(one).collect()
}

fn is_installed(binder: &Binder, of: &Available) -> bool {
    installed(&binder.snapshot).any(|own| own.of.name == of.name)
}

pub(super) fn available(binder: &Binder) -> Vec<Row> {
    let one = |of: &Available| {
        row! {
            "name": of.name,
            "default_version": of.version,
            "installed_version": is_installed(binder, of).then_some(of.version),
            "comment": of.comment,
        }
    };
    AVAILABLE.iter().map(one).collect()
}

pub(super) fn versions(binder: &Binder) -> Vec<Row> {
    let one = |of: &Available| {
        row! {
            "name": of.name,
            "version": of.version,
            "installed": is_installed(binder, of),
            "superuser": true,
            "trusted": true,
            "relocatable": true,
            "comment": of.comment,
        }
    };
    AVAILABLE.iter().map(one).collect()
}
