//! Joins whose inputs are other than their plan was made for, and inputs in the order of their keys.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::common::{JoinSide, JoinType};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tenon_executor::join::Operator;
use tenon_executor::join::{JoinExec, JoinSpec};
use tenon_executor::options::{JoinOperator, JoinOptions};

type Plan = Arc<dyn ExecutionPlan>;

fn key() -> PhysicalExprRef {
    Arc::new(Column::new("k", 0))
}

/// One column, in two partitions; `ordered` claims that it ascends.
fn input(batches: &[Vec<i64>], ordered: bool) -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
    let batch = |keys: &Vec<i64>| {
        let column = Arc::new(Int64Array::from(keys.clone()));
        RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap()
    };
    let batches: Vec<_> = batches.iter().map(batch).collect();
    let partitions = [
        batches[..batches.len() / 3].to_vec(),
        batches[batches.len() / 3..].to_vec(),
    ];
    let mut source = MemorySourceConfig::try_new(&partitions, schema, None).unwrap();
    if ordered {
        let order = SortOptions {
            descending: false,
            nulls_first: false,
        };
        let ordering = LexOrdering::new([PhysicalSortExpr::new(key(), order)]).unwrap();
        source = source.try_with_sort_information(vec![ordering]).unwrap();
    }
    DataSourceExec::from_data_source(source)
}

fn join(build: Plan, probe: Plan, streams: bool) -> JoinExec {
    let (schema, output) = build_join_schema(&build.schema(), &probe.schema(), &JoinType::Inner);
    let spec = JoinSpec {
        build_keys: vec![key()],
        probe_keys: vec![key()],
        join_type: JoinType::Inner,
        filter: None,
        range: None,
        null_equal: false,
        null_aware: false,
        streams,
        partitions: 2,
        output,
    };
    JoinExec::new(build, probe, spec, Arc::new(schema))
}

/// The keys of the pairs, sorted.
async fn pairs(join: &Arc<JoinExec>, options: JoinOptions) -> Vec<i64> {
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .with_extension(Arc::new(options));
    let context = Arc::new(TaskContext::default().with_session_config(config));
    let batches = collect(Arc::clone(join) as Plan, context).await.unwrap();
    let keys = |batch: &RecordBatch| {
        assert_eq!(batch.column(0), batch.column(1));
        batch.column(0).as_primitive::<Int64Type>().values().to_vec()
    };
    let mut keys: Vec<i64> = batches.iter().flat_map(keys).collect();
    keys.sort_unstable();
    keys
}

fn expected(build: &[Vec<i64>], probe: &[Vec<i64>]) -> Vec<i64> {
    let mut counts: HashMap<i64, usize> = HashMap::new();
    build
        .iter()
        .flatten()
        .for_each(|key| *counts.entry(*key).or_default() += 1);
    let of_key = |key: &i64| std::iter::repeat_n(*key, counts.get(key).copied().unwrap_or(0));
    let mut keys: Vec<i64> = probe.iter().flatten().flat_map(of_key).collect();
    keys.sort_unstable();
    keys
}

fn drawn(rng: &mut StdRng, rows: usize, below: i64) -> Vec<Vec<i64>> {
    let batch = |rng: &mut StdRng, rows: usize| (0..rows).map(|_| rng.random_range(0..below) * 1_000_003).collect();
    (0..10).map(|_| batch(rng, rows / 10)).collect()
}

/// Tables that grow between planning and running, statistics that are stale or absent: the true sizes choose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_that_have_grown() {
    super::use_simulator();
    let mut rng = StdRng::seed_from_u64(super::seed());
    let options = JoinOptions::default();
    let small = drawn(&mut rng, 200, 1000);
    for (build_growth, probe_growth) in [(1, 10), (10, 1), (10, 10), (100, 1), (1, 1)] {
        let build = drawn(&mut rng, 200 * build_growth, 1000);
        let probe = drawn(&mut rng, 400 * probe_growth, 1000);
        let expected = expected(&build, &probe);
        for streams in [true, false] {
            let planned = join(input(&small, false), input(&drawn(&mut rng, 400, 1000), false), streams);
            let planned = planned.planned(&options, 2).unwrap();
            assert_eq!(planned.choice().unwrap().path.build, JoinSide::Left);
            let grown = Arc::new(planned.with_inputs(input(&build, false), input(&probe, false)));
            assert_eq!(pairs(&grown, options).await, expected, "{build_growth}, {probe_growth}");
            let ran = grown.choice().unwrap();
            assert_eq!((ran.path.operator, ran.path.on_gpu), (Operator::Hj, false));
            if !streams {
                let smaller = if build_growth * 200 > probe_growth * 400 {
                    JoinSide::Right
                } else {
                    JoinSide::Left
                };
                assert_eq!(ran.path.build, smaller, "{build_growth}, {probe_growth}");
            }
            // Never planned: nothing is known before it runs.
            let absent = Arc::new(join(input(&build, false), input(&probe, false), streams));
            assert_eq!(pairs(&absent, options).await, expected);
        }
    }
}

/// Batches of a sorted table come in any order, and may not be sorted although they are said to be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_in_order() {
    super::use_simulator();
    let mut rng = StdRng::seed_from_u64(super::seed());
    for rows in [0, 10, 1000, 30_000] {
        for truly in [true, false] {
            let mut side = |below: i64| {
                let mut batches = drawn(&mut rng, rows, below);
                if truly {
                    let mut keys: Vec<i64> = batches.concat();
                    keys.sort_unstable();
                    batches = keys.chunks(rows.div_ceil(10).max(1)).map(<[i64]>::to_vec).collect();
                    batches.shuffle(&mut rng);
                }
                batches
            };
            let (build, probe) = (side(20_000), side(25_000));
            let expected = expected(&build, &probe);
            for operator in [
                JoinOperator::Auto,
                JoinOperator::Streamed,
                JoinOperator::Hj,
                JoinOperator::Smj,
                JoinOperator::Inlj,
            ] {
                let options = JoinOptions {
                    operator,
                    ..JoinOptions::default()
                };
                let plan = join(input(&build, true), input(&probe, true), true);
                let plan = Arc::new(plan.planned(&options, 2).unwrap());
                assert_eq!(pairs(&plan, options).await, expected, "{operator:?} of {rows} rows");
            }
        }
    }
}

/// What is in order already is merged where that is cheaper, and hashed once it turns out not to be in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_decides_between_merging_and_hashing() {
    super::use_simulator();
    let rows = 400_000;
    let mut batches: Vec<Vec<i64>> = (0..rows)
        .map(|at| at * 1_000_003)
        .collect::<Vec<_>>()
        .chunks(8192)
        .map(<[i64]>::to_vec)
        .collect();
    let options = JoinOptions::default();
    for operator in [Operator::Smj, Operator::Hj] {
        let plan = join(input(&batches, true), input(&batches, true), true);
        let plan = Arc::new(plan.planned(&options, 2).unwrap());
        assert_eq!(plan.choice().unwrap().path.operator, Operator::Smj);
        assert_eq!(pairs(&plan, options).await.len(), rows as usize);
        assert_eq!(plan.choice().unwrap().path.operator, operator);
        let shown = tenon_executor::explain::Chosen::reason(plan.as_ref()).unwrap();
        assert_eq!(
            shown.starts_with("planned SMJ on cpu, ran HJ on cpu: "),
            operator == Operator::Hj,
            "{shown}"
        );
        batches[3].swap(0, 1);
    }
}
