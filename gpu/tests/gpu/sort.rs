//! Radix sort against the standard library's stable sort.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_gpu::primitives::bitonic;
use tenon_gpu::primitives::sort::{
    Order, Payload, RadixTuning, SortKey, SortOptions, sort_indices, sort_keys, sort_keys_owned, sort_pairs,
    sort_pairs_owned, sort_with_indices, tile_items,
};
use tenon_gpu::testing;
use tenon_gpu::{Device, Stream};

/// Inputs of the same length that differ in skew.
fn shapes<K: Copy>(
    items: u64,
    rng: &mut StdRng,
    mut key: impl FnMut(&mut StdRng) -> K,
    order: impl Fn(&K, &K) -> std::cmp::Ordering,
) -> Vec<(&'static str, Vec<K>)> {
    let random: Vec<K> = (0..items).map(|_| key(rng)).collect();
    let mut sorted = random.clone();
    sorted.sort_by(&order);
    let reversed: Vec<K> = sorted.iter().rev().copied().collect();
    let one = key(rng);
    let few: Vec<K> = (0..3).map(|_| key(rng)).collect();
    let few = (0..items).map(|_| few[rng.random_range(0..3)]).collect();
    vec![
        ("random", random),
        ("sorted", sorted),
        ("reversed", reversed),
        ("one key", vec![one; items as usize]),
        ("three keys", few),
    ]
}

/// Bit for bit, so that NaN equals NaN and -0 differs from 0.
fn bits<T: Copy>(values: &[T]) -> Vec<u8> {
    // SAFETY: plain numbers.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) }.to_vec()
}

fn expected<K: SortKey>(keys: &[K], order: Order) -> Vec<u64> {
    let mut indices: Vec<u64> = (0..keys.len() as u64).collect();
    indices.sort_by(|&a, &b| {
        let by = keys[a as usize].order(&keys[b as usize]);
        if order == Order::Descending { by.reverse() } else { by }
    });
    indices
}

fn check<K: SortKey, V: Payload>(
    stream: &Stream,
    what: &str,
    keys: &[K],
    value: impl Fn(u64) -> V,
    options: &SortOptions,
) {
    let items = keys.len() as u64;
    let values: Vec<V> = (0..items).map(&value).collect();
    let order = expected(keys, options.order);
    let sorted_keys: Vec<K> = order.iter().map(|&i| keys[i as usize]).collect();
    let sorted_values: Vec<V> = order.iter().map(|&i| value(i)).collect();
    // Odd alignment: the arrays begin one element into their buffers.
    let mut padded = vec![keys.first().copied(); 1].into_iter().flatten().collect::<Vec<_>>();
    padded.extend_from_slice(keys);
    let skip = padded.len() as u64 - items;
    let input = stream.upload(&padded).unwrap();
    let input = input.slice(skip..).unwrap();
    let payload = stream.upload(&values).unwrap();
    let mut keys_out = stream.alloc::<K>(items + 1).unwrap();
    let mut values_out = stream.alloc::<V>(items).unwrap();
    sort_pairs(
        stream,
        input,
        payload.view(),
        keys_out.slice_mut(1..).unwrap(),
        values_out.view_mut(),
        options,
    )
    .unwrap();
    let found = stream.download(keys_out.slice(1..).unwrap()).unwrap();
    // Keys-only is not told apart from stable here: equal keys of different bits are floats only.
    assert_eq!(bits(&found), bits(&sorted_keys), "pairs, keys: {what}, {items} items");
    let found = stream.download(values_out.view()).unwrap();
    assert_eq!(
        bits(&found),
        bits(&sorted_values),
        "pairs, values: {what}, {items} items"
    );
    sort_keys(stream, input, keys_out.slice_mut(1..).unwrap(), options).unwrap();
    let found = stream.download(keys_out.slice(1..).unwrap()).unwrap();
    assert_eq!(bits(&found), bits(&sorted_keys), "keys: {what}, {items} items");
}

fn sizes(tile: u64) -> Vec<u64> {
    vec![0, 1, 31, 32, 33, 1000, tile - 1, tile, tile + 1, 3 * tile + 17]
}

