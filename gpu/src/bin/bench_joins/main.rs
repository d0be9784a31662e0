//! `bench_joins [--small] [--csv FILE] [FILTER]`: checks and measures every join on the device that `TENON_DEVICE`
//! names, and the CPU twins.
//!
//! Each row: the median of repeats, tuples of both inputs a second, and the time over its floor, which is both inputs
//! read once and the output written once at 3.0 TB/s.

mod cpu_twins;
mod from_host;
mod he;
mod materialised;
mod ordered;
mod report;
mod tune;
mod workload;

use std::process::ExitCode;

use tenon_gpu::bench::Bench;
use tenon_gpu::{Device, DeviceConfig, Result};

use report::Report;

fn run(small: bool, csv: Option<String>, filter: Option<String>) -> Result<()> {
    let device = Device::open_from_env(DeviceConfig::default())?;
    println!("device: {} ({})", device.info().name, device.info().compiler);
    let bench = Bench::new(device, small, filter)?;
    let mut report = Report::new(csv)?;
    materialised::run(&bench, &mut report)?;
    he::run(&bench, &mut report)?;
    cpu_twins::run(&bench, &mut report)?;
    ordered::run(&bench, &mut report)?;
    tune::run(&bench, &mut report)?;
    bench.stream.synchronize()?;
    println!("memory: peak {} MiB", bench.device.pool().peak() >> 20);
    assert_eq!(bench.device.pool().in_use(), 0);
    Ok(())
}

fn main() -> ExitCode {
    let (mut small, mut csv, mut filter) = (false, None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--small" => small = true,
            "--csv" => csv = arguments.next(),
            _ => filter = Some(argument),
        }
    }
    match run(small, csv, filter) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
