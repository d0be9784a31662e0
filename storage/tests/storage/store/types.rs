//! Columns of every type, in every form that segments keep them in, are found again as they were.

use super::{dump, open};
use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat};
use arrow::datatypes::*;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::sync::Arc;
use tenon_storage::range::{self, RangeType};
use tenon_storage::{
    ArrayType, Attribute, ColumnDef, CompositeType, EnumLabel, EnumType, Object, ObjectKey, SqlType, TableDef,
};

/// An array of a type: random values of few or many kinds, or one, with nulls or without.
fn array(random: &mut StdRng, sql_type: SqlType, rows: usize) -> ArrayRef {
    let nulls = [0.0, 0.2, 1.0][random.random_range(0..3)];
    let kinds = [1_i64, 5, 300, 1 << 40, i64::MAX][random.random_range(0..5)];
    let numbers: Vec<Option<i64>> = (0..rows)
        .map(|_| (!random.random_bool(nulls)).then(|| random.random_range(0..kinds) - kinds / 2))
        .collect();
    let integers = Int64Array::from(numbers.clone());
    let text = |value: i64| {
        format!(
            "{}{value}",
            ["", "a text that is longer than most "][(value & 1) as usize]
        )
    };
    let texts: StringViewArray = numbers.iter().map(|value| value.map(text)).collect();
    let wrapped = |width: i64| Int64Array::from_iter(numbers.iter().map(|value| value.map(|value| value % width)));
    let data_type = sql_type.data_type();
    match sql_type {
        SqlType::Bool => Arc::new(BooleanArray::from_iter(
            numbers.iter().map(|value| value.map(|value| value & 1 == 1)),
        )),
        SqlType::Int2 => cast(&wrapped(1 << 15), &data_type).unwrap(),
        SqlType::Int4 | SqlType::Date => {
            let small = cast(&wrapped(1 << 31), &DataType::Int32).unwrap();
            cast(&small, &data_type).unwrap()
        }
        SqlType::Time => Arc::new(Time64MicrosecondArray::from_iter(
            numbers
                .iter()
                .map(|value| value.map(|value| value.rem_euclid(86_400_000_000))),
        )),
        SqlType::Interval => Arc::new(IntervalMonthDayNanoArray::from_iter(numbers.iter().map(|value| {
            value.map(|value| IntervalMonthDayNano::new(value as i32, (value >> 7) as i32, value))
        }))),
        SqlType::NumericOf(..) => {
            let values = numbers.iter().map(|value| value.map(i128::from));
            Arc::new(Decimal128Array::from_iter(values).with_data_type(data_type))
        }
        SqlType::Timestamp | SqlType::TimestampTz => {
            let values = TimestampMicrosecondArray::from(numbers);
            Arc::new(values.with_data_type(data_type))
        }
        SqlType::Enum(_) => {
            let values = numbers.iter().map(|value| value.map(|value| value.rem_euclid(2)));
            let values = TimestampMicrosecondArray::from_iter(values);
            Arc::new(values.with_data_type(data_type))
        }
        of if of.is_address() || matches!(of, SqlType::Uuid | SqlType::TimeTz) => {
            let DataType::FixedSizeBinary(width) = data_type else {
                unreachable!()
            };
            let mut values = FixedSizeBinaryBuilder::new(width);
            for value in numbers {
                match value {
                    Some(value) => values
                        .append_value(&value.to_le_bytes().repeat(5)[..width as usize])
                        .unwrap(),
                    None => values.append_null(),
                }
            }
            Arc::new(values.finish())
        }
        SqlType::Bytea => cast(&cast(&texts, &DataType::Binary).unwrap(), &data_type).unwrap(),
        SqlType::Numeric => {
            let values: Vec<Option<Vec<u8>>> = texts
                .iter()
                .map(|text| text.map(|text| text.as_bytes().to_vec()))
                .collect();
            Arc::new(LargeBinaryArray::from_iter(values))
        }
        of if of.is_range() => {
            let bytes = texts.iter().map(|text| text.map(|text| text.as_bytes().to_vec()));
            range::array(of, bytes)
        }
        SqlType::Jsonb => cast(&texts, &DataType::LargeUtf8).unwrap(),
        SqlType::VarBit => {
            let bits = |value: i64| format!("{value:b}").into_bytes();
            tenon_storage::bits::array(numbers.iter().map(|value| value.map(bits)))
        }
        SqlType::Composite(of) => {
            let columns = of.attributes().iter().map(|own| array(random, own.sql_type, rows));
            let DataType::Struct(fields) = data_type else {
                unreachable!()
            };
            let nulls = numbers.iter().map(Option::is_some).collect::<Vec<_>>();
            Arc::new(StructArray::new(fields, columns.collect(), Some(nulls.into())))
        }
        SqlType::Array(of) if let SqlType::Composite(_) = of.element() => {
            let lengths: Vec<usize> = numbers
                .iter()
                .map(|value| value.map_or(0, |own| own.rem_euclid(3)) as usize)
                .collect();
            let items = array(random, of.element(), lengths.iter().sum());
            let nulls = numbers.iter().map(Option::is_some).collect::<Vec<_>>();
            let DataType::List(item) = data_type else {
                unreachable!()
            };
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(ListArray::new(item, offsets, items, Some(nulls.into())))
        }
        SqlType::Array(_) => {
            let mut lists = ListBuilder::new(Int32Builder::new());
            for value in numbers {
                match value {
                    Some(value) => {
                        (0..value.rem_euclid(4))
                            .for_each(|item| lists.values().append_option((item != 1).then_some(item as i32)));
                        lists.append(true);
                    }
                    None => lists.append(false),
                }
            }
            Arc::new(lists.finish())
        }
        _ if data_type == DataType::Utf8View => Arc::new(texts),
        _ => cast(&integers, &data_type).unwrap(),
    }
}

