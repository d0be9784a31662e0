//! INLJ, SMJ, band joins and inequalities against nested loops over the host's vectors.

use std::borrow::Cow;
use std::ops::Bound;

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_gpu::join::band::{Band, band};
use tenon_gpu::join::css_tree::CssTree;
use tenon_gpu::join::probe::Probe;
use tenon_gpu::join::ranges::RangeMatcher;
use tenon_gpu::join::sort_merge::{Ascending, sort_merge};
use tenon_gpu::join::sorted::SortedSide;
use tenon_gpu::join::{Keys, Matcher, Residual};
use tenon_gpu::{Stream, testing};

use super::check::{check, check_cpu};
use super::input::{Input, Key, holds, reference, residual};

/// Items of build and probe side, and the number of different keys: around warps and tiles, unique, repeated, one key.
fn shapes(rng: &mut StdRng) -> Vec<(usize, usize, u64)> {
    let mut shapes = vec![
        (0, 0, 1),
        (0, 40, 10),
        (40, 0, 10),
        (1, 1, 1),
        (1, 3000, 2),
        (3000, 1, 2),
        (31, 33, 40),
        (32, 32, 1),
        (2047, 257, 3000),
        (2048, 2049, 100_000),
        (2049, 2303, u64::MAX),
        (2304, 2305, 900),
        (150, 170, 1),
    ];
    for _ in 0..4 {
        shapes.push((
            rng.random_range(0..3000),
            rng.random_range(0..3000),
            rng.random_range(1..6000),
        ));
    }
    shapes
}

fn run(test: &str, body: impl Fn(&Stream, &mut StdRng)) {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        body(&stream, &mut StdRng::seed_from_u64(testing::seed(test)));
    }
    assert_eq!(device.pool().in_use(), 0);
}

fn inputs<K: Key>(rng: &mut StdRng, (build, probe, limit): (usize, usize, u64)) -> (Input<K>, Input<K>, Option<u32>) {
    let leave_out = rng.random();
    let build = Input::random(rng, build, limit, leave_out);
    let probe = Input::random(rng, probe, limit, leave_out);
    (build, probe, [None, Some(2), Some(97)][rng.random_range(0..3)])
}

fn equality<K: Key>(stream: &Stream, rng: &mut StdRng) {
    for shape in shapes(rng) {
        let (build, probe, modulus) = inputs::<K>(rng, shape);
        let pairs = reference(&build, &probe, modulus, |b, p| build.keys[b] == probe.keys[p]);
        let (build_rows, probe_rows) = (build.row_count(), probe.row_count());
        let checked = |matcher: &dyn Matcher, rng: &mut StdRng, what: &str| {
            check(
                stream,
                matcher,
                &pairs,
                build_rows,
                probe_rows,
                rng,
                &format!("{what} {shape:?} {modulus:?}"),
            );
        };
        let (plain_build, plain_probe) = (build.upload(stream), probe.upload(stream));
        let (ascending_build, ascending_probe) = (build.clone().sorted(), probe.clone().sorted());
        let (sorted_build, sorted_probe) = (ascending_build.upload(stream), ascending_probe.upload(stream));
        let condition = || residual(modulus, &plain_build, &plain_probe);

        for ascending in [(false, false), (true, false), (false, true), (true, true)] {
            let device_build = if ascending.0 { &sorted_build } else { &plain_build };
            let device_probe = if ascending.1 { &sorted_probe } else { &plain_probe };
            let ascending = Ascending {
                build: ascending.0,
                probe: ascending.1,
            };
            let matcher = sort_merge(stream, device_build.side(), device_probe.side(), ascending, condition()).unwrap();
            checked(&matcher, rng, "sort-merge");
            let sides = (
                if ascending.build { &ascending_build } else { &build },
                if ascending.probe { &ascending_probe } else { &probe },
            );
            let (b, p) = (sides.0.cpu_side(), sides.1.cpu_side());
            let matcher = tenon_cpu::join::RangeMatcher::sort_merge(b, p, ascending.build, ascending.probe).unwrap();
            check_cpu(&matcher, &pairs, holds(modulus, &build, &probe), rng, "sort-merge");
        }
        let tree = tenon_cpu::join::CssTree::build(&ascending_build.keys);
        let asked = tenon_cpu::join::Probe::equal(probe.cpu_side());
        let matcher = tenon_cpu::join::RangeMatcher::indexed(&tree, ascending_build.rows.as_deref(), asked).unwrap();
        check_cpu(&matcher, &pairs, holds(modulus, &build, &probe), rng, "indexed");
        let index = || SortedSide::presorted(sorted_build.side());
        for node_keys in [4, 8, 32] {
            let tree = CssTree::build_with(stream, index().keys(), node_keys).unwrap();
            let probe = Probe::equal(plain_probe.side());
            let matcher = RangeMatcher::indexed(stream, index(), &tree, probe, condition()).unwrap();
            checked(&matcher, rng, "indexed");
        }
    }
}

