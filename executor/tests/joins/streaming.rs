//! Pairs that come from the device while it goes on: small pieces, a device that fails after some of them, clients that
//! are slow or gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::JoinType;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::{StreamExt, TryStreamExt};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_executor::join::ChunkLimits;
use tenon_executor::options::{DeviceChoice, JoinOperator, JoinOptions};

use super::inputs::{Case, KeyType, Range, Residual};
use super::{JOIN_TYPES, reference, run, seed, use_simulator};

const FOREVER: Duration = Duration::from_secs(600);

/// Waits for what other threads are about to do.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn options(operator: JoinOperator, gpu_memory_limit_bytes: Option<usize>) -> JoinOptions {
    JoinOptions {
        operator,
        device: DeviceChoice::Gpu,
        gpu_memory_limit_bytes,
        ..JoinOptions::default()
    }
}

/// Some five thousand pairs of equal keys.
fn many_pairs(rng: &mut StdRng, join_type: JoinType) -> Case {
    let mut case = Case::draw(rng, join_type);
    (case.rows, case.span, case.null_share) = ((300, 700), 40, 0.1);
    (case.keys, case.residual) = (vec![KeyType::Int64], Residual::None);
    case.fill(rng);
    case
}

/// A join under way.
struct Running {
    case: Case,
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    streams: Vec<SendableRecordBatchStream>,
}

impl Running {
    fn start(case: Case, options: JoinOptions, streaming: ChunkLimits, partitions: usize) -> Self {
        let plan = run::planned(&case, options).unwrap();
        let context = Arc::new(run::context(options, streaming));
        let streams = (0..partitions).map(|at| plan.execute(at, Arc::clone(&context)).unwrap());
        Self {
            streams: streams.collect(),
            case,
            plan,
            context,
        }
    }

    async fn first_batch(&mut self) -> RecordBatch {
        self.streams[0].next().await.unwrap().unwrap()
    }

    /// Whether the device has come to its end.
    fn is_found(&self) -> bool {
        let metrics = self.plan.metrics().unwrap();
        metrics.sum_by_name("gpu_passes").is_some()
    }

    /// Reads the streams to their end, and compares with the reference; `batches` have been read before.
    async fn finish(mut self, mut batches: Vec<RecordBatch>) -> String {
        let rest = self.streams.drain(..).map(|stream| stream.try_collect::<Vec<_>>());
        batches.extend(futures::future::try_join_all(rest).await.unwrap().into_iter().flatten());
        let rows = run::sorted_rows(&self.case, &batches);
        assert_eq!(rows, reference::rows(&self.case), "{:?}", self.case);
        run::shown(&self.plan)
    }
}

/// Every kind of join, in pieces of a few pairs, some of which the device fails after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tiny_pieces() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    let operators = [
        JoinOperator::Auto,
        JoinOperator::Ninlj,
        JoinOperator::Inlj,
        JoinOperator::Smj,
        JoinOperator::Hj,
        JoinOperator::Triton,
    ];
    let mut failures = 0;
    for round in 0..40 {
        let join_type = match round % 2 {
            0 => JOIN_TYPES[rng.random_range(0..4)],
            _ => JOIN_TYPES[rng.random_range(0..JOIN_TYPES.len())],
        };
        let mut case = Case::draw(&mut rng, join_type);
        match round % 3 {
            0 => {
                case.range = Range::draw(&mut rng);
                case.range_type = KeyType::draw(&mut rng);
            }
            _ => case.keys = (0..rng.random_range(1..3)).map(|_| KeyType::draw(&mut rng)).collect(),
        }
        case.fill(&mut rng);
        if reference::may_fail(&case) {
            continue;
        }
        let possible: Vec<_> = operators
            .into_iter()
            .filter(|&operator| run::is_possible(&case, operator))
            .collect();
        let operator = possible[rng.random_range(0..possible.len())];
        let options = options(operator, [None, Some(64 << 10)][rng.random_range(0..2)]);
        let streaming = ChunkLimits {
            chunk_pairs: [20, 64, 500][rng.random_range(0..3)],
            waiting_pairs: [1, 200, 100_000][rng.random_range(0..3)],
            patience: [Duration::ZERO, FOREVER][rng.random_range(0..2)],
            fails_after: [None, Some(0), Some(1), Some(2), Some(7)][rng.random_range(0..5)],
        };
        let context = run::context(options, streaming);
        let (rows, shown) = run::rows_within(&case, options, context).await.unwrap();
        assert_eq!(
            rows,
            reference::rows(&case),
            "{options:?} {streaming:?} of {case:?}: {shown}"
        );
        failures += usize::from(shown.contains("told to fail"));
    }
    println!("{failures} of the joins failed on the device");
}

