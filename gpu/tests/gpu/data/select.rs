use std::fmt::Debug;

use rand::{Rng, rngs::StdRng};
use tenon_cpu::select as twins;
use tenon_gpu::Stream;
use tenon_gpu::memory::Element;
use tenon_gpu::primitives::select::*;

use super::{sizes, upload_at, with_stream};

use crate::expression;

/// Checks select, partition and unique of items made by `make`, few distinct ones in runs.
fn check<T: Element + PartialEq + Debug>(
    stream: &Stream,
    rng: &mut StdRng,
    items_max: u64,
    zero: T,
    make: impl Fn(&mut StdRng) -> T,
) {
    for (i, items) in sizes().into_iter().filter(|&n| n <= items_max).enumerate() {
        let mut host: Vec<T> = (0..items).map(|_| make(rng)).collect();
        for k in 1..host.len() {
            if rng.random_range(0..3) > 0 {
                host[k] = host[k - 1];
            }
        }
        let density = [0.0, 0.01, 0.5, 0.99, 1.0][i % 5];
        let flags: Vec<u8> = (0..items)
            .map(|_| rng.random_bool(density) as u8 * rng.random_range(1..=255))
            .collect();
        let (a, b) = (i as u64 % 3, i as u64 % 5);
        let (input, flags_on_device) = (upload_at(stream, &host, a), upload_at(stream, &flags, b));
        let (view, flag_view) = (input.slice(a..).unwrap(), flags_on_device.slice(b..).unwrap());
        let of = |wanted: bool| -> Vec<T> {
            let pairs = host.iter().zip(&flags);
            pairs.filter(|(_, f)| (**f != 0) == wanted).map(|(x, _)| *x).collect()
        };
        let (yes, no) = (of(true), of(false));
        let mut count = stream.alloc::<u64>(1).unwrap();
        let mut selected = stream.alloc::<T>(items).unwrap();
        let mut rejected = stream.alloc::<T>(items).unwrap();

        select_by_flags(stream, view, flag_view, selected.view_mut(), count.view_mut()).unwrap();
        assert_eq!(stream.download(count.view()).unwrap(), [yes.len() as u64]);
        assert_eq!(
            stream.download(selected.slice(..yes.len() as u64).unwrap()).unwrap(),
            yes,
            "select of {items}"
        );
        stream.set_bytes(selected.view_mut(), 0xcd).unwrap();
        partition_by_flags(
            stream,
            view,
            flag_view,
            selected.view_mut(),
            rejected.view_mut(),
            count.view_mut(),
        )
        .unwrap();
        assert_eq!(stream.download(count.view()).unwrap(), [yes.len() as u64]);
        assert_eq!(
            stream.download(selected.slice(..yes.len() as u64).unwrap()).unwrap(),
            yes
        );
        assert_eq!(
            stream.download(rejected.slice(..no.len() as u64).unwrap()).unwrap(),
            no,
            "partition of {items}"
        );

        // Less room than is needed: a prefix, the full count, and nothing written beyond.
        let room = yes.len() as u64 / 2;
        stream.set_bytes(selected.view_mut(), 0).unwrap();
        select_by_flags(
            stream,
            view,
            flag_view,
            selected.slice_mut(..room).unwrap(),
            count.view_mut(),
        )
        .unwrap();
        assert_eq!(stream.download(count.view()).unwrap(), [yes.len() as u64]);
        let found = stream.download(selected.view()).unwrap();
        assert_eq!(found[..room as usize], yes[..room as usize]);
        assert!(
            found[room as usize..].iter().all(|x| *x == zero),
            "writes beyond the output"
        );

        let mut places = stream.alloc::<u64>(items).unwrap();
        select_indexes(stream, flag_view, places.view_mut(), count.view_mut()).unwrap();
        let expected: Vec<u64> = (0..items).filter(|&k| flags[k as usize] != 0).collect();
        assert_eq!(
            stream.download(places.slice(..yes.len() as u64).unwrap()).unwrap(),
            expected
        );

        // Runs.
        let starts: Vec<u32> = (0..items as usize)
            .filter(|&k| k == 0 || host[k] != host[k - 1])
            .map(|k| k as u32)
            .collect();
        let values: Vec<T> = starts.iter().map(|&k| host[k as usize]).collect();
        let ends: Vec<u32> = starts.iter().copied().chain([items as u32]).collect();
        let runs = starts.len() as u64;
        unique(stream, view, selected.view_mut(), count.view_mut()).unwrap();
        assert_eq!(stream.download(count.view()).unwrap(), [runs]);
        assert_eq!(
            stream.download(selected.slice(..runs).unwrap()).unwrap(),
            values,
            "unique of {items}"
        );
        let mut offsets = stream.alloc::<u32>(items + 1).unwrap();
        stream.set_bytes(selected.view_mut(), 0).unwrap();
        run_length_encode(stream, view, selected.view_mut(), offsets.view_mut(), count.view_mut()).unwrap();
        assert_eq!(stream.download(count.view()).unwrap(), [runs]);
        assert_eq!(stream.download(selected.slice(..runs).unwrap()).unwrap(), values);
        assert_eq!(
            stream.download(offsets.slice(..=runs).unwrap()).unwrap(),
            ends,
            "runs of {items}"
        );

        // CPU twins.
        let mut out = vec![zero; items as usize];
        let mut other = out.clone();
        assert_eq!(twins::select_by_flags(&host, &flags, &mut out), yes.len() as u64);
        assert_eq!(out[..yes.len()], yes);
        assert_eq!(
            twins::partition_by_flags(&host, &flags, &mut out, &mut other),
            yes.len() as u64
        );
        assert_eq!(other[..no.len()], no);
        assert_eq!(twins::unique(&host, &mut out), runs);
        assert_eq!(out[..runs as usize], values);
        let mut twin_offsets = vec![0u32; items as usize + 1];
        assert_eq!(twins::run_length_encode(&host, &mut out, &mut twin_offsets), runs);
        assert_eq!(twin_offsets[..=runs as usize], ends);
        let mut twin_places = vec![0u64; items as usize];
        assert_eq!(twins::select_indexes(&flags, &mut twin_places), yes.len() as u64);
        assert_eq!(twin_places[..yes.len()], expected);
    }
}

