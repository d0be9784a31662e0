//! Loaded programs and their kernels.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::{Backend, FunctionHandle, ModuleHandle};
use crate::compile::{Artifact, Program};
use crate::error::{GpuError, Result};
use crate::launch::{KernelParams, LaunchConfig};
use crate::stream::Stream;

/// A compiled program on a device.
pub struct Module {
    backend: Arc<dyn Backend>,
    handle: ModuleHandle,
    name: String,
    params: Vec<&'static str>,
    functions: Mutex<HashMap<String, FunctionHandle>>,
}

impl Module {
    pub(crate) fn load(backend: Arc<dyn Backend>, artifact: &Arc<Artifact>, program: &Program) -> Result<Module> {
        let handle = backend.load(artifact)?;
        Ok(Module {
            backend,
            handle,
            name: artifact.name.clone(),
            params: program.source.layouts.iter().map(|(name, _)| *name).collect(),
            functions: Mutex::default(),
        })
    }

    /// The kernel of this name, which takes `P`. `P` must be among the structs of the program's `source!`, so that
    /// its layout was compared when the source was compiled.
    pub fn kernel<P: KernelParams>(self: &Arc<Module>, name: &str) -> Result<Kernel<P>> {
        if !self.params.contains(&P::NAME) {
            return Err(GpuError::Invalid(format!(
                "{}: parameters {} are not declared in its source!",
                self.name,
                P::NAME
            )));
        }
        let cached = self.functions.lock().get(name).cloned();
        let function = match cached {
            Some(function) => function,
            None => {
                let function = self.backend.function(self.handle, name)?;
                self.functions.lock().insert(name.to_string(), function.clone());
                function
            }
        };
        if let Some(bytes) = function.param_bytes
            && bytes != size_of::<P>() as u64
        {
            return Err(GpuError::Invalid(format!(
                "kernel {name} of {} takes {bytes} bytes of parameters, {} has {}",
                self.name,
                P::NAME,
                size_of::<P>()
            )));
        }
        Ok(Kernel {
            module: self.clone(),
            function,
            name: name.to_string(),
            params: PhantomData,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.backend.unload(self.handle);
    }
}

/// A kernel that takes `P`.
pub struct Kernel<P> {
    module: Arc<Module>,
    function: FunctionHandle,
    name: String,
    params: PhantomData<fn(P)>,
}

impl<P: KernelParams> Kernel<P> {
    /// Puts the launch into the stream. A grid of zero blocks does nothing.
    ///
    /// # Safety
    /// The parameters hold what the kernel expects: pointers to device memory of at least the lengths given, kept
    /// alive until the stream has passed the launch (dropping a `DeviceBuffer` of the same stream is fine), and not
    /// written or read at the same time by another stream.
    pub unsafe fn launch(&self, stream: &Stream, config: &LaunchConfig, params: &P) -> Result<()> {
        let device = &stream.inner.device;
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

    /// Blocks of this kernel that fit on one multiprocessor at once; times the multiprocessors, the grid that fills
    /// the device.
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32> {
        self.module
            .backend
            .resident_blocks(&self.function, threads, shared_bytes)
    }
}
