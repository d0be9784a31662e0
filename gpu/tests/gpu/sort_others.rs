//! Bitonic sort, merge and quick sort against the standard library.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_gpu::primitives::bitonic::{TILE, bitonic_sort_keys, bitonic_sort_pairs, bitonic_sort_segments};
use tenon_gpu::primitives::merge::{merge_keys, merge_runs};
use tenon_gpu::primitives::quick_sort::quick_sort_pairs;
use tenon_gpu::primitives::sort::{Order, SortKey, SortOptions};
use tenon_gpu::primitives::sort_records::{sort_records, split_records};
use tenon_gpu::primitives::split::{Partition, SplitOptions};
use tenon_gpu::{Stream, testing};

fn run(test: &str, body: impl Fn(&Stream, &mut StdRng)) {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        body(&stream, &mut StdRng::seed_from_u64(testing::seed(test)));
    }
    assert_eq!(device.pool().in_use(), 0);
}

fn options(order: Order) -> SortOptions {
    SortOptions {
        order,
        ..SortOptions::default()
    }
}

fn compare<K: SortKey>(order: Order) -> impl Fn(&K, &K) -> std::cmp::Ordering {
    move |a, b| match order {
        Order::Ascending => a.order(b),
        Order::Descending => b.order(a),
    }
}

/// Random, one key, few keys, sorted, reversed.
fn inputs<K: SortKey>(items: u64, rng: &mut StdRng, key: impl Fn(&mut StdRng) -> K) -> Vec<Vec<K>> {
    let random: Vec<K> = (0..items).map(|_| key(rng)).collect();
    let few = [key(rng), key(rng), key(rng)];
    let mut sorted = random.clone();
    sorted.sort_by(K::order);
    let reversed = sorted.iter().rev().copied().collect();
    let few = (0..items).map(|_| few[rng.random_range(0..3)]).collect();
    vec![random, vec![key(rng); items as usize], few, sorted, reversed]
}

fn bitonic<K: SortKey + PartialEq>(stream: &Stream, rng: &mut StdRng, key: impl Fn(&mut StdRng) -> K) {
    for items in [
        0,
        1,
        2,
        31,
        32,
        33,
        1000,
        TILE - 1,
        TILE,
        TILE + 1,
        3 * TILE - 5,
        9 * TILE + 77,
    ] {
        for keys in inputs(items, rng, &key) {
            let order = if rng.random() {
                Order::Ascending
            } else {
                Order::Descending
            };
            let mut expected = keys.clone();
            expected.sort_by(compare(order));
            let mut device_keys = stream.upload(&keys).unwrap();
            bitonic_sort_keys(stream, device_keys.view_mut(), &options(order)).unwrap();
            assert!(
                stream.download(device_keys.view()).unwrap() == expected,
                "{items} keys, {order:?}"
            );
            // With values: each stays with its key.
            let values: Vec<u64> = (0..items).collect();
            let mut device_keys = stream.upload(&keys).unwrap();
            let mut device_values = stream.upload(&values).unwrap();
            bitonic_sort_pairs(
                stream,
                device_keys.view_mut(),
                device_values.view_mut(),
                &options(order),
            )
            .unwrap();
            assert!(
                stream.download(device_keys.view()).unwrap() == expected,
                "{items} pairs, {order:?}"
            );
            let mut moved = stream.download(device_values.view()).unwrap();
            assert!(
                moved.iter().zip(&expected).all(|(&v, k)| keys[v as usize] == *k),
                "values of {items} pairs"
            );
            moved.sort_unstable();
            assert!(moved == values, "values of {items} pairs, each once");
        }
    }
}

#[test]
fn bitonic_sort_of_any_length() {
    run("bitonic", |stream, rng| {
        bitonic::<u32>(stream, rng, |rng| rng.random());
        bitonic::<i128>(stream, rng, |rng| rng.random());
        bitonic::<f64>(stream, rng, |rng| rng.random_range(-1.0..1.0));
    });
}

#[test]
fn bitonic_sort_of_segments_is_stable_and_leaves_long_ones() {
    run("bitonic segments", |stream, rng| {
        let mut offsets = vec![3u64];
        for _ in 0..40 {
            let length = [0, 1, 50, rng.random_range(0..TILE)][rng.random_range(0..4)];
            offsets.push(offsets.last().unwrap() + length);
        }
        let long = *offsets.last().unwrap();
        offsets.push(long + TILE + 1);
        let items = long + TILE + 10;
        let keys: Vec<i16> = (0..items).map(|_| rng.random_range(-20..20)).collect();
        let values: Vec<u32> = (0..items as u32).collect();
        let mut expected: Vec<u32> = values.clone();
        for pair in offsets.windows(2).filter(|pair| pair[1] - pair[0] <= TILE) {
            expected[pair[0] as usize..pair[1] as usize].sort_by_key(|&i| keys[i as usize]);
        }
        let mut device_keys = stream.upload(&keys).unwrap();
        let mut device_values = stream.upload(&values).unwrap();
        let device_offsets = stream.upload(&offsets).unwrap();
        let parts = (device_keys.view_mut(), device_values.view_mut());
        bitonic_sort_segments(stream, parts.0, parts.1, device_offsets.view(), &SortOptions::default()).unwrap();
        assert!(stream.download(device_values.view()).unwrap() == expected);
        let sorted: Vec<i16> = expected.iter().map(|&i| keys[i as usize]).collect();
        assert!(stream.download(device_keys.view()).unwrap() == sorted);
    });
}