#[test]
fn by_flags_and_runs() {
    with_stream("select", |stream, rng| {
        check::<u32>(stream, rng, u64::MAX, 0, |r| r.random());
        check::<i64>(stream, rng, u64::MAX, 0, |r| r.random_range(0..3));
        check::<u8>(stream, rng, 20_000, 0, |r| r.random_range(0..3));
        check::<u16>(stream, rng, 20_000, 0, |r| r.random());
        check::<i128>(stream, rng, 20_000, 0, |r| r.random_range(0..3));
        check::<f64>(stream, rng, 20_000, 0.0, |r| r.random_range(0..3) as f64);
    });
}

#[test]
fn by_predicate() {
    with_stream("select where", |stream, rng| {
        for items in sizes() {
            let host: Vec<i32> = (0..items).map(|_| rng.random_range(-100..100)).collect();
            let input = stream.upload(&host).unwrap();
            let limit = rng.random_range(-120i64..120);
            let literals = [limit as u64];
            let predicate = Predicate {
                expression: expression("x < literal.template get<i64>(0)"),
                literals: &literals,
            };
            let holds = |x: &i32| (*x as i64) < limit;
            let (yes, no): (Vec<i32>, Vec<i32>) = host.iter().partition(|x| holds(x));
            let n = yes.len() as u64;
            let mut count = stream.alloc::<u64>(1).unwrap();
            let (mut out, mut rest) = (stream.alloc::<i32>(items).unwrap(), stream.alloc::<i32>(items).unwrap());
            select_where(stream, input.view(), predicate, out.view_mut(), count.view_mut()).unwrap();
            assert_eq!(stream.download(count.view()).unwrap(), [n]);
            assert_eq!(stream.download(out.slice(..n).unwrap()).unwrap(), yes);
            partition_where(
                stream,
                input.view(),
                predicate,
                out.view_mut(),
                rest.view_mut(),
                count.view_mut(),
            )
            .unwrap();
            assert_eq!(stream.download(out.slice(..n).unwrap()).unwrap(), yes);
            assert_eq!(stream.download(rest.slice(..items - n).unwrap()).unwrap(), no);
            let mut places = stream.alloc::<u32>(items).unwrap();
            select_indexes_where(stream, input.view(), predicate, places.view_mut(), count.view_mut()).unwrap();
            let expected: Vec<u32> = (0..items as u32).filter(|&k| holds(&host[k as usize])).collect();
            assert_eq!(stream.download(places.slice(..n).unwrap()).unwrap(), expected);

            let (mut out, mut rest) = (vec![0; items as usize], vec![0; items as usize]);
            assert_eq!(twins::select_where(&host, &mut out, |x| holds(&x)), n);
            assert_eq!(out[..n as usize], yes);
            assert_eq!(twins::partition_where(&host, &mut out, &mut rest, |x| holds(&x)), n);
            assert_eq!(rest[..no.len()], no);
            let mut places = vec![0u32; items as usize];
            assert_eq!(twins::select_indexes_where(&host, &mut places, |x| holds(&x)), n);
            assert_eq!(places[..n as usize], expected);
        }
    });
}

#[test]
fn lengths_that_differ_are_errors() {
    with_stream("select errors", |stream, _| {
        let input = stream.upload(&[1u32, 2, 3]).unwrap();
        let flags = stream.upload(&[1u8, 0]).unwrap();
        let mut output = stream.alloc::<u32>(3).unwrap();
        let mut count = stream.alloc::<u64>(1).unwrap();
        assert!(select_by_flags(stream, input.view(), flags.view(), output.view_mut(), count.view_mut()).is_err());
        let mut counts = stream.alloc::<u64>(2).unwrap();
        assert!(unique(stream, input.view(), output.view_mut(), counts.view_mut()).is_err());
        let wide = stream.alloc::<[u64; 4]>(3).unwrap();
        let mut wide_output = stream.alloc::<[u64; 4]>(3).unwrap();
        assert!(unique(stream, wide.view(), wide_output.view_mut(), count.view_mut()).is_err());
        let literals = [0; 9];
        let predicate = Predicate {
            expression: expression("x > 0"),
            literals: &literals,
        };
        assert!(select_where(stream, input.view(), predicate, output.view_mut(), count.view_mut()).is_err());
    });
}
