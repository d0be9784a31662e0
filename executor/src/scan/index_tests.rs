//! Scans by an index against full scans.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;
use rand::Rng;
use tenon_storage::MemoryBudget;

use super::{ScanExec, ScanOptions};
use crate::index::testing::{COLUMNS, Expr, comparison, database, seeded, segments, table};

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
            let mut rows = vec![];
            for batch in &batches {
                rows.extend((0..batch.num_rows()).map(|row| {
                    let values = batch
                        .columns()
                        .iter()
                        .map(|c| ScalarValue::try_from_array(c, row).unwrap().to_string());
                    values.collect::<Vec<_>>().join("|")
                }));
            }
            rows.sort();
            (rows, shown)
        };
        let ((expected, _), (found, shown)) = (rows_of(None), rows_of(Some(&memory)));
        assert_eq!(found, expected, "seed {seed}: {shown}");
        by_index += usize::from(shown.contains("index scan using"));
    }
    assert!(by_index > 5, "seed {seed}: {by_index} of 60 scans used an index");
}
