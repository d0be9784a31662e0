//! Memory that runs out, cancellation, joins that run at once: right answers or a clean error, and nothing is held.

use std::cell::Cell;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenon_gpu::join::JoinKind;
use tenon_gpu::join::triton::{Caller, HostKeys, HostSide, HostValues, TritonOptions, Wanted};
use tenon_gpu::{Device, DeviceConfig, DeviceKind, GpuError, Result, SimConfig, testing};

use super::reference::{Case, Input, Spread, is_cancelled, is_out_of_memory, keys};

/// A join that spills, with pairs.
fn spilling(rng: &mut StdRng) -> Case {
    let (build_keys, probe_keys) = keys(rng, Spread::Below(3000), 4000, 5000, true);
    Case {
        build: Input::rows(build_keys),
        probe: Input::rows(probe_keys),
        wide: true,
        wanted: Wanted::Join(JoinKind::BuildOuter),
        residual: false,
        options: TritonOptions {
            memory_bytes: Some(64 << 10),
            chunk_rows: Some(96),
            ..TritonOptions::default()
        },
    }
}

/// Joins that take memory in all ways there are: rows that are spilled, foreseen or not, equal keys that want another
/// table, pairs, aggregates.
fn all_ways(seed: &str) -> Vec<Case> {
    let mut rng = StdRng::seed_from_u64(testing::seed(seed));
    let pairs = spilling(&mut rng);
    let mut aggregate = pairs.clone();
    aggregate.wanted = Wanted::Aggregate;
    aggregate.build = aggregate.build.with_payloads(&mut rng);
    aggregate.probe = aggregate.probe.with_payloads(&mut rng);
    let (build_keys, probe_keys) = keys(&mut rng, Spread::Zipf, 1500, 800, true);
    let mut equal_keys = aggregate.clone();
    equal_keys.build = Input::rows(build_keys);
    equal_keys.probe = Input::rows(probe_keys);
    equal_keys.options.memory_bytes = Some(300 << 10);
    let mut unforeseen = equal_keys.clone();
    unforeseen.options.memory_bytes = Some(50 << 10);
    vec![pairs, aggregate, equal_keys, unforeseen]
}

fn nothing_is_held(device: &Device) {
    assert_eq!((device.pool().in_use(), device.pinned_in_use()), (0, 0));
}

#[test]
fn cancellation_at_each_step() {
    let device = testing::device_with_budget(1 << 20);
    for case in all_ways("triton_cancel") {
        let asked = Cell::new(0);
        let (_, result) = case
            .run(&device, &|| {
                asked.set(asked.get() + 1);
                false
            })
            .unwrap();
        // A step a chunk of each side, and the steps of pairs.
        let (steps, chunks) = (asked.get(), (case.build.keys.len() + case.probe.keys.len()) / 96);
        let enough = steps >= chunks + usize::from(result.spilled_rows > 0);
        assert!(enough, "{steps} steps, {chunks} chunks: {}", case.describe());
        for stop in (0..steps).step_by(steps / 12) {
            asked.set(0);
            let result = case.run(&device, &|| {
                asked.set(asked.get() + 1);
                asked.get() > stop
            });
            assert!(is_cancelled(&result), "at step {stop} of {steps}: {}", case.describe());
            assert_eq!(asked.get(), stop + 1, "nobody asks again after a cancellation");
            nothing_is_held(&device);
        }
        case.check(&device);
    }
}

/// Runs a case on devices on which the first, second, ... allocation fails, until none does.
fn fails_at_each(case: &Case, config: impl Fn(u64) -> SimConfig) -> u64 {
    for allowed in 0..100 {
        let config = DeviceConfig {
            budget_bytes: Some(1 << 20),
            sim: config(allowed),
            ..DeviceConfig::default()
        };
        let device = Device::open(DeviceKind::Sim, config).unwrap();
        let result = case.run(&device, &|| false);
        nothing_is_held(&device);
        match result {
            Ok((answer, _)) => {
                assert_eq!(answer, case.expected(), "{}", case.describe());
                return allowed;
            }
            result => assert!(is_out_of_memory(&result), "allocation {allowed}: {}", case.describe()),
        }
    }
    panic!("more than 100 allocations: {}", case.describe());
}

#[test]
fn each_allocation_fails_in_turn() {
    for case in all_ways("triton_allocations") {
        let sites = fails_at_each(&case, |allowed| SimConfig {
            allocations_max: Some(allowed),
            ..SimConfig::default()
        });
        assert_eq!(sites, 1, "device memory is taken once: {}", case.describe());
        let pinned = fails_at_each(&case, |allowed| SimConfig {
            registrations_max: Some(allowed),
            ..SimConfig::default()
        });
        assert!(
            pinned >= 2,
            "{pinned} allocations of pinned memory: {}",
            case.describe()
        );
    }
}

#[test]
fn pinned_memory_that_runs_out() {
    for case in all_ways("triton_pinned") {
        for step in 0.. {
            let config = DeviceConfig {
                budget_bytes: Some(1 << 20),
                pinned_budget_bytes: Some(step << 23),
                ..DeviceConfig::default()
            };
            let device = Device::open(testing::device_kind(), config).unwrap();
            let result = case.run(&device, &|| false);
            nothing_is_held(&device);
            match result {
                Ok((answer, _)) => {
                    assert_eq!(answer, case.expected());
                    assert!(step > 1);
                    break;
                }
                result => assert!(is_out_of_memory(&result), "step {step}"),
            }
        }
    }
}

