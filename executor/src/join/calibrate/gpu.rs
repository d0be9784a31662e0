//! The GPU's rates: the bus as joins use it (words from and to ordinary memory), and from pinned memory as pipelines do; device
//! memory, launches.

use std::time::Instant;

use tenon_gpu::primitives::fill::fill;
use tenon_gpu::{Device, DeviceKind, Result};

use crate::join::cost::Gpu;

/// Words that cross the bus.
const BUS_WORDS: usize = 8 << 20;
const MEMORY_BYTES: u64 = 256 << 20;
const LAUNCHES: u32 = 200;

/// Measures a real device; the simulator's rates are of no use.
pub fn measure(device: &Device, rates: &mut Gpu) -> Result<()> {
    if device.info().kind != DeviceKind::Cuda {
        return Ok(());
    }
    let stream = device.stream()?;
    let words: Vec<u32> = (0..BUS_WORDS as u32).collect();
    let bytes = size_of_val(&words[..]) as f64;
    let mut there = stream.alloc::<u32>(words.len() as u64)?;
    // The first copy makes the staging buffers.
    stream.copy_to_device(&words, there.view_mut())?;
    let (up, down) = (
        timed(|| stream.copy_to_device(&words, there.view_mut()))?,
        timed(|| stream.download(there.view()).map(drop))?,
    );
    rates.to_device_bytes_per_s = bytes / up;
    rates.from_device_bytes_per_s = bytes / down;
    let mut pinned = device.pinned::<u32>(words.len() as u64)?;
    pinned.copy_from_slice(&words);
    let up = timed(|| stream.copy_to_device(&pinned, there.view_mut()))?;
    rates.pinned_to_device_bytes_per_s = bytes / up;

    let (from, mut to) = (
        stream.alloc_zeroed::<u8>(MEMORY_BYTES)?,
        stream.alloc_zeroed::<u8>(MEMORY_BYTES)?,
    );
    stream.synchronize()?;
    let copied = timed(|| {
        stream.copy(from.view(), to.view_mut())?;
        stream.synchronize()
    })?;
    rates.memory_bytes_per_s = 2.0 * MEMORY_BYTES as f64 / copied;

    let mut few = stream.alloc::<u32>(256)?;
    fill(&stream, few.view_mut(), 0)?;
    stream.synchronize()?;
    let launched = timed(|| {
        for _ in 0..LAUNCHES {
            fill(&stream, few.view_mut(), 1)?;
        }
        stream.synchronize()
    })?;
    rates.launch_s = launched / f64::from(LAUNCHES);
    Ok(())
}

/// Seconds of the faster of two runs.
fn timed(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..2 {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best.max(1e-9))
}
