//! `bench_joins [--small] [--csv FILE] [--rows N] [--seconds S] [FILTER ...]` checks and measures every join on the device
//! that `TENON_DEVICE` names, and the CPU twins: those whose name contains a filter, or begins with it after `^`. `--rows` and `--seconds` are for the
//! sweeps: their probe rows, and how long rows of sweeps are begun.
//!
//! `bench_joins --fuzz SECONDS [--rows N] [--seed S]` joins random inputs of up to N rows by every operator against the
//! CPU; `bench_joins --race` a fixed list of small ones, to be run under `compute-sanitizer --tool racecheck`.
//!
//! Each row: the median of repeats, tuples of both inputs a second, and the time over its floor, which is both inputs
//! read once and the output written once at 3.0 TB/s.

mod cpu_operators;
mod from_host;
mod fuzz;
mod he;
mod materialised;
mod ordered;
mod payloads;
mod report;
mod sweeps;
mod tune;
mod workload;

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use tenon_gpu::{Device, DeviceConfig, GpuError, Result};
use tenon_laboratory::Bench;

use fuzz::FuzzOptions;
use report::Report;
use sweeps::Limits;
use tenon_gpu::primitives::expression::Expression;

/// An expression of this program's own.
fn expression(text: &str) -> Expression<'_> {
    // SAFETY: all that is given here computes with its arguments and literals alone.
    unsafe { Expression::new(text) }
}

#[derive(Default)]
struct Arguments {
    small: bool,
    race: bool,
    csv: Option<String>,
    rows: Option<u64>,
    seconds: Option<f64>,
    fuzz: Option<f64>,
    seed: Option<u64>,
    filters: Vec<String>,
}

impl Arguments {
    fn parse() -> Result<Arguments> {
        let mut parsed = Arguments::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--small" => parsed.small = true,
                "--race" => parsed.race = true,
                "--csv" => parsed.csv = arguments.next(),
                "--rows" => parsed.rows = Some(number(&argument, arguments.next())?),
                "--seconds" => parsed.seconds = Some(number(&argument, arguments.next())?),
                "--fuzz" => parsed.fuzz = Some(number(&argument, arguments.next())?),
                "--seed" => parsed.seed = Some(number(&argument, arguments.next())?),
                option if option.starts_with("--") => {
                    return Err(GpuError::Invalid(format!("unknown option {option}")));
                }
                _ => parsed.filters.push(argument),
            }
        }
        Ok(parsed)
    }
}

fn number<T: FromStr>(option: &str, text: Option<String>) -> Result<T> {
    let text = text.unwrap_or_default();
    let parsed = text.parse();
    parsed.map_err(|_| GpuError::Invalid(format!("{option} {text}: not a number")))
}

fn measure(bench: &Bench, report: &mut Report, limits: Limits) -> Result<()> {
    materialised::run(bench, report)?;
    he::run(bench, report)?;
    cpu_operators::run(bench, report)?;
    ordered::run(bench, report)?;
    sweeps::run(bench, report, limits)?;
    payloads::run(bench, report, limits)?;
    tune::run(bench, report)
}

fn run(arguments: Arguments) -> Result<()> {
    let device = Device::open_from_env(DeviceConfig::default())?;
    println!("device: {} ({})", device.info().name, device.info().compiler);
    if let Some(seconds) = arguments.fuzz {
        let options = FuzzOptions {
            seconds,
            rows: arguments.rows.unwrap_or(10_000_000),
            seed: arguments.seed,
        };
        fuzz::run(&device, &options)?;
    } else if arguments.race {
        fuzz::run_race(&device)?;
    } else {
        let rows = arguments.rows.unwrap_or(16 << 20).max(1 << 10);
        let limits = Limits {
            rows: 1 << rows.ilog2(),
            until: arguments
                .seconds
                .map(|seconds| Instant::now() + Duration::from_secs_f64(seconds)),
        };
        let mut report = Report::new(arguments.csv)?;
        let all = arguments.filters.is_empty().then_some(None);
        for filter in all.into_iter().chain(arguments.filters.into_iter().map(Some)) {
            measure(
                &Bench::new(device.clone(), arguments.small, filter)?,
                &mut report,
                limits,
            )?;
        }
    }
    device.stream()?.synchronize()?;
    println!("memory: peak {} MiB", device.pool().peak() >> 20);
    assert_eq!(device.pool().in_use(), 0);
    Ok(())
}

fn main() -> ExitCode {
    match Arguments::parse().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
