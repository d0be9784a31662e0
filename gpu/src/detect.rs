//! Which device there is, or exactly why there is none.

use std::time::Instant;

use crate::device::{Device, DeviceConfig};
use crate::error::Result;
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
            text += &match upload_rate(device) {
                Ok(rate) => format!("upload      {rate:.1} GB/s from pinned memory\n"),
                Err(error) => format!("upload      unknown: {error}\n"),
            };
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

/// Bytes a second that copies from pinned memory to the device make, in units of 1e9.
fn upload_rate(device: &Device) -> Result<f64> {
    const BYTES: u64 = 256 << 20;
    const COPIES: u32 = 4;
    let stream = device.stream()?;
    let host = device.pinned::<u8>(BYTES)?;
    let mut target = stream.alloc::<u8>(BYTES)?;
    // The first also touches the pages.
    stream.copy_to_device(&host, target.view_mut())?;
    let begun = Instant::now();
    for _ in 0..COPIES {
        stream.copy_to_device(&host, target.view_mut())?;
    }
    Ok((f64::from(COPIES) * BYTES as f64) / begun.elapsed().as_secs_f64() / 1e9)
}