#[test]
fn every_type_in_every_form() {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let mut transaction = database.begin();
    let labels = ["one", "two"].iter().zip(1..).map(|(label, order)| EnumLabel {
        oid: 90_000 + order,
        label: label.to_string(),
        order: order as f32,
    });
    let own = EnumType::register(
        transaction.new_oid(),
        transaction.new_oid(),
        "public",
        "e",
        labels.collect(),
    );
    let key = ObjectKey::Type {
        schema: "public".into(),
        name: "e".into(),
    };
    transaction.put_object(key, Some(Object::Enum(own)));
    transaction.commit().unwrap();
    let attribute = |(number, sql_type): (u32, SqlType)| Attribute {
        number,
        name: format!("a{number}"),
        sql_type,
        domain: None,
    };
    let inner = [SqlType::Text, SqlType::Numeric, SqlType::Enum(own)];
    let inner = (1..).zip(inner).map(attribute).collect();
    let inner = SqlType::Composite(CompositeType::of(95_000, 95_001, "public", "inner", inner));
    let outer = [
        SqlType::VarcharOf(100),
        inner,
        SqlType::Array(ArrayType::of_items(inner)),
    ];
    let outer = (1..).zip(outer).map(attribute).collect();
    let outer = SqlType::Composite(CompositeType::of(95_002, 95_003, "public", "outer", outer));
    let types = [
        outer,
        SqlType::Array(ArrayType::of_items(outer)),
        SqlType::Bool,
        SqlType::Int2,
        SqlType::Int4,
        SqlType::Int8,
        SqlType::Float4,
        SqlType::Float8,
        SqlType::Numeric,
        SqlType::NumericOf(38, 3),
        SqlType::Text,
        SqlType::VarcharOf(100),
        SqlType::Json,
        SqlType::Jsonb,
        SqlType::Date,
        SqlType::Time,
        SqlType::TimeTz,
        SqlType::Timestamp,
        SqlType::TimestampTz,
        SqlType::Interval,
        SqlType::Bytea,
        SqlType::Uuid,
        SqlType::VarBit,
        SqlType::Range(RangeType::Int4),
        SqlType::Range(RangeType::Num),
        SqlType::Multirange(RangeType::Date),
        SqlType::Inet,
        SqlType::Cidr,
        SqlType::MacAddr,
        SqlType::MacAddr8,
        SqlType::Enum(own),
        SqlType::Array(ArrayType::of_items(SqlType::Int4)),
    ];
    for (number, rows) in [1, 2, 100, 1024, 5000, 20_000].into_iter().enumerate() {
        let mut transaction = database.begin();
        let columns = types.iter().enumerate();
        let columns = columns.map(|(at, sql_type)| ColumnDef::new(format!("c{at}"), *sql_type));
        let def = TableDef {
            columns: columns.collect(),
            ..TableDef::default()
        };
        let table = transaction.create_table("public", &format!("t{number}"), def).unwrap();
        // Several segments of a table: a column may stop fitting the form that it had.
        for _ in 0..3 {
            let arrays: Vec<ArrayRef> = types.iter().map(|of| array(&mut random, *of, rows)).collect();
            let doubled = arrays.iter().map(|array| concat(&[array, array]).unwrap());
            let batch = RecordBatch::try_new(table.schema().clone(), doubled.collect()).unwrap();
            let mut writer = transaction.writer(&table);
            writer.append(&batch).unwrap();
            transaction.append(table.oid(), writer.finish().unwrap()).unwrap();
        }
        transaction.commit().unwrap();
    }
    // A table without columns has rows all the same.
    let mut transaction = database.begin();
    transaction
        .create_table("public", "empty", TableDef::default())
        .unwrap();
    transaction.commit().unwrap();
    let expected = dump(&database.snapshot());
    drop(database);
    for _ in 0..2 {
        let database = open(directory.path()).unwrap();
        let found = dump(&database.snapshot());
        for (name, told) in &expected {
            assert!(found.get(name) == Some(told), "{name} is not as it was");
        }
        assert_eq!(found.len(), expected.len());
        database.checkpoint().unwrap();
    }
}
