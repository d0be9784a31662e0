//! Radix sort of keys and of pairs.

use rayon::prelude::*;
use tenon_gpu::Result;
use tenon_gpu::memory::{DeviceBuffer, Element};
use tenon_gpu::primitives::fill::{Index, iota};
use tenon_gpu::primitives::radix::SortKey;
use tenon_gpu::primitives::sort::{Payload, SortOptions, sort_keys, sort_pairs};

use tenon_laboratory::{Bench, random_at, size_text};

/// Numbers that the rows sort.
trait Random: SortKey + Ord {
    fn buffer(bench: &Bench, items: u64, salt: u64) -> Result<DeviceBuffer<Self>>;
    fn at(index: u64, salt: u64) -> Self;
}
impl Random for u32 {
    fn buffer(bench: &Bench, items: u64, salt: u64) -> Result<DeviceBuffer<u32>> {
        bench.random_u32(items, salt)
    }
    fn at(index: u64, salt: u64) -> u32 {
        random_at(index, salt) as u32
    }
}
impl Random for u64 {
    fn buffer(bench: &Bench, items: u64, salt: u64) -> Result<DeviceBuffer<u64>> {
        bench.random_u64(items, salt)
    }
    fn at(index: u64, salt: u64) -> u64 {
        random_at(index, salt)
    }
}

pub fn run(bench: &Bench) -> Result<()> {
    for full in [16 << 20, 128 << 20] {
        keys::<u32>(bench, full)?;
        keys::<u64>(bench, full)?;
        pairs::<u32, u32>(bench, full, 0)?;
        pairs::<u64, u32>(bench, full, 0)?;
        pairs::<u64, u64>(bench, full, 0)?;
    }
    Ok(())
}

fn keys<K: Random>(bench: &Bench, full: u64) -> Result<()> {
    let name = format!("sort.keys.{}.{}", K::C_NAME, size_text(full));
    if !bench.wants(&name) {
        return Ok(());
    }
    let (stream, items, options) = (&bench.stream, bench.items(full), SortOptions::default());
    let bytes = items * 2 * size_of::<K>() as u64;
    let sets = bench.sets(bytes);
    let inputs = (0..sets)
        .map(|s| K::buffer(bench, items, s as u64))
        .collect::<Result<Vec<_>>>()?;
    let mut output = stream.alloc::<K>(items)?;
    bench.row(&name, items, bytes, |run| {
        sort_keys(stream, inputs[run % sets].view(), output.view_mut(), &options)
    })?;
    sort_keys(stream, inputs[0].view(), output.view_mut(), &options)?;
    let sorted = stream.download(output.view())?;
    let mut expected: Vec<K> = (0..items).into_par_iter().map(|i| K::at(i, 0)).collect();
    expected.par_sort_unstable();
    assert!(sorted == expected, "{name}");
    Ok(())
}

fn pairs<K: Random, V: Payload + Index>(bench: &Bench, full: u64, zero: V) -> Result<()> {
    let name = format!("sort.pairs.{}.{}.{}", K::C_NAME, V::C_NAME, size_text(full));
    if !bench.wants(&name) {
        return Ok(());
    }
    let (stream, items, options) = (&bench.stream, bench.items(full), SortOptions::default());
    let bytes = items * 2 * (size_of::<K>() + size_of::<V>()) as u64;
    let sets = bench.sets(bytes);
    let inputs = (0..sets)
        .map(|s| K::buffer(bench, items, s as u64))
        .collect::<Result<Vec<_>>>()?;
    let values = row_numbers(bench, items, zero)?;
    let (mut keys_out, mut values_out) = (stream.alloc::<K>(items)?, stream.alloc::<V>(items)?);
    bench.row(&name, items, bytes, |run| {
        let (keys, values) = (inputs[run % sets].view(), values.view());
        sort_pairs(
            stream,
            keys,
            values,
            keys_out.view_mut(),
            values_out.view_mut(),
            &options,
        )
    })?;
    let (inputs, values) = (inputs[0].view(), values.view());
    sort_pairs(
        stream,
        inputs,
        values,
        keys_out.view_mut(),
        values_out.view_mut(),
        &options,
    )?;
    let (keys, places) = (stream.download(keys_out.view())?, stream.download(values_out.view())?);
    // Keys and places ascend together: then they are a sorted, stable permutation if each key is that of its place
    // and no place comes twice.
    let ascending = (1..keys.len())
        .into_par_iter()
        .all(|i| (keys[i - 1], places[i - 1].to_u64()) < (keys[i], places[i].to_u64()));
    let belongs = keys
        .par_iter()
        .zip(&places)
        .all(|(&key, place)| key == K::at(place.to_u64(), 0) && place.to_u64() < items);
    assert!(ascending && belongs && keys.len() as u64 == items, "{name}");
    Ok(())
}

fn row_numbers<V: Element + Index>(bench: &Bench, items: u64, zero: V) -> Result<DeviceBuffer<V>> {
    let mut numbers = bench.stream.alloc::<V>(items)?;
    iota(&bench.stream, numbers.view_mut(), zero)?;
    Ok(numbers)
}
