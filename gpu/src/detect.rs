//! Which device there is, or exactly why there is none.

use crate::cuda::version_text;
use crate::device::{Device, DeviceConfig};
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

/// What `tenon gpu-info` prints: the device chosen by `TENON_DEVICE`, or why there is none.
pub fn info_report() -> String {
    let kind = match DeviceKind::from_env() {
        Ok(kind) => kind,
        Err(error) => return format!("{error}\n"),
    };
    match Device::open(kind, DeviceConfig::default()) {
        Ok(device) => describe(&device),
        Err(error) => format!("{error}\nQueries run on the CPU.\n"),
    }
}

fn describe(device: &Device) -> String {
    let info = device.info();
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    let mut text = format!("device      {}\n", info.name);
    match info.kind {
        DeviceKind::Cuda => {
            text += &format!("capability  {}.{}\n", info.architecture / 10, info.architecture % 10);
            text += &format!("processors  {}\n", info.multiprocessors);
            text += &format!("L2 cache    {} MiB\n", info.l2_bytes >> 20);
            text += &format!("driver      CUDA {}\n", version_text(info.driver_version));
        }
        _ => text += "            kernels run on the CPU as fibers: for correctness, not for speed\n",
    }
    text += &format!("compiler    {}\n", info.compiler);
    match device.memory_info() {
        Ok((free, total)) => text += &format!("memory      {:.1} GiB free of {:.1} GiB\n", gib(free), gib(total)),
        Err(error) => text += &format!("memory      unknown: {error}\n"),
    }
    text += &format!("budget      {:.1} GiB\n", gib(device.pool().budget_bytes()));
    text
}
