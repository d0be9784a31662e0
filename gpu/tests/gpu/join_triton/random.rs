//! Random joins, and those that a fault would show in: sizes about a chunk, skew, budgets about the state.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenon_gpu::join::JoinKind;
use tenon_gpu::join::triton::{KeyRange, TableKind, TritonOptions, Wanted};
use tenon_gpu::{Device, testing};

use super::reference::{Case, Input, Spread, keys};

/// Budgets: far below the states of the tests, about them, above.
const BUDGETS: [u64; 4] = [40 << 10, 64 << 10, 160 << 10, 1 << 20];

fn options(rng: &mut StdRng, memory_bytes: u64, range: Option<KeyRange>) -> TritonOptions {
    TritonOptions {
        memory_bytes: Some(memory_bytes),
        key_range: range.filter(|_| rng.random_bool(0.6)),
        gather_below_bytes: rng.random_bool(0.3).then_some(0),
        partitions: rng.random_bool(0.3).then(|| 1 << rng.random_range(1..8)),
        ..TritonOptions::default()
    }
}

/// A case of random inputs of these sizes.
fn case(rng: &mut StdRng, spread: Spread, (build, probe): (u64, u64), wanted: Wanted, memory_bytes: u64) -> Case {
    let payloads = matches!(wanted, Wanted::Aggregate | Wanted::Join(JoinKind::Inner)) && rng.random_bool(0.5);
    let wide = payloads || rng.random_bool(0.5);
    let (build_keys, probe_keys) = keys(rng, spread, build, probe, wide);
    let mut input = |keys| {
        let input = Input::rows(keys);
        match rng.random_range(0..3) {
            _ if payloads => input.with_payloads(rng),
            0 => input.with_nulls(rng),
            _ => input,
        }
    };
    let (build, probe) = (input(build_keys), input(probe_keys));
    let range = match spread {
        Spread::Dense(min) => Some(KeyRange {
            min,
            count: build.row_count.max(1),
        }),
        _ => None,
    };
    Case {
        residual: !payloads && !wide && rng.random_bool(0.3),
        build,
        probe,
        wide,
        wanted,
        options: options(rng, memory_bytes, range),
    }
}

fn sim() -> Device {
    testing::device_with_budget(64 << 20)
}

#[test]
fn random_joins_of_all_kinds_and_budgets() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_random"));
    let device = sim();
    let (mut spilled, mut cached) = (0, 0);
    for round in 0..3 {
        let wanted = JoinKind::ALL
            .map(Wanted::Join)
            .into_iter()
            .chain([Wanted::Aggregate; 4]);
        for wanted in wanted {
            let spread = match rng.random_range(0..4) {
                0 => Spread::Dense(rng.random_range(0..1000)),
                1 => Spread::Below(2000),
                2 => Spread::Extremes,
                _ => Spread::Below(1 << 30),
            };
            let sizes = (rng.random_range(0..12_000), rng.random_range(0..6000));
            let memory_bytes = BUDGETS[(round + rng.random_range(0..2)) % BUDGETS.len()];
            let result = case(&mut rng, spread, sizes, wanted, memory_bytes).check(&device);
            spilled += u32::from(result.spilled_rows > 0);
            cached += u32::from(result.spilled_rows == 0);
            assert!(result.memory_bytes <= memory_bytes);
        }
    }
    assert!(spilled > 5 && cached > 5, "{spilled} joins spilled, {cached} did not");
    assert_eq!(device.pool().in_use(), 0);
}

#[test]
fn sizes_about_a_chunk() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_sizes"));
    let device = sim();
    let sizes = [0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1023, 1025];
    for build in sizes {
        for probe in [0, 1, 64, 65, 130] {
            let (build_keys, probe_keys) = keys(&mut rng, Spread::Below(100), build, probe, false);
            let case = Case {
                build: Input::rows(build_keys),
                probe: Input::rows(probe_keys),
                wide: false,
                wanted: Wanted::Join(JoinKind::Full),
                residual: false,
                options: TritonOptions {
                    memory_bytes: Some(64 << 10),
                    chunk_rows: Some(64),
                    ..TritonOptions::default()
                },
            };
            case.check(&device);
        }
    }
}

