//! Borrowed parts of device buffers.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use crate::element::{DevicePtr, DevicePtrMut, Element};
use crate::error::{GpuError, Result};

/// Elements in device memory, to read.
pub struct DeviceView<'a, T> {
    address: u64,
    len: u64,
    buffer: PhantomData<&'a T>,
}

impl<T> Clone for DeviceView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for DeviceView<'_, T> {}

/// Elements in device memory, to write.
pub struct DeviceViewMut<'a, T> {
    address: u64,
    len: u64,
    buffer: PhantomData<&'a mut T>,
}

/// Start and end of a range over `len` elements, checked.
fn bounds(range: impl RangeBounds<u64>, len: u64) -> Result<(u64, u64)> {
    let start = match range.start_bound() {
        Bound::Included(&s) => s,
        Bound::Excluded(&s) => s.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&e) => e.saturating_add(1),
        Bound::Excluded(&e) => e,
        Bound::Unbounded => len,
    };
    if start <= end && end <= len {
        Ok((start, end))
    } else {
        Err(GpuError::OutOfRange { start, end, len })
    }
}

/// Length after a cast from `len` elements of `T` at `address` to elements of `U`, checked.
fn cast_len<T, U>(address: u64, len: u64) -> Result<u64> {
    let bytes = len * size_of::<T>() as u64;
    if !bytes.is_multiple_of(size_of::<U>() as u64) {
        return Err(GpuError::OutOfRange {
            start: 0,
            end: bytes.next_multiple_of(size_of::<U>() as u64),
            len: bytes,
        });
    }
    if !address.is_multiple_of(align_of::<U>() as u64) {
        return Err(GpuError::Misaligned {
            offset_bytes: address,
            align_bytes: align_of::<U>() as u64,
        });
    }
    Ok(bytes / size_of::<U>() as u64)
}

impl<'a, T: Element> DeviceView<'a, T> {
    pub(crate) fn new(address: u64, len: u64) -> Self {
        DeviceView {
            address,
            len,
            buffer: PhantomData,
        }
    }

    /// No elements.
    pub fn empty() -> Self {
        DeviceView::new(0, 0)
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
        self.len * size_of::<T>() as u64
    }

    /// For a kernel's parameters.
    pub fn ptr(&self) -> DevicePtr<T> {
        DevicePtr::new(self.address)
    }

    /// A part of it.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<DeviceView<'a, T>> {
        let (start, end) = bounds(range, self.len)?;
        Ok(DeviceView::new(
            self.address + start * size_of::<T>() as u64,
            end - start,
        ))
    }

    /// The same bytes as elements of another type; an error if address or length do not fit it.
    pub fn cast<U: Element>(&self) -> Result<DeviceView<'a, U>> {
        Ok(DeviceView::new(self.address, cast_len::<T, U>(self.address, self.len)?))
    }
}

impl<'a, T: Element> DeviceViewMut<'a, T> {
    pub(crate) fn new(address: u64, len: u64) -> Self {
        DeviceViewMut {
            address,
            len,
            buffer: PhantomData,
        }
    }

    /// No elements.
    pub fn empty() -> Self {
        DeviceViewMut::new(0, 0)
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
        self.len * size_of::<T>() as u64
    }

    /// For a kernel's parameters.
    pub fn ptr(&self) -> DevicePtr<T> {
        DevicePtr::new(self.address)
    }

    /// For a kernel's parameters.
    pub fn ptr_mut(&mut self) -> DevicePtrMut<T> {
        DevicePtrMut::new(self.address)
    }

    /// The same elements, to read.
    pub fn as_view(&self) -> DeviceView<'_, T> {
        DeviceView::new(self.address, self.len)
    }

    /// The same elements for a shorter time.
    pub fn reborrow(&mut self) -> DeviceViewMut<'_, T> {
        DeviceViewMut::new(self.address, self.len)
    }

    /// A part of it.
    pub fn slice(self, range: impl RangeBounds<u64>) -> Result<DeviceViewMut<'a, T>> {
        let (start, end) = bounds(range, self.len)?;
        Ok(DeviceViewMut::new(
            self.address + start * size_of::<T>() as u64,
            end - start,
        ))
    }

    /// Two parts: before and from `middle`.
    pub fn split_at(self, middle: u64) -> Result<(DeviceViewMut<'a, T>, DeviceViewMut<'a, T>)> {
        let (start, _) = bounds(middle.., self.len)?;
        let second = self.address + start * size_of::<T>() as u64;
        Ok((
            DeviceViewMut::new(self.address, start),
            DeviceViewMut::new(second, self.len - start),
        ))
    }

    /// The same bytes as elements of another type; an error if address or length do not fit it.
    pub fn cast<U: Element>(self) -> Result<DeviceViewMut<'a, U>> {
        Ok(DeviceViewMut::new(
            self.address,
            cast_len::<T, U>(self.address, self.len)?,
        ))
    }
}
