//! Segments against plain arrays: values, statistics, dictionaries, memory.

use arrow::array::*;
use arrow::compute::{concat, concat_batches};
use arrow::datatypes::*;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::sync::Arc;
use tenon_storage::{Bound, ColumnDef, Database, MemoryBudget, SqlType, TableDef};

/// Columns of every type, random, with NULLs where `nulls`.
fn batch(random: &mut StdRng, rows: usize, nulls: bool, schema: &SchemaRef, types: &[SqlType]) -> RecordBatch {
    let mut columns: Vec<ArrayRef> = Vec::new();
    for sql_type in types {
        let numbers: Vec<Option<i64>> = (0..rows)
            .map(|_| {
                if nulls && random.random_bool(0.1) {
                    None
                } else {
                    Some(random.random_range(-1000..1000))
                }
            })
            .collect();
        let texts = |few: bool| -> Vec<Option<String>> {
            let text = |n: i64| {
                if few {
                    format!("value {:>20}", n.rem_euclid(7))
                } else {
                    format!("{n}{}", "x".repeat((n.unsigned_abs() % 40) as usize))
                }
            };
            numbers.iter().map(|n| n.map(text)).collect()
        };
        let integers = Int64Array::from(numbers.clone());
        columns.push(match sql_type {
            SqlType::Bool => Arc::new(BooleanArray::from_iter(numbers.iter().map(|n| n.map(|n| n > 0)))),
            SqlType::Text => Arc::new(StringViewArray::from_iter(texts(false))),
            SqlType::Varchar => Arc::new(StringViewArray::from_iter(texts(true))),
            SqlType::Bytea => Arc::new(BinaryViewArray::from_iter(
                texts(false).iter().map(|t| t.as_ref().map(|t| t.as_bytes())),
            )),
            SqlType::Uuid => Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    numbers.iter().map(|n| n.map(|n| i128::from(n).to_be_bytes())),
                    16,
                )
                .unwrap(),
            ),
            SqlType::Interval => Arc::new(IntervalMonthDayNanoArray::from_iter(
                numbers
                    .iter()
                    .map(|n| n.map(|n| IntervalMonthDayNano::new(n as i32, 1, n * 7))),
            )),
            SqlType::Date => arrow::compute::cast(
                &arrow::compute::cast(&integers, &DataType::Int32).unwrap(),
                &DataType::Date32,
            )
            .unwrap(),
            _ => arrow::compute::cast(&integers, &sql_type.data_type()).unwrap(),
        });
    }
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

const TYPES: [SqlType; 15] = [
    SqlType::Bool,
    SqlType::Int2,
    SqlType::Int4,
    SqlType::Int8,
    SqlType::Float4,
    SqlType::Float8,
    SqlType::NumericOf(15, 2),
    SqlType::Text,
    SqlType::Varchar,
    SqlType::Date,
    SqlType::Timestamp,
    SqlType::TimestampTz,
    SqlType::Interval,
    SqlType::Bytea,
    SqlType::Uuid,
];

#[test]
fn segments_hold_what_was_written() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let database = Database::new(MemoryBudget::unlimited());
    for round in 0..30 {
        let mut transaction = database.begin();
        let columns = TYPES
            .iter()
            .enumerate()
            .map(|(i, t)| ColumnDef::new(format!("c{i}"), *t))
            .collect();
        let created = transaction
            .create_table(
                "public",
                "t",
                TableDef {
                    columns,
                    ..TableDef::default()
                },
            )
            .unwrap();
        let nulls = random.random_bool(0.5);
        let mut writer = transaction.writer(&created);
        let mut expected = Vec::new();
        for _ in 0..random.random_range(1..5) {
            let rows = random.random_range(0..if round % 5 == 0 { 20_000 } else { 200 });
            let whole = batch(&mut random, rows, nulls, created.schema(), &TYPES);
            // Slices have offsets, in bits too.
            let start = random.random_range(0..=rows);
            let piece = whole.slice(start, random.random_range(0..=rows - start));
            writer.append(&piece).unwrap();
            expected.push(piece);
        }
        let segments = writer.finish().unwrap();
        transaction.append(created.oid(), segments).unwrap();
        let expected = concat_batches(created.schema(), &expected).unwrap();
        let table = transaction.state().table("public", "t").unwrap().clone();
        assert_eq!(table.rows() as usize, expected.num_rows());
        for (column, sql_type) in TYPES.iter().enumerate() {
            let arrays: Vec<ArrayRef> = table.segments().iter().map(|segment| segment.column(column)).collect();
            let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
            if arrays.is_empty() {
                continue;
            }
            let found = concat(&arrays).unwrap();
            assert_eq!(&found, expected.column(column), "{sql_type}");
            found.to_data().validate_full().unwrap();
            let statistics = &table.statistics().columns[column];
            assert_eq!(statistics.null_count as usize, found.null_count());
            check_bounds(&found, statistics.min.as_ref(), statistics.max.as_ref());
        }
        if let [segment] = &table.segments()[..] {
            let coded = segment.dictionary(8);
            if segment.rows() > 500 {
                let coded = coded.unwrap();
                assert!(coded.values.len() <= 7);
                let (offset, rows) = (segment.rows() / 3, segment.rows() / 2);
                assert_eq!(
                    &segment.column_slice(8, offset, rows),
                    &expected.column(8).slice(offset, rows)
                );
            }
        }
        drop((table, created, transaction));
        assert_eq!(database.budget().in_use_bytes(), 0);
    }
}

