//! A device: its implementation, its memory pool and its compiled kernels.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::Backend;
use crate::compile::{self, Cache, Compiler, Nvrtc, Program};
use crate::cuda::{CudaBackend, DRIVER_LIBRARY};
use crate::element::Element;
use crate::error::{GpuError, Result};
use crate::event_pool::EventPool;
use crate::info::{DeviceInfo, DeviceKind};
use crate::kernel::Module;
use crate::modules::Modules;
use crate::pool::{HostPool, PinnedBuffer, Pool, Registered};
use crate::queue::Queues;
use crate::sim::{SimBackend, SimConfig};

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceConfig {
    /// Bytes that the pool may take; none means 90% of what is free when the device is opened.
    pub budget_bytes: Option<u64>,
    /// Bytes of pinned host memory that the device may hold, besides what others register; none means no bound.
    pub pinned_budget_bytes: Option<u64>,
    /// Directory of the kernel cache; none means [`compile::default_directory`].
    pub cache_directory: Option<PathBuf>,
    /// Synchronise and check after every launch. `TENON_GPU_SYNC=1` sets it too.
    pub synchronous: bool,
    /// Which GPU, counted from 0.
    pub ordinal: u32,
    /// The driver's library; none means `libcuda.so.1`. Tests put a false one in its place.
    pub driver_library: Option<String>,
    /// The only file to look for NVRTC in; none means [`compile::search_paths`].
    pub nvrtc_library: Option<PathBuf>,
    /// How the simulator runs kernels.
    pub sim: SimConfig,
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
    pub(crate) events: Arc<EventPool>,
    pub(crate) host: Arc<HostPool>,
    pub(crate) registered: Registered,
    pub(crate) queues: Arc<Queues>,
    modules: Mutex<Modules<Module>>,
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
                (
                    Arc::new(SimBackend::new(compiler.version(), &config.sim)),
                    compile::Checked::wanted(compiler)?,
                )
            }
            DeviceKind::Cuda => {
                let library = config.driver_library.as_deref().unwrap_or(DRIVER_LIBRARY);
                let mut backend = CudaBackend::open(library, config.ordinal)?;
                let compiler = open_nvrtc(&backend.info, config.nvrtc_library.as_deref())?;
                backend.info.compiler = compiler.describe();
                (Arc::new(backend), Box::new(compiler))
            }
        };
        let budget_bytes = match config.budget_bytes {
            Some(bytes) => bytes,
            None => backend.memory_info()?.0 / 10 * 9,
        };
        let cache = Cache::open(config.cache_directory.unwrap_or_else(compile::default_directory))?;
        let synchronous = config.synchronous || std::env::var("TENON_GPU_SYNC").is_ok_and(|v| v == "1");
        let events = EventPool::new(backend.clone());
        Ok(Device {
            inner: Arc::new(DeviceInner {
                pool: Pool::new(backend.clone(), events.clone(), budget_bytes),
                events,
                host: HostPool::new(backend.clone(), config.pinned_budget_bytes.unwrap_or(u64::MAX)),
                registered: Registered::new(backend.clone()),
                queues: Queues::new(backend.clone()),
                backend,
                compiler,
                cache,
                synchronous,
                modules: Mutex::default(),
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

    /// Pinned host memory for `len` elements, of arbitrary content.
    pub fn pinned<T: Element>(&self, len: u64) -> Result<PinnedBuffer<T>> {
        let len = usize::try_from(len).map_err(|_| GpuError::Invalid(format!("{len} elements on the host")))?;
        self.inner.host.take(len)
    }

    /// Mappings of pinned host memory made so far: a warm query adds none.
    pub fn host_registrations(&self) -> u64 {
        self.inner.host.registrations()
    }

    /// Bytes of pinned host memory that somebody holds.
    pub fn pinned_in_use(&self) -> u64 {
        self.inner.host.held_bytes()
    }

    /// Gives pinned host memory that nobody uses back to the system.
    pub fn trim_host(&self) {
        self.inner.host.trim();
    }

    /// Registers memory of the caller, so that copies from and to it run at full speed: regions of tables.
    ///
    /// # Safety
    /// The range is mapped, and stays so until [`Self::unregister_host`] or the device's end.
    pub unsafe fn register_host(&self, start: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.registered.add(start, bytes) }
    }

    /// Undoes [`Self::register_host`]; nothing happens if the range was not registered.
    ///
    /// # Safety
    /// No copy from or to the range is under way.
    pub unsafe fn unregister_host(&self, start: *mut u8) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.registered.remove(start) }
    }

    /// Compilations made since the device was opened: 0 in a warm process.
    pub fn compiled(&self) -> u64 {
        self.inner.cache.compiled()
    }

    /// Whether the program is loaded, so that a launch need not wait for the compiler.
    pub fn is_loaded(&self, program: &Program) -> bool {
        self.inner.modules.lock().contains(&program.identity())
    }

    /// The program compiled and loaded: from this process, from the disk cache, or made now (tens to hundreds of
    /// milliseconds).
    pub fn load(&self, program: &Program) -> Result<Arc<Module>> {
        let key = program.identity();
        if let Some(module) = self.inner.modules.lock().get(&key) {
            return Ok(module);
        }
        // Not under the lock: two threads may compile the same program once; the first to finish is kept.
        let artifact = self.inner.cache.get_shared(self.inner.compiler.as_ref(), program)?;
        let module = Module::load(self.inner.backend.clone(), &artifact, program)?;
        let (module, _dropped) = self.inner.modules.lock().insert(key, module);
        Ok(module)
    }
}

/// NVRTC for this GPU: machine code for its architecture that its driver can load.
fn open_nvrtc(info: &DeviceInfo, only: Option<&Path>) -> Result<Nvrtc> {
    match only {
        None => Nvrtc::load(info.architecture, info.driver_version),
        Some(path) => Nvrtc::load_from(path, info.architecture, info.driver_version)
            .map_err(|reason| GpuError::NoDevice(format!("NVRTC {} is not usable: {reason}", path.display()))),
    }
}
