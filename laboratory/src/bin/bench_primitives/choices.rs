//! Select, runs, segmented reduce, histogram and search, under CUB's names where it has the same.

use tenon_gpu::Result;
use tenon_gpu::memory::DeviceBuffer;
use tenon_gpu::number::Reduction;
use tenon_gpu::primitives::gather::scatter_split;
use tenon_gpu::primitives::histogram::histogram_digit;
use tenon_gpu::primitives::map::map;
use tenon_gpu::primitives::scan::{ScanShape, exclusive_scan_shaped, inclusive_scan};
use tenon_gpu::primitives::search::lower_bound;
use tenon_gpu::primitives::segmented::segmented_reduce;
use tenon_gpu::primitives::select::{
    Predicate, SelectShape, run_length_encode, select_by_flags, select_where, select_where_shaped, unique,
};

use tenon_laboratory::{Bench, random_at, size_text};

use crate::expression;

const ROWS: [&str; 9] = [
    "tune.scan",
    "tune.select",
    "scatter.split",
    "select",
    "histogram",
    "run_length",
    "unique",
    "segmented",
    "search",
];

pub fn run(bench: &Bench) -> Result<()> {
    for full in [16 << 20, 128 << 20] {
        if !ROWS.iter().any(|name| bench.wants(name)) {
            continue;
        }
        shapes(bench, full)?;
        selects(bench, full)?;
        histograms(bench, full)?;
        runs(bench, full)?;
        searches(bench, full)?;
    }
    Ok(())
}

fn buffers(count: usize, make: impl FnMut(usize) -> Result<DeviceBuffer<u32>>) -> Result<Vec<DeviceBuffer<u32>>> {
    (0..count).map(make).collect()
}

/// Threads, packs a thread, and blocks a multiprocessor.
const SCAN_SHAPES: [(u32, u32, u32, bool); 23] = [
    (512, 4, 2, false),
    (512, 4, 3, false),
    (256, 4, 6, false),
    (256, 8, 3, false),
    (256, 6, 4, false),
    (256, 7, 4, false),
    (384, 4, 4, false),
    (128, 8, 7, false),
    (128, 7, 8, false),
    (128, 6, 9, false),
    (128, 4, 12, false),
    (512, 6, 2, false),
    (512, 7, 2, false),
    (512, 8, 2, false),
    (384, 7, 3, false),
    (384, 6, 3, false),
    (256, 9, 3, false),
    (256, 8, 4, false),
    (384, 8, 2, false),
    (512, 4, 2, true),
    (512, 4, 3, true),
    (256, 4, 4, true),
    (256, 4, 5, true),
];
/// Threads, and blocks a multiprocessor.
const SELECT_SHAPES: [(u32, u32); 6] = [(512, 2), (512, 3), (384, 4), (256, 5), (256, 6), (128, 12)];

/// Shapes of the scan's blocks, and a scatter by split.
fn shapes(bench: &Bench, full: u64) -> Result<()> {
    let (stream, items, size) = (&bench.stream, bench.items(full), size_text(full));
    if bench.wants("tune.scan") {
        let sets = bench.sets(items * 8);
        let inputs = buffers(sets, |s| bench.random_u32(items, s as u64))?;
        let mut outputs = buffers(sets, |_| stream.alloc(items))?;
        for (threads, packs, blocks, pipelined) in SCAN_SHAPES {
            let shape = ScanShape {
                threads,
                packs,
                blocks,
                pipelined,
            };
            let ahead = if pipelined { ".ahead" } else { "" };
            bench.row(
                &format!("tune.scan.{threads}x{packs}x{blocks}{ahead}.{size}"),
                items,
                items * 8,
                |run| {
                    let (input, output) = (inputs[run % sets].view(), outputs[run % sets].view_mut());
                    exclusive_scan_shaped::<u32, u32>(stream, input, output, Reduction::Sum, shape)
                },
            )?;
        }
    }
    if bench.wants("tune.select") {
        let sets = bench.sets(items * 8);
        let inputs = buffers(sets, |s| bench.random_u32(items, s as u64))?;
        let mut outputs = buffers(sets, |_| stream.alloc(items))?;
        let mut count = stream.alloc::<u64>(1)?;
        let odd = Predicate {
            expression: expression("(x & 1) != 0"),
            literals: &[],
        };
        for (threads, blocks) in SELECT_SHAPES {
            let shape = SelectShape { threads, blocks };
            bench.row(
                &format!("tune.select.{threads}x{blocks}.{size}"),
                items,
                items * 6,
                |run| {
                    let (input, output) = (inputs[run % sets].view(), outputs[run % sets].view_mut());
                    select_where_shaped(stream, input, odd, output, count.view_mut(), shape)
                },
            )?;
        }
    }
    let name = format!("scatter.split.u64.random.{size}");
    if bench.wants(&name) {
        let (values, places) = (bench.random_u64(items, 1)?, bench.random_u32(items, 2)?);
        let mut below = stream.alloc::<u32>(items)?;
        let limit = [items];
        map(
            stream,
            places.view(),
            below.view_mut(),
            expression("x % literal.template get<u32>(0)"),
            &limit,
        )?;
        let mut output = stream.alloc::<u64>(items)?;
        bench.row(&name, items, items * 20, |_| {
            scatter_split(stream, values.view(), below.view(), output.view_mut())
        })?;
    }
    Ok(())
}

