//! Copies: staged, from pinned and registered memory, beside kernels.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_gpu::number::Reduction;
use tenon_gpu::primitives::fill::iota;
use tenon_gpu::primitives::pieces::Pieces;
use tenon_gpu::primitives::reduce::{reduce, reduce_into};
use tenon_gpu::{Device, DeviceConfig, testing};

/// More than one staging piece, and not a multiple of it.
const ITEMS: u64 = 5_000_003;

#[test]
fn large_copies_are_staged_and_warm_ones_register_nothing() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let host: Vec<u32> = (0..ITEMS as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let mut registrations = 0;
        for round in 0..3 {
            let buffer = stream.upload(&host).unwrap();
            assert!(stream.download(buffer.view()).unwrap() == host);
            let mut part = vec![0; 3_000_001];
            stream
                .download_into(buffer.slice(7..3_000_008).unwrap(), &mut part)
                .unwrap();
            assert!(part == host[7..3_000_008]);
            if round == 0 {
                registrations = device.host_registrations();
                assert!(registrations > 0);
            }
        }
        assert_eq!(device.host_registrations(), registrations);
        device.trim_host();
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn pinned_memory_is_kept_and_copied_directly() {
    let device = testing::device();
    let stream = device.stream().unwrap();
    for _ in 0..3 {
        let mut pinned = device.pinned::<u64>(2_000_000).unwrap();
        pinned.iter_mut().enumerate().for_each(|(i, v)| *v = i as u64 * 3);
        let buffer = stream.upload(&pinned).unwrap();
        let sum: u64 = reduce(&stream, buffer.view(), Reduction::Sum).unwrap();
        assert_eq!(sum, 3 * (2_000_000 * 1_999_999 / 2));
        assert!(stream.download(buffer.slice(5..1_500_000).unwrap()).unwrap() == pinned[5..1_500_000]);
    }
    assert!(device.host_registrations() <= 1 + 3, "{}", device.host_registrations());
    assert!(device.pinned::<u64>(0).unwrap().is_empty());
    assert!(device.pinned::<u64>(u64::MAX / 4).is_err());
}

#[test]
fn pinned_memory_is_bounded() {
    let config = DeviceConfig {
        budget_bytes: Some(1 << 30),
        pinned_budget_bytes: Some(40 << 20),
        ..DeviceConfig::default()
    };
    let device = Device::open(testing::device_kind(), config).unwrap();
    let first = device.pinned::<u8>(20 << 20).unwrap();
    let error = device.pinned::<u8>(20 << 20).err().unwrap();
    assert!(error.is_out_of_memory(), "{error}");
    assert_eq!(
        error.to_string(),
        "out of pinned memory: 25165824 bytes asked for, 25165824 of 41943040 in use"
    );
    drop(first);
    // What is idle makes room for another size.
    drop(device.pinned::<u8>(39 << 20).unwrap());
    assert_eq!(device.pinned::<u8>(5 << 20).unwrap().len(), 5 << 20);
    assert!(device.pinned::<u8>(41 << 20).is_err());
}

/// Slices of any length at any address, of pinned memory and of other; what is forgotten is not copied.
#[test]
fn small_copies_are_made_together() {
    let mut random = StdRng::seed_from_u64(testing::seed("small_copies_are_made_together"));
    let device = testing::device();
    let stream = device.stream().unwrap();
    let mut pinned = device.pinned::<u8>(3 << 20).unwrap();
    pinned.iter_mut().for_each(|byte| *byte = random.random());
    let other: Vec<u8> = (0..1 << 16).map(|_| random.random()).collect();
    for _ in 0..4 {
        let (mut pieces, mut copies) = (Pieces::default(), vec![]);
        for _ in 0..40 {
            let source: &[u8] = if random.random_bool(0.8) { &pinned } else { &other };
            let step = [1, 16][random.random_range(0..2)];
            let start = random.random_range(0..source.len() / step) * step;
            let most = [1, 20, 40_000, 2 << 20][random.random_range(0..4)];
            let len = random.random_range(0..=most.min(source.len() - start));
            let slice = &source[start..start + len];
            let waiting = pieces.waiting();
            // SAFETY: both memories and all buffers that are not forgotten are kept until the stream has been waited for.
            let buffer = unsafe { pieces.upload_later(&stream, slice) }.unwrap();
            match random.random_bool(0.1) {
                true => pieces.forget(waiting),
                false => copies.push((slice, buffer)),
            }
            if random.random_bool(0.1) {
                pieces.send(&stream).unwrap();
            }
        }
        pieces.send(&stream).unwrap();
        assert_eq!(pieces.waiting(), 0);
        for (slice, buffer) in &copies {
            assert!(
                stream.download(buffer.view()).unwrap() == *slice,
                "{} bytes",
                slice.len()
            );
        }
    }
}

#[test]
fn registered_memory_of_others_is_copied_directly() {
    let device = testing::device();
    let stream = device.stream().unwrap();
    let mut pages = vec![0u64; 1 << 18];
    pages.iter_mut().enumerate().for_each(|(i, v)| *v = i as u64);
    let bytes = size_of_val(&pages[..]);
    // SAFETY: the vector lives until it is unregistered.
    unsafe { device.register_host(pages.as_mut_ptr().cast(), bytes) }.unwrap();
    let buffer = stream.upload(&pages).unwrap();
    assert_eq!(device.host_registrations(), 0, "nothing was staged");
    assert_eq!(
        reduce::<u64, u64>(&stream, buffer.view(), Reduction::Max).unwrap(),
        (1 << 18) - 1
    );
    // SAFETY: the upload is done.
    unsafe { device.unregister_host(pages.as_mut_ptr().cast()) }.unwrap();
    // SAFETY: as above; the second time, nothing happens.
    unsafe { device.unregister_host(pages.as_mut_ptr().cast()) }.unwrap();
}

#[test]
fn data_streams_through_in_chunks() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let host: Vec<u32> = (0..1_000_003).collect();
        for chunk_len in [1_000_003u64, 300_000, 1 << 40, 99_991] {
            let chunks = host.len().div_ceil(chunk_len.min(1 << 30) as usize) as u64;
            let mut sums = stream.alloc::<u64>(chunks).unwrap();
            let mut starts = Vec::new();
            stream
                .stream_in(&host, chunk_len, |start, chunk| {
                    let at = starts.len() as u64;
                    starts.push((start, chunk.len()));
                    reduce_into(&stream, chunk, sums.slice_mut(at..at + 1)?, Reduction::Sum)
                })
                .unwrap();
            let sums = stream.download(sums.view()).unwrap();
            assert_eq!(starts.iter().map(|s| s.1).sum::<u64>(), host.len() as u64);
            for ((start, len), sum) in starts.into_iter().zip(sums) {
                assert_eq!(sum, (start..start + len).sum::<u64>(), "chunk at {start}");
            }
        }
        stream.stream_in(&[] as &[u32], 10, |_, _| panic!("no chunk")).unwrap();
        let failed = stream.stream_in(&host, 1000, |_, _| Err(tenon_gpu::GpuError::Invalid("stop".into())));
        assert_eq!(failed.unwrap_err().to_string(), "stop");
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn results_leave_while_work_goes_on() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let mut numbers = stream.alloc::<u32>(300_000).unwrap();
        iota(&stream, numbers.view_mut(), 5).unwrap();
        let download = stream
            .download_later(numbers.view(), device.pinned(300_000).unwrap())
            .unwrap();
        let mut others = stream.alloc::<u32>(1000).unwrap();
        iota(&stream, others.view_mut(), 0).unwrap();
        assert_eq!((download.len(), download.is_empty()), (300_000, false));
        let result = download.wait().unwrap();
        assert!(result.iter().enumerate().all(|(i, &v)| v == i as u32 + 5));
        drop(stream.download_later(numbers.view(), result).unwrap());
        let wrong = stream.download_later(numbers.view(), device.pinned(1).unwrap());
        assert!(wrong.is_err());
    }
    assert_eq!(device.pool().in_use(), 0);
}
