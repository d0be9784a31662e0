//! Chunks of rows on their way to the device: a ring of buffers, filled by the copy engine while kernels read others.

use super::arena::Arena;
use super::plan::CHUNKS_IN;
use super::side::{Run, Runs, Widths};
use crate::error::Result;
use crate::memory::host_to_device;
use crate::stream::{Event, Stream};

/// A buffer of the ring.
struct Buffer {
    keys: u64,
    values: u64,
    /// After this, the buffer may be filled again.
    free: Option<Event>,
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
    /// Only copies to the device.
    stream: Stream,
    ring: Vec<Buffer>,
    next: usize,
    chunk_rows: u64,
    /// Bytes copied.
    pub bytes: u64,
}

impl Feed {
    /// A ring whose buffers take rows of up to these widths.
    pub fn new(stream: Stream, arena: &mut Arena, chunk_rows: u64, widths: &[Widths]) -> Result<Feed> {
        let widest = |width: fn(&Widths) -> u64| widths.iter().map(width).max().unwrap_or(0);
        let (key, value) = (widest(|w| w.key), widest(|w| w.value));
        let ring = (0..CHUNKS_IN)
            .map(|_| {
                Ok(Buffer {
                    keys: arena.cut(chunk_rows * key)?,
                    values: arena.cut(chunk_rows * value)?,
                    free: None,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Feed {
            stream,
            ring,
            next: 0,
            chunk_rows,
            bytes: 0,
        })
    }

    /// Copies the next chunk; what `compute` is given afterwards sees it. None if no rows are left. [`Self::release`]
    /// must follow.
    pub fn next(&mut self, compute: &Stream, runs: &mut Runs, widths: Widths) -> Result<Option<Chunk>> {
        let chunk = runs.take(self.chunk_rows);
        let Some(first) = chunk.first() else { return Ok(None) };
        let index = self.next % self.ring.len();
        self.next += 1;
        let buffer = &mut self.ring[index];
        if let Some(free) = buffer.free.take() {
            self.stream.wait_for(&free)?;
        }
        let (keys, values, has_values) = (buffer.keys, buffer.values, first.values != 0);
        let (rows, first_row) = (chunk.iter().map(|run| run.rows).sum(), first.first_row);
        self.copy(&chunk, keys, values, widths)?;
        compute.wait_for(&self.stream.record()?)?;
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

    /// Copies runs, one after the other, to these addresses, once `after` is done.
    pub fn copy_to(
        &mut self,
        after: Option<&Event>,
        compute: &Stream,
        chunk: &[Run],
        (keys, values): (u64, u64),
        widths: Widths,
    ) -> Result<()> {
        if let Some(after) = after {
            self.stream.wait_for(after)?;
        }
        self.copy(chunk, keys, values, widths)?;
        compute.wait_for(&self.stream.record()?)
    }

    fn copy(&mut self, chunk: &[Run], keys: u64, values: u64, widths: Widths) -> Result<()> {
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
                unsafe { host_to_device(&self.stream, target + at * width, source as *const u8, bytes as usize)? };
            }
            at += run.rows;
        }
        Ok(())
    }
}
