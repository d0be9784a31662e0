//! The CPU's sort, split and merge against the standard library.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_cpu::{sort, split};
use tenon_gpu::primitives::sort::{Order, SortKey, SortOptions};
use tenon_gpu::testing;

const SIZES: [usize; 9] = [0, 1, 2, 33, 512, 513, 5000, 70_001, 300_000];

fn check_sort<K: SortKey + PartialEq>(test: &str, key: impl Fn(&mut StdRng) -> K) {
    let mut rng = StdRng::seed_from_u64(testing::seed(test));
    for items in SIZES {
        let mut keys: Vec<K> = (0..items).map(|_| key(&mut rng)).collect();
        for shape in ["random", "sorted", "one key"] {
            match shape {
                "sorted" => keys.sort_by(K::order),
                "one key" if items > 0 => keys = vec![keys[items / 2]; items],
                _ => {}
            }
            for order in [Order::Ascending, Order::Descending] {
                let mut expected: Vec<u32> = (0..items as u32).collect();
                expected.sort_by(|&a, &b| {
                    let by = keys[a as usize].order(&keys[b as usize]);
                    if order == Order::Descending { by.reverse() } else { by }
                });
                let options = SortOptions {
                    order,
                    ..SortOptions::default()
                };
                let mut indices = vec![0u32; items];
                sort::sort_indices(&keys, &mut indices, &options).unwrap();
                assert!(indices == expected, "{test}: {items} {shape}, {order:?}");
                let mut output = keys.clone();
                sort::sort_keys(&keys, &mut output, &options).unwrap();
                let codes = |keys: &[K]| keys.iter().map(|key| key.code()).collect::<Vec<_>>();
                let sorted: Vec<K> = expected.iter().map(|&i| keys[i as usize]).collect();
                assert!(
                    codes(&output) == codes(&sorted),
                    "{test}: {items} {shape} keys, {order:?}"
                );
                let mut quick = keys.clone();
                sort::quick_sort(&mut quick, order);
                assert!(
                    codes(&quick) == codes(&sorted),
                    "{test}: {items} {shape} quick, {order:?}"
                );
            }
        }
    }
}

#[test]
fn sort_of_all_types() {
    check_sort::<u32>("cpu u32", |rng| rng.random());
    check_sort::<i64>("cpu i64", |rng| rng.random_range(-70_000..70_000));
    check_sort::<i128>("cpu i128", |rng| rng.random::<i128>() >> 60);
    check_sort::<f64>("cpu f64", |rng| {
        [f64::NAN, -0.0, 0.0, 2.5, -1e300][rng.random_range(0..5)]
    });
    check_sort::<u8>("cpu u8", |rng| rng.random());
}

#[test]
fn sort_by_some_bits() {
    let mut rng = StdRng::seed_from_u64(testing::seed("cpu bits"));
    let keys: Vec<u64> = (0..40_000).map(|_| rng.random()).collect();
    for bits in [0..0, 5..6, 3..20, 60..64] {
        let part = |key: u64| {
            if bits.is_empty() {
                0
            } else {
                key >> bits.start & (u64::MAX >> (64 - bits.len()))
            }
        };
        let mut expected: Vec<u64> = (0..keys.len() as u64).collect();
        expected.sort_by_key(|&i| part(keys[i as usize]));
        let mut indices = vec![0u64; keys.len()];
        sort::sort_indices(&keys, &mut indices, &SortOptions::default().bits(bits.clone())).unwrap();
        assert!(indices == expected, "bits {bits:?}");
        if !bits.is_empty() && bits.len() < 20 {
            let counts = sort::digit_counts(&keys, bits.start, bits.len() as u32);
            assert_eq!(counts.iter().sum::<u64>(), keys.len() as u64);
            assert_eq!(counts[0], keys.iter().filter(|&&key| part(key) == 0).count() as u64);
        }
    }
    assert!(sort::sort_indices(&keys, &mut vec![0u64; keys.len()], &SortOptions::default().bits(0..65)).is_err());
}

#[test]
fn split_into_any_number() {
    let mut rng = StdRng::seed_from_u64(testing::seed("cpu split"));
    for items in SIZES {
        for partitions in [1usize, 2, 64, 300, 20_000] {
            let limit = if rng.random() {
                partitions as u32
            } else {
                3.min(partitions as u32)
            };
            let keys: Vec<u32> = (0..items).map(|_| rng.random_range(0..limit)).collect();
            let mut expected: Vec<u32> = (0..items as u32).collect();
            expected.sort_by_key(|&i| keys[i as usize]);
            let mut offsets = vec![9; partitions + 1];
            let mut indices = vec![0u32; items];
            let part = |key: u32| key as usize;
            split::split_indices(&keys, &mut indices, &mut offsets, partitions, part).unwrap();
            assert!(indices == expected, "{items} into {partitions}");
            let mut moved = keys.clone();
            let mut again = vec![0; partitions + 1];
            split::split_keys(&keys, &mut moved, &mut again, partitions, part).unwrap();
            assert!(moved.is_sorted() && again == offsets, "{items} into {partitions}");
            for (p, &offset) in offsets.iter().enumerate() {
                let before = expected.partition_point(|&i| (keys[i as usize] as usize) < p);
                assert_eq!(offset, before as u64, "offset {p}: {items} into {partitions}");
            }
        }
    }
}

#[test]
fn merges_and_strings() {
    let mut rng = StdRng::seed_from_u64(testing::seed("cpu merge"));
    for (a, b) in [(0, 0), (0, 9), (1000, 1), (60_000, 90_000)] {
        let mut runs = [a, b].map(|n| (0..n).map(|_| rng.random_range(0..500i16)).collect::<Vec<i16>>());
        runs.iter_mut().for_each(|run| run.sort_by(|x, y| y.cmp(x)));
        let mut expected = runs.concat();
        expected.sort_by(|x, y| y.cmp(x));
        let mut output = vec![0; a + b];
        sort::merge_keys(&runs[0], &runs[1], &mut output, Order::Descending).unwrap();
        assert!(output == expected, "{a} and {b}");
    }
    let strings: Vec<Vec<u8>> = (0..5000)
        .map(|_| {
            (0..rng.random_range(0..14))
                .map(|_| [0, 97, 255][rng.random_range(0..3)])
                .collect()
        })
        .collect();
    let offsets: Vec<u32> = std::iter::once(0)
        .chain(strings.iter().scan(0, |end, string| {
            *end += string.len() as u32;
            Some(*end)
        }))
        .collect();
    for order in [Order::Ascending, Order::Descending] {
        let compare = |a: u32, b: u32| {
            let by = strings[a as usize].cmp(&strings[b as usize]);
            if order == Order::Descending { by.reverse() } else { by }
        };
        let mut expected: Vec<u32> = (0..5000).collect();
        expected.sort_by(|&a, &b| compare(a, b));
        let mut indices = vec![0; 5000];
        sort::sort_strings(&offsets, &strings.concat(), &mut indices, order).unwrap();
        assert!(indices == expected, "strings, {order:?}");
        sort::sort_rows(&mut indices, compare);
        assert!(indices == expected, "rows, {order:?}");
    }
}
