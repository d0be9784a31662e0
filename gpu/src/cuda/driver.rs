//! The driver's functions in use, looked up once.
//!
//! Types and constants are those of `cudarc`. Its functions are not called: they panic on a missing symbol, and make
//! an invalid enum of a result code that a newer driver may return.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmodule, CUstream};

use crate::error::GpuError;

/// The driver's library; the loader knows its directory.
pub const DRIVER_LIBRARY: &str = "libcuda.so.1";

pub const SUCCESS: u32 = 0;
pub const OUT_OF_MEMORY: u32 = 2;
pub const NO_DEVICE: u32 = 100;
pub const NOT_FOUND: u32 = 500;
pub const NOT_READY: u32 = 600;

macro_rules! functions {
    ($($name:ident($($arg:ty),* $(,)?);)*) => {
        /// The driver's functions; each returns a `CUresult` as a number.
        #[allow(non_snake_case)]
        pub struct Driver {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> u32,)*
            /// Since CUDA 12.4: offset and size of a kernel's parameter.
            pub cuFuncGetParamInfo: Option<unsafe extern "C" fn(CUfunction, usize, *mut usize, *mut usize) -> u32>,
        }

        impl Driver {
            fn from_library(library: *mut c_void) -> Result<Driver, String> {
                Ok(Driver {
                    $($name: {
                        let address = symbol(library, stringify!($name))
                            .ok_or_else(|| format!("it lacks {}, so it is too old", stringify!($name)))?;
                        // SAFETY: a versioned symbol of the driver keeps its signature.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> u32>(address)
                        }
                    },)*
                    cuFuncGetParamInfo: symbol(library, "cuFuncGetParamInfo").map(|address| {
                        // SAFETY: as above.
                        unsafe { std::mem::transmute(address) }
                    }),
                })
            }
        }
    };
}

functions! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(u32, *mut *const c_char);
    cuGetErrorString(u32, *mut *const c_char);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute(*mut c_int, c_uint, CUdevice);
    cuDeviceTotalMem_v2(*mut usize, CUdevice);
    cuCtxCreate_v2(*mut CUcontext, c_uint, CUdevice);
    cuCtxDestroy_v2(CUcontext);
    cuCtxSetCurrent(CUcontext);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamQuery(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventSynchronize(CUevent);
    cuEventQuery(CUevent);
    cuEventElapsedTime(*mut f32, CUevent, CUevent);
    cuModuleLoadData(*mut CUmodule, *const c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuFuncGetAttribute(*mut c_int, c_uint, CUfunction);
    cuFuncSetAttribute(CUfunction, c_uint, c_int);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, CUfunction, c_int, usize);
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void,
    );
    cuLaunchCooperativeKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
    );
}

/// Calls a function of the driver and checks its result: `call!(driver, cuInit(0))`.
macro_rules! call {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {
        $driver.check(stringify!($name), ($driver.$name)($($arg),*))
    };
}
pub(super) use call;

fn symbol(library: *mut c_void, name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: looks a symbol up in a loaded library.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

impl Driver {
    /// Loads the driver's library; the error is the reason in words.
    pub fn load(library: &str) -> Result<Driver, String> {
        let path = CString::new(library).map_err(|_| format!("{library:?} is no file name"))?;
        // SAFETY: loads the driver, or what the caller named in its place. It stays loaded: the driver does not
        // support being unloaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: dlerror gives a string after a failed dlopen.
            let reason = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(format!(
                "the NVIDIA driver is not installed ({})",
                reason.to_string_lossy()
            ));
        }
        Driver::from_library(handle).map_err(|reason| format!("the NVIDIA driver {library} is not usable: {reason}"))
    }

    /// Result of a call as an error with the driver's own words.
    pub fn check(&self, call: &'static str, code: u32) -> Result<(), GpuError> {
        if code == SUCCESS {
            return Ok(());
        }
        Err(GpuError::Driver {
            call,
            code,
            name: self.text(self.cuGetErrorName, code),
            message: self.text(self.cuGetErrorString, code),
        })
    }

    fn text(&self, function: unsafe extern "C" fn(u32, *mut *const c_char) -> u32, code: u32) -> String {
        let mut text = std::ptr::null();
        // SAFETY: the driver stores a static string, or null for a code it does not know.
        unsafe {
            if function(code, &mut text) != SUCCESS || text.is_null() {
                return "unknown error".into();
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}