fn check_bounds(array: &ArrayRef, min: Option<&Bound>, max: Option<&Bound>) {
    let sorted = arrow::compute::sort(array, None).unwrap();
    let values = sorted.slice(sorted.null_count(), sorted.len() - sorted.null_count());
    let data_type = array.data_type();
    if values.is_empty() || matches!(data_type, DataType::Interval(_)) {
        assert!(min.is_none() && max.is_none());
        return;
    }
    assert_eq!(&min.unwrap().to_array(data_type).unwrap(), &values.slice(0, 1));
    assert_eq!(
        &max.unwrap().to_array(data_type).unwrap(),
        &values.slice(values.len() - 1, 1)
    );
}

#[test]
fn dictionaries_are_shared_and_fall_back() {
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let columns = vec![ColumnDef::new("a", SqlType::Text)];
    let table = transaction
        .create_table(
            "public",
            "t",
            TableDef {
                columns,
                ..TableDef::default()
            },
        )
        .unwrap();
    let write = |transaction: &tenon_storage::Transaction, values: &dyn Fn(usize) -> String, rows: usize| {
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..rows).map(values)));
        let mut writer = transaction.writer(&table);
        writer
            .append(&RecordBatch::try_new(table.schema().clone(), vec![array]).unwrap())
            .unwrap();
        writer.finish().unwrap()
    };
    let first = write(&transaction, &|row| format!("word {}", row % 10), 1000);
    let second = write(&transaction, &|row| format!("word {}", row % 20), 1000);
    let many = write(&transaction, &|row| format!("word {}", row / 2), 1000);
    let long = write(&transaction, &|row| format!("{}{}", "x".repeat(2000), row % 2), 1000);
    let (first, second) = (first[0].dictionary(0).unwrap(), second[0].dictionary(0).unwrap());
    assert_eq!((first.values.len(), second.values.len()), (10, 20));
    assert_eq!(second.values.slice(0, 10), *first.values, "codes keep their meaning");
    assert_eq!(first.codes.value(3), second.codes.value(3));
    assert!(many[0].dictionary(0).is_none() && long[0].dictionary(0).is_none());
    assert_eq!(long[0].column(0).as_string_view().value(1).len(), 2001);
}

#[test]
fn sortedness_spans_segments() {
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let columns = ["a", "b", "c"].map(|name| ColumnDef::new(name, SqlType::Int4)).to_vec();
    let table = transaction
        .create_table(
            "public",
            "t",
            TableDef {
                columns,
                ..TableDef::default()
            },
        )
        .unwrap();
    for start in [0, 100, 200] {
        let unique: ArrayRef = Arc::new(Int32Array::from_iter_values(start..start + 100));
        let pairs: ArrayRef = Arc::new(Int32Array::from_iter_values((start..start + 100).map(|i| i / 3)));
        let falls: ArrayRef = Arc::new(Int32Array::from_iter_values((start..start + 100).map(|i| i % 100)));
        let mut writer = transaction.writer(&table);
        writer
            .append(&RecordBatch::try_new(table.schema().clone(), vec![unique, pairs, falls]).unwrap())
            .unwrap();
        transaction.append(table.oid(), writer.finish().unwrap()).unwrap();
    }
    let table = transaction.state().table("public", "t").unwrap();
    let sorted: Vec<_> = table
        .statistics()
        .columns
        .iter()
        .map(|c| (c.ascending, c.strictly_ascending))
        .collect();
    assert_eq!(sorted, [(true, true), (true, false), (false, false)]);
    assert_eq!(table.statistics().columns[1].distinct(), 100);
    assert_eq!(table.statistics().columns[2].max, Some(Bound::Int(99)));
}
