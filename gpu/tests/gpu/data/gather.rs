use std::fmt::Debug;

use rand::seq::SliceRandom;
use rand::{Rng, rngs::StdRng};
use tenon_gpu::Stream;
use tenon_gpu::memory::Element;
use tenon_gpu::primitives::fill::Index;
use tenon_gpu::primitives::gather::{gather, gather_or, scatter, scatter_split};
use tenon_gpu::primitives::gather_bits::gather_bits;

use super::{sizes, upload_at, with_stream};

/// Gathers and scatters records made by `make`, with indexes of which some lie outside.
fn check<T: Element + PartialEq + Debug, I: Index + TryFrom<u64>>(
    stream: &Stream,
    rng: &mut StdRng,
    items_max: u64,
    zero: T,
    make: impl Fn(&mut StdRng) -> T,
) where
    I::Error: Debug,
{
    for (i, items) in sizes().into_iter().filter(|&n| n <= items_max).enumerate() {
        let source_items = [0, 1, items / 2, items, items + 7][i % 5];
        let (a, b, c) = (i as u64 % 2, i as u64 % 3, i as u64 % 5);
        let source: Vec<T> = (0..source_items).map(|_| make(rng)).collect();
        let on_device = upload_at(stream, &source, a);
        let index = |v: u64| I::try_from(v).unwrap();
        let indexes: Vec<I> = (0..items)
            .map(|_| match rng.random_range(0..9) {
                0 => index(u32::MAX as u64),
                1 => index(source_items),
                _ => index(rng.random_range(0..source_items.max(1))),
            })
            .collect();
        let indexes_on_device = upload_at(stream, &indexes, b);
        let expected: Vec<T> = indexes
            .iter()
            .map(|i| source.get(i.to_u64() as usize).copied().unwrap_or(zero))
            .collect();
        let mut output = stream.alloc::<T>(items + c).unwrap();
        let source_view = on_device.slice(a..).unwrap();
        let index_view = indexes_on_device.slice(b..).unwrap();
        gather(stream, source_view, index_view, output.slice_mut(c..).unwrap()).unwrap();
        assert_eq!(
            stream.download(output.slice(c..).unwrap()).unwrap(),
            expected,
            "gather {items}"
        );
        let mut twin = vec![zero; items as usize];
        tenon_cpu::gather::gather(&source, &indexes, &mut twin, zero);
        assert_eq!(twin, expected, "CPU gather {items}");

        // Scatter: a permutation, of which every eleventh item goes nowhere.
        let input: Vec<T> = (0..items).map(|_| make(rng)).collect();
        let mut places: Vec<u64> = (0..items).collect();
        places.shuffle(rng);
        let mut expected = vec![zero; items as usize];
        let targets: Vec<I> = (places.iter().enumerate())
            .map(|(k, &place)| {
                if k % 11 == 3 {
                    return index(items + k as u64);
                }
                expected[place as usize] = input[k];
                index(place)
            })
            .collect();
        let (input_on_device, targets_on_device) = (upload_at(stream, &input, b), upload_at(stream, &targets, c));
        let mut output = stream.alloc_zeroed::<T>(items + a).unwrap();
        let (input_view, target_view) = (
            input_on_device.slice(b..).unwrap(),
            targets_on_device.slice(c..).unwrap(),
        );
        let mut background = vec![zero; items as usize];
        stream
            .copy_to_device(&background, output.slice_mut(a..).unwrap())
            .unwrap();
        scatter(stream, input_view, target_view, output.slice_mut(a..).unwrap()).unwrap();
        assert_eq!(
            stream.download(output.slice(a..).unwrap()).unwrap(),
            expected,
            "scatter {items}"
        );
        tenon_cpu::gather::scatter(&input, &targets, &mut background);
        assert_eq!(background, expected, "CPU scatter {items}");
    }
}

#[test]
fn elements() {
    with_stream("gather elements", |stream, rng| {
        check::<u32, u32>(stream, rng, u64::MAX, 0, |r| r.random());
        check::<u64, u32>(stream, rng, u64::MAX, 0, |r| r.random());
        check::<u64, u64>(stream, rng, u64::MAX, 0, |r| r.random());
        check::<i128, u32>(stream, rng, u64::MAX, 0, |r| r.random());
        check::<u8, u32>(stream, rng, 20_000, 0, |r| r.random());
        check::<u16, u64>(stream, rng, 20_000, 0, |r| r.random());
    });
}

#[test]
fn wide_records() {
    with_stream("gather records", |stream, rng| {
        check::<[u32; 3], u32>(stream, rng, 20_000, [0; 3], |r| r.random());
        check::<[u64; 4], u32>(stream, rng, 70_000, [0; 4], |r| r.random());
        check::<[u128; 4], u32>(stream, rng, 20_000, [0; 4], |r| [r.random(); 4]);
        check::<[u64; 16], u64>(stream, rng, 5000, [0; 16], |r| r.random());
        check::<[u64; 32], u32>(stream, rng, 2100, [0; 32], |r| r.random());
        check::<[u8; 33], u32>(stream, rng, 2100, [0; 33], |r| [r.random(); 33]);
    });
}