#[test]
fn equality_by_merge_and_by_index() {
    run("ordered equality", |stream, rng| {
        equality::<u32>(stream, rng);
        equality::<u64>(stream, rng);
    });
}

fn between<K: Key>(stream: &Stream, rng: &mut StdRng) {
    for shape in shapes(rng) {
        let (build, probe, modulus) = inputs::<K>(rng, shape);
        let width = [0, 1, 10, shape.2 / 100][rng.random_range(0..4)];
        // Some cross: they ask for nothing.
        let ends = |rng: &mut StdRng| -> Vec<K> {
            let near = |key: &K| {
                K::of(
                    key.number()
                        .saturating_add(rng.random_range(0..=width))
                        .saturating_sub(width / 2),
                )
            };
            probe.keys.iter().map(near).collect()
        };
        let (mut low, mut high) = (ends(rng), ends(rng));
        let ascending = rng.random();
        if ascending {
            low.sort_unstable();
            high.sort_unstable();
        }
        let sorted_build = build.clone().sorted().upload(stream);
        let (plain_build, plain_probe) = (build.upload(stream), probe.upload(stream));
        let ends = [&low, &high].map(|ends| stream.upload(ends).unwrap());
        let [low_keys, high_keys] = ends.each_ref().map(K::keys);
        use Bound::{Excluded, Included, Unbounded};
        // One-sided ranges over few rows: their pairs are nearly all there are.
        let few = shape.0 * shape.1 < 1 << 18;
        let mut bounds: Vec<(Bound<Keys<'_>>, Bound<Keys<'_>>)> = vec![
            (Included(low_keys), Included(high_keys)),
            (Excluded(low_keys), Excluded(high_keys)),
            (Excluded(low_keys), Included(high_keys)),
        ];
        if few {
            bounds.extend([
                (Unbounded, Excluded(high_keys)),
                (Included(low_keys), Unbounded),
                (Excluded(low_keys), Unbounded),
                (Unbounded, Included(high_keys)),
                (Unbounded, Unbounded),
            ]);
        }
        for (from, to) in bounds {
            let pairs = reference(&build, &probe, modulus, |b, p| {
                let key = build.keys[b];
                let after = match from {
                    Included(_) => low[p] <= key,
                    Excluded(_) => low[p] < key,
                    Unbounded => true,
                };
                let before = match to {
                    Included(_) => key <= high[p],
                    Excluded(_) => key < high[p],
                    Unbounded => true,
                };
                after && before
            });
            let rows = plain_probe.rows.as_ref().map(|rows| rows.view());
            let mut asked = Probe::between(probe.keys.len() as u64, rows, from, to).unwrap();
            if ascending {
                asked = asked.ascending();
            }
            let index = SortedSide::presorted(sorted_build.side());
            let condition = residual(modulus, &plain_build, &plain_probe);
            let matcher = RangeMatcher::new(stream, index, None, asked, condition).unwrap();
            let what = format!("between {shape:?} {modulus:?} within {width}, ascending {ascending}");
            check(
                stream,
                &matcher,
                &pairs,
                build.row_count(),
                probe.row_count(),
                rng,
                &what,
            );
            let host = |bound: Bound<Keys<'_>>, ends: &[K]| bound.map(|_| Cow::Owned(ends.to_vec()));
            let rows = probe.rows.as_deref().map(Cow::Borrowed);
            let mut asked =
                tenon_cpu::join::Probe::between(probe.keys.len(), rows, host(from, &low), host(to, &high)).unwrap();
            if ascending {
                asked = asked.ascending();
            }
            let ascending_build = build.clone().sorted();
            let matcher = tenon_cpu::join::RangeMatcher::new(ascending_build.cpu_side(), asked);
            check_cpu(&matcher, &pairs, holds(modulus, &build, &probe), rng, &what);
        }
    }
}

