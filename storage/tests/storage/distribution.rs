//! Common values and histograms against counting.

use arrow::array::*;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::sync::Arc;
use tenon_storage::{Bound, ColumnDef, Database, MemoryBudget, SqlType, TableDef, TableVersion};

/// A table of one column with these values, added in as many pieces.
fn table(sql_type: SqlType, pieces: &[ArrayRef]) -> Arc<TableVersion> {
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let columns = vec![ColumnDef::new("a", sql_type)];
    let def = TableDef {
        columns,
        ..TableDef::default()
    };
    transaction.create_table("public", "t", def).unwrap();
    for piece in pieces {
        let table = transaction.state().table("public", "t").unwrap().clone();
        let mut writer = transaction.writer(&table);
        let batch = RecordBatch::try_new(table.schema().clone(), vec![piece.clone()]).unwrap();
        writer.append(&batch).unwrap();
        let segments = writer.finish().unwrap();
        transaction.append(table.oid(), segments).unwrap();
    }
    transaction.state().table("public", "t").unwrap().clone()
}

#[test]
fn shares_are_near_the_truth() {
    let seed = std::env::var("TENON_SEED").ok().and_then(|s| s.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for (rows, domain, skewed) in [
        (100, 5, false),
        (5_000, 5_000, false),
        (200_000, 1_000_000, false),
        (200_000, 30, false),
        (200_000, 100_000, true),
    ] {
        let values: Vec<Option<i64>> = (0..rows)
            .map(|_| match random.random_range(0..10) {
                0 => None,
                1 | 2 if skewed => Some(7),
                _ => Some(random.random_range(0..domain)),
            })
            .collect();
        let table = table(SqlType::Int8, &[Arc::new(Int64Array::from(values.clone()))]);
        let (found, distinct) = (table.distribution(0), table.distinct(0) as f64);
        assert!(found.common.len() <= 100 && found.bounds.len() <= 101, "seed {seed}");
        assert!(found.bounds.is_sorted(), "seed {seed}");
        let truth = |test: &dyn Fn(i64) -> bool| {
            let count = values.iter().flatten().filter(|v| test(**v)).count();
            count as f64 / rows as f64
        };
        for _ in 0..50 {
            let (low, high) = (random.random_range(0..domain), random.random_range(0..domain));
            let below = found.share_below(&Bound::Int(high), false, distinct);
            let wanted = truth(&|v| v < high);
            assert!(
                (below - wanted).abs() < 0.03,
                "seed {seed}: below {high}: {below}, {wanted}"
            );
            let upto = found.share_below(&Bound::Int(low), true, distinct);
            let wanted = truth(&|v| v <= low);
            assert!(
                (upto - wanted).abs() < 0.03,
                "seed {seed}: up to {low}: {upto}, {wanted}"
            );
            let equal = found.share_equal(&Bound::Int(low), distinct);
            let wanted = truth(&|v| v == low);
            assert!(
                (equal - wanted).abs() < 0.02,
                "seed {seed}: equal {low}: {equal}, {wanted}"
            );
        }
        if skewed {
            assert_eq!(found.common[0].0, Bound::Int(7), "seed {seed}");
        }
        assert!((found.valid_share() - truth(&|_| true)).abs() < 0.03, "seed {seed}");
        assert!(found.share_equal(&Bound::Int(-5), distinct) < 0.001, "seed {seed}");
        let whole: f64 = found.representatives().map(|(_, share)| share).sum();
        assert!((whole - found.valid_share()).abs() < 1e-6, "seed {seed}");
    }
}

#[test]
fn strings_have_an_order_within_buckets() {
    let values = (0..50_000).map(|i| format!("Customer#{:09}", (i * 7919) % 50_000));
    let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(values));
    let table = table(SqlType::Text, &[array]);
    let found = table.distribution(0);
    for at in [1_000, 10_000, 25_000, 49_000] {
        let value = Bound::Bytes(format!("Customer#{at:09}").into_bytes().into());
        let share = found.share_below(&value, false, 50_000.0);
        assert!((share - f64::from(at) / 50_000.0).abs() < 0.02, "{at}: {share}");
    }
    assert!((found.width - 18.0).abs() < 0.01);
}

#[test]
fn correlation_tells_the_order() {
    let up: ArrayRef = Arc::new(Int32Array::from_iter_values(0..20_000));
    let down: ArrayRef = Arc::new(Int32Array::from_iter_values((0..20_000).rev()));
    let one = |array: &ArrayRef| {
        table(SqlType::Int4, std::slice::from_ref(array))
            .distribution(0)
            .correlation
    };
    assert!(one(&up).unwrap() > 0.999);
    assert!(one(&down).unwrap() < -0.999);
    let empty: ArrayRef = Arc::new(Int32Array::from(Vec::<i32>::new()));
    let none = table(SqlType::Int4, &[empty]).distribution(0);
    assert!(none.correlation.is_none() && none.common.is_empty() && none.bounds.is_empty());
    let nulls: ArrayRef = Arc::new(Int32Array::new_null(100));
    assert_eq!(table(SqlType::Int4, &[nulls]).distribution(0).valid_share(), 0.0);
}

/// Samples are kept over small changes and taken anew after large ones; ANALYZE takes larger ones.
#[test]
fn samples_go_stale() {
    let piece = |from: i32, to: i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(from..to)) };
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let columns = vec![ColumnDef::new("a", SqlType::Int4)];
    let def = TableDef {
        columns,
        ..TableDef::default()
    };
    transaction.create_table("public", "t", def).unwrap();
    let mut add = |array: ArrayRef| {
        let table = transaction.state().table("public", "t").unwrap().clone();
        let mut writer = transaction.writer(&table);
        let batch = RecordBatch::try_new(table.schema().clone(), vec![array]).unwrap();
        writer.append(&batch).unwrap();
        let segments = writer.finish().unwrap();
        transaction.append(table.oid(), segments).unwrap();
        transaction.state().table("public", "t").unwrap().clone()
    };
    let first = add(piece(0, 100_000)).distribution(0);
    assert_eq!(first.rows, 100_000);
    let second = add(piece(100_000, 105_000));
    assert!(Arc::ptr_eq(&second.distribution(0), &first));
    let third = add(piece(105_000, 130_000));
    assert_eq!(third.distribution(0).rows, 130_000);
    let before = tenon_storage::analyze_count();
    third.analyze(0);
    assert!(tenon_storage::analyze_count() > before);
    let max = third.distribution(0).bounds.last().cloned().unwrap();
    assert!(max > Bound::Int(129_900), "{max:?}");
}
