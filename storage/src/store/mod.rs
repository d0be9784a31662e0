//! What outlives the process: a directory with a log of all changes and checkpoints of the catalog.
//!
//! ```text
//! lock                   held by the one server that uses the directory
//! log-N                  records, in order: the rows of segments, then the commits that name them, or have them (`inline`)
//! checkpoint-N           the whole catalog as it was when log-N began, and where each segment lies
//! ```
//! A segment is written once, with the transaction that made it, and read from where it lies: checkpoints name places, and
//! copy no rows but those of logs that are mostly garbage. A commit writes the segments that are new and what it changed of
//! the catalog (`image`), and is acknowledged and seen by others when that is durable (`log`). After a crash the newest
//! checkpoint is read, then the logs from its number on, then the rows (`recover`, `scan`, `read_rows`); a record that is not
//! whole ends the last log, unless a later one says that it had been durable: then the file is damaged, and that is told by
//! name and place.
//!
//! The design is that of log-structured storage (Rosenblum and Ousterhout 1992, sections 3 and 5), with redo-only commits, as
//! no change reaches the disk before its transaction ends.

mod backup;
mod checkpoint;
mod disk;
mod image;
mod inline;
mod log;
mod read_rows;
mod record;
mod recover;
mod rows;
mod rows_change;
mod scan;
mod syncer;

pub use backup::{Backup, unpack};
pub use checkpoint::CheckpointProgress;
pub use disk::{Disk, DiskFile, RealDisk};
pub(crate) use inline::Inline;
pub use log::Position;
pub use recover::Recovered;

use crate::catalog::sequence::{SequenceLog, SequencesWritten};
use crate::catalog::{DatabaseState, Difference, SchemaEntry};
use crate::error::{Result, StorageError};
use crate::segment::Segment;
use arrow::buffer::Buffer;
use image::Delta;
use log::Log;
use parking_lot::Mutex;
use record::{Kind, RecordLocation};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::iter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
pub(crate) use syncer::Then;
use syncer::{Syncer, Wish};

/// A checkpoint is due when the log has grown by so much since the last one.
const CHECKPOINT_BYTES: u64 = 256 << 20;

/// Schemas of temporary tables, which go with their session.
const TEMPORARY: &str = "pg_temp_";

/// Whether what is in a schema outlives the process.
pub(crate) fn is_kept(schema: &str) -> bool {
    !schema.starts_with(TEMPORARY)
}

/// A directory in use.
pub struct Store {
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    log: Arc<Log>,
    syncer: Syncer,
    /// Where the segments lie that were written.
    stored: Mutex<HashMap<u64, Stored>>,
    pub(crate) sequences: Arc<SequenceLog>,
    /// Held by who makes a checkpoint: the number of the log that the newest begins with.
    checkpointed: Mutex<u64>,
    is_due: AtomicBool,
    /// Of the checkpoint that is being made.
    progress: Mutex<Option<CheckpointProgress>>,
    _lock: File,
}

struct Stored {
    place: RecordLocation,
    segment: Weak<Segment>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.directory.display())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // While no other server has the directory.
        self.log.close();
    }
}

impl Store {
    /// Writes what leads from one state to the next, where `prepare` has made rows ready; None: nothing that is kept changed.
    /// The caller waits with `sync`.
    pub(crate) fn commit(
        &self,
        old: &DatabaseState,
        new: &DatabaseState,
        next_oid: u32,
        mut prepared: Inline,
    ) -> Result<Option<Position>> {
        let mut inline = Inline::default();
        let mut segments = Vec::new();
        for segment in self.unwritten(old, new) {
            match inline.add(segment, &mut prepared)? {
                true => segments.push(segment),
                false => self.write_segment(segment)?,
            }
        }
        let mut sequences = self.sequences.writing();
        self.write_sequences(&mut sequences)?;
        let mut delta = Delta::between(old, new, next_oid)?;
        if delta.is_empty() {
            return Ok(None);
        }
        let (newest, _) = self.log.newest();
        delta.places = {
            let stored = self.stored.lock();
            let places = delta.segments().filter_map(|id| Some((id, stored.get(&id)?.place)));
            places.filter(|(_, place)| place.file != newest).collect()
        };
        let changes = serde_json::to_vec(&delta).map_err(StorageError::internal)?;
        let (place, position) = match segments.is_empty() {
            true => self.log.append(Kind::Commit, &[&changes])?,
            false => self.log.append(Kind::CommitWithRows, &[&inline.head(), &changes])?,
        };
        delta.counters().for_each(|counter| sequences.commit(counter));
        delta.relations_gone.iter().for_each(|oid| sequences.forget(*oid));
        drop(sequences);
        segments
            .into_iter()
            .for_each(|segment| self.note_stored(segment, place));
        if position.offset() > CHECKPOINT_BYTES {
            self.is_due.store(true, Ordering::Relaxed);
        }
        Ok(Some(position))
    }

    /// Writes the rows of tables that are not written yet, but for those that are so few that they are to lie within the record
    /// of their commit: nobody waits for a transaction that does this before it commits.
    pub(crate) fn prepare(&self, old: &DatabaseState, new: &DatabaseState) -> Result<Inline> {
        let mut inline = Inline::default();
        for segment in self.unwritten(old, new) {
            if !inline.add(segment, &mut Inline::default())? {
                self.write_segment(segment)?;
            }
        }
        Ok(inline)
    }

