//! Fill, iota and map against plain loops.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_gpu::primitives::{
    fill::{fill, iota},
    map::map,
};
use tenon_gpu::testing::{self, SIZES};

use crate::expression;

#[test]
fn fill_and_iota() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        for items in SIZES {
            let mut bytes = stream.alloc::<u8>(items).unwrap();
            fill(&stream, bytes.view_mut(), 0x5a).unwrap();
            assert!(stream.download(bytes.view()).unwrap().iter().all(|&b| b == 0x5a));
            let mut wide = stream.alloc::<i128>(items).unwrap();
            fill(&stream, wide.view_mut(), -7i128 << 70).unwrap();
            assert!(stream.download(wide.view()).unwrap().iter().all(|&v| v == -7i128 << 70));
            let mut numbers = stream.alloc::<u32>(items).unwrap();
            iota(&stream, numbers.view_mut(), u32::MAX - 5).unwrap();
            let expected: Vec<u32> = (0..items as u32).map(|i| (u32::MAX - 5).wrapping_add(i)).collect();
            assert_eq!(stream.download(numbers.view()).unwrap(), expected);
        }
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn map_of_an_expression_with_literals() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let mut rng = StdRng::seed_from_u64(testing::seed("map"));
        for items in SIZES {
            let host: Vec<i64> = (0..items).map(|_| rng.random_range(-1_000_000..1_000_000)).collect();
            let input = stream.upload(&host).unwrap();
            let mut output = stream.alloc::<f64>(items).unwrap();
            for factor in [0.5f64, 3.25] {
                let scaled = expression("(f64)x * literal.template get<f64>(0) + 1.0");
                map(&stream, input.view(), output.view_mut(), scaled, &[factor.to_bits()]).unwrap();
                let expected: Vec<f64> = host.iter().map(|&x| x as f64 * factor + 1.0).collect();
                assert_eq!(stream.download(output.view()).unwrap(), expected);
            }
        }
        let before = device.compiled();
        let mut output = stream.alloc::<f64>(3).unwrap();
        let input = stream.upload(&[1i64, 2, 3]).unwrap();
        let scaled = expression("(f64)x * literal.template get<f64>(0) + 1.0");
        map(&stream, input.view(), output.view_mut(), scaled, &[2.0f64.to_bits()]).unwrap();
        assert_eq!(device.compiled(), before, "another literal must not compile again");
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn an_expression_that_does_not_compile_shows_its_line() {
    let device = testing::device();
    let stream = device.stream().unwrap();
    let input = stream.upload(&[1u32]).unwrap();
    let mut output = stream.alloc::<u32>(1).unwrap();
    let error = map(
        &stream,
        input.view(),
        output.view_mut(),
        expression("x + unheard_of"),
        &[],
    )
    .unwrap_err()
    .to_string();
    assert!(error.contains("map.cu"), "{error}");
    assert!(error.contains("return x + unheard_of;"), "{error}");
}
