//! Index lookups against full scans, over tables that change while older versions are still read.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal, in_list};
use datafusion::prelude::SessionContext;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tenon_storage::numeric::Numeric;
use tenon_storage::{
    ColumnDef, ColumnOrder, Database, IndexDef, MemoryBudget, Segment, SqlType, TableDef, TableVersion, Transaction,
};

use super::predicate::{constraints, key_ranges, usable};
use super::*;
use crate::scan::{ScanExec, ScanOptions};

type Expr = Arc<dyn PhysicalExpr>;

const COLUMNS: [(&str, SqlType); 4] = [
    ("k", SqlType::Int4),
    ("s", SqlType::Text),
    ("f", SqlType::Float8),
    ("n", SqlType::Numeric),
];
const INDEXES: [&[&str]; 6] = [&["k"], &["s"], &["f"], &["k", "s"], &["n", "k"], &["s", "f", "k"]];

/// `TENON_SEED`, or a fresh seed; printed.
fn seeded() -> (u64, StdRng) {
    let given = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("TENON_SEED={seed}");
    (seed, StdRng::seed_from_u64(seed))
}

fn database(memory: &Arc<MemoryBudget>) -> Arc<Database> {
    let database = Database::new(Arc::clone(memory));
    let mut transaction = database.begin();
    let def = TableDef {
        columns: COLUMNS
            .iter()
            .map(|(name, sql_type)| ColumnDef::new(*name, *sql_type))
            .collect(),
        ..TableDef::default()
    };
    transaction.create_table("public", "t", def).unwrap();
    for columns in INDEXES {
        let def = IndexDef {
            columns: columns
                .iter()
                .map(|name| (name.to_string(), ColumnOrder::default()))
                .collect(),
            ..IndexDef::default()
        };
        transaction.create_index("public", "t", def).unwrap();
    }
    transaction.commit().unwrap();
    database
}

fn table(transaction: &Transaction) -> Arc<TableVersion> {
    Arc::clone(transaction.state().table("public", "t").unwrap())
}

/// A value of a column, from few enough that values meet; sometimes NULL.
fn value(rng: &mut StdRng, column: usize) -> ScalarValue {
    let null = rng.random_ratio(1, 12);
    match column {
        0 => ScalarValue::Int32((!null).then(|| rng.random_range(-40..40))),
        1 => {
            let length = rng.random_range(0..14);
            let text: String = (0..length)
                .map(|_| *[b'a', b'b'].choose(rng).unwrap() as char)
                .collect();
            let text = if rng.random_bool(0.5) {
                format!("customer{text}")
            } else {
                text
            };
            ScalarValue::Utf8View((!null).then_some(text))
        }
        2 => {
            let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
            let float = match rng.random_ratio(1, 3) {
                true => *special.choose(rng).unwrap(),
                false => f64::from(rng.random_range(-9..9)) / 2.0,
            };
            ScalarValue::Float64((!null).then_some(float))
        }
        _ => ScalarValue::LargeBinary((!null).then(|| Numeric::of_i128(rng.random_range(-50..50), 1).to_bytes())),
    }
}

fn segments(rng: &mut StdRng, transaction: &Transaction, rows: usize) -> Vec<Arc<Segment>> {
    if rows == 0 {
        return vec![];
    }
    let table = table(transaction);
    let columns = (0..COLUMNS.len()).map(|column| {
        let values: Vec<ScalarValue> = (0..rows).map(|_| value(rng, column)).collect();
        ScalarValue::iter_to_array(values).unwrap()
    });
    let mut writer = transaction.writer(&table);
    let batch = RecordBatch::try_new(table.schema().clone(), columns.collect()).unwrap();
    writer.append(&batch).unwrap();
    writer.finish().unwrap()
}

/// Keeps each row with probability `share`, and adds rows.
fn replace(rng: &mut StdRng, transaction: &mut Transaction, share: f64, added: usize) {
    let table = table(transaction);
    let mut mask = |segment: &Arc<Segment>| {
        let touched = rng.random_bool(0.6);
        touched.then(|| {
            (0..segment.rows())
                .map(|_| Some(rng.random_bool(share)))
                .collect::<BooleanArray>()
        })
    };
    let keep: Vec<_> = table.segments().iter().map(&mut mask).collect();
    let added = segments(rng, transaction, added);
    transaction.replace_rows(&table, &keep, added).unwrap();
}

fn comparison(rng: &mut StdRng, column: usize) -> Expr {
    let of_column = || Arc::new(Column::new(COLUMNS[column].0, column)) as Expr;
    let literal = |rng: &mut StdRng| {
        let value = std::iter::repeat_with(|| value(rng, column))
            .find(|value| !value.is_null())
            .unwrap();
        Arc::new(Literal::new(value)) as Expr
    };
    let equal = |rng: &mut StdRng| Arc::new(BinaryExpr::new(of_column(), Operator::Eq, literal(rng))) as Expr;
    match rng.random_range(0..6) {
        0 => equal(rng),
        1 => Arc::new(BinaryExpr::new(equal(rng), Operator::Or, equal(rng))),
        2 => {
            let list = (0..rng.random_range(1..9)).map(|_| literal(rng)).collect();
            in_list(of_column(), list, &false, &schema()).unwrap()
        }
        _ => {
            let op = *[Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq]
                .choose(rng)
                .unwrap();
            if rng.random_bool(0.5) {
                Arc::new(BinaryExpr::new(of_column(), op, literal(rng)))
            } else {
                Arc::new(BinaryExpr::new(literal(rng), op, of_column()))
            }
        }
    }
}

fn schema() -> Schema {
    Schema::new(
        COLUMNS
            .iter()
            .map(|(name, sql_type)| sql_type.field(*name, true))
            .collect::<Vec<_>>(),
    )
}

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
            comparison(rng, column)
        })
        .collect();
    let expected = passing(version, &filters);
    let found = constraints(&filters, version.schema());
    for index in version.definition().all_indexes() {
        let used = usable(&index.columns, &found);
        if used.is_empty() {
            continue;
        }
        let reader = IndexData::reader(version, index, memory).unwrap().unwrap();
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
        let exact = filters.len() == 1 && only_used && !format!("{filters:?}").contains("Float64");
        if exact && matches!(used[0].1, super::predicate::Constraint::Points(_)) {
            assert_eq!(rows, expected, "{told}");
        }
    }
}

fn columns_of(expr: &Expr) -> Vec<usize> {
    use datafusion::physical_expr::utils::collect_columns;
    collect_columns(expr).iter().map(Column::index).collect()
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
    let reader = IndexData::reader(&version, index, &memory).unwrap().unwrap();
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
        IndexData::reader(&version, index, &memory).unwrap().unwrap();
    }
    assert!(memory.in_use_bytes() > before);
    let rows = memory.reserve(limit - before).unwrap();
    assert_eq!(memory.in_use_bytes(), limit);
    for index in version.definition().all_indexes() {
        assert!(IndexData::reader(&version, index, &memory).is_err());
    }
    drop(rows);
    let index = &version.definition().indexes[0];
    assert!(IndexData::reader(&version, index, &memory).unwrap().is_some());
}
