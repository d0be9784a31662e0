//! Inner joins without output columns, of which the device need only tell the number of pairs.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_plan::collect;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_executor::join::ChunkLimits;
use tenon_executor::options::{DeviceChoice, JoinOptions};

use super::inputs::{Case, KeyType, Range};
use super::{OPERATORS, reference, run, seed, use_simulator};

/// Every operator counts as many pairs as two plain loops, and only counts come from the device where it decides alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    let mut only_counted = 0;
    // Some draws have no key that the device compares, or no pairs: more are made until one has both.
    for round in 0..64 {
        if round >= 8 && only_counted > 0 {
            break;
        }
        let mut case = Case::draw(&mut rng, JoinType::Inner);
        if round % 2 == 0 {
            case.keys = (0..rng.random_range(1..3)).map(|_| KeyType::draw(&mut rng)).collect();
        } else {
            case.range = Range::draw(&mut rng);
            case.range_type = KeyType::draw(&mut rng);
        }
        case.fill(&mut rng);
        if reference::may_fail(&case) {
            continue;
        }
        let expected = reference::rows(&case).len();
        let gpu_memory_limit_bytes = [None, Some(64 << 10)][rng.random_range(0..2)];
        let possible = OPERATORS
            .into_iter()
            .filter(|&operator| run::is_possible(&case, operator));
        for (operator, device) in possible.flat_map(|o| [(o, DeviceChoice::Cpu), (o, DeviceChoice::Gpu)]) {
            let options = JoinOptions {
                operator,
                device,
                gpu_memory_limit_bytes,
                ..JoinOptions::default()
            };
            let plan = run::counting(&case, options).unwrap();
            let context = Arc::new(run::context(options, ChunkLimits::default()));
            let batches = collect(Arc::clone(&plan), context).await.unwrap();
            assert!(batches.iter().all(|batch| batch.num_columns() == 0));
            let count: usize = batches.iter().map(|batch| batch.num_rows()).sum();
            let shown = run::shown(&plan);
            assert_eq!(count, expected, "{options:?} of {case:?}: {shown}");
            let metrics = plan.metrics().unwrap();
            let seen = metrics
                .sum_by_name("candidate_pairs")
                .map_or(0, |pairs| pairs.as_usize());
            only_counted += usize::from(expected > 0 && shown.contains(" on gpu: ") && seen == 0);
        }
    }
    assert!(only_counted > 0);
}

/// The bytes that come back do not grow with the pairs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_is_eight_bytes() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    let mut case = Case::draw(&mut rng, JoinType::Inner);
    (case.rows, case.span, case.null_share) = ((300, 700), 3, 0.0);
    (case.keys, case.residual) = (vec![KeyType::Int64], super::inputs::Residual::Less);
    case.fill(&mut rng);
    let options = JoinOptions {
        device: DeviceChoice::Gpu,
        ..JoinOptions::default()
    };
    let plan = run::counting(&case, options).unwrap();
    let context = Arc::new(run::context(options, ChunkLimits::default()));
    let batches = collect(Arc::clone(&plan), context).await.unwrap();
    let count: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(count, reference::rows(&case).len());
    let bytes = plan.metrics().unwrap().sum_by_name("bytes_from_gpu").unwrap();
    assert_eq!(bytes.as_usize(), 8, "{}", run::shown(&plan));
}
