//! Every join operator against two plain loops, on random inputs whose seed is printed (`TENON_SEED` repeats one).

mod counts;
mod inputs;
mod reference;
mod run;
mod sizes;
mod streaming;

use datafusion::common::JoinType;
use inputs::{Case, KeyType, Residual};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_executor::device::{DeviceWish, configure};
use tenon_executor::options::{DeviceChoice, JoinOperator, JoinOptions};
use tenon_gpu::DeviceKind;

const JOIN_TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

fn seed() -> u64 {
    let seed = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    seed
}

const OPERATORS: [JoinOperator; 7] = [
    JoinOperator::Auto,
    JoinOperator::Ninlj,
    JoinOperator::Inlj,
    JoinOperator::Smj,
    JoinOperator::Hj,
    JoinOperator::Streamed,
    JoinOperator::Triton,
];

/// Runs a case by every operator that can, and compares.
async fn check(case: &Case, device: DeviceChoice, gpu_memory_limit_bytes: Option<usize>) {
    if reference::may_fail(case) {
        return check_failing(case, device).await;
    }
    let expected = reference::rows(case);
    for operator in OPERATORS {
        let options = JoinOptions {
            operator,
            device,
            gpu_memory_limit_bytes,
            ..JoinOptions::default()
        };
        match run::rows(case, options).await {
            Ok((rows, shown)) => {
                assert_eq!(rows, expected, "{options:?} of {case:?}: {shown}");
                let compiles = case.residual != Residual::Joined && case.range_type.has_order();
                let roomy = gpu_memory_limit_bytes.is_none();
                assert!(
                    !(compiles && roomy && shown.contains("on the host")),
                    "{options:?} of {case:?}: {shown}"
                );
                assert!(run::is_possible(case, operator), "{options:?} of {case:?}: {shown}");
                if operator == JoinOperator::Triton && device == DeviceChoice::Gpu {
                    assert!(shown.contains("Triton on gpu"), "{options:?} of {case:?}: {shown}");
                }
            }
            Err(error) => {
                assert!(!run::is_possible(case, operator), "{options:?} of {case:?}: {error}");
                assert!(error.to_string().contains("tenon.join_operator"), "{error}");
            }
        }
    }
}

/// Where the condition has no value on some pair, that is the error of the join, or the pair was never asked for.
async fn check_failing(case: &Case, device: DeviceChoice) {
    for operator in OPERATORS {
        let options = JoinOptions {
            operator,
            device,
            gpu_memory_limit_bytes: None,
            ..JoinOptions::default()
        };
        if let Err(error) = run::rows(case, options).await {
            let error = error.to_string();
            let expected = ["Divide by zero", "tenon.join_operator"];
            assert!(
                expected.iter().any(|part| error.contains(part)),
                "{options:?} of {case:?}: {error}"
            );
        }
    }
}

/// The simulator stands for the device in this process, unless `TENON_DEVICE` names one.
fn use_simulator() {
    configure(DeviceWish {
        kind: std::env::var_os("TENON_DEVICE").is_none().then_some(DeviceKind::Sim),
        budget_bytes: Some(1 << 30),
        pinned_budget_bytes: None,
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equality() {
    let mut rng = StdRng::seed_from_u64(seed());
    for _ in 0..60 {
        let join_type = JOIN_TYPES[rng.random_range(0..JOIN_TYPES.len())];
        let mut case = Case::draw(&mut rng, join_type);
        case.keys = (0..rng.random_range(1..4)).map(|_| KeyType::draw(&mut rng)).collect();
        case.null_equal = rng.random_bool(0.2);
        case.fill(&mut rng);
        check(&case, DeviceChoice::Cpu, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_in() {
    let mut rng = StdRng::seed_from_u64(seed());
    for _ in 0..30 {
        let mut case = Case::draw(&mut rng, JoinType::LeftAnti);
        case.keys = vec![KeyType::draw(&mut rng)];
        case.null_aware = true;
        case.null_share = [0.0, 0.01, 0.3][rng.random_range(0..3)];
        case.fill(&mut rng);
        check(&case, DeviceChoice::Cpu, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_and_others() {
    let mut rng = StdRng::seed_from_u64(seed());
    for _ in 0..60 {
        let join_type = JOIN_TYPES[rng.random_range(0..JOIN_TYPES.len())];
        let mut case = Case::draw(&mut rng, join_type);
        case.range = inputs::Range::draw(&mut rng);
        case.range_type = KeyType::draw(&mut rng);
        case.fill(&mut rng);
        check(&case, DeviceChoice::Cpu, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_device() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    for round in 0..24 {
        let join_type = JOIN_TYPES[rng.random_range(0..JOIN_TYPES.len())];
        let mut case = Case::draw(&mut rng, join_type);
        if round % 2 == 0 {
            case.keys = (0..rng.random_range(1..3)).map(|_| KeyType::draw(&mut rng)).collect();
        } else {
            case.range = inputs::Range::draw(&mut rng);
            case.range_type = KeyType::draw(&mut rng);
        }
        case.fill(&mut rng);
        let limit = [None, Some(64 << 10), Some(200 << 10)][rng.random_range(0..3)];
        check(&case, DeviceChoice::Gpu, limit).await;
    }
}

/// A condition without a device form: the same answer, and EXPLAIN says which part is to blame.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_on_the_host() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    for (keys, operator, reason) in [
        (vec![], "NINLJ on cpu", "fell back to cpu: no device form of ||"),
        (
            vec![KeyType::Bool],
            "HJ on gpu",
            "condition on the host: no device form of ||",
        ),
    ] {
        let mut case = Case::draw(&mut rng, JoinType::Inner);
        (case.rows, case.keys, case.residual) = ((300, 700), keys, Residual::Joined);
        case.fill(&mut rng);
        let options = JoinOptions {
            operator: if case.has_keys() {
                JoinOperator::Hj
            } else {
                JoinOperator::Auto
            },
            device: DeviceChoice::Gpu,
            gpu_memory_limit_bytes: None,
            ..JoinOptions::default()
        };
        let (rows, shown) = run::rows(&case, options).await.unwrap();
        assert_eq!(rows, reference::rows(&case), "{case:?}");
        assert!(shown.contains(operator) && shown.contains(reason), "{shown}");
    }
}

/// Too little device memory: the same answer from the CPU, and EXPLAIN says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_room_on_the_device() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    // One that has an answer: some conditions divide by zero.
    let case = loop {
        let mut case = Case::draw(&mut rng, JoinType::Full);
        case.rows = (300, 700);
        case.keys = vec![KeyType::Int64];
        case.fill(&mut rng);
        if !reference::may_fail(&case) {
            break case;
        }
    };
    let options = JoinOptions {
        device: DeviceChoice::Gpu,
        gpu_memory_limit_bytes: Some(100),
        ..JoinOptions::default()
    };
    let (rows, shown) = run::rows(&case, options).await.unwrap();
    assert_eq!(rows, reference::rows(&case), "{case:?}");
    assert!(
        shown.contains("HJ on cpu") && shown.contains("fell back to cpu"),
        "{shown}"
    );
}
