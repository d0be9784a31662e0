//! Scans by an index against full scans.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::prelude::SessionContext;
use rand::Rng;
use tenon_storage::MemoryBudget;

use super::{ScanExec, ScanOptions};
use crate::index::IndexData;
use crate::index::testing::{COLUMNS, Expr, comparison, database, replace, seeded, segments, table, value};

/// Each row as text, in the batches' order.
fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = vec![];
    for batch in batches {
        rows.extend((0..batch.num_rows()).map(|row| {
            let columns = batch.columns().iter();
            let values = columns.map(|column| ScalarValue::try_from_array(column, row).unwrap().to_string());
            values.collect::<Vec<_>>().join("|")
        }));
    }
    rows
}

#[test]
fn scans_by_index_give_the_rows_of_full_scans() {
    let (seed, mut rng) = seeded();
    let memory = MemoryBudget::new(1 << 30);
    let database = database(&memory);
    let mut transaction = database.begin();
    let oid = table(&transaction).oid();
    for _ in 0..3 {
        let added = segments(&mut rng, &transaction, 70_000);
        transaction.append(oid, added).unwrap();
    }
    let version = table(&transaction);
    let context = SessionContext::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut by_index = 0;
    for _ in 0..60 {
        let filters: Vec<Expr> = (0..3)
            .map(|_| {
                let column = rng.random_range(0..COLUMNS.len());
                comparison(&mut rng, column)
            })
            .collect();
        let rows_of = |budget| {
            let options = ScanOptions {
                partitions: 2,
                batch_rows: 8192,
                limit: None,
                index_budget: budget,
            };
            let scan = ScanExec::try_new(version.clone(), version.schema(), vec![0, 1, 2, 3], &filters, options);
            let scan = Arc::new(scan.unwrap());
            let shown = datafusion::physical_plan::displayable(scan.as_ref())
                .one_line()
                .to_string();
            let batches = datafusion::physical_plan::collect(scan, context.task_ctx());
            let batches = runtime.block_on(batches).unwrap();
            let mut rows = texts(&batches);
            rows.sort();
            (rows, shown)
        };
        let ((expected, _), (found, shown)) = (rows_of(None), rows_of(Some(&memory)));
        assert_eq!(found, expected, "seed {seed}: {shown}");
        by_index += usize::from(shown.contains("index scan using"));
    }
    assert!(by_index > 5, "seed {seed}: {by_index} of 60 scans used an index");
}

/// By a key alone, in the table's order, while rows go and others come.
#[test]
fn rows_of_a_key_are_those_that_equalities_leave() {
    let (seed, mut rng) = seeded();
    let memory = MemoryBudget::new(1 << 30);
    let database = database(&memory);
    let mut transaction = database.begin();
    let context = SessionContext::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut found, mut empty) = (0, 0);
    for _ in 0..8 {
        let added = if rng.random_bool(0.5) { 70_000 } else { 30 };
        replace(&mut rng, &mut transaction, 0.98, added);
        let version = table(&transaction);
        for index in version.definition().all_indexes() {
            IndexData::reader(&version, &index.into(), &memory).unwrap();
        }
        let shown: Vec<usize> = (0..version.schema().fields().len()).collect();
        for _ in 0..30 {
            let columns: &[usize] = [&[0][..], &[1], &[0, 1], &[1, 0], &[2]][rng.random_range(0..5)];
            let key: Vec<_> = columns
                .iter()
                .map(|column| (*column, value(&mut rng, *column)))
                .collect();
            let equal = key.iter().map(|(column, value)| {
                let left = Arc::new(Column::new(COLUMNS[*column].0, *column)) as Expr;
                let right = Arc::new(Literal::new(value.clone())) as Expr;
                Arc::new(BinaryExpr::new(left, Operator::Eq, right)) as Expr
            });
            let equal: Vec<Expr> = equal.collect();
            let limit = rng.random_bool(0.2).then_some(2);
            let scan = |budget| {
                let options = ScanOptions {
                    partitions: 1,
                    batch_rows: 8192,
                    limit,
                    index_budget: budget,
                };
                ScanExec::try_new(version.clone(), version.schema(), shown.clone(), &equal, options).unwrap()
            };
            let by_key = scan(Some(&memory)).rows_of_key(&version, &key, usize::MAX).unwrap();
            let Some(by_key) = by_key else { continue };
            assert_ne!(columns, [2], "floats, seed {seed}");
            let expected = datafusion::physical_plan::collect(Arc::new(scan(None)), context.task_ctx());
            let expected = texts(&runtime.block_on(expected).unwrap());
            found += usize::from(!expected.is_empty());
            empty += usize::from(expected.is_empty());
            assert_eq!(texts(&by_key), expected, "{key:?}, seed {seed}");
        }
    }
    assert!(
        found > 5 && empty > 0,
        "{found} keys with rows, {empty} without, seed {seed}"
    );
}