fn run<K: SortKey>(test: &str, key: impl Fn(&mut StdRng) -> K) {
    let device: Device = testing::device();
    {
        let stream = device.stream().unwrap();
        let mut rng = StdRng::seed_from_u64(testing::seed(test));
        for items in sizes(tile_items(size_of::<K>() as u32, 4)) {
            for (what, keys) in shapes(items, &mut rng, &key, SortKey::order) {
                let order = if rng.random() {
                    Order::Ascending
                } else {
                    Order::Descending
                };
                let options = SortOptions {
                    order,
                    ..SortOptions::default()
                };
                check(&stream, what, &keys, |i| i as u32 ^ 0x5555, &options);
                if items <= bitonic::TILE {
                    // Small inputs take the bitonic path unless a shape of the passes is asked for.
                    let tuning = Some(RadixTuning::of(size_of::<K>() as u32, 4));
                    let options = SortOptions {
                        tuning,
                        ..options.clone()
                    };
                    check(&stream, what, &keys, |i| i as u32, &options);
                }
                if what == "random" {
                    check(&stream, what, &keys, |i| (i as i64) << 31, &options);
                }
            }
        }
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn u32_keys() {
    run::<u32>("u32", |rng| rng.random());
}
#[test]
fn i32_keys_of_few_bits() {
    run::<i32>("i32", |rng| rng.random_range(-300..300));
}
#[test]
fn u64_keys() {
    run::<u64>("u64", |rng| rng.random());
}
#[test]
fn i64_keys_of_few_bits() {
    run::<i64>("i64", |rng| rng.random_range(-5_000_000..5_000_000));
}
#[test]
fn u128_and_i128_keys() {
    run::<u128>("u128", |rng| rng.random::<u128>() >> rng.random_range(0..128));
    run::<i128>("i128", |rng| rng.random::<i128>() >> rng.random_range(0..128));
}
#[test]
fn narrow_keys() {
    run::<u8>("u8", |rng| rng.random());
    run::<i16>("i16", |rng| rng.random());
}

fn float(rng: &mut StdRng) -> f64 {
    match rng.random_range(0..12) {
        0 => f64::NAN,
        1 => -f64::NAN,
        2 => 0.0,
        3 => -0.0,
        4 => f64::INFINITY,
        5 => f64::NEG_INFINITY,
        6 => f64::from_bits(rng.random()),
        _ => rng.random_range(-1000.0..1000.0),
    }
}

#[test]
fn float_keys_in_postgres_order() {
    run::<f64>("f64", float);
    run::<f32>("f32", |rng| float(rng) as f32);
}

#[test]
fn larger_inputs_of_many_tiles_and_portions() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let mut rng = StdRng::seed_from_u64(testing::seed("larger"));
        let keys: Vec<u32> = (0..150_001).map(|_| rng.random()).collect();
        check(&stream, "many tiles", &keys, |i| i as u32, &SortOptions::default());
        // Small tiles and portions: launches alternate between descriptor arrays.
        let options = SortOptions {
            tuning: Some(RadixTuning {
                threads: 256,
                items: 2,
                blocks: 1,
            }),
            portion_items: 5 * 512,
            ..SortOptions::descending()
        };
        let keys: Vec<u32> = (0..512 * 23 + 100).map(|_| rng.random_range(0..70_000)).collect();
        check(&stream, "portions", &keys, |i| i as u32, &options);
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn bit_ranges() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let mut rng = StdRng::seed_from_u64(testing::seed("bits"));
        let keys: Vec<u64> = (0..20_001).map(|_| rng.random()).collect();
        let input = stream.upload(&keys).unwrap();
        for range in [0..0, 0..1, 3..7, 5..13, 0..20, 40..64, 63..64, 7..63] {
            let part = |key: &u64| {
                if range.is_empty() {
                    0
                } else {
                    (key >> range.start) & (u64::MAX >> (64 - range.len()))
                }
            };
            let mut order: Vec<u32> = (0..keys.len() as u32).collect();
            order.sort_by_key(|&i| part(&keys[i as usize]));
            let mut indices = stream.alloc::<u32>(input.len()).unwrap();
            let options = SortOptions::default().bits(range.clone());
            sort_indices(&stream, input.view(), indices.view_mut(), &options).unwrap();
            assert_eq!(stream.download(indices.view()).unwrap(), order, "bits {range:?}");
            let mut sorted = stream.alloc::<u64>(input.len()).unwrap();
            let mut places = stream.alloc::<u32>(input.len()).unwrap();
            sort_with_indices(&stream, input.view(), sorted.view_mut(), places.view_mut(), &options).unwrap();
            assert_eq!(
                stream.download(places.view()).unwrap(),
                order,
                "bits {range:?}, with keys"
            );
            let expected: Vec<u64> = order.iter().map(|&i| keys[i as usize]).collect();
            assert_eq!(
                stream.download(sorted.view()).unwrap(),
                expected,
                "bits {range:?}, keys"
            );
            let mut wide = stream.alloc::<u64>(input.len()).unwrap();
            sort_indices(&stream, input.view(), wide.view_mut(), &options).unwrap();
            let order: Vec<u64> = order.iter().map(|&i| i as u64).collect();
            assert_eq!(
                stream.download(wide.view()).unwrap(),
                order,
                "bits {range:?}, wide indices"
            );
        }
        let mut out = stream.alloc::<u64>(input.len()).unwrap();
        let wrong = SortOptions::default().bits(60..65);
        assert!(sort_keys(&stream, input.view(), out.view_mut(), &wrong).is_err());
        assert!(
            sort_keys(
                &stream,
                input.slice(1..).unwrap(),
                out.view_mut(),
                &SortOptions::default()
            )
            .is_err()
        );
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn owned_buffers_return_the_result_whatever_passes_run() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let mut rng = StdRng::seed_from_u64(testing::seed("owned"));
        for limit in [1u32, 200, 60_000, 10_000_000, u32::MAX] {
            for bits in [0..32, 0..24] {
                let keys: Vec<u32> = (0..9000).map(|_| rng.random_range(0..limit) & 0xff_ffff).collect();
                let values: Vec<u64> = (0..9000).collect();
                let options = SortOptions::default().bits(bits);
                let mut order = expected(&keys, Order::Ascending);
                let sorted: Vec<u32> = order.iter().map(|&i| keys[i as usize]).collect();
                let found = sort_keys_owned(&stream, stream.upload(&keys).unwrap(), &options).unwrap();
                assert_eq!(stream.download(found.view()).unwrap(), sorted, "below {limit}");
                let pairs = (stream.upload(&keys).unwrap(), stream.upload(&values).unwrap());
                let (found, moved) = sort_pairs_owned(&stream, pairs.0, pairs.1, &options).unwrap();
                assert_eq!(stream.download(found.view()).unwrap(), sorted, "below {limit}");
                assert_eq!(stream.download(moved.view()).unwrap(), std::mem::take(&mut order));
            }
        }
    }
    assert_eq!(device.pool().in_use(), 0);
}
