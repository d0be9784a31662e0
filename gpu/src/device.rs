//! A device: its implementation, its memory pool and its compiled kernels.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::{Backend, EventHandle};
use crate::compile::{self, Cache, Compiler, Program};
use crate::detect::{DeviceInfo, DeviceKind};
use crate::error::{GpuError, Result};
use crate::kernel::Module;
use crate::memory::Pool;
use crate::sim::SimBackend;
use crate::stream::Stream;

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceConfig {
    /// Bytes that the pool may take; none means 90% of what is free when the device is opened.
    pub budget_bytes: Option<u64>,
    /// Directory of the kernel cache; none means [`compile::default_directory`].
    pub cache_directory: Option<PathBuf>,
    /// Synchronise and check after every launch. `TENON_GPU_SYNC=1` sets it too.
    pub synchronous: bool,
    /// Which GPU, counted from 0.
    pub ordinal: u32,
}

/// A device. Cheap to clone.
#[derive(Clone)]
pub struct Device {
    pub(crate) inner: Arc<DeviceInner>,
}

pub(crate) struct DeviceInner {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) compiler: Box<dyn Compiler>,
    pub(crate) cache: Cache,
    pub(crate) pool: Pool,
    pub(crate) synchronous: bool,
    modules: Mutex<HashMap<String, Arc<Module>>>,
    events: Mutex<Vec<EventHandle>>,
}

impl Device {
    /// Opens the device that `TENON_DEVICE` names.
    pub fn open_from_env(config: DeviceConfig) -> Result<Device> {
        Device::open(DeviceKind::from_env()?, config)
    }

    /// Opens a device of this kind. The error says exactly what is missing.
    pub fn open(kind: DeviceKind, config: DeviceConfig) -> Result<Device> {
        let (backend, compiler): (Arc<dyn Backend>, Box<dyn Compiler>) = match kind {
            DeviceKind::None => return Err(GpuError::NoDevice("disabled by TENON_DEVICE=none".into())),
            DeviceKind::Sim => {
                let compiler = compile::HostCompiler::find()?;
                (Arc::new(SimBackend::new(compiler.version())), Box::new(compiler))
            }
            DeviceKind::Cuda => return Err(GpuError::NoDevice("this build drives no CUDA device".into())),
        };
        let budget_bytes = match config.budget_bytes {
            Some(bytes) => bytes,
            None => backend.memory_info()?.0 / 10 * 9,
        };
        let cache = Cache::open(config.cache_directory.unwrap_or_else(compile::default_directory))?;
        let synchronous = config.synchronous || std::env::var("TENON_GPU_SYNC").is_ok_and(|v| v == "1");
        Ok(Device {
            inner: Arc::new(DeviceInner {
                pool: Pool::new(backend.clone(), budget_bytes),
                backend,
                compiler,
                cache,
                synchronous,
                modules: Mutex::default(),
                events: Mutex::default(),
            }),
        })
    }

    /// A simulator with this budget and the default cache: what tests use.
    pub fn sim(budget_bytes: u64) -> Result<Device> {
        Device::open(
            DeviceKind::Sim,
            DeviceConfig {
                budget_bytes: Some(budget_bytes),
                ..DeviceConfig::default()
            },
        )
    }

    /// Facts about the device.
    pub fn info(&self) -> &DeviceInfo {
        self.inner.backend.info()
    }

    /// Free and total bytes of device memory, as the driver sees them.
    pub fn memory_info(&self) -> Result<(u64, u64)> {
        self.inner.backend.memory_info()
    }

    /// The memory pool: budget, bytes in use, reservations.
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// A new stream.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(&self.inner)
    }

    /// Compilations made since the device was opened: 0 in a warm process.
    pub fn compiled(&self) -> u64 {
        self.inner.cache.compiled()
    }

    /// Whether the program is loaded, so that a launch need not wait for the compiler.
    pub fn is_loaded(&self, program: &Program) -> bool {
        self.inner.modules.lock().contains_key(&program.key(""))
    }

    /// The program compiled and loaded: from this process, from the disk cache, or made now (tens to hundreds of
    /// milliseconds).
    pub fn load(&self, program: &Program) -> Result<Arc<Module>> {
        let key = program.key("");
        if let Some(module) = self.inner.modules.lock().get(&key) {
            return Ok(module.clone());
        }
        // Not under the lock: two threads may compile the same program once; the first to finish is kept.
        let artifact = self.inner.cache.get_shared(self.inner.compiler.as_ref(), program)?;
        let module = Arc::new(Module::load(self.inner.backend.clone(), &artifact, program)?);
        Ok(self.inner.modules.lock().entry(key).or_insert(module).clone())
    }
}

impl DeviceInner {
    pub(crate) fn take_event(&self) -> Result<EventHandle> {
        match self.events.lock().pop() {
            Some(event) => Ok(event),
            None => self.backend.event_create(),
        }
    }

    pub(crate) fn give_event(&self, event: EventHandle) {
        self.events.lock().push(event);
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        for event in self.events.get_mut().drain(..) {
            self.backend.event_destroy(event);
        }
    }
}
