//! Hash joins of key and payload columns against a map of the standard library.

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tenon_gpu::join::Keys;
use tenon_gpu::join::hash::{
    Column, HashOptions, Materialise, WideColumn, WideSide, join_aggregated, join_materialised, join_wide,
};
use tenon_gpu::memory::DeviceBuffer;
use tenon_gpu::{Stream, testing};

use super::operators::{pass, small_join};

/// A column of 4 or 8 bytes on the device.
enum DeviceColumn {
    U32(DeviceBuffer<u32>),
    U64(DeviceBuffer<u64>),
}

impl DeviceColumn {
    fn new(stream: &Stream, numbers: &[u64], wide: bool) -> DeviceColumn {
        if wide {
            return DeviceColumn::U64(stream.upload(numbers).unwrap());
        }
        let narrow: Vec<u32> = numbers.iter().map(|&n| n as u32).collect();
        DeviceColumn::U32(stream.upload(&narrow).unwrap())
    }

    fn column(&self) -> Column<'_> {
        match self {
            DeviceColumn::U32(column) => Keys::U32(column.view()),
            DeviceColumn::U64(column) => Keys::U64(column.view()),
        }
    }
}

fn numbers(stream: &Stream, bytes: &DeviceBuffer<u8>, wide: bool) -> Vec<u64> {
    if wide {
        return stream.download(bytes.view().cast::<u64>().unwrap()).unwrap();
    }
    let narrow = stream.download(bytes.view().cast::<u32>().unwrap()).unwrap();
    narrow.into_iter().map(u64::from).collect()
}

fn check(stream: &Stream, rng: &mut StdRng) {
    let sizes = [0, 1, 33, 127, 128, 129, 1000, 3000];
    let (build_rows, probe_rows) = (*sizes.choose(rng).unwrap(), *sizes.choose(rng).unwrap());
    // Few keys make many pairs: a build side of one key that no partition holds meets few probe rows.
    let distinct = *[1, 50, 5000].choose(rng).unwrap();
    let probe_rows = if distinct == 1 { probe_rows.min(100) } else { probe_rows };
    let [wide_keys, wide_build, wide_probe]: [bool; 3] = rng.random();
    let mut column = |rows: usize, limit: u64, wide: bool| -> Vec<u64> {
        let limit = if wide { limit } else { limit.min(1 << 32) };
        (0..rows).map(|_| rng.random_range(0..limit)).collect()
    };
    let (build, probe) = (
        column(build_rows, distinct, wide_keys),
        column(probe_rows, distinct * 2, wide_keys),
    );
    let (build_values, probe_values) = (
        column(build_rows, u64::MAX, wide_build),
        column(probe_rows, u64::MAX, wide_probe),
    );
    let mut rows_of: HashMap<u64, Vec<u64>> = HashMap::new();
    for (&key, &value) in build.iter().zip(&build_values) {
        rows_of.entry(key).or_default().push(value);
    }
    let mut expected = Vec::new();
    for (&key, &value) in probe.iter().zip(&probe_values) {
        let partners = rows_of.get(&key).into_iter().flatten();
        expected.extend(partners.map(|&partner| (key, partner, value)));
    }
    expected.sort_unstable();
    let products = expected
        .iter()
        .fold(0u64, |sum, row| sum.wrapping_add(row.1.wrapping_mul(row.2)));

    let on_device = [
        (&build, wide_keys),
        (&build_values, wide_build),
        (&probe, wide_keys),
        (&probe_values, wide_probe),
    ]
    .map(|(column, wide)| DeviceColumn::new(stream, column, wide));
    let [build, build_values, probe, probe_values] = on_device.each_ref().map(DeviceColumn::column);
    let passes = [vec![pass(3)], vec![pass(4), pass(3)]].choose(rng).unwrap().clone();
    let options = HashOptions {
        equal_hashes: build_rows < 300 && rng.random_bool(0.2),
        passes: Some(passes),
        join: Some(small_join()),
    };
    let what = format!("{build_rows} x {probe_rows} rows, {distinct} keys, wide {wide_keys} {wide_build} {wide_probe}");
    // A guess that is too small makes the join run again.
    let guess = *[None, Some(0), Some(expected.len() as u64)].choose(rng).unwrap();
    let found = join_materialised(stream, (build, build_values), (probe, probe_values), guess, &options).unwrap();
    assert_eq!(found.rows, expected.len() as u64, "{what}");
    let keys = numbers(stream, &found.keys, wide_keys);
    let build_out = numbers(stream, &found.build_values, wide_build);
    let probe_out = numbers(stream, &found.probe_values, wide_probe);
    let mut rows: Vec<(u64, u64, u64)> = (0..keys.len()).map(|i| (keys[i], build_out[i], probe_out[i])).collect();
    rows.sort_unstable();
    assert!(rows == expected, "{what}");
    let found = join_aggregated(stream, (build, build_values), (probe, probe_values), &options).unwrap();
    assert_eq!(found, (expected.len() as u64, products), "{what}");

    // Each payload twice, by each way.
    let (of_build, of_probe) = ([build_values; 2], [probe_values; 2]);
    let build = WideSide {
        keys: build,
        columns: &of_build,
    };
    let probe = WideSide {
        keys: probe,
        columns: &of_probe,
    };
    for way in [None, Some(Materialise::Early), Some(Materialise::Late)] {
        let found = join_wide(stream, build, probe, guess, way, &options).unwrap();
        assert_eq!(found.rows, expected.len() as u64, "{what}");
        let keys = numbers(stream, &found.keys, wide_keys);
        let columns = |columns: &[WideColumn]| -> Vec<Vec<u64>> {
            let column = |column: &WideColumn| match column {
                WideColumn::U32(column) => stream
                    .download(column.view())
                    .unwrap()
                    .into_iter()
                    .map(u64::from)
                    .collect(),
                WideColumn::U64(column) => stream.download(column.view()).unwrap(),
            };
            columns.iter().map(column).collect()
        };
        let (build_out, probe_out) = (columns(&found.build), columns(&found.probe));
        assert!(
            build_out[0] == build_out[1] && probe_out[0] == probe_out[1],
            "{what}, {way:?}"
        );
        let mut rows: Vec<(u64, u64, u64)> = (0..keys.len())
            .map(|i| (keys[i], build_out[0][i], probe_out[0][i]))
            .collect();
        rows.sort_unstable();
        assert!(rows == expected, "{what}, {way:?}");
    }
}

