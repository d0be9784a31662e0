//! Table 3 of He 2008: primitives over 16 M tuples of 8 bytes (key and row number), GPU, CPU twin, speed-up.

use rayon::prelude::*;
use tenon_gpu::Result;
use tenon_gpu::number::Reduction;
use tenon_gpu::primitives::gather::{gather, scatter};
use tenon_gpu::primitives::map::map;
use tenon_gpu::primitives::scan::exclusive_scan;
use tenon_gpu::primitives::sort::{SortOptions, sort_keys};
use tenon_gpu::primitives::split::{Partition, SplitOptions, split_keys};

use tenon_laboratory::{Bench, permuted, random_at, size_text};

use crate::expression;

const FULL: u64 = 16 << 20;

pub fn run(bench: &Bench) -> Result<()> {
    if !bench.wants("he.") {
        return Ok(());
    }
    let (stream, items) = (&bench.stream, bench.items(FULL));
    let sets = bench.sets(items * 16);
    let tuples = (0..sets)
        .map(|s| bench.random_u64(items, s as u64))
        .collect::<Result<Vec<_>>>()?;
    let counts = (0..sets)
        .map(|s| bench.random_u32(items, s as u64))
        .collect::<Result<Vec<_>>>()?;
    let places = (0..sets)
        .map(|s| bench.permutation(items, s as u64))
        .collect::<Result<Vec<_>>>()?;
    let mut output = stream.alloc::<u64>(items)?;
    let mut sums = stream.alloc::<u32>(items)?;

    let host: Vec<u64> = (0..items).into_par_iter().map(|i| random_at(i, 0)).collect();
    let host_counts: Vec<u32> = host.par_iter().map(|&x| x as u32).collect();
    let host_places: Vec<u32> = (0..items)
        .into_par_iter()
        .map(|i| permuted(i, items, 0) as u32)
        .collect();
    let mut host_output = vec![0u64; items as usize];
    let mut host_sums = vec![0u32; items as usize];

    let mut rows: Vec<(&str, Option<f64>, Option<f64>)> = Vec::new();
    let name = |what: &str, side: &str| format!("he.{what}.{side}.{}", size_text(FULL));

    let mixed = expression("x ^ x >> 7");
    let gpu = bench.row(&name("map", "gpu"), items, items * 16, |run| {
        map(stream, tuples[run % sets].view(), output.view_mut(), mixed, &[])
    })?;
    let cpu = bench.cpu_row(&name("map", "cpu"), items, items * 16, || {
        tenon_cpu::map::map(&host, &mut host_output, |x| x ^ x >> 7)
    });
    map(stream, tuples[0].view(), output.view_mut(), mixed, &[])?;
    assert!(stream.download(output.view())? == host_output, "map");
    rows.push(("map", gpu, cpu));

    let gpu = bench.row(&name("scatter", "gpu"), items, items * 20, |run| {
        scatter(
            stream,
            tuples[run % sets].view(),
            places[run % sets].view(),
            output.view_mut(),
        )
    })?;
    let cpu = bench.cpu_row(&name("scatter", "cpu"), items, items * 20, || {
        tenon_cpu::gather::scatter(&host, &host_places, &mut host_output)
    });
    scatter(stream, tuples[0].view(), places[0].view(), output.view_mut())?;
    assert!(stream.download(output.view())? == host_output, "scatter");
    rows.push(("scatter", gpu, cpu));

    let gpu = bench.row(&name("gather", "gpu"), items, items * 20, |run| {
        gather(
            stream,
            tuples[run % sets].view(),
            places[run % sets].view(),
            output.view_mut(),
        )
    })?;
    let cpu = bench.cpu_row(&name("gather", "cpu"), items, items * 20, || {
        tenon_cpu::gather::gather(&host, &host_places, &mut host_output, 0)
    });
    gather(stream, tuples[0].view(), places[0].view(), output.view_mut())?;
    assert!(stream.download(output.view())? == host_output, "gather");
    rows.push(("gather", gpu, cpu));

    let gpu = bench.row(&name("scan", "gpu"), items, items * 8, |run| {
        exclusive_scan(stream, counts[run % sets].view(), sums.view_mut(), Reduction::Sum)
    })?;
    let cpu = bench.cpu_row(&name("scan", "cpu"), items, items * 8, || {
        tenon_cpu::scan::exclusive_scan(&host_counts, &mut host_sums, Reduction::Sum)
    });
    exclusive_scan(stream, counts[0].view(), sums.view_mut(), Reduction::Sum)?;
    assert!(stream.download(sums.view())? == host_sums, "scan");
    rows.push(("scan", gpu, cpu));

    let partition = Partition::Bits(0..6);
    let gpu = bench.row(&name("split", "gpu"), items, items * 16, |run| {
        let (tuples, output) = (tuples[run % sets].view(), output.view_mut());
        split_keys(stream, &partition, tuples, output, None, &SplitOptions::default())
    })?;
    let cpu = bench.cpu_row(&name("split", "cpu"), items, items * 16, || {
        tenon_cpu::split::split(&host, &mut host_output, 64, |x| (x & 63) as usize);
    });
    let (source, target) = (tuples[0].view(), output.view_mut());
    split_keys(stream, &partition, source, target, None, &SplitOptions::default())?;
    assert!(stream.download(output.view())? == host_output, "split");
    rows.push(("split 64", gpu, cpu));

    let options = SortOptions::default();
    let gpu = bench.row(&name("sort", "gpu"), items, items * 16, |run| {
        sort_keys(stream, tuples[run % sets].view(), output.view_mut(), &options)
    })?;
    let cpu = bench.cpu_row(&name("sort", "cpu"), items, items * 16, || {
        tenon_cpu::sort::sort_keys(&host, &mut host_output, &options).expect("equal lengths");
    });
    sort_keys(stream, tuples[0].view(), output.view_mut(), &options)?;
    assert!(stream.download(output.view())? == host_output, "sort");
    rows.push(("sort", gpu, cpu));

    println!(
        "He 2008, Table 3: {items} tuples of 8 bytes, {} cores",
        rayon::current_num_threads()
    );
    println!("{:<10} {:>9} {:>9} {:>9}", "primitive", "GPU ms", "CPU ms", "speed-up");
    for (what, gpu, cpu) in rows {
        if let (Some(gpu), Some(cpu)) = (gpu, cpu) {
            println!("{what:<10} {gpu:>9.3} {cpu:>9.3} {:>9.1}", cpu / gpu);
        }
    }
    Ok(())
}
