//! Several parts of device memory on their way to the host, of which the host waits for once.

use crate::error::Result;
use crate::memory::{Element, PinnedBuffer};
use crate::stream::{Event, Stream};

/// Parts begin at such addresses.
const ALIGN: usize = 16;

/// Copies under way into pinned memory.
pub struct Together {
    target: PinnedBuffer<u8>,
    /// Where each part begins, and its bytes.
    parts: Vec<(usize, usize)>,
    done: Event,
    is_done: bool,
}

impl Stream {
    /// Starts copying parts of device memory, each an address and bytes, after the work put into this stream so far.
    ///
    /// # Safety
    /// The parts are within device memory that is kept until this stream has passed here, and that nothing else writes to.
    pub unsafe fn download_together(&self, parts: &[(u64, usize)]) -> Result<Together> {
        let mut end = 0;
        let places = parts.iter().map(|&(_, bytes)| {
            let start = end;
            end += bytes.next_multiple_of(ALIGN);
            (start, bytes)
        });
        let places: Vec<(usize, usize)> = places.collect();
        let target = self.device().pinned::<u8>(end as u64)?;
        let backend = &self.device.backend;
        let copied = parts.iter().zip(&places).try_for_each(|(&(from, bytes), &(start, _))| {
            // SAFETY: the target has room from `start` on; the caller's promise for the source.
            unsafe { backend.copy_to_host(target.address().add(start), from, bytes, self.handle()) }
        });
        match copied.and_then(|()| self.record()) {
            Ok(done) => Ok(Together {
                target,
                parts: places,
                done,
                is_done: false,
            }),
            Err(error) => {
                // What is under way must not meet memory that others have got.
                self.synchronize()?;
                Err(error)
            }
        }
    }
}

impl Together {
    /// Waits until all parts are there.
    pub fn wait(&mut self) -> Result<()> {
        if !self.is_done {
            self.done.synchronize()?;
            self.is_done = true;
        }
        Ok(())
    }

    /// The first elements of a part, if it has so many and all parts are there.
    pub fn elements<T: Element>(&self, part: usize, count: usize) -> Option<Vec<T>> {
        let (start, bytes) = *self.parts.get(part)?;
        if !self.is_done || count.checked_mul(size_of::<T>())? > bytes {
            return None;
        }
        let mut elements = Vec::<T>::with_capacity(count);
        // SAFETY: the part has the bytes of so many elements, of which any bytes are valid; the vector has room for them.
        unsafe {
            let from = self.target.as_ptr().add(start);
            from.copy_to_nonoverlapping(elements.as_mut_ptr().cast(), count * size_of::<T>());
            elements.set_len(count);
        }
        Some(elements)
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        if let Err(error) = self.wait() {
            tracing::error!(%error, "waiting for copies to the host");
        }
    }
}
