//! Copies by address, for code that parts one allocation itself.

use super::staging;
use crate::error::Result;
use crate::stream::Stream;

/// Puts a copy to the device into the stream: directly from registered or pinned memory, else by way of pinned pieces,
/// which takes the calling thread with it.
///
/// # Safety
/// `source` stays readable until the stream has passed the copy; `target..+bytes` is device memory.
pub(crate) unsafe fn host_to_device(stream: &Stream, target: u64, source: *const u8, bytes: usize) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { staging::to_device(stream, target, source, bytes) }
}

/// Puts a copy to the host into the stream; beside kernels only if the target is pinned.
///
/// # Safety
/// `target` stays writable, and unread, until the stream has passed the copy; `source..+bytes` is device memory.
pub(crate) unsafe fn device_to_host(stream: &Stream, target: *mut u8, source: u64, bytes: usize) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        stream
            .device
            .backend
            .copy_to_host(target, source, bytes, stream.handle())
    }
}

/// Puts the setting of bytes into the stream.
///
/// # Safety
/// The range is device memory.
pub(crate) unsafe fn set_device_bytes(stream: &Stream, target: u64, byte: u8, bytes: usize) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { stream.device.backend.set_bytes(target, byte, bytes, stream.handle()) }
}
