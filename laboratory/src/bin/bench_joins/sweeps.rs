//! Sweeps over what makes joins differ: selectivity, duplicates, the sides' ratio, skew, density of keys. Rows are named
//! `sweep.WHAT.OPERATOR.X`; `bench/plot.py` draws them from the CSV.

use std::time::Instant;

use tenon_gpu::Result;
use tenon_gpu::join::hash::{HashOptions, hash_join, join_aggregated, join_materialised};
use tenon_gpu::join::{JoinKind, JoinOutput, JoinRun, Residual, RunLimits, Side};
use tenon_gpu::memory::DeviceBuffer;
use tenon_gpu::primitives::map::map;
use tenon_laboratory::Bench;

use crate::expression;
use crate::he::{OPERATORS, Operator, check, join};
use crate::materialised;
use crate::report::Report;
use crate::workload::{Inputs, Spread, Workload};

/// Operators beside the hash join that writes a payload a side: those give pairs of rows.
const PAIRS_BY: [&str; 3] = ["hj_table", "inlj", "smj"];

/// How large, and until when rows are begun.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Probe rows, a power of two.
    pub rows: u64,
    pub until: Option<Instant>,
}

impl Limits {
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

pub fn run(bench: &Bench, report: &mut Report, limits: Limits) -> Result<()> {
    let size = limits.rows;
    let usual = Workload::new(size, size);
    for &one_in in steps(bench, &[1, 2, 4, 10, 20, 100]) {
        let workload = Workload {
            spread: Spread::Sparse(one_in),
            ..usual
        };
        point(
            bench,
            report,
            limits,
            ("selectivity", &format!("{:.0}%", 100.0 / one_in as f64)),
            &workload,
        )?;
    }
    // As many pairs whatever the duplicates.
    for &duplicates in steps(bench, &[1, 2, 4, 8, 16, 32]) {
        let workload = Workload {
            probe: size / duplicates,
            duplicates,
            ..usual
        };
        point(
            bench,
            report,
            limits,
            ("duplicates", &duplicates.to_string()),
            &workload,
        )?;
    }
    for &ratio in steps(bench, &[1, 2, 4, 8, 16, 32]) {
        point(
            bench,
            report,
            limits,
            ("ratio", &ratio.to_string()),
            &Workload::new(size / ratio, size),
        )?;
    }
    // Skewed probe keys with one partner each: as many pairs as of uniform ones.
    for (x, spread) in [
        ("uniform", Spread::Uniform),
        ("zipf1.05", Spread::Zipf(1.05)),
        ("zipf1.25", Spread::Zipf(1.25)),
        ("zipf1.5", Spread::Zipf(1.5)),
        ("onekey", Spread::OneKey),
    ] {
        point(bench, report, limits, ("skew", x), &Workload { spread, ..usual })?;
    }
    for (x, number) in [("dense", "x"), ("spread", "x * 0x9e3779b1u")] {
        table(bench, report, limits, (x, number), &usual)?;
    }
    for (x, duplicates) in [("uniform", 1), ("onekey", size)] {
        without_pairs(bench, report, limits, x, &Workload { duplicates, ..usual })?;
    }
    Ok(())
}

/// The steps of a sweep; of small runs the last.
pub fn steps<'a, T>(bench: &Bench, all: &'a [T]) -> &'a [T] {
    if bench.small { &all[all.len() - 1..] } else { all }
}

/// One x of a sweep, by every operator.
fn point(
    bench: &Bench,
    report: &mut Report,
    limits: Limits,
    (sweep, x): (&str, &str),
    workload: &Workload,
) -> Result<()> {
    let name = |operator: &str| format!("sweep.{sweep}.{operator}.{x}");
    let chosen: Vec<(&str, Operator)> = OPERATORS
        .iter()
        .filter(|(operator, ..)| PAIRS_BY.contains(operator) && bench.wants(&name(operator)))
        .map(|&(name, _, operator)| (name, operator))
        .collect();
    if chosen.is_empty() && !bench.wants(&name("hash")) {
        return Ok(());
    }
    if limits.is_over() {
        println!("sweep.{sweep}.*.{x}: no time left");
        return Ok(());
    }
    let stream = &bench.stream;
    let inputs = Inputs::<u32>::new(bench, workload, 1)?;
    let host = inputs.download(stream)?;
    let tuples = inputs.tuples();
    if bench.wants(&name("hash")) {
        let options = HashOptions::default();
        materialised::check(bench, &name("hash"), &inputs, &host, &options)?;
        let (build, probe) = inputs.columns();
        let ms = bench.measure(|_| join_materialised(stream, build, probe, Some(host.pairs), &options).map(drop))?;
        report.row(&name("hash"), tuples, inputs.bytes(host.pairs), ms)?;
    }
    let keys = || (inputs.build.0.view().into(), inputs.probe.0.view().into());
    for (operator, by) in chosen {
        check(stream, &name(operator), &host, &join(stream, by, keys().0, keys().1)?)?;
        let ms = bench.measure(|_| join(stream, by, keys().0, keys().1).map(drop))?;
        report.row(&name(operator), tuples, tuples * 4 + host.pairs * 8, ms)?;
    }
    Ok(())
}

