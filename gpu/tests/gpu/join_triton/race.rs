//! The smallest joins that launch each kernel with several blocks: seconds each under a tool that watches every access,
//! such as `scripts/racecheck-triton.sh`.

use rand::SeedableRng;
use rand::rngs::StdRng;
use tenon_gpu::join::JoinKind;
use tenon_gpu::join::triton::partition::{PartitionInput, Partitioner, PrefixSum, Tuples, partition, prefix_sum};
use tenon_gpu::join::triton::partition::{Places, partition_of};
use tenon_gpu::join::triton::{KeyRange, TableKind, TritonOptions, Wanted};
use tenon_gpu::testing;

use super::reference::{Case, Input, Spread, keys};

/// Chunks of a few blocks.
const CHUNK_ROWS: u64 = 3000;

fn check(seed: &str, spread: Spread, wanted: Wanted, options: TritonOptions) {
    let mut rng = StdRng::seed_from_u64(testing::seed(seed));
    let (build_keys, probe_keys) = keys(&mut rng, spread, 5000, 6000, true);
    let case = Case {
        build: Input::rows(build_keys),
        probe: Input::rows(probe_keys),
        wide: true,
        wanted,
        residual: false,
        options: TritonOptions {
            chunk_rows: Some(CHUNK_ROWS),
            ..options
        },
    };
    let device = testing::device_with_budget(16 << 20);
    case.check(&device);
}

fn memory(kib: u64) -> TritonOptions {
    TritonOptions {
        memory_bytes: Some(kib << 10),
        ..TritonOptions::default()
    }
}

#[test]
fn cached_rows_in_slots() {
    check("race_slots", Spread::Below(9000), Wanted::Aggregate, memory(8 << 10));
}

#[test]
fn cached_rows_in_an_array() {
    let options = TritonOptions {
        key_range: Some(KeyRange { min: 7, count: 5000 }),
        ..memory(8 << 10)
    };
    check("race_array", Spread::Dense(7), Wanted::Aggregate, options);
}

#[test]
fn spilled_rows_and_sums_of_groups() {
    check("race_spilled", Spread::Below(9000), Wanted::Aggregate, memory(400));
}

#[test]
fn spilled_rows_and_lists() {
    let wanted = Wanted::Join(JoinKind::Full);
    check("race_lists", Spread::Below(9000), wanted, memory(400));
}

#[test]
fn many_equal_keys_in_lists() {
    let options = TritonOptions {
        table: Some(TableKind::Chained),
        ..memory(8 << 10)
    };
    check(
        "race_equal",
        Spread::Below(50),
        Wanted::Join(JoinKind::BuildSemi),
        options,
    );
}

#[test]
fn partitioners() {
    let mut rng = StdRng::seed_from_u64(testing::seed("race_partitioners"));
    let device = testing::device_with_budget(256 << 20);
    let stream = device.stream().unwrap();
    let (items, fan_out) = (9000, 64);
    let (mut keys_in, mut values_in) = (
        device.pinned::<u64>(items).unwrap(),
        device.pinned::<u64>(items).unwrap(),
    );
    let (keys, values) = keys(&mut rng, Spread::Below(1 << 40), items, items, true);
    keys_in.copy_from_slice(&keys);
    values_in.copy_from_slice(&values);
    let columns = PartitionInput::Host(&keys_in, &values_in);
    let places = prefix_sum(&stream, columns, fan_out, PrefixSum::Gpu).unwrap();
    let mut tuples = device.pinned::<u64>(2 * Places::room(items, fan_out)).unwrap();
    for algorithm in Partitioner::ALL {
        tuples.fill(0);
        let mut target = Tuples::Host(&mut tuples);
        partition(&stream, algorithm, columns, fan_out, &places, &mut target).unwrap();
        let mut found = Vec::new();
        for (i, (&start, &count)) in places.starts.iter().zip(&places.counts).enumerate() {
            for tuple in tuples[2 * start as usize..2 * (start + count) as usize].chunks_exact(2) {
                assert_eq!(partition_of(tuple[0], fan_out), i as u32, "{algorithm:?}");
                found.push((tuple[0], tuple[1]));
            }
        }
        let mut expected: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert!(found == expected, "{algorithm:?}");
    }
}
