//! A GPU through the CUDA driver.

use std::cell::Cell;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::{CUcontext, CUevent, CUfunction, CUfunction_attribute as Attribute, CUmodule, CUstream};

use super::driver::{Driver, NOT_FOUND, NOT_READY, OUT_OF_MEMORY, call};
use super::probe;
use crate::backend::{Backend, EventHandle, FunctionHandle, ModuleHandle, StreamHandle};
use crate::compile::{Artifact, MachineCode};
use crate::error::{GpuError, Result};
use crate::info::{DeviceInfo, DeviceKind};
use crate::launch::LaunchConfig;

/// Streams that do not wait for the default stream.
const STREAM_NON_BLOCKING: c_uint = 1;
/// The waiting thread sleeps: the server has other work for the core.
const CONTEXT_BLOCKING_SYNC: c_uint = 4;
/// Registered memory counts as pinned in every context, and kernels reach it at its own address.
const HOST_REGISTER_PORTABLE_MAPPED: c_uint = 1 | 2;

/// One GPU with a context of its own, so that a fault in a kernel ends with this device and not with the process.
pub struct CudaBackend {
    driver: Driver,
    context: CUcontext,
    /// Distinguishes contexts: the driver may give the address of a destroyed one again.
    number: u64,
    /// Whoever opens the device adds the compiler's name.
    pub info: DeviceInfo,
}

// SAFETY: a context may be used from any thread that makes it current, which every call does.
unsafe impl Send for CudaBackend {}
// SAFETY: the driver's functions in use are thread safe.
unsafe impl Sync for CudaBackend {}

thread_local! {
    /// Number of the context that is current on this thread.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

impl CudaBackend {
    /// Opens GPU `ordinal` through this driver library. The error says exactly what is missing.
    pub fn open(library: &str, ordinal: u32) -> Result<CudaBackend> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let driver = Driver::load(library).map_err(GpuError::NoDevice)?;
        let found = probe::find(&driver, ordinal)?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the device was found; the out-pointer is valid.
        unsafe {
            call!(
                driver,
                cuCtxCreate_v2(&mut context, CONTEXT_BLOCKING_SYNC, found.device)
            )
        }
        .map_err(probe::reason)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        CURRENT.set(number);
        Ok(CudaBackend {
            info: DeviceInfo {
                kind: DeviceKind::Cuda,
                name: found.name,
                architecture: found.architecture,
                multiprocessors: found.multiprocessors,
                l2_bytes: found.l2_bytes,
                memory_bytes: found.memory_bytes,
                shared_bytes_max: found.shared_bytes_max,
                driver_version: found.driver_version,
                compiler: String::new(),
            },
            driver,
            context,
            number,
        })
    }

    /// The driver, with this context current on the calling thread.
    fn driver(&self) -> Result<&Driver> {
        if CURRENT.get() != self.number {
            // SAFETY: the context lives as long as this value.
            unsafe { call!(self.driver, cuCtxSetCurrent(self.context)) }?;
            CURRENT.set(self.number);
        }
        Ok(&self.driver)
    }

    /// Whether a query says "done"; not ready is no error.
    fn is_done(&self, call: &'static str, code: u32) -> Result<bool> {
        match code {
            NOT_READY => Ok(false),
            code => self.driver.check(call, code).map(|()| true),
        }
    }

    fn function_attribute(&self, function: CUfunction, attribute: Attribute) -> Result<u32> {
        let mut value: c_int = 0;
        // SAFETY: a function of a loaded module; the out-pointer is valid.
        unsafe {
            call!(
                self.driver()?,
                cuFuncGetAttribute(&mut value, attribute as c_uint, function)
            )
        }?;
        Ok(value.max(0) as u32)
    }
}

impl Drop for CudaBackend {
    fn drop(&mut self) {
        // SAFETY: streams, events, modules and memory that hold this value are gone; the context is destroyed once.
        if let Err(error) = unsafe { call!(self.driver, cuCtxDestroy_v2(self.context)) } {
            tracing::warn!(%error, "closing the GPU");
        }
        CURRENT.set(0);
    }
}

fn stream(handle: StreamHandle) -> CUstream {
    handle as CUstream
}

fn event(handle: EventHandle) -> CUevent {
    handle as CUevent
}

fn function(handle: &FunctionHandle) -> CUfunction {
    handle.address as CUfunction
}

