use rand::{Rng, rngs::StdRng};
use tenon_gpu::Stream;
use tenon_gpu::number::{Reduction, Widen};
use tenon_gpu::primitives::scan::{ScanShape, Scannable, exclusive_scan, exclusive_scan_shaped, inclusive_scan};

use super::{sizes, upload_at, with_stream};

/// Checks scans of items made by `make`, exactly.
fn check<T: Widen<A>, A: Scannable>(
    stream: &Stream,
    rng: &mut StdRng,
    reductions: &[Reduction],
    make: impl Fn(&mut StdRng) -> T,
) {
    for (i, items) in sizes().into_iter().enumerate() {
        let host: Vec<T> = (0..items).map(|_| make(rng)).collect();
        let (offset, out_offset) = (i as u64 % 5, i as u64 % 3);
        let input = upload_at(stream, &host, offset);
        let view = input.slice(offset..).unwrap();
        for &reduction in reductions {
            let mut sum = A::identity(reduction);
            let mut expected = vec![sum];
            for x in &host {
                sum = sum.combine(x.widen(), reduction);
                expected.push(sum);
            }
            let mut output = stream.alloc::<A>(items + 1 + out_offset).unwrap();
            exclusive_scan(stream, view, output.slice_mut(out_offset..).unwrap(), reduction).unwrap();
            let found = stream.download(output.slice(out_offset..).unwrap()).unwrap();
            assert_eq!(found, expected, "exclusive {reduction:?} of {items} with total");
            let short = out_offset..out_offset + items;
            exclusive_scan(stream, view, output.slice_mut(short.clone()).unwrap(), reduction).unwrap();
            let found = stream.download(output.slice(short.clone()).unwrap()).unwrap();
            assert_eq!(found, expected[..items as usize], "exclusive {reduction:?} of {items}");
            inclusive_scan(stream, view, output.slice_mut(short.clone()).unwrap(), reduction).unwrap();
            let found = stream.download(output.slice(short).unwrap()).unwrap();
            assert_eq!(found, expected[1..], "inclusive {reduction:?} of {items}");

            let mut twin = vec![A::ZERO; items as usize + 1];
            tenon_cpu::scan::exclusive_scan(&host, &mut twin, reduction);
            assert_eq!(twin, expected, "CPU exclusive {reduction:?} of {items} with total");
            tenon_cpu::scan::inclusive_scan(&host, &mut twin[..items as usize], reduction);
            assert_eq!(
                twin[..items as usize],
                expected[1..],
                "CPU inclusive {reduction:?} of {items}"
            );
        }
    }
}

#[test]
fn integers() {
    with_stream("scan integers", |stream, rng| {
        check::<u32, u32>(stream, rng, &Reduction::ALL, |r| r.random());
        check::<u32, u64>(stream, rng, &[Reduction::Sum], |r| r.random());
        check::<u64, u64>(stream, rng, &[Reduction::Sum], |r| r.random());
        check::<i64, i64>(stream, rng, &Reduction::ALL, |r| r.random());
        check::<i32, i64>(stream, rng, &[Reduction::Sum], |r| r.random());
    });
}

#[test]
fn shapes() {
    with_stream("scan shapes", |stream, rng| {
        for (threads, packs, pipelined) in [(512, 4, true), (256, 4, true), (128, 8, false), (128, 7, true)] {
            let shape = ScanShape {
                threads,
                packs,
                blocks: 2,
                pipelined,
            };
            for (i, items) in sizes().into_iter().enumerate() {
                let host: Vec<u32> = (0..items).map(|_| rng.random()).collect();
                let offset = [0, 4, 1][i % 3];
                let input = upload_at(stream, &host, offset);
                let view = input.slice(offset..).unwrap();
                let (mut narrow, mut wide) = (vec![0u32; items as usize + 1], vec![0u64; items as usize + 1]);
                tenon_cpu::scan::exclusive_scan(&host, &mut narrow, Reduction::Sum);
                tenon_cpu::scan::exclusive_scan(&host, &mut wide, Reduction::Sum);
                let mut output = stream.alloc::<u32>(items + 1).unwrap();
                exclusive_scan_shaped(stream, view, output.view_mut(), Reduction::Sum, shape).unwrap();
                assert!(
                    stream.download(output.view()).unwrap() == narrow,
                    "{items} in {shape:?}"
                );
                let mut output = stream.alloc::<u64>(items + 1).unwrap();
                exclusive_scan_shaped(stream, view, output.view_mut(), Reduction::Sum, shape).unwrap();
                assert!(
                    stream.download(output.view()).unwrap() == wide,
                    "{items} wide in {shape:?}"
                );
            }
        }
    });
}

#[test]
fn floats_of_whole_numbers() {
    with_stream("scan floats", |stream, rng| {
        check::<f64, f64>(stream, rng, &[Reduction::Sum], |r| {
            r.random_range(-1000i32..1000) as f64
        });
        check::<f32, f32>(stream, rng, &[Reduction::Sum, Reduction::Max], |r| {
            r.random_range(-9i32..9) as f32
        });
    });
}

#[test]
fn lengths_that_differ_are_an_error() {
    with_stream("scan error", |stream, _| {
        let input = stream.upload(&[1u32, 2]).unwrap();
        let mut output = stream.alloc::<u32>(3).unwrap();
        assert!(inclusive_scan(stream, input.view(), output.view_mut(), Reduction::Sum).is_err());
        let mut output = stream.alloc::<u32>(4).unwrap();
        assert!(exclusive_scan(stream, input.view(), output.view_mut(), Reduction::Sum).is_err());
    });
}
