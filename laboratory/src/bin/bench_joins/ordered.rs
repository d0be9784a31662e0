//! Joins without hashing (He 2008, table 4): nested loops, CSS-tree, sort-merge, and band joins, each with its CPU twin.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};
use std::time::Instant;

use rayon::prelude::*;
use tenon_cpu::join::{self as cpu, CssTree as CpuCssTree};
use tenon_gpu::join::band::{Band, band};
use tenon_gpu::join::css_tree::CssTree;
use tenon_gpu::join::nested_loop::NestedLoopMatcher;
use tenon_gpu::join::probe::Probe;
use tenon_gpu::join::ranges::RangeMatcher;
use tenon_gpu::join::sort_merge::{Ascending, sort_merge};
use tenon_gpu::join::sorted::SortedSide;
use tenon_gpu::join::{JoinKind, JoinOutput, JoinRun, Keys, Matcher, Pairs, Residual, RunLimits, Side};
use tenon_gpu::memory::DeviceBuffer;
use tenon_gpu::{Result, Stream};
use tenon_laboratory::{Bench, RANDOM, size_text};

use crate::expression;
use crate::from_host::{self, By, concat, pairs, pinned_copy, print_bus, timed};
use crate::report::Report;
use crate::workload::{Host, Inputs, Workload, rows};

/// Pairs, and the sum of the products of their row numbers, modulo 2^64.
type Sums = (u64, u64);

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let (small, large) = (1 << 20, 16 << 20);
    nested_loops(bench, report, small, small, true)?;
    nested_loops(bench, report, small, large, false)?;
    for size in [small, large] {
        let workload = Workload::new(size, size);
        let rows = ["inlj", "smj", "inlj.from_host", "smj.from_host"];
        if rows
            .iter()
            .any(|row| bench.wants(&format!("ordered.{}.{row}", workload.name())))
        {
            let inputs = Inputs::<u32>::new(bench, &workload, 5)?;
            let host = inputs.download(&bench.stream)?;
            indexed(bench, report, &inputs, &host, &workload.name())?;
            merged(bench, report, &inputs, &host, &workload.name())?;
            from_host::run(bench, report, &inputs, &host, &workload.name())?;
        }
        bands(bench, report, size)?;
    }
    Ok(())
}

fn sums(build_rows: &[u32], probe_rows: &[u32]) -> Sums {
    let products = build_rows
        .par_iter()
        .zip(probe_rows)
        .map(|(&b, &p)| b as u64 * p as u64);
    (build_rows.len() as u64, products.reduce(|| 0, u64::wrapping_add))
}

/// All pairs of an inner join.
pub fn join(stream: &Stream, matcher: &dyn Matcher, build: u64, probe: u64) -> Result<Vec<Pairs>> {
    let mut run = JoinRun::new(stream, matcher, JoinKind::Inner, build, probe, RunLimits::default())?;
    let mut outputs = Vec::new();
    while let Some(JoinOutput::Pairs(pairs)) = run.next_output()? {
        outputs.push(pairs);
    }
    Ok(outputs)
}

/// Joins once; the rows of all pairs.
fn joined(stream: &Stream, matcher: &dyn Matcher, build: u64, probe: u64) -> Result<(Vec<u32>, Vec<u32>)> {
    let (mut build_rows, mut probe_rows) = (Vec::new(), Vec::new());
    for pairs in join(stream, matcher, build, probe)? {
        build_rows.extend(stream.download(pairs.build_rows.view())?);
        probe_rows.extend(stream.download(pairs.probe_rows.view())?);
    }
    Ok((build_rows, probe_rows))
}

/// Joins on all cores. The pairs are summed up while they are in the cache, not written out: the twin's time is its
/// least.
fn cpu_sums(matcher: &dyn cpu::Matcher) -> Sums {
    let piece = matcher.positions().div_ceil(rayon::current_num_threads() * 8).max(256);
    let starts: Vec<usize> = (0..matcher.positions()).step_by(piece).collect();
    let of_piece = |start: usize| {
        let mut sums = (0, 0u64);
        let _ = matcher.pairs(start..matcher.positions().min(start + piece), &mut |build, probe| {
            sums.0 += build.len() as u64;
            let products = build.iter().zip(probe).map(|(&b, &p)| b as u64 * p as u64);
            sums.1 = products.fold(sums.1, u64::wrapping_add);
            ControlFlow::Continue(())
        });
        sums
    };
    let add = |a: Sums, b: Sums| (a.0 + b.0, a.1.wrapping_add(b.1));
    starts.into_par_iter().map(of_piece).reduce(|| (0, 0), add)
}

fn side(buffer: &DeviceBuffer<u32>) -> Result<Side<'_>> {
    Side::new(Keys::U32(buffer.view()))
}

fn cpu_side(keys: &[u32]) -> Result<cpu::Side<'_, u32>> {
    cpu::Side::new(keys, None)
}

/// Keys of both sides read once, pairs written once.
fn least_bytes(tuples: u64, pairs: u64) -> u64 {
    tuples * 4 + pairs * 8
}

