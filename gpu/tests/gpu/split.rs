//! Split against a plain stable partition.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_gpu::primitives::sort::{RadixTuning, SortKey};
use tenon_gpu::primitives::split::{Partition, SplitOptions, split_indices, split_keys, split_pairs, split_places};
use tenon_gpu::{Stream, testing};

use crate::expression;

/// Items by partition, each in input order, and the offsets.
fn reference(parts: &[u64], partitions: u64) -> (Vec<u32>, Vec<u64>) {
    let mut order: Vec<u32> = (0..parts.len() as u32).collect();
    order.sort_by_key(|&i| parts[i as usize]);
    let offsets = (0..=partitions)
        .map(|p| order.partition_point(|&i| parts[i as usize] < p) as u64)
        .collect();
    (order, offsets)
}

/// Checks every form of the split.
fn check<K: SortKey + PartialEq + std::fmt::Debug>(
    stream: &Stream,
    keys: &[K],
    partition: &Partition<'_>,
    part: impl Fn(K) -> u64,
    tuning: Option<RadixTuning>,
) {
    let items = keys.len() as u64;
    let partitions = partition.partitions();
    let parts: Vec<u64> = keys.iter().map(|&k| part(k)).collect();
    let (order, offsets) = reference(&parts, partitions);
    let what = format!("{items} keys of {} bytes, {partition:?}", size_of::<K>());
    let input = stream.upload(keys).unwrap();
    let mut found_offsets = stream.alloc::<u64>(partitions + 1).unwrap();
    let mut keys_out = stream.alloc::<K>(items).unwrap();
    let options = SplitOptions { stable: true, tuning };

    let outputs = (keys_out.view_mut(), Some(found_offsets.view_mut()));
    split_keys(stream, partition, input.view(), outputs.0, outputs.1, &options).unwrap();
    assert_eq!(
        stream.download(found_offsets.view()).unwrap(),
        offsets,
        "offsets, keys: {what}"
    );
    let sorted: Vec<K> = order.iter().map(|&i| keys[i as usize]).collect();
    assert!(stream.download(keys_out.view()).unwrap() == sorted, "keys: {what}");

    let mut indices = stream.alloc::<u32>(items).unwrap();
    stream.set_bytes(found_offsets.view_mut(), 0xee).unwrap();
    let outputs = (indices.view_mut(), Some(found_offsets.view_mut()));
    split_indices(stream, partition, input.view(), outputs.0, outputs.1, &options).unwrap();
    assert!(
        stream.download(indices.view()).unwrap() == order,
        "gather index: {what}"
    );
    assert_eq!(
        stream.download(found_offsets.view()).unwrap(),
        offsets,
        "offsets, index: {what}"
    );

    let mut places = stream.alloc::<u64>(items).unwrap();
    split_places(stream, partition, input.view(), places.view_mut(), None, &options).unwrap();
    let found = stream.download(places.view()).unwrap();
    for (place, &item) in order.iter().enumerate() {
        assert_eq!(found[item as usize], place as u64, "scatter index: {what}");
    }

    // Unstable: the offsets are the same, each partition holds its items in some order, pairs stay together.
    let values: Vec<u64> = (0..items).map(|i| i << 20).collect();
    let values_in = stream.upload(&values).unwrap();
    let mut values_out = stream.alloc::<u64>(items).unwrap();
    let options = SplitOptions { stable: false, tuning };
    split_pairs(
        stream,
        partition,
        input.view(),
        values_in.view(),
        keys_out.view_mut(),
        values_out.view_mut(),
        Some(found_offsets.view_mut()),
        &options,
    )
    .unwrap();
    assert_eq!(
        stream.download(found_offsets.view()).unwrap(),
        offsets,
        "offsets, unstable: {what}"
    );
    let found_keys = stream.download(keys_out.view()).unwrap();
    let found_values = stream.download(values_out.view()).unwrap();
    for p in 0..partitions as usize {
        let range = offsets[p] as usize..offsets[p + 1] as usize;
        let mut members: Vec<u64> = found_values[range.clone()].to_vec();
        members.sort_unstable();
        let expected: Vec<u64> = order[range].iter().map(|&i| (i as u64) << 20).collect();
        assert!(members == expected, "unstable partition {p}: {what}");
    }
    for (key, value) in found_keys.iter().zip(&found_values) {
        assert_eq!(*key, keys[(value >> 20) as usize], "unstable pairs: {what}");
    }
}

const SMALL: RadixTuning = RadixTuning {
    threads: 256,
    items: 3,
    blocks: 1,
};
const SIZES: [usize; 9] = [0, 1, 31, 33, 767, 768, 769, 2000, 5 * 768 + 1];

