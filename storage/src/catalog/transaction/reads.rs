//! What a serializable transaction has read, and whether others have changed that since.
//!
//! A transaction that has changed something may commit if nothing that it read is another by then: it is as if all of it
//! had happened at its commit. Rows that others added or took since its snapshot are held against the conditions by which it read
//! (precision locking; Neumann, Mühlbauer and Kemper, "Fast Serializable Multi-Version Concurrency Control for Main-Memory
//! Database Systems", SIGMOD 2015, section 2.3). One that has changed nothing has read one state that all had committed.

use super::super::moves::Moves;
use super::super::state::DatabaseState;
use super::super::table::TableVersion;
use super::Transaction;
use crate::error::{Result, StorageError};
use crate::segment::Segment;
use crate::store::is_kept;
use arrow::array::{RecordBatch, RecordBatchOptions, UInt32Array};
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

/// Conditions by which a transaction has read tables.
pub trait Reads: Debug + Send + Sync {
    /// The tables.
    fn tables(&self) -> Vec<u32>;

    /// Whether one of these rows of a table, with all its columns, would have been read.
    fn would_read(&self, table: u32, rows: &RecordBatch) -> bool;
}

impl Transaction {
    /// Has the commit fail where others have changed what these say was read.
    pub fn relies_on_reads(&mut self, reads: Arc<dyn Reads>) {
        self.reads = Some(reads);
    }

    /// Fails where others have changed since what was read.
    pub(super) fn check_reads(&self, current: &DatabaseState) -> Result<()> {
        let Some(reads) = &self.reads else { return Ok(()) };
        if !self.changes_what_stays() {
            return Ok(());
        }
        let mut tables = reads.tables().into_iter();
        tables.try_for_each(|table| self.check_reads_of(table, current))
    }

    /// The same of one table.
    pub(super) fn check_reads_of(&self, table: u32, current: &DatabaseState) -> Result<()> {
        // Its own tables are read by nobody else.
        let (Some(reads), Some(base)) = (&self.reads, self.base.table_by_oid(table)) else {
            return Ok(());
        };
        let theirs = current.table_by_oid(table).ok_or_else(StorageError::read_write)?;
        if base.version() == theirs.version() {
            return Ok(());
        }
        if !Arc::ptr_eq(base.definition(), theirs.definition()) {
            return Err(StorageError::read_write());
        }
        let changed = changed_rows(base, theirs, &self.database.moves())?;
        match changed.iter().any(|rows| reads.would_read(table, rows)) {
            true => Err(StorageError::read_write()),
            false => Ok(()),
        }
    }

    /// Whether it changes more than temporary tables.
    fn changes_what_stays(&self) -> bool {
        let stays = |oid: &u32| {
            let relation = self.state.relation_by_oid(*oid);
            relation.is_none_or(|relation| is_kept(relation.schema_name()))
        };
        !self.objects.is_empty() || self.touched.keys().any(stays)
    }
}

/// The rows that one version of a table has and the other has not. A row whose way is not known any more is in both kinds.
fn changed_rows(base: &TableVersion, theirs: &TableVersion, moves: &Moves) -> Result<Vec<RecordBatch>> {
    let there: HashMap<u64, &Arc<Segment>> = theirs.segments().iter().map(|own| (own.whole_id(), own)).collect();
    let mut changed = Vec::new();
    // Rows of the one among those of the other's segments, by the numbers they have in the whole ones.
    let mut kept: HashMap<u64, HashSet<u32>> = HashMap::new();
    let mut known = HashSet::new();
    for segment in base.segments().iter() {
        let id = segment.whole_id();
        known.insert(id);
        let gone: Vec<u32> = match there.get(&id) {
            Some(now) => match now.live() {
                Some(now) => now.gone_since(segment.live().map(Arc::as_ref)).collect(),
                None => Vec::new(),
            },
            None => {
                let is_gone = |row: &u32| match moves.find((id, *row), |id| there.contains_key(&id)) {
                    Ok((to, row)) if is_live(there[&to], row) => {
                        kept.entry(to).or_default().insert(row);
                        false
                    }
                    _ => true,
                };
                let all = 0..segment.whole().rows() as u32;
                all.filter(|row| is_live(segment, *row)).filter(is_gone).collect()
            }
        };
        changed.extend(taken(base, segment.whole(), gone)?);
    }
    for segment in theirs.segments().iter() {
        let id = segment.whole_id();
        if known.contains(&id) {
            continue;
        }
        let kept = kept.get(&id);
        let is_added = |row: &u32| is_live(segment, *row) && kept.is_none_or(|kept| !kept.contains(row));
        let added = (0..segment.whole().rows() as u32).filter(is_added).collect();
        changed.extend(taken(theirs, segment.whole(), added)?);
    }
    Ok(changed)
}

/// Whether a segment has a row of its whole one.
fn is_live(segment: &Segment, row: u32) -> bool {
    segment.live().is_none_or(|live| live.rank(row as usize).is_some())
}

fn taken(table: &TableVersion, whole: &Segment, rows: Vec<u32>) -> Result<Option<RecordBatch>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let rows = UInt32Array::from(rows);
    let columns = (0..whole.columns()).map(|column| whole.take(column, &rows));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let batch = RecordBatch::try_new_with_options(table.schema().clone(), columns, &options)?;
    Ok(Some(batch))
}
