//! Finding a GPU that can be used, or the exact reason why there is none.

use std::ffi::{c_int, c_uint};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute};

use super::driver::{Driver, NO_DEVICE, call};
use crate::error::{GpuError, Result};
use crate::info::version_text;

/// Drivers before CUDA 12 lack functions in use.
const DRIVER_VERSION_MIN: u32 = 12000;
/// Ampere; earlier processors lack warp reductions and asynchronous copies.
const ARCHITECTURE_MIN: u32 = 80;

/// A GPU that passed every check.
pub struct Found {
    pub device: CUdevice,
    pub name: String,
    pub architecture: u32,
    pub driver_version: u32,
    pub multiprocessors: u32,
    pub l2_bytes: u64,
    pub memory_bytes: u64,
    pub shared_bytes_max: u32,
}

/// The GPU of this number.
pub fn find(driver: &Driver, ordinal: u32) -> Result<Found> {
    let none = |reason: String| Err(GpuError::NoDevice(reason));
    let mut version: c_int = 0;
    // SAFETY: the version may be asked before cuInit; the out-pointer is valid.
    unsafe { call!(driver, cuDriverGetVersion(&mut version)) }.map_err(reason)?;
    let driver_version = version.max(0) as u32;
    if driver_version < DRIVER_VERSION_MIN {
        return none(format!(
            "the NVIDIA driver supports CUDA {}, and {} is needed: update the driver",
            version_text(driver_version),
            version_text(DRIVER_VERSION_MIN)
        ));
    }
    // SAFETY: plain call.
    match unsafe { (driver.cuInit)(0) } {
        NO_DEVICE => return none("the NVIDIA driver is installed and sees no GPU".into()),
        code => driver.check("cuInit", code).map_err(reason)?,
    }
    let mut count = 0;
    // SAFETY: the driver is initialised; the out-pointer is valid.
    unsafe { call!(driver, cuDeviceGetCount(&mut count)) }.map_err(reason)?;
    if ordinal as i64 >= count as i64 {
        return none(match count {
            0 => "the NVIDIA driver is installed and sees no GPU".to_string(),
            _ => format!("GPU {ordinal} was asked for, and the driver sees {count} (counted from 0)"),
        });
    }
    let mut device: CUdevice = 0;
    // SAFETY: the ordinal was checked.
    unsafe { call!(driver, cuDeviceGet(&mut device, ordinal as c_int)) }.map_err(reason)?;
    let attribute = |attribute: Attribute| -> Result<u32> {
        let mut value = 0;
        // SAFETY: a device from above; the out-pointer is valid.
        unsafe { call!(driver, cuDeviceGetAttribute(&mut value, attribute as c_uint, device)) }.map_err(reason)?;
        Ok(value.max(0) as u32)
    };
    let mut name = [0u8; 256];
    let mut memory_bytes = 0usize;
    // SAFETY: a device from above; the buffer has the length given, and room for the final NUL.
    unsafe {
        call!(driver, cuDeviceGetName(name.as_mut_ptr().cast(), 255, device)).map_err(reason)?;
        call!(driver, cuDeviceTotalMem_v2(&mut memory_bytes, device)).map_err(reason)?;
    }
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    let found = Found {
        device,
        name: String::from_utf8_lossy(&name[..end]).into_owned(),
        architecture: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
            + attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        driver_version,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as u64,
        memory_bytes: memory_bytes as u64,
        shared_bytes_max: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    };
    if found.architecture < ARCHITECTURE_MIN {
        return none(format!(
            "{} has compute capability {}.{}, and {}.{} is needed",
            found.name,
            found.architecture / 10,
            found.architecture % 10,
            ARCHITECTURE_MIN / 10,
            ARCHITECTURE_MIN % 10
        ));
    }
    Ok(found)
}

/// A refused call as a reason for having no GPU.
pub fn reason(error: GpuError) -> GpuError {
    match error {
        GpuError::NoDevice(_) => error,
        other => GpuError::NoDevice(other.to_string()),
    }
}
