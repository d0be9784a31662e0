//! Spilled rows in pinned host memory: what left the device, chunk by chunk, and the runs of each partition in it.

use std::ops::Range;

use super::caller::Caller;
use super::side::{HostRun, Runs, Widths};
use crate::device::Device;
use crate::error::{GpuError, Result};
use crate::memory::PinnedBuffer;

/// Segments are multiples of this; larger ones for more rows.
const SEGMENT_BYTES_MIN: u64 = 8 << 20;
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Bounded by the device's budget of pinned memory and by the caller. Taken as far as it is foreseen before the join runs.
pub(super) struct SpillSpace<'a> {
    device: Device,
    caller: &'a dyn Caller,
    /// The last one in use is filled up to `used`.
    segments: Vec<PinnedBuffer<u64>>,
    segment_bytes: u64,
    current: usize,
    used: u64,
}

impl<'a> SpillSpace<'a> {
    /// Takes room for `expected_bytes`, by copies of `chunk_bytes` at most.
    pub fn new(
        device: &Device,
        caller: &'a dyn Caller,
        expected_bytes: u64,
        chunk_bytes: u64,
    ) -> Result<SpillSpace<'a>> {
        let segment_bytes = (expected_bytes / 8)
            .clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
            .max(2 * chunk_bytes)
            .next_multiple_of(SEGMENT_BYTES_MIN);
        let mut space = SpillSpace {
            device: device.clone(),
            caller,
            segments: Vec::new(),
            segment_bytes,
            current: 0,
            used: 0,
        };
        // A chunk does not go over a segment's end: what is lost there is expected, too.
        let usable = segment_bytes - chunk_bytes.min(segment_bytes / 2);
        for _ in 0..expected_bytes.div_ceil(usable) {
            space.add_segment()?;
        }
        Ok(space)
    }

    fn add_segment(&mut self) -> Result<()> {
        // Backing a segment with pages takes as long as a step.
        if self.caller.is_cancelled() {
            return Err(GpuError::Cancelled);
        }
        self.caller.reserve_host(self.segment_bytes)?;
        self.segments.push(self.device.pinned(self.segment_bytes / 8)?);
        Ok(())
    }

    /// Asks the caller for host memory of another kind.
    pub fn reserve_host(&self, bytes: u64) -> Result<()> {
        self.caller.reserve_host(bytes)
    }

    /// Makes all room free again. Copies to it must be ordered before those that follow.
    pub fn clear(&mut self) {
        (self.current, self.used) = (0, 0);
    }

    /// Address of room for `bytes` bytes, at a multiple of 8.
    pub fn room(&mut self, bytes: u64) -> Result<usize> {
        if self.current < self.segments.len() && self.used + bytes > self.segment_bytes {
            self.current += 1;
            self.used = 0;
        }
        if self.current == self.segments.len() {
            self.add_segment()?;
        }
        let start = self.segments[self.current].address() as usize + self.used as usize;
        self.used += bytes.next_multiple_of(8);
        Ok(start)
    }
}

/// The rows of one chunk, in order of partition.
struct SpilledChunk {
    keys: usize,
    values: usize,
    /// First row of each partition, and the end.
    offsets: Vec<u32>,
}

/// One side's spilled rows.
pub(super) struct SpilledRows {
    chunks: Vec<SpilledChunk>,
    pub widths: Widths,
    /// Rows of each partition.
    pub rows: Vec<u64>,
}

impl SpilledRows {
    pub fn new(widths: Widths, partitions: u32) -> SpilledRows {
        SpilledRows {
            chunks: Vec::new(),
            widths,
            rows: vec![0; partitions as usize],
        }
    }

    /// Adds a chunk whose columns lie at these addresses.
    pub fn add(&mut self, keys: usize, values: usize, offsets: Vec<u32>) {
        for (rows, ends) in self.rows.iter_mut().zip(offsets.windows(2)) {
            *rows += (ends[1] - ends[0]) as u64;
        }
        self.chunks.push(SpilledChunk { keys, values, offsets });
    }

    /// The rows of neighbouring partitions: one run a chunk.
    pub fn runs(&self, partitions: Range<usize>) -> Runs {
        let run = |chunk: &SpilledChunk| {
            let (from, to) = (chunk.offsets[partitions.start], chunk.offsets[partitions.end]);
            HostRun {
                keys: chunk.keys + from as usize * self.widths.key as usize,
                values: chunk.values + from as usize * self.widths.value as usize,
                rows: (to - from) as u64,
                first_row: 0,
            }
        };
        let runs = self.chunks.iter().map(run).filter(|run| run.rows > 0).collect();
        Runs::pinned(runs, self.widths)
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> u64 {
        self.rows.iter().sum::<u64>() * self.widths.row()
    }
}
