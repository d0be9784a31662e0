//! COPY FROM as a pipeline: the caller's bytes are cut into pieces of whole records, worker threads parse pieces to
//! batches, and batches in the order of the input become segments.
//!
//! ```text
//! push ─ cut ─┬─ parse ─┐
//!             ├─ parse ─┼─ in order: count lines, gather rows ─ enough rows? ─ build segment
//!             └─ parse ─┘
//! ```
//! The first error in the input's order ends the load. Nothing is visible before a transaction appends the result.

use super::cut::{Cutter, PIECE_BYTES};
use super::line_end::LineEnd;
use super::options::{CopyFormat, CopyOptions, Header};
use super::piece::{Parsed, PieceError, PieceParser};
use crate::catalog::TableDefinition;
use crate::error::{ErrorKind, Result, StorageError};
use crate::memory::{MemoryBudget, Reservation};
use crate::segment::{SEGMENT_ROWS_MAX, Segment, segment_bytes_max};
use crate::store::Store;
use crate::writer::segment_of_batches;
use arrow::array::*;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The result of a load, to be given to `Transaction::append`.
#[derive(Debug)]
pub struct Loaded {
    pub rows: u64,
    pub segments: Vec<Arc<Segment>>,
    /// The line of the first row, where each row is one line.
    pub first_line: Option<u64>,
}

/// One COPY FROM in progress. Dropping it abandons the load.
///
/// `push` and `finish` wait for worker threads (rayon's global pool): call them from a thread that may block and is no
/// rayon worker.
pub struct CopyLoader {
    shared: Arc<Shared>,
    cutter: Cutter,
    cutter_bytes: Reservation,
    sequence: u64,
}

/// What all workers of one load use.
struct Shared {
    parser: PieceParser,
    budget: Arc<MemoryBudget>,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// An error was met, or the loader is gone: workers need not go on.
    stopped: AtomicBool,
    rows: AtomicU64,
    in_flight_max: usize,
    /// Where segments are written as soon as they are made.
    store: OnceLock<Arc<Store>>,
}

/// Where the load stands, in the input's order.
struct Progress {
    in_flight: usize,
    next: u64,
    parsed: BTreeMap<u64, Parsed>,
    lines: u64,
    /// Whether each record is one line until here.
    by_line: bool,
    gathered: Vec<RecordBatch>,
    gathered_rows: usize,
    gathered_bytes: Reservation,
    segments: Vec<Option<Arc<Segment>>>,
    ended: bool,
    failed: Option<StorageError>,
}

/// A segment to build, and its place.
struct Build {
    index: usize,
    batches: Vec<RecordBatch>,
    _bytes: Reservation,
}

impl CopyLoader {
    /// A load of rows whose fields are the table's `columns`, in that order. `defaults` has a value of one element, or
    /// None for NULL, for every table column; those of the other columns are used.
    pub fn new(
        definition: &Arc<TableDefinition>,
        columns: &[usize],
        defaults: Vec<Option<ArrayRef>>,
        options: CopyOptions,
        budget: &Arc<MemoryBudget>,
    ) -> Result<CopyLoader> {
        options.check()?;
        if columns.is_empty() {
            return Err(StorageError::new(
                ErrorKind::Unsupported,
                "COPY without columns is not supported",
            ));
        }
        let names: Vec<String> = columns
            .iter()
            .map(|column| definition.columns[*column].name.clone())
            .collect();
        for name in options.force_null.iter().chain(&options.force_not_null) {
            if !names.contains(name) {
                let message = format!("FORCE_NULL or FORCE_NOT_NULL column \"{name}\" not referenced by COPY");
                return Err(StorageError::new(ErrorKind::InvalidParameter, message));
            }
        }
        let forced = names
            .iter()
            .map(|name| (options.force_null.contains(name), options.force_not_null.contains(name)));
        let shared = Shared {
            parser: PieceParser {
                forced: forced.collect(),
                definition: definition.clone(),
                columns: columns.to_vec(),
                names,
                defaults,
                options,
            },
            progress: Mutex::new(Progress {
                in_flight: 0,
                next: 0,
                parsed: BTreeMap::new(),
                lines: 0,
                by_line: true,
                gathered: Vec::new(),
                gathered_rows: 0,
                gathered_bytes: budget.reserve(0)?,
                segments: Vec::new(),
                ended: false,
                failed: None,
            }),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            rows: AtomicU64::new(0),
            in_flight_max: rayon::current_num_threads() * 2 + 2,
            store: OnceLock::new(),
            budget: budget.clone(),
        };
        let cutter = Cutter::new(&shared.parser.options);
        Ok(CopyLoader {
            shared: Arc::new(shared),
            cutter,
            cutter_bytes: budget.reserve(0)?,
            sequence: 0,
        })
    }