#[test]
fn columns_join_as_a_map_does() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let mut rng = StdRng::seed_from_u64(testing::seed("joins of columns"));
        for _ in 0..60 {
            check(&stream, &mut rng);
        }
    }
    assert_eq!(device.pool().in_use(), 0);
}

/// More partitions than a block's shared memory counts.
#[test]
fn very_many_partitions() {
    let device = testing::device();
    let stream = device.stream().unwrap();
    let keys: Vec<u32> = (0..3000).map(|i| i * 77).collect();
    let numbers: Vec<u64> = (0..3000).collect();
    let (keys, numbers) = (stream.upload(&keys).unwrap(), stream.upload(&numbers).unwrap());
    let side: (Column<'_>, Column<'_>) = (keys.view().into(), numbers.view().into());
    let options = HashOptions {
        passes: Some(vec![pass(8), pass(8)]),
        ..HashOptions::default()
    };
    let squares = (0..3000).map(|i: u64| i * i).sum();
    let found = join_aggregated(&stream, side, side, &options).unwrap();
    assert_eq!(found, (3000, squares));
}

#[test]
fn columns_of_different_lengths_or_keys_of_different_widths_are_errors() {
    let device = testing::device();
    let stream = device.stream().unwrap();
    let narrow = stream.upload(&[1u32, 2, 3]).unwrap();
    let wide = stream.upload(&[1u64, 2, 3]).unwrap();
    let (column, other): (Column<'_>, Column<'_>) = (narrow.view().into(), wide.view().into());
    let short: Column<'_> = narrow.slice(..2).unwrap().into();
    let options = HashOptions::default();
    assert!(join_materialised(&stream, (column, short), (column, column), None, &options).is_err());
    assert!(join_materialised(&stream, (column, column), (other, column), None, &options).is_err());
    assert!(join_aggregated(&stream, (column, column), (column, short), &options).is_err());
}
