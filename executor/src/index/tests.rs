//! Index lookups against full scans, over tables that change while older versions are still read.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use tenon_storage::{MemoryBudget, TableVersion};

use super::predicate::{constraints, key_ranges, usable};
use super::testing::*;
use super::*;

/// The rows that pass, by evaluating the filters on everything.
fn passing(table: &TableVersion, filters: &[Expr]) -> Vec<(u32, u32)> {
    let all: Vec<usize> = (0..COLUMNS.len()).collect();
    let mut rows = vec![];
    for (number, segment) in table.segments().iter().enumerate() {
        let batch = segment.batch(table.schema(), &all, 0, segment.rows()).unwrap();
        let answers: Vec<BooleanArray> = filters
            .iter()
            .map(|filter| {
                filter
                    .evaluate(&batch)
                    .unwrap()
                    .into_array(batch.num_rows())
                    .unwrap()
                    .as_boolean()
                    .clone()
            })
            .collect();
        let passes = |row: &usize| answers.iter().all(|answer| answer.is_valid(*row) && answer.value(*row));
        rows.extend(
            (0..segment.rows())
                .filter(passes)
                .map(|row| (number as u32, row as u32)),
        );
    }
    rows
}

#[test]
fn lookups_find_what_scans_find_in_every_version() {
    let (seed, mut rng) = seeded();
    let memory = MemoryBudget::new(1 << 30);
    for _ in 0..8 {
        let database = database(&memory);
        let mut held: Vec<Arc<TableVersion>> = vec![];
        for _ in 0..25 {
            let mut transaction = database.begin();
            let oid = table(&transaction).oid();
            match rng.random_range(0..10) {
                0 => transaction.truncate("public", "t").unwrap(),
                1..5 => {
                    let rows = *[1, 7, 300, 2000].choose(&mut rng).unwrap();
                    let added = segments(&mut rng, &transaction, rows);
                    transaction.append(oid, added).unwrap();
                }
                5..7 => replace(&mut rng, &mut transaction, 0.3, 0),
                _ => replace(&mut rng, &mut transaction, 0.95, 20),
            }
            // Of transactions that are rolled back, too.
            held.push(table(&transaction));
            if rng.random_bool(0.8) {
                transaction.commit().unwrap();
            }
            if held.len() > 4 {
                held.swap_remove(rng.random_range(0..held.len()));
            }
            for version in &held {
                check(&mut rng, version, &memory, seed);
            }
        }
    }
    assert_eq!(memory.in_use_bytes(), 0, "seed {seed}: memory of indexes is left");
}

fn check(rng: &mut StdRng, version: &Arc<TableVersion>, memory: &Arc<MemoryBudget>, seed: u64) {
    let filters: Vec<Expr> = (0..rng.random_range(1..4))
        .map(|_| {
            let column = rng.random_range(0..COLUMNS.len());
            let first = comparison(rng, column);
            if rng.random_bool(0.6) {
                return first;
            }
            // Most of them about the same column.
            let mut other = |column| match rng.random_bool(0.8) {
                true => comparison(rng, column),
                false => {
                    let column = rng.random_range(0..COLUMNS.len());
                    comparison(rng, column)
                }
            };
            let both = binary(other(column), Operator::And, other(column));
            binary(binary(first, Operator::Or, both), Operator::Or, other(column))
        })
        .collect();
    let expected = passing(version, &filters);
    let found = constraints(&filters, version.schema());
    for index in version.definition().all_indexes() {
        let used = usable(&index.columns, &found);
        if used.is_empty() {
            continue;
        }
        let reader = IndexData::reader(version, &index.into(), memory).unwrap().unwrap();
        let ranges = key_ranges(&used, reader.encoding()).unwrap().unwrap();
        let rows = reader.rows(&ranges);
        let told = format!("seed {seed}: {} for {filters:?}", index.name);
        assert!(rows.len() <= reader.count(&ranges), "{told}");
        assert!(
            rows.is_sorted() && rows.windows(2).all(|pair| pair[0] != pair[1]),
            "{told}"
        );
        let missing: Vec<_> = expected.iter().filter(|row| rows.binary_search(row).is_err()).collect();
        assert!(missing.is_empty(), "{told}: rows {missing:?} are not found");
        // What is found beside them fails a filter only at a bound, or on another column.
        let column = |at: &usize| used.iter().any(|(own, _)| own == at);
        let only_used = filters.iter().all(|filter| columns_of(filter).iter().all(column));
        // Of two lists of values that both must hold, one is asked for.
        let said = format!("{filters:?}");
        let exact = filters.len() == 1 && only_used && !["Float64", "op: And"].iter().any(|part| said.contains(part));
        if exact && matches!(used[0].1, super::predicate::Constraint::Points(_)) {
            assert_eq!(rows, expected, "{told}");
        }
    }
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, op, right))
}