#[test]
fn ranges_and_inequalities() {
    run("ordered ranges", |stream, rng| {
        between::<u32>(stream, rng);
        between::<u64>(stream, rng);
    });
}

/// Whole numbers near the ends of their type and around zero.
fn band_of_whole<K: Key>(stream: &Stream, rng: &mut StdRng, signed: bool) {
    let bits = 8 * size_of::<K>() as u32;
    let greatest = u64::MAX >> (64 - bits);
    let value = |key: K| -> i128 {
        let least = if signed { -(1i128 << (bits - 1)) } else { 0 };
        least + key.number() as i128
    };
    for (builds, probes) in [(0, 9), (33, 500), (700, 31), (600, 600)] {
        let leave_out = rng.random();
        let mut build = Input::<K>::random(rng, builds, 1, leave_out);
        let mut probe = Input::<K>::random(rng, probes, 1, leave_out);
        let mut key = || {
            let near = [0, greatest / 2, greatest][rng.random_range(0..3)];
            let by = rng.random_range(0..200u64);
            K::of(if rng.random() {
                near.saturating_add(by).min(greatest)
            } else {
                near.saturating_sub(by)
            })
        };
        build.keys.iter_mut().chain(&mut probe.keys).for_each(|to| *to = key());
        for (low, high) in [
            (-10, 10),
            (0, 0),
            (5, 3),
            (-300, -100),
            (100, 190),
            (i64::MIN, i64::MAX),
            (0, i64::MAX),
        ] {
            let modulus = [None, Some(3)][rng.random_range(0..2)];
            let pairs = reference(&build, &probe, modulus, |b, p| {
                let (build, probe) = (value(build.keys[b]), value(probe.keys[p]));
                build + low as i128 <= probe && probe <= build + high as i128
            });
            let (device_build, device_probe) = (build.upload(stream), probe.upload(stream));
            let condition = residual(modulus, &device_build, &device_probe);
            let kind = match signed {
                true => Band::Signed { low, high },
                false => Band::Unsigned { low, high },
            };
            let matcher = band(stream, device_build.side(), false, device_probe.side(), kind, condition).unwrap();
            let what = format!("{kind:?} of {bits} bits");
            check(
                stream,
                &matcher,
                &pairs,
                build.row_count(),
                probe.row_count(),
                rng,
                &what,
            );
        }
    }
}

#[test]
fn bands_of_whole_numbers_end_where_their_type_ends() {
    run("bands", |stream, rng| {
        for signed in [false, true] {
            band_of_whole::<u32>(stream, rng, signed);
            band_of_whole::<u64>(stream, rng, signed);
        }
    });
}

