use rand::{Rng, rngs::StdRng};
use tenon_gpu::Stream;
use tenon_gpu::number::{Number, Reduction, Widen};
use tenon_gpu::primitives;

use super::{sizes, upload_at, with_stream};

/// Checks all reductions of items made by `make`; `same` compares.
fn check<T: Widen<A>, A: Number>(
    stream: &Stream,
    rng: &mut StdRng,
    make: impl Fn(&mut StdRng) -> T,
    same: impl Fn(A, A) -> bool,
) {
    for (i, items) in sizes().into_iter().enumerate() {
        let host: Vec<T> = (0..items).map(|_| make(rng)).collect();
        let offset = i as u64 % 4;
        let input = upload_at(stream, &host, offset);
        for reduction in Reduction::ALL {
            let expected = host
                .iter()
                .fold(A::identity(reduction), |sum, x| sum.combine(x.widen(), reduction));
            let view = input.slice(offset..).unwrap();
            let found = primitives::reduce::reduce::<T, A>(stream, view, reduction).unwrap();
            assert!(
                same(found, expected),
                "{reduction:?} of {items}: {found:?}, expected {expected:?}"
            );
            let twin = tenon_cpu::reduce::reduce::<T, A>(&host, reduction);
            assert!(
                same(twin, expected),
                "CPU {reduction:?} of {items}: {twin:?}, expected {expected:?}"
            );
        }
    }
}

#[test]
fn integers() {
    with_stream("reduce integers", |stream, rng| {
        check::<i32, i32>(stream, rng, |r| r.random(), |a, b| a == b);
        check::<i32, i64>(stream, rng, |r| r.random(), |a, b| a == b);
        check::<u32, u64>(stream, rng, |r| r.random(), |a, b| a == b);
        check::<i64, i64>(stream, rng, |r| r.random(), |a, b| a == b);
        check::<i64, i128>(stream, rng, |r| r.random(), |a, b| a == b);
        check::<u64, u64>(stream, rng, |r| r.random(), |a, b| a == b);
        check::<i128, i128>(stream, rng, |r| r.random(), |a, b| a == b);
    });
}

#[test]
fn floats_with_nan() {
    with_stream("reduce floats", |stream, rng| {
        let close = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-3;
        check::<f64, f64>(stream, rng, |r| r.random_range(-1e3..1e3), close);
        check::<f32, f64>(stream, rng, |r| r.random_range(-1e3f32..1e3), close);
        let some_nan = |r: &mut StdRng| {
            if r.random_range(0..4) == 0 {
                f64::NAN
            } else {
                r.random_range(-9.0..9.0)
            }
        };
        check::<f64, f64>(stream, rng, some_nan, close);
        let whole = |r: &mut StdRng| r.random_range(-50i32..50) as f32;
        check::<f32, f32>(stream, rng, whole, |a, b| a == b || (a.is_nan() && b.is_nan()));
    });
}

#[test]
fn an_output_of_another_length_is_an_error() {
    with_stream("reduce error", |stream, _| {
        let input = stream.upload(&[1u32, 2]).unwrap();
        let mut output = stream.alloc::<u32>(2).unwrap();
        let result = primitives::reduce::reduce_into(stream, input.view(), output.view_mut(), Reduction::Sum);
        assert!(result.unwrap_err().to_string().contains("2 elements"));
    });
}