    /// The segments of tables that changed which are not written yet.
    fn unwritten<'a>(&self, old: &DatabaseState, new: &'a DatabaseState) -> Vec<&'a Arc<Segment>> {
        let none = SchemaEntry::new(0);
        let mut tables = Vec::new();
        for (name, schema) in new.schemas().filter(|(name, _)| is_kept(name)) {
            let before = old.schema(name).map_or(&none, |before| before);
            tables.extend(before.differences(schema).filter_map(|difference| match difference {
                Difference::New(now) | Difference::Changed(_, now) => now.as_table(),
                Difference::Gone(_) => None,
            }));
        }
        let segments = tables
            .into_iter()
            .flat_map(|table| table.segments().iter().map(Segment::whole));
        let stored = self.stored.lock();
        segments.filter(|segment| !stored.contains_key(&segment.id())).collect()
    }

    /// Writes rows for a table of the schema that are to be committed later, while others are still being made.
    pub(crate) fn write_ahead(&self, schema: &str, segment: &Arc<Segment>) -> Result<()> {
        match is_kept(schema) {
            true => self.write_segment(segment),
            false => Ok(()),
        }
    }

    fn write_segment(&self, segment: &Arc<Segment>) -> Result<()> {
        let rows = rows::encode(segment)?;
        let id = segment.id().to_le_bytes();
        let parts: Vec<&[u8]> = iter::once(&id[..]).chain(rows.iter().map(Buffer::as_slice)).collect();
        let (place, _) = self.log.append(Kind::Segment, &parts)?;
        self.note_stored(segment, place);
        Ok(())
    }

    fn note_stored(&self, segment: &Arc<Segment>, place: RecordLocation) {
        let stored = Stored {
            place,
            segment: Arc::downgrade(segment),
        };
        self.stored.lock().insert(segment.id(), stored);
    }

    fn write_sequences(&self, written: &mut SequencesWritten) -> Result<()> {
        let pending = self.sequences.pending();
        let values: Vec<(u32, i64, bool)> = pending
            .iter()
            .filter(|(counter, _)| written.is_committed(**counter))
            .map(|((oid, _), (value, called))| (*oid, *value, *called))
            .collect();
        if !values.is_empty() {
            let values = serde_json::to_vec(&values).map_err(StorageError::internal)?;
            let (_, position) = self.log.append(Kind::Sequences, &[&values])?;
            written.position = Some(position);
        }
        self.sequences.remove(&pending);
        Ok(())
    }

    /// Makes the values durable that sequences gave: those of counters that are not committed become so with their commit.
    pub fn settle(&self) -> Result<()> {
        let Some(noted) = self.sequences.unsettled() else {
            return Ok(());
        };
        let position = {
            let mut written = self.sequences.writing();
            self.write_sequences(&mut written)?;
            written.position
        };
        // Others may have written what was given here, and not be done.
        position.map_or(Ok(()), |position| self.log.sync(position))?;
        self.sequences.settle(noted);
        Ok(())
    }

    /// Returns when all up to `position` is durable.
    pub fn sync(&self, position: Position) -> Result<()> {
        self.log.sync(position)
    }

    /// Calls back when all up to `position` is durable, or will never be; from another thread.
    pub(crate) fn when_durable(&self, position: Position, then: impl FnOnce(Result<()>) + Send + 'static) {
        self.syncer.ask(&self.log, Wish::Durable(position, Box::new(then)));
    }

    /// Calls before the next sync, from another thread, and calls back when all up to where that says is durable, or will never
    /// be.
    pub(crate) fn when_next(&self, begin: impl FnOnce() -> Option<(Position, Then)> + Send + 'static) {
        self.syncer.ask(&self.log, Wish::Next(Box::new(begin)));
    }

    pub fn is_durable(&self, position: Position) -> bool {
        self.log.is_durable(position)
    }

    /// Whether the log has grown so far that a checkpoint should be made. Says so once.
    pub(crate) fn take_due(&self) -> bool {
        self.is_due.swap(false, Ordering::Relaxed)
    }

    /// The newest log's number and bytes.
    pub fn log(&self) -> (u64, u64) {
        self.log.newest()
    }

    /// Whether it takes no more changes since a write to disk failed.
    pub fn has_failed(&self) -> bool {
        self.log.has_failed()
    }

    /// Syncs of logs since the store was opened.
    pub fn syncs(&self) -> u64 {
        self.log.syncs()
    }

    /// Begins a new log, before which everything is durable: the caller holds off commits meanwhile.
    pub(crate) fn rotate(&self) -> Result<u64> {
        self.log.rotate()
    }

    /// Holds off other checkpoints.
    pub(crate) fn checkpointing(&self) -> parking_lot::MutexGuard<'_, u64> {
        self.checkpointed.lock()
    }

    /// A copy of all that is in it; `checkpoint` is the newest.
    pub(crate) fn backup(&self, checkpoint: u64) -> Result<Backup> {
        Backup::of(self, checkpoint)
    }
}
