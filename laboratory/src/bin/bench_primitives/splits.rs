//! Split into partitions by bits of the key, beside CUB's radix sort of as many bits.

use rayon::prelude::*;
use tenon_gpu::Result;
use tenon_gpu::primitives::fill::iota;
use tenon_gpu::primitives::split::{Partition, SplitOptions, split_indices, split_keys, split_pairs, split_places};

use tenon_laboratory::{Bench, random_at, size_text};

pub fn run(bench: &Bench) -> Result<()> {
    for full in [16 << 20, 128 << 20] {
        for bits in [6, 8, 10, 16] {
            split(bench, full, bits)?;
        }
    }
    Ok(())
}

fn split(bench: &Bench, full: u64, bits: u32) -> Result<()> {
    let suffix = format!("{}.{}", 1u32 << bits, size_text(full));
    let pairs_name = format!("split.{}.u32.u32.{}", 1u32 << bits, size_text(full));
    let names = ["keys", "unstable", "gather_index", "scatter_index"].map(|what| format!("split.{what}.{suffix}"));
    if !names.iter().chain([&pairs_name]).any(|name| bench.wants(name)) {
        return Ok(());
    }
    let (stream, items) = (&bench.stream, bench.items(full));
    let partition = Partition::Bits(0..bits);
    let (stable, unstable) = (
        SplitOptions::default(),
        SplitOptions {
            stable: false,
            ..SplitOptions::default()
        },
    );
    let sets = bench.sets(items * 16);
    let keys = (0..sets)
        .map(|s| bench.random_u32(items, s as u64))
        .collect::<Result<Vec<_>>>()?;
    let mut values = stream.alloc::<u32>(items)?;
    iota(stream, values.view_mut(), 0)?;
    let (mut keys_out, mut values_out) = (stream.alloc::<u32>(items)?, stream.alloc::<u32>(items)?);
    let mut offsets = stream.alloc::<u64>((1 << bits) + 1)?;
    let input = |run: usize| keys[run % sets].view();

    bench.row(&pairs_name, items, items * 16, |run| {
        let (keys_out, values_out, offsets) = (keys_out.view_mut(), values_out.view_mut(), offsets.view_mut());
        split_pairs(
            stream,
            &partition,
            input(run),
            values.view(),
            keys_out,
            values_out,
            Some(offsets),
            &stable,
        )
    })?;
    {
        let (keys_out, values_out, offsets) = (keys_out.view_mut(), values_out.view_mut(), offsets.view_mut());
        split_pairs(
            stream,
            &partition,
            input(0),
            values.view(),
            keys_out,
            values_out,
            Some(offsets),
            &stable,
        )?;
    }
    let (split_keys_host, places) = (stream.download(keys_out.view())?, stream.download(values_out.view())?);
    let starts = stream.download(offsets.view())?;
    let mask = (1u64 << bits) - 1;
    let part = |i: usize| split_keys_host[i] as u64 & mask;
    let in_order = |i: usize| (part(i - 1), places[i - 1]) < (part(i), places[i]);
    assert!(
        (1..places.len()).into_par_iter().all(in_order),
        "{pairs_name}: stable order"
    );
    let belongs = |i: usize| split_keys_host[i] == random_at(places[i] as u64, 0) as u32;
    assert!((0..places.len()).into_par_iter().all(belongs), "{pairs_name}: keys");
    let within = |i: usize| (starts[part(i) as usize]..starts[part(i) as usize + 1]).contains(&(i as u64));
    assert!((0..places.len()).into_par_iter().all(within), "{pairs_name}: offsets");

    bench.row(&names[0], items, items * 8, |run| {
        split_keys(
            stream,
            &partition,
            input(run),
            keys_out.view_mut(),
            Some(offsets.view_mut()),
            &stable,
        )
    })?;
    if bits <= 8 {
        bench.row(&names[1], items, items * 16, |run| {
            let (keys_out, values_out, offsets) = (keys_out.view_mut(), values_out.view_mut(), offsets.view_mut());
            split_pairs(
                stream,
                &partition,
                input(run),
                values.view(),
                keys_out,
                values_out,
                Some(offsets),
                &unstable,
            )
        })?;
    }
    bench.row(&names[2], items, items * 8, |run| {
        split_indices(stream, &partition, input(run), values_out.view_mut(), None, &stable)
    })?;
    split_indices(stream, &partition, input(0), values_out.view_mut(), None, &stable)?;
    assert!(stream.download(values_out.view())? == places, "{}", names[2]);
    bench.row(&names[3], items, items * 8, |run| {
        split_places(stream, &partition, input(run), values_out.view_mut(), None, &stable)
    })?;
    split_places(stream, &partition, input(0), values_out.view_mut(), None, &stable)?;
    let inverse = stream.download(values_out.view())?;
    let inverted = |i: usize| inverse[places[i] as usize] == i as u32;
    assert!((0..places.len()).into_par_iter().all(inverted), "{}", names[3]);
    Ok(())
}
