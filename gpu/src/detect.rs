//! Which device there is, or exactly why there is none.

use crate::device::{Device, DeviceConfig};
use crate::info::{DeviceKind, version_text};

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
