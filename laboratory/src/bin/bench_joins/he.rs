//! Table 4 of He 2008: the four joins of 16 M tuples of 8 bytes (key and row number) with 16 M (NINLJ: 1 M with 16 M),
//! about one partner each. The GPU's time is given inside the device, and with keys copied in and pairs copied out.

use std::sync::Arc;

use tenon_gpu::join::hash::{HashOptions, HashTable, PartitionedJoin, TableJoin};
use tenon_gpu::join::nested_loop::NestedLoopMatcher;
use tenon_gpu::join::probe::Probe;
use tenon_gpu::join::ranges::RangeMatcher;
use tenon_gpu::join::sort_merge::{Ascending, sort_merge};
use tenon_gpu::join::sorted::SortedSide;
use tenon_gpu::join::{JoinKind, JoinOutput, JoinRun, Keys, Matcher, Pairs, Residual, RunLimits, Side};
use tenon_gpu::{Result, Stream};
use tenon_laboratory::Bench;

use crate::cpu_operators::pairs_of;
use crate::from_host::{By, concat, pairs, pinned_copy, print_bus, side, timed};
use crate::report::Report;
use crate::workload::{Inputs, Workload};

/// Makes a matcher over keys in device memory.
pub type Operator = for<'a> fn(&Stream, Side<'a>, Side<'a>) -> Result<Box<dyn Matcher + 'a>>;

pub const OPERATORS: [(&str, u64, Operator); 5] = [
    ("ninlj", 1 << 20, |_, build, probe| {
        Ok(Box::new(NestedLoopMatcher::equal(build, probe, Residual::none())?))
    }),
    // With the sort and the building of the tree: an index that stands saves both.
    ("inlj", 16 << 20, |stream, build, probe| {
        let sorted = SortedSide::sort(stream, build)?;
        let probe = Probe::equal(probe);
        Ok(Box::new(RangeMatcher::new(
            stream,
            sorted,
            None,
            probe,
            Residual::none(),
        )?))
    }),
    ("smj", 16 << 20, |stream, build, probe| {
        let none = Ascending::default();
        Ok(Box::new(sort_merge(stream, build, probe, none, Residual::none())?))
    }),
    ("hj", 16 << 20, |stream, build, probe| {
        let options = HashOptions::default();
        Ok(Box::new(PartitionedJoin::new(
            stream,
            build,
            probe,
            Residual::none(),
            &options,
        )?))
    }),
    ("hj_table", 16 << 20, |stream, build, probe| {
        let table = Arc::new(HashTable::new(stream, build, &HashOptions::default())?);
        Ok(Box::new(TableJoin::new(table, probe, Residual::none())?))
    }),
];

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let stream = &bench.stream;
    for (short, build_rows, operator) in OPERATORS {
        let workload = Workload::new(build_rows, 16 << 20);
        let name = format!("he.{short}.{}", workload.name());
        let copied = format!("{name}.copied");
        if !bench.wants(&name) && !bench.wants(&copied) {
            continue;
        }
        let inputs = Inputs::<u32>::new(bench, &workload, 3)?;
        let host = inputs.download(stream)?;
        let bytes = inputs.tuples() * 4 + host.pairs * 8;
        if bench.wants(&name) {
            let (build, probe) = (inputs.build.0.view(), inputs.probe.0.view());
            check(
                stream,
                &name,
                &host,
                &join(stream, operator, build.into(), probe.into())?,
            )?;
            let ms = bench.measure(|_| join(stream, operator, build.into(), probe.into()).map(drop))?;
            report.row(&name, inputs.tuples(), bytes, ms)?;
        }

        // Over the bus both hash joins are one: chunks past a shared table.
        let by = match short {
            "ninlj" => By::NestedLoops,
            "inlj" => By::Tree,
            "smj" => By::Merge,
            "hj_table" => By::Table,
            _ => continue,
        };
        if !bench.wants(&copied) {
            continue;
        }
        let (build, probe) = (
            pinned_copy(bench, &inputs.build.0)?,
            pinned_copy(bench, &inputs.probe.0)?,
        );
        let join = || pairs(bench, by, side(&build, None)?, side(&probe, None)?);
        let (build_rows, probe_rows) = concat(&join()?);
        host.check(&copied, None, &build_rows, &probe_rows);
        let ms = timed(bench, || join().map(drop))?;
        print_bus(&copied, (inputs.tuples() * 4, host.pairs * 8), ms);
        report.row(&copied, inputs.tuples(), bytes, ms)?;
    }
    hash_on_cpu(bench, report)
}

/// The hash join of the CPU: a shared table, pairs of rows.
fn hash_on_cpu(bench: &Bench, report: &mut Report) -> Result<()> {
    let workload = Workload::new(16 << 20, 16 << 20);
    let name = format!("he.hj_table.{}.cpu", workload.name());
    if !bench.wants(&name) {
        return Ok(());
    }
    let inputs = Inputs::<u32>::new(bench, &workload, 3)?;
    let host = inputs.download(&bench.stream)?;
    let rows: Vec<u32> = (0..host.build.len() as u32).collect();
    let mut found = Vec::new();
    let ms = bench.measure_cpu(|| {
        let table = tenon_cpu::join::hash::HashTable::new(&host.build, &rows);
        let matcher = tenon_cpu::join::hash::HashMatcher {
            table: &table,
            keys: &host.probe,
            rows: None,
        };
        found = pairs_of(&matcher);
    });
    let (build_rows, probe_rows): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    host.check(&name, None, &build_rows.concat(), &probe_rows.concat());
    report.row(&name, inputs.tuples(), inputs.tuples() * 4 + host.pairs * 8, ms)
}

/// All pairs of an inner join.
pub fn join<'a>(stream: &Stream, operator: Operator, build: Keys<'a>, probe: Keys<'a>) -> Result<Vec<Pairs>> {
    let matcher = operator(stream, Side::new(build)?, Side::new(probe)?)?;
    let rows = (build.len(), probe.len());
    let limits = RunLimits::default();
    let mut run = JoinRun::new(stream, matcher.as_ref(), JoinKind::Inner, rows.0, rows.1, limits)?;
    let mut all = Vec::new();
    while let Some(output) = run.next_output()? {
        if let JoinOutput::Pairs(pairs) = output {
            all.push(pairs);
        }
    }
    Ok(all)
}

pub fn check(stream: &Stream, name: &str, host: &crate::workload::Host<u32>, found: &[Pairs]) -> Result<()> {
    let (mut build_rows, mut probe_rows) = (Vec::new(), Vec::new());
    for pairs in found {
        build_rows.extend(stream.download(pairs.build_rows.view())?);
        probe_rows.extend(stream.download(pairs.probe_rows.view())?);
    }
    host.check(name, None, &build_rows, &probe_rows);
    Ok(())
}
