//! Random rows through the node, and what a plain sort wants of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::prelude::*;

use super::{GroupTop, GroupTopExec};

/// The first eight bytes are all that is looked at of a text.
fn text(rng: &mut StdRng) -> String {
    let beginning = ["", "a", "same beginning ", "same bez"][rng.random_range(0..4)];
    format!("{beginning}{}", rng.random_range(0..20))
}

fn float(rng: &mut StdRng) -> f64 {
    match rng.random_range(0..6) {
        0 => [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN][rng.random_range(0..5)],
        _ => rng.random_range(-9..9) as f64,
    }
}

fn integer(rng: &mut StdRng) -> i64 {
    match rng.random_range(0..8) {
        0 => [i64::MIN, i64::MAX, 0][rng.random_range(0..3)],
        _ => rng.random_range(-9..9),
    }
}

/// Whether rows are NULL now and then.
fn some<T>(rng: &mut StdRng, nulls: bool, value: impl Fn(&mut StdRng) -> T) -> Option<T> {
    (!nulls || rng.random_range(0..5) > 0).then(|| value(rng))
}

fn column(rng: &mut StdRng, kind: usize, rows: usize, nulls: bool) -> ArrayRef {
    match kind {
        0 => Arc::new((0..rows).map(|_| some(rng, nulls, integer)).collect::<Int64Array>()),
        1 => Arc::new((0..rows).map(|_| some(rng, nulls, text)).collect::<StringViewArray>()),
        _ => Arc::new((0..rows).map(|_| some(rng, nulls, float)).collect::<Float64Array>()),
    }
}

/// By PostgreSQL's order: the two zeros are equal, and NaN is above all.
fn compare(array: &ArrayRef, options: SortOptions, a: usize, b: usize) -> std::cmp::Ordering {
    use std::cmp::Ordering::*;
    let by_null = |null: bool| if null == options.nulls_first { Less } else { Greater };
    match (array.is_null(a), array.is_null(b)) {
        (true, true) => return Equal,
        (true, false) => return by_null(true),
        (false, true) => return by_null(false),
        (false, false) => {}
    }
    let order = match array.data_type() {
        DataType::Int64 => {
            let values = array.as_primitive::<Int64Type>();
            values.value(a).cmp(&values.value(b))
        }
        DataType::Utf8View => {
            let values = array.as_string_view();
            values.value(a).cmp(values.value(b))
        }
        _ => {
            let values = array.as_primitive::<Float64Type>();
            (values.value(a) + 0.0).total_cmp(&(values.value(b) + 0.0))
        }
    };
    if options.descending { order.reverse() } else { order }
}

/// The numbers of the rows that rank among the first of their groups.
fn wanted(keys: &[ArrayRef], order: &ArrayRef, options: SortOptions, first: usize) -> Vec<i64> {
    let ascending = SortOptions::new(false, false);
    let rows = 0..order.len();
    let same = |a: usize, b: usize| keys.iter().all(|key| compare(key, ascending, a, b).is_eq());
    let ranks_first = |&row: &usize| {
        let before = rows
            .clone()
            .filter(|&other| same(row, other) && compare(order, options, other, row).is_lt());
        before.count() < first
    };
    rows.clone().filter(ranks_first).map(|row| row as i64).collect()
}

#[tokio::test]
async fn wanted_rows_come_through_in_their_order() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut dropped = 0;
    for round in 0..300 {
        let rows = [0, 1, 2, 17, 200][round % 5];
        let (nulls, first) = (round % 3 > 0, [1, 2, 5, 128][rng.random_range(0..4)]);
        let kinds: Vec<usize> = (0..rng.random_range(0..3)).map(|_| rng.random_range(0..2)).collect();
        let keys: Vec<ArrayRef> = kinds.iter().map(|kind| column(&mut rng, *kind, rows, nulls)).collect();
        let kind = rng.random_range(0..3);
        let order = column(&mut rng, kind, rows, nulls);
        let options = SortOptions::new(rng.random(), rng.random());
        let expected = wanted(&keys, &order, options, first);

        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        let columns: Vec<ArrayRef> = [numbers, order].into_iter().chain(keys).collect();
        let fields = columns.iter().enumerate();
        let fields = fields.map(|(at, own)| Field::new(format!("c{at}"), own.data_type().clone(), nulls));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let piece = rng.random_range(1..50);
        let pieces = (0..rows).step_by(piece);
        let pieces: Vec<_> = pieces
            .map(|start| batch.slice(start, piece.min(rows - start)))
            .collect();
        let input = MemorySourceConfig::try_new_exec(&[pieces], Arc::clone(&schema), None).unwrap();
        let top = GroupTop {
            keys: (0..kinds.len())
                .map(|at| col(&format!("c{}", at + 2), &schema).unwrap())
                .collect(),
            order: PhysicalSortExpr::new(col("c1", &schema).unwrap(), options),
            rows: first,
        };
        let node: Arc<dyn ExecutionPlan> = Arc::new(GroupTopExec::try_new(input, top).unwrap().unwrap());
        // Where there is too little memory, rows go on.
        let memory = [0, 10_000, 40_000, 1 << 30][rng.random_range(0..4)];
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0);
        let config = SessionConfig::new().with_batch_size(rng.random_range(1..9));
        let session = SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap());
        let found = collect(node, session.task_ctx()).await.unwrap();
        let found = found
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        let found: Vec<i64> = found.collect();

        assert!(found.is_sorted(), "round {round}, seed {seed}");
        let lost: Vec<_> = expected.iter().filter(|row| !found.contains(row)).collect();
        assert!(lost.is_empty(), "round {round} has lost {lost:?}, seed {seed}");
        dropped += rows - found.len();
    }
    assert!(dropped > 500, "only {dropped} rows were dropped, seed {seed}");
}
