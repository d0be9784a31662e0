//! Rows with 1 to 16 payload columns a side (Lutz 2022, figures 21 and 22), brought early or late. Rows are named
//! `sweep.payload_WORKLOAD.WAY.COLUMNS`.

use rayon::prelude::*;
use tenon_gpu::Result;
use tenon_gpu::join::Keys;
use tenon_gpu::join::hash::{Column, HashOptions, Materialise, WideColumn, WideSide, join_materialised, join_wide};
use tenon_gpu::memory::DeviceBuffer;
use tenon_laboratory::Bench;

use crate::expression;
use crate::report::Report;
use crate::sweeps::{Limits, steps};
use crate::workload::{Host, Inputs, Spread, Workload};

const WAYS: [(&str, Option<Materialise>); 3] = [
    ("early", Some(Materialise::Early)),
    ("late", Some(Materialise::Late)),
    ("chosen", None),
];

pub fn run(bench: &Bench, report: &mut Report, limits: Limits) -> Result<()> {
    let size = limits.rows;
    let usual = Workload::new(size, size);
    let (sparse, many) = (
        Workload {
            spread: Spread::Sparse(10),
            ..usual
        },
        // As many pairs as build rows, eight for each probe row.
        Workload {
            probe: size / 8,
            duplicates: 8,
            ..usual
        },
    );
    for (name, workload) in [("payload", usual), ("payload_1in10", sparse), ("payload_dup8", many)] {
        sweep(bench, report, limits, name, &workload)?;
    }
    Ok(())
}

fn sweep(bench: &Bench, report: &mut Report, limits: Limits, sweep: &str, workload: &Workload) -> Result<()> {
    let wanted = |columns: usize| {
        let row = |way: &str| bench.wants(&format!("sweep.{sweep}.{way}.{columns}"));
        row("carried") || WAYS.iter().any(|(way, _)| row(way))
    };
    let counts: Vec<usize> = steps(bench, &[1, 2, 4, 8, 16])
        .iter()
        .copied()
        .filter(|&columns| wanted(columns))
        .collect();
    let Some(&most) = counts.last() else {
        return Ok(());
    };
    if limits.is_over() {
        println!("sweep.{sweep}.*: no time left");
        return Ok(());
    }
    let stream = &bench.stream;
    let inputs = Inputs::<u32>::new(bench, workload, 1)?;
    let host = inputs.download(stream)?;
    // Column `j` of row `i` is `i + j`.
    let columns = |rows: u64| {
        let column = |j: usize| bench.numbers::<u32>(rows, expression("x + literal.template get<u64>(0)"), &[j as u64]);
        (0..most).map(column).collect::<Result<Vec<_>>>()
    };
    let (build, probe) = (columns(inputs.build.0.len())?, columns(inputs.probe.0.len())?);
    fn views(columns: &[DeviceBuffer<u32>]) -> Vec<Column<'_>> {
        columns.iter().map(|column| Keys::U32(column.view())).collect()
    }
    let (build_views, probe_views) = (views(&build), views(&probe));
    let options = HashOptions::default();
    let pairs = Some(host.pairs);
    for count in counts {
        let bytes = (inputs.tuples() * (count as u64 + 1) + host.pairs * (2 * count as u64 + 1)) * 4;
        let (build, probe) = (&build_views[..count], &probe_views[..count]);
        let sides = (
            WideSide {
                keys: Keys::U32(inputs.build.0.view()),
                columns: build,
            },
            WideSide {
                keys: Keys::U32(inputs.probe.0.view()),
                columns: probe,
            },
        );
        for (way, materialise) in WAYS {
            let name = format!("sweep.{sweep}.{way}.{count}");
            if !bench.wants(&name) || limits.is_over() {
                continue;
            }
            let run = || join_wide(stream, sides.0, sides.1, pairs, materialise, &options);
            let found = run()?;
            check(bench, &name, &host, &found.build, &found.probe)?;
            drop(found);
            report.row(&name, inputs.tuples(), bytes, bench.measure(|_| run().map(drop))?)?;
        }
        let name = format!("sweep.{sweep}.carried.{count}");
        if count == 1 && bench.wants(&name) {
            let (build, probe) = ((sides.0.keys, build[0]), (sides.1.keys, probe[0]));
            let ms = bench.measure(|_| join_materialised(stream, build, probe, pairs, &options).map(drop))?;
            report.row(&name, inputs.tuples(), bytes, ms)?;
        }
    }
    Ok(())
}

/// Every column against the first, which is the row's number and is checked against the keys.
fn check(bench: &Bench, name: &str, host: &Host<u32>, build: &[WideColumn], probe: &[WideColumn]) -> Result<()> {
    let mut rows = Vec::new();
    for columns in [build, probe] {
        let mut first: Vec<u32> = Vec::new();
        for (j, column) in columns.iter().enumerate() {
            let WideColumn::U32(column) = column else {
                panic!("{name}: a column of 64 bits");
            };
            let column = bench.stream.download(column.view())?;
            if j == 0 {
                first = column;
                continue;
            }
            let is_right = |(&value, &row): (&u32, &u32)| value == row.wrapping_add(j as u32);
            assert!(column.par_iter().zip(&first).all(is_right), "{name}: column {j}");
        }
        rows.push(first);
    }
    host.check(name, None, &rows[0], &rows[1]);
    Ok(())
}
