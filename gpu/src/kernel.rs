//! Loaded programs and their kernels.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::{Backend, FunctionHandle, ModuleHandle};
use crate::compile::{Artifact, Program};
use crate::error::{GpuError, Result};
use crate::launch::KernelParams;

/// A compiled program on a device.
pub struct Module {
    pub(crate) backend: Arc<dyn Backend>,
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
    pub(crate) module: Arc<Module>,
    pub(crate) function: FunctionHandle,
    pub(crate) name: String,
    params: PhantomData<fn(P)>,
}

impl<P: KernelParams> Kernel<P> {
    /// Blocks of this kernel that fit on one multiprocessor at once; times the multiprocessors, the grid that fills
    /// the device.
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u32> {
        self.module
            .backend
            .resident_blocks(&self.function, threads, shared_bytes)
    }
}
