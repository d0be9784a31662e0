//! The choice over a ladder of cases with made-up sizes (`ladder.txt`), and what options and missing facts make of it.
//!
//! `TENON_LADDER_UPDATE=1` writes the ladder anew. Sizes beside it that were measured on an H100 and 16 cores:
//! `bench/results/joins-h100.txt`.

use std::fmt::Write;
use std::path::PathBuf;

use datafusion::common::JoinSide::{self, Left, Right};

use super::*;
use crate::join::cost::{CostParameters, IndexInputs, SideInputs};

const BAND: Predicate = Predicate::Range {
    sorted: Right,
    both_ends: true,
};

fn side(rows: usize) -> SideInputs {
    SideInputs {
        rows: Some(rows),
        row_bytes: 16,
        ..SideInputs::default()
    }
}

fn facts(predicate: Predicate, build_rows: usize, probe_rows: usize) -> CostInputs {
    CostInputs {
        predicate,
        streams: true,
        at_hand: false,
        build: side(build_rows),
        probe: side(probe_rows),
        key_bytes: 4,
        output_rows: None,
        index: None,
        device: DeviceState::Absent("none here".into()),
        cores: 16,
        parameters: CostParameters::default(),
    }
}

fn present(free_bytes: u64, queued_s: f64) -> DeviceState {
    DeviceState::Present {
        simulated: false,
        free_bytes,
        queued_s,
    }
}

fn auto(facts: &CostInputs) -> Choice {
    choose(facts, &JoinOptions::default()).unwrap()
}

/// `HJ streamed`, `gpu SMJ`, `INLJ index`, with the side that is built where that is not the build side.
fn short(choice: &Choice) -> String {
    let mut text = if choice.path.on_gpu {
        "gpu ".to_string()
    } else {
        String::new()
    };
    let _ = write!(text, "{}", choice.path.operator);
    for (set, word) in [(choice.path.pipelined, " streamed"), (choice.path.indexed, " index")] {
        text += if set { word } else { "" };
    }
    text + if choice.path.build == Right && !choice.path.indexed {
        " swapped"
    } else {
        ""
    }
}

fn rows(count: usize) -> String {
    match count {
        0..1024 => count.to_string(),
        1024..0x10_0000 => format!("{}k", count >> 10),
        _ => format!("{}M", count >> 20),
    }
}

fn ladder() -> String {
    const K: usize = 1 << 10;
    const M: usize = 1 << 20;
    let sizes = [
        (10, M),
        (K, K),
        (K, M),
        (M, K),
        (64 * K, M),
        (M, M),
        (M, 16 * M),
        (16 * M, M),
        (16 * M, 16 * M),
        (K, 128 * M),
        (128 * M, 128 * M),
    ];
    let devices = [
        DeviceState::Absent("none here".into()),
        present(60 << 30, 0.0),
        present(64 << 20, 0.0),
        present(60 << 30, 5.0),
    ];
    let mut text = format!(
        "{:<9} {:<7} {:>4} {:>5} {:>5}  {:<16} {:<16} {:<16} {:<16}\n",
        "predicate", "inputs", "key", "build", "probe", "no gpu", "gpu", "gpu full", "gpu busy for 5 s"
    );
    for (name, predicate) in [
        ("equality", Predicate::Equality),
        ("band", BAND),
        ("other", Predicate::Other),
    ] {
        for inputs in ["plain", "sorted", "dense", "indexed"] {
            let plain = inputs == "plain";
            if !plain && (predicate == Predicate::Other || predicate == BAND && inputs == "dense") {
                continue;
            }
            for key_bytes in [4, 8] {
                for (build, probe) in sizes {
                    let mut case = CostInputs {
                        key_bytes,
                        ..facts(predicate, build, probe)
                    };
                    for side in [&mut case.build, &mut case.probe] {
                        side.ascending = inputs == "sorted";
                        side.key_span = (inputs == "dense").then_some(side.rows.unwrap_or(0) as u64);
                    }
                    case.output_rows = (inputs == "indexed").then_some(build);
                    case.index = (inputs == "indexed").then_some(IndexInputs {
                        outer: Left,
                        table_rows: probe,
                    });
                    let _ = write!(
                        text,
                        "{name:<9} {inputs:<7} {key_bytes:>4} {:>5} {:>5} ",
                        rows(build),
                        rows(probe)
                    );
                    for device in &devices {
                        let device = device.clone();
                        let choice = auto(&CostInputs { device, ..case.clone() });
                        let _ = write!(text, " {:<16}", short(&choice));
                    }
                    text.truncate(text.trim_end().len());
                    text.push('\n');
                }
            }
        }
    }
    text
}

