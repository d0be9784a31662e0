//! Memory that runs out, cancellation, joins that run at once: right answers or a clean error, and nothing is held.

use std::cell::Cell;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tenon_gpu::join::JoinKind;
use tenon_gpu::join::triton::{TritonOptions, Wanted};
use tenon_gpu::{Device, DeviceConfig, DeviceKind, SimConfig, testing};

use super::reference::{Case, Input, Spread, is_cancelled, is_out_of_memory, keys};

/// A join that spills, with pairs.
fn spilling(seed: &str) -> Case {
    let mut rng = StdRng::seed_from_u64(testing::seed(seed));
    let (build_keys, probe_keys) = keys(&mut rng, Spread::Below(3000), 4000, 5000, true);
    Case {
        build: Input::rows(build_keys),
        probe: Input::rows(probe_keys),
        wide: true,
        wanted: Wanted::Join(JoinKind::BuildOuter),
        residual: false,
        options: TritonOptions {
            memory_bytes: Some(64 << 10),
            ..TritonOptions::default()
        },
    }
}

#[test]
fn cancellation_at_each_step() {
    let case = spilling("triton_cancel");
    let device = testing::device_with_budget(1 << 20);
    let asked = Cell::new(0);
    case.run(&device, &|| {
        asked.set(asked.get() + 1);
        false
    })
    .unwrap();
    let steps = asked.get();
    assert!(steps > 100, "{steps} steps");
    for stop in (0..steps).step_by(steps / 12) {
        asked.set(0);
        let result = case.run(&device, &|| {
            asked.set(asked.get() + 1);
            asked.get() > stop
        });
        assert!(is_cancelled(&result), "at step {stop} of {steps}");
        assert_eq!(device.pool().in_use(), 0);
    }
    case.check(&device);
}

#[test]
fn device_memory_that_the_driver_lacks() {
    let case = spilling("triton_allocations");
    for allocations in 0.. {
        let config = DeviceConfig {
            budget_bytes: Some(1 << 20),
            sim: SimConfig {
                allocations_max: Some(allocations),
                ..SimConfig::default()
            },
            ..DeviceConfig::default()
        };
        let device = Device::open(DeviceKind::Sim, config).unwrap();
        let result = case.run(&device, &|| false);
        assert_eq!(device.pool().in_use(), 0);
        match result {
            Ok((answer, _)) => {
                assert_eq!(answer, case.expected());
                assert!(allocations > 0);
                return;
            }
            result => assert!(is_out_of_memory(&result), "allocation {allocations}"),
        }
    }
}

#[test]
fn pinned_memory_that_runs_out() {
    let case = spilling("triton_pinned");
    for step in 0.. {
        let config = DeviceConfig {
            budget_bytes: Some(1 << 20),
            pinned_budget_bytes: Some(step << 23),
            ..DeviceConfig::default()
        };
        let device = Device::open(testing::device_kind(), config).unwrap();
        let result = case.run(&device, &|| false);
        assert_eq!(device.pool().in_use(), 0);
        match result {
            Ok((answer, _)) => {
                assert_eq!(answer, case.expected());
                assert!(step > 1);
                return;
            }
            result => assert!(is_out_of_memory(&result), "step {step}"),
        }
    }
}

#[test]
fn too_little_memory_for_any_join() {
    let mut case = spilling("triton_too_little");
    case.options.memory_bytes = Some(3 << 10);
    let device = testing::device_with_budget(1 << 20);
    assert!(is_out_of_memory(&case.run(&device, &|| false)));
    case.options.memory_bytes = Some(2 << 20);
    let wanting = case.run(&device, &|| false);
    assert!(wanting.is_ok() || is_out_of_memory(&wanting));
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn joins_at_once_share_a_device() {
    let case = spilling("triton_at_once");
    let expected = case.expected();
    for (memory_bytes, all_fit) in [(250 << 10, true), (400 << 10, false)] {
        let device = testing::device_with_budget(1 << 20);
        let mut case = case.clone();
        case.options.memory_bytes = Some(memory_bytes);
        std::thread::scope(|scope| {
            let joins: Vec<_> = (0..4).map(|_| scope.spawn(|| case.run(&device, &|| false))).collect();
            for join in joins {
                match join.join().unwrap() {
                    Ok((answer, _)) => assert_eq!(answer, expected),
                    result => assert!(!all_fit && is_out_of_memory(&result)),
                }
            }
        });
        assert_eq!(device.pool().in_use(), 0);
    }
}
