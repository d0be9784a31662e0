//! `bench_triton [--small] [--csv FILE] [--rows-max MILLIONS] [FILTER...]`: joins of inputs in pinned host memory on the
//! device that `TENON_DEVICE` names, and the partitioners over the bus (Lutz 2022, section 6).
//!
//! Workload: two columns a side, 8-byte keys and 8-byte payloads; build keys are a permutation of 1 to n, probe keys
//! random ones of them; the result is the number of pairs and the sum of products of payloads, which is known.
//! Rows run whose name contains one of the filters. `bound ms` is the time of both inputs over the bus at 52 GB/s.

mod joins;
mod partitioners;
mod report;
mod workload;

use std::process::ExitCode;

use tenon_gpu::{Device, DeviceConfig, Result};

use report::Report;

/// What all rows share.
pub struct Bench {
    pub device: Device,
    /// A few thousandths of the sizes: for the tests, on the simulator.
    pub small: bool,
    /// Build rows at most, in millions.
    pub rows_max: u64,
    filters: Vec<String>,
}

impl Bench {
    /// Whether to run rows of this name.
    pub fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }

    /// A budget; of a small run, the least that a join takes.
    pub fn memory(&self, bytes: u64) -> Option<u64> {
        Some(if self.small { bytes.max(64 << 10) } else { bytes })
    }

    /// Whether rows may run whose names begin so.
    pub fn may_want(&self, start: &str) -> bool {
        let may =
            |filter: &String| filter.starts_with(start) || start.starts_with(filter.as_str()) || !filter.contains('.');
        self.filters.is_empty() || self.filters.iter().any(may)
    }

    /// So many millions of rows, at the benchmark's scale: a power of two.
    pub fn rows(&self, millions: u64) -> u64 {
        if self.small { millions << 4 } else { millions << 20 }
    }
}

/// Bytes of host memory that may be pinned: all but what the system needs.
fn pinned_budget_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find(|line| line.starts_with("MemAvailable:"));
    let kib = available.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| (kib << 10).saturating_sub(6 << 30))
}

fn run(small: bool, csv: Option<String>, rows_max: u64, filters: Vec<String>) -> Result<()> {
    let device = Device::open_from_env(DeviceConfig {
        pinned_budget_bytes: (!small).then(pinned_budget_bytes),
        ..DeviceConfig::default()
    })?;
    println!("device: {} ({})", device.info().name, device.info().compiler);
    let bench = Bench {
        device,
        small,
        rows_max,
        filters,
    };
    let mut report = Report::new(csv)?;
    joins::run(&bench, &mut report)?;
    partitioners::run(&bench, &mut report)?;
    let pool = bench.device.pool();
    println!("memory: peak {} MiB", pool.peak() >> 20);
    assert_eq!(pool.in_use(), 0);
    Ok(())
}

fn main() -> ExitCode {
    let (mut small, mut csv, mut rows_max, mut filters) = (false, None, 2048, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--small" => small = true,
            "--csv" => csv = arguments.next(),
            "--rows-max" => rows_max = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(rows_max),
            _ => filters.push(argument),
        }
    }
    match run(small, csv, rows_max, filters) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
