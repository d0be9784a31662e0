//! Joins: sizes and budgets (figures 1 and 13), about the budget, build to probe (figure 21), widths (figure 22), shapes
//! of the join, and the strategies that it is compared with.

use std::time::Instant;

use tenon_gpu::cpu::join::radix;
use tenon_gpu::join::triton::{
    HostKeys, HostSide, HostValues, KeyRange, TableKind, TritonOptions, TritonOutput, TritonResult, Wanted, Words,
    triton_join,
};
use tenon_gpu::join::{JoinKind, Residual};
use tenon_gpu::{GpuError, Result};

use crate::Bench;
use crate::report::Report;
use crate::workload::{Columns, Join, Word};

/// Borrows columns as a side of a join.
pub trait Sides: Word {
    fn keys(keys: &[Self]) -> HostKeys<'_>;
    fn values(values: &[Self]) -> HostValues<'_>;
}
impl Sides for u32 {
    fn keys(keys: &[u32]) -> HostKeys<'_> {
        HostKeys::U32(keys)
    }
    fn values(values: &[u32]) -> HostValues<'_> {
        HostValues::U32(values)
    }
}
impl Sides for u64 {
    fn keys(keys: &[u64]) -> HostKeys<'_> {
        HostKeys::U64(keys)
    }
    fn values(values: &[u64]) -> HostValues<'_> {
        HostValues::U64(values)
    }
}

fn run_once<K: Sides, V: Sides>(bench: &Bench, join: &Join<'_, K, V>, options: &TritonOptions) -> Result<TritonResult> {
    let build = HostSide::new(
        K::keys(join.build.0),
        V::values(join.build.1),
        join.build.0.len() as u64,
    )?;
    let probe = HostSide::new(
        K::keys(join.probe.0),
        V::values(join.probe.1),
        join.probe.0.len() as u64,
    )?;
    triton_join(
        &bench.device,
        build,
        probe,
        Wanted::Aggregate,
        &Residual::none(),
        options,
        &|| false,
        &mut |_| Ok(()),
    )
}

/// Runs a join once to warm up and then a few times; reports the median, after checking the answers.
fn row<K: Sides, V: Sides>(
    bench: &Bench,
    report: &mut Report,
    name: &str,
    join: &Join<'_, K, V>,
    options: &TritonOptions,
) -> Result<()> {
    if !bench.wants(name) {
        return Ok(());
    }
    let (tuples, bytes) = join.size();
    let repeats = match tuples {
        _ if bench.small => 1,
        0..=300_000_000 => 5,
        300_000_001..=1_500_000_000 => 3,
        _ => 2,
    };
    let mut runs = Vec::new();
    for run in 0..repeats + 1 {
        let start = Instant::now();
        let result = match run_once(bench, join, options) {
            Ok(result) => result,
            Err(error) if error.is_out_of_memory() => return report.skipped(name, &error),
            Err(error) => return Err(error),
        };
        let ms = start.elapsed().as_secs_f64() * 1e3;
        if (result.count, result.sum) != (join.count, join.sum) {
            return Err(GpuError::Invalid(format!(
                "{name}: {} pairs and sum {}, {} and {} are right: {result:?}",
                result.count, result.sum, join.count, join.sum
            )));
        }
        if run > 0 || bench.small {
            runs.push((ms, result));
        }
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ms, result) = &runs[runs.len() / 2];
    report.join(name, tuples, bytes, *ms, result)
}

fn perfect(rows: u64) -> TritonOptions {
    TritonOptions {
        key_range: Some(KeyRange { min: 1, count: rows }),
        ..TritonOptions::default()
    }
}

fn linear() -> TritonOptions {
    TritonOptions {
        table: Some(TableKind::Linear),
        ..TritonOptions::default()
    }
}

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let millions: Vec<u64> = [128, 512, 1024, 2048]
        .into_iter()
        .filter(|&m| m <= bench.rows_max)
        .collect();
    let largest = millions.last().copied().unwrap_or(128);
    let families = [
        "triton.size.",
        "triton.budget.",
        "triton.near.",
        "triton.ratio.",
        "triton.shape.",
        "baseline.",
    ];
    if families.iter().any(|family| bench.may_want(family)) {
        let mut columns = Columns::<u64, u64>::new(&bench.device, bench.rows(largest), bench.rows(largest))?;
        for &m in &millions {
            sizes(bench, report, &mut columns, m)?;
        }
        about_the_budget(bench, report, &mut columns, largest.min(512))?;
        ratios(bench, report, &mut columns, largest)?;
        shapes(bench, report, &mut columns, largest.min(512))?;
        pairs(bench, report, &mut columns, largest.min(512))?;
        baselines(bench, report, &mut columns, largest)?;
    }
    widths(bench, report, largest.min(512))
}

