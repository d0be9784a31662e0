//! All joins against a plain nested loop, on inputs drawn at random.
//!
//! A new operator is one line in [`operators`]: it then meets every kind of join, duplicates, skew, nulls, conditions
//! and tiny outputs.

mod case;
mod columns;
mod from_host;
mod operators;
mod ordered;
mod run;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tenon_gpu::{Device, DeviceConfig, SimConfig, testing};

use case::{Case, Limits};

/// Cases of one run; each meets every operator that takes it.
const CASES: usize = 150;

/// Device memory of a join whose state may be larger.
const BUDGETS: [u64; 3] = [64 << 10, 200 << 10, 4 << 20];

/// The device under test. The simulator runs threads in another order in each launch: what a kernel leaves to chance,
/// such as the order within a list, must not matter to the next.
fn device(seed: u64) -> Device {
    let config = DeviceConfig {
        budget_bytes: Some(testing::TEST_BUDGET_BYTES),
        sim: SimConfig {
            order_seed: Some(seed | 1),
            ..SimConfig::default()
        },
        ..DeviceConfig::default()
    };
    Device::open(testing::device_kind(), config).unwrap()
}

#[test]
fn every_join_finds_what_a_nested_loop_finds() {
    let seed = testing::seed("joins");
    let device = device(seed);
    {
        let stream = device.stream().unwrap();
        let mut seeds = StdRng::seed_from_u64(seed);
        for number in 0..CASES {
            let mut rng = StdRng::seed_from_u64(seeds.random());
            let limits = if number % 30 == 29 {
                Limits::LARGE
            } else {
                Limits::SMALL
            };
            let case = Case::draw(&mut rng, limits);
            let expected = case.expected();
            let nested = if case.build.len() * case.probe.len() < 2 << 20 {
                operators::NESTED
            } else {
                &[]
            };
            for (name, operator) in operators::GPU.iter().chain(nested) {
                let found = run::on_device(&stream, &case, *operator);
                expected.compare(&found, name, number, &case);
            }
            let memory_bytes = *BUDGETS.choose(&mut rng).unwrap();
            let found = run::out_of_core(&stream, &case, memory_bytes);
            expected.compare(&found, &format!("Triton join in {memory_bytes} bytes"), number, &case);
            for (name, operator) in operators::CPU {
                let found = run::on_cpu(&case, *operator);
                expected.compare(&found, name, number, &case);
            }
        }
    }
    assert_eq!(device.pool().in_use(), 0);
}
