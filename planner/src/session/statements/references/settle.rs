//! What becomes of keys that are pending: at a statement's end, or the transaction's.

use super::check::Constraint;
use super::keys;
use crate::pg::error::{Result, SqlError};
use crate::session::Session;
use crate::session::statements::claims;
use std::sync::Arc;
use tenon_storage::{RowLocation, TableVersion, Transaction};

/// What ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Statement,
    Transaction,
}

/// A row references what is not there.
pub(super) struct Violation {
    pub error: SqlError,
    pub child: Arc<TableVersion>,
    /// The row, where the one that it references was taken away.
    pub rows: Vec<RowLocation>,
}

impl Violation {
    /// Waits for who is changing the row: the keys are to be looked up again then. The error where nobody is.
    pub(super) async fn wait(self, session: &Session) -> Result<()> {
        match claims::await_rows(session, &self.child, self.rows).await? {
            true => Ok(()),
            false => Err(self.error),
        }
    }
}

/// Decides on the keys that are pending: those of constraints that are not deferred, or at the transaction's end all.
pub(crate) fn settle(transaction: &mut Transaction, end: End) -> Result<()> {
    match violation(transaction, end)? {
        Some(found) => Err(found.error),
        None => Ok(()),
    }
}

/// The same; where it cannot be decided yet what is wrong, the keys are left pending.
pub(super) fn violation(transaction: &mut Transaction, end: End) -> Result<Option<Violation>> {
    let mut left = transaction.take_pending(end == End::Transaction).into_iter();
    let state = transaction.state().clone();
    let budget = transaction.database().budget().clone();
    while let Some(pending) = left.next() {
        let Some(child) = state.table_by_oid(pending.table) else {
            continue;
        };
        let mut own = child.definition().foreign_keys.iter();
        let Some(key) = own.find(|key| key.oid == pending.constraint) else {
            continue;
        };
        let constraint = Constraint::of(&state, child, key, &budget)?;
        let (valid, mixed) = keys::valid(&pending.keys);
        if !mixed.is_empty() && constraint.has_mixed(&keys::pick(&pending.keys, &mixed)?)? {
            return Err(constraint.mixed());
        }
        let asked = keys::pick(&pending.keys, &valid)?;
        let missing = constraint.missing_keys(Some(&mut *transaction), asked)?;
        if missing.first().is_none_or(|keys| keys.is_empty()) {
            continue;
        }
        if let Some(found) = constraint.referencing(transaction, &missing, pending.are_gone)? {
            [pending]
                .into_iter()
                .chain(left)
                .for_each(|own| transaction.add_pending(own));
            return Ok(Some(found));
        }
    }
    transaction.check_waiting_keys(end == End::Transaction)?;
    Ok(None)
}
