//! Opening a store: the newest checkpoint, the logs behind it, the rows.

use super::checkpoint::Checkpoint;
use super::disk::Disk;
use super::image::{Delta, Image};
use super::inline;
use super::log::Log;
use super::read_rows::{Progress, Source};
use super::record::{self, FileKind, HEADING_BYTES, Kind, RecordLocation, Rest};
use super::scan::Scan;
use super::syncer::Syncer;
use super::{Store, Stored};
use crate::catalog::DatabaseState;
use crate::catalog::database::OID_FIRST;
use crate::catalog::sequence::SequenceLog;
use crate::error::{ErrorKind, Result, StorageError};
use crate::memory::MemoryBudget;
use crate::segment::{self, Segment};
use arrow::buffer::MutableBuffer;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What was found in a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovered {
    pub tables: usize,
    pub rows: u64,
    /// Of the rows, on disk.
    pub bytes: u64,
    /// Commits that were in no checkpoint.
    pub commits: u64,
    /// What the last log held behind its last whole record: of a commit that nobody was told of.
    pub torn_bytes: u64,
    pub took: Duration,
}

/// The numbers of a store's files, ascending.
#[derive(Default)]
pub(super) struct Files {
    pub logs: Vec<u64>,
    pub checkpoints: Vec<u64>,
}

impl Files {
    /// Whether a store's files have such names.
    pub(super) fn is_name(name: &str) -> bool {
        let number = name.strip_prefix("log-").or_else(|| name.strip_prefix("checkpoint-"));
        number.is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    pub(super) fn of(directory: &Path) -> Result<Files> {
        let failed = |error: std::io::Error| {
            let message = format!("could not read the directory \"{}\": {error}", directory.display());
            StorageError::new(ErrorKind::Io, message)
        };
        let mut files = Files::default();
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_string_lossy();
            let number = |of: &str| -> Option<u64> { name.strip_prefix(of)?.parse().ok() };
            files.logs.extend(number("log-"));
            files.checkpoints.extend(number("checkpoint-"));
        }
        files.logs.sort_unstable();
        files.checkpoints.sort_unstable();
        Ok(files)
    }
}

/// The log's end.
struct End {
    number: u64,
    offset: u64,
}

/// What reading the logs gives.
struct Replay {
    image: Image,
    places: HashMap<u64, RecordLocation>,
    /// Segments' records that were not checked: what is written later says that they were durable.
    trusted: Vec<RecordLocation>,
    /// Files and offsets of segments' records that were.
    checked: HashSet<(u64, u64)>,
    recovered: Recovered,
}

impl Store {
    /// Opens the store in a directory, which is made if it is not there, and gives the state that it holds and the next oid.
    pub(crate) fn open(
        directory: &Path,
        disk: Arc<dyn Disk>,
        budget: &Arc<MemoryBudget>,
    ) -> Result<(Store, DatabaseState, u32, Recovered)> {
        let began = Instant::now();
        let lock = lock(directory)?;
        let files = Files::of(directory)?;
        let mut replay = Replay {
            image: Image::new(OID_FIRST)?,
            places: HashMap::new(),
            trusted: Vec::new(),
            checked: HashSet::new(),
            recovered: Recovered::default(),
        };
        let checkpointed = match files.checkpoints.last() {
            Some(number) => replay.checkpoint(directory, *number)?,
            None => 1,
        };
        let end = replay.logs(directory, &*disk, &files.logs, checkpointed)?;
        if !replay.image.segments().all(|id| replay.places.contains_key(&id)) {
            return Err(replay.missing(directory));
        }
        let Replay {
            image,
            places,
            checked,
            mut recovered,
            ..
        } = replay;
        segment::never_again(places.keys().copied().max().unwrap_or(0));
        let log = match end {
            Some(end) => Log::reopen(directory, disk.clone(), end.number, end.offset)?,
            None => Log::create(directory, disk.clone(), 1)?,
        };
        let (tables, next_oid) = (image.tables(), image.next_oid);
        let sequences = Arc::new(SequenceLog::default());
        let progress = Progress::new(
            image
                .segments()
                .map(|id| places.get(&id).map_or(0, |place| place.bytes))
                .sum(),
        );
        let mut stored = HashMap::new();
        let source = Source::open(
            directory,
            image.segments().filter_map(|id| Some((id, *places.get(&id)?))),
            checked,
        )?;
        let state = image.state(&sequences, |definition, images| {
            let rows = source.read(definition, images, budget, &progress)?;
            for segment in rows.iter().map(Segment::whole) {
                let own = Stored {
                    place: places[&segment.id()],
                    segment: Arc::downgrade(segment),
                };
                stored.insert(segment.id(), own);
            }
            recovered.rows += rows.iter().map(|segment| segment.rows() as u64).sum::<u64>();
            Ok(rows)
        })?;
        recovered.tables = tables;
        recovered.bytes = progress.bytes();
        recovered.took = began.elapsed();
        let store = Store {
            directory: directory.into(),
            disk,
            log: Arc::new(log),
            syncer: Syncer::default(),
            stored: Mutex::new(stored),
            sequences,
            checkpointed: Mutex::new(checkpointed),
            progress: Mutex::default(),
            is_due: AtomicBool::new(false),
            _lock: lock,
        };
        Ok((store, state, next_oid, recovered))
    }
}

