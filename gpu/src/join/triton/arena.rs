//! The join's device memory: one allocation, taken before anything runs, so that joins that run at once do not wait for
//! each other half-way. Parts are cut from it and given back from the end.

use crate::error::{GpuError, Result};
use crate::memory::DeviceBuffer;
use crate::stream::Stream;

/// Parts start at multiples of this.
pub(super) const ALIGN_BYTES: u64 = 256;

pub(super) struct Arena {
    buffer: DeviceBuffer<u8>,
    used: u64,
}

impl Arena {
    pub fn new(stream: &Stream, bytes: u64) -> Result<Arena> {
        Ok(Arena {
            buffer: stream.alloc(bytes)?,
            used: 0,
        })
    }

    /// Address of `bytes` bytes more.
    pub fn cut(&mut self, bytes: u64) -> Result<u64> {
        let end = self.used.saturating_add(bytes);
        if end > self.buffer.len() {
            return Err(GpuError::OutOfMemory {
                requested_bytes: bytes,
                in_use_bytes: self.used,
                reserved_bytes: 0,
                budget_bytes: self.buffer.len(),
                detail: "; this is the join's share".into(),
            });
        }
        let address = self.buffer.ptr().0 + self.used;
        self.used = end.next_multiple_of(ALIGN_BYTES).min(self.buffer.len());
        Ok(address)
    }

    /// Where the next part would start, to go back to.
    pub fn mark(&self) -> u64 {
        self.used
    }

    /// Gives back what was cut since the mark. Work that uses it must be done, or come before in the stream of what
    /// takes its place.
    pub fn reset(&mut self, mark: u64) {
        self.used = self.used.min(mark);
    }
}