#[test]
fn merge_of_two_runs() {
    run("merge", |stream, rng| {
        let tile = 256 * 9;
        for (a, b) in [
            (0, 0),
            (0, 5),
            (1, 1),
            (31, 33),
            (tile, tile),
            (tile - 1, 1),
            (10_000, 3),
            (20_011, 20_000),
        ] {
            for limit in [1, 5, 1000, u32::MAX] {
                let order = if rng.random() {
                    Order::Ascending
                } else {
                    Order::Descending
                };
                let mut runs = [a, b].map(|n| (0..n).map(|_| rng.random_range(0..limit) as f32).collect::<Vec<f32>>());
                runs.iter_mut().for_each(|run| run.sort_by(compare(order)));
                let mut expected = runs.concat();
                expected.sort_by(compare(order));
                let device = runs.each_ref().map(|run| stream.upload(run).unwrap());
                let mut output = stream.alloc::<f32>(a + b).unwrap();
                merge_keys(
                    stream,
                    device[0].view(),
                    device[1].view(),
                    output.view_mut(),
                    &options(order),
                )
                .unwrap();
                assert!(
                    stream.download(output.view()).unwrap() == expected,
                    "{a} and {b} keys below {limit}"
                );
            }
        }
        let a = stream.upload(&[1u32]).unwrap();
        let mut output = stream.alloc::<u32>(3).unwrap();
        assert!(merge_keys(stream, a.view(), a.view(), output.view_mut(), &SortOptions::default()).is_err());
    });
}

#[test]
fn merge_of_many_runs_is_stable() {
    run("merge runs", |stream, rng| {
        for count in [1usize, 2, 3, 5, 8, 13] {
            let mut offsets = vec![0u64];
            for _ in 0..count {
                offsets.push(offsets.last().unwrap() + rng.random_range(0..4000));
            }
            let items = *offsets.last().unwrap();
            let mut keys: Vec<i64> = (0..items).map(|_| rng.random_range(-50..50)).collect();
            for pair in offsets.windows(2) {
                keys[pair[0] as usize..pair[1] as usize].sort_unstable();
            }
            let values: Vec<u32> = (0..items as u32).collect();
            let mut expected = values.clone();
            expected.sort_by_key(|&i| keys[i as usize]);
            let buffers = (stream.upload(&keys).unwrap(), stream.upload(&values).unwrap());
            let merged = merge_runs(stream, buffers.0, buffers.1, &offsets, &SortOptions::default()).unwrap();
            assert!(stream.download(merged.1.view()).unwrap() == expected, "{count} runs");
            keys.sort_unstable();
            assert!(stream.download(merged.0.view()).unwrap() == keys, "{count} runs");
        }
        let buffers = (stream.upload(&[1u32, 2]).unwrap(), stream.upload(&[1u32, 2]).unwrap());
        assert!(merge_runs(stream, buffers.0, buffers.1, &[0, 1], &SortOptions::default()).is_err());
    });
}

#[test]
fn quick_sort_by_split_ends_under_skew() {
    run("quick sort", |stream, rng| {
        fn check<K: SortKey + PartialEq>(stream: &Stream, keys: Vec<K>, order: Order) {
            let items = keys.len() as u64;
            let values: Vec<u32> = (0..items as u32).collect();
            let mut expected = values.clone();
            let by = compare::<K>(order);
            expected.sort_by(|&a, &b| by(&keys[a as usize], &keys[b as usize]));
            let device = (stream.upload(&keys).unwrap(), stream.upload(&values).unwrap());
            let mut keys_out = stream.alloc::<K>(items).unwrap();
            let mut values_out = stream.alloc::<u32>(items).unwrap();
            let outputs = (keys_out.view_mut(), values_out.view_mut());
            quick_sort_pairs(stream, device.0.view(), device.1.view(), outputs.0, outputs.1, order).unwrap();
            assert!(
                stream.download(values_out.view()).unwrap() == expected,
                "values of {items}, {order:?}"
            );
            let sorted: Vec<K> = expected.iter().map(|&i| keys[i as usize]).collect();
            assert!(
                stream.download(keys_out.view()).unwrap() == sorted,
                "keys of {items}, {order:?}"
            );
        }
        for items in [0, 1, TILE, TILE + 1, 50_003] {
            for keys in inputs(items, rng, |rng| rng.random::<u32>()) {
                check(stream, keys, Order::Ascending);
            }
            for keys in inputs(items, rng, |rng| rng.random_range(-40.0..40.0f64).round()) {
                check(stream, keys, Order::Descending);
            }
        }
    });
}

#[test]
fn wide_records_move_once() {
    run("records", |stream, rng| {
        for items in [0u64, 1, 33, 5001] {
            let keys: Vec<u64> = (0..items).map(|_| rng.random_range(0..300)).collect();
            let records: Vec<[u32; 10]> = (0..items).map(|_| rng.random()).collect();
            let mut order: Vec<usize> = (0..items as usize).collect();
            order.sort_by_key(|&i| keys[i]);
            let expected: Vec<[u32; 10]> = order.iter().map(|&i| records[i]).collect();
            let device = (stream.upload(&keys).unwrap(), stream.upload(&records).unwrap());
            let mut output = stream.alloc::<[u32; 10]>(items).unwrap();
            let options = SortOptions::default();
            sort_records(stream, device.0.view(), device.1.view(), output.view_mut(), &options).unwrap();
            assert!(stream.download(output.view()).unwrap() == expected, "sort of {items}");
            let partition = Partition::Bits(0..9);
            let options = SplitOptions::default();
            let target = output.view_mut();
            split_records(
                stream,
                &partition,
                device.0.view(),
                device.1.view(),
                target,
                None,
                &options,
            )
            .unwrap();
            assert!(stream.download(output.view()).unwrap() == expected, "split of {items}");
        }
    });
}