#[test]
fn the_ladder_of_cases() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/join/choice/ladder.txt");
    let chosen = ladder();
    if std::env::var_os("TENON_LADDER_UPDATE").is_some() {
        return std::fs::write(path, chosen).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap();
    for (chosen, wanted) in chosen.lines().zip(wanted.lines()) {
        assert_eq!(chosen, wanted, "TENON_LADDER_UPDATE=1 writes the ladder anew");
    }
    assert_eq!(chosen.lines().count(), wanted.lines().count());
}

#[test]
fn without_sizes_the_usual_operator_runs_on_the_cpu() {
    for (predicate, operator, streamed, build) in [
        (Predicate::Equality, Operator::Hj, true, Left),
        (BAND, Operator::Smj, false, Right),
        (Predicate::Other, Operator::Ninlj, false, Left),
    ] {
        for device in [DeviceState::Absent("none here".into()), present(60 << 30, 0.0)] {
            let case = CostInputs {
                build: SideInputs::default(),
                device,
                ..facts(predicate, 0, 1 << 30)
            };
            let choice = auto(&case);
            let found = (
                choice.path.operator,
                choice.path.pipelined,
                choice.path.build,
                choice.path.on_gpu,
            );
            assert_eq!(found, (operator, streamed, build, false));
        }
    }
}

#[test]
fn keys_that_cannot_stream_have_their_smaller_side_built() {
    for (build, probe, side) in [(1_000_000, 10, Right), (10, 1_000_000, Left)] {
        let case = CostInputs {
            streams: false,
            ..facts(Predicate::Equality, build, probe)
        };
        let choice = auto(&case);
        assert_eq!(
            (choice.path.operator, choice.path.pipelined, choice.path.build),
            (Operator::Hj, false, side)
        );
        assert!(choice.reason.contains("both sides at hand"));
    }
}

#[test]
fn reasons_say_what_it_costs() {
    let reason = |predicate, rows, device| {
        auto(&CostInputs {
            device,
            ..facts(predicate, rows, rows)
        })
        .reason
    };
    let idle = || present(60 << 30, 0.0);
    assert_eq!(
        reason(Predicate::Equality, 1000, DeviceState::Absent("none here".into())),
        "equality"
    );
    let small = reason(Predicate::Equality, 1000, idle());
    assert!(small.contains("with transfers"), "{small}");
    let large = reason(Predicate::Equality, 16 << 20, idle());
    assert!(large.contains("fits 64 GB") && large.contains("ms against"), "{large}");
    let full = reason(BAND, 16 << 20, present(1 << 20, 0.0));
    assert!(full.contains("exceeds 1048 kB of the GPU"), "{full}");
    let busy = reason(Predicate::Equality, 16 << 20, present(60 << 30, 10.0));
    assert!(busy.contains("after 10000.0 ms of other work"), "{busy}");
    let simulated = DeviceState::Present {
        simulated: true,
        free_bytes: 60 << 30,
        queued_s: 0.0,
    };
    assert_eq!(reason(Predicate::Equality, 16 << 20, simulated), "equality");
}

#[test]
fn a_state_beyond_the_device_is_tritons() {
    let chosen = |predicate, rows: usize, free_bytes| {
        let choice = auto(&CostInputs {
            device: present(free_bytes, 0.0),
            ..facts(predicate, rows, rows)
        });
        (choice.path.operator, choice.path.on_gpu)
    };
    let state = gpu_bytes(&facts(Predicate::Equality, 16 << 20, 16 << 20)).unwrap();
    assert_eq!(chosen(Predicate::Equality, 16 << 20, 1 << 20), (Operator::Triton, true));
    // A state that all but fits spills little.
    assert_eq!(
        chosen(Predicate::Equality, 16 << 20, state - 1),
        (Operator::Triton, true)
    );
    // INLJ's pairs come in the order of the probe side, which spares the host more than HJ spares the device.
    assert_eq!(chosen(Predicate::Equality, 16 << 20, state), (Operator::Inlj, true));
    assert_eq!(chosen(Predicate::Equality, 1 << 10, state), (Operator::Hj, false));
    assert_eq!(chosen(Predicate::Equality, 16 << 20, 1 << 10), (Operator::Hj, false));
    assert!(!chosen(BAND, 16 << 20, 1 << 20).1);
}