    /// Has its workers write segments for a store as they make them, before the table's transaction does so by itself.
    pub fn written_to(self, store: Option<&Arc<Store>>) -> Self {
        if let Some(store) = store {
            self.shared.store.get_or_init(|| store.clone());
        }
        self
    }

    /// Takes the next bytes, cut anywhere. Waits while enough pieces are at work. After an error the load is over.
    pub fn push(&mut self, data: &[u8]) -> Result<()> {
        let mut rest = data;
        while !rest.is_empty() {
            if self.shared.stopped.load(Ordering::Relaxed) {
                return Err(self.first_error());
            }
            let (after, piece) = self.cutter.feed(rest).map_err(|error| self.structural(error))?;
            rest = after;
            let held = self.cutter.held_bytes();
            if held > self.cutter_bytes.bytes().max(2 * PIECE_BYTES) {
                self.cutter_bytes.grow(held - self.cutter_bytes.bytes())?;
            }
            if let Some(piece) = piece {
                self.cutter_bytes.shrink(usize::MAX);
                self.spawn(piece);
            }
        }
        Ok(())
    }

    /// Rows parsed so far.
    pub fn rows(&self) -> u64 {
        self.shared.rows.load(Ordering::Relaxed)
    }

    /// The end of the data: waits for all workers.
    pub fn finish(mut self) -> Result<Loaded> {
        let last = self.cutter.finish();
        // Also an empty piece, where it is the first: it holds the header's place.
        if !last.is_empty() || self.sequence == 0 {
            self.spawn(last);
        }
        let mut progress = self.shared.progress.lock();
        while progress.in_flight > 0 {
            self.shared.changed.wait(&mut progress);
        }
        if let Some(error) = progress.failed.take() {
            return Err(error);
        }
        let build = progress
            .gathered_rows
            .gt(&0)
            .then(|| progress.take_build(&self.shared.budget))
            .transpose()?;
        drop(progress);
        if let Some(build) = build {
            self.shared.build(build);
        }
        let mut progress = self.shared.progress.lock();
        if let Some(error) = progress.failed.take() {
            return Err(error);
        }
        let segments: Vec<_> = progress.segments.drain(..).flatten().collect();
        let rows = segments.iter().map(|segment| segment.rows() as u64).sum();
        let options = &self.shared.parser.options;
        let header = options.format != CopyFormat::Binary && options.header != Header::Absent;
        Ok(Loaded {
            rows,
            segments,
            first_line: progress.by_line.then(|| 1 + u64::from(header)),
        })
    }

    fn spawn(&mut self, piece: Vec<u8>) {
        let sequence = self.sequence;
        self.sequence += 1;
        let mut progress = self.shared.progress.lock();
        while progress.in_flight >= self.shared.in_flight_max {
            self.shared.changed.wait(&mut progress);
        }
        progress.in_flight += 1;
        drop(progress);
        let shared = self.shared.clone();
        let line_end = self.cutter.line_end;
        rayon::spawn(move || shared.work(sequence, line_end, &piece));
    }

    /// The first error in the input's order, once all before it is parsed.
    fn first_error(&self) -> StorageError {
        let mut progress = self.shared.progress.lock();
        while progress.in_flight > 0 {
            self.shared.changed.wait(&mut progress);
        }
        progress
            .failed
            .clone()
            .unwrap_or_else(|| StorageError::internal("the load has stopped"))
    }

    /// An error of the frame, unless an earlier record has one.
    fn structural(&self, error: StorageError) -> StorageError {
        self.shared.stopped.store(true, Ordering::Relaxed);
        let mut progress = self.shared.progress.lock();
        while progress.in_flight > 0 {
            self.shared.changed.wait(&mut progress);
        }
        let lines = progress.lines;
        let name = &self.shared.parser.definition.name;
        progress
            .failed
            .clone()
            .unwrap_or_else(|| error.context(|| format!("COPY {name}, line {}", lines + 1)))
    }
}

impl Drop for CopyLoader {
    fn drop(&mut self) {
        let abandoned = StorageError::new(ErrorKind::Canceled, "the load was abandoned");
        self.shared.fail(&mut self.shared.progress.lock(), abandoned);
    }
}

