//! Segments against plain arrays: values, statistics, dictionaries, memory.
//!
//! More than 400 lines because the trials share one reference of plain arrays.

use arrow::array::*;
use arrow::compute::{concat, concat_batches};
use arrow::datatypes::*;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::sync::Arc;
use tenon_storage::datetime::Conventions;
use tenon_storage::network;
use tenon_storage::range::{self, RangeType};
use tenon_storage::{Bound, Codes, ColumnDef, Database, MemoryBudget, Runs, SqlType, TableDef};

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
            SqlType::VarBit => {
                tenon_storage::bits::array(numbers.iter().map(|n| n.map(|n| format!("{n:b}").into_bytes())))
            }
            of @ SqlType::Range(_) => {
                let read = |n: &Option<i64>| {
                    n.map(|n| {
                        range::parse(&format!("[{},100]", n.rem_euclid(100)), *of, &Conventions::default()).unwrap()
                    })
                };
                range::array(*of, numbers.iter().map(read))
            }
            SqlType::Inet => {
                let address = |n: i64| Some(format!("10.{}.0.1/16", n.rem_euclid(100)));
                let read = |n: &Option<i64>| {
                    n.and_then(address)
                        .map(|text| network::parse(text.as_bytes(), SqlType::Inet).unwrap())
                };
                network::array(SqlType::Inet, numbers.iter().map(read)).unwrap()
            }
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

const TYPES: [SqlType; 18] = [
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
    SqlType::VarBit,
    SqlType::Inet,
    SqlType::Range(RangeType::Num),
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
                assert!(coded.values_len() <= 7);
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
    // Of ranges there are no bounds.
    if let DataType::Struct(_) = array.data_type() {
        assert!(min.is_none() && max.is_none());
        return;
    }
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
    let last = write(&transaction, &|row| format!("word {}", row + 17), 3);
    let long = write(&transaction, &|row| format!("{}{}", "x".repeat(2000), row % 2), 1000);
    let (first, second) = (first[0].dictionary(0).unwrap(), second[0].dictionary(0).unwrap());
    assert_eq!((first.values_len(), second.values_len()), (10, 20));
    assert_eq!(second.values().slice(0, 10), first.values(), "codes keep their meaning");
    let code = |column: &tenon_storage::DictionaryColumn| match &column.codes {
        Codes::U8(codes) => u16::from(codes[3]),
        Codes::U16(codes) => codes[3],
        Codes::U32(_) => panic!("codes of few values in 32 bits"),
    };
    assert_eq!(code(first), code(second));
    let last = last[0].dictionary(0).unwrap();
    assert_eq!(last.values_len(), 20, "few rows of known values have codes");
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

/// Rows of one column in every width of differences, at the ends of its type, with and without NULLs.
fn extremes(random: &mut StdRng, rows: usize, data_type: &DataType) -> ArrayRef {
    let (low, high) = match data_type {
        DataType::Int16 => (i128::from(i16::MIN), i128::from(i16::MAX)),
        DataType::Int32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
        DataType::Int64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
        // What the types hold besides is refused on the way in.
        DataType::Date32 => (-2_000_000, 2_000_000),
        DataType::Decimal128(precision, _) => (
            -(10_i128.pow((*precision).into()) - 1),
            10_i128.pow((*precision).into()) - 1,
        ),
        _ => (0, 86_400_000_000),
    };
    let span = [
        0,
        1,
        0xff,
        0x100,
        0xffff,
        0x1_0000,
        0xffff_ffff,
        0x1_0000_0000,
        u64::MAX.into(),
        i128::MAX / 4,
    ];
    let span = span[random.random_range(0..span.len())].min(high.saturating_sub(low));
    let base = match random.random_range(0..3) {
        0 => low,
        1 => high - span,
        _ => random.random_range(low..=high - span),
    };
    let null_share = [0.0, 0.1, 1.0][random.random_range(0..3)];
    let values: Vec<Option<i128>> = (0..rows)
        .map(|row| {
            let value = match row {
                0 => base,
                1 => base + span,
                _ => random.random_range(base..=base + span),
            };
            (!random.random_bool(null_share)).then_some(value)
        })
        .collect();
    macro_rules! of {
        ($t:ty) => {
            Arc::new(
                PrimitiveArray::<$t>::from_iter(values.iter().map(|v| v.map(|v| v as _)))
                    .with_data_type(data_type.clone()),
            )
        };
    }
    match data_type {
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::Date32 => of!(Date32Type),
        DataType::Time64(_) => of!(Time64MicrosecondType),
        DataType::Timestamp(..) => of!(TimestampMicrosecondType),
        _ => of!(Decimal128Type),
    }
}

#[test]
fn narrow_columns_hold_every_value() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    const NARROW: [SqlType; 9] = [
        SqlType::Int2,
        SqlType::Int4,
        SqlType::Int8,
        SqlType::NumericOf(15, 2),
        SqlType::NumericOf(38, 0),
        SqlType::Date,
        SqlType::Time,
        SqlType::Timestamp,
        SqlType::TimestampTz,
    ];
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let columns = NARROW
        .iter()
        .enumerate()
        .map(|(i, t)| ColumnDef::new(format!("c{i}"), *t));
    let columns = columns.collect();
    let table = TableDef {
        columns,
        ..TableDef::default()
    };
    let table = transaction.create_table("public", "t", table).unwrap();
    let (mut narrow, mut saved) = (0, 0);
    for _ in 0..40 {
        let rows = random.random_range(1024..3000);
        let columns = NARROW
            .iter()
            .map(|t| extremes(&mut random, rows, &t.data_type()))
            .collect();
        let whole = RecordBatch::try_new(table.schema().clone(), columns).unwrap();
        let cut = random.random_range(0..=rows);
        let mut writer = transaction.writer(&table);
        writer.append(&whole.slice(0, cut)).unwrap();
        writer.append(&whole.slice(cut, rows - cut)).unwrap();
        let segments = writer.finish().unwrap();
        let segment = &segments[0];
        let (offset, length) = (rows / 3, rows / 2);
        let picked: Vec<u32> = (0..random.random_range(0..200))
            .map(|_| random.random_range(0..rows as u32))
            .collect();
        let picked = UInt32Array::from(picked);
        for (column, sql_type) in NARROW.iter().enumerate() {
            let expected = whole.column(column);
            assert_eq!(&segment.column(column), expected, "{sql_type}");
            assert_eq!(
                &segment.column_slice(column, offset, length),
                &expected.slice(offset, length)
            );
            assert_eq!(
                &segment.take(column, &picked).unwrap(),
                &arrow::compute::take(expected, &picked, None).unwrap()
            );
            let stretches: Vec<u32> = (0..rows as u32).filter(|row| row % 61 != 7 && row % 100 < 95).collect();
            let runs = Runs::of(&stretches).unwrap();
            if let Some(found) = segment.runs(column, &runs) {
                let stretches = UInt32Array::from(stretches);
                assert_eq!(&found, &arrow::compute::take(expected, &stretches, None).unwrap());
            }
            let statistics = segment.statistics(column);
            check_bounds(expected, statistics.min.as_ref(), statistics.max.as_ref());
            narrow += usize::from(segment.narrow(column).is_some());
            saved += expected
                .get_buffer_memory_size()
                .saturating_sub(segment.column_bytes(column));
        }
    }
    assert!(
        narrow > 100 && saved > 1 << 20,
        "{narrow} columns of 360 are narrow and save {saved} bytes"
    );
}

