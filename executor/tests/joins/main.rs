//! Every join operator against two plain loops, on random inputs whose seed is printed (`TENON_SEED` repeats one).

mod inputs;
mod reference;
mod run;

use datafusion::common::JoinType;
use inputs::{Case, KeyType};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_executor::options::JoinOperator;

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

/// Runs a case by every operator that can, and compares.
async fn check(case: &Case) {
    let expected = reference::rows(case);
    for operator in [
        JoinOperator::Auto,
        JoinOperator::Ninlj,
        JoinOperator::Smj,
        JoinOperator::Hj,
    ] {
        match run::rows(case, operator).await {
            Ok(rows) => assert_eq!(rows, expected, "{operator:?} of {case:?}"),
            Err(error) => {
                let possible = operator == JoinOperator::Auto || operator == JoinOperator::Ninlj || case.has_keys();
                assert!(!possible, "{operator:?} of {case:?}: {error}");
                assert!(error.to_string().contains("tenon.join_operator"), "{error}");
            }
        }
    }
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
        check(&case).await;
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
        check(&case).await;
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
        check(&case).await;
    }
}
