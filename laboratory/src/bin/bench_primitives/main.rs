//! `bench_primitives [--small] [FILTER]`: checks and measures every primitive on the device that `TENON_DEVICE` names.
//!
//! Each row: the median of repeats timed by events, inputs rotating among sets larger than the L2 cache, and the time
//! over its floor, which is the least number of bytes to move over 3.0 TB/s. `bench/primitives.sh` prints CUB's times
//! for the same rows beside them.
//!
//! `bench_primitives --compile NVRTC DIRECTORY ARCHITECTURE...` fills a kernel cache and needs no GPU.

mod choices;
mod copies;
mod elementwise;
mod he;
mod patidar;
mod records;
mod scans;
mod sorts;
mod splits;

use std::path::Path;
use std::process::ExitCode;

use tenon_gpu::compile::Cache;
use tenon_gpu::registry::compile_all_kernels;
use tenon_gpu::{Device, DeviceConfig, GpuError, Result};

use tenon_gpu::primitives::expression::Expression;
use tenon_laboratory::{Bench, print_head};

/// An expression of this program's own.
fn expression(text: &str) -> Expression<'_> {
    // SAFETY: all that is given here computes with its arguments and literals alone.
    unsafe { Expression::new(text) }
}

fn run(small: bool, filter: Option<String>) -> Result<()> {
    let device = Device::open_from_env(DeviceConfig::default())?;
    println!("device: {} ({})", device.info().name, device.info().compiler);
    let bench = Bench::new(device, small, filter)?;
    print_head();
    copies::run(&bench)?;
    elementwise::run(&bench)?;
    scans::run(&bench)?;
    choices::run(&bench)?;
    records::run(&bench)?;
    sorts::run(&bench)?;
    splits::run(&bench)?;
    he::run(&bench)?;
    patidar::run(&bench)?;
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
    if arguments.first().is_some_and(|a| a == "--compile") {
        return report(compile(&arguments[1..]));
    }
    let small = arguments.iter().any(|a| a == "--small");
    arguments.retain(|a| a != "--small");
    report(run(small, arguments.pop()))
}

fn compile(arguments: &[String]) -> Result<()> {
    let [nvrtc, directory, architectures @ ..] = arguments else {
        return Err(GpuError::Invalid("--compile NVRTC DIRECTORY ARCHITECTURE...".into()));
    };
    let architectures: Vec<u32> = architectures.iter().filter_map(|a| a.parse().ok()).collect();
    let cache = Cache::open(directory.into())?;
    let programs = compile_all_kernels(Path::new(nvrtc), &architectures, &cache)?;
    println!("{programs} programs for {architectures:?} in {directory}");
    Ok(())
}

fn report(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
