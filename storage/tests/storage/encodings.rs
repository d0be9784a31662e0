//! Columns of every type in every form that they may get, against the arrays that they were written from.
//!
//! More than 400 lines because all tests of forms share what makes columns and what checks them.

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, concat, take};
use arrow::datatypes::*;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenon_storage::{
    Bound, ColumnDef, Database, Form, MemoryBudget, Runs, Segment, SqlType, TableDef, TableVersion, Transaction,
};

pub(crate) const TYPES: [SqlType; 16] = [
    SqlType::Bool,
    SqlType::Int2,
    SqlType::Int4,
    SqlType::Int8,
    SqlType::Float4,
    SqlType::Float8,
    SqlType::NumericOf(15, 2),
    SqlType::NumericOf(38, 0),
    SqlType::Text,
    SqlType::Date,
    SqlType::Time,
    SqlType::Timestamp,
    SqlType::TimestampTz,
    SqlType::Interval,
    SqlType::Bytea,
    SqlType::Uuid,
];

pub(crate) fn seeded() -> StdRng {
    let seed = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("TENON_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

pub(crate) fn table(transaction: &mut Transaction, types: &[SqlType]) -> Arc<TableVersion> {
    let columns = types
        .iter()
        .enumerate()
        .map(|(at, sql_type)| ColumnDef::new(format!("c{at}"), *sql_type))
        .collect();
    let definition = TableDef {
        columns,
        ..TableDef::default()
    };
    transaction.create_table("public", "t", definition).unwrap()
}

/// A few values of a type: its ends, neighbours, and such as only compare as equal; with `long` a text that no dictionary takes.
fn pool(random: &mut StdRng, sql_type: SqlType, long: bool) -> ArrayRef {
    let data_type = sql_type.data_type();
    macro_rules! numbers {
        ($t:ty, $values:expr) => {
            Arc::new(PrimitiveArray::<$t>::from_iter_values($values).with_data_type(data_type.clone())) as ArrayRef
        };
    }
    match sql_type {
        SqlType::Bool => Arc::new(BooleanArray::from(vec![true, false])),
        SqlType::Int2 => numbers!(Int16Type, [i16::MIN, i16::MAX, 0, 1, -1]),
        SqlType::Int4 => numbers!(Int32Type, [i32::MIN, i32::MAX, 0, 1, 255, 256]),
        SqlType::Int8 => numbers!(Int64Type, [i64::MIN, i64::MAX, 0, 1, 65_535, 65_536]),
        SqlType::Float4 => numbers!(Float32Type, [0.0, -0.0, f32::MAX, f32::NEG_INFINITY, 1.5]),
        SqlType::Float8 => numbers!(Float64Type, [0.0, -0.0, f64::MIN, f64::INFINITY, f64::MIN_POSITIVE]),
        SqlType::NumericOf(precision, _) => {
            let most = 10_i128.pow(precision.into()) - 1;
            numbers!(Decimal128Type, [most, -most, 0, 1, 4_294_967_296])
        }
        SqlType::Date => numbers!(Date32Type, [-2_000_000, 2_000_000, 0, 1]),
        SqlType::Time => numbers!(Time64MicrosecondType, [0, 86_400_000_000, 1, 1_000_000]),
        SqlType::Timestamp | SqlType::TimestampTz => {
            numbers!(TimestampMicrosecondType, [-86_400_000_000, 0, 1, 4_000_000_000_000_000])
        }
        SqlType::Interval => Arc::new(IntervalMonthDayNanoArray::from_iter_values([
            IntervalMonthDayNano::new(0, 30, 0),
            IntervalMonthDayNano::new(1, 0, 0),
            IntervalMonthDayNano::new(-1, 5, 7000),
        ])),
        SqlType::Uuid => {
            let values = [[0; 16], [0xff; 16], random.random()];
            Arc::new(FixedSizeBinaryArray::try_from_iter(values.into_iter()).unwrap())
        }
        _ => {
            let many: Vec<String> = (0..40).map(|at| format!("many of them {at}")).collect();
            let texts = ["", "a", "of twelve by", "of thirteen b", "of thirteen c", "żó"];
            let long = long.then(|| "long ".repeat(300));
            let strings = texts.into_iter().chain(long.as_deref());
            let strings = strings.chain(many.iter().map(String::as_str));
            let strings: ArrayRef = Arc::new(StringViewArray::from_iter_values(strings));
            cast(&strings, &data_type).unwrap()
        }
    }
}

/// How values follow each other in a column.
pub(crate) const WAYS: [&str; 8] = ["one", "null", "long", "longer", "short", "mixed", "none", "halves"];

/// Rows of values and nulls that repeat in one of [`WAYS`].
pub(crate) fn column(random: &mut StdRng, sql_type: SqlType, rows: usize, way: &str) -> ArrayRef {
    // Texts that do not repeat one behind the other are those that a dictionary is for.
    let pool = pool(random, sql_type, way != "none");
    let null_share = *[0.0, 0.0, 0.3].choose(random).unwrap();
    let mut picked: Vec<Option<u32>> = vec![];
    let value =
        |random: &mut StdRng| (!random.random_bool(null_share)).then(|| random.random_range(0..pool.len() as u32));
    let one = value(random);
    while picked.len() < rows {
        let (value, length) = match way {
            "one" => (one, rows),
            "null" => (None, rows),
            "long" => (value(random), random.random_range(30..100)),
            "longer" => (value(random), random.random_range(100..2000)),
            "short" => (value(random), random.random_range(1..12)),
            "mixed" if random.random_bool(0.5) => (value(random), random.random_range(1..400)),
            "halves" => (value(random), rows.div_ceil(2)),
            _ => (value(random), 1),
        };
        picked.extend(std::iter::repeat_n(value, length.min(rows - picked.len())));
    }
    let array = take(&pool, &UInt32Array::from(picked), None).unwrap();
    // Null rows hold anything.
    match array.data_type() {
        DataType::Int64 if array.null_count() > 0 => {
            let junk: Vec<i64> = (0..rows as i64).collect();
            let own = array.as_primitive::<Int64Type>();
            let values = (0..rows).map(|row| if own.is_valid(row) { own.value(row) } else { junk[row] });
            let values: Vec<i64> = values.collect();
            Arc::new(Int64Array::new(values.into(), own.nulls().cloned()))
        }
        _ => array,
    }
}

pub(crate) fn written(
    transaction: &Transaction,
    table: &Arc<TableVersion>,
    batches: &[RecordBatch],
) -> Vec<Arc<Segment>> {
    let mut writer = transaction.writer(table);
    batches.iter().for_each(|batch| writer.append(batch).unwrap());
    writer.finish().unwrap()
}

/// Bits and not only numbers are the same.
fn assert_same(found: &ArrayRef, expected: &ArrayRef, what: &str) {
    found.to_data().validate_full().unwrap();
    assert_eq!(found, expected, "{what}");
}

fn expanded(form: Form<'_>) -> Option<usize> {
    Some(match form {
        Form::Plain(array) => array.len(),
        Form::Narrow(own) => match own.differences() {
            tenon_storage::Differences::None(rows) => *rows,
            tenon_storage::Differences::U8(values) => values.len(),
            tenon_storage::Differences::U16(values) => values.len(),
            tenon_storage::Differences::U32(values) => values.len(),
            tenon_storage::Differences::U64(values) => values.len(),
        },
        Form::Dictionary(own) => own.nulls.as_ref().map(NullBuffer::len)?,
        _ => return None,
    })
}

/// Every way to read a column gives what was written, and its statistics are those of its rows.
pub(crate) fn check(random: &mut StdRng, segment: &Segment, column: usize, expected: &ArrayRef, what: &str) {
    let rows = segment.rows();
    let what = format!("{what} as {}", segment.encoding(column));
    assert_same(&segment.column(column), expected, &what);
    for _ in 0..4 {
        let offset = random.random_range(0..=rows);
        let count = random.random_range(0..=rows - offset);
        assert_same(
            &segment.column_slice(column, offset, count),
            &expected.slice(offset, count),
            &what,
        );
    }
    for _ in 0..3 {
        let picked = (0..random.random_range(0..300)).map(|_| random.random_range(0..rows as u32));
        let mut picked: Vec<u32> = picked.collect();
        if random.random_bool(0.5) {
            picked.sort_unstable();
        }
        let picked = UInt32Array::from(picked);
        let found = segment.take(column, &picked).unwrap();
        assert_same(&found, &take(expected, &picked, None).unwrap(), &what);
    }
    let stretches: Vec<u32> = (0..rows as u32).filter(|row| row % 61 != 7 && row % 100 < 95).collect();
    if let Some(runs) = Runs::of(&stretches)
        && let Some(found) = segment.runs(column, &runs)
    {
        assert_same(
            &found,
            &take(expected, &UInt32Array::from(stretches), None).unwrap(),
            &what,
        );
    }
    if let Some(own) = segment.run_length(column) {
        let of_rows = own.expanded();
        assert!(!matches!(of_rows.form(), Form::RunLength(_)));
        assert!(
            expanded(of_rows.form()).is_none_or(|expanded| expanded == rows),
            "{what}"
        );
        if let Form::Plain(array) = of_rows.form() {
            assert_same(array, expected, &what);
        }
        let plain = expected.get_buffer_memory_size();
        assert!(
            2 * segment.column_bytes(column) < plain + 1024,
            "{what}: {plain} bytes without"
        );
    }
    let statistics = segment.statistics(column);
    assert_eq!(statistics.rows as usize, rows, "{what}");
    assert_eq!(statistics.null_count as usize, expected.null_count(), "{what}");
    let sorted = arrow::compute::sort(expected, None).unwrap();
    let values = sorted.slice(sorted.null_count(), rows - sorted.null_count());
    let floats = matches!(expected.data_type(), DataType::Float32 | DataType::Float64);
    if let (Some(min), Some(max), false) = (&statistics.min, &statistics.max, floats) {
        let of = |bound: &Bound| bound.to_array(expected.data_type()).unwrap();
        assert_eq!(&of(min), &values.slice(0, 1), "{what}");
        assert_eq!(&of(max), &values.slice(values.len() - 1, 1), "{what}");
    }
    if !floats && !matches!(expected.data_type(), DataType::Interval(_)) {
        let ascends = expected.null_count() == 0 && &sorted == expected;
        assert_eq!(statistics.ascending, ascends, "{what}");
        assert!(!statistics.strictly_ascending || ascends, "{what}");
        let distinct: BTreeSet<Vec<u8>> = (0..rows)
            .filter(|row| expected.is_valid(*row))
            .map(|row| format!("{:?}", expected.slice(row, 1)).into_bytes())
            .take(if rows > 3000 { 0 } else { rows })
            .collect();
        let near = distinct.is_empty() || statistics.distinct().abs_diff(distinct.len() as u64) <= 3 + rows as u64 / 20;
        assert!(near, "{what}: {} of {}", statistics.distinct(), distinct.len());
    }
}

#[test]
fn columns_hold_what_was_written_in_any_form() {
    let mut random = seeded();
    let database = Database::new(MemoryBudget::unlimited());
    let mut forms: BTreeMap<&str, usize> = BTreeMap::new();
    for round in 0..24 {
        let mut transaction = database.begin();
        let table = table(&mut transaction, &TYPES);
        let rows = if round % 6 == 0 {
            20_000
        } else {
            random.random_range(1..3000)
        };
        // In turn, so that every type has rows of every way, and the long rounds have each column's narrowest form.
        let columns = TYPES.iter().enumerate().map(|(at, sql_type)| {
            let way = WAYS[(at + round) % WAYS.len()];
            column(&mut random, *sql_type, rows, way)
        });
        let columns = columns.collect();
        let whole = RecordBatch::try_new(table.schema().clone(), columns).unwrap();
        // Runs go on from one batch to the next.
        let mut cuts = [0, rows, random.random_range(0..=rows), random.random_range(0..=rows)];
        cuts.sort_unstable();
        let batches = cuts.windows(2).map(|cut| whole.slice(cut[0], cut[1] - cut[0]));
        let segments = written(&transaction, &table, &batches.collect::<Vec<_>>());
        assert_eq!(segments.len(), 1);
        for (at, sql_type) in TYPES.iter().enumerate() {
            check(&mut random, &segments[0], at, whole.column(at), &sql_type.to_string());
            *forms.entry(segments[0].encoding(at)).or_default() += 1;
        }
        drop((segments, table, transaction));
        assert_eq!(database.budget().in_use_bytes(), 0);
    }
    for form in ["plain", "constant", "runs", "codes of 8 bits", "differences of 64 bits"] {
        assert!(forms.contains_key(form), "no column is in {form}: {forms:?}");
    }
}

/// A column whose values are wider from segment to segment, and repeat ever less.
#[test]
fn each_segment_has_the_form_of_its_own_rows() {
    let mut random = seeded();
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let table = table(&mut transaction, &[SqlType::Int8, SqlType::Text]);
    let wider: [&dyn Fn(i64) -> i64; 6] = [
        &|_| 7,
        &|row| row / 500,
        &|row| row % 200,
        &|row| row * 20,
        &|row| row * 1_000_000,
        &|row| if row % 2 == 0 { i64::MIN } else { i64::MAX - row },
    ];
    let mut encodings = vec![];
    for (at, of) in wider.iter().enumerate() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3000).map(of)));
        let text = |row: i64| format!("a text with number {}", of(row));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..3000).map(text)));
        let columns = vec![numbers.clone(), texts.clone()];
        let batch = RecordBatch::try_new(table.schema().clone(), columns).unwrap();
        let segments = written(&transaction, &table, &[batch]);
        check(&mut random, &segments[0], 0, &numbers, &format!("numbers {at}"));
        check(&mut random, &segments[0], 1, &texts, &format!("texts {at}"));
        encodings.push((segments[0].encoding(0), segments[0].encoding(1)));
        transaction.append(table.oid(), segments).unwrap();
    }
    assert_eq!(
        encodings,
        [
            ("constant", "constant"),
            ("runs", "runs"),
            ("differences of 8 bits", "codes of 8 bits"),
            ("differences of 16 bits", "text"),
            ("differences of 32 bits", "text"),
            ("plain", "codes of 16 bits"),
        ]
    );
    let table = transaction.state().table("public", "t").unwrap().clone();
    let all: Vec<ArrayRef> = table.segments().iter().map(|segment| segment.column(0)).collect();
    let all: Vec<&dyn Array> = all.iter().map(|array| array.as_ref()).collect();
    let expected = Int64Array::from_iter_values(wider.iter().flat_map(|of| (0..3000).map(of)));
    assert_eq!(concat(&all).unwrap().as_primitive::<Int64Type>(), &expected);
}

