//! Joins of one key and one payload a side, written out, and their aggregates.

use tenon_gpu::Result;
use tenon_gpu::join::from_host::{FromHostOptions, materialised_from_host};
use tenon_gpu::join::hash::{HashOptions, join_aggregated, join_materialised};
use tenon_gpu::memory::DeviceView;
use tenon_laboratory::Bench;

use crate::from_host::{pinned_copy, print_bus, timed};
use crate::report::Report;
use crate::workload::{Inputs, Spread, Word, Workload};

pub fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    for size in [16 << 20, 128 << 20] {
        let workload = Workload::new(size, size);
        row::<u32>(bench, report, &workload)?;
        row::<u64>(bench, report, &workload)?;
    }
    let size = 16 << 20;
    let usual = Workload::new(size, size);
    for spread in [
        Spread::Zipf(1.25),
        Spread::OneKey,
        Spread::Sparse(10),
        Spread::Sparse(100),
    ] {
        row::<u32>(bench, report, &Workload { spread, ..usual })?;
    }
    for duplicates in [2, 8] {
        row::<u32>(bench, report, &Workload { duplicates, ..usual })?;
    }
    let one_key_each = Workload {
        duplicates: size,
        ..usual
    };
    row::<u32>(bench, report, &one_key_each)?;
    for ratio in [4, 16, 32] {
        row::<u32>(bench, report, &Workload::new(size / ratio, size))?;
    }
    Ok(())
}

fn row<K: Word>(bench: &Bench, report: &mut Report, workload: &Workload) -> Result<()> {
    let (name, sum) = (
        format!("hash.pairs.{}.{}", K::C_NAME, workload.name()),
        format!("hash.sum.{}.{}", K::C_NAME, workload.name()),
    );
    if ![&name, &sum, &format!("{name}.copied")]
        .iter()
        .any(|name| bench.wants(name))
    {
        return Ok(());
    }
    let stream = &bench.stream;
    let inputs = Inputs::<K>::new(bench, workload, 1)?;
    let (build, probe) = inputs.columns();
    let host = inputs.download(stream)?;
    let options = HashOptions::default();
    // One key in all rows of both sides is for the aggregate alone.
    if bench.wants(&name) && host.pairs < 1 << 30 {
        check(bench, &name, &inputs, &host, &options)?;
        let ms = bench.measure(|_| join_materialised(stream, build, probe, Some(host.pairs), &options).map(drop))?;
        report.row(&name, inputs.tuples(), inputs.bytes(host.pairs), ms)?;
    }
    if bench.wants(&sum) {
        let found = join_aggregated(stream, build, probe, &options)?;
        assert_eq!(found, (host.pairs, host.products), "{sum}");
        let ms = bench.measure(|_| join_aggregated(stream, build, probe, &options).map(drop))?;
        report.row(&sum, inputs.tuples(), inputs.bytes(0), ms)?;
    }
    copied(bench, report, &inputs, &host)
}

/// The same with inputs copied from pinned host memory, and the result back to it.
fn copied<K: Word>(
    bench: &Bench,
    report: &mut Report,
    inputs: &Inputs<K>,
    host: &crate::workload::Host<K>,
) -> Result<()> {
    let name = format!("hash.pairs.{}.{}.copied", K::C_NAME, inputs.name);
    if !inputs.is_usual() || !bench.wants(&name) {
        return Ok(());
    }
    let mut columns = Vec::new();
    for column in [&inputs.build.0, &inputs.build.1, &inputs.probe.0, &inputs.probe.1] {
        columns.push(pinned_copy(bench, column)?);
    }
    let column = |i: usize| K::host_column(&columns[i]);
    let join = || {
        let mut found = Vec::new();
        materialised_from_host(
            &bench.stream,
            (column(0), column(1)),
            (column(2), column(3)),
            &FromHostOptions::default(),
            &HashOptions::default(),
            &mut |rows| {
                found.push(rows);
                Ok(())
            },
        )?;
        Result::Ok(found)
    };
    let (mut keys, mut build, mut probe) = (Vec::new(), Vec::new(), Vec::new());
    for rows in join()? {
        keys.extend(K::from_bytes(&rows.keys));
        build.extend(K::from_bytes(&rows.build_values));
        probe.extend(K::from_bytes(&rows.probe_values));
    }
    host.check(&name, Some(&keys), &build, &probe);
    let ms = timed(bench, || join().map(drop))?;
    let width = size_of::<K>() as u64;
    print_bus(&name, (inputs.tuples() * 2 * width, host.pairs * 3 * width), ms);
    report.row(&name, inputs.tuples(), inputs.bytes(host.pairs), ms)
}

/// Joins once and compares every row.
pub fn check<K: Word>(
    bench: &Bench,
    name: &str,
    inputs: &Inputs<K>,
    host: &crate::workload::Host<K>,
    options: &HashOptions,
) -> Result<()> {
    let stream = &bench.stream;
    let (build, probe) = inputs.columns();
    let found = join_materialised(stream, build, probe, Some(host.pairs), options)?;
    let of = |view: DeviceView<'_, u8>| stream.download(view.cast::<K>()?);
    host.check(
        name,
        Some(&of(found.keys.view())?),
        &of(found.build_values.view())?,
        &of(found.probe_values.view())?,
    );
    Ok(())
}
