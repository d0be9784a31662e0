//! All joins against a plain nested loop, on inputs drawn at random.
//!
//! A new operator is one line in [`operators`]: it then meets every kind of join, duplicates, skew, nulls, conditions
//! and tiny outputs.

mod case;
mod columns;
mod operators;
mod ordered;
mod run;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenon_gpu::testing;

use case::{Case, Limits};

/// Cases of one run; each meets every operator that takes it.
const CASES: usize = 150;

#[test]
fn every_join_finds_what_a_nested_loop_finds() {
    let device = testing::device();
    {
        let stream = device.stream().unwrap();
        let mut seeds = StdRng::seed_from_u64(testing::seed("joins"));
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
            for (name, operator) in operators::CPU {
                let found = run::on_cpu(&case, *operator);
                expected.compare(&found, name, number, &case);
            }
        }
    }
    assert_eq!(device.pool().in_use(), 0);
}
