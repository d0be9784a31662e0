//! Launches: kernels put into streams.

use std::sync::Arc;

use crate::error::{GpuError, Result};
use crate::kernel::Kernel;
use crate::launch::{KernelParams, LaunchConfig};
use crate::stream::Stream;

impl<P: KernelParams> Kernel<P> {
    /// Puts the launch into the stream. A grid of zero blocks does nothing.
    ///
    /// # Safety
    /// The parameters hold what the kernel expects: pointers to device memory of at least the lengths given, kept
    /// alive until the stream has passed the launch (dropping a `DeviceBuffer` of the same stream is fine), and not
    /// written or read at the same time by another stream.
    pub unsafe fn launch(&self, stream: &Stream, config: &LaunchConfig, params: &P) -> Result<()> {
        let device = &stream.device;
        if !Arc::ptr_eq(&device.backend, &self.module.backend) {
            return Err(GpuError::Invalid(format!(
                "kernel {} belongs to another device",
                self.name
            )));
        }
        if config.blocks() == 0 {
            return Ok(());
        }
        if config.threads() == 0 || config.threads() > self.function.max_threads {
            return Err(GpuError::Invalid(format!(
                "kernel {}: {} threads a block, 1 to {} allowed",
                self.name,
                config.threads(),
                self.function.max_threads
            )));
        }
        // SAFETY: `P` is plain data, valid to read as bytes for the length of the call (padding is not interpreted).
        let bytes = unsafe { std::slice::from_raw_parts((params as *const P).cast::<u8>(), size_of::<P>()) };
        // SAFETY: the caller's promise.
        unsafe {
            device
                .backend
                .launch(&self.name, &self.function, config, bytes, stream.handle())?
        };
        if device.synchronous {
            stream.synchronize().map_err(|e| GpuError::Kernel {
                kernel: self.name.clone(),
                message: e.to_string(),
            })?;
        }
        Ok(())
    }
}