fn columns_of(expr: &Expr) -> Vec<usize> {
    use datafusion::physical_expr::utils::collect_columns;
    collect_columns(expr).iter().map(Column::index).collect()
}

#[test]
fn words_are_probed_in_batches() {
    let (seed, mut rng) = seeded();
    let memory = MemoryBudget::unlimited();
    let database = database(&memory);
    let mut transaction = database.begin();
    let oid = table(&transaction).oid();
    let added = segments(&mut rng, &transaction, 5000);
    transaction.append(oid, added).unwrap();
    let version = table(&transaction);
    let index = &version.definition().indexes[0];
    let reader = IndexData::reader(&version, &index.into(), &memory).unwrap().unwrap();
    let probes: Vec<i32> = (0..200).map(|_| rng.random_range(-50..50)).collect();
    let probes = Arc::new(Int32Array::from(probes)) as ArrayRef;
    let mut found = vec![vec![]; probes.len()];
    reader
        .equal_rows(std::slice::from_ref(&probes), |probe, segment, row| {
            found[probe].push((segment, row));
            Ok(())
        })
        .unwrap();
    for (probe, rows) in found.iter_mut().enumerate() {
        rows.sort_unstable();
        let key = ScalarValue::try_from_array(&probes, probe).unwrap();
        let column = Arc::new(Column::new("k", 0)) as Expr;
        let filter = Arc::new(BinaryExpr::new(column, Operator::Eq, Arc::new(Literal::new(key)))) as Expr;
        assert_eq!(*rows, passing(&version, &[filter]), "seed {seed}");
    }
}

#[test]
fn types_without_an_order_of_bytes_have_no_index() {
    let interval = DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano);
    assert!(KeyEncoding::of(vec![interval]).is_none());
    assert!(KeyEncoding::of(vec![DataType::Date32]).unwrap().is_word());
    assert!(
        !KeyEncoding::of(vec![DataType::Date32, DataType::Date32])
            .unwrap()
            .is_word()
    );
}

#[test]
fn indexes_give_way_to_rows() {
    let (_, mut rng) = seeded();
    let memory = MemoryBudget::new(64 << 20);
    let database = database(&memory);
    let mut transaction = database.begin();
    let oid = table(&transaction).oid();
    let added = segments(&mut rng, &transaction, 20_000);
    transaction.append(oid, added).unwrap();
    let version = table(&transaction);
    let (before, limit) = (memory.in_use_bytes(), memory.limit_bytes());
    for index in version.definition().all_indexes() {
        IndexData::reader(&version, &index.into(), &memory).unwrap().unwrap();
    }
    assert!(memory.in_use_bytes() > before);
    let rows = memory.reserve(limit - before).unwrap();
    assert_eq!(memory.in_use_bytes(), limit);
    for index in version.definition().all_indexes() {
        assert!(IndexData::reader(&version, &index.into(), &memory).is_err());
    }
    drop(rows);
    let index = &version.definition().indexes[0];
    assert!(IndexData::reader(&version, &index.into(), &memory).unwrap().is_some());
}
