//! Compiled kernels: shared objects loaded into the process.

use std::ffi::{CStr, CString};
use std::path::Path;

use super::worker::KernelEntry;
use crate::error::{GpuError, Result};

/// Loads a shared object; returns its handle.
pub fn load(path: &Path) -> Result<u64> {
    let c_path = CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| GpuError::Invalid("a NUL byte in the kernel cache's path".into()))?;
    // SAFETY: the object was compiled from this crate's kernels and has no initialisers of its own.
    let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: dlerror gives a string after a failed dlopen.
        let reason = unsafe { CStr::from_ptr(libc::dlerror()) }
            .to_string_lossy()
            .into_owned();
        return Err(GpuError::Invalid(format!("loading {}: {reason}", path.display())));
    }
    Ok(handle as u64)
}

/// Unloads a shared object.
pub fn unload(handle: u64) {
    // SAFETY: the handle came from `load` and is not used again.
    unsafe { libc::dlclose(handle as *mut libc::c_void) };
}

fn symbol(handle: u64, name: &str) -> Option<*mut libc::c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: looks a symbol up in a loaded object.
    let address = unsafe { libc::dlsym(handle as *mut libc::c_void, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// A number that the kernel's macros export beside it.
pub fn number(handle: u64, name: &str) -> Option<u64> {
    // SAFETY: `sim.cuh` declares these as `u64` constants.
    symbol(handle, name).map(|address| unsafe { address.cast::<u64>().read() })
}

/// The kernel's entry.
pub fn entry(handle: u64, name: &str) -> Result<u64> {
    symbol(handle, name)
        .map(|address| address as u64)
        .ok_or_else(|| GpuError::Invalid(format!("there is no kernel {name} in this program")))
}

/// The entry that `entry` found.
///
/// # Safety
/// `address` came from `entry` and its object is loaded.
pub unsafe fn callable(address: u64) -> KernelEntry {
    // SAFETY: `TENON_KERNEL` of `sim.cuh` gives every kernel this signature.
    unsafe { std::mem::transmute::<u64, KernelEntry>(address) }
}