fn selects(bench: &Bench, full: u64) -> Result<()> {
    if !bench.wants("select") {
        return Ok(());
    }
    let (stream, items, size) = (&bench.stream, bench.items(full), size_text(full));
    let sets = bench.sets(items * 8);
    let inputs = buffers(sets, |s| bench.random_u32(items, s as u64))?;
    let mut outputs = buffers(sets, |_| stream.alloc(items))?;
    let mut flags = Vec::new();
    for input in &inputs {
        let mut set = stream.alloc::<u8>(items)?;
        map(stream, input.view(), set.view_mut(), expression("(u8)(x & 1)"), &[])?;
        flags.push(set);
    }
    let mut count = stream.alloc::<u64>(1)?;
    let odd = Predicate {
        expression: expression("(x & 1) != 0"),
        literals: &[],
    };
    bench.row(&format!("select.u32.50%.{size}"), items, items * 6, |run| {
        let (input, output) = (inputs[run % sets].view(), outputs[run % sets].view_mut());
        select_where(stream, input, odd, output, count.view_mut())
    })?;
    bench.row(&format!("select.flagged.u32.50%.{size}"), items, items * 7, |run| {
        let (input, output) = (inputs[run % sets].view(), outputs[run % sets].view_mut());
        select_by_flags(stream, input, flags[run % sets].view(), output, count.view_mut())
    })?;
    let host = stream.download(inputs[0].view())?;
    let mut twin = vec![0u32; items as usize];
    bench.cpu_row(&format!("cpu.select.u32.50%.{size}"), items, items * 6, || {
        tenon_cpu::select::select_where(&host, &mut twin, |x| x & 1 != 0);
    });
    select_by_flags(
        stream,
        inputs[0].view(),
        flags[0].view(),
        outputs[0].view_mut(),
        count.view_mut(),
    )?;
    let chosen = tenon_cpu::select::select_where(&host, &mut twin, |x| x & 1 != 0);
    assert_eq!(stream.download(count.view())?, [chosen]);
    assert!(
        stream.download(outputs[0].slice(..chosen)?)? == twin[..chosen as usize],
        "select"
    );
    Ok(())
}

fn histograms(bench: &Bench, full: u64) -> Result<()> {
    if !bench.wants("histogram") {
        return Ok(());
    }
    let (stream, items, size) = (&bench.stream, bench.items(full), size_text(full));
    let sets = bench.sets(items * 4);
    let inputs = buffers(sets, |s| bench.random_u32(items, s as u64))?;
    let host = stream.download(inputs[0].view())?;
    for bins in [256u64, 4096] {
        let mut counts = stream.alloc::<u64>(bins)?;
        bench.row(&format!("histogram.{bins}.u32.{size}"), items, items * 4, |run| {
            histogram_digit(stream, inputs[run % sets].view(), 3, counts.view_mut())
        })?;
        let mut twin = vec![0u64; bins as usize];
        bench.cpu_row(&format!("cpu.histogram.{bins}.u32.{size}"), items, items * 4, || {
            tenon_cpu::histogram::histogram_digit(&host, 3, &mut twin).expect("bins");
        });
        histogram_digit(stream, inputs[0].view(), 3, counts.view_mut())?;
        tenon_cpu::histogram::histogram_digit(&host, 3, &mut twin)?;
        assert!(stream.download(counts.view())? == twin, "histogram");
    }
    // One bin holds everything.
    let mut same = stream.alloc_zeroed::<u32>(items)?;
    map(stream, inputs[0].view(), same.view_mut(), expression("x & 0u"), &[])?;
    let mut counts = stream.alloc::<u64>(256)?;
    bench.row(&format!("histogram.256.u32.skewed.{size}"), items, items * 4, |_| {
        histogram_digit(stream, same.view(), 0, counts.view_mut())
    })?;
    assert_eq!(stream.download(counts.view())?[0], items);
    Ok(())
}