#[test]
fn missing_values_and_errors() {
    with_stream("gather missing", |stream, _| {
        let source = stream.upload(&[10i32, 20, 30]).unwrap();
        let indexes = stream.upload(&[2u32, u32::MAX, 0, 3]).unwrap();
        let mut output = stream.alloc::<i32>(4).unwrap();
        gather_or(stream, source.view(), indexes.view(), output.view_mut(), -1).unwrap();
        assert_eq!(stream.download(output.view()).unwrap(), [30, -1, 10, -1]);
        let mut short = stream.alloc::<i32>(3).unwrap();
        assert!(gather(stream, source.view(), indexes.view(), short.view_mut()).is_err());
        assert!(scatter(stream, source.view(), indexes.view(), short.view_mut()).is_err());
        let mut wide = stream.alloc::<[u32; 5]>(4).unwrap();
        let wide_source = stream.alloc::<[u32; 5]>(1).unwrap();
        assert!(gather_or(stream, wide_source.view(), indexes.view(), wide.view_mut(), [7; 5]).is_err());
    });
}

#[test]
fn bits() {
    with_stream("gather bits", |stream, rng| {
        for (i, items) in sizes().into_iter().enumerate() {
            let source_items = [0, 1, 100, items, 70_000][i % 5];
            let bits: Vec<u32> = (0..source_items.div_ceil(32)).map(|_| rng.random()).collect();
            let indexes: Vec<u32> = (0..items)
                .map(|_| {
                    if rng.random_bool(0.2) {
                        u32::MAX
                    } else {
                        rng.random_range(0..source_items.max(1) as u32 + 3)
                    }
                })
                .collect();
            let (on_device, places) = (stream.upload(&bits).unwrap(), stream.upload(&indexes).unwrap());
            let mut output = stream.alloc::<u32>(items.div_ceil(32)).unwrap();
            for with_bits in [false, true] {
                let mut expected = vec![0u32; items.div_ceil(32) as usize];
                for (k, &index) in indexes.iter().enumerate() {
                    let inside = (index as u64) < source_items;
                    let is_set = inside && (!with_bits || bits[index as usize / 32] >> (index % 32) & 1 == 1);
                    expected[k / 32] |= (is_set as u32) << (k % 32);
                }
                let view = with_bits.then(|| on_device.view());
                gather_bits(stream, view, source_items, places.view(), output.view_mut()).unwrap();
                assert_eq!(
                    stream.download(output.view()).unwrap(),
                    expected,
                    "{items} of {source_items}"
                );
                let mut twin = vec![7; expected.len()];
                tenon_cpu::gather::gather_bits(with_bits.then_some(&bits[..]), source_items, &indexes, &mut twin);
                assert_eq!(twin, expected);
            }
        }
        let places = stream.upload(&[0u32; 33]).unwrap();
        let mut output = stream.alloc::<u32>(1).unwrap();
        assert!(gather_bits(stream, None, 5, places.view(), output.view_mut()).is_err());
    });
}

#[test]
fn scatter_by_split() {
    with_stream("scatter split", |stream, rng| {
        // Above and below half of the simulator's L2 cache of 1 MiB.
        for items in [0u64, 1, 1000, 65_536, 65_537, 100_003, 262_144] {
            let mut places: Vec<u32> = (0..items as u32).collect();
            places.shuffle(rng);
            places
                .iter_mut()
                .step_by(7)
                .for_each(|place| *place = u32::MAX - *place % 5);
            let input: Vec<u64> = (0..items).map(|_| rng.random()).collect();
            let mut expected = vec![0u64; items as usize];
            tenon_cpu::gather::scatter(&input, &places, &mut expected);
            let (values, indexes) = (stream.upload(&input).unwrap(), stream.upload(&places).unwrap());
            let mut output = stream.alloc_zeroed::<u64>(items).unwrap();
            scatter_split(stream, values.view(), indexes.view(), output.view_mut()).unwrap();
            assert!(stream.download(output.view()).unwrap() == expected, "{items}");
            let wide: Vec<u64> = places
                .iter()
                .map(|&p| if p > items as u32 { u64::MAX } else { p as u64 })
                .collect();
            let wide = stream.upload(&wide).unwrap();
            stream.set_bytes(output.view_mut(), 0).unwrap();
            scatter_split(stream, values.view(), wide.view(), output.view_mut()).unwrap();
            assert!(
                stream.download(output.view()).unwrap() == expected,
                "{items} by 64-bit indexes"
            );
        }
    });
}
