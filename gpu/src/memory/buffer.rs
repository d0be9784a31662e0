//! Typed device buffers.

use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::view::{DeviceView, DeviceViewMut};
use crate::element::{DevicePtr, DevicePtrMut, Element};
use crate::error::{GpuError, Result};
use crate::pool::Allocation;
use crate::stream::Stream;

/// `len` elements in device memory, uninitialised until written. Given back to the pool when dropped; work of its
/// stream that was put in before may still use it.
pub struct DeviceBuffer<T> {
    allocation: Allocation,
    len: u64,
    element: PhantomData<T>,
}

impl<T: Element> DeviceBuffer<T> {
    pub(crate) fn new(stream: &Stream, len: u64) -> Result<DeviceBuffer<T>> {
        let bytes = len
            .checked_mul(size_of::<T>() as u64)
            .ok_or_else(|| GpuError::Invalid(format!("{len} elements of {} bytes overflow", size_of::<T>())))?;
        let allocation = stream.device.pool.alloc(&stream.queue, bytes)?;
        Ok(DeviceBuffer {
            allocation,
            len,
            element: PhantomData,
        })
    }

    /// Elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.allocation.bytes()
    }

    /// The whole buffer, to read.
    pub fn view(&self) -> DeviceView<'_, T> {
        DeviceView::new(self.allocation.address(), self.len)
    }

    /// The whole buffer, to write.
    pub fn view_mut(&mut self) -> DeviceViewMut<'_, T> {
        DeviceViewMut::new(self.allocation.address(), self.len)
    }

    /// A part of the buffer, to read.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<DeviceView<'_, T>> {
        self.view().slice(range)
    }

    /// A part of the buffer, to write.
    pub fn slice_mut(&mut self, range: impl RangeBounds<u64>) -> Result<DeviceViewMut<'_, T>> {
        self.view_mut().slice(range)
    }

    /// For a kernel's parameters.
    pub fn ptr(&self) -> DevicePtr<T> {
        DevicePtr::new(self.allocation.address())
    }

    /// For a kernel's parameters.
    pub fn ptr_mut(&mut self) -> DevicePtrMut<T> {
        DevicePtrMut::new(self.allocation.address())
    }

    /// The same buffer with fewer elements; the memory stays as it is.
    pub fn truncate(&mut self, len: u64) {
        self.len = self.len.min(len);
    }

    /// The same bytes as elements of another type.
    pub fn cast<U: Element>(self) -> Result<DeviceBuffer<U>> {
        let len = self.view().cast::<U>()?.len();
        Ok(DeviceBuffer {
            allocation: self.allocation,
            len,
            element: PhantomData,
        })
    }
}
