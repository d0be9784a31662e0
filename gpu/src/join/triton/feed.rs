//! Chunks of rows on their way to the device: a ring of buffers, filled while kernels read others. Long runs come by
//! the copy engine, short ones by a kernel that reads host memory.

use super::arena::Arena;
use super::chunk::at_mut;
use super::plan::{CHUNKS_IN, MemoryPlan};
use super::programs::{GatherParams, gather_program};
use super::side::{HostRun, Runs, Widths};
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, PinnedBuffer, host_to_device};
use crate::stream::{Event, Stream};
use crate::tuning::{TRITON_GATHER_ITEMS, TRITON_GATHER_THREADS};

/// Columns of runs that are shorter than this on the average come by the kernel: on an H100, of runs of 0.5 MiB it
/// brings 39 GB/s and the copy engine 28, of 2 MiB 40 and 46.
const GATHER_BELOW_BYTES: u64 = 1 << 20;
/// Rows of a piece that a block gathers at once: with those before it in its first line, what its threads hold.
const PIECE_ROWS: u64 = (TRITON_GATHER_THREADS * TRITON_GATHER_ITEMS) as u64 - 32;
/// Words of a piece: addresses of keys and values, first row in the chunk, rows.
const PIECE_WORDS: usize = 4;
/// Runs of one chunk at most.
const RUNS_MAX: u64 = 16 << 10;

/// A buffer of the ring.
struct Buffer {
    keys: u64,
    values: u64,
    /// After this, the buffer may be filled again.
    free: Option<Event>,
    /// After this, the buffer is filled, and its list of pieces may be replaced.
    filled: Option<Event>,
}

/// Rows on the device, at the start of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    buffer: usize,
    pub keys: u64,
    /// 0: row numbers from `first_row`.
    pub values: u64,
    pub rows: u64,
    pub first_row: u64,
}

pub(super) struct Feed {
    /// Only what fills buffers. Kernels take turns on both: the next one already reads when the join's kernels, which
    /// wait for this one, take the multiprocessors. The copy engine serves the first.
    streams: [Stream; 2],
    ring: Vec<Buffer>,
    next: usize,
    chunk_rows: u64,
    gather_below_bytes: u64,
    /// Pieces of the chunks of the ring, for the kernel.
    pieces: PinnedBuffer<u64>,
    pieces_max: usize,
    /// Bytes copied.
    pub bytes: u64,
}

impl Feed {
    /// A ring whose buffers take rows of up to these widths.
    pub fn new(
        streams: [Stream; 2],
        arena: &mut Arena,
        plan: &MemoryPlan,
        widths: &[Widths],
        gather_below_bytes: Option<u64>,
    ) -> Result<Feed> {
        let widest = |width: fn(&Widths) -> u64| widths.iter().map(width).max().unwrap_or(0);
        let (key, value) = (widest(|w| w.key), widest(|w| w.value));
        let ring = (0..CHUNKS_IN)
            .map(|_| {
                Ok(Buffer {
                    keys: arena.cut(plan.chunk_rows * key)?,
                    values: arena.cut(plan.chunk_rows * value)?,
                    free: None,
                    filled: None,
                })
            })
            .collect::<Result<_>>()?;
        let pieces_max = plan.chunk_rows / PIECE_ROWS + RUNS_MAX;
        let pieces = streams[0]
            .device()
            .pinned(CHUNKS_IN * pieces_max * PIECE_WORDS as u64)?;
        Ok(Feed {
            streams,
            ring,
            next: 0,
            chunk_rows: plan.chunk_rows,
            gather_below_bytes: gather_below_bytes.unwrap_or(GATHER_BELOW_BYTES),
            pieces,
            pieces_max: pieces_max as usize,
            bytes: 0,
        })
    }