#[test]
fn texts_lie_behind_each_other() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let columns = vec![ColumnDef::new("s", SqlType::Text), ColumnDef::new("b", SqlType::Bytea)];
    let table = TableDef {
        columns,
        ..TableDef::default()
    };
    let table = transaction.create_table("public", "t", table).unwrap();
    for _ in 0..20 {
        let rows = random.random_range(1024..3000);
        let null_share = [0.0, 0.2, 1.0][random.random_range(0..3)];
        let longest = [0, 1, 12, 13, 40, 500][random.random_range(0..6)];
        let texts: Vec<Option<String>> = (0..rows)
            .map(|row| {
                let length = random.random_range(0..=longest);
                let text = format!("{row}{}", "é€x".chars().cycle().take(length).collect::<String>());
                (!random.random_bool(null_share)).then_some(text)
            })
            .collect();
        let strings: ArrayRef = Arc::new(StringViewArray::from_iter(texts.iter().map(Option::as_ref)));
        let bytes = texts.iter().map(|text| text.as_ref().map(|text| text.as_bytes()));
        let bytes: ArrayRef = Arc::new(BinaryViewArray::from_iter(bytes));
        let whole = RecordBatch::try_new(table.schema().clone(), vec![strings, bytes]).unwrap();
        let cut = random.random_range(0..=rows);
        let mut writer = transaction.writer(&table);
        writer.append(&whole.slice(0, cut)).unwrap();
        writer.append(&whole.slice(cut, rows - cut)).unwrap();
        let segments = writer.finish().unwrap();
        let picked: Vec<u32> = (0..100).map(|_| random.random_range(0..rows as u32)).collect();
        let picked = UInt32Array::from(picked);
        for column in 0..2 {
            let (segment, expected) = (&segments[0], whole.column(column));
            let found = segment.column(column);
            assert_eq!(&found, expected);
            found.to_data().validate_full().unwrap();
            assert_eq!(
                &segment.take(column, &picked).unwrap(),
                &arrow::compute::take(expected, &picked, None).unwrap()
            );
            let stretches: Vec<u32> = (0..rows as u32).filter(|row| row % 61 != 7).collect();
            let found = segment.runs(column, &Runs::of(&stretches).unwrap()).unwrap();
            let stretches = UInt32Array::from(stretches);
            assert_eq!(&found, &arrow::compute::take(expected, &stretches, None).unwrap());
            let statistics = segment.statistics(column);
            assert_eq!(statistics.null_count as usize, expected.null_count());
        }
    }
}
