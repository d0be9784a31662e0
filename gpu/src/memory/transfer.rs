//! Transfers that overlap with kernels: host data that streams through the device in chunks, and results that leave
//! while the next kernels run. Each uses a stream of its own beside that of the kernels.

use super::view::DeviceView;
use super::{DeviceBuffer, staging};
use crate::element::Element;
use crate::error::{GpuError, Result};
use crate::pool::PinnedBuffer;
use crate::stream::{Event, Stream};

/// Device buffers that chunks rotate among: one that is copied to, one that kernels read, one to spare.
const BUFFERS: usize = 3;

/// Waits for its stream when dropped, so that borrowed host memory is free on every way out.
pub(crate) struct Joined(pub(crate) Stream);

impl Drop for Joined {
    fn drop(&mut self) {
        if let Err(error) = self.0.synchronize() {
            tracing::error!(%error, "waiting for copies");
        }
    }
}

impl Stream {
    /// Streams host data through the device: `f` gets each chunk's first row and its elements, and puts kernels that
    /// read them into this stream; the next chunks are copied meanwhile. What `f` launches must read the chunk in this
    /// stream only. Allocates three chunks. Returns once all is copied; kernels may still run.
    pub fn stream_in<T: Element>(
        &self,
        source: &[T],
        chunk_len: u64,
        mut f: impl FnMut(u64, DeviceView<'_, T>) -> Result<()>,
    ) -> Result<()> {
        let chunk_len = (chunk_len.max(1)).min(source.len() as u64);
        if source.is_empty() {
            return Ok(());
        }
        let chunks = (source.len() as u64).div_ceil(chunk_len) as usize;
        // Buffers before the copies' stream: it is waited for before they are given back.
        let mut buffers = (0..BUFFERS.min(chunks))
            .map(|_| Ok((self.alloc::<T>(chunk_len)?, None::<Event>)))
            .collect::<Result<Vec<(DeviceBuffer<T>, Option<Event>)>>>()?;
        let copies = Joined(self.device().stream()?);
        copies.0.wait_for_stream(self)?;
        let count = buffers.len();
        for (i, chunk) in source.chunks(chunk_len as usize).enumerate() {
            let (buffer, read) = &mut buffers[i % count];
            if let Some(read) = read {
                copies.0.wait_for(read)?;
            }
            let mut view = buffer.slice_mut(..chunk.len() as u64)?;
            // SAFETY: the view has the chunk's length; the chunk is borrowed until `copies` is waited for.
            unsafe { staging::to_device(&copies.0, view.ptr_mut().0, chunk.as_ptr().cast(), size_of_val(chunk)) }?;
            self.wait_for(&copies.0.record()?)?;
            f(i as u64 * chunk_len, view.as_view())?;
            *read = Some(self.record()?);
        }
        Ok(())
    }

    /// Starts copying the view into pinned memory of the same length, after the work put into this stream so far and
    /// beside what follows.
    pub fn download_later<'a, T: Element>(
        &self,
        source: DeviceView<'a, T>,
        target: PinnedBuffer<T>,
    ) -> Result<Download<'a, T>> {
        if source.len() != target.len() as u64 {
            return Err(GpuError::Invalid(format!(
                "copy of {} elements into {}",
                source.len(),
                target.len()
            )));
        }
        let copies = self.device().stream()?;
        copies.wait_for_stream(self)?;
        let download = Download {
            target: Some(target),
            copies,
            source,
        };
        if let Some(target) = &download.target
            && !source.is_empty()
        {
            let backend = &self.device.backend;
            let (address, bytes) = (target.address(), source.bytes() as usize);
            // SAFETY: lengths agree; the target is owned by the download, which waits before it gives it away.
            unsafe { backend.copy_to_host(address, source.ptr().0, bytes, download.copies.handle()) }?;
        }
        Ok(download)
    }
}

/// A copy to the host under way. It borrows the device memory that it reads.
pub struct Download<'a, T: Element> {
    /// Taken only by `wait` and the drop.
    target: Option<PinnedBuffer<T>>,
    copies: Stream,
    source: DeviceView<'a, T>,
}

impl<T: Element> Download<'_, T> {
    /// Elements under way.
    pub fn len(&self) -> u64 {
        self.source.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    /// Waits for the copy; gives the memory with the elements in it.
    pub fn wait(mut self) -> Result<PinnedBuffer<T>> {
        self.copies.synchronize()?;
        self.target
            .take()
            .ok_or_else(|| GpuError::Invalid("a download without its target".into()))
    }
}

impl<T: Element> Drop for Download<'_, T> {
    fn drop(&mut self) {
        if self.target.is_some()
            && let Err(error) = self.copies.synchronize()
        {
            tracing::error!(%error, "waiting for a copy to the host");
        }
    }
}
