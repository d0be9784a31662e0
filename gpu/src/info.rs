//! Which kinds of devices there are, and what is known of one.

use crate::error::{GpuError, Result};

/// Which implementation to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A GPU through the CUDA driver.
    Cuda,
    /// The simulator: same kernels, compiled by the host's C++ compiler.
    Sim,
    /// No device.
    None,
}

impl DeviceKind {
    /// From `TENON_DEVICE`: `cuda`, `sim` or `none`; `auto`, or nothing, means a GPU if there is one.
    pub fn from_env() -> Result<DeviceKind> {
        match std::env::var("TENON_DEVICE").as_deref() {
            Ok("cuda" | "auto" | "") | Err(_) => Ok(DeviceKind::Cuda),
            Ok("sim") => Ok(DeviceKind::Sim),
            Ok("none") => Ok(DeviceKind::None),
            Ok(other) => Err(GpuError::Invalid(format!(
                "TENON_DEVICE={other}: expected cuda, sim, none or auto"
            ))),
        }
    }
}

/// Facts about a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    pub kind: DeviceKind,
    pub name: String,
    /// Compute capability as 90 for 9.0; 0 on the simulator.
    pub architecture: u32,
    pub multiprocessors: u32,
    pub l2_bytes: u64,
    pub memory_bytes: u64,
    /// Shared memory that a block may have at most.
    pub shared_bytes_max: u32,
    /// Version of the driver (13000 for 13.0), or 0.
    pub driver_version: u32,
    /// Compiler and its version.
    pub compiler: String,
}

/// `13.0` for 13000.
pub(crate) fn version_text(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
