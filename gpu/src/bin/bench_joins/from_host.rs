//! Joins of columns in pinned host memory whose pairs go back to it.

use std::sync::mpsc::sync_channel;
use std::thread;

use tenon_gpu::bench::Bench;
use tenon_gpu::join::css_tree::CssTree;
use tenon_gpu::join::probe::Probe;
use tenon_gpu::join::ranges::{Directory, RangeMatcher};
use tenon_gpu::join::sorted::SortedSide;
use tenon_gpu::join::{Keys, Pairs, Residual, Side};
use tenon_gpu::memory::{DeviceBuffer, PinnedBuffer};
use tenon_gpu::{GpuError, Result};

use crate::ordered::join;
use crate::report::Report;
use crate::workload::{Host, Inputs};

/// Probe rows that are on one way at a time: copies of 16 MiB run at the full rate of the bus.
const CHUNK_ROWS: usize = 4 << 20;

/// Keys and record numbers, in pinned memory.
type Columns = (PinnedBuffer<u32>, PinnedBuffer<u32>);

pub fn run(bench: &Bench, report: &mut Report, inputs: &Inputs<u32>, host: &Host<u32>, name: &str) -> Result<()> {
    let numbers = |buffer: &DeviceBuffer<u32>| bench.stream.download(buffer.view());
    for (operator, merge) in [("inlj", false), ("smj", true)] {
        let name = format!("ordered.{name}.{operator}.from_host");
        if !bench.wants(&name) {
            continue;
        }
        let build = (pinned(bench, &host.build)?, pinned(bench, &numbers(&inputs.build.1)?)?);
        let probe = (pinned(bench, &host.probe)?, pinned(bench, &numbers(&inputs.probe.1)?)?);
        let mut pairs = (bench.device.pinned(host.pairs)?, bench.device.pinned(host.pairs)?);
        let found = streamed(bench, &build, &probe, &mut pairs, merge)?;
        assert_eq!(found as u64, host.pairs, "{name}");
        host.check(&name, None, &pairs.0, &pairs.1);
        let ms = timed(bench, || streamed(bench, &build, &probe, &mut pairs, merge).map(drop))?;
        print_bus(&name, (inputs.tuples() * 8, host.pairs * 8), ms);
        report.row(&name, inputs.tuples(), inputs.tuples() * 4 + host.pairs * 8, ms)?;
    }
    Ok(())
}

fn side<'a>(keys: &'a DeviceBuffer<u32>, rows: &'a DeviceBuffer<u32>, row_count: usize) -> Result<Side<'a>> {
    Side::with_rows(Keys::U32(keys.view()), Some(rows.view()), row_count as u64)
}

/// The build side arrives and is sorted; then chunks of the probe side arrive, find their partners, and leave as pairs,
/// each on a thread and a stream of its own, so that copies go both ways while kernels run. Returns the pairs.
fn streamed(bench: &Bench, build: &Columns, probe: &Columns, pairs: &mut Columns, merge: bool) -> Result<usize> {
    let stream = &bench.stream;
    let (arrivals, departures) = (bench.device.stream()?, bench.device.stream()?);
    let build_columns = (arrivals.upload(&build.0)?, arrivals.upload(&build.1)?);
    let (build_rows, probe_rows) = (build.0.len(), probe.0.len());
    let sorted = SortedSide::sort(stream, side(&build_columns.0, &build_columns.1, build_rows)?)?;
    let tree = CssTree::build(stream, sorted.keys())?;
    let (arrived, arriving) = sync_channel(2);
    let (made, making) = sync_channel::<Pairs>(2);
    thread::scope(|scope| {
        let upload = scope.spawn(move || {
            for (keys, rows) in probe.0.chunks(CHUNK_ROWS).zip(probe.1.chunks(CHUNK_ROWS)) {
                let columns = (arrivals.upload(keys)?, arrivals.upload(rows)?);
                if arrived.send(columns).is_err() {
                    break;
                }
            }
            Result::Ok(())
        });
        let download = scope.spawn(move || {
            let mut from = 0;
            for found in making {
                let to = from + found.build_rows.len() as usize;
                departures.download_into(found.build_rows.view(), &mut pairs.0[from..to])?;
                departures.download_into(found.probe_rows.view(), &mut pairs.1[from..to])?;
                from = to;
            }
            Result::Ok(from)
        });
        for (keys, rows) in arriving {
            let chunk = side(&keys, &rows, probe_rows)?;
            let index = SortedSide::presorted(Side::with_rows(sorted.keys(), sorted.rows(), build_rows as u64)?);
            let (asked, directory) = match merge {
                true => (Probe::equal_sorted(SortedSide::sort(stream, chunk)?), None),
                false => (Probe::equal(chunk), Some(Directory::Borrowed(&tree))),
            };
            let matcher = RangeMatcher::new(stream, index, directory, asked, Residual::none())?;
            let found = join(stream, &matcher, build_rows as u64, probe_rows as u64)?;
            // Other streams take the pairs, and give the chunk's memory back.
            stream.synchronize()?;
            for pairs in found {
                if made.send(pairs).is_err() {
                    break;
                }
            }
        }
        drop(made);
        let panicked = |_| GpuError::Invalid("a thread of the benchmark panicked".into());
        upload.join().map_err(panicked)??;
        download.join().map_err(panicked)?
    })
}

/// A column in pinned memory.
pub fn pinned(bench: &Bench, column: &[u32]) -> Result<PinnedBuffer<u32>> {
    let mut buffer = bench.device.pinned::<u32>(column.len() as u64)?;
    buffer.copy_from_slice(column);
    Ok(buffer)
}

/// All columns to pinned memory at once.
pub fn download(bench: &Bench, outputs: &[Pairs]) -> Result<Vec<[PinnedBuffer<u32>; 2]>> {
    let mut downloads = Vec::new();
    for pairs in outputs {
        for rows in [&pairs.build_rows, &pairs.probe_rows] {
            downloads.push(
                bench
                    .stream
                    .download_later(rows.view(), bench.device.pinned(rows.len())?)?,
            );
        }
    }
    let mut columns = downloads.into_iter().map(|download| download.wait());
    let mut all = Vec::new();
    while let (Some(build), Some(probe)) = (columns.next(), columns.next()) {
        all.push([build?, probe?]);
    }
    Ok(all)
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