fn nested_loops(bench: &Bench, report: &mut Report, probe: u64, build: u64, on_cpu: bool) -> Result<()> {
    let workload = Workload::new(build, probe);
    let name = format!("ordered.ninlj.{}", workload.name());
    if !bench.wants(&name) {
        return Ok(());
    }
    let stream = &bench.stream;
    let inputs = Inputs::<u32>::new(bench, &workload, 3)?;
    let host = inputs.download(stream)?;
    let (build, probe) = (side(&inputs.build.0)?, side(&inputs.probe.0)?);
    let matcher = NestedLoopMatcher::equal(build, probe, Residual::none())?;
    let run = || join(stream, &matcher, build.row_count, probe.row_count);
    let (build_rows, probe_rows) = joined(stream, &matcher, build.row_count, probe.row_count)?;
    host.check(&name, None, &build_rows, &probe_rows);
    let bytes = least_bytes(inputs.tuples(), host.pairs);
    report.row(&name, inputs.tuples(), bytes, bench.measure(|_| run().map(drop))?)?;
    if on_cpu {
        let matcher = cpu::NestedLoopMatcher::new(cpu_side(&host.build)?, cpu_side(&host.probe)?);
        let start = Instant::now();
        let found = cpu_sums(&matcher);
        let ms = start.elapsed().as_secs_f64() * 1e3;
        assert_eq!(found, (host.pairs, host.products), "{name}.cpu");
        report.row(&format!("{name}.cpu"), inputs.tuples(), bytes, ms)?;
    }
    Ok(())
}

fn indexed(bench: &Bench, report: &mut Report, inputs: &Inputs<u32>, host: &Host<u32>, name: &str) -> Result<()> {
    let name = format!("ordered.{name}.inlj");
    if !bench.wants(&name) {
        return Ok(());
    }
    let stream = &bench.stream;
    let (build, probe) = (side(&inputs.build.0)?, side(&inputs.probe.0)?);
    let bytes = least_bytes(inputs.tuples(), host.pairs);
    let index = SortedSide::sort(stream, build)?;
    let sorted = || Side::with_rows(index.keys(), index.rows(), build.row_count);
    for node_keys in [8, 4, 16, 32] {
        let tree = CssTree::build_with(stream, index.keys(), node_keys)?;
        let row = if node_keys == 8 {
            name.clone()
        } else {
            format!("{name}.node{node_keys}")
        };
        let (asked, index) = (Probe::equal(probe), SortedSide::presorted(sorted()?));
        let matcher = RangeMatcher::indexed(stream, index, &tree, asked, Residual::none())?;
        let (build_rows, probe_rows) = joined(stream, &matcher, build.row_count, probe.row_count)?;
        host.check(&row, None, &build_rows, &probe_rows);
        let run = || join(stream, &matcher, build.row_count, probe.row_count);
        report.row(&row, inputs.tuples(), bytes, bench.measure(|_| run().map(drop))?)?;
    }
    let build_tree = |_| CssTree::build(stream, index.keys()).map(drop);
    report.row(
        &format!("{name}.build"),
        build.row_count,
        build.row_count * 4,
        bench.measure(build_tree)?,
    )?;

    let rows: Vec<u32> = (0..host.build.len() as u32).collect();
    let mut order = rows;
    order.par_sort_unstable_by_key(|&row| host.build[row as usize]);
    let keys: Vec<u32> = order.iter().map(|&row| host.build[row as usize]).collect();
    let tree = CpuCssTree::build(&keys);
    let matcher = cpu::RangeMatcher::indexed(&tree, Some(&order), cpu::Probe::equal(cpu_side(&host.probe)?))?;
    assert_eq!(cpu_sums(&matcher), (host.pairs, host.products), "{name}.cpu");
    let ms = bench.measure_cpu(|| {
        std::hint::black_box(cpu_sums(&matcher));
    });
    report.row(&format!("{name}.cpu"), inputs.tuples(), bytes, ms)?;
    let ms = bench.measure_cpu(|| drop(CpuCssTree::build(&keys)));
    report.row(&format!("{name}.build.cpu"), build.row_count, build.row_count * 4, ms)
}

