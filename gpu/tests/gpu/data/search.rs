use rand::{Rng, rngs::StdRng};
use tenon_cpu::search as twins;
use tenon_gpu::Stream;
use tenon_gpu::number::Number;
use tenon_gpu::primitives::fill::Index;
use tenon_gpu::primitives::search::{Strategy, equal_range, lower_bound, search, upper_bound};

use super::{sizes, with_stream};

fn check<T: Number, I: Index + PartialEq + std::fmt::Debug>(
    stream: &Stream,
    rng: &mut StdRng,
    make: impl Fn(&mut StdRng) -> T,
) {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    // NaN last, as the code under test has it.
    let order = |a: &T, b: &T| a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)));
    for (i, sorted_items) in sizes().into_iter().enumerate() {
        let probe_items = [1, 33, 2049, 5000, 0][i % 5];
        let mut sorted: Vec<T> = (0..sorted_items).map(|_| make(rng)).collect();
        sorted.sort_by(order);
        let mut probes: Vec<T> = (0..probe_items)
            .map(|_| match sorted.len() {
                n if n > 0 && rng.random_bool(0.5) => sorted[rng.random_range(0..n)],
                _ => make(rng),
            })
            .collect();
        if i % 2 == 0 {
            probes.sort_by(order);
        }
        let place = |p: &T, upper: bool| {
            let before = |key: &T| order(key, p).is_lt() || (upper && order(key, p).is_eq());
            I::from_low(sorted.partition_point(before) as u64)
        };
        let lower: Vec<I> = probes.iter().map(|p| place(p, false)).collect();
        let upper: Vec<I> = probes.iter().map(|p| place(p, true)).collect();
        let (s, p) = (stream.upload(&sorted).unwrap(), stream.upload(&probes).unwrap());
        let (mut a, mut b) = (
            stream.alloc::<I>(probe_items).unwrap(),
            stream.alloc::<I>(probe_items).unwrap(),
        );
        for strategy in [Strategy::Binary, Strategy::Table, Strategy::EightWay] {
            let outputs = (Some(a.view_mut()), Some(b.view_mut()));
            search(stream, s.view(), p.view(), outputs.0, outputs.1, Some(strategy)).unwrap();
            assert_eq!(
                stream.download(a.view()).unwrap(),
                lower,
                "{strategy:?} lower in {sorted_items}"
            );
            assert_eq!(
                stream.download(b.view()).unwrap(),
                upper,
                "{strategy:?} upper in {sorted_items}"
            );
        }
        lower_bound(stream, s.view(), p.view(), b.view_mut()).unwrap();
        assert_eq!(stream.download(b.view()).unwrap(), lower);
        upper_bound(stream, s.view(), p.view(), a.view_mut()).unwrap();
        assert_eq!(stream.download(a.view()).unwrap(), upper);
        equal_range(stream, s.view(), p.view(), a.view_mut(), b.view_mut()).unwrap();
        assert_eq!(stream.download(a.view()).unwrap(), lower);
        let (mut twin_lower, mut twin_upper) = (lower.clone(), lower.clone());
        twins::equal_range(&sorted, &probes, &mut twin_lower, &mut twin_upper);
        assert_eq!((twin_lower, twin_upper), (lower, upper), "CPU in {sorted_items}");
    }
}

#[test]
fn bounds_of_probes() {
    with_stream("search", |stream, rng| {
        check::<u32, u32>(stream, rng, |r| r.random_range(0..50_000));
        check::<i64, u64>(stream, rng, |r| r.random());
        check::<f64, u32>(stream, rng, |r| {
            if r.random_bool(0.05) {
                f64::NAN
            } else {
                r.random_range(0..99) as f64
            }
        });
        check::<i128, u32>(stream, rng, |r| r.random_range(-5..5));
    });
}

#[test]
fn outputs_of_another_length_are_errors() {
    with_stream("search errors", |stream, _| {
        let sorted = stream.upload(&[1u32, 2]).unwrap();
        let mut output = stream.alloc::<u32>(1).unwrap();
        assert!(lower_bound(stream, sorted.view(), sorted.view(), output.view_mut()).is_err());
    });
}
