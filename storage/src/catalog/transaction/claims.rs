//! What a transaction has for itself before it commits: tables that it locks, and the keys of rows that it adds.

use super::Transaction;
use crate::catalog::locks::{Holder, TableLock, Wait};
use crate::catalog::state::DatabaseState;
use crate::catalog::table::TableVersion;
use crate::catalog::unique;
use crate::error::{ErrorKind, Result, StorageError};
use crate::segment::Segment;
use std::collections::HashSet;
use std::sync::Arc;

/// What became of the wish to add rows with new keys.
#[derive(Debug)]
pub enum Claimed {
    /// Nobody else can commit such keys before this transaction ends.
    Alone,
    /// Somebody may be about to.
    Wait(Wait),
    /// Somebody has, since the transaction's snapshot: the error that adding the rows would be.
    Taken(StorageError),
}

impl Transaction {
    pub(super) fn holder(&mut self) -> &Arc<Holder> {
        self.holder
            .get_or_insert_with(|| Holder::new(self.database.locks(), self.process))
    }

    /// The session's number, for who shows what it has locked.
    pub fn acts_for(mut self, process: i32) -> Self {
        self.process = process;
        self
    }

    /// Locks a table until the transaction ends; gives whom to wait for first, and then it is to be called again.
    pub fn lock_table(&mut self, table: u32, mode: TableLock) -> Result<Option<Wait>> {
        self.holder().lock_table(table, mode)
    }

    /// The same without waiting. False: it is not to be had now.
    pub fn try_lock_table(&mut self, table: u32, mode: TableLock) -> bool {
        self.holder().try_lock_table(table, mode)
    }

    /// Whether others have committed another definition of a table since the snapshot, or have dropped it; with `rows`, or
    /// changed its rows.
    pub fn is_outdated(&self, table: u32, rows: bool) -> bool {
        let Some(base) = self.base.table_by_oid(table) else {
            return false;
        };
        let current = self.database.snapshot();
        current.table_by_oid(table).is_none_or(|current| {
            !Arc::ptr_eq(current.definition(), base.definition()) || rows && current.version() != base.version()
        })
    }

    /// Whether others have committed another version of a sequence than the transaction has begun with.
    pub fn is_outdated_sequence(&self, sequence: u32) -> bool {
        let found = |state: &DatabaseState| state.relation_by_oid(sequence)?.as_sequence().cloned();
        let Some(base) = found(&self.base) else {
            return false;
        };
        found(&self.database.snapshot()).is_none_or(|current| !Arc::ptr_eq(&current, &base))
    }

    /// Waits for a table no longer.
    pub fn give_up_table(&self, table: u32) {
        self.holder.iter().for_each(|holder| holder.give_up_table(table));
    }

    /// Claims the keys, in unique indexes, of rows that are to be added to a table. With `in_place` they take the place of rows
    /// that have some of the keys: those committed are not looked at.
    pub fn claim_keys(&mut self, table: &TableVersion, added: &[Arc<Segment>], in_place: bool) -> Result<Claimed> {
        let definition = table.definition().clone();
        if added.is_empty() || !definition.has_keys_of(|_| true) || !self.is_shared(table) {
            return Ok(Claimed::Alone);
        }
        let oid = table.oid();
        let holder = self.holder().clone();
        let budget = self.database.budget();
        let met = |rows: &[Arc<Segment>]| match unique::check_met(&definition, rows, added, budget) {
            Err(error) if error.kind == ErrorKind::UniqueViolation => Ok(Some(error)),
            other => other.map(|()| None),
        };
        for other in holder.note_keys(oid, added) {
            let rows: Vec<_> = other
                .rows
                .iter()
                .filter(|rows| rows.fits(&definition))
                .cloned()
                .collect();
            if met(&rows)?.is_some() {
                return holder.wait_for_key(oid, &other).map(Claimed::Wait);
            }
        }
        // Who committed since the snapshot is in none of those: such rows are in segments that the snapshot has not.
        let current = self.database.snapshot();
        let theirs = current
            .table_by_oid(oid)
            .filter(|theirs| !in_place && Arc::ptr_eq(theirs.definition(), &definition));
        if let (Some(theirs), Some(base)) = (theirs, self.base.table_by_oid(oid))
            && base.version() != theirs.version()
        {
            let known: HashSet<u64> = base.segments().iter().map(|segment| segment.whole_id()).collect();
            let new = theirs
                .segments()
                .iter()
                .filter(|segment| !known.contains(&segment.whole_id()));
            if let Some(error) = met(&new.cloned().collect::<Vec<_>>())? {
                holder.leave_keys(oid);
                // Who has read that the key was not there could not commit anyway, and is to try again.
                let error = self.check_reads_of(oid, &current).err().unwrap_or(error);
                return Ok(Claimed::Taken(error));
            }
        }
        holder.have_keys(oid);
        Ok(Claimed::Alone)
    }

    /// Notes where the rows with claimed keys are by now.
    pub(super) fn keys_are_in_place(&self, table: u32) {
        if let (Some(holder), Some(touch)) = (&self.holder, self.touched.get(&table))
            && !touch.rewritten
        {
            holder.keys_are_in(table, &touch.appended);
        }
    }

    /// After a return to this savepoint: what was added since has no keys any more.
    pub fn returned_to(&self) {
        if let Some(holder) = &self.holder {
            holder.keep_keys(|table| {
                let touch = self.touched.get(&table).filter(|touch| !touch.rewritten);
                touch.map(|touch| touch.appended.clone()).unwrap_or_default()
            });
        }
    }
}
