//! Joins of columns in pinned host memory whose results go back to it.

use std::sync::Arc;

use tenon_gpu::Result;
use tenon_gpu::join::band::{Band, band};
use tenon_gpu::join::css_tree::CssTree;
use tenon_gpu::join::from_host::{DeviceSide, FromHostOptions, HostPairs, pairs_from_host};
use tenon_gpu::join::hash::{HashOptions, HashTable, TableJoin};
use tenon_gpu::join::nested_loop::NestedLoopMatcher;
use tenon_gpu::join::probe::Probe;
use tenon_gpu::join::ranges::RangeMatcher;
use tenon_gpu::join::sorted::SortedSide;
use tenon_gpu::join::triton::{HostKeys, HostSide, HostValues};
use tenon_gpu::join::{Residual, Side};
use tenon_gpu::memory::{DeviceBuffer, Element, PinnedBuffer};
use tenon_laboratory::Bench;

use crate::report::Report;
use crate::workload::{Host, Inputs};

/// How the pairs of two sides in host memory are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum By {
    Table,
    Tree,
    Merge,
    NestedLoops,
    Band(Band),
}

/// Joins; pairs come in pieces, and leave the memory they are in for the next run.
pub fn pairs(bench: &Bench, by: By, build: HostSide<'_>, probe: HostSide<'_>) -> Result<Vec<HostPairs>> {
    let (stream, options) = (&bench.stream, FromHostOptions::default());
    let mut found = Vec::new();
    let emit = &mut |pairs| {
        found.push(pairs);
        Ok(())
    };
    let sort = |stream: &_, side: DeviceSide| {
        let row_count = side.side()?.row_count;
        let sorted = SortedSide::sort(stream, side.side()?)?;
        let tree = CssTree::build(stream, sorted.keys())?;
        Result::Ok((sorted, tree, row_count))
    };
    fn ascending<'a>(sorted: &'a SortedSide<'_>, row_count: u64) -> Result<Side<'a>> {
        Side::with_rows(sorted.keys(), sorted.rows(), row_count)
    }
    match by {
        By::Table => {
            let prepare = |stream: &_, side: DeviceSide| {
                Ok(Arc::new(HashTable::new(stream, side.side()?, &HashOptions::default())?))
            };
            pairs_from_host(
                stream,
                build,
                probe,
                &options,
                prepare,
                |_, table, chunk| Ok(Box::new(TableJoin::new(table.clone(), chunk, Residual::none())?)),
                emit,
            )?;
        }
        By::Tree => pairs_from_host(
            stream,
            build,
            probe,
            &options,
            sort,
            |stream, (sorted, tree, rows), chunk| {
                let index = SortedSide::presorted(ascending(sorted, *rows)?);
                Ok(Box::new(RangeMatcher::indexed(
                    stream,
                    index,
                    tree,
                    Probe::equal(chunk),
                    Residual::none(),
                )?))
            },
            emit,
        )?,
        By::Merge => pairs_from_host(
            stream,
            build,
            probe,
            &options,
            sort,
            |stream, (sorted, _, rows), chunk| {
                let index = SortedSide::presorted(ascending(sorted, *rows)?);
                let probe = Probe::equal_sorted(SortedSide::sort(stream, chunk)?);
                Ok(Box::new(RangeMatcher::new(
                    stream,
                    index,
                    None,
                    probe,
                    Residual::none(),
                )?))
            },
            emit,
        )?,
        By::NestedLoops => pairs_from_host(
            stream,
            build,
            probe,
            &options,
            |_, side| Ok(side),
            |_, side, chunk| {
                Ok(Box::new(NestedLoopMatcher::equal(
                    side.side()?,
                    chunk,
                    Residual::none(),
                )?))
            },
            emit,
        )?,
        By::Band(kind) => pairs_from_host(
            stream,
            build,
            probe,
            &options,
            sort,
            move |stream, (sorted, _, rows), chunk| {
                Ok(Box::new(band(
                    stream,
                    ascending(sorted, *rows)?,
                    true,
                    chunk,
                    kind,
                    Residual::none(),
                )?))
            },
            emit,
        )?,
    }
    Ok(found)
}

/// All rows of pairs that came in pieces.
pub fn concat(found: &[HostPairs]) -> (Vec<u32>, Vec<u32>) {
    let (mut build_rows, mut probe_rows) = (Vec::new(), Vec::new());
    for pairs in found {
        build_rows.extend_from_slice(&pairs.build_rows);
        probe_rows.extend_from_slice(&pairs.probe_rows);
    }
    (build_rows, probe_rows)
}

/// Keys and record numbers from pinned memory, by an index and by a merge.
pub fn run(bench: &Bench, report: &mut Report, inputs: &Inputs<u32>, host: &Host<u32>, name: &str) -> Result<()> {
    for (operator, by) in [("inlj", By::Tree), ("smj", By::Merge)] {
        let name = format!("ordered.{name}.{operator}.from_host");
        if !bench.wants(&name) {
            continue;
        }
        let column = |buffer: &DeviceBuffer<u32>| pinned_copy(bench, buffer);
        let build = (column(&inputs.build.0)?, column(&inputs.build.1)?);
        let probe = (column(&inputs.probe.0)?, column(&inputs.probe.1)?);
        let join = || {
            pairs(
                bench,
                by,
                side(&build.0, Some(&build.1))?,
                side(&probe.0, Some(&probe.1))?,
            )
        };
        let (build_rows, probe_rows) = concat(&join()?);
        host.check(&name, None, &build_rows, &probe_rows);
        let ms = timed(bench, || join().map(drop))?;
        print_bus(&name, (inputs.tuples() * 8, host.pairs * 8), ms);
        report.row(&name, inputs.tuples(), inputs.tuples() * 8 + host.pairs * 8, ms)?;
    }
    Ok(())
}

/// A side whose rows are those of the keys' places, unless given.
pub fn side<'a>(keys: &'a [u32], rows: Option<&'a [u32]>) -> Result<HostSide<'a>> {
    let values = rows.map_or(HostValues::Rows, HostValues::U32);
    HostSide::new(HostKeys::U32(keys), values, keys.len() as u64)
}

/// A column's copy in pinned memory.
pub fn pinned_copy<T: Element>(bench: &Bench, column: &DeviceBuffer<T>) -> Result<PinnedBuffer<T>> {
    let mut buffer = bench.device.pinned::<T>(column.len())?;
    bench.stream.download_into(column.view(), &mut buffer)?;
    Ok(buffer)
}

/// Milliseconds on the host's clock, the median of repeats.
pub fn timed(bench: &Bench, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    f()?;
    let mut failed = Ok(());
    let ms = bench.measure_cpu(|| {
        if let Err(error) = f() {
            failed = Err(error);
        }
    });
    failed.map(|()| ms)
}

/// What the bus would take at 52 GB/s, in and then out.
pub fn print_bus(name: &str, (bytes_in, bytes_out): (u64, u64), ms: f64) {
    let bound = (bytes_in + bytes_out) as f64 / 52e9 * 1e3;
    println!(
        "{name}: the bus alone takes {bound:.3} ms, {:.0}% of the time",
        bound / ms * 100.0
    );
}
