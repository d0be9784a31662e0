//! Shapes of the partitioning and of the join of partitions, side by side.

use tenon_gpu::Result;
use tenon_gpu::bench::Bench;
use tenon_gpu::join::hash::{HashOptions, JoinShape, PartitionShape, join_materialised, partition};

use crate::materialised::check;
use crate::report::Report;
use crate::workload::{Inputs, Word, Workload};

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    for size in [16 << 20, 128 << 20] {
        widths::<u32>(bench, report, size)?;
        widths::<u64>(bench, report, size)?;
    }
    Ok(())
}

const fn pass(bits: u32, threads: u32, items: u32, blocks: u32) -> PartitionShape {
    PartitionShape {
        bits,
        threads,
        items,
        blocks,
    }
}

fn passes_name(passes: &[PartitionShape]) -> String {
    let name = |pass: &PartitionShape| format!("{}b{}x{}x{}", pass.bits, pass.threads, pass.items, pass.blocks);
    passes.iter().map(name).collect::<Vec<_>>().join("+")
}

fn widths<K: Word>(bench: &Bench, report: &mut Report, size: u64) -> Result<()> {
    let name = format!("tune.{}.{}", K::C_NAME, Workload::new(size, size).name());
    if !bench.wants(&name) {
        return Ok(());
    }
    let stream = &bench.stream;
    let inputs = Inputs::<K>::new(bench, &Workload::new(size, size), 1)?;
    let host = inputs.download(stream)?;
    let (build, probe) = inputs.columns();
    let width = size_of::<K>() as u64;

    for passes in partitions(width, size, bench.small) {
        let row = format!("{name}.split.{}", passes_name(&passes));
        let options = HashOptions {
            passes: Some(passes),
            ..HashOptions::default()
        };
        let ms = bench.measure(|_| partition(stream, probe.0, probe.1, 0, &options).map(drop))?;
        let rows = probe.0.len();
        report.row(&row, rows, rows * 4 * width, ms)?;
    }
    for (passes, join) in joins(width, size, bench.small) {
        let row = format!(
            "{name}.join.{}.{}x{}x{}c{}",
            passes_name(&passes),
            join.threads,
            join.items,
            join.blocks,
            join.capacity
        );
        let options = HashOptions {
            passes: Some(passes),
            join: Some(join),
            ..HashOptions::default()
        };
        check(bench, &row, &inputs, &host, &options)?;
        let ms = bench.measure(|_| join_materialised(stream, build, probe, Some(host.pairs), &options).map(drop))?;
        report.row(&row, inputs.tuples(), inputs.bytes(host.pairs), ms)?;
    }
    Ok(())
}

/// Shapes of the passes. Small runs take few.
fn partitions(width: u64, size: u64, small: bool) -> Vec<Vec<PartitionShape>> {
    if small {
        return vec![vec![pass(6, 256, 4, 1)], vec![pass(4, 128, 4, 1), pass(3, 64, 4, 1)]];
    }
    let mut shapes = Vec::new();
    let half = |items: u32| if width == 8 { items / 2 } else { items };
    let bits: &[(u32, u32)] = if size > 16 << 20 {
        &[(8, 7), (7, 8), (7, 7), (9, 6), (6, 9), (10, 5)]
    } else {
        &[(6, 6), (7, 5), (5, 7), (8, 4), (4, 8), (6, 5), (5, 6)]
    };
    for &(first, second) in bits {
        for (threads, items, blocks) in [(1024, 16, 1), (512, 16, 2), (1024, 8, 2), (512, 12, 3), (256, 16, 4)] {
            let shape = |bits| pass(bits, threads, half(items), blocks);
            shapes.push(vec![shape(first), shape(second)]);
        }
    }
    shapes
}

/// Passes and the join after them.
fn joins(width: u64, size: u64, small: bool) -> Vec<(Vec<PartitionShape>, JoinShape)> {
    let join = |threads, items, blocks, capacity| JoinShape {
        threads,
        items,
        blocks,
        capacity,
        tiles: 16,
    };
    if small {
        let two = vec![pass(3, 128, 4, 1), pass(4, 64, 4, 1)];
        return vec![
            (vec![pass(5, 64, 4, 1)], join(64, 2, 1, 100)),
            (two, join(64, 2, 1, 100)),
        ];
    }
    let items = if width == 8 { 8 } else { 16 };
    let two = |first, second| vec![pass(first, 1024, items, 1), pass(second, 1024, items, 1)];
    let full = if size <= 16 << 20 { 12 } else { 15 };
    let split = |bits: u32| two(bits.div_ceil(2), bits / 2);
    let mut shapes = vec![
        (split(full), join(512, 8, 2, 4400)),
        (split(full), join(512, 4, 2, 4400)),
        (split(full), join(1024, 4, 2, 4400)),
        (split(full), join(1024, 2, 2, 4400)),
        (split(full - 1), join(1024, 8, 1, 8600)),
        (split(full - 1), join(1024, 4, 1, 8600)),
    ];
    if size <= 16 << 20 {
        shapes.push((vec![pass(11, 1024, items, 1)], join(1024, 8, 1, 8600)));
        shapes.push((vec![pass(11, 1024, items, 1)], join(1024, 4, 1, 8600)));
        shapes.push((split(14), join(256, 4, 8, 1200)));
    }
    for (threads, items, blocks) in [(512, 4, 3), (512, 4, 4), (256, 8, 5), (256, 4, 5)] {
        shapes.push((split(full + 1), join(threads, items, blocks, 2300)));
    }
    // Tuples, heads and lists within a multiprocessor's shared memory.
    shapes.retain(|(_, join)| join.capacity as u64 * (2 * width + 2) + (4 << join.slots_log2()) < 231_000);
    shapes
}
