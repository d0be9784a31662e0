//! Filters over encoded columns against the same filters over the rows that were written.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use arrow::array::*;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, IsNullExpr, NotExpr, col, in_list, like, lit};
use rand::prelude::*;
use tenon_storage::{ColumnDef, Database, MemoryBudget, Segment, SqlType, TableDef};

use super::filter::ScanFilter;
use super::selection::Selector;
use crate::runtime_filter::KeySet;

const TYPES: [SqlType; 6] = [
    SqlType::Int8,
    SqlType::Int8,
    SqlType::Text,
    SqlType::Text,
    SqlType::Bool,
    SqlType::Int4,
];

/// Columns in runs, in codes and as they are, all with few values.
fn columns(random: &mut StdRng, rows: usize) -> Vec<ArrayRef> {
    let texts = ["", "of twelve by", "a much longer text", "a much longer one"];
    TYPES
        .iter()
        .enumerate()
        .map(|(at, sql_type)| -> ArrayRef {
            let run = [1, 40, 200, 5000][random.random_range(0..4)];
            let nulls = [0.0, 0.0, 0.3][random.random_range(0..3)];
            let mut values: Vec<Option<i64>> = vec![];
            while values.len() < rows {
                // The first column has no nulls: runtime filters say nothing of them.
                let null = at > 0 && random.random_bool(nulls);
                let value = (!null).then(|| random.random_range(-2..9));
                let length = random.random_range(1..=run).min(rows - values.len());
                values.extend(std::iter::repeat_n(value, length));
            }
            match sql_type {
                SqlType::Bool => Arc::new(values.iter().map(|v| v.map(|v| v > 3)).collect::<BooleanArray>()),
                SqlType::Int4 => Arc::new(values.iter().map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
                SqlType::Int8 => Arc::new(Int64Array::from(values)),
                _ => {
                    let text = |v: i64| texts[v.rem_euclid(4) as usize];
                    Arc::new(values.iter().map(|v| v.map(text)).collect::<StringViewArray>())
                }
            }
        })
        .collect()
}

fn filter(random: &mut StdRng, batch: &RecordBatch) -> Arc<dyn PhysicalExpr> {
    let schema = batch.schema();
    let at = random.random_range(0..TYPES.len());
    let column = col(schema.field(at).name(), &schema).unwrap();
    let value = |random: &mut StdRng| {
        let row = random.random_range(0..batch.num_rows());
        lit(ScalarValue::try_from_array(batch.column(at), row).unwrap())
    };
    if random.random_bool(0.15) {
        let null: Arc<dyn PhysicalExpr> = Arc::new(IsNullExpr::new(column));
        return match random.random_bool(0.5) {
            true => null,
            false => Arc::new(NotExpr::new(null)),
        };
    }
    let text = schema.field(at).data_type() == &DataType::Utf8View;
    if text && random.random_bool(0.5) {
        let pattern = lit(ScalarValue::Utf8View(Some("%er %e%".into())));
        return like(random.random_bool(0.5), false, column, pattern, &schema).unwrap();
    }
    if random.random_bool(0.2) {
        let list = (0..2).map(|_| value(random)).collect();
        return in_list(column, list, &random.random_bool(0.5), &schema).unwrap();
    }
    if at < 2 && random.random_bool(0.3) {
        // Over two columns.
        let other = col(schema.field(1 - at).name(), &schema).unwrap();
        return Arc::new(BinaryExpr::new(column, Operator::LtEq, other));
    }
    let operators = [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::GtEq];
    let operator = operators[random.random_range(0..4)];
    Arc::new(BinaryExpr::new(column, operator, value(random)))
}

fn segments(batches: &[RecordBatch]) -> Vec<Arc<Segment>> {
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let columns = TYPES.iter().enumerate();
    let columns = columns.map(|(at, sql_type)| ColumnDef::new(format!("c{at}"), *sql_type));
    let table = TableDef {
        columns: columns.collect(),
        ..TableDef::default()
    };
    let table = transaction.create_table("public", "t", table).unwrap();
    let one = |batch: &RecordBatch| {
        let mut writer = transaction.writer(&table);
        writer.append(batch).unwrap();
        writer.finish().unwrap().remove(0)
    };
    batches.iter().map(one).collect()
}

#[test]
fn encoded_rows_pass_as_plain_ones() {
    let seed = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("TENON_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut encodings = BTreeSet::new();
    for _ in 0..15 {
        let batches: Vec<RecordBatch> = (0..3)
            .map(|_| {
                let rows = random.random_range(1100..4000);
                let named = columns(&mut random, rows).into_iter().enumerate();
                RecordBatch::try_from_iter_with_nullable(named.map(|(at, array)| (format!("c{at}"), array, true)))
                    .unwrap()
            })
            .collect();
        let segments = segments(&batches);
        encodings.extend(segments.iter().flat_map(|s| (0..TYPES.len()).map(|at| s.encoding(at))));
        for _ in 0..30 {
            let filters: Vec<_> = (0..random.random_range(1..4))
                .map(|_| filter(&mut random, &batches[0]))
                .collect();
            let keys: Option<Vec<i64>> = random
                .random_bool(0.4)
                .then(|| (0..3).map(|_| random.random_range(-3..10)).collect());
            let runtime = keys.iter().map(|keys| {
                let (min, max) = (*keys.iter().min().unwrap(), *keys.iter().max().unwrap());
                let set = OnceLock::new();
                let _ = set.set(KeySet::build(keys, None, Some((min, max))));
                (0, Arc::new(set))
            });
            let compiled = filters
                .iter()
                .map(|f| ScanFilter::try_new(f, &batches[0].schema()).unwrap());
            let mut selector = Selector::new(compiled.collect(), runtime.collect());
            for (segment, batch) in segments.iter().zip(&batches) {
                let passes = |row: usize| {
                    let number = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().value(row);
                    keys.as_ref().is_none_or(|keys| keys.contains(&number))
                };
                let answers = filters.iter().map(|f| {
                    let answer = f.evaluate(batch).unwrap().into_array(batch.num_rows()).unwrap();
                    answer.as_boolean().clone()
                });
                let answers: Vec<BooleanArray> = answers.collect();
                let holds = |row: &u32| {
                    let row = *row as usize;
                    passes(row) && answers.iter().all(|a| a.is_valid(row) && a.value(row))
                };
                let rows = batch.num_rows();
                let mut found = vec![];
                if selector.enter(segment) {
                    for from in (0..rows).step_by(900) {
                        selector
                            .select(segment, from, 900.min(rows - from), &mut found)
                            .unwrap();
                    }
                }
                let expected: Vec<u32> = (0..rows as u32).filter(holds).collect();
                assert_eq!(found, expected, "{filters:?} and {keys:?}");
                let among: Vec<u32> = (0..rows as u32).filter(|_| random.random_bool(0.2)).collect();
                let expected: Vec<u32> = among.iter().copied().filter(|row| holds(row)).collect();
                let mut found = vec![];
                if selector.enter(segment) {
                    selector.select_among(segment, among, &mut found).unwrap();
                }
                assert_eq!(found, expected, "{filters:?} and {keys:?}");
            }
        }
    }
    for form in ["runs", "codes of 8 bits", "differences of 8 bits"] {
        assert!(encodings.contains(form), "{encodings:?}");
    }
}