#[test]
fn bands_of_floats_are_decided_by_the_condition() {
    run("float bands", |stream, rng| {
        let code = |value: f64| {
            let bits = value.to_bits();
            if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
        };
        let value = |code: u64| f64::from_bits(if code >> 63 == 1 { code ^ 1 << 63 } else { !code });
        for (low, high) in [
            (-0.1, 0.1),
            (0.3, 0.3),
            (1e9, 1e9 + 3.0),
            (-1e-300, 1e-300),
            (f64::NEG_INFINITY, 0.0),
        ] {
            let mut build = Input::<u64>::random(rng, 300, 1, false);
            let mut probe = Input::<u64>::random(rng, 400, 1, false);
            let special = [0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e308, -1e308, 5e-324];
            let number = |rng: &mut StdRng| match rng.random_range(0..30) {
                i @ 0..7 => special[i],
                _ => rng.random_range(-20..20i32) as f64 / 10.0,
            };
            build.keys.iter_mut().for_each(|key| *key = code(number(rng)));
            for key in &mut probe.keys {
                // Sums that round decide whether there is a partner.
                let near = value(build.keys[rng.random_range(0..300)]);
                *key = code(near + [low, high, 0.0][rng.random_range(0..3)]);
            }
            let holds = |b: f64, p: f64| b + low <= p && p <= b + high;
            let pairs = reference(&build, &probe, None, |b, p| {
                holds(value(build.keys[b]), value(probe.keys[p]))
            });
            let (device_build, device_probe) = (build.upload(stream), probe.upload(stream));
            let floats = [&build, &probe].map(|input| {
                let floats: Vec<f64> = input.keys.iter().map(|&key| value(key)).collect();
                stream.upload(&floats).unwrap()
            });
            let body = "f64 b = p.value<f64>(0, build_row), q = p.value<f64>(1, probe_row);\n    return b + \
                        p.literal<f64>(0) <= q && q <= b + p.literal<f64>(1);";
            let buffers = floats
                .iter()
                .map(|f| tenon_gpu::memory::DevicePtr::new(f.ptr().0))
                .collect();
            let literals = vec![low.to_bits(), high.to_bits()];
            // SAFETY: both buffers have a float for each row, and outlive the join.
            let condition = unsafe { Residual::new(body, "", buffers, literals, None) };
            let kind = Band::Float { low, high };
            let matcher = band(stream, device_build.side(), false, device_probe.side(), kind, condition).unwrap();
            check(stream, &matcher, &pairs, 300, 400, rng, &format!("{kind:?}"));
        }
    });
}

#[test]
fn one_probe_with_all_partners_beside_probes_without() {
    run("skewed spans", |stream, rng| {
        // The first probe has nearly all pairs, so do probes in the middle; thousands have none.
        let build = Input::<u32> {
            keys: (0..30_000).map(|i| if i % 10 == 0 { i } else { 7 }).collect(),
            rows: None,
            numbers: vec![0; 30_000],
        };
        let mut keys = vec![3u32; 9000];
        keys[0] = 7;
        keys[5000] = 20;
        keys[5001] = 7;
        let probe = Input {
            keys,
            rows: None,
            numbers: vec![1; 9000],
        };
        let pairs = {
            let mut pairs = Vec::new();
            for (p, key) in probe.keys.iter().enumerate().filter(|(_, key)| **key != 3) {
                pairs.extend(
                    (0..30_000u32)
                        .filter(|&b| build.keys[b as usize] == *key)
                        .map(|b| (b, p as u32)),
                );
            }
            pairs.sort_unstable();
            pairs
        };
        for modulus in [None, Some(1000)] {
            let (device_build, device_probe) = (build.upload(stream), probe.upload(stream));
            let condition = || residual(modulus, &device_build, &device_probe);
            let (b, p) = (device_build.side(), device_probe.side());
            let matcher = sort_merge(stream, b, p, Ascending::default(), condition()).unwrap();
            check(stream, &matcher, &pairs, 30_000, 9000, rng, "skewed merge");
            let index = SortedSide::sort(stream, b).unwrap();
            let matcher = RangeMatcher::new(stream, index, None, Probe::equal(p), condition()).unwrap();
            check(stream, &matcher, &pairs, 30_000, 9000, rng, "skewed index");
        }
    });
}

#[test]
fn wrong_sides_are_errors() {
    run("wrong sides", |stream, _| {
        let narrow = stream.upload(&[1u32, 2]).unwrap();
        let wide = stream.upload(&[1u64, 2]).unwrap();
        let side = |keys| tenon_gpu::join::Side::new(keys).unwrap();
        let (narrow, wide) = (side(Keys::U32(narrow.view())), side(Keys::U64(wide.view())));
        let matcher = sort_merge(stream, narrow, wide, Ascending::default(), Residual::none()).unwrap();
        let mut counts = stream.alloc::<u32>(2).unwrap();
        assert!(
            matcher
                .count(stream, 0..2, counts.view_mut(), Default::default())
                .is_err()
        );
        assert!(Probe::between(3, None, Bound::Included(narrow.keys), Bound::Unbounded).is_err());
        assert!(CssTree::build_with(stream, narrow.keys, 12).is_err());
    });
}