/// Makes the directory and takes it for this process.
fn lock(directory: &Path) -> Result<File> {
    let io = |error: std::io::Error| {
        let message = format!("could not use the directory \"{}\": {error}", directory.display());
        StorageError::new(ErrorKind::Io, message)
    };
    std::fs::create_dir_all(directory).map_err(io)?;
    let path = directory.join("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(io)?;
    // SAFETY: the descriptor is open for as long as `file` lives.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let message = format!("the directory \"{}\" is in use by another server", directory.display());
        return Err(StorageError::new(ErrorKind::Io, message));
    }
    Ok(file)
}

pub(super) fn opened(path: &Path) -> Result<(File, u64)> {
    let open = || {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    };
    open().map_err(|error: std::io::Error| record::damaged(path, 0, format!("it cannot be read: {error}")))
}

/// Whether the process died while it made this log: nothing was written to it.
fn is_unborn(directory: &Path, number: u64) -> Result<bool> {
    let path = Log::path_in(directory, number);
    let (file, bytes) = opened(&path)?;
    Ok(bytes <= HEADING_BYTES
        && record::check_heading(&file, &path, FileKind::Log, number)
            .is_err_and(|error| error.kind == ErrorKind::DataCorrupted))
}

impl Replay {
    /// Reads a checkpoint; gives the number of the log to go on with.
    fn checkpoint(&mut self, directory: &Path, number: u64) -> Result<u64> {
        let path = Store::checkpoint_path(directory, number);
        let (file, bytes) = opened(&path)?;
        record::check_heading(&file, &path, FileKind::Checkpoint, number)?;
        let found = record::read(&file, HEADING_BYTES, bytes).map_err(|error| record::damaged(&path, 0, error))?;
        let record = found.filter(|record| record.kind == Kind::Checkpoint);
        let record = record.ok_or_else(|| record::damaged(&path, HEADING_BYTES, "its checksum is wrong"))?;
        let Checkpoint { catalog, places } =
            serde_json::from_slice(&record.payload).map_err(|error| record::damaged(&path, HEADING_BYTES, error))?;
        self.image = Image::default();
        self.image.apply(catalog);
        self.places.extend(places);
        Ok(number)
    }