    /// Lets the next chunk of at most `rows_max` rows come; what `compute` is given afterwards sees it. None if no rows
    /// are left. [`Self::release`] must follow.
    pub fn next(&mut self, compute: &Stream, runs: &mut Runs, rows_max: u64) -> Result<Option<Chunk>> {
        let chunk = runs.take(self.chunk_rows.min(rows_max), RUNS_MAX as usize);
        let Some(first) = chunk.first() else { return Ok(None) };
        let rows = chunk.iter().map(|run| run.rows).sum::<u64>();
        let column_bytes = rows * runs.widths.key.min(runs.widths.value);
        let gathers = runs.is_pinned && column_bytes < self.gather_below_bytes.saturating_mul(chunk.len() as u64);
        let index = self.next % self.ring.len();
        let stream = self.streams[if gathers { self.next % 2 } else { 0 }].clone();
        self.next += 1;
        let buffer = &mut self.ring[index];
        // The processor runs ahead by the ring's length, so that it notices a cancellation soon.
        if let Some(filled) = buffer.filled.take() {
            filled.synchronize()?;
        }
        if let Some(free) = buffer.free.take() {
            stream.wait_for(&free)?;
        }
        let (keys, values, has_values) = (buffer.keys, buffer.values, first.values != 0);
        let first_row = first.first_row;
        if gathers {
            self.gather(&stream, index, &chunk, runs.widths)?;
        } else {
            self.copy(&chunk, keys, values, runs.widths)?;
        }
        let filled = stream.record()?;
        compute.wait_for(&filled)?;
        self.ring[index].filled = Some(filled);
        Ok(Some(Chunk {
            buffer: index,
            keys,
            values: if has_values { values } else { 0 },
            rows,
            first_row,
        }))
    }

    /// What `compute` was given so far is all that reads the chunk.
    pub fn release(&mut self, compute: &Stream, chunk: &Chunk) -> Result<()> {
        self.ring[chunk.buffer].free = Some(compute.record()?);
        Ok(())
    }

    /// What comes from now on comes after the work that another stream has.
    pub fn wait_for(&self, other: &Stream) -> Result<()> {
        self.streams.iter().try_for_each(|stream| stream.wait_for_stream(other))
    }

    /// Runs, one after the other, by the copy engine.
    fn copy(&mut self, chunk: &[HostRun], keys: u64, values: u64, widths: Widths) -> Result<()> {
        let mut at = 0;
        for run in chunk {
            let parts = [(run.keys, keys, widths.key), (run.values, values, widths.value)];
            for (source, target, width) in parts {
                let bytes = run.rows * width;
                if source == 0 || bytes == 0 {
                    continue;
                }
                self.bytes += bytes;
                // SAFETY: runs lie in the inputs or in spilled rows, both borrowed until the join's streams are waited
                // for; the target has room for a chunk.
                unsafe {
                    host_to_device(
                        &self.streams[0],
                        target + at * width,
                        source as *const u8,
                        bytes as usize,
                    )?
                };
            }
            at += run.rows;
        }
        Ok(())
    }

    /// The same by a kernel.
    fn gather(&mut self, stream: &Stream, index: usize, chunk: &[HostRun], widths: Widths) -> Result<()> {
        let words = self.pieces_max * PIECE_WORDS;
        let list = &mut self.pieces[index * words..(index + 1) * words];
        let (mut count, mut to) = (0, 0);
        for run in chunk {
            for from in (0..run.rows).step_by(PIECE_ROWS as usize) {
                let rows = PIECE_ROWS.min(run.rows - from);
                let piece = [
                    run.keys as u64 + from * widths.key,
                    run.values as u64 + from * widths.value,
                    to,
                    rows,
                ];
                list[count * PIECE_WORDS..(count + 1) * PIECE_WORDS].copy_from_slice(&piece);
                count += 1;
                to += rows;
            }
        }
        self.bytes += to * widths.row();
        let params = GatherParams {
            pieces: DevicePtr::new(list.as_ptr() as u64),
            count: count as u64,
            keys: at_mut(self.ring[index].keys),
            values: at_mut(self.ring[index].values),
        };
        let device = stream.device();
        let kernel = device
            .load(&gather_program(widths))?
            .kernel::<GatherParams>("gather_runs")?;
        let blocks = (count as u32).min(device.info().multiprocessors);
        // SAFETY: the pieces lie in spilled rows, which are pinned and stay until the join's streams are waited for, as
        // does their list; the buffer has room for a chunk.
        unsafe { kernel.launch(stream, &LaunchConfig::new(blocks, TRITON_GATHER_THREADS), &params) }
    }
}
