//! Rows that a transaction adds to a table and takes out of it.

use super::Transaction;
use crate::catalog::moves::Removed;
use crate::catalog::row_set::{RowSet, TableRows};
use crate::catalog::state::Relation;
use crate::catalog::table::{TableDefinition, TableVersion};
use crate::error::{Result, StorageError};
use crate::segment::Segment;
use crate::writer::TableWriter;
use std::sync::Arc;

/// Whether rows that replace others have their keys: then they need not be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// In each unique index, the added rows have the keys of those that they replace.
    Kept,
    Changed,
}

impl Transaction {
    /// A writer of rows for a table as this transaction sees it; give what it finishes with to `append`.
    pub fn writer(&self, table: &TableVersion) -> TableWriter {
        TableWriter::new(table.definition().clone(), self.database.budget().clone())
    }

    /// Adds finished segments to a table and gives the number of rows. SerializationFailure where they were written for
    /// other columns than the table has now.
    pub fn append(&mut self, table_oid: u32, segments: Vec<Arc<Segment>>) -> Result<u64> {
        let current = self.table_by_oid(table_oid)?;
        check_fit(&segments, current.definition())?;
        let rows = segments.iter().map(|segment| segment.rows() as u64).sum();
        current.definition().usage.changed(0, rows);
        let budget = self.database.budget();
        let (next, waiting) = current.changed(&Removed::default(), &segments, false, budget, |index| {
            self.key_waits(index)
        })?;
        self.add_waiting(table_oid, waiting);
        let touch = self.touch(&Relation::Table(current.clone()));
        touch.keys_changed = true;
        let others = current.segments().len() - touch.appended.len();
        self.change_rows(&current, next, others);
        Ok(rows)
    }

    /// UPDATE and DELETE: takes rows out, then adds others. `table` is the version that the rows are of: the one that this
    /// transaction sees.
    pub fn replace_rows(
        &mut self,
        table: &TableVersion,
        gone: &TableRows,
        added: Vec<Arc<Segment>>,
        keys: Keys,
    ) -> Result<()> {
        let current = self.table_by_oid(table.oid())?;
        let segments = current.segments();
        if current.version() != table.version() || !gone.fit(|at| Some(segments.get(at)?.rows())) {
            return Err(StorageError::internal("rows are not of the table's current version"));
        }
        check_fit(&added, current.definition())?;
        let others = current.segments().len() - self.own_segments(table);
        let (mut removed, mut removed_of_others, mut others_left) = (Removed::default(), Vec::new(), others);
        for (at, rows) in gone.iter() {
            let segment = &segments[at];
            let gone = in_whole(segment, rows);
            removed.add(segment.whole(), gone.iter().copied());
            if at < others {
                others_left -= usize::from(gone.len() == segment.rows());
                removed_of_others.push((segment.whole().clone(), gone));
            }
        }
        let new = added.iter().map(|segment| segment.rows() as u64).sum();
        current.definition().usage.changed(gone.rows() as u64, new);
        let budget = self.database.budget();
        let (next, waiting) = current.changed(&removed, &added, keys == Keys::Kept, budget, |index| {
            self.key_waits(index)
        })?;
        self.add_waiting(table.oid(), waiting);
        let touch = self.touch(&Relation::Table(current.clone()));
        touch.keys_changed |= keys == Keys::Changed && !added.is_empty();
        for (whole, gone) in removed_of_others {
            touch.removed.add(&whole, gone);
        }
        self.change_rows(&current, next, others_left);
        Ok(())
    }

    /// How many segments at a table's end are the transaction's own.
    pub(super) fn own_segments(&self, table: &TableVersion) -> usize {
        self.touched.get(&table.oid()).map_or(0, |touch| touch.appended.len())
    }

    /// Puts a version in that differs in rows: the first `others` of its segments are not the transaction's own.
    fn change_rows(&mut self, current: &Arc<TableVersion>, next: Arc<TableVersion>, others: usize) {
        let budget = self.database.budget().clone();
        let touch = self.touch(&Relation::Table(current.clone()));
        if touch.rewritten {
            let (next, _) = next.settled(0, &budget);
            return self.put(Relation::Table(next));
        }
        let (next, _) = next.settled(others, &budget);
        touch.appended = next.segments()[others..].to_vec();
        self.put(Relation::Table(next));
        self.keys_are_in_place(current.oid());
    }
}

/// Rows of a segment by their numbers in the whole segment.
pub(super) fn in_whole(segment: &Segment, rows: &RowSet) -> Vec<u32> {
    let number = |row: u32| match segment.live() {
        Some(live) => live.select(row as usize) as u32,
        None => row,
    };
    rows.iter().map(number).collect()
}

/// Rows written for a table that has changed its columns since are a conflict with that change.
fn check_fit(segments: &[Arc<Segment>], definition: &TableDefinition) -> Result<()> {
    match segments.iter().all(|segment| segment.fits(definition)) {
        true => Ok(()),
        false => Err(StorageError::serialization()),
    }
}