impl Shared {
    /// A worker's share: parses a piece, then takes what is next in order.
    fn work(&self, sequence: u64, line_end: Option<LineEnd>, piece: &[u8]) {
        let parsed = if self.stopped.load(Ordering::Relaxed) {
            Parsed {
                batch: None,
                lines: 0,
                by_line: false,
                ended: false,
                error: None,
            }
        } else {
            catch_unwind(AssertUnwindSafe(|| self.parser.parse(sequence == 0, line_end, piece))).unwrap_or_else(|_| {
                let error = StorageError::internal("parsing failed");
                let error = Some(PieceError {
                    line: 1,
                    place: String::new(),
                    error,
                });
                Parsed {
                    batch: None,
                    lines: 0,
                    by_line: false,
                    ended: false,
                    error,
                }
            })
        };
        let mut builds = Vec::new();
        let mut progress = self.progress.lock();
        progress.parsed.insert(sequence, parsed);
        while let Some(parsed) = {
            let next = progress.next;
            progress.parsed.remove(&next)
        } {
            progress.next += 1;
            if let Err(error) = self.take(&mut progress, parsed, &mut builds) {
                self.fail(&mut progress, error);
            }
        }
        drop(progress);
        builds.into_iter().for_each(|build| self.build(build));
        self.progress.lock().in_flight -= 1;
        self.changed.notify_all();
    }

    /// Takes the next piece in order.
    fn take(&self, progress: &mut Progress, parsed: Parsed, builds: &mut Vec<Build>) -> Result<()> {
        if progress.ended || progress.failed.is_some() {
            return Ok(());
        }
        if let Some(batch) = parsed.batch {
            self.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            let mut offset = 0;
            while offset < batch.num_rows() {
                let rows = (batch.num_rows() - offset).min(SEGMENT_ROWS_MAX - progress.gathered_rows);
                let slice = batch.slice(offset, rows);
                progress.gathered_bytes.grow(batch_bytes(&slice))?;
                progress.gathered.push(slice);
                progress.gathered_rows += rows;
                offset += rows;
                if progress.gathered_rows == SEGMENT_ROWS_MAX || progress.gathered_bytes.bytes() > segment_bytes_max() {
                    builds.push(progress.take_build(&self.budget)?);
                }
            }
        }
        if let Some(PieceError { line, place, error }) = parsed.error {
            let name = &self.parser.definition.name;
            return Err(error.context(|| format!("COPY {name}, line {}{place}", progress.lines + line)));
        }
        progress.lines += parsed.lines;
        progress.by_line &= parsed.by_line;
        progress.ended = parsed.ended;
        Ok(())
    }

    fn build(&self, build: Build) {
        let built = catch_unwind(AssertUnwindSafe(|| {
            segment_of_batches(&self.parser.definition, build.batches, &self.budget)
        }))
        .unwrap_or_else(|_| Err(StorageError::internal("building a segment failed")))
        .and_then(|segment| {
            if let Some(store) = self.store.get() {
                store.write_ahead(&self.parser.definition.schema_name, &segment)?;
            }
            Ok(segment)
        });
        let mut progress = self.progress.lock();
        match built {
            Ok(segment) if progress.failed.is_none() => progress.segments[build.index] = Some(segment),
            Ok(_) => {}
            Err(error) => self.fail(&mut progress, error),
        }
    }

    /// Ends the load and lets go of its rows. The first error stays.
    fn fail(&self, progress: &mut Progress, error: StorageError) {
        progress.failed.get_or_insert(error);
        progress.gathered.clear();
        progress.gathered_bytes.shrink(usize::MAX);
        progress.segments.iter_mut().for_each(|segment| *segment = None);
        self.stopped.store(true, Ordering::Relaxed);
    }
}

impl Progress {
    fn take_build(&mut self, budget: &Arc<MemoryBudget>) -> Result<Build> {
        let empty = budget.reserve(0)?;
        self.segments.push(None);
        self.gathered_rows = 0;
        Ok(Build {
            index: self.segments.len() - 1,
            batches: std::mem::take(&mut self.gathered),
            _bytes: std::mem::replace(&mut self.gathered_bytes, empty),
        })
    }
}

fn batch_bytes(batch: &RecordBatch) -> usize {
    batch
        .columns()
        .iter()
        .map(|column| column.get_array_memory_size())
        .sum()
}