// Safety of the calls below: handles came from this backend and are alive, by the contract of `Backend`; out-pointers
// are to locals; addresses are the caller's promise.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Backend for CudaBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory_info(&self) -> Result<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        unsafe { call!(self.driver()?, cuMemGetInfo_v2(&mut free, &mut total)) }?;
        Ok((free as u64, total as u64))
    }

    fn alloc(&self, bytes: u64) -> Result<u64> {
        let mut address = 0;
        match unsafe { (self.driver()?.cuMemAlloc_v2)(&mut address, bytes as usize) } {
            OUT_OF_MEMORY => {
                let (free, total) = self.memory_info().unwrap_or((0, self.info.memory_bytes));
                Err(GpuError::OutOfMemory {
                    requested_bytes: bytes,
                    in_use_bytes: total - free,
                    reserved_bytes: 0,
                    budget_bytes: total,
                    detail: "; the driver has no more, other programs may use the GPU".into(),
                })
            }
            code => self.driver.check("cuMemAlloc_v2", code).map(|()| address),
        }
    }

    fn free(&self, address: u64) -> Result<()> {
        unsafe { call!(self.driver()?, cuMemFree_v2(address)) }
    }

    fn separate_buffers(&self) -> bool {
        false
    }

    fn stream_create(&self) -> Result<StreamHandle> {
        let mut handle = std::ptr::null_mut();
        unsafe { call!(self.driver()?, cuStreamCreate(&mut handle, STREAM_NON_BLOCKING)) }?;
        Ok(handle as StreamHandle)
    }

    fn stream_destroy(&self, handle: StreamHandle) {
        let destroyed = self
            .driver()
            .and_then(|driver| unsafe { call!(driver, cuStreamDestroy_v2(stream(handle))) });
        if let Err(error) = destroyed {
            tracing::warn!(%error, "closing a stream");
        }
    }

    fn stream_synchronize(&self, handle: StreamHandle) -> Result<()> {
        unsafe { call!(self.driver()?, cuStreamSynchronize(stream(handle))) }
    }

    fn stream_is_idle(&self, handle: StreamHandle) -> Result<bool> {
        let code = unsafe { (self.driver()?.cuStreamQuery)(stream(handle)) };
        self.is_done("cuStreamQuery", code)
    }

    fn event_create(&self) -> Result<EventHandle> {
        let mut handle = std::ptr::null_mut();
        unsafe { call!(self.driver()?, cuEventCreate(&mut handle, 0)) }?;
        Ok(handle as EventHandle)
    }

    fn event_destroy(&self, handle: EventHandle) {
        let destroyed = self
            .driver()
            .and_then(|driver| unsafe { call!(driver, cuEventDestroy_v2(event(handle))) });
        if let Err(error) = destroyed {
            tracing::warn!(%error, "closing an event");
        }
    }

    fn event_record(&self, handle: EventHandle, on: StreamHandle) -> Result<()> {
        unsafe { call!(self.driver()?, cuEventRecord(event(handle), stream(on))) }
    }

    fn event_synchronize(&self, handle: EventHandle) -> Result<()> {
        unsafe { call!(self.driver()?, cuEventSynchronize(event(handle))) }
    }

    fn event_is_done(&self, handle: EventHandle) -> Result<bool> {
        let code = unsafe { (self.driver()?.cuEventQuery)(event(handle)) };
        self.is_done("cuEventQuery", code)
    }

    fn event_elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32> {
        let mut elapsed_ms = 0.0;
        unsafe {
            call!(
                self.driver()?,
                cuEventElapsedTime(&mut elapsed_ms, event(start), event(end))
            )
        }?;
        Ok(elapsed_ms)
    }

    fn stream_wait(&self, handle: StreamHandle, until: EventHandle) -> Result<()> {
        unsafe { call!(self.driver()?, cuStreamWaitEvent(stream(handle), event(until), 0)) }
    }

    unsafe fn copy_to_device(&self, target: u64, source: *const u8, bytes: usize, on: StreamHandle) -> Result<()> {
        unsafe {
            call!(
                self.driver()?,
                cuMemcpyHtoDAsync_v2(target, source.cast(), bytes, stream(on))
            )
        }
    }

    unsafe fn copy_to_host(&self, target: *mut u8, source: u64, bytes: usize, on: StreamHandle) -> Result<()> {
        unsafe {
            call!(
                self.driver()?,
                cuMemcpyDtoHAsync_v2(target.cast(), source, bytes, stream(on))
            )
        }
    }

    unsafe fn copy_on_device(&self, target: u64, source: u64, bytes: usize, on: StreamHandle) -> Result<()> {
        unsafe { call!(self.driver()?, cuMemcpyDtoDAsync_v2(target, source, bytes, stream(on))) }
    }

    unsafe fn set_bytes(&self, target: u64, byte: u8, bytes: usize, on: StreamHandle) -> Result<()> {
        unsafe { call!(self.driver()?, cuMemsetD8Async(target, byte, bytes, stream(on))) }
    }

    unsafe fn host_register(&self, address: *mut u8, bytes: usize) -> Result<()> {
        unsafe {
            call!(
                self.driver()?,
                cuMemHostRegister_v2(address.cast(), bytes, HOST_REGISTER_PORTABLE_MAPPED)
            )
        }
    }

    unsafe fn host_unregister(&self, address: *mut u8) -> Result<()> {
        unsafe { call!(self.driver()?, cuMemHostUnregister(address.cast())) }
    }

    fn load(&self, artifact: &Arc<Artifact>) -> Result<ModuleHandle> {
        let MachineCode::Image(image) = &artifact.code else {
            return Err(GpuError::Invalid(format!(
                "{} was compiled for another device",
                artifact.name
            )));
        };
        // PTX is text, which the driver wants ended by a NUL; a cubin knows its own length.
        let image: Vec<u8> = image.iter().copied().chain([0]).collect();
        let mut module: CUmodule = std::ptr::null_mut();
        unsafe { call!(self.driver()?, cuModuleLoadData(&mut module, image.as_ptr().cast())) }?;
        Ok(module as ModuleHandle)
    }

    fn unload(&self, module: ModuleHandle) {
        let unloaded = self
            .driver()
            .and_then(|driver| unsafe { call!(driver, cuModuleUnload(module as CUmodule)) });
        if let Err(error) = unloaded {
            tracing::warn!(%error, "unloading kernels");
        }
    }

    fn function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        let c_name = CString::new(name).map_err(|_| GpuError::Invalid("a NUL byte in a kernel's name".into()))?;
        let mut handle: CUfunction = std::ptr::null_mut();
        let driver = self.driver()?;
        match unsafe { (driver.cuModuleGetFunction)(&mut handle, module as CUmodule, c_name.as_ptr()) } {
            NOT_FOUND => return Err(GpuError::Invalid(format!("there is no kernel {name} in this program"))),
            code => driver.check("cuModuleGetFunction", code)?,
        }
        // Dynamic shared memory above 48 KiB is allowed only to kernels that opted in: let each have all there is.
        let fixed = self.function_attribute(handle, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let dynamic = self.info.shared_bytes_max.saturating_sub(fixed) as c_int;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as c_uint;
        unsafe { call!(driver, cuFuncSetAttribute(handle, attribute, dynamic)) }?;
        let param_bytes = driver.cuFuncGetParamInfo.and_then(|info| {
            let (mut offset, mut bytes) = (0, 0);
            (unsafe { info(handle, 0, &mut offset, &mut bytes) } == 0).then_some(bytes as u64)
        });
        Ok(FunctionHandle {
            address: handle as u64,
            param_bytes,
            max_threads: self.function_attribute(handle, Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        })
    }

    unsafe fn launch(
        &self,
        name: &str,
        handle: &FunctionHandle,
        config: &LaunchConfig,
        params: &[u8],
        on: StreamHandle,
    ) -> Result<()> {
        let ((gx, gy, gz), (bx, by, bz)) = (config.grid, config.block);
        let (function, shared, stream) = (function(handle), config.shared_bytes, stream(on));
        // The driver copies the parameters during the call and does not write to them.
        let mut pointers = [params.as_ptr() as *mut c_void];
        let pointers = pointers.as_mut_ptr();
        let driver = self.driver()?;
        let result = if config.cooperative {
            unsafe {
                call!(
                    driver,
                    cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, pointers)
                )
            }
        } else {
            let none = std::ptr::null_mut();
            unsafe {
                call!(
                    driver,
                    cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, pointers, none)
                )
            }
        };
        result.map_err(|error| match error.is_lost() {
            true => error,
            false => GpuError::Kernel {
                kernel: name.to_string(),
                message: error.to_string(),
            },
        })
    }

    fn resident_blocks(&self, handle: &FunctionHandle, threads: u32, shared_bytes: u32) -> Result<u32> {
        let mut blocks: c_int = 0;
        let (function, threads, shared) = (function(handle), threads as c_int, shared_bytes as usize);
        let driver = self.driver()?;
        unsafe {
            call!(
                driver,
                cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, threads, shared)
            )
        }?;
        Ok(blocks.max(0) as u32)
    }
}
