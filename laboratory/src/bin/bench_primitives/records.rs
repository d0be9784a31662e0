//! Gather and scatter: elements in order and at random, and records of 32 to 256 bytes (Patidar 2009, section 4.1).

use rayon::prelude::*;
use tenon_gpu::Result;
use tenon_gpu::memory::DeviceViewMut;
use tenon_gpu::primitives::fill::iota;
use tenon_gpu::primitives::gather::{gather, scatter};

use tenon_laboratory::{Bench, permuted, random_at, size_text};

pub fn run(bench: &Bench) -> Result<()> {
    for full in [16 << 20, 128 << 20] {
        elements(bench, full)?;
    }
    wide::<32>(bench)?;
    wide::<64>(bench)?;
    wide::<128>(bench)?;
    wide::<256>(bench)
}

fn elements(bench: &Bench, full: u64) -> Result<()> {
    let size = size_text(full);
    let names = ["gather.u64.random", "scatter.u64.random", "gather.u64.in_order"].map(|name| format!("{name}.{size}"));
    if !names.iter().any(|name| bench.wants(name)) {
        return Ok(());
    }
    let (stream, items) = (&bench.stream, bench.items(full));
    let bytes = items * 20;
    let sets = bench.sets(bytes);
    let sources = (0..sets)
        .map(|s| bench.random_u64(items, s as u64))
        .collect::<Result<Vec<_>>>()?;
    let indexes = (0..sets)
        .map(|s| bench.random_below(items, items, s as u64))
        .collect::<Result<Vec<_>>>()?;
    let mut output = stream.alloc::<u64>(items)?;
    bench.row(&names[0], items, bytes, |run| {
        gather(
            stream,
            sources[run % sets].view(),
            indexes[run % sets].view(),
            output.view_mut(),
        )
    })?;
    gather(stream, sources[0].view(), indexes[0].view(), output.view_mut())?;
    let gathered = stream.download(output.view())?;
    let right = |(i, &v): (usize, &u64)| v == random_at(random_at(i as u64, 0) % items, 0);
    assert!(gathered.par_iter().enumerate().all(right), "{}", names[0]);

    let places = (0..sets)
        .map(|s| bench.permutation(items, s as u64))
        .collect::<Result<Vec<_>>>()?;
    bench.row(&names[1], items, bytes, |run| {
        scatter(
            stream,
            sources[run % sets].view(),
            places[run % sets].view(),
            output.view_mut(),
        )
    })?;
    scatter(stream, sources[0].view(), places[0].view(), output.view_mut())?;
    let scattered = stream.download(output.view())?;
    let right = |i: u64| scattered[permuted(i, items, 0) as usize] == random_at(i, 0);
    assert!((0..items).into_par_iter().all(right), "{}", names[1]);

    let mut order = stream.alloc::<u32>(items)?;
    iota(stream, order.view_mut(), 0)?;
    bench.row(&names[2], items, bytes, |run| {
        gather(stream, sources[run % sets].view(), order.view(), output.view_mut())
    })?;
    Ok(())
}

fn wide<const BYTES: usize>(bench: &Bench) -> Result<()> {
    let full = 8u64 << 20;
    let names = ["gather", "scatter"].map(|what| format!("{what}.{BYTES}B.random.{}", size_text(full)));
    if !names.iter().any(|name| bench.wants(name)) {
        return Ok(());
    }
    let (stream, items) = (&bench.stream, bench.items(full).next_power_of_two());
    let words = BYTES as u64 / 8;
    let source = bench.random_u64(items * words, 0)?;
    let places = bench.permutation(items, 1)?;
    let mut output = stream.alloc::<u64>(items * words)?;
    let bytes = items * (2 * BYTES as u64 + 4);
    bench.row(&names[0], items, bytes, |_| {
        let target: DeviceViewMut<'_, [u8; BYTES]> = output.view_mut().cast()?;
        gather(stream, source.view().cast::<[u8; BYTES]>()?, places.view(), target)
    })?;
    let target: DeviceViewMut<'_, [u8; BYTES]> = output.view_mut().cast()?;
    gather(stream, source.view().cast::<[u8; BYTES]>()?, places.view(), target)?;
    let gathered = stream.download(output.view())?;
    let right = |i: u64| {
        let from = permuted(i, items, 1) * words;
        (0..words).all(|w| gathered[(i * words + w) as usize] == random_at(from + w, 0))
    };
    assert!((0..items).into_par_iter().all(right), "{}", names[0]);
    bench.row(&names[1], items, bytes, |_| {
        let target: DeviceViewMut<'_, [u8; BYTES]> = output.view_mut().cast()?;
        scatter(stream, source.view().cast::<[u8; BYTES]>()?, places.view(), target)
    })?;
    Ok(())
}
