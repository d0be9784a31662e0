use rand::{Rng, rngs::StdRng};
use tenon_cpu::segmented as twins;
use tenon_gpu::Stream;
use tenon_gpu::number::{Number, Reduction, Widen};
use tenon_gpu::primitives::fill::Index;
use tenon_gpu::primitives::segmented::{reduce_by_key, segmented_reduce};

use super::{sizes, with_stream};

/// Ends of segments over `items` items: even, many empty ones, or one that holds nearly all.
fn random_offsets(rng: &mut StdRng, items: u64, shape: usize) -> Vec<u64> {
    let segments = [1, 7, items / 3, items, items * 2][shape % 5].clamp(1, 50_000);
    let mut offsets: Vec<u64> = (0..=segments)
        .map(|_| match shape % 3 {
            0 => rng.random_range(0..=items),
            1 => rng.random_range(0..=items.min(100)),
            _ => rng.random_range(0..=items) / 1000 * 1000,
        })
        .collect();
    offsets.sort_unstable();
    if !shape.is_multiple_of(4) {
        offsets[0] = 0;
        offsets[segments as usize] = items;
    }
    offsets
}

fn check<T: Widen<A>, A: Number, I: Index>(
    stream: &Stream,
    rng: &mut StdRng,
    reductions: &[Reduction],
    make: impl Fn(&mut StdRng) -> T,
) {
    for (i, items) in sizes().into_iter().enumerate() {
        let host: Vec<T> = (0..items).map(|_| make(rng)).collect();
        let input = stream.upload(&host).unwrap();
        for shape in [i, i + 1, rng.random_range(0..60)] {
            let places = random_offsets(rng, items, shape);
            let offsets: Vec<I> = places.iter().map(|&o| I::from_low(o)).collect();
            let on_device = stream.upload(&offsets).unwrap();
            for &reduction in reductions {
                let reduce = |ends: &[u64]| {
                    let items = &host[ends[0] as usize..ends[1] as usize];
                    items
                        .iter()
                        .fold(A::identity(reduction), |a, b| a.combine(b.widen(), reduction))
                };
                let expected: Vec<A> = places.windows(2).map(reduce).collect();
                let mut output = stream.alloc::<A>(expected.len() as u64).unwrap();
                segmented_reduce(stream, input.view(), on_device.view(), output.view_mut(), reduction).unwrap();
                let found = stream.download(output.view()).unwrap();
                assert_eq!(
                    found,
                    expected,
                    "{reduction:?} of {items} items, {} segments",
                    expected.len()
                );
                let mut twin = vec![A::ZERO; expected.len()];
                twins::segmented_reduce(&host, &offsets, &mut twin, reduction);
                assert_eq!(twin, expected, "CPU {reduction:?}");
            }
        }
    }
}

#[test]
fn by_offsets() {
    with_stream("segmented reduce", |stream, rng| {
        check::<i32, i64, u32>(stream, rng, &[Reduction::Sum], |r| r.random());
        check::<i64, i64, u64>(stream, rng, &[Reduction::Min, Reduction::Max], |r| r.random());
        check::<i64, i128, u32>(stream, rng, &[Reduction::Sum], |r| r.random());
        check::<u32, u32, u32>(stream, rng, &[Reduction::Sum], |r| r.random());
        check::<f64, f64, u32>(stream, rng, &[Reduction::Sum], |r| r.random_range(-9i32..9) as f64);
    });
}

#[test]
fn by_key() {
    with_stream("reduce by key", |stream, rng| {
        for (i, items) in sizes().into_iter().enumerate() {
            let keys_max = [1, 3, items / 2 + 1][i % 3];
            let mut keys: Vec<i64> = (0..items).map(|_| rng.random_range(0..keys_max as i64)).collect();
            keys.sort_unstable();
            let values: Vec<i64> = keys.iter().map(|_| rng.random_range(-1000..1000)).collect();
            let mut sums = std::collections::BTreeMap::new();
            for (k, v) in keys.iter().zip(&values) {
                *sums.entry(*k).or_insert(0i64) += v;
            }
            let (expected_keys, expected): (Vec<i64>, Vec<i64>) = sums.into_iter().unzip();
            let (k, v) = (stream.upload(&keys).unwrap(), stream.upload(&values).unwrap());
            let (mut out_k, mut out_v) = (stream.alloc::<i64>(items).unwrap(), stream.alloc::<i64>(items).unwrap());
            let runs = reduce_by_key(
                stream,
                k.view(),
                v.view(),
                out_k.view_mut(),
                out_v.view_mut(),
                Reduction::Sum,
            )
            .unwrap();
            assert_eq!(runs, expected.len() as u64);
            assert_eq!(stream.download(out_k.slice(..runs).unwrap()).unwrap(), expected_keys);
            assert_eq!(stream.download(out_v.slice(..runs).unwrap()).unwrap(), expected);
            let (mut twin_k, mut twin_v) = (vec![0; items as usize], vec![0; items as usize]);
            assert_eq!(
                twins::reduce_by_key(&keys, &values, &mut twin_k, &mut twin_v, Reduction::Sum),
                runs
            );
            assert_eq!(
                (&twin_k[..runs as usize], &twin_v[..runs as usize]),
                (&expected_keys[..], &expected[..])
            );
            if runs > 1 {
                let short = out_k.slice_mut(..runs - 1).unwrap();
                assert!(reduce_by_key(stream, k.view(), v.view(), short, out_v.view_mut(), Reduction::Sum).is_err());
            }
        }
    });
}

#[test]
fn offsets_without_sense_stay_within_the_buffers() {
    with_stream("segmented garbage", |stream, rng| {
        let input = stream.upload(&vec![1u32; 5000]).unwrap();
        for _ in 0..20 {
            let offsets: Vec<u64> = (0..=3000).map(|_| rng.random_range(0..20_000)).collect();
            let offsets = stream.upload(&offsets).unwrap();
            let mut output = stream.alloc::<u32>(3000).unwrap();
            segmented_reduce(stream, input.view(), offsets.view(), output.view_mut(), Reduction::Sum).unwrap();
        }
        let offsets = stream.upload(&[0u32, 5000]).unwrap();
        let mut output = stream.alloc::<u32>(2).unwrap();
        assert!(segmented_reduce(stream, input.view(), offsets.view(), output.view_mut(), Reduction::Sum).is_err());
    });
}