/// Sizes, each with the whole device and with parts of the state as budget.
fn sizes(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, m: u64) -> Result<()> {
    let rows = bench.rows(m);
    let join = columns.fill(rows, rows);
    let state = join.size().1;
    for (table, options) in [("perfect", perfect(rows)), ("linear", linear())] {
        row(bench, report, &format!("triton.size.{m}M.{table}"), &join, &options)?;
        for part in [2, 4, 8] {
            let options = TritonOptions {
                memory_bytes: bench.memory(state / part),
                ..options.clone()
            };
            row(
                bench,
                report,
                &format!("triton.budget.{m}M.{table}.1/{part}"),
                &join,
                &options,
            )?;
        }
    }
    Ok(())
}

/// Budgets a little below and above what keeps all build rows cached.
fn about_the_budget(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, m: u64) -> Result<()> {
    let rows = bench.rows(m);
    let join = columns.fill(rows, rows);
    for (table, options, bytes) in [
        ("perfect", perfect(rows), rows * 8),
        ("linear", linear(), rows * 16 * 6 / 5),
    ] {
        // Chunks and counters, beside the table.
        let others = if bench.small { 64 << 10 } else { 480 << 20 };
        for percent in [60, 80, 90, 95, 100, 105, 110, 120] {
            let options = TritonOptions {
                memory_bytes: bench.memory(bytes * percent / 100 + others),
                ..options.clone()
            };
            row(
                bench,
                report,
                &format!("triton.near.{m}M.{table}.{percent}%"),
                &join,
                &options,
            )?;
        }
    }
    Ok(())
}

/// Build sides that are smaller than the probe side.
fn ratios(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, largest: u64) -> Result<()> {
    for ratio in [1, 2, 4, 8, 16] {
        if 128 * ratio > largest || !bench.wants(&format!("triton.ratio.1:{ratio}.linear")) {
            continue;
        }
        let rows = bench.rows(128);
        let join = columns.fill(rows, rows * ratio);
        for part in [1, 4] {
            let options = TritonOptions {
                memory_bytes: bench.memory(rows * 32 / part),
                ..linear()
            };
            row(
                bench,
                report,
                &format!("triton.ratio.1:{ratio}.linear.1/{part}"),
                &join,
                &options,
            )?;
        }
    }
    Ok(())
}

/// Chunks and fan-outs.
fn shapes(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, m: u64) -> Result<()> {
    let rows = bench.rows(m);
    let join = columns.fill(rows, rows);
    for chunk in [1, 2, 4, 8, 16] {
        let options = |memory_bytes| TritonOptions {
            chunk_rows: Some(if bench.small { chunk << 8 } else { chunk << 20 }),
            memory_bytes,
            ..linear()
        };
        row(
            bench,
            report,
            &format!("triton.shape.{m}M.chunk{chunk}M"),
            &join,
            &options(None),
        )?;
        let quarter = options(bench.memory(rows * 32 / 4));
        row(
            bench,
            report,
            &format!("triton.shape.{m}M.chunk{chunk}M.1/4"),
            &join,
            &quarter,
        )?;
    }
    for fan_out in [16, 64, 256, 1024] {
        let options = TritonOptions {
            partitions: Some(fan_out),
            memory_bytes: bench.memory(rows * 32 / 4),
            ..linear()
        };
        row(
            bench,
            report,
            &format!("triton.shape.{m}M.fanout{fan_out}.1/4"),
            &join,
            &options,
        )?;
    }
    Ok(())
}

