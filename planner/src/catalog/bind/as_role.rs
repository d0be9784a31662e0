//! Whose rights the body of a function is asked for: those of who calls it, also where a view's owner is asked for what the view
//! reads, or those of its owner (SECURITY DEFINER). The relations of such bodies are marked by their names.

use super::{Binder, changed};
use crate::pg::identity::Acting;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::Query;

/// What stands behind the name of a relation that is read for another role; its oid follows.
const MARK: &str = "\u{1}as ";

/// Has the relations of a function's body be read for a role. The names of its WITH stay.
pub(super) fn mark(binder: &Binder, body: &mut Query, acting: Acting) {
    if binder.acting != acting {
        changed::mark_all(body, &format!("{MARK}{}", acting.role));
    }
}

/// A name without the mark, and the role that it says.
pub(super) fn split(name: &str) -> Option<(&str, u32)> {
    let (own, role) = name.rsplit_once(MARK)?;
    Some((own, role.parse().ok()?))
}

/// The relation that a marked name stands for, and what finds it.
pub(super) fn meant(binder: &Binder, name: &TableReference) -> Option<(Binder, TableReference)> {
    let (table, role) = split(name.table())?;
    let found = Binder {
        acting: Acting::of(&binder.snapshot, role),
        noted_as: binder.noted_as.clone().or_else(|| Some(name.clone())),
        ..binder.clone()
    };
    Some((found, changed::renamed(name, table)))
}