fn run(test: &str, body: impl Fn(&Stream, &mut StdRng)) {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        body(&stream, &mut StdRng::seed_from_u64(testing::seed(test)));
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn by_bits_of_keys_of_all_widths() {
    run("split by bits", |stream, rng| {
        for items in SIZES {
            let wide: Vec<u128> = (0..items).map(|_| rng.random()).collect();
            for bits in [0..1, 60..66, 120..128, 3..3] {
                let mask = (1u128 << bits.len()) - 1;
                check(
                    stream,
                    &wide,
                    &Partition::Bits(bits.clone()),
                    |k| ((k >> bits.start) & mask) as u64,
                    Some(SMALL),
                );
            }
            let bytes: Vec<u8> = wide.iter().map(|&k| k as u8).collect();
            check(
                stream,
                &bytes,
                &Partition::Bits(2..7),
                |k| ((k >> 2) & 31) as u64,
                Some(SMALL),
            );
            let halves: Vec<i16> = wide.iter().map(|&k| k as i16).collect();
            check(
                stream,
                &halves,
                &Partition::Bits(8..16),
                |k| (k as u16 >> 8) as u64,
                Some(SMALL),
            );
            let longs: Vec<i64> = wide.iter().map(|&k| k as i64).collect();
            check(
                stream,
                &longs,
                &Partition::Bits(30..34),
                |k| ((k >> 30) & 15) as u64,
                Some(SMALL),
            );
        }
    });
}

#[test]
fn of_several_passes() {
    run("split in passes", |stream, rng| {
        for items in [0, 1, 1000, 5000] {
            let keys: Vec<u64> = (0..items).map(|_| rng.random::<u64>()).collect();
            for bits in [5..14, 40..52, 0..17] {
                let mask = (1u64 << bits.len()) - 1;
                check(
                    stream,
                    &keys,
                    &Partition::Bits(bits.clone()),
                    |k| (k >> bits.start) & mask,
                    Some(SMALL),
                );
            }
        }
    });
}

#[test]
fn by_a_function_into_any_number() {
    run("split by function", |stream, rng| {
        let text =
            expression("(u32)(((u64)key * literal.template get<u64>(0) >> 32) * literal.template get<u64>(1) >> 32)");
        let factor = rng.random::<u64>() | 1;
        for partitions in [1u32, 2, 10, 64, 200, 256, 257, 3000] {
            let literals = [factor, partitions as u64];
            let partition = Partition::Function {
                expression: text,
                literals: &literals,
                partitions,
            };
            for items in [1, 700, 4000] {
                let keys: Vec<u32> = (0..items).map(|_| rng.random()).collect();
                let part = |k: u32| (((k as u64).wrapping_mul(factor) >> 32) * partitions as u64) >> 32;
                check(stream, &keys, &partition, part, Some(SMALL));
            }
        }
        // Numbers that are too large are the last partition; skew: one partition holds all.
        let partition = Partition::Function {
            expression: expression("key"),
            literals: &[],
            partitions: 5,
        };
        let keys: Vec<u32> = (0..3000).map(|_| rng.random_range(0..9)).collect();
        check(stream, &keys, &partition, |k| k.min(4) as u64, Some(SMALL));
        check(stream, &vec![2u32; 3000], &partition, |k| k as u64, Some(SMALL));
        // Floats reach the function as floats.
        let partition = Partition::Function {
            expression: expression("key < 0.5 ? 0u : 1u"),
            literals: &[],
            partitions: 2,
        };
        let keys: Vec<f64> = (0..3000).map(|_| rng.random()).collect();
        check(stream, &keys, &partition, |k| (k >= 0.5) as u64, Some(SMALL));
    });
}

#[test]
fn with_the_usual_tiles() {
    run("split, usual tiles", |stream, rng| {
        for items in [30_000, 100_003] {
            let keys: Vec<u32> = (0..items).map(|_| rng.random()).collect();
            check(stream, &keys, &Partition::Bits(26..32), |k| (k >> 26) as u64, None);
            check(stream, &keys, &Partition::Bits(0..8), |k| (k & 255) as u64, None);
        }
    });
}

#[test]
fn wrong_requests_are_errors() {
    run("split errors", |stream, _| {
        let keys = stream.upload(&[1u32, 2, 3]).unwrap();
        let mut out = stream.alloc::<u32>(3).unwrap();
        let mut offsets = stream.alloc::<u64>(4).unwrap();
        let options = SplitOptions::default();
        let partition = Partition::Bits(30..33);
        assert!(split_keys(stream, &partition, keys.view(), out.view_mut(), None, &options).is_err());
        let partition = Partition::Bits(0..2);
        let short = Some(offsets.view_mut());
        assert!(split_keys(stream, &partition, keys.view(), out.view_mut(), short, &options).is_err());
        let partition = Partition::Function {
            expression: expression("key"),
            literals: &[],
            partitions: 0,
        };
        assert!(split_keys(stream, &partition, keys.view(), out.view_mut(), None, &options).is_err());
        let partition = Partition::Bits(0..4);
        let short = out.slice_mut(..2).unwrap();
        assert!(split_keys(stream, &partition, keys.view(), short, None, &options).is_err());
    });
}