/// Texts that repeat over many segments get wider codes as they become more, and none where those would not pay.
#[test]
fn dictionaries_grow_to_32_bits_and_end() {
    let mut random = seeded();
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let table = table(&mut transaction, &[SqlType::Text]);
    let mut widths = BTreeSet::new();
    let text = |value: u32| (value % 97 != 5).then(|| format!("a value of some length, number {value:08}"));
    // Each segment has each of its own values twice, and none of another's.
    for segment in 0..5u32 {
        let rows = 40_000;
        let values: Vec<u32> = (0..rows)
            .map(|_| segment * 20_000 + random.random_range(0..20_000))
            .collect();
        let texts: ArrayRef = Arc::new(values.iter().map(|value| text(*value)).collect::<StringViewArray>());
        let batch = RecordBatch::try_new(table.schema().clone(), vec![texts.clone()]).unwrap();
        let segments = written(&transaction, &table, &[batch]);
        check(&mut random, &segments[0], 0, &texts, &format!("segment {segment}"));
        widths.insert(segments[0].encoding(0));
        transaction.append(table.oid(), segments).unwrap();
    }
    let known = transaction.state().table("public", "t").unwrap().segments().len();
    assert_eq!(known, 5);
    assert!(
        widths.contains("codes of 16 bits") && widths.contains("codes of 32 bits"),
        "{widths:?}"
    );
    // Values of the first segments again, each once: most are known.
    let again: ArrayRef = Arc::new((0..3000).map(|row| text(row * 5)).collect::<StringViewArray>());
    let batch = RecordBatch::try_new(table.schema().clone(), vec![again.clone()]).unwrap();
    let segments = written(&transaction, &table, &[batch]);
    check(&mut random, &segments[0], 0, &again, "again");
    // No value twice.
    let new = |value: u32| Some(format!("another value of some length, number {value:08}"));
    let new: ArrayRef = Arc::new((0..40_000).map(new).collect::<StringViewArray>());
    let batch = RecordBatch::try_new(table.schema().clone(), vec![new.clone()]).unwrap();
    let segments = written(&transaction, &table, &[batch]);
    assert_eq!(segments[0].encoding(0), "text");
    check(&mut random, &segments[0], 0, &new, "new");
}

