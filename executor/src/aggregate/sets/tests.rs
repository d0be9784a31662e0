//! Random rows by random sets, against DataFusion's grouping, which takes every row into account once for each set.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::min_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::{binary, cast, col, lit};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::{ExecutionPlan, collect};
use rand::prelude::*;

use super::*;
use crate::aggregate::GroupExec;

const KEYS: usize = 3;

fn batch(rng: &mut StdRng, schema: &SchemaRef, span: i32, rows_max: i32) -> RecordBatch {
    let rows = rng.random_range(0..rows_max);
    let mut key = |_| rng.random_bool(0.9).then(|| rng.random_range(0..span));
    let (a, b): (Int32Array, Int32Array) = ((0..rows).map(&mut key).collect(), (0..rows).map(&mut key).collect());
    let texts = (0..rows)
        .map(&mut key)
        .map(|key| key.map(|key| format!("a text, number {key}")));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(a),
        Arc::new(texts.collect::<StringViewArray>()),
        Arc::new(b),
        Arc::new(
            (0..rows)
                .map(&mut key)
                .map(|v| v.map(i64::from))
                .collect::<Int64Array>(),
        ),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

/// Rows as text, in order.
async fn rows(plan: Arc<dyn ExecutionPlan>) -> Vec<Vec<String>> {
    let mut rows = vec![];
    for batch in collect(plan, Arc::new(TaskContext::default())).await.unwrap() {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| match column.is_null(row) {
                true => "NULL".to_string(),
                false => array_value_to_string(column, row).unwrap(),
            });
            rows.push(values.collect());
        }
    }
    rows.sort();
    rows
}

#[tokio::test]
async fn as_row_by_row() {
    compared(150, 40, None).await;
}

/// Tables are put by when they are full, and what they hold is merged by shares.
#[tokio::test]
async fn as_row_by_row_where_groups_are_many() {
    compared(12, 30_000, Some(1 << 20)).await;
}

async fn compared(rounds: usize, rows_max: i32, estimate: Option<usize>) {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8View, true),
        Field::new("c", DataType::Int32, true),
        Field::new("v", DataType::Int64, true),
    ]));
    for round in 0..rounds {
        let span = [2, 5, 1000][round % 3];
        let only_all_keys = round % 4 == 3;
        let partitions: Vec<Vec<RecordBatch>> = (0..rng.random_range(1..4))
            .map(|_| {
                (0..rng.random_range(0..4))
                    .map(|_| batch(&mut rng, &schema, span, rows_max))
                    .collect()
            })
            .collect();
        let input = || MemorySourceConfig::try_new_exec(&partitions, Arc::clone(&schema), None).unwrap();
        // True where the key is NULL; one has all keys, and some are there twice.
        let mut nulls: Vec<Vec<bool>> = (0..rng.random_range(0..6))
            .map(|_| (0..KEYS).map(|_| rng.random()).collect())
            .collect();
        nulls.insert(rng.random_range(0..=nulls.len()), vec![false; KEYS]);
        let column = |name: &str| (col(name, &schema).unwrap(), name.to_string());
        let null = |data_type: &DataType| (lit(ScalarValue::try_from(data_type).unwrap()), "null".to_string());
        let types = [DataType::Int32, DataType::Utf8View, DataType::Int32];
        let keys = vec![column("a"), column("b"), column("c")];
        let group_by = match only_all_keys {
            true => PhysicalGroupBy::new_single(keys),
            false => PhysicalGroupBy::new(keys, types.iter().map(null).collect(), nulls.clone(), true),
        };
        let value = col("v", &schema).unwrap();
        let double = cast(Arc::clone(&value), &schema, DataType::Float64).unwrap();
        let functions = [
            (count_udaf(), &value),
            (sum_udaf(), &value),
            (min_udaf(), &value),
            (avg_udaf(), &double),
            (sum_udaf(), &value),
        ];
        let aggregates = functions.into_iter().enumerate().map(|(at, (function, argument))| {
            let builder = AggregateExprBuilder::new(function, vec![Arc::clone(argument)]);
            Arc::new(
                builder
                    .schema(Arc::clone(&schema))
                    .alias(format!("f{at}"))
                    .build()
                    .unwrap(),
            )
        });
        let aggregates: Vec<_> = aggregates.collect();
        let above: Arc<dyn PhysicalExpr> = binary(value, Operator::Gt, lit(1_i64), &schema).unwrap();
        let filters = vec![None, None, None, None, Some(above)];
        let one = |plan: Arc<dyn ExecutionPlan>| {
            Arc::new(datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec::new(plan))
        };
        let plain = AggregateExec::try_new(
            AggregateMode::Single,
            group_by.clone(),
            aggregates.clone(),
            filters.clone(),
            one(input()),
            Arc::clone(&schema),
        )
        .unwrap();
        let mut sets: Vec<GroupingSet> = vec![];
        for nulls in &nulls {
            let has: Vec<bool> = nulls.iter().map(|null| !null).collect();
            let alike = sets.iter().filter(|set| set.has == has).count() as u64;
            let number = nulls.iter().fold(0, |bits, null| bits << 1 | u64::from(*null)) | alike << KEYS;
            sets.push(GroupingSet { has, number });
        }
        if only_all_keys {
            sets.clear();
        }
        let spec = GroupSpec {
            keys: group_by.expr().to_vec(),
            aggregates,
            filters,
            sets,
            input_schema: Arc::clone(&schema),
            schema: plain.schema(),
        };
        assert!(spec.is_supported());
        let expected = rows(Arc::new(plain)).await;
        let own = GroupExec::new(input(), spec);
        let own = match estimate {
            Some(groups) => own.with_estimate(groups),
            None => own,
        };
        let own = rows(one(Arc::new(own))).await;
        // DataFusion makes no group of no rows here; the group by no key is there all the same.
        match expected.is_empty() && !only_all_keys && nulls.iter().any(|nulls| nulls.iter().all(|null| *null)) {
            true => assert!(
                own.iter().all(|row| row[..KEYS].iter().all(|key| key == "NULL")),
                "seed {seed}"
            ),
            false => assert_eq!(own, expected, "seed {seed}, round {round}"),
        }
    }
}