    /// Reads the logs from a number on; gives where the last one ends, None where there is none yet.
    fn logs(&mut self, directory: &Path, disk: &dyn Disk, logs: &[u64], first: u64) -> Result<Option<End>> {
        let mut logs: Vec<u64> = logs.iter().copied().filter(|log| *log >= first).collect();
        if let Some(last) = logs.last().copied()
            && is_unborn(directory, last)?
        {
            let path = Log::path_in(directory, last);
            disk.remove(&path).map_err(|error| record::failed(&path, &error))?;
            logs.pop();
        }
        let missing = |number: u64| {
            let path = Log::path_in(directory, number);
            record::damaged(&path, 0, "it is missing")
        };
        if logs.is_empty() && first > 1 {
            return Err(missing(first));
        }
        if let Some(gap) = logs.iter().zip(first..).find(|(log, wanted)| **log != *wanted) {
            return Err(missing(gap.1));
        }
        let mut end = None;
        for number in &logs {
            let is_last = Some(number) == logs.last();
            end = Some(self.log(directory, *number, is_last)?);
        }
        Ok(end)
    }

    fn log(&mut self, directory: &Path, number: u64, is_last: bool) -> Result<End> {
        let path = Log::path_in(directory, number);
        let (file, bytes) = opened(&path)?;
        record::check_heading(&file, &path, FileKind::Log, number)?;
        let unreadable = |offset: u64| {
            let path = path.clone();
            move |error: std::io::Error| record::damaged(&path, offset, error)
        };
        let taken = Scan::new(&file, number, bytes).run(|found, trusted| {
            if found.kind == Kind::Segment {
                match trusted {
                    true => self.trusted.push(found.place),
                    false => drop(self.checked.insert((number, found.place.offset))),
                }
            }
            let offset = found.place.offset;
            let taken = self.take(found.kind, &found.payload, found.place);
            taken.map_err(|error| record::damaged(&path, offset, error))
        });
        let offset = taken.map_err(unreadable(HEADING_BYTES))??;
        if offset < bytes {
            let rest = record::rest(&file, offset, bytes).map_err(unreadable(offset))?;
            // Only the last log was being written, and only what nobody was told of may be missing from it.
            if !is_last || rest == Rest::Acknowledged {
                return Err(record::damaged(&path, offset, "a record that was durable is not whole"));
            }
            if rest == Rest::Torn {
                self.recovered.torn_bytes = bytes - offset;
            }
        }
        Ok(End { number, offset })
    }

    /// Why there are no rows of these numbers: the record that has them says that it has others.
    fn missing(&self, directory: &Path) -> StorageError {
        for place in &self.trusted {
            let path = Log::path_in(directory, place.file);
            let checked = opened(&path)
                .and_then(|(file, _)| record::read_at(&file, &path, *place, false, MutableBuffer::default()));
            if let Err(error) = checked {
                return error;
            }
        }
        StorageError::corrupted("rows of a table were never written")
    }

    fn take(&mut self, kind: Kind, payload: &[u8], place: RecordLocation) -> Result<()> {
        let json = |error: serde_json::Error| StorageError::corrupted(error.to_string());
        match kind {
            Kind::Segment => {
                let number = payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                let number = number.ok_or_else(|| StorageError::corrupted("a segment without a number"))?;
                self.places.insert(number, place);
            }
            Kind::Commit | Kind::CommitWithRows => {
                let changes = match kind {
                    Kind::CommitWithRows => {
                        let parts = inline::parts(payload)
                            .ok_or_else(|| StorageError::corrupted("a commit's rows are not whole"))?;
                        self.places.extend(parts.segments.iter().map(|(id, _)| (*id, place)));
                        parts.changes
                    }
                    _ => payload,
                };
                let mut delta: Delta = serde_json::from_slice(changes).map_err(json)?;
                self.places.extend(std::mem::take(&mut delta.places));
                let unknown = self.image.apply(delta);
                if unknown > 0 {
                    return Err(StorageError::corrupted("a commit changes a table that is not there"));
                }
                self.recovered.commits += 1;
            }
            Kind::Sequences => {
                let values: Vec<(u32, i64, bool)> = serde_json::from_slice(payload).map_err(json)?;
                for (oid, value, is_called) in values {
                    self.image.advance(oid, value, is_called);
                }
            }
            Kind::Checkpoint => return Err(StorageError::corrupted("a checkpoint within a log")),
        }
        Ok(())
    }
}
