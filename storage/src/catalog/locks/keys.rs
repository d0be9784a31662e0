//! Keys of unique indexes that transactions have added and that are not committed yet: who adds the same waits for the end of
//! who did so first.
//!
//! A statement's rows are noted first, and their keys are looked for among those of others then, while nobody is held off: of
//! two that look at the same time the later one waits, since the other was noted before.

use super::{Holder, Owner, Wait};
use crate::error::Result;
use crate::segment::Segment;
use std::sync::Arc;

/// The rows of a table with new keys that one transaction has added.
#[derive(Debug)]
pub(super) struct Added {
    owner: Arc<Owner>,
    /// Those whose keys nobody else has added.
    alone: Vec<Arc<Segment>>,
    /// Those whose keys are being looked for.
    looking: Vec<Arc<Segment>>,
}

impl Added {
    pub(super) fn is_of(&self, owner: &Arc<Owner>) -> bool {
        Arc::ptr_eq(&self.owner, owner)
    }
}

/// Another transaction's rows.
#[derive(Debug)]
pub struct OfAnother {
    owner: Arc<Owner>,
    pub rows: Vec<Arc<Segment>>,
}

impl Holder {
    /// Notes rows with new keys. Gives the rows of others that were noted before.
    pub fn note_keys(&self, table: u32, rows: &[Arc<Segment>]) -> Vec<OfAnother> {
        let held = &mut *self.locks.0.lock();
        self.owner.tables.lock().insert(table);
        let all = held.added.entry(table).or_default();
        let others = all
            .iter()
            .filter(|added| !added.is_of(&self.owner))
            .map(|added| OfAnother {
                owner: added.owner.clone(),
                rows: added.alone.iter().chain(&added.looking).cloned().collect(),
            });
        let others: Vec<OfAnother> = others.filter(|other| !other.rows.is_empty()).collect();
        match all.iter_mut().find(|added| added.is_of(&self.owner)) {
            Some(own) => own.looking = rows.to_vec(),
            None => all.push(Added {
                owner: self.owner.clone(),
                alone: Vec::new(),
                looking: rows.to_vec(),
            }),
        }
        others
    }

    /// Nobody else has added the keys looked for.
    pub fn have_keys(&self, table: u32) {
        self.change_added(table, |own| {
            let rows = std::mem::take(&mut own.looking);
            own.alone.extend(rows);
        });
    }

    /// The keys looked for are not to be added.
    pub fn leave_keys(&self, table: u32) {
        self.change_added(table, |own| own.looking.clear());
    }

    /// What the transaction has added to the table by now is in these rows.
    pub fn keys_are_in(&self, table: u32, rows: &[Arc<Segment>]) {
        self.change_added(table, |own| own.alone = rows.to_vec());
    }

    /// Somebody else has added one of the keys looked for: gives the wait for the end of that one, and takes the rows back. An
    /// error: it would never come.
    pub fn wait_for_key(&self, table: u32, of: &OfAnother) -> Result<Wait> {
        self.leave_keys(table);
        self.wait_for(&mut self.locks.0.lock(), of.owner.clone())
    }

    /// What the transaction has added to each table is in these rows.
    pub fn keep_keys(&self, rows: impl Fn(u32) -> Vec<Arc<Segment>>) {
        let held = &mut *self.locks.0.lock();
        for (table, added) in &mut held.added {
            let own = added.iter_mut().filter(|added| added.is_of(&self.owner));
            own.for_each(|own| own.alone = rows(*table));
        }
    }

    fn change_added(&self, table: u32, change: impl FnOnce(&mut Added)) {
        let held = &mut *self.locks.0.lock();
        let own = held.added.get_mut(&table);
        if let Some(own) = own.into_iter().flatten().find(|added| added.is_of(&self.owner)) {
            change(own);
        }
    }
}
