//! The hash joins of the CPU, on all cores.

use std::ops::ControlFlow;

use rayon::prelude::*;
use tenon_cpu::join::Matcher;
use tenon_cpu::join::hash::HashKey;
use tenon_cpu::join::radix::{RadixSide, join_aggregated, join_materialised};
use tenon_gpu::Result;
use tenon_laboratory::Bench;

use crate::report::Report;
use crate::workload::{Inputs, Spread, Word, Workload};

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    for size in [16 << 20, 128 << 20] {
        let usual = Workload::new(size, size);
        row::<u32>(bench, report, &usual)?;
        row::<u64>(bench, report, &usual)?;
    }
    let usual = Workload::new(16 << 20, 16 << 20);
    for spread in [Spread::Zipf(1.25), Spread::OneKey] {
        row::<u32>(bench, report, &Workload { spread, ..usual })?;
    }
    Ok(())
}

fn row<K: Word + HashKey + Numbered>(bench: &Bench, report: &mut Report, workload: &Workload) -> Result<()> {
    let (pairs, sum) = (
        format!("cpu.hash.pairs.{}.{}", K::C_NAME, workload.name()),
        format!("cpu.hash.sum.{}.{}", K::C_NAME, workload.name()),
    );
    if !bench.wants(&pairs) && !bench.wants(&sum) {
        return Ok(());
    }
    let inputs = Inputs::<K>::new(bench, workload, 1)?;
    let host = inputs.download(&bench.stream)?;
    let values = |len: usize| (0..len).into_par_iter().map(K::from_row).collect::<Vec<K>>();
    let (build_values, probe_values) = (values(host.build.len()), values(host.probe.len()));
    let build = RadixSide {
        keys: &host.build,
        values: &build_values,
    };
    let probe = RadixSide {
        keys: &host.probe,
        values: &probe_values,
    };
    if bench.wants(&sum) {
        let mut found = (0, 0);
        let ms = bench.measure_cpu(|| found = join_aggregated(build, probe));
        assert_eq!(found, (host.pairs, host.products), "{sum}");
        report.row(&sum, inputs.tuples(), inputs.bytes(0), ms)?;
    }
    if bench.wants(&pairs) {
        let mut found = Vec::new();
        let ms = bench.measure_cpu(|| found = join_materialised(build, probe));
        report.row(&pairs, inputs.tuples(), inputs.bytes(host.pairs), ms)?;
        let all = |column: fn(&tenon_cpu::join::radix::JoinedRows<K, K, K>) -> &[K]| -> Vec<K> {
            found.iter().flat_map(|rows| column(rows).iter().copied()).collect()
        };
        let keys = all(|rows| &rows.keys);
        host.check(
            &pairs,
            Some(&keys),
            &all(|rows| &rows.build_values),
            &all(|rows| &rows.probe_values),
        );
    }
    Ok(())
}

/// Row numbers as payload.
trait Numbered {
    fn from_row(row: usize) -> Self;
}
impl Numbered for u32 {
    fn from_row(row: usize) -> u32 {
        row as u32
    }
}
impl Numbered for u64 {
    fn from_row(row: usize) -> u64 {
        row as u64
    }
}

/// Build and probe rows of pairs, by task.
pub type Pieces = Vec<(Vec<u32>, Vec<u32>)>;

/// All pairs of a matcher, by all cores.
pub fn pairs_of(matcher: &dyn Matcher) -> Pieces {
    let positions = matcher.positions();
    let step = positions.div_ceil(rayon::current_num_threads() * 8).max(1);
    (0..positions.div_ceil(step))
        .into_par_iter()
        .map(|piece| {
            let (mut build, mut probe) = (Vec::with_capacity(step), Vec::with_capacity(step));
            let range = piece * step..positions.min((piece + 1) * step);
            let _ = matcher.pairs(range, &mut |b, p| {
                build.extend_from_slice(b);
                probe.extend_from_slice(p);
                ControlFlow::Continue(())
            });
            (build, probe)
        })
        .collect()
}
