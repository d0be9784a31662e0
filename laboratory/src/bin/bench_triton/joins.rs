//! Joins: sizes and budgets (figures 1 and 13), about the budget, build to probe (figure 21), widths (figure 22), shapes
//! of the join.

use std::time::Instant;

use tenon_gpu::join::Residual;
use tenon_gpu::join::triton::{
    HostKeys, HostSide, HostValues, KeyRange, TableKind, TritonOptions, TritonResult, Wanted, triton_join,
};
use tenon_gpu::{GpuError, Result};

use crate::Bench;
use crate::baselines::{baselines, pairs};
use crate::report::{Point, Report, point};
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

/// Runs of a row over so many tuples, beside one to warm up.
pub fn repeats(bench: &Bench, tuples: u64) -> usize {
    match tuples {
        _ if bench.small => 0,
        0..=1_500_000_000 => bench.repeats.unwrap_or(5),
        _ => bench.repeats.unwrap_or(5).min(2),
    }
}

/// Runs a join once to warm up and then a few times; reports the median, after checking the answers.
pub fn row<K: Sides, V: Sides>(
    bench: &Bench,
    report: &mut Report,
    name: &str,
    points: &[Point],
    join: &Join<'_, K, V>,
    options: &TritonOptions,
) -> Result<()> {
    if !bench.wants(name) || bench.is_late(report, name)? {
        return Ok(());
    }
    let (tuples, bytes) = join.size();
    let mut runs = Vec::new();
    for run in 0..repeats(bench, tuples) + 1 {
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
    let times: Vec<f64> = runs.iter().map(|run| run.0).collect();
    let result = &runs[runs.len() / 2].1;
    report.join(name, points, (tuples, bytes), &times, result)
}

pub fn perfect(rows: u64) -> TritonOptions {
    TritonOptions {
        key_range: Some(KeyRange { min: 1, count: rows }),
        ..TritonOptions::default()
    }
}

pub fn linear() -> TritonOptions {
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
        "triton.pairs.",
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
    if !bench.wants_any(&[&format!("triton.size.{m}M."), &format!("triton.budget.{m}M.")]) {
        return Ok(());
    }
    let rows = bench.rows(m);
    let join = columns.fill(rows, rows);
    let state = join.size().1;
    for (table, options) in [("perfect", perfect(rows)), ("linear", linear())] {
        let in_budget = |share: f64| point("1", format!("{m}M {table}"), share);
        let points = [point("13", format!("triton {table}"), m), in_budget(1.0)];
        let name = format!("triton.size.{m}M.{table}");
        row(bench, report, &name, &points, &join, &options)?;
        for part in [2, 4, 8] {
            let options = TritonOptions {
                memory_bytes: bench.memory(state / part),
                ..options.clone()
            };
            let name = format!("triton.budget.{m}M.{table}.1/{part}");
            row(bench, report, &name, &[in_budget(1.0 / part as f64)], &join, &options)?;
        }
    }
    Ok(())
}

/// Budgets a little below and above what keeps all build rows cached.
fn about_the_budget(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, m: u64) -> Result<()> {
    if !bench.wants_any(&[&format!("triton.near.{m}M.")]) {
        return Ok(());
    }
    let rows = bench.rows(m);
    let join = columns.fill(rows, rows);
    for (table, options, bytes) in [
        ("perfect", perfect(rows), rows * 8),
        ("linear", linear(), rows * 16 * 8 / 7),
    ] {
        // Chunks and counters, beside the table.
        let others = if bench.small { 64 << 10 } else { 480 << 20 };
        for percent in [60, 80, 90, 95, 100, 105, 110, 120] {
            let options = TritonOptions {
                memory_bytes: bench.memory(bytes * percent / 100 + others),
                ..options.clone()
            };
            let name = format!("triton.near.{m}M.{table}.{percent}%");
            let points = [point("near", format!("{m}M {table}"), percent)];
            row(bench, report, &name, &points, &join, &options)?;
        }
    }
    Ok(())
}

/// Build sides that are smaller than the probe side.
fn ratios(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, largest: u64) -> Result<()> {
    for ratio in [1, 2, 4, 8, 16] {
        if 128 * ratio > largest || !bench.wants_any(&[&format!("triton.ratio.1:{ratio}.")]) {
            continue;
        }
        let rows = bench.rows(128);
        let join = columns.fill(rows, rows * ratio);
        for part in [1, 4] {
            let options = TritonOptions {
                memory_bytes: bench.memory(rows * 32 / part),
                ..linear()
            };
            let name = format!("triton.ratio.1:{ratio}.linear.1/{part}");
            let points = [point("21", format!("budget 1/{part} of the state"), ratio)];
            row(bench, report, &name, &points, &join, &options)?;
        }
    }
    Ok(())
}

/// Chunks, fan-outs, and how short runs come back.
fn shapes(bench: &Bench, report: &mut Report, columns: &mut Columns<u64, u64>, m: u64) -> Result<()> {
    if !bench.wants_any(&[&format!("triton.shape.{m}M.")]) {
        return Ok(());
    }
    let rows = bench.rows(m);
    let join = columns.fill(rows, rows);
    let part = |part: u64| bench.memory(rows * 32 / part);
    let mut shapes = Vec::new();
    for chunk in [1, 2, 4, 8, 16] {
        let options = |memory_bytes| TritonOptions {
            chunk_rows: Some(if bench.small { chunk << 8 } else { chunk << 20 }),
            memory_bytes,
            ..linear()
        };
        shapes.push((format!("chunk{chunk}M"), options(None)));
        shapes.push((format!("chunk{chunk}M.1/4"), options(part(4))));
    }
    for fan_out in [16, 64, 256, 1024] {
        let options = TritonOptions {
            partitions: Some(fan_out),
            memory_bytes: part(4),
            ..linear()
        };
        shapes.push((format!("fanout{fan_out}.1/4"), options));
    }
    for (way, gather_below_bytes) in [("engine", Some(0)), ("kernel", Some(u64::MAX))] {
        for share in [4, 8] {
            let options = TritonOptions {
                gather_below_bytes,
                memory_bytes: part(share),
                ..linear()
            };
            shapes.push((format!("back.{way}.1/{share}"), options));
        }
    }
    for (shape, options) in shapes {
        row(
            bench,
            report,
            &format!("triton.shape.{m}M.{shape}"),
            &[],
            &join,
            &options,
        )?;
    }
    Ok(())
}

/// Tuples of 8, 12 and 16 bytes.
fn widths(bench: &Bench, report: &mut Report, m: u64) -> Result<()> {
    let rows = bench.rows(m);
    if bench.wants("triton.width.4+4") {
        width::<u32, u32>(bench, report, rows, &format!("triton.width.4+4.{m}M"))?;
    }
    if bench.wants("triton.width.8+4") {
        width::<u64, u32>(bench, report, rows, &format!("triton.width.8+4.{m}M"))?;
    }
    if bench.wants("triton.width.8+8") {
        width::<u64, u64>(bench, report, rows, &format!("triton.width.8+8.{m}M"))?;
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
        let points = [point(
            "22",
            format!("budget 2/{part} of the state"),
            size_of::<K>() + size_of::<V>(),
        )];
        row(bench, report, &format!("{name}.2/{part}"), &points, &join, &options)?;
    }
    Ok(())
}