/// Pairs of row numbers that stream back: 8 bytes each.
fn pairs(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, m: u64) -> Result<()> {
    let rows = bench.rows(m);
    let join = columns.fill(rows, rows);
    for part in [1, 4] {
        let name = format!("triton.pairs.{m}M.1/{part}");
        if !bench.wants(&name) {
            continue;
        }
        let options = TritonOptions {
            memory_bytes: bench.memory(rows * 32 / part),
            ..linear()
        };
        let side = |keys| HostSide::new(HostKeys::U64(keys), HostValues::Rows, rows);
        let mut times = Vec::new();
        for _ in 0..if bench.small { 1 } else { 3 } {
            let mut wrong = 0;
            let start = Instant::now();
            let result = triton_join(
                &bench.device,
                side(join.build.0)?,
                side(join.probe.0)?,
                Wanted::Join(JoinKind::Inner),
                &Residual::none(),
                &options,
                &|| false,
                &mut |output| {
                    if let TritonOutput::Pairs {
                        build: Words::U32(build),
                        probe: Words::U32(probe),
                    } = output
                    {
                        // A sample: looking all keys up would take longer than the join.
                        let sample = build.iter().zip(probe).step_by(997);
                        wrong += sample
                            .filter(|(build, probe)| join.build.0[**build as usize] != join.probe.0[**probe as usize])
                            .count();
                    }
                    Ok(())
                },
            )?;
            times.push((start.elapsed().as_secs_f64() * 1e3, result));
            let count = times[times.len() - 1].1.count;
            if wrong > 0 || count != join.count {
                return Err(GpuError::Invalid(format!(
                    "{name}: {count} pairs, {wrong} of the sample wrong"
                )));
            }
        }
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ms, result) = &times[times.len() / 2];
        report.join(&name, 2 * rows, rows * 16, *ms, result)?;
    }
    Ok(())
}

/// Other strategies.
fn baselines(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, largest: u64) -> Result<()> {
    for m in [128, 512] {
        let name = format!("baseline.cpu_radix.{m}M");
        if m <= largest && bench.wants(&name) {
            cpu_radix(bench, report, &name, &columns.fill(bench.rows(m), bench.rows(m)))?;
        }
    }
    for m in [128, 512] {
        let name = format!("baseline.cpu_partitioned.{m}M");
        if m <= largest && bench.wants(&name) {
            let rows = bench.rows(m);
            let join = columns.fill(rows, rows);
            let options = TritonOptions {
                partition_on_cpu: true,
                memory_bytes: bench.memory(rows * 8),
                ..linear()
            };
            row(bench, report, &name, &join, &options)?;
        }
    }
    for m in [16, 128] {
        let rows = bench.rows(m);
        let join = columns.fill(rows, rows);
        for (table, options) in [("perfect", perfect(rows)), ("linear", linear())] {
            // A table in host memory and linear probing: minutes at larger sizes.
            if table == "linear" && m > 16 {
                continue;
            }
            let options = TritonOptions {
                table_on_host: true,
                ..options
            };
            row(
                bench,
                report,
                &format!("baseline.host_table.{m}M.{table}"),
                &join,
                &options,
            )?;
        }
    }
    Ok(())
}

/// The radix join on the processor's cores.
fn cpu_radix(bench: &Bench, report: &mut Report, name: &str, join: &Join<'_, u64, u64>) -> Result<()> {
    let columns = |(keys, values)| radix::Columns { keys, values };
    let mut best = f64::INFINITY;
    for _ in 0..if bench.small { 1 } else { 3 } {
        let start = Instant::now();
        let answer = radix::join_aggregated(columns(join.build), columns(join.probe));
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
        if answer != (join.count, join.sum) {
            return Err(GpuError::Invalid(format!(
                "{name}: {answer:?}, {:?}",
                (join.count, join.sum)
            )));
        }
    }
    let (tuples, bytes) = join.size();
    report.step(name, tuples, bytes, best)
}

/// Tuples of 8 and 12 bytes.
fn widths(bench: &Bench, report: &mut Report, m: u64) -> Result<()> {
    let rows = bench.rows(m);
    if bench.wants("triton.width.4+4") {
        width::<u32, u32>(bench, report, rows, &format!("triton.width.4+4.{m}M"))?;
    }
    if bench.wants("triton.width.8+4") {
        width::<u64, u32>(bench, report, rows, &format!("triton.width.8+4.{m}M"))?;
    }
    Ok(())
}

fn width<K: Sides, V: Sides>(bench: &Bench, report: &mut Report, rows: u64, name: &str) -> Result<()> {
    let mut columns = Columns::<K, V>::new(&bench.device, rows, rows)?;
    let join = columns.fill(rows, rows);
    let state = join.size().1;
    for part in [1, 4] {
        let options = TritonOptions {
            memory_bytes: bench.memory(state * 2 / part),
            ..linear()
        };
        row(bench, report, &format!("{name}.2/{part}"), &join, &options)?;
    }
    Ok(())
}
