//! The simulator as a device.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::abi::Dim3;
use super::memory::SimMemory;
use super::shared::SHARED_LIMIT_BYTES;
use super::{module, worker};
use crate::backend::{Backend, EventHandle, FunctionHandle, ModuleHandle, StreamHandle};
use crate::compile::{Artifact, MachineCode};
use crate::error::{GpuError, Result};
use crate::info::{DeviceInfo, DeviceKind};
use crate::launch::LaunchConfig;

/// Multiprocessors that the simulator claims: few, so that kernels sized by them stay quick.
const MULTIPROCESSORS: u32 = 4;

/// How the simulator runs kernels; what is not set comes from the environment.
#[derive(Clone, Debug, Default)]
pub struct SimConfig {
    /// Blocks resident at once on each OS thread (`TENON_SIM_WINDOW`, 8).
    pub window: Option<u32>,
    /// OS threads of a launch (`TENON_SIM_THREADS`, 1).
    pub threads: Option<u32>,
    /// How long a launch may go on with no block finishing (`TENON_SIM_TIMEOUT_S`, 30 seconds).
    pub timeout: Option<Duration>,
    /// Other than 0, threads run in an order drawn from this seed, another in each launch, which shows more races
    /// (`TENON_SIM_SEED`, 0).
    pub order_seed: Option<u64>,
    /// Part buffers from slabs, as on a GPU, in place of one guarded mapping each.
    pub slabs: bool,
    /// The driver has no memory for the allocation of this number, counted from 0, nor for any after it.
    pub allocations_max: Option<u64>,
    /// The same for registrations of host memory.
    pub registrations_max: Option<u64>,
    /// The device is lost at the launch of this number, counted from 1 (`TENON_SIM_LOST_AT_LAUNCH`, never).
    pub lost_at_launch: Option<u64>,
}

/// A simulated device.
pub struct SimBackend {
    info: DeviceInfo,
    memory: SimMemory,
    window: u32,
    threads: u32,
    timeout: Duration,
    order_seed: u64,
    launches: AtomicU64,
    slabs: bool,
    allocations_left: AtomicU64,
    registrations_left: AtomicU64,
    lost_at_launch: u64,
    next_handle: AtomicU64,
    events: Mutex<HashMap<EventHandle, Instant>>,
}

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok().and_then(|v| v.parse().ok());
    value.filter(|&v| v > 0).unwrap_or(default)
}

fn host_memory_bytes() -> (u64, u64) {
    // SAFETY: sysconf reads a number.
    let pages = |name| unsafe { libc::sysconf(name) }.max(0) as u64;
    let page = pages(libc::_SC_PAGESIZE);
    (pages(libc::_SC_AVPHYS_PAGES) * page, pages(libc::_SC_PHYS_PAGES) * page)
}

impl SimBackend {
    /// A simulator whose kernels are compiled by the C++ compiler of this version.
    pub fn new(compiler: &str, config: &SimConfig) -> SimBackend {
        SimBackend {
            info: DeviceInfo {
                kind: DeviceKind::Sim,
                name: "simulator".into(),
                architecture: 0,
                multiprocessors: MULTIPROCESSORS,
                l2_bytes: 1 << 20,
                memory_bytes: host_memory_bytes().1,
                shared_bytes_max: SHARED_LIMIT_BYTES as u32,
                driver_version: 0,
                compiler: compiler.to_string(),
            },
            memory: SimMemory::default(),
            window: config.window.unwrap_or_else(|| setting("TENON_SIM_WINDOW", 8) as u32),
            threads: config.threads.unwrap_or_else(|| setting("TENON_SIM_THREADS", 1) as u32),
            timeout: config
                .timeout
                .unwrap_or_else(|| Duration::from_secs(setting("TENON_SIM_TIMEOUT_S", 30))),
            order_seed: config.order_seed.unwrap_or_else(|| setting("TENON_SIM_SEED", 0)),
            launches: AtomicU64::new(0),
            slabs: config.slabs,
            allocations_left: AtomicU64::new(config.allocations_max.unwrap_or(u64::MAX)),
            registrations_left: AtomicU64::new(config.registrations_max.unwrap_or(u64::MAX)),
            lost_at_launch: config
                .lost_at_launch
                .unwrap_or_else(|| setting("TENON_SIM_LOST_AT_LAUNCH", u64::MAX)),
            next_handle: AtomicU64::new(1),
            events: Mutex::default(),
        }
    }

