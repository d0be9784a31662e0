//! Shapes of the partitioning and of the join of partitions beside those in use.

use tenon_gpu::Result;
use tenon_gpu::join::hash::{HashOptions, JoinShape, PartitionShape, join_materialised, partition};
use tenon_laboratory::Bench;

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

/// Shapes of the passes: those in use, and the bits cut otherwise.
fn partitions(width: u64, size: u64, small: bool) -> Vec<Vec<PartitionShape>> {
    if small {
        return vec![vec![pass(6, 256, 4, 1)], vec![pass(4, 128, 4, 1), pass(3, 64, 4, 1)]];
    }
    let bits: &[(u32, u32)] = if size > 16 << 20 {
        &[(8, 7), (7, 8), (6, 9)]
    } else {
        &[(6, 6), (7, 5), (5, 7)]
    };
    bits.iter().map(|&(first, second)| two(width, first, second)).collect()
}

fn two(width: u64, first: u32, second: u32) -> Vec<PartitionShape> {
    let items = if width == 8 { 8 } else { 16 };
    vec![pass(first, 1024, items, 1), pass(second, 1024, items, 1)]
}

/// Passes and the join after them: that in use, and one with more threads.
fn joins(width: u64, size: u64, small: bool) -> Vec<(Vec<PartitionShape>, JoinShape)> {
    let join = |threads, items| JoinShape {
        threads,
        items,
        ..JoinShape::USUAL
    };
    if small {
        let shape = JoinShape {
            blocks: 1,
            capacity: 100,
            ..join(64, 2)
        };
        let two = vec![pass(3, 128, 4, 1), pass(4, 64, 4, 1)];
        return vec![(vec![pass(5, 64, 4, 1)], shape), (two, shape)];
    }
    let cuts: &[(u32, u32)] = if size > 16 << 20 { &[(8, 7), (6, 9)] } else { &[(6, 6)] };
    let shapes = [join(512, 8), join(1024, 4)];
    cuts.iter()
        .flat_map(|&(first, second)| shapes.map(|shape| (two(width, first, second), shape)))
        .collect()
}
