//! The memory pool: budget, reuse, books; with slabs, also on the simulator.

use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_gpu::memory::DeviceBuffer;
use tenon_gpu::primitives::fill::fill;
use tenon_gpu::{Device, DeviceConfig, GpuError, SimConfig, testing};

/// The device under test, with slabs and this budget.
fn device(budget_bytes: u64) -> Device {
    let config = DeviceConfig {
        budget_bytes: Some(budget_bytes),
        sim: SimConfig {
            slabs: true,
            ..SimConfig::default()
        },
        ..DeviceConfig::default()
    };
    Device::open(testing::device_kind(), config).unwrap()
}

#[test]
fn over_budget_is_an_ordinary_error_with_numbers() {
    for device in [device(1 << 20), testing::device_with_budget(1 << 20)] {
        let stream = device.stream().unwrap();
        let half = stream.alloc::<u8>(600_000).unwrap();
        match stream.alloc::<u8>(600_000) {
            Err(GpuError::OutOfMemory {
                requested_bytes,
                in_use_bytes,
                reserved_bytes,
                budget_bytes,
                ..
            }) => assert_eq!(
                (requested_bytes, in_use_bytes, reserved_bytes, budget_bytes),
                (600_064, 600_064, 0, 1 << 20)
            ),
            other => panic!("{:?}", other.map(|b| b.len())),
        }
        for impossible in [u64::MAX, u64::MAX / 8 + 1, 1 << 60] {
            assert!(stream.alloc::<u64>(impossible).is_err());
        }
        drop(half);
        let whole = stream.alloc::<u8>(1 << 20).unwrap();
        assert_eq!(device.pool().available(), 0);
        drop(whole);
        assert_eq!((device.pool().in_use(), device.pool().available()), (0, 1 << 20));
        assert_eq!(device.pool().peak(), 1 << 20);
    }
}

#[test]
fn reservations_take_part_of_the_budget() {
    let device = device(1 << 20);
    let stream = device.stream().unwrap();
    let mut reservation = device.pool().reserve(1 << 19).unwrap();
    assert!(stream.alloc::<u8>((1 << 19) + 1).is_err_and(|e| e.is_out_of_memory()));
    assert!(
        device
            .pool()
            .reserve((1 << 19) + 1)
            .is_err_and(|e| e.is_out_of_memory())
    );
    reservation.shrink_to(0);
    let buffer = stream.alloc::<u8>((1 << 19) + 1).unwrap();
    drop((reservation, buffer));
    assert_eq!((device.pool().in_use(), device.pool().reserved()), (0, 0));
}

#[test]
fn allocations_of_nothing_take_nothing() {
    let device = device(1 << 20);
    let stream = device.stream().unwrap();
    let mut empty = stream.alloc_zeroed::<u64>(0).unwrap();
    fill(&stream, empty.view_mut(), 7).unwrap();
    assert!(stream.download(empty.view()).unwrap().is_empty());
    assert!(stream.upload::<u32>(&[]).unwrap().is_empty());
    assert_eq!((device.pool().in_use(), device.pool().driver_allocations()), (0, 0));
}

#[test]
fn warm_work_makes_no_allocation_call() {
    let device = device(1 << 30);
    let stream = device.stream().unwrap();
    let work = || {
        let mut first = stream.alloc::<u32>(100_000).unwrap();
        fill(&stream, first.view_mut(), 5).unwrap();
        let mut second = stream.alloc::<u32>(100_000).unwrap();
        stream.copy(first.view(), second.view_mut()).unwrap();
        drop(first);
        let third = stream.alloc::<u8>(123_457).unwrap();
        drop(third);
        assert_eq!(stream.download(second.slice(99_000..).unwrap()).unwrap(), vec![5; 1000]);
    };
    work();
    let before = (device.pool().driver_allocations(), device.pool().driver_bytes());
    for _ in 0..10 {
        work();
    }
    assert_eq!(
        (device.pool().driver_allocations(), device.pool().driver_bytes()),
        before
    );
    assert_eq!(device.pool().in_use(), 0);
    device.pool().trim();
    assert_eq!(device.pool().driver_bytes(), 0);
}

#[test]
fn blocks_pass_between_streams_without_mixing() {
    let device = device(4 << 20);
    {
        let streams: Vec<_> = (0..3).map(|_| device.stream().unwrap()).collect();
        let mut rng = StdRng::seed_from_u64(testing::seed("blocks_pass_between_streams"));
        let mut live: Vec<(usize, u32, DeviceBuffer<u32>)> = Vec::new();
        for step in 0..400u32 {
            let s = rng.random_range(0..streams.len());
            if live.len() < 8 && rng.random_bool(0.6) {
                let mut buffer = streams[s].alloc::<u32>(rng.random_range(1..60_000)).unwrap();
                fill(&streams[s], buffer.view_mut(), step).unwrap();
                live.push((s, step, buffer));
            } else if !live.is_empty() {
                let (s, value, buffer) = live.swap_remove(rng.random_range(0..live.len()));
                if rng.random_bool(0.5) {
                    let values = streams[s].download(buffer.view()).unwrap();
                    assert!(
                        values.iter().all(|&v| v == value),
                        "another stream wrote into a live buffer"
                    );
                }
            }
        }
    }
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn misaligned_views_are_errors() {
    let device = testing::device_with_budget(1 << 20);
    let stream = device.stream().unwrap();
    let bytes = stream.upload(&(0..64u8).collect::<Vec<_>>()).unwrap();
    let odd = bytes.slice(1..33).unwrap();
    assert!(matches!(
        odd.cast::<u32>(),
        Err(GpuError::Misaligned { align_bytes: 4, .. })
    ));
    assert!(matches!(
        bytes.slice(4..12).unwrap().cast::<u64>(),
        Err(GpuError::Misaligned { .. })
    ));
    assert!(matches!(
        bytes.slice(0..7).unwrap().cast::<u32>(),
        Err(GpuError::OutOfRange { .. })
    ));
    let words = bytes.slice(4..12).unwrap().cast::<u32>().unwrap();
    assert_eq!(stream.download(words).unwrap(), [0x0706_0504, 0x0b0a_0908]);
    assert!(matches!(
        bytes.slice(10..65),
        Err(GpuError::OutOfRange {
            start: 10,
            end: 65,
            len: 64
        })
    ));
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = bytes.slice(3..2);
    assert!(backwards.is_err());
}