/// The same join, foreseen with estimates and then known, with stale, absent or true statistics.
#[test]
fn true_sizes_decide_at_run_time() {
    let device = || present(60 << 30, 0.0);
    let planned = auto(&CostInputs {
        device: device(),
        ..facts(Predicate::Equality, 20_000, 100_000)
    });
    assert!(!planned.path.on_gpu, "{planned}");
    for factor in [10, 100, 1000] {
        let known = CostInputs {
            device: device(),
            at_hand: true,
            ..facts(Predicate::Equality, 20_000 * factor, 100_000 * factor)
        };
        let of_true_sizes = auto(&known);
        assert!(!of_true_sizes.path.pipelined);
        // Past a million rows the bus costs less than the CPU's work.
        assert!(of_true_sizes.path.on_gpu, "{of_true_sizes}");
    }
    // The side that was the smaller one by the statistics is not.
    let known = CostInputs {
        at_hand: true,
        ..facts(Predicate::Equality, 5_000_000, 1000)
    };
    assert_eq!(auto(&known).path.build, Right);
}

#[test]
fn keys_without_duplicates_bound_the_pairs() {
    let mut case = facts(Predicate::Equality, 1000, 500);
    case.output_rows = Some(1_000_000);
    assert_eq!(case.pairs_expected(), 1_000_000);
    case.build.unique = true;
    assert_eq!(case.pairs_expected(), 500);
    case.predicate = BAND;
    assert_eq!(case.pairs_expected(), 1_000_000);
}

#[test]
fn forced_operators_and_devices_run_or_say_why_not() {
    let forced = |operator, predicate| {
        let options = JoinOptions {
            operator,
            ..JoinOptions::default()
        };
        choose(&facts(predicate, 100, 100), &options).map(|choice| (choice.path.operator, choice.path.pipelined))
    };
    for predicate in [Predicate::Equality, BAND, Predicate::Other] {
        assert_eq!(forced(JoinOperator::Ninlj, predicate), Ok((Operator::Ninlj, false)));
    }
    assert_eq!(forced(JoinOperator::Hj, Predicate::Equality), Ok((Operator::Hj, false)));
    assert_eq!(
        forced(JoinOperator::Streamed, Predicate::Equality),
        Ok((Operator::Hj, true))
    );
    assert_eq!(forced(JoinOperator::Smj, BAND), Ok((Operator::Smj, false)));
    assert_eq!(forced(JoinOperator::Inlj, BAND), Ok((Operator::Inlj, false)));
    let triton = forced(JoinOperator::Triton, Predicate::Equality);
    assert_eq!(triton, Ok((Operator::Triton, false)));
    for operator in [JoinOperator::Hj, JoinOperator::Streamed, JoinOperator::Triton] {
        assert!(forced(operator, BAND).is_err_and(|why| why.contains("equality")));
    }
    for operator in [JoinOperator::Smj, JoinOperator::Inlj] {
        assert!(forced(operator, Predicate::Other).is_err_and(|why| why.contains("range")));
    }
    let gpu = JoinOptions {
        device: DeviceChoice::Gpu,
        ..JoinOptions::default()
    };
    let absent = choose(&facts(BAND, 100, 100), &gpu);
    assert!(absent.is_err_and(|why| why == "tenon.device = 'gpu': no GPU: none here"));
    let device = DeviceState::Present {
        simulated: true,
        free_bytes: 1 << 30,
        queued_s: 0.0,
    };
    let here = CostInputs {
        device,
        ..facts(Predicate::Equality, 1, 1)
    };
    assert!(choose(&here, &gpu).is_ok_and(|choice| choice.path.on_gpu && !choice.path.pipelined));
}

#[test]
fn an_index_that_is_asked_for_is_used() {
    let options = JoinOptions {
        operator: JoinOperator::Inlj,
        ..JoinOptions::default()
    };
    let case = CostInputs {
        index: Some(IndexInputs {
            outer: JoinSide::Right,
            table_rows: 10_000,
        }),
        ..facts(Predicate::Equality, 10_000, 1 << 24)
    };
    assert!(choose(&case, &options).unwrap().path.indexed);
    assert!(!auto(&case).path.indexed);
}

/// A query under way goes on without its device, and says so.
#[test]
fn a_lost_device() {
    let lost = CostInputs {
        device: DeviceState::Lost("the GPU is lost: a test".into()),
        ..facts(Predicate::Equality, 16 << 20, 16 << 20)
    };
    let gpu = JoinOptions {
        device: DeviceChoice::Gpu,
        ..JoinOptions::default()
    };
    for (options, said) in [
        (gpu, "fell back to cpu: the GPU is lost: a test"),
        (JoinOptions::default(), "the GPU is lost: a test"),
    ] {
        let choice = choose(&lost, &options).unwrap();
        assert!(!choice.path.on_gpu && choice.reason.contains(said), "{choice}");
    }
}
