//! A join of two materialized inputs, shared by the threads that work on it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;

use super::chunks::{ChunkLimits, PairChunks};
use super::pass::Pass;
use crate::join::choice::Choice;
use crate::join::kind::{tracks_build, tracks_probe};
use crate::join::match_bitmap::MatchBitmap;
use crate::join::side::SideData;
use crate::join::spec::JoinSpec;

/// Batches of rows without columns come together in one of so many: whoever takes it may give it a column of a constant.
const COUNTED_BATCHES: usize = 8;

pub struct MaterializedJoin {
    pub spec: Arc<JoinSpec>,
    pub schema: SchemaRef,
    pub build: SideData,
    pub probe: SideData,
    /// Pairs from the device: all of them come before the passes are there.
    pub chunks: PairChunks,
    /// Pairs without columns that nobody has taken.
    counted: AtomicU64,
    /// What the CPU does, once that is known.
    pub passes: OnceLock<Vec<Pass>>,
    /// Rows with a partner, where the join kind asks for them.
    pub build_matches: Option<MatchBitmap>,
    pub probe_matches: Option<MatchBitmap>,
    pub batch_rows: usize,
    /// The next range of work, counted over all passes.
    next: AtomicUsize,
    /// Workers that have not come to their end.
    pub working: AtomicUsize,
}

/// What a join is prepared under.
pub struct Setting {
    pub choice: Choice,
    /// Rows of an output batch.
    pub batch_rows: usize,
    /// Threads that will call [`MaterializedJoin::take`].
    pub workers: usize,
    /// Device memory that the statement may take.
    pub memory_bytes: Option<u64>,
    /// Whether a join of equal keys that runs out of device memory may go on as the Triton join.
    pub may_spill: bool,
    pub limits: ChunkLimits,
}

impl MaterializedJoin {
    pub fn new(
        spec: Arc<JoinSpec>,
        schema: SchemaRef,
        (build, probe): (SideData, SideData),
        setting: &Setting,
    ) -> Result<Self> {
        // NormalizedKeys, row numbers, and one more copy of both while they are sorted or put into a table.
        build.reservation.try_grow((build.rows + probe.rows) * 32)?;
        let join_type = spec.join_type;
        Ok(Self {
            build_matches: tracks_build(join_type).then(|| MatchBitmap::new(build.rows)),
            probe_matches: tracks_probe(join_type).then(|| MatchBitmap::new(probe.rows)),
            spec,
            schema,
            build,
            probe,
            chunks: PairChunks::new(setting.limits),
            counted: AtomicU64::new(0),
            passes: OnceLock::new(),
            batch_rows: setting.batch_rows,
            next: AtomicUsize::new(0),
            working: AtomicUsize::new(setting.workers),
        })
    }

    /// The next range of the CPU's work, once the device's pairs are at their end.
    pub fn take(&self) -> Option<(&Pass, Range<usize>)> {
        let mut number = self.next.fetch_add(1, Ordering::Relaxed);
        for pass in self.passes.get()? {
            let positions = pass.matcher.positions();
            let ranges = positions.div_ceil(pass.step);
            if number < ranges {
                let from = number * pass.step;
                return Some((pass, from..positions.min(from + pass.step)));
            }
            number -= ranges;
        }
        None
    }

    /// Notes so many pairs, of which nobody wants more than their number.
    pub fn count(&self, pairs: u64) {
        self.counted.fetch_add(pairs, Ordering::Relaxed);
    }

    /// The next batch of pairs that are only counted.
    pub fn take_counted(&self) -> Result<Option<RecordBatch>> {
        let rows = (self.batch_rows * COUNTED_BATCHES) as u64;
        let take = |left: u64| (left > 0).then(|| left.saturating_sub(rows));
        let Ok(left) = self.counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else {
            return Ok(None);
        };
        let rows = RecordBatchOptions::new().with_row_count(Some(left.min(rows) as usize));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), vec![], &rows)?;
        Ok(Some(batch))
    }

    /// Notes rows that have a partner, a byte each; those of the side whose marks the join kind asks for.
    pub fn mark(&self, marks: &[u8]) {
        if let Some(matches) = self.build_matches.as_ref().or(self.probe_matches.as_ref()) {
            let marked = marks.iter().enumerate().filter(|(_, mark)| **mark != 0);
            marked.for_each(|(row, _)| matches.set(row));
        }
    }
}
