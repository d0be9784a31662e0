//! Rows of a store that is opened: where they lie, read and built on all cores.

use super::inline;
use super::log::Log;
use super::record::{self, FileKind, Kind, PAYLOAD_AT, RecordLocation};
use super::recover::opened;
use super::rows_change::SegmentImage;
use crate::catalog::TableDefinition;
use crate::error::{ErrorKind, Result, StorageError};
use crate::memory::MemoryBudget;
use crate::segment::{Live, Segment};
use arrow::buffer::MutableBuffer;
use parking_lot::Mutex;
use rayon::prelude::*;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where the rows lie that are in use.
pub(super) struct Source {
    places: HashMap<u64, RecordLocation>,
    /// Files and offsets of those that need not be checked again.
    checked: HashSet<(u64, u64)>,
    logs: BTreeMap<u64, (File, PathBuf)>,
    /// Memory that records were read into and more can be: new memory costs the kernel as much as reading does.
    rooms: Mutex<Vec<MutableBuffer>>,
}

impl Source {
    pub fn open(
        directory: &Path,
        places: impl Iterator<Item = (u64, RecordLocation)>,
        checked: HashSet<(u64, u64)>,
    ) -> Result<Source> {
        let places: HashMap<u64, RecordLocation> = places.collect();
        let mut logs = BTreeMap::new();
        for place in places.values() {
            if let Entry::Vacant(entry) = logs.entry(place.file) {
                let path = Log::path_in(directory, place.file);
                let (file, _) = opened(&path)?;
                record::check_heading(&file, &path, FileKind::Log, place.file)?;
                entry.insert((file, path));
            }
        }
        Ok(Source {
            places,
            checked,
            logs,
            rooms: Mutex::default(),
        })
    }

    /// The segments of a table, read and built on all cores.
    pub fn read(
        &self,
        definition: &Arc<TableDefinition>,
        images: &[SegmentImage],
        budget: &Arc<MemoryBudget>,
        progress: &Progress,
    ) -> Result<Vec<Arc<Segment>>> {
        let one = |SegmentImage { id, gone }: &SegmentImage| {
            let name = &definition.name;
            let place = self.places.get(id).copied();
            let found = place.and_then(|place| Some((place, self.logs.get(&place.file)?)));
            let (place, (file, path)) = found.ok_or_else(|| StorageError::internal("rows without a place"))?;
            let room = self.rooms.lock().pop().unwrap_or_default();
            let checked = self.checked.contains(&(place.file, place.offset));
            let (kind, record) = record::read_at(file, path, place, checked, room)?;
            let segment = match kind {
                Kind::Segment => {
                    let rows_bytes = (place.bytes as usize).saturating_sub(size_of::<u64>());
                    let rows = record.slice_with_length(PAYLOAD_AT + place.bytes as usize - rows_bytes, rows_bytes);
                    super::rows::decode(rows, *id, definition, budget)
                }
                _ => {
                    let payload = &record[PAYLOAD_AT..PAYLOAD_AT + place.bytes as usize];
                    inline::decode(payload, *id, definition, budget)
                }
            };
            let segment = segment.map_err(|error| match error.kind {
                ErrorKind::OutOfMemory => error.context(|| format!("reading table \"{name}\"")),
                _ => record::damaged(path, place.offset, format!("rows of table \"{name}\": {error}")),
            })?;
            self.rooms.lock().extend(record.into_mutable());
            progress.add(place.bytes);
            if gone.is_empty() {
                return Ok(segment);
            }
            if gone.iter().any(|row| *row as usize >= segment.rows()) {
                let what = format!("rows of table \"{name}\" are gone that it never had");
                return Err(record::damaged(path, place.offset, what));
            }
            let live = Live::all(segment.rows()).without(gone.iter().copied());
            Ok(Segment::left(&segment, Arc::new(live)))
        };
        images.par_iter().map(one).collect()
    }
}

/// Tells how far reading has come, every few seconds.
pub(super) struct Progress {
    all: u64,
    done: AtomicU64,
    told: Mutex<Instant>,
}

impl Progress {
    const EVERY: Duration = Duration::from_secs(5);

    pub fn new(all: u64) -> Progress {
        Progress {
            all,
            done: AtomicU64::new(0),
            told: Mutex::new(Instant::now()),
        }
    }

    /// Of rows that were read.
    pub fn bytes(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(mut told) = self.told.try_lock()
            && told.elapsed() > Progress::EVERY
        {
            *told = Instant::now();
            tracing::info!("store: read {} of {} MiB", done >> 20, self.all >> 20);
        }
    }
}
