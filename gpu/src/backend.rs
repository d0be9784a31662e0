//! What a device implementation offers: the CUDA driver and the simulator each implement this once.
//!
//! Handles are plain numbers; the owning types (`Stream`, `Event`, `Program`, `DeviceBuffer`) give them back.

use std::sync::Arc;

use crate::compile::Artifact;
use crate::error::Result;
use crate::info::DeviceInfo;
use crate::launch::LaunchConfig;

/// Handle of a stream; 0 is never one.
pub type StreamHandle = u64;
/// Handle of an event.
pub type EventHandle = u64;
/// Handle of a loaded module.
pub type ModuleHandle = u64;

/// A kernel of a loaded module.
#[derive(Clone, Debug)]
pub struct FunctionHandle {
    pub address: u64,
    /// Bytes of its parameter struct, where the implementation can tell.
    pub param_bytes: Option<u64>,
    /// Threads a block may have.
    pub max_threads: u32,
}

/// One device. Copies and launches are asynchronous and ordered within their stream.
pub trait Backend: Send + Sync {
    fn info(&self) -> &DeviceInfo;
    /// Free and total bytes of device memory, as the driver sees them.
    fn memory_info(&self) -> Result<(u64, u64)>;

    /// Memory from the driver; only the pool calls this.
    fn alloc(&self, bytes: u64) -> Result<u64>;
    fn free(&self, address: u64) -> Result<()>;
    /// Whether each buffer should be its own allocation (the simulator's guard pages) and not a part of a slab.
    fn separate_buffers(&self) -> bool;

    fn stream_create(&self) -> Result<StreamHandle>;
    fn stream_destroy(&self, stream: StreamHandle);
    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()>;
    /// Whether all work put into the stream so far is done.
    fn stream_is_idle(&self, stream: StreamHandle) -> Result<bool>;

    fn event_create(&self) -> Result<EventHandle>;
    fn event_destroy(&self, event: EventHandle);
    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()>;
    fn event_synchronize(&self, event: EventHandle) -> Result<()>;
    fn event_is_done(&self, event: EventHandle) -> Result<bool>;
    /// Milliseconds between two recorded events.
    fn event_elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32>;
    /// Later work of the stream waits for the event.
    fn stream_wait(&self, stream: StreamHandle, event: EventHandle) -> Result<()>;

    /// # Safety
    /// `source` stays readable until the stream has passed the copy; `target..+bytes` is device memory.
    unsafe fn copy_to_device(&self, target: u64, source: *const u8, bytes: usize, stream: StreamHandle) -> Result<()>;
    /// # Safety
    /// `target` stays writable, and unread, until the stream has passed the copy; `source..+bytes` is device memory.
    unsafe fn copy_to_host(&self, target: *mut u8, source: u64, bytes: usize, stream: StreamHandle) -> Result<()>;
    /// # Safety
    /// Both ranges are device memory and do not overlap.
    unsafe fn copy_on_device(&self, target: u64, source: u64, bytes: usize, stream: StreamHandle) -> Result<()>;
    /// # Safety
    /// The range is device memory.
    unsafe fn set_bytes(&self, target: u64, byte: u8, bytes: usize, stream: StreamHandle) -> Result<()>;

    /// Makes host memory reachable by the copy engines; a no-op on the simulator.
    ///
    /// # Safety
    /// The range is mapped memory and stays so until `host_unregister`.
    unsafe fn host_register(&self, address: *mut u8, bytes: usize) -> Result<()>;
    /// # Safety
    /// `address` was given to `host_register`, and no copy from or to it is under way.
    unsafe fn host_unregister(&self, address: *mut u8) -> Result<()>;

    fn load(&self, artifact: &Arc<Artifact>) -> Result<ModuleHandle>;
    fn unload(&self, module: ModuleHandle);
    fn function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle>;
    /// # Safety
    /// The parameters hold what the kernel expects, and buffers they point to outlive the launch on the stream.
    unsafe fn launch(
        &self,
        name: &str,
        function: &FunctionHandle,
        config: &LaunchConfig,
        params: &[u8],
        stream: StreamHandle,
    ) -> Result<()>;
    /// Blocks of this function that fit on one multiprocessor at once.
    fn resident_blocks(&self, function: &FunctionHandle, threads: u32, shared_bytes: u32) -> Result<u32>;
}