#[test]
fn budgets_from_none_on() {
    let device = testing::device_with_budget(8 << 20);
    for mut case in all_ways("triton_any_budget") {
        case.options.chunk_rows = None;
        let (mut memory_bytes, mut ran) = (1u64 << 10, false);
        while memory_bytes < 1 << 20 {
            case.options.memory_bytes = Some(memory_bytes);
            let result = case.run(&device, &|| false);
            match result {
                Ok((answer, result)) => {
                    assert_eq!(answer, case.expected(), "{}", case.describe());
                    assert!(result.memory_bytes <= memory_bytes);
                    ran = true;
                }
                result => assert!(
                    is_out_of_memory(&result) && !ran && memory_bytes < 64 << 10,
                    "{}",
                    case.describe()
                ),
            }
            nothing_is_held(&device);
            memory_bytes = memory_bytes * 9 / 4;
        }
        case.options.memory_bytes = Some(64 << 10);
        case.check(&device);
    }
}

#[test]
fn more_memory_than_the_device_has() {
    let mut case = all_ways("triton_too_much").remove(0);
    let device = testing::device_with_budget(1 << 20);
    case.options.memory_bytes = Some(2 << 20);
    let wanting = case.run(&device, &|| false);
    assert!(wanting.is_ok() || is_out_of_memory(&wanting));
    nothing_is_held(&device);
}

#[test]
fn joins_at_once_share_a_device() {
    let cases = all_ways("triton_at_once");
    let expected: Vec<_> = cases.iter().map(Case::expected).collect();
    for (memory_bytes, all_fit) in [(150 << 10, true), (400 << 10, false)] {
        let device = testing::device_with_budget(1 << 20);
        std::thread::scope(|scope| {
            let joins: Vec<_> = cases
                .iter()
                .map(|case| {
                    let (device, mut case) = (&device, case.clone());
                    case.options.memory_bytes = Some(memory_bytes);
                    scope.spawn(move || case.run(device, &|| false))
                })
                .collect();
            for (join, expected) in joins.into_iter().zip(&expected) {
                match join.join().unwrap() {
                    Ok((answer, _)) => assert_eq!(answer, *expected),
                    result => assert!(!all_fit && is_out_of_memory(&result)),
                }
            }
        });
        nothing_is_held(&device);
    }
}

#[test]
fn a_sink_that_fails_ends_the_join() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_sink"));
    let case = spilling(&mut rng);
    let device = testing::device_with_budget(1 << 20);
    for pieces in [0, 1, rng.random_range(2..40)] {
        let error = case.run_until(&device, pieces).err().unwrap();
        assert!(error.to_string().contains("no more pieces"), "{error}");
        nothing_is_held(&device);
    }
}

#[test]
fn more_rows_than_32_bits_number_are_an_error() {
    let keys = [1u64, 2, 3];
    let error = HostSide::new(HostKeys::U64(&keys), HostValues::Rows, u32::MAX as u64).err();
    assert!(error.unwrap().to_string().contains("2^32"));
    let error = HostSide::new(HostKeys::U64(&keys), HostValues::U32(&[1, 2]), 3).err();
    assert!(error.unwrap().to_string().contains("2 values"));
}

#[test]
fn a_device_that_is_lost_at_any_launch() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_lost"));
    let case = spilling(&mut rng);
    let (mut launch, mut failed) = (1, 0);
    loop {
        let config = DeviceConfig {
            budget_bytes: Some(1 << 20),
            sim: SimConfig {
                lost_at_launch: Some(launch),
                ..SimConfig::default()
            },
            ..DeviceConfig::default()
        };
        let device = Device::open(DeviceKind::Sim, config).unwrap();
        let result = case.run(&device, &|| false);
        nothing_is_held(&device);
        match result {
            Ok((answer, _)) => {
                assert_eq!(answer, case.expected());
                assert!(failed > 3, "{failed} launches");
                return;
            }
            Err(error) => assert!(error.is_lost(), "launch {launch}: {error}"),
        }
        let again = case.run(&device, &|| false);
        assert!(again.is_err_and(|error| error.is_lost()), "after launch {launch}");
        failed += 1;
        launch += rng.random_range(1..60);
    }
}

/// Grants host memory up to a bound.
struct Bounded {
    left_bytes: Cell<u64>,
}

impl Caller for Bounded {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn reserve_host(&self, bytes: u64) -> Result<()> {
        let left = self.left_bytes.get().checked_sub(bytes);
        let left = left.ok_or_else(|| GpuError::OutOfHostMemory("none left".into()))?;
        self.left_bytes.set(left);
        Ok(())
    }
}

#[test]
fn host_memory_that_the_caller_refuses() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_refused"));
    let case = spilling(&mut rng);
    let device = testing::device_with_budget(1 << 20);
    for megabytes in 0.. {
        let caller = Bounded {
            left_bytes: Cell::new(megabytes << 20),
        };
        let result = case.run_for(&device, &caller);
        nothing_is_held(&device);
        match result {
            Ok((answer, _)) => {
                assert_eq!(answer, case.expected());
                assert!(megabytes > 8);
                return;
            }
            result => assert!(is_out_of_memory(&result), "{megabytes} MiB"),
        }
    }
}
