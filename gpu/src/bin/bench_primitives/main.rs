//! `bench_primitives [--small] [FILTER]`: checks and measures every primitive on the device that `TENON_DEVICE` names.
//!
//! Each row: the median of repeats timed by events, inputs rotating among sets larger than the L2 cache, and the time
//! over its floor, which is the least number of bytes to move over 3.0 TB/s. `bench/primitives.sh` prints CUB's times
//! for the same rows beside them.

mod elementwise;
mod harness;

use std::process::ExitCode;

use tenon_gpu::{Device, DeviceConfig, Result};

use harness::Bench;

fn run(small: bool, filter: Option<String>) -> Result<()> {
    let device = Device::open_from_env(DeviceConfig::default())?;
    println!("device: {} ({})", device.info().name, device.info().compiler);
    let bench = Bench::new(device, small, filter)?;
    elementwise::run(&bench)?;
    bench.stream.synchronize()?;
    let pool = bench.device.pool();
    println!(
        "memory: peak {} MiB, {} allocation calls to the driver",
        pool.peak() >> 20,
        pool.driver_allocations()
    );
    assert_eq!(pool.in_use(), 0);
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let small = arguments.iter().any(|a| a == "--small");
    arguments.retain(|a| a != "--small");
    match run(small, arguments.pop()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