fn runs(bench: &Bench, full: u64) -> Result<()> {
    if !["run_length", "unique", "segmented"]
        .iter()
        .any(|name| bench.wants(name))
    {
        return Ok(());
    }
    let (stream, items, size) = (&bench.stream, bench.items(full), size_text(full));
    let sets = bench.sets(items * 8);
    // Runs of 8 on average.
    let sorted = buffers(sets, |s| {
        let (mut starts, mut sorted) = (bench.random_u32(items, s as u64)?, stream.alloc::<u32>(items)?);
        let random = bench.random_u32(items, s as u64)?;
        map(
            stream,
            random.view(),
            starts.view_mut(),
            expression("(u32)((x & 7) == 0)"),
            &[],
        )?;
        inclusive_scan::<u32, u32>(stream, starts.view(), sorted.view_mut(), Reduction::Sum)?;
        Ok(sorted)
    })?;
    let values = buffers(sets, |s| bench.random_u32(items, s as u64))?;
    let mut outputs = buffers(sets, |_| stream.alloc(items))?;
    let (mut offsets, mut count) = (stream.alloc::<u32>(items + 1)?, stream.alloc::<u64>(1)?);
    bench.row(&format!("unique.u32.{size}"), items, items * 9 / 2, |run| {
        unique(
            stream,
            sorted[run % sets].view(),
            outputs[run % sets].view_mut(),
            count.view_mut(),
        )
    })?;
    bench.row(&format!("run_length.u32.{size}"), items, items * 5, |run| {
        let (input, output) = (sorted[run % sets].view(), outputs[run % sets].view_mut());
        run_length_encode(stream, input, output, offsets.view_mut(), count.view_mut())
    })?;
    run_length_encode(
        stream,
        sorted[0].view(),
        outputs[0].view_mut(),
        offsets.view_mut(),
        count.view_mut(),
    )?;
    let segments = stream.download(count.view())?[0];
    let ends = offsets.slice(..=segments)?;
    let mut sums = stream.alloc::<u64>(segments)?;
    bench.row(
        &format!("segmented.u32.u64.{size}"),
        items,
        items * 4 + segments * 12,
        |run| {
            segmented_reduce::<u32, u64, u32>(stream, values[run % sets].view(), ends, sums.view_mut(), Reduction::Sum)
        },
    )?;
    let one = stream.upload(&[0u32, items as u32])?;
    let mut one_sum = stream.alloc::<u64>(1)?;
    bench.row(&format!("segmented.u32.u64.one.{size}"), items, items * 4, |run| {
        let output = one_sum.view_mut();
        segmented_reduce::<u32, u64, u32>(stream, values[run % sets].view(), one.view(), output, Reduction::Sum)
    })?;
    let (host, host_ends) = (stream.download(values[0].view())?, stream.download(ends)?);
    let mut twin = vec![0u64; segments as usize];
    bench.cpu_row(
        &format!("cpu.segmented.u32.u64.{size}"),
        items,
        items * 4 + segments * 12,
        || {
            tenon_cpu::segmented::segmented_reduce(&host, &host_ends, &mut twin, Reduction::Sum);
        },
    );
    segmented_reduce::<u32, u64, u32>(stream, values[0].view(), ends, sums.view_mut(), Reduction::Sum)?;
    tenon_cpu::segmented::segmented_reduce(&host, &host_ends, &mut twin, Reduction::Sum);
    assert!(stream.download(sums.view())? == twin, "segmented reduce");
    Ok(())
}

fn searches(bench: &Bench, full: u64) -> Result<()> {
    if !bench.wants("search") {
        return Ok(());
    }
    let (stream, items, size) = (&bench.stream, bench.items(full), size_text(full));
    // Sorted by construction, 32 apart on average.
    let mut numbers = stream.alloc::<u64>(items)?;
    tenon_gpu::primitives::fill::iota(stream, numbers.view_mut(), 0u64)?;
    let mut sorted = stream.alloc::<u64>(items)?;
    map(
        stream,
        numbers.view(),
        sorted.view_mut(),
        expression("x * 32 + (x * 0x9e3779b97f4a7c15ull >> 60)"),
        &[],
    )?;
    let random = bench.random_u64(items, 5)?;
    let mut probes = stream.alloc::<u64>(items)?;
    map(
        stream,
        random.view(),
        probes.view_mut(),
        expression("x % literal.template get<u64>(0)"),
        &[items * 32],
    )?;
    let mut output = stream.alloc::<u32>(items)?;
    bench.row(&format!("search.u64.random.{size}"), items, items * 20, |_| {
        lower_bound(stream, sorted.view(), probes.view(), output.view_mut())
    })?;
    let found = stream.download(output.view())?;
    let wanted = |i: usize| {
        let probe = random_at(i as u64, 5) % (items * 32);
        let key = |k: u64| k * 32 + (k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60);
        (probe / 32 + (key(probe / 32) < probe) as u64) as u32
    };
    assert!((0..found.len()).step_by(97).all(|i| found[i] == wanted(i)), "search");
    bench.row(&format!("search.u64.sorted.{size}"), items, items * 20, |_| {
        lower_bound(stream, sorted.view(), sorted.view(), output.view_mut())
    })?;
    if bench.wants("cpu.search") && full <= 16 << 20 {
        let (host, host_probes) = (stream.download(sorted.view())?, stream.download(probes.view())?);
        let mut twin = vec![0u32; items as usize];
        bench.cpu_row(&format!("cpu.search.u64.random.{size}"), items, items * 20, || {
            tenon_cpu::search::lower_bound(&host, &host_probes, &mut twin);
        });
        assert!(twin == found, "CPU search");
    }
    Ok(())
}