#[test]
fn skew_of_one_side_and_of_both() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_skew"));
    let device = sim();
    for (spread, build, probe) in [
        (Spread::One, 1500, 40),
        (Spread::One, 40, 3000),
        (Spread::Zipf, 1500, 1500),
    ] {
        for wanted in [
            Wanted::Aggregate,
            Wanted::Join(JoinKind::Inner),
            Wanted::Join(JoinKind::ProbeSemi),
            Wanted::Join(JoinKind::BuildSemi),
            Wanted::Join(JoinKind::BuildMark),
        ] {
            for memory_bytes in [64 << 10, 1 << 20] {
                case(&mut rng, spread, (build, probe), wanted, memory_bytes).check(&device);
            }
        }
    }
    // One key has all rows: they stay on the device if they fit, and count and sum take no pairs' time.
    let mut hot = case(&mut rng, Spread::One, (20_000, 20_000), Wanted::Aggregate, 1 << 20);
    hot.residual = false;
    let result = hot.check(&device);
    assert_eq!((result.table, result.spilled_rows), (TableKind::Chained, 0));
    hot.options.memory_bytes = Some(300 << 10);
    assert!(hot.check(&device).spilled_rows > 0);
    // A look-up does not flag again what an earlier one of the same key has flagged: that would take 36 million steps.
    hot.options.memory_bytes = Some(2 << 20);
    for kind in [JoinKind::BuildSemi, JoinKind::BuildAnti] {
        hot.wanted = Wanted::Join(kind);
        for input in [&mut hot.build, &mut hot.probe] {
            *input = Input::rows(input.keys[..6000].to_vec());
        }
        assert_eq!(hot.check(&device).table, TableKind::Chained);
    }
}

#[test]
fn budgets_below_at_and_above_the_state() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_budgets"));
    let device = sim();
    let rows = 12_000u64;
    let table = rows * 16 * 4 / 3;
    let (build_keys, probe_keys) = keys(&mut rng, Spread::Below(1 << 40), rows, 9000, true);
    let mut case = Case {
        build: Input::rows(build_keys).with_payloads(&mut rng),
        probe: Input::rows(probe_keys).with_payloads(&mut rng),
        wide: true,
        wanted: Wanted::Aggregate,
        residual: false,
        options: TritonOptions::default(),
    };
    for i in 0..case.probe.keys.len() {
        if i % 2 == 0 {
            case.probe.keys[i] = case.build.keys[i];
        }
    }
    let mut shares = Vec::new();
    for percent in [25, 50, 75, 90, 100, 110, 130, 200, 300] {
        case.options.memory_bytes = Some(table * percent / 100);
        let result = case.check(&device);
        shares.push(result.cached_share);
    }
    assert!(shares.is_sorted() && shares[0] < 0.4 && shares[8] == 1.0, "{shares:?}");
}

#[test]
fn equal_hashes_and_both_tables() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_equal_hashes"));
    let device = sim();
    for table in [TableKind::Linear, TableKind::Perfect] {
        for memory_bytes in [64 << 10, 1 << 20] {
            let mut case = case(
                &mut rng,
                Spread::Dense(5),
                (1100, 900),
                Wanted::Join(JoinKind::Full),
                memory_bytes,
            );
            case.wide = false;
            case.residual = false;
            case.options.equal_hashes = true;
            case.options.table = Some(table);
            case.check(&device);
        }
    }
}

#[test]
fn a_chained_table_if_it_is_asked_for() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_chained"));
    let device = sim();
    for wanted in JoinKind::ALL.map(Wanted::Join).into_iter().chain([Wanted::Aggregate]) {
        let mut case = case(&mut rng, Spread::Zipf, (900, 700), wanted, 1 << 20);
        case.options.table = Some(TableKind::Chained);
        let result = case.check(&device);
        assert_eq!((result.table, result.spilled_rows), (TableKind::Chained, 0));
    }
}

#[test]
fn keys_outside_of_the_range_that_was_promised() {
    let mut rng = StdRng::seed_from_u64(testing::seed("triton_range"));
    let device = sim();
    for memory_bytes in [64 << 10, 1 << 20] {
        let mut case = case(
            &mut rng,
            Spread::Below(3000),
            (2000, 2000),
            Wanted::Aggregate,
            memory_bytes,
        );
        case.residual = false;
        case.options.key_range = Some(KeyRange { min: 100, count: 2000 });
        let result = case.check(&device);
        // Rows outside have no place in an array; a chained table takes them, too, where it fits.
        assert!(result.table != TableKind::Linear && (memory_bytes == 64 << 10 || result.table == TableKind::Chained));
    }
}
