use rand::{Rng, rngs::StdRng};
use tenon_cpu::histogram as twins;
use tenon_gpu::Stream;
use tenon_gpu::primitives::histogram::{Binned, Digits, histogram_digit, histogram_even};

use super::{sizes, upload_at, with_stream};

fn check_digits<T: Digits>(stream: &Stream, rng: &mut StdRng, make: impl Fn(&mut StdRng) -> T) {
    for (i, items) in sizes().into_iter().enumerate() {
        let host: Vec<T> = (0..items).map(|_| make(rng)).collect();
        let offset = i as u64 % 4;
        let input = upload_at(stream, &host, offset);
        let bits = [0, 1, 4, 8, 11, 12, 14][i % 7];
        let shift = rng.random_range(0..size_of::<T>() as u32 * 8);
        let mut expected = vec![0u64; 1 << bits];
        host.iter().for_each(|x| expected[x.digit(shift, bits) as usize] += 1);
        let mut counts = stream.alloc::<u64>(1 << bits).unwrap();
        histogram_digit(stream, input.slice(offset..).unwrap(), shift, counts.view_mut()).unwrap();
        assert_eq!(
            stream.download(counts.view()).unwrap(),
            expected,
            "{items} by {bits} bits from {shift}"
        );
        let mut twin = vec![7u64; 1 << bits];
        twins::histogram_digit(&host, shift, &mut twin).unwrap();
        assert_eq!(twin, expected);
    }
}

/// `bin` computes a bin without the shortcuts of the code under test.
fn check_even<T: Binned>(
    stream: &Stream,
    rng: &mut StdRng,
    (lower, upper): (T, T),
    make: impl Fn(&mut StdRng) -> T,
    bin: impl Fn(T, u64) -> u64,
) {
    for (i, items) in sizes().into_iter().enumerate() {
        let host: Vec<T> = (0..items).map(|_| make(rng)).collect();
        let input = stream.upload(&host).unwrap();
        let bins = [1u64, 2, 10, 100, 256, 1000, 4096, 13_000][i % 8];
        let mut expected = vec![0u64; bins as usize];
        for &x in &host {
            if x >= lower && x < upper {
                expected[bin(x, bins) as usize] += 1;
            }
        }
        let mut counts = stream.alloc::<u64>(bins).unwrap();
        histogram_even(stream, input.view(), lower, upper, counts.view_mut()).unwrap();
        assert_eq!(
            stream.download(counts.view()).unwrap(),
            expected,
            "{items} in {bins} bins"
        );
        let mut twin = vec![7u64; bins as usize];
        twins::histogram_even(&host, lower, upper, &mut twin).unwrap();
        assert_eq!(twin, expected);
    }
}

#[test]
fn by_digit() {
    with_stream("histogram by digit", |stream, rng| {
        check_digits::<u8>(stream, rng, |r| r.random());
        check_digits::<u32>(stream, rng, |r| r.random());
        check_digits::<u64>(stream, rng, |r| if r.random_bool(0.9) { 7 } else { r.random() });
        check_digits::<u128>(stream, rng, |r| r.random());
    });
}

#[test]
fn of_even_width() {
    with_stream("histogram of even width", |stream, rng| {
        let of = |distance: i128, bins: u64, range: i128| (distance * bins as i128 / range) as u64;
        check_even::<i32>(
            stream,
            rng,
            (-70_000, 12_345),
            |r| r.random_range(-80_000..20_000),
            |x, b| of(x as i128 + 70_000, b, 82_345),
        );
        check_even::<i64>(
            stream,
            rng,
            (i64::MIN, i64::MAX),
            |r| r.random(),
            |x, b| of(x as i128 - i64::MIN as i128, b, u64::MAX as i128),
        );
        check_even::<u64>(
            stream,
            rng,
            (5, 13_005),
            |r| r.random_range(0..14_000),
            |x, b| of(x as i128 - 5, b, 13_000),
        );
        let real = |r: &mut StdRng| {
            if r.random_bool(0.1) {
                f64::NAN
            } else {
                r.random_range(-2.0..3.0)
            }
        };
        check_even::<f64>(stream, rng, (-1.0, 1.0), real, |x, b| {
            (((x + 1.0) * (b as f64 / 2.0)) as u64).min(b - 1)
        });
    });
}

#[test]
fn bins_that_make_no_sense_are_errors() {
    with_stream("histogram errors", |stream, _| {
        let input = stream.upload(&[1i32, 2]).unwrap();
        let mut counts = stream.alloc::<u64>(8).unwrap();
        assert!(histogram_even(stream, input.view(), 5, 5, counts.view_mut()).is_err());
        assert!(histogram_even(stream, input.view(), 0, 7, counts.view_mut()).is_err());
        assert!(histogram_even(stream, input.view(), 0, 7, counts.slice_mut(..0).unwrap()).is_err());
        let floats = stream.upload(&[1f64]).unwrap();
        assert!(histogram_even(stream, floats.view(), 0.0, f64::NAN, counts.view_mut()).is_err());
        assert!(histogram_even(stream, floats.view(), 0.0, f64::INFINITY, counts.view_mut()).is_err());
        let words = stream.upload(&[1u32]).unwrap();
        assert!(histogram_digit(stream, words.view(), 32, counts.view_mut()).is_err());
        assert!(histogram_digit(stream, words.view(), 0, counts.slice_mut(..7).unwrap()).is_err());
    });
}