fn merged(bench: &Bench, report: &mut Report, inputs: &Inputs<u32>, host: &Host<u32>, name: &str) -> Result<()> {
    let name = format!("ordered.{name}.smj");
    if !bench.wants(&name) {
        return Ok(());
    }
    let stream = &bench.stream;
    let (build, probe) = (side(&inputs.build.0)?, side(&inputs.probe.0)?);
    let bytes = least_bytes(inputs.tuples(), host.pairs);
    let run = |build: Side<'_>, probe: Side<'_>, ascending: Ascending| {
        let matcher = sort_merge(stream, build, probe, ascending, Residual::none())?;
        join(stream, &matcher, build.row_count, probe.row_count)
    };
    let check = |row: &str, build: Side<'_>, probe: Side<'_>, ascending: Ascending| {
        let matcher = sort_merge(stream, build, probe, ascending, Residual::none())?;
        let (build_rows, probe_rows) = joined(stream, &matcher, build.row_count, probe.row_count)?;
        host.check(row, None, &build_rows, &probe_rows);
        Result::Ok(())
    };
    let unsorted = Ascending::default();
    check(&name, build, probe, unsorted)?;
    let ms = bench.measure(|_| run(build, probe, unsorted).map(drop))?;
    report.row(&name, inputs.tuples(), bytes, ms)?;

    let sides = (SortedSide::sort(stream, build)?, SortedSide::sort(stream, probe)?);
    let sorted_build = Side::with_rows(sides.0.keys(), sides.0.rows(), build.row_count)?;
    let sorted_probe = Side::with_rows(sides.1.keys(), sides.1.rows(), probe.row_count)?;
    let both = Ascending {
        build: true,
        probe: true,
    };
    let row = format!("{name}.sorted");
    check(&row, sorted_build, sorted_probe, both)?;
    let ms = bench.measure(|_| run(sorted_build, sorted_probe, both).map(drop))?;
    report.row(&row, inputs.tuples(), bytes, ms)?;

    let join_on_cpu = || {
        let matcher = cpu::RangeMatcher::sort_merge(cpu_side(&host.build)?, cpu_side(&host.probe)?, false, false)?;
        Result::Ok(cpu_sums(&matcher))
    };
    assert_eq!(join_on_cpu()?, (host.pairs, host.products), "{name}.cpu");
    let ms = bench.measure_cpu(|| drop(join_on_cpu()));
    report.row(&format!("{name}.cpu"), inputs.tuples(), bytes, ms)
}

/// `build.key <= probe.key <= build.key + 10` over uniform keys: some ten partners a probe.
fn bands(bench: &Bench, report: &mut Report, full: u64) -> Result<()> {
    let name = format!("ordered.band.{0}x{0}", size_text(full));
    let (on_cpu, over_bus) = (format!("{name}.cpu"), format!("{name}.from_host"));
    if ![&name, &on_cpu, &over_bus].iter().any(|row| bench.wants(row)) {
        return Ok(());
    }
    const DELTA: u32 = 10;
    let stream = &bench.stream;
    let items = rows(bench, full);
    let keys = |salt: u64| {
        let number = format!("{RANDOM} % literal.template get<u64>(1)");
        bench.numbers::<u32>(items, expression(&number), &[salt, items])
    };
    let (build_keys, probe_keys) = (keys(11)?, keys(12)?);
    let host = (stream.download(build_keys.view())?, stream.download(probe_keys.view())?);
    let kind = Band::Unsigned {
        low: 0,
        high: DELTA as i64,
    };
    let run = |build: Side<'_>, probe: Side<'_>| {
        let matcher = band(stream, build, false, probe, kind, Residual::none())?;
        join(stream, &matcher, items, items)
    };

    let join_on_cpu = || {
        let sorted = cpu_side(&host.0)?.sorted()?;
        let low = host.1.par_iter().map(|key| key.saturating_sub(DELTA)).collect();
        let (low, high) = (
            Bound::Included(Cow::Owned(low)),
            Bound::Included(Cow::Borrowed(&host.1[..])),
        );
        let probe = cpu::Probe::between(host.1.len(), None, low, high)?;
        Result::Ok(cpu_sums(&cpu::RangeMatcher::new(sorted, probe)))
    };
    let expected = join_on_cpu()?;
    let mut found: Sums = (0, 0);
    for pairs in run(side(&build_keys)?, side(&probe_keys)?)? {
        let rows = (
            stream.download(pairs.build_rows.view())?,
            stream.download(pairs.probe_rows.view())?,
        );
        let within = |(&b, &p): (&u32, &u32)| {
            let (build, probe) = (host.0[b as usize], host.1[p as usize]);
            build <= probe && probe - build <= DELTA
        };
        assert!(
            rows.0.par_iter().zip(&rows.1).all(within),
            "{name}: a pair beyond the band"
        );
        let part = sums(&rows.0, &rows.1);
        found = (found.0 + part.0, found.1.wrapping_add(part.1));
    }
    assert_eq!(found, expected, "{name}");
    let bytes = least_bytes(2 * items, found.0);
    if bench.wants(&name) {
        let ms = bench.measure(|_| run(side(&build_keys)?, side(&probe_keys)?).map(drop))?;
        report.row(&name, 2 * items, bytes, ms)?;
    }
    if bench.wants(&on_cpu) {
        let ms = bench.measure_cpu(|| drop(join_on_cpu()));
        report.row(&on_cpu, 2 * items, bytes, ms)?;
    }
    if !bench.wants(&over_bus) {
        return Ok(());
    }

    let (build, probe) = (pinned_copy(bench, &build_keys)?, pinned_copy(bench, &probe_keys)?);
    let from_host = || {
        let (build, probe) = (from_host::side(&build, None)?, from_host::side(&probe, None)?);
        pairs(bench, By::Band(kind), build, probe)
    };
    let (build_rows, probe_rows) = concat(&from_host()?);
    assert_eq!(sums(&build_rows, &probe_rows), expected, "{over_bus}");
    let ms = timed(bench, || from_host().map(drop))?;
    print_bus(&over_bus, (2 * items * 4, found.0 * 8), ms);
    report.row(&over_bus, 2 * items, bytes, ms)
}
