//! Allocation and copies, in the order of a stream.
//!
//! Copies between device and ordinary host slices wait for the stream, since the slice is only borrowed for the call.

use super::buffer::DeviceBuffer;
use super::staging;
use super::view::{DeviceView, DeviceViewMut};
use crate::element::Element;
use crate::error::{GpuError, Result};
use crate::stream::Stream;

fn same_len(source: u64, target: u64) -> Result<()> {
    if source == target {
        return Ok(());
    }
    Err(GpuError::Invalid(format!("copy of {source} elements into {target}")))
}

impl Stream {
    /// Uninitialised memory for `len` elements; zero is allowed.
    pub fn alloc<T: Element>(&self, len: u64) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::new(self, len)
    }

    /// Memory for `len` elements, all bytes zero.
    pub fn alloc_zeroed<T: Element>(&self, len: u64) -> Result<DeviceBuffer<T>> {
        let mut buffer = self.alloc(len)?;
        self.set_bytes(buffer.view_mut(), 0)?;
        Ok(buffer)
    }

    /// A buffer with a copy of the slice. Waits for the copy.
    pub fn upload<T: Element>(&self, source: &[T]) -> Result<DeviceBuffer<T>> {
        let mut buffer = self.alloc(source.len() as u64)?;
        self.copy_to_device(source, buffer.view_mut())?;
        Ok(buffer)
    }

    /// Copies the slice into the view, of the same length. Waits for the copy.
    pub fn copy_to_device<T: Element>(&self, source: &[T], mut target: DeviceViewMut<'_, T>) -> Result<()> {
        same_len(source.len() as u64, target.len())?;
        if source.is_empty() {
            return Ok(());
        }
        let bytes = size_of_val(source);
        // SAFETY: lengths agree; the slice is borrowed until the synchronisation below.
        unsafe { staging::to_device(self, target.ptr_mut().0, source.as_ptr().cast(), bytes) }?;
        self.synchronize()
    }

    /// Starts copying the slice into a new buffer; at the bus's rate where the slice lies in registered memory.
    ///
    /// # Safety
    /// The slice is there, and unchanged, until the stream has passed the copy.
    pub unsafe fn upload_later<T: Element>(&self, source: &[T]) -> Result<DeviceBuffer<T>> {
        let mut buffer = self.alloc(source.len() as u64)?;
        if !source.is_empty() {
            let bytes = size_of_val(source);
            // SAFETY: lengths agree; the rest is the caller's promise.
            unsafe { staging::to_device(self, buffer.ptr_mut().0, source.as_ptr().cast(), bytes) }?;
        }
        Ok(buffer)
    }

    /// Whether kernels reach so much host memory at its own address: it is registered or pinned.
    pub fn reaches(&self, host: *const u8, bytes: usize) -> bool {
        staging::is_reached(self, host, bytes)
    }

    /// The view's elements. Waits for all work of the stream so far.
    pub fn download<T: Element>(&self, source: DeviceView<'_, T>) -> Result<Vec<T>> {
        let mut target = Vec::with_capacity(source.len() as usize);
        if source.is_empty() {
            return Ok(target);
        }
        // SAFETY: the vector has room for the view's elements; all of them are written, and any bytes are a valid
        // element, before the length is set.
        unsafe {
            staging::to_host(
                self,
                target.as_mut_ptr().cast(),
                source.ptr().0,
                source.bytes() as usize,
            )?;
            target.set_len(source.len() as usize);
        }
        Ok(target)
    }

    /// Copies the view into the slice, of the same length. Waits for all work of the stream so far.
    pub fn download_into<T: Element>(&self, source: DeviceView<'_, T>, target: &mut [T]) -> Result<()> {
        same_len(source.len(), target.len() as u64)?;
        if source.is_empty() {
            return Ok(());
        }
        // SAFETY: lengths agree; the slice is borrowed, and the copy is done when the call returns.
        unsafe {
            staging::to_host(
                self,
                target.as_mut_ptr().cast(),
                source.ptr().0,
                source.bytes() as usize,
            )
        }
    }

    /// Copies between device buffers, of the same length. Does not wait.
    pub fn copy<T: Element>(&self, source: DeviceView<'_, T>, mut target: DeviceViewMut<'_, T>) -> Result<()> {
        same_len(source.len(), target.len())?;
        if source.is_empty() {
            return Ok(());
        }
        // SAFETY: lengths agree; a view to write cannot overlap one to read.
        unsafe {
            let backend = &self.device.backend;
            backend.copy_on_device(
                target.ptr_mut().0,
                source.ptr().0,
                source.bytes() as usize,
                self.handle(),
            )
        }
    }

    /// Sets every byte of the view. Does not wait.
    pub fn set_bytes<T: Element>(&self, mut target: DeviceViewMut<'_, T>, byte: u8) -> Result<()> {
        if target.is_empty() {
            return Ok(());
        }
        // SAFETY: the view's bytes are device memory, borrowed to write.
        unsafe {
            let backend = &self.device.backend;
            backend.set_bytes(target.ptr_mut().0, byte, target.bytes() as usize, self.handle())
        }
    }
}