/// The shared table as an array over dense keys, and as slots by hash over the same keys spread by `number`.
fn table(
    bench: &Bench,
    report: &mut Report,
    limits: Limits,
    (x, number): (&str, &str),
    workload: &Workload,
) -> Result<()> {
    let name = format!("sweep.table.hj_table.{x}");
    let by = OPERATORS.iter().find(|(operator, ..)| *operator == "hj_table");
    let Some(&(_, _, by)) = by.filter(|_| bench.wants(&name) && !limits.is_over()) else {
        return Ok(());
    };
    let stream = &bench.stream;
    let inputs = Inputs::<u32>::new(bench, workload, 1)?;
    let host = inputs.download(stream)?;
    let spread = |keys: &DeviceBuffer<u32>| {
        let mut spread = stream.alloc::<u32>(keys.len())?;
        map(stream, keys.view(), spread.view_mut(), expression(number), &[])?;
        Result::Ok(spread)
    };
    let (build, probe) = (spread(&inputs.build.0)?, spread(&inputs.probe.0)?);
    let run = || join(stream, by, build.view().into(), probe.view().into());
    check(stream, &name, &host, &run()?)?;
    let ms = bench.measure(|_| run().map(drop))?;
    report.row(&name, inputs.tuples(), inputs.tuples() * 4 + host.pairs * 8, ms)
}

/// Joins that give no pairs, of which there would be the square of the rows: a sum, and both semi joins.
fn without_pairs(bench: &Bench, report: &mut Report, limits: Limits, x: &str, workload: &Workload) -> Result<()> {
    let name = |operator: &str| format!("sweep.skew_both.{operator}.{x}");
    let kinds = [("build_semi", JoinKind::BuildSemi), ("probe_semi", JoinKind::ProbeSemi)];
    if !bench.wants(&name("sum")) && !kinds.iter().any(|(operator, _)| bench.wants(&name(operator))) || limits.is_over()
    {
        return Ok(());
    }
    let stream = &bench.stream;
    let inputs = Inputs::<u32>::new(bench, workload, 1)?;
    let host = inputs.download(stream)?;
    let (build, probe) = inputs.columns();
    let options = HashOptions::default();
    if bench.wants(&name("sum")) {
        let found = join_aggregated(stream, build, probe, &options)?;
        assert_eq!(found, (host.pairs, host.products), "{}", name("sum"));
        let ms = bench.measure(|_| join_aggregated(stream, build, probe, &options).map(drop))?;
        report.row(&name("sum"), inputs.tuples(), inputs.bytes(0), ms)?;
    }
    for (operator, kind) in kinds {
        if !bench.wants(&name(operator)) {
            continue;
        }
        let semi = || {
            let (build, probe) = (Side::new(build.0)?, Side::new(probe.0)?);
            let matcher = hash_join(stream, build, probe, Residual::none(), &options)?;
            let rows = (build.row_count, probe.row_count);
            let mut run = JoinRun::new(stream, matcher.as_ref(), kind, rows.0, rows.1, RunLimits::default())?;
            run.next_output()
        };
        let found = match semi()? {
            Some(JoinOutput::BuildRows(rows) | JoinOutput::ProbeRows(rows)) => stream.download(rows.view())?,
            _ => Vec::new(),
        };
        let wanted = host.rows_with_partner(kind == JoinKind::BuildSemi);
        assert!(
            found == wanted,
            "{}: {} rows, not {}",
            name(operator),
            found.len(),
            wanted.len()
        );
        let ms = bench.measure(|_| semi().map(drop))?;
        report.row(
            &name(operator),
            inputs.tuples(),
            inputs.tuples() * 4 + found.len() as u64 * 4,
            ms,
        )?;
    }
    Ok(())
}
