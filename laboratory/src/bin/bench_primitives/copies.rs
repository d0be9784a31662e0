//! Copies between host and device: pinned, both directions at once, pageable through the staging ring; pinning itself.
//!
//! The floor of these rows is the bus: bytes over 52 GB/s.

use std::time::Instant;

use tenon_gpu::Result;

use tenon_laboratory::{Bench, print_row_over, size_text};

/// What the bus reaches (PCIe 5 x16).
const BUS_BYTES_PER_S: f64 = 52.0e9;

pub fn run(bench: &Bench) -> Result<()> {
    for full in [1 << 20, 4 << 20, 64 << 20, 1 << 30] {
        copies(bench, full)?;
    }
    if bench.wants("copy.pin") {
        let bytes = bench.items(8 << 30);
        let start = Instant::now();
        drop(bench.device.pinned::<u8>(bytes)?);
        print_row_over(
            "copy.pin.8G",
            bytes,
            bytes,
            start.elapsed().as_secs_f64() * 1e3,
            BUS_BYTES_PER_S,
        );
        bench.device.trim_host();
    }
    Ok(())
}

/// Copies of `full` bytes a time, as many as make 4 GiB, timed from the host.
fn copies(bench: &Bench, full: u64) -> Result<()> {
    let (stream, bytes, size) = (&bench.stream, bench.items(full), size_text(full));
    let names = ["to_device", "to_host", "both", "pageable"].map(|what| format!("copy.{what}.{size}"));
    if !names.iter().any(|name| bench.wants(name)) {
        return Ok(());
    }
    let times = if bench.small { 1 } else { ((4 << 30) / bytes).min(256) };
    let mut device = stream.alloc::<u8>(bytes)?;
    let mut other = stream.alloc_zeroed::<u8>(bytes)?;
    let mut host = bench.device.pinned::<u8>(bytes)?;
    host.iter_mut()
        .enumerate()
        .for_each(|(i, byte)| *byte = (i % 251) as u8);
    let time = |name: &str, moved: u64, f: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        if !bench.wants(name) {
            return Ok(());
        }
        f()?;
        let start = Instant::now();
        for _ in 0..times {
            f()?;
        }
        stream.synchronize()?;
        let ms = start.elapsed().as_secs_f64() * 1e3 / times as f64;
        print_row_over(name, moved, moved, ms, BUS_BYTES_PER_S);
        Ok(())
    };
    time(&names[0], bytes, &mut || {
        stream.copy_to_device(&host, device.view_mut())
    })?;
    let mut back = Some(bench.device.pinned::<u8>(bytes)?);
    let mut download = |source| -> Result<()> {
        if let Some(target) = back.take() {
            back = Some(stream.download_later(source, target)?.wait()?);
        }
        Ok(())
    };
    time(&names[1], bytes, &mut || download(device.view()))?;
    time(&names[2], 2 * bytes, &mut || {
        let Some(target) = back.take() else { return Ok(()) };
        let leaving = stream.download_later(device.view(), target)?;
        stream.copy_to_device(&host, other.view_mut())?;
        back = Some(leaving.wait()?);
        Ok(())
    })?;
    let arrived = back.take().is_some_and(|back| back[..] == host[..]);
    assert!(
        arrived || !bench.wants(&names[1]),
        "{}: the bytes that were sent",
        names[1]
    );
    let pageable = host.to_vec();
    time(&names[3], bytes, &mut || {
        stream.copy_to_device(&pageable, device.view_mut())
    })?;
    assert!(
        stream.download(device.view())? == pageable,
        "{}: the bytes that were sent",
        names[3]
    );
    Ok(())
}
