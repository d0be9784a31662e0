//! Checkpoints: the catalog written as a whole, with where the rows lie; and what nobody needs after that removed.

use super::image::Delta;
use super::log::Log;
use super::record::{self, FileKind, HEADING_BYTES, Kind, RecordLocation};
use super::{Store, is_kept, recover};
use crate::catalog::{DatabaseState, Relation};
use crate::error::{Result, StorageError};
use crate::segment::Segment;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of logs of which less than such a part is in use are copied, and the logs removed.
const GARBAGE_PART: u64 = 2;

/// What a checkpoint's record holds.
#[derive(Serialize, Deserialize)]
pub(super) struct Checkpoint {
    pub catalog: Delta,
    pub places: Vec<(u64, RecordLocation)>,
}

/// How far a checkpoint is.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckpointProgress {
    /// Microseconds since 1970, UTC.
    pub started_us: i64,
    pub phase: &'static str,
    /// Of logs that are mostly garbage.
    pub segments_total: u64,
    pub segments_copied: u64,
    pub bytes_copied: u64,
}

impl Store {
    pub(super) fn checkpoint_path(directory: &Path, number: u64) -> PathBuf {
        directory.join(format!("checkpoint-{number:016}"))
    }

    /// Writes the catalog as it was when log `number` began, and removes what nobody needs any more.
    pub(crate) fn checkpoint(&self, last: &mut u64, number: u64, state: &DatabaseState, next_oid: u32) -> Result<()> {
        let started_us = chrono::Utc::now().timestamp_micros();
        *self.progress.lock() = Some(CheckpointProgress {
            started_us,
            phase: "looking for garbage",
            ..CheckpointProgress::default()
        });
        let done = self.write_checkpoint(last, number, state, next_oid);
        *self.progress.lock() = None;
        done
    }

    /// How far the checkpoint is that is being made.
    pub fn checkpoint_progress(&self) -> Option<CheckpointProgress> {
        *self.progress.lock()
    }

    fn advance(&self, change: impl FnOnce(&mut CheckpointProgress)) {
        if let Some(progress) = self.progress.lock().as_mut() {
            change(progress);
        }
    }

    fn write_checkpoint(&self, last: &mut u64, number: u64, state: &DatabaseState, next_oid: u32) -> Result<()> {
        self.collect(number, state)?;
        self.advance(|progress| progress.phase = "writing catalog");
        let catalog = Delta::between(&DatabaseState::empty(), state, next_oid)?;
        let places = {
            let mut stored = self.stored.lock();
            stored.retain(|_, own| own.segment.strong_count() > 0);
            let place = |segment: &Arc<Segment>| {
                let own = stored.get(&segment.id());
                own.map(|own| (segment.id(), own.place))
                    .ok_or_else(|| StorageError::internal("a committed segment was not written"))
            };
            kept_segments(state).map(place).collect::<Result<Vec<_>>>()?
        };
        // The places of rows that were copied just now lie in the newest log.
        self.log.sync(self.log.end())?;
        let record = serde_json::to_vec(&Checkpoint { catalog, places }).map_err(StorageError::internal)?;
        let path = Store::checkpoint_path(&self.directory, number);
        let new = path.with_extension("new");
        let write = || {
            if new.exists() {
                self.disk.remove(&new)?;
            }
            let file = self.disk.create(&new)?;
            file.write_at(&record::heading(FileKind::Checkpoint, number), 0)?;
            file.write_at(&record::header(Kind::Checkpoint, 0, &[&record]), HEADING_BYTES)?;
            file.write_at(&record, HEADING_BYTES + record::HEADER_BYTES as u64)?;
            file.sync()?;
            self.disk.rename(&new, &path)?;
            self.disk.sync_directory(&self.directory)
        };
        write().map_err(|error| record::failed(&path, &error))?;
        *last = number;
        self.advance(|progress| progress.phase = "removing files");
        self.sweep(number)
    }

    /// Copies the rows that are in use out of logs that are mostly garbage.
    fn collect(&self, number: u64, state: &DatabaseState) -> Result<()> {
        let mut used: BTreeMap<u64, u64> = BTreeMap::new();
        let mut known = HashSet::new();
        for segment in kept_segments(state) {
            // Those of one commit may share its record.
            if let Some(own) = self.stored.lock().get(&segment.id())
                && known.insert((own.place.file, own.place.offset))
            {
                *used.entry(own.place.file).or_default() += own.place.bytes;
            }
        }
        let mostly_garbage = |(file, bytes): (&u64, &u64)| {
            let size = std::fs::metadata(Log::path_in(&self.directory, *file)).map_or(0, |data| data.len());
            (*file < number && bytes * GARBAGE_PART < size).then_some(*file)
        };
        let old: BTreeSet<u64> = used.iter().filter_map(mostly_garbage).collect();
        let place = |segment: &Arc<Segment>| self.stored.lock().get(&segment.id()).map(|own| own.place);
        let moves = kept_segments(state).filter_map(|segment| Some((segment, place(segment)?)));
        let moves: Vec<_> = moves.filter(|(_, place)| old.contains(&place.file)).collect();
        self.advance(|progress| {
            progress.phase = "copying rows";
            progress.segments_total = moves.len() as u64;
        });
        for (segment, place) in moves {
            self.write_segment(segment)?;
            self.advance(|progress| {
                progress.segments_copied += 1;
                progress.bytes_copied += place.bytes;
            });
        }
        Ok(())
    }

    /// Removes the checkpoints and logs before `number` in which nothing lies that is in use.
    fn sweep(&self, number: u64) -> Result<()> {
        let used: BTreeSet<u64> = self.stored.lock().values().map(|own| own.place.file).collect();
        let files = recover::Files::of(&self.directory)?;
        let logs = files
            .logs
            .into_iter()
            .filter(|log| *log < number && !used.contains(log));
        let logs = logs.map(|log| Log::path_in(&self.directory, log));
        let checkpoints = files.checkpoints.into_iter().filter(|own| *own < number);
        let checkpoints = checkpoints.map(|own| Store::checkpoint_path(&self.directory, own));
        for path in checkpoints.chain(logs) {
            self.disk.remove(&path).map_err(|error| record::failed(&path, &error))?;
        }
        Ok(())
    }
}

/// The whole segments of all tables that are kept.
fn kept_segments(state: &DatabaseState) -> impl Iterator<Item = &Arc<Segment>> {
    let tables = state.relations().filter(|relation| is_kept(relation.schema_name()));
    tables
        .filter_map(Relation::as_table)
        .flat_map(|table| table.segments().iter().map(Segment::whole))
}