/// Whatever memory is left when a segment is built: it holds its rows, or there is 53200 and nothing is kept.
#[test]
fn memory_may_end_within_any_column() {
    let mut random = seeded();
    let columns = |random: &mut StdRng| {
        let any = TYPES.map(|sql_type| {
            let way = WAYS.choose(random).unwrap();
            column(random, sql_type, 2000, way)
        });
        any.to_vec()
    };
    let (mut held, mut refused) = (0, 0);
    for step in 0..60 {
        let budget = MemoryBudget::new(step * 32_768);
        let database = Database::new(budget);
        let mut transaction = database.begin();
        let table = table(&mut transaction, &TYPES);
        let whole = RecordBatch::try_new(table.schema().clone(), columns(&mut random)).unwrap();
        let mut writer = transaction.writer(&table);
        let result = writer.append(&whole).and_then(|()| writer.finish());
        match result {
            Ok(segments) => {
                held += 1;
                for (at, sql_type) in TYPES.iter().enumerate() {
                    check(&mut random, &segments[0], at, whole.column(at), &sql_type.to_string());
                }
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.sqlstate(), "53200");
            }
        }
        drop((table, transaction));
        assert_eq!(database.budget().in_use_bytes(), 0);
    }
    assert!(held > 5 && refused > 5, "{held} held, {refused} refused");
}
