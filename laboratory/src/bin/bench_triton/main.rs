//! `bench_triton [OPTION...] [FILTER...]`: joins of inputs in pinned host memory on the device that `TENON_DEVICE` names,
//! and the partitioners over the bus (Lutz 2022, section 6).
//!
//! | option | means |
//! | --- | --- |
//! | `--csv FILE` | the table as CSV |
//! | `--figures FILE` | points of the paper's figures: `figure,series,x,y,unit` |
//! | `--rows-max MILLIONS` | leave out larger build sides (2048) |
//! | `--tuples MILLIONS` | tuples of partitioners and prefix sums (128) |
//! | `--repeats N` | runs of each row, beside one to warm up (5, fewer of long ones) |
//! | `--seconds N` | rows that have not begun by then are left out |
//! | `--small` | a few thousandths of the sizes, for tests |
//!
//! Workload: two columns a side, 8-byte keys and 8-byte payloads; build keys are a permutation of 1 to n, probe keys
//! random ones of them; the result is the number of pairs and the sum of products of payloads, which is known.
//! Rows run whose name contains one of the filters; `ratio` is to the time of both inputs over the bus at 52 GB/s.

mod baselines;
mod joins;
mod partitioners;
mod report;
mod workload;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tenon_gpu::{Device, DeviceConfig, Result};

use report::Report;

/// What all rows share.
pub struct Bench {
    pub device: Device,
    /// A few thousandths of the sizes: for the tests, on the simulator.
    pub small: bool,
    /// Build rows at most, in millions.
    pub rows_max: u64,
    /// Millions of tuples that partitioners take.
    pub tuples: u64,
    pub repeats: Option<usize>,
    until: Option<Instant>,
    filters: Vec<String>,
}

impl Bench {
    /// Whether time is up; what would have run is noted.
    pub fn is_late(&self, report: &mut Report, name: &str) -> Result<bool> {
        let late = self.until.is_some_and(|until| Instant::now() > until);
        if late {
            report.skipped(name, &"time is up")?;
        }
        Ok(late)
    }

    /// Whether to run rows of this name.
    pub fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter.as_str()))
    }

    /// Whether a row may run whose name is one of these, or begins so: their inputs are made only then.
    pub fn wants_any(&self, starts: &[&str]) -> bool {
        let may = |filter: &String| {
            starts
                .iter()
                .any(|start| start.contains(filter.as_str()) || filter.contains(start))
        };
        let inner = |filter: &String| !filter.contains('.') && !filter.contains("M");
        self.filters.is_empty() || self.filters.iter().any(|filter| may(filter) || inner(filter))
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
        if self.small { millions << 5 } else { millions << 20 }
    }
}

/// Bytes of host memory that may be pinned: all but what the system needs.
fn pinned_budget_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find(|line| line.starts_with("MemAvailable:"));
    let kib = available.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| (kib << 10).saturating_sub(6 << 30))
}

/// What the command line asks for.
#[derive(Default)]
struct Options {
    small: bool,
    csv: Option<String>,
    figures: Option<String>,
    rows_max: Option<u64>,
    tuples: Option<u64>,
    repeats: Option<usize>,
    seconds: Option<u64>,
    filters: Vec<String>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> std::result::Result<Options, String> {
        fn number<T: std::str::FromStr>(name: &str, text: String) -> std::result::Result<Option<T>, String> {
            text.parse()
                .map(Some)
                .map_err(|_| format!("{name} {text}: not a number"))
        }
        let mut options = Options::default();
        while let Some(name) = arguments.next() {
            if name == "--small" {
                options.small = true;
                continue;
            }
            if !name.starts_with("--") {
                options.filters.push(name);
                continue;
            }
            let value = arguments.next().ok_or_else(|| format!("{name} wants a value"))?;
            match name.as_str() {
                "--csv" => options.csv = Some(value),
                "--figures" => options.figures = Some(value),
                "--rows-max" => options.rows_max = number(&name, value)?,
                "--tuples" => options.tuples = number(&name, value)?,
                "--repeats" => options.repeats = number(&name, value)?,
                "--seconds" => options.seconds = number(&name, value)?,
                _ => return Err(format!("there is no option {name}")),
            }
        }
        Ok(options)
    }
}

fn run(options: Options) -> Result<()> {
    let device = Device::open_from_env(DeviceConfig {
        pinned_budget_bytes: (!options.small).then(pinned_budget_bytes),
        ..DeviceConfig::default()
    })?;
    println!("device: {} ({})", device.info().name, device.info().compiler);
    let bench = Bench {
        device,
        small: options.small,
        rows_max: options.rows_max.unwrap_or(2048),
        tuples: options.tuples.unwrap_or(128),
        repeats: options.repeats,
        until: options.seconds.map(|s| Instant::now() + Duration::from_secs(s)),
        filters: options.filters,
    };
    let mut report = Report::new(options.csv, options.figures)?;
    joins::run(&bench, &mut report)?;
    partitioners::run(&bench, &mut report)?;
    let pool = bench.device.pool();
    println!("memory: peak {} MiB", pool.peak() >> 20);
    assert_eq!(pool.in_use(), 0);
    Ok(())
}

fn main() -> ExitCode {
    let outcome = Options::parse(std::env::args().skip(1)).and_then(|options| run(options).map_err(|e| e.to_string()));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