/// The device fails after some pieces have been taken: each row comes once, and EXPLAIN says who found the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_after_some_pieces() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    for join_type in [JoinType::Inner, JoinType::Full] {
        for operator in [
            JoinOperator::Smj,
            JoinOperator::Hj,
            JoinOperator::Triton,
            JoinOperator::Auto,
        ] {
            for pieces in [0, 1, 6] {
                let case = many_pairs(&mut rng, join_type);
                let options = options(operator, None);
                // Once the pieces have been pushed all but one of them have been taken.
                let streaming = ChunkLimits {
                    chunk_pairs: 100,
                    waiting_pairs: 1,
                    patience: FOREVER,
                    fails_after: Some(pieces),
                };
                let shown = Running::start(case, options, streaming, 2).finish(vec![]).await;
                let expected = match operator {
                    // Memory that has run out is the Triton join's case.
                    JoinOperator::Auto => "instead of HJ: out of GPU memory",
                    _ => "fell back to cpu: ",
                };
                assert!(
                    shown.contains(expected) && shown.contains("told to fail"),
                    "{operator:?}: {shown}"
                );
            }
        }
    }
}

/// The first rows are there while the device's thread still waits for room.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn rows_before_the_device_is_done() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    for (operator, limit) in [
        (JoinOperator::Hj, None),
        (JoinOperator::Smj, None),
        (JoinOperator::Triton, Some(64 << 10)),
    ] {
        let streaming = ChunkLimits {
            chunk_pairs: 50,
            waiting_pairs: 100,
            patience: FOREVER,
            fails_after: None,
        };
        let case = many_pairs(&mut rng, JoinType::Inner);
        let mut running = Running::start(case, options(operator, limit), streaming, 2);
        let first = running.first_batch().await;
        assert!(first.num_rows() > 0);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!running.is_found(), "{operator:?}");
        let plan = Arc::clone(&running.plan);
        running.finish(vec![first]).await;
        assert!(plan.metrics().unwrap().sum_by_name("gpu_passes").is_some());
    }
}

/// A client that reads no further does not keep the device: pairs pile up in the query's memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn slow_clients() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    let streaming = ChunkLimits {
        chunk_pairs: 50,
        waiting_pairs: 100,
        patience: Duration::from_millis(30),
        fails_after: None,
    };
    let case = many_pairs(&mut rng, JoinType::Left);
    let mut running = Running::start(case, options(JoinOperator::Hj, None), streaming, 2);
    let first = running.first_batch().await;
    until("the device waits for the client", || running.is_found()).await;
    running.finish(vec![first]).await;
}

/// All rows come out of the partitions that somebody polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn partitions_that_nobody_polls() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    for executed in [1, 2] {
        let streaming = ChunkLimits {
            chunk_pairs: 50,
            waiting_pairs: 1,
            patience: FOREVER,
            fails_after: (executed == 2).then_some(5),
        };
        let case = many_pairs(&mut rng, JoinType::Inner);
        let mut running = Running::start(case, options(JoinOperator::Hj, None), streaming, executed);
        let not_polled = running.streams.split_off(1);
        running.finish(vec![]).await;
        drop(not_polled);
    }
}

/// A client that goes away ends the join, and all memory is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn clients_that_leave() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    for (operator, batches) in [
        (JoinOperator::Hj, 0),
        (JoinOperator::Hj, 1),
        (JoinOperator::Hj, 4),
        (JoinOperator::Triton, 1),
    ] {
        let streaming = ChunkLimits {
            chunk_pairs: 50,
            waiting_pairs: 100,
            patience: FOREVER,
            fails_after: None,
        };
        let case = many_pairs(&mut rng, JoinType::Inner);
        let mut running = Running::start(case, options(operator, None), streaming, 2);
        for _ in 0..batches {
            running.first_batch().await;
        }
        if batches == 0 {
            // The join is prepared, or about to be.
            let _ = tokio::time::timeout(Duration::from_millis(3), running.streams[0].next()).await;
        }
        let Running {
            plan, context, streams, ..
        } = running;
        drop((plan, streams));
        until("memory was not given back", || context.memory_pool().reserved() == 0).await;
    }
}

/// Pairs that exceed the query's memory leave the rest to the CPU, which keeps none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_pairs_than_memory() {
    use_simulator();
    let mut rng = StdRng::seed_from_u64(seed());
    let mut case = many_pairs(&mut rng, JoinType::Inner);
    (case.span, case.null_share) = (0, 0.0);
    case.fill(&mut rng);
    let options = options(JoinOperator::Hj, None);
    let streaming = ChunkLimits {
        chunk_pairs: 1000,
        ..ChunkLimits::default()
    };
    // 210 000 pairs of 16 bytes are more.
    let pool = Arc::new(GreedyMemoryPool::new(2 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let context = run::context(options, streaming).with_runtime(runtime);
    let (rows, shown) = run::rows_within(&case, options, context).await.unwrap();
    assert!(rows == reference::rows(&case), "{} rows", rows.len());
    assert!(
        shown.contains("HJ on cpu") && shown.contains("fell back to cpu"),
        "{shown}"
    );
}
