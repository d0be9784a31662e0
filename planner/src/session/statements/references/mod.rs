//! FOREIGN KEY constraints: declared, checked, and followed.
//!
//! Rows of the referencing table are looked up in the referenced one when they are written; keys that are missing there,
//! and keys that a referenced table loses, are noted as pending and checked again at the statement's end or, where the
//! constraint is deferred, the transaction's: a key violates the constraint where it is in the referencing table and not in
//! the referenced one. What ON DELETE and ON UPDATE ask for beside is one statement a constraint, over all keys at once.
//!
//! What a check relied on is told to the transaction, which fails where another one changes that before it commits.

mod actions;
mod check;
mod declare;
mod dependents;
mod keys;
mod referenced;
mod scan;
mod settle;

pub(super) use actions::follow;
pub(super) use check::written;
pub(super) use declare::{add, checked_again, deferral, refuse_type, validate_constraint};
pub(super) use dependents::{
    constraints_on, drop_all, named as depending, release_column, release_index, set_constraints, tables_to_truncate,
};
pub(super) use keys::gather;
pub(crate) use settle::{End, settle};

use crate::pg::error::Result;
use crate::session::Session;
use crate::session::run;
use std::sync::Arc;
use tenon_storage::{DatabaseState, TableVersion};

/// The rows that a statement took out of a table or put others in the places of. Only tables with foreign keys on either
/// side need to know.
#[derive(Clone)]
pub(super) struct Replaced {
    /// The table as it was.
    pub table: Arc<TableVersion>,
    /// Segment and row of each row that is gone.
    pub deleted: Vec<(u32, u32)>,
    /// The same of each row that was updated, and the number of its successor among the rows written.
    pub updated: Vec<((u32, u32), u32)>,
    /// The columns that may have got other values; None: any.
    pub assigned: Option<Vec<usize>>,
}

impl Replaced {
    pub(super) fn of(table: &Arc<TableVersion>) -> Replaced {
        Replaced {
            table: table.clone(),
            deleted: Vec::new(),
            updated: Vec::new(),
            assigned: None,
        }
    }

    /// Whether an update may have changed one of these columns.
    fn assigns(&self, columns: &[usize]) -> bool {
        let assigned = self.assigned.as_ref();
        assigned.is_none_or(|assigned| columns.iter().any(|column| assigned.contains(column)))
    }
}

/// Whether foreign keys of a table, or such that reference it, ask which of its rows a statement changes.
pub(super) fn concern(state: &DatabaseState, table: &TableVersion) -> bool {
    !table.definition().foreign_keys.is_empty() || is_referenced(state, table.oid())
}

/// Whether a foreign key references a table, be it its own.
pub(super) fn is_referenced(state: &DatabaseState, oid: u32) -> bool {
    let mut tables = state.relations().filter_map(|relation| relation.as_table());
    tables.any(|table| table.definition().foreign_keys.iter().any(|key| key.references == oid))
}

/// Checks what is pending at a statement's end: outside a block all of it.
pub(crate) async fn at_statement_end(session: &Session) -> Result<()> {
    let end = match session.block() {
        Some(_) => End::Statement,
        None => End::Transaction,
    };
    at_end(session, end).await
}

/// Checks what is pending, once those have ended who are changing rows that decide on it.
pub(crate) async fn at_end(session: &Session, end: End) -> Result<()> {
    let transaction = session.transaction()?;
    if !transaction.lock().has_pending() {
        return Ok(());
    }
    loop {
        let own = transaction.clone();
        let found = run::aside(&session.engine, async move { settle::violation(&mut own.lock(), end) });
        match found.await? {
            Some(found) => found.wait(session).await?,
            None => return Ok(()),
        }
    }
}
