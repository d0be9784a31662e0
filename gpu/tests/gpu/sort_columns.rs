//! Sort by several columns and of strings against the standard library.

use rand::{Rng, SeedableRng, rngs::StdRng};
use std::cmp::Ordering;
use tenon_gpu::primitives::sort::{Order, SortKey};
use tenon_gpu::primitives::sort_columns::{SortColumn, sort_columns};
use tenon_gpu::primitives::sort_strings::sort_strings;
use tenon_gpu::{Stream, testing};

fn run(test: &str, body: impl Fn(&Stream, &mut StdRng)) {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        body(&stream, &mut StdRng::seed_from_u64(testing::seed(test)));
    }
    assert_eq!(device.pool().in_use(), 0);
}

/// A column of the reference: values with nulls, direction, place of nulls.
struct Column<K> {
    keys: Vec<K>,
    valid: Option<Vec<bool>>,
    order: Order,
    nulls_first: bool,
}

impl<K: SortKey> Column<K> {
    fn random(items: usize, rng: &mut StdRng, key: impl Fn(&mut StdRng) -> K) -> Column<K> {
        let nulls = rng.random::<bool>();
        Column {
            keys: (0..items).map(|_| key(rng)).collect(),
            valid: nulls.then(|| (0..items).map(|_| rng.random_range(0..4) > 0).collect()),
            order: if rng.random() {
                Order::Ascending
            } else {
                Order::Descending
            },
            nulls_first: rng.random(),
        }
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let null = |i: usize| self.valid.as_ref().is_some_and(|valid| !valid[i]);
        match (null(a), null(b)) {
            (true, true) => Ordering::Equal,
            (true, false) => {
                if self.nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (false, true) => {
                if self.nulls_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (false, false) => match self.order {
                Order::Ascending => self.keys[a].order(&self.keys[b]),
                Order::Descending => self.keys[b].order(&self.keys[a]),
            },
        }
    }

    /// The bitmap, beginning at bit 3.
    fn bitmap(&self) -> Vec<u8> {
        let mut bytes = vec![0u8; (self.keys.len() + 3).div_ceil(8)];
        for (i, _) in self.valid.iter().flatten().enumerate().filter(|(_, valid)| **valid) {
            bytes[(i + 3) / 8] |= 1 << ((i + 3) % 8);
        }
        bytes
    }
}

#[test]
fn columns_of_all_types_with_nulls() {
    run("columns", |stream, rng| {
        for items in [0usize, 1, 33, 1000, 5003] {
            for known_ranges in [false, true] {
                let a = Column::random(items, rng, |rng| rng.random_range(-3i32..4));
                let b = Column::random(items, rng, |rng| rng.random_range(0..3u8));
                let c = Column::random(items, rng, |rng| {
                    [f64::NAN, -0.0, 0.0, 1.5, -7.25][rng.random_range(0..5)]
                });
                let d = Column::random(items, rng, |rng| rng.random_range(-1i128..2) << 70);
                let e = Column::random(items, rng, |rng| rng.random::<i64>());
                let mut order: Vec<u32> = (0..items as u32).collect();
                order.sort_by(|&i, &j| {
                    let (i, j) = (i as usize, j as usize);
                    a.compare(i, j)
                        .then_with(|| b.compare(i, j))
                        .then_with(|| c.compare(i, j))
                        .then_with(|| d.compare(i, j))
                        .then_with(|| e.compare(i, j))
                });
                let bitmaps = [a.bitmap(), b.bitmap(), c.bitmap(), d.bitmap(), e.bitmap()];
                let bitmaps = bitmaps.each_ref().map(|bitmap| stream.upload(bitmap).unwrap());
                let keys = (
                    stream.upload(&a.keys).unwrap(),
                    stream.upload(&b.keys).unwrap(),
                    stream.upload(&c.keys).unwrap(),
                    stream.upload(&d.keys).unwrap(),
                    stream.upload(&e.keys).unwrap(),
                );
                let mut columns = [
                    SortColumn::new(keys.0.view(), a.order),
                    SortColumn::new(keys.1.view(), b.order),
                    SortColumn::new(keys.2.view(), c.order),
                    SortColumn::new(keys.3.view(), d.order),
                    SortColumn::new(keys.4.view(), e.order),
                ];
                if known_ranges {
                    columns[0] = columns[0].range(-3i32, 3);
                    columns[1] = columns[1].range(0u8, 2);
                    columns[3] = columns[3].range(-1i128 << 70, 1i128 << 70);
                }
                let nulls = [
                    (a.valid.is_some(), a.nulls_first),
                    (b.valid.is_some(), b.nulls_first),
                    (c.valid.is_some(), c.nulls_first),
                    (d.valid.is_some(), d.nulls_first),
                    (e.valid.is_some(), e.nulls_first),
                ];
                for (i, (some, first)) in nulls.into_iter().enumerate().filter(|(_, nulls)| nulls.0) {
                    let _ = some;
                    columns[i] = columns[i].nulls(bitmaps[i].view(), 3, first);
                }
                let mut indices = stream.alloc::<u32>(items as u64).unwrap();
                sort_columns(stream, &columns, indices.view_mut()).unwrap();
                assert!(
                    stream.download(indices.view()).unwrap() == order,
                    "{items} rows, ranges {known_ranges}"
                );
            }
        }
        let short = stream.upload(&[1u32, 2]).unwrap();
        let mut indices = stream.alloc::<u32>(3).unwrap();
        let column = [SortColumn::new(short.view(), Order::Ascending)];
        assert!(sort_columns(stream, &column, indices.view_mut()).is_err());
        sort_columns(stream, &[], indices.view_mut()).unwrap();
        assert_eq!(
            stream.download(indices.view()).unwrap(),
            [0, 1, 2],
            "no columns: the order stays"
        );
    });
}

fn check_strings(stream: &Stream, strings: &[Vec<u8>], what: &str) {
    let bytes = strings.concat();
    let mut offsets = vec![0u32];
    for string in strings {
        offsets.push(offsets.last().unwrap() + string.len() as u32);
    }
    let wide: Vec<u64> = offsets.iter().map(|&o| o as u64).collect();
    let device = (
        stream.upload(&offsets).unwrap(),
        stream.upload(&wide).unwrap(),
        stream.upload(&bytes).unwrap(),
    );
    let mut indices = stream.alloc::<u32>(strings.len() as u64).unwrap();
    for order in [Order::Ascending, Order::Descending] {
        let mut expected: Vec<u32> = (0..strings.len() as u32).collect();
        expected.sort_by(|&a, &b| {
            let by = strings[a as usize].cmp(&strings[b as usize]);
            if order == Order::Descending { by.reverse() } else { by }
        });
        sort_strings(stream, device.0.view(), device.2.view(), indices.view_mut(), order).unwrap();
        assert!(
            stream.download(indices.view()).unwrap() == expected,
            "{} {what}, {order:?}",
            strings.len()
        );
        sort_strings(stream, device.1.view(), device.2.view(), indices.view_mut(), order).unwrap();
        assert!(
            stream.download(indices.view()).unwrap() == expected,
            "{} {what}, {order:?}, wide",
            strings.len()
        );
    }
}

#[test]
fn strings_of_all_lengths() {
    run("strings", |stream, rng| {
        for items in [0usize, 1, 2, 33, 3000] {
            // Few letters, among them zero bytes and 255, and lengths around the word's.
            let strings: Vec<Vec<u8>> = (0..items)
                .map(|_| {
                    let length = rng.random_range(0..17);
                    (0..length).map(|_| [0, 0, 97, 255][rng.random_range(0..4)]).collect()
                })
                .collect();
            check_strings(stream, &strings, "strings of few letters");
            let strings: Vec<Vec<u8>> = (0..items)
                .map(|i| format!("Customer#{:09}{}", rng.random_range(0..50), "x".repeat(i % 40)).into_bytes())
                .collect();
            check_strings(stream, &strings, "strings of common prefixes");
            check_strings(stream, &vec![b"the same long string".to_vec(); items], "equal strings");
        }
    });
}
