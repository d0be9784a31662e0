//! Scan and reduce.

use rayon::prelude::*;
use tenon_gpu::Result;
use tenon_gpu::number::Reduction;
use tenon_gpu::primitives::{reduce, scan};

use tenon_laboratory::{Bench, random_at, size_text};

pub fn run(bench: &Bench) -> Result<()> {
    for full in [16 << 20, 128 << 20] {
        let size = size_text(full);
        let names = [
            "scan.exclusive.u32",
            "scan.inclusive.u32",
            "scan.exclusive.u32.u64",
            "reduce.u32",
        ]
        .map(|name| format!("{name}.{size}"));
        if !names.iter().any(|name| bench.wants(name)) {
            continue;
        }
        let (stream, items) = (&bench.stream, bench.items(full));
        let sets = bench.sets(items * 8);
        let inputs = (0..sets)
            .map(|s| bench.random_u32(items, s as u64))
            .collect::<Result<Vec<_>>>()?;
        let host: Vec<u32> = (0..items).into_par_iter().map(|i| random_at(i, 0) as u32).collect();
        let input = |run: usize| inputs[run % sets].view();
        {
            let mut outputs = (0..sets)
                .map(|_| stream.alloc::<u32>(items))
                .collect::<Result<Vec<_>>>()?;
            bench.row(&names[0], items, items * 8, |run| {
                scan::exclusive_scan(stream, input(run), outputs[run % sets].view_mut(), Reduction::Sum)
            })?;
            scan::exclusive_scan(stream, input(0), outputs[0].view_mut(), Reduction::Sum)?;
            let mut expected = vec![0u32; host.len()];
            tenon_cpu::scan::exclusive_scan(&host, &mut expected, Reduction::Sum);
            assert!(stream.download(outputs[0].view())? == expected, "{}", names[0]);
            bench.row(&names[1], items, items * 8, |run| {
                scan::inclusive_scan(stream, input(run), outputs[run % sets].view_mut(), Reduction::Sum)
            })?;
        }
        let mut wide = stream.alloc::<u64>(items)?;
        bench.row(&names[2], items, items * 12, |run| {
            scan::exclusive_scan(stream, input(run), wide.view_mut(), Reduction::Sum)
        })?;
        let mut total = stream.alloc::<u64>(1)?;
        bench.row(&names[3], items, items * 4, |run| {
            reduce::reduce_into(stream, input(run), total.view_mut(), Reduction::Sum)
        })?;
        let sum: u64 = reduce::reduce(stream, input(0), Reduction::Sum)?;
        assert_eq!(sum, host.par_iter().map(|&x| x as u64).sum::<u64>(), "{}", names[3]);
    }
    Ok(())
}