    fn handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// As on a GPU whose context has met a fault, every call fails once the device is lost.
    fn check_alive(&self) -> Result<()> {
        if self.launches.load(Ordering::Relaxed) < self.lost_at_launch {
            return Ok(());
        }
        let launch = self.lost_at_launch;
        Err(GpuError::Lost(format!(
            "the simulator was told to fail at launch {launch}"
        )))
    }

    fn check_range(&self, call: &'static str, address: u64, bytes: usize) -> Result<()> {
        self.check_alive()?;
        if self.memory.contains(address, bytes) {
            return Ok(());
        }
        Err(GpuError::Invalid(format!(
            "{call}: {bytes} bytes at {address:#x} are not in one device buffer"
        )))
    }
}

/// Takes one of those that are left; `bytes` are asked for.
fn take_one(left: &AtomicU64, bytes: u64) -> Result<()> {
    let take = |left: u64| left.checked_sub(1);
    match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
        Ok(_) => Ok(()),
        Err(_) => Err(GpuError::OutOfMemory {
            requested_bytes: bytes,
            in_use_bytes: 0,
            reserved_bytes: 0,
            budget_bytes: 0,
            detail: "; the simulator was told to have no more".into(),
        }),
    }
}

impl Backend for SimBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory_info(&self) -> Result<(u64, u64)> {
        Ok(host_memory_bytes())
    }

    fn alloc(&self, bytes: u64) -> Result<u64> {
        self.check_alive()?;
        take_one(&self.allocations_left, bytes)?;
        self.memory
            .alloc(bytes as usize)
            .map_err(|e| GpuError::io(format!("mapping {bytes} bytes"), e))
    }

    fn free(&self, address: u64) -> Result<()> {
        self.memory.free(address).map_err(GpuError::Invalid)
    }

    fn separate_buffers(&self) -> bool {
        !self.slabs
    }

    fn stream_create(&self) -> Result<StreamHandle> {
        Ok(self.handle())
    }

    fn stream_destroy(&self, _stream: StreamHandle) {}

    fn stream_synchronize(&self, _stream: StreamHandle) -> Result<()> {
        self.check_alive()
    }

    fn stream_is_idle(&self, _stream: StreamHandle) -> Result<bool> {
        Ok(true)
    }

    fn event_create(&self) -> Result<EventHandle> {
        Ok(self.handle())
    }

    fn event_destroy(&self, event: EventHandle) {
        self.events.lock().remove(&event);
    }

    fn event_record(&self, event: EventHandle, _stream: StreamHandle) -> Result<()> {
        self.events.lock().insert(event, Instant::now());
        Ok(())
    }

    fn event_synchronize(&self, _event: EventHandle) -> Result<()> {
        self.check_alive()
    }

    fn event_is_done(&self, _event: EventHandle) -> Result<bool> {
        Ok(true)
    }

    fn event_elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32> {
        let events = self.events.lock();
        match (events.get(&start), events.get(&end)) {
            (Some(start), Some(end)) => Ok(end.saturating_duration_since(*start).as_secs_f32() * 1e3),
            _ => Err(GpuError::Invalid("an event that was not recorded".into())),
        }
    }

    fn stream_wait(&self, _stream: StreamHandle, _event: EventHandle) -> Result<()> {
        Ok(())
    }

    unsafe fn copy_to_device(&self, target: u64, source: *const u8, bytes: usize, _stream: StreamHandle) -> Result<()> {
        self.check_range("copy to device", target, bytes)?;
        // SAFETY: the caller's source; the target was checked.
        unsafe { std::ptr::copy_nonoverlapping(source, target as *mut u8, bytes) };
        Ok(())
    }

    unsafe fn copy_to_host(&self, target: *mut u8, source: u64, bytes: usize, _stream: StreamHandle) -> Result<()> {
        self.check_range("copy to host", source, bytes)?;
        // SAFETY: the caller's target; the source was checked.
        unsafe { std::ptr::copy_nonoverlapping(source as *const u8, target, bytes) };
        Ok(())
    }

    unsafe fn copy_on_device(&self, target: u64, source: u64, bytes: usize, _stream: StreamHandle) -> Result<()> {
        self.check_range("copy on device", source, bytes)?;
        self.check_range("copy on device", target, bytes)?;
        // SAFETY: both ranges were checked; overlap is allowed here.
        unsafe { std::ptr::copy(source as *const u8, target as *mut u8, bytes) };
        Ok(())
    }

    unsafe fn set_bytes(&self, target: u64, byte: u8, bytes: usize, _stream: StreamHandle) -> Result<()> {
        self.check_range("set bytes", target, bytes)?;
        // SAFETY: the range was checked.
        unsafe { (target as *mut u8).write_bytes(byte, bytes) };
        Ok(())
    }

    unsafe fn host_register(&self, _address: *mut u8, bytes: usize) -> Result<()> {
        take_one(&self.registrations_left, bytes as u64)
    }

    unsafe fn host_unregister(&self, _address: *mut u8) -> Result<()> {
        Ok(())
    }

    fn load(&self, artifact: &Arc<Artifact>) -> Result<ModuleHandle> {
        match &artifact.code {
            MachineCode::SharedObject(path) => module::load(path),
            MachineCode::Image(_) => Err(GpuError::Invalid(format!(
                "{} was compiled for another device",
                artifact.name
            ))),
        }
    }

    fn unload(&self, handle: ModuleHandle) {
        module::unload(handle);
    }

    fn function(&self, handle: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        Ok(FunctionHandle {
            address: module::entry(handle, name)?,
            param_bytes: module::number(handle, &format!("{name}_param_bytes")),
            max_threads: module::number(handle, &format!("{name}_max_threads")).unwrap_or(1024) as u32,
        })
    }

    unsafe fn launch(
        &self,
        name: &str,
        function: &FunctionHandle,
        config: &LaunchConfig,
        params: &[u8],
        _stream: StreamHandle,
    ) -> Result<()> {
        let dim = |(x, y, z): (u32, u32, u32)| Dim3 { x, y, z };
        if config.shared_bytes as usize > SHARED_LIMIT_BYTES {
            return Err(GpuError::Invalid(format!(
                "kernel {name}: {} bytes of shared memory exceed {SHARED_LIMIT_BYTES}",
                config.shared_bytes
            )));
        }
        let number = self.launches.fetch_add(1, Ordering::Relaxed);
        self.check_alive()?;
        let aligned = Params::copy_of(params);
        let launch = worker::Launch {
            // SAFETY: the address came from `function`, whose module the caller keeps loaded.
            entry: unsafe { module::callable(function.address) },
            params: aligned.as_slice(params.len()),
            grid: dim(config.grid),
            block: dim(config.block),
            shared_bytes: config.shared_bytes,
            window: if config.cooperative {
                config.blocks().min(u32::MAX as u64) as u32
            } else {
                self.window
            },
            timeout: self.timeout,
            // Odd, so that a seed other than 0 stays so.
            order_seed: self.order_seed.wrapping_mul(2 * number + 1),
            next_block: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
        };
        if self.threads <= 1 || config.cooperative || config.blocks() == 1 {
            worker::run(&launch);
        } else {
            std::thread::scope(|scope| {
                for _ in 0..self.threads {
                    scope.spawn(|| worker::run(&launch));
                }
            });
        }
        let failure = launch.failure.lock().take().map(|message| self.memory.explain(message));
        match failure.map_or_else(|| self.memory.check(), Err) {
            Ok(()) => Ok(()),
            Err(message) => Err(GpuError::Kernel {
                kernel: name.to_string(),
                message,
            }),
        }
    }

    fn resident_blocks(&self, _function: &FunctionHandle, _threads: u32, _shared_bytes: u32) -> Result<u32> {
        Ok(2)
    }
}

/// A copy of the parameters, aligned for any struct.
struct Params(Vec<u128>);

impl Params {
    fn copy_of(bytes: &[u8]) -> Params {
        let mut words = vec![0u128; bytes.len().div_ceil(16)];
        // SAFETY: the vector has room for the bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), words.as_mut_ptr().cast::<u8>(), bytes.len()) };
        Params(words)
    }

    fn as_slice(&self, len: usize) -> &[u8] {
        // SAFETY: the vector holds at least `len` bytes.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), len) }
    }
}
