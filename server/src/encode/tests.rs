//! The encoder against a plain reference, cell by cell, on random batches; binary values decoded by postgres-types.
//!
//! More than 400 lines because it has a plain reference for every type.

use super::copy::CopyEncoder;
use super::row::RowEncoder;
use super::{Format, Style, cell, oid};
use arrow::array::*;
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use std::sync::Arc;
use tenon_planner::outcome::{ColumnDesc, CopyOutFormat, PgType};
use tokio_postgres::types::{FromSql, Type};

/// A small generator (xorshift): the seed is in every message of a failed test.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let seed = std::env::var("TENON_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| {
                std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap()
                    .as_nanos() as u64
            });
        println!("TENON_SEED={seed}");
        Self(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// NULL one time in five.
    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(5) > 0).then(|| value(self))
    }

    fn text(&mut self) -> String {
        let alphabet: Vec<char> = "ab \t\n\r\\\",'{}()NULL\u{e9}\u{1F600}\u{8}".chars().collect();
        (0..self.below(12))
            .map(|_| alphabet[self.below(alphabet.len() as u64) as usize])
            .collect()
    }
}

fn desc(name: &str, array: &dyn Array, oid: u32) -> ColumnDesc {
    let pg_type = PgType { oid, typmod: -1 };
    ColumnDesc {
        name: name.into(),
        data_type: array.data_type().clone(),
        pg_type,
        origin: None,
    }
}

/// Rows of cells of a DataRow stream; `None` is NULL.
fn cells(mut bytes: &[u8]) -> Vec<Vec<Option<Vec<u8>>>> {
    let mut rows = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[0], b'D');
        let length = u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize;
        let (mut body, rest) = bytes[5..].split_at(length - 4);
        bytes = rest;
        let count = u16::from_be_bytes(body[..2].try_into().unwrap());
        body = &body[2..];
        let mut row = Vec::new();
        for _ in 0..count {
            let length = i32::from_be_bytes(body[..4].try_into().unwrap());
            body = &body[4..];
            row.push(usize::try_from(length).ok().map(|length| {
                let (value, rest) = body.split_at(length);
                body = rest;
                value.to_vec()
            }));
        }
        assert!(body.is_empty());
        rows.push(row);
    }
    rows
}

fn encode(batch: &RecordBatch, descs: &[ColumnDesc], format: Format) -> Vec<Vec<Option<Vec<u8>>>> {
    let encoder = RowEncoder::new(descs, &vec![format; descs.len()], Style::default());
    let rows = encoder.bind(batch).unwrap();
    let mut out = Vec::new();
    // In two steps, as where a buffer was full.
    let half = rows.write(0, batch.num_rows() / 2, usize::MAX, &mut out).unwrap();
    assert_eq!(
        rows.write(half, batch.num_rows(), usize::MAX, &mut out).unwrap(),
        batch.num_rows()
    );
    cells(&out)
}

fn batch(columns: &[(ArrayRef, u32)]) -> (RecordBatch, Vec<ColumnDesc>) {
    let named = columns
        .iter()
        .enumerate()
        .map(|(i, (array, _))| (format!("c{i}"), array.clone()));
    let descs = columns
        .iter()
        .enumerate()
        .map(|(i, (array, oid))| desc(&format!("c{i}"), array, *oid))
        .collect();
    (
        RecordBatch::try_from_iter_with_nullable(named.map(|(name, array)| (name, array, true))).unwrap(),
        descs,
    )
}

fn one(array: ArrayRef, oid: u32, format: Format) -> Vec<Option<Vec<u8>>> {
    let (batch, descs) = batch(&[(array, oid)]);
    encode(&batch, &descs, format)
        .into_iter()
        .map(|mut row| row.remove(0))
        .collect()
}

fn texts(array: ArrayRef, oid: u32) -> Vec<Option<String>> {
    one(array, oid, Format::Text)
        .into_iter()
        .map(|cell| cell.map(|bytes| String::from_utf8(bytes).unwrap()))
        .collect()
}

fn decoded<T: for<'a> FromSql<'a>>(array: ArrayRef, oid: u32) -> Vec<Option<T>> {
    let pg = Type::from_oid(oid).unwrap();
    let decode = |bytes: Vec<u8>| T::from_sql(&pg, &bytes).unwrap();
    one(array, oid, Format::Binary)
        .into_iter()
        .map(|cell| cell.map(decode))
        .collect()
}

const ROWS: usize = 300;

#[test]
fn integers_of_every_width_and_announced_type() {
    let mut random = Random::seeded();
    let values: Vec<Option<i64>> = (0..ROWS).map(|_| random.maybe(|r| r.next() as i64)).collect();
    macro_rules! check {
        ($arrow:ty, $native:ty, $oid:expr, $decoded:ty) => {
            let narrow: Vec<Option<$native>> = values.iter().map(|v| v.map(|v| v as $native)).collect();
            let array: ArrayRef = Arc::new(PrimitiveArray::<$arrow>::from_iter(narrow.iter().copied()));
            let expected: Vec<_> = narrow.iter().map(|v| v.map(|v| v.to_string())).collect();
            assert_eq!(texts(array.clone(), $oid), expected);
            let expected: Vec<_> = narrow.iter().map(|v| v.map(|v| v as $decoded)).collect();
            assert_eq!(decoded::<$decoded>(array, $oid), expected);
        };
    }
    check!(Int8Type, i8, oid::INT2, i16);
    check!(Int16Type, i16, oid::INT2, i16);
    check!(Int32Type, i32, oid::INT4, i32);
    check!(Int64Type, i64, oid::INT8, i64);
    check!(UInt8Type, u8, oid::INT2, i16);
    check!(UInt16Type, u16, oid::INT4, i32);
    check!(UInt32Type, u32, oid::INT8, i64);
    check!(Int32Type, i32, oid::INT8, i64);
    check!(UInt32Type, u32, oid::OID, u32);
    // Of few digits, so that Rust prints them as PostgreSQL does.
    let eighths: Vec<Option<f64>> = values.iter().map(|v| v.map(|v| (v % 1000) as f64 / 8.0)).collect();
    let expected: Vec<_> = eighths.iter().map(|v| v.map(|v| v.to_string())).collect();
    let wide: ArrayRef = Arc::new(Float64Array::from(eighths.clone()));
    let narrow = arrow::compute::cast(&wide, &DataType::Float32).unwrap();
    assert_eq!(texts(wide.clone(), oid::FLOAT8), expected);
    assert_eq!(texts(narrow.clone(), oid::FLOAT4), expected);
    assert_eq!(decoded::<f64>(wide, oid::FLOAT8), eighths);
    assert_eq!(
        decoded::<f32>(narrow, oid::FLOAT4),
        eighths.iter().map(|v| v.map(|v| v as f32)).collect::<Vec<_>>()
    );
}

#[test]
fn an_integer_outside_its_announced_type_is_an_error() {
    let (batch, descs) = batch(&[(Arc::new(Int64Array::from(vec![1, 1 << 40])), oid::INT4)]);
    let encoder = RowEncoder::new(&descs, &[Format::Binary], Style::default());
    let mut out = Vec::new();
    let error = encoder
        .bind(&batch)
        .unwrap()
        .write(0, 2, usize::MAX, &mut out)
        .unwrap_err();
    assert_eq!(error.state.0, "22003");
    assert_eq!(cells(&out).len(), 1, "whole messages only");
}

#[test]
fn strings_in_every_layout() {
    let mut random = Random::seeded();
    let values: Vec<Option<String>> = (0..ROWS).map(|_| random.maybe(Random::text)).collect();
    let dictionary: DictionaryArray<UInt16Type> = values.iter().map(|v| v.as_deref()).collect();
    let arrays: [ArrayRef; 4] = [
        Arc::new(StringArray::from(values.clone())),
        Arc::new(LargeStringArray::from(values.clone())),
        Arc::new(StringViewArray::from_iter(values.clone())),
        Arc::new(dictionary),
    ];
    for array in arrays {
        assert_eq!(texts(array.clone(), oid::TEXT), values);
        assert_eq!(decoded::<String>(array.clone(), oid::TEXT), values);
        let json = one(array, oid::JSONB, Format::Binary);
        assert!(json.iter().flatten().all(|bytes| bytes[0] == 1));
    }
    let array: ArrayRef = Arc::new(StringViewArray::from(vec!["x", "\u{e9}\u{e9}", "abcd"]));
    let (batch, mut descs) = batch(&[(array, oid::BPCHAR)]);
    descs[0].pg_type.typmod = 3 + 4;
    let padded = encode(&batch, &descs, Format::Text);
    assert_eq!(
        padded.concat(),
        ["x  ", "\u{e9}\u{e9} ", "abcd"].map(|s| Some(s.as_bytes().to_vec()))
    );
}

#[test]
fn numerics_read_back() {
    let mut random = Random::seeded();
    for scale in [0i8, 1, 2, 3, 4, 5, 10, 37, 38] {
        let values: Vec<Option<i128>> = (0..ROWS)
            .map(|_| {
                random.maybe(|r| {
                    (i128::from(r.next() as i64) * i128::from(r.next() as i64 >> r.below(64))) >> r.below(120)
                })
            })
            .collect();
        let array = Decimal128Array::from(values.clone())
            .with_precision_and_scale(38, scale)
            .unwrap();
        let array: ArrayRef = Arc::new(array);
        let written = texts(array.clone(), oid::NUMERIC);
        for (value, text) in values.iter().zip(&written) {
            let Some(value) = value else { continue };
            let text = text.as_deref().unwrap();
            let shown = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            let digits = text.replace('.', "").parse::<i128>().unwrap();
            assert_eq!(digits * 10i128.pow(scale as u32 - shown as u32), *value, "{text}");
            assert_eq!(shown, scale as usize, "{text}");
        }
        // The binary form through the parameter decoder, which is tested on its own against PostgreSQL's bytes.
        let binary = one(array, oid::NUMERIC, Format::Binary);
        let pg = PgType {
            oid: oid::NUMERIC,
            typmod: -1,
        };
        for (bytes, value) in binary.into_iter().zip(&values) {
            let parameter = crate::wire::message::Parameter {
                format: Format::Binary,
                value: bytes.map(Into::into),
            };
            let decoded = crate::params::decode(
                &parameter,
                pg,
                &DataType::Decimal128(38, scale),
                1,
                (&Default::default(), Default::default()),
            )
            .unwrap();
            assert_eq!(decoded, datafusion::scalar::ScalarValue::Decimal128(*value, 38, scale));
        }
    }
}

#[test]
fn dates_and_times_read_back() {
    use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
    let mut random = Random::seeded();
    let days: Vec<Option<i32>> = (0..ROWS)
        .map(|_| random.maybe(|r| r.below(2_000_000) as i32 - 700_000))
        .collect();
    let array: ArrayRef = Arc::new(Date32Array::from(days.clone()));
    let dates: Vec<_> = days.iter().map(|d| d.and_then(NaiveDate::from_epoch_days)).collect();
    assert_eq!(decoded::<NaiveDate>(array.clone(), oid::DATE), dates);
    assert_eq!(
        texts(array, oid::DATE),
        dates.iter().map(|d| d.map(|d| d.to_string())).collect::<Vec<_>>()
    );

    let us: Vec<Option<i64>> = (0..ROWS)
        .map(|_| random.maybe(|r| r.below(1 << 57) as i64 - (1 << 55)))
        .collect();
    let stamps: Vec<Option<NaiveDateTime>> = us
        .iter()
        .map(|us| us.map(|us| DateTime::from_timestamp_micros(us).unwrap().naive_utc()))
        .collect();
    let array: ArrayRef = Arc::new(TimestampMicrosecondArray::from(us.clone()));
    assert_eq!(decoded::<NaiveDateTime>(array.clone(), oid::TIMESTAMP), stamps);
    let expected = |zone: &str| -> Vec<Option<String>> {
        let trim = |text: String| match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
        stamps
            .iter()
            .map(|s| s.map(|s| trim(s.format("%Y-%m-%d %H:%M:%S%.6f").to_string()) + zone))
            .collect()
    };
    assert_eq!(texts(array, oid::TIMESTAMP), expected(""));
    let array: ArrayRef = Arc::new(TimestampMicrosecondArray::from(us.clone()).with_timezone("UTC"));
    assert_eq!(texts(array.clone(), oid::TIMESTAMPTZ), expected("+00"));
    let zoned: Vec<_> = stamps.iter().map(|s| s.map(|s| s.and_utc())).collect();
    assert_eq!(decoded::<DateTime<Utc>>(array, oid::TIMESTAMPTZ), zoned);
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Nanosecond] {
        let array: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(1_600_000_000_000_000), None]));
        let array = arrow::compute::cast(&array, &DataType::Timestamp(unit, None)).unwrap();
        assert_eq!(
            texts(array, oid::TIMESTAMP),
            [Some("2020-09-13 12:26:40".to_owned()), None]
        );
    }

    let times: Vec<Option<i64>> = (0..ROWS)
        .map(|_| random.maybe(|r| r.below(86_400_000_000) as i64))
        .collect();
    let array: ArrayRef = Arc::new(Time64MicrosecondArray::from(times.clone()));
    let midnight = NaiveTime::MIN;
    let expected: Vec<_> = times
        .iter()
        .map(|us| us.map(|us| midnight + chrono::Duration::microseconds(us)))
        .collect();
    assert_eq!(decoded::<NaiveTime>(array, oid::TIME), expected);
}

#[test]
fn the_other_types() {
    let bools: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]));
    assert_eq!(
        texts(bools.clone(), oid::BOOL),
        [Some("t".into()), Some("f".into()), None]
    );
    assert_eq!(decoded::<bool>(bools, oid::BOOL), [Some(true), Some(false), None]);
    let nulls: ArrayRef = Arc::new(NullArray::new(2));
    assert_eq!(texts(nulls, oid::TEXT), [None, None]);
    let bytes: ArrayRef = Arc::new(BinaryViewArray::from(vec![Some(&b"\x00\xffa"[..]), None]));
    assert_eq!(texts(bytes.clone(), oid::BYTEA), [Some("\\x00ff61".into()), None]);
    assert_eq!(decoded::<Vec<u8>>(bytes, oid::BYTEA), [Some(vec![0, 255, b'a']), None]);
    let id = uuid::Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    let ids: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from(vec![id.as_bytes().as_slice()]).unwrap());
    assert_eq!(texts(ids.clone(), oid::UUID), [Some(id.to_string())]);
    assert_eq!(decoded::<uuid::Uuid>(ids, oid::UUID), [Some(id)]);
    let interval = IntervalMonthDayNano {
        months: 14,
        days: -3,
        nanoseconds: 3_723_000_000_000,
    };
    let intervals: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![interval]));
    assert_eq!(
        texts(intervals.clone(), oid::INTERVAL),
        [Some("1 year 2 mons -3 days +01:02:03".into())]
    );
    let expected = [
        3_723_000_000i64.to_be_bytes().as_slice(),
        &(-3i32).to_be_bytes(),
        &14i32.to_be_bytes(),
    ]
    .concat();
    assert_eq!(one(intervals, oid::INTERVAL, Format::Binary), [Some(expected)]);
    let durations: ArrayRef = Arc::new(DurationMillisecondArray::from(vec![-1500]));
    assert_eq!(texts(durations, oid::INTERVAL), [Some("-00:00:01.5".into())]);
    let big: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
    assert_eq!(texts(big, oid::NUMERIC), [Some(u64::MAX.to_string())]);
}

#[test]
fn arrays_and_records() {
    let ints =
        ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None, Some(3)]), None, Some(vec![])]);
    let ints: ArrayRef = Arc::new(ints);
    assert_eq!(
        texts(ints.clone(), 1007),
        [Some("{1,NULL,3}".into()), None, Some("{}".into())]
    );
    assert_eq!(
        decoded::<Vec<Option<i32>>>(ints.clone(), 1007),
        [Some(vec![Some(1), None, Some(3)]), None, Some(vec![])]
    );
    assert_eq!(cell::natural_oid(ints.data_type()), 1007);

    let mut words = ListBuilder::new(StringBuilder::new());
    for word in ["", "null", "a b", "q\"\\", "plain"] {
        words.values().append_value(word);
    }
    words.append(true);
    let words: ArrayRef = Arc::new(words.finish());
    assert_eq!(texts(words, 1009), [Some(r#"{"","null","a b","q\"\\",plain}"#.into())]);

    let mut nested = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    for row in [[1, 2], [3, 4]] {
        nested.values().values().append_slice(&row);
        nested.values().append(true);
    }
    nested.append(true);
    let nested: ArrayRef = Arc::new(nested.finish());
    assert_eq!(texts(nested.clone(), 1007), [Some("{{1,2},{3,4}}".into())]);
    let words: Vec<u8> = [2i32, 0, 23, 2, 1, 2, 1, 4, 1, 4, 2, 4, 3, 4, 4]
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .collect();
    assert_eq!(one(nested, 1007, Format::Binary), [Some(words)]);

    let record: ArrayRef = Arc::new(StructArray::from(vec![
        (
            Arc::new(Field::new("a", DataType::Int32, true)),
            Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("b", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec!["x, \"y\"", ""])) as ArrayRef,
        ),
    ]));
    assert_eq!(
        texts(record, oid::RECORD),
        [Some(r#"(1,"x, ""y""")"#.into()), Some(r#"(,"")"#.into())]
    );
}

/// All CopyData payloads, one after the other.
fn payload(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[0], b'd');
        let length = u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize;
        all.extend_from_slice(&bytes[5..length + 1]);
        bytes = &bytes[length + 1..];
    }
    all
}

fn copy(format: CopyOutFormat, columns: &[(ArrayRef, u32)]) -> Vec<u8> {
    let (batch, descs) = batch(columns);
    let encoder = CopyEncoder::new(&descs, format, Style::default());
    let mut out = Vec::new();
    encoder.write_start(&mut out);
    encoder.bind(&batch).unwrap().write(0, 0, usize::MAX, &mut out).unwrap();
    encoder.write_end(false, &mut out);
    payload(&out)
}

#[test]
fn copy_text_and_csv() {
    let columns: [(ArrayRef, u32); 2] = [
        (Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])), oid::INT4),
        (
            Arc::new(StringArray::from(vec![Some("a\tb\\c\nd"), Some(""), None])),
            oid::TEXT,
        ),
    ];
    let text = String::from_utf8(copy(CopyOutFormat::text(), &columns)).unwrap();
    assert_eq!(text, "1\ta\\tb\\\\c\\nd\n\\N\t\n3\t\\N\n");
    let csv = |force_quote: Vec<bool>| CopyOutFormat::Csv {
        delimiter: b',',
        null: String::new(),
        header: true,
        quote: b'"',
        escape: b'"',
        force_quote,
    };
    let text = String::from_utf8(copy(csv(vec![]), &columns)).unwrap();
    assert_eq!(text, "c0,c1\n1,\"a\tb\\c\nd\"\n,\"\"\n3,\n");
    let quoted: [(ArrayRef, u32); 1] = [(Arc::new(StringArray::from(vec!["say \"x\"", "\\.", "y"])), oid::TEXT)];
    let text = String::from_utf8(copy(csv(vec![false]), &quoted)).unwrap();
    assert_eq!(text, "c0\n\"say \"\"x\"\"\"\n\"\\.\"\ny\n");
    let text = String::from_utf8(copy(csv(vec![true]), &quoted)).unwrap();
    assert!(text.ends_with("\n\"y\"\n"), "{text}");
}

#[test]
fn copy_binary() {
    let columns: [(ArrayRef, u32); 1] = [(Arc::new(Int32Array::from(vec![Some(7), None])), oid::INT4)];
    let expected = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04\0\0\0\x07\0\x01\xff\xff\xff\xff\xff\xff";
    assert_eq!(copy(CopyOutFormat::Binary, &columns), expected);
}

#[test]
fn the_buffer_limit_stops_between_rows() {
    let (batch, descs) = batch(&[(Arc::new(Int32Array::from_iter_values(0..1000)), oid::INT4)]);
    let encoder = RowEncoder::new(&descs, &[Format::Text], Style::default());
    let rows = encoder.bind(&batch).unwrap();
    let (mut row, mut pieces, mut seen) = (0, 0, Vec::new());
    while row < 1000 {
        let mut out = Vec::new();
        row = rows.write(row, 1000, 100, &mut out).unwrap();
        assert!(out.len() < 130);
        seen.extend(cells(&out));
        pieces += 1;
    }
    assert!(pieces > 50);
    assert_eq!(seen.len(), 1000);
}

/// `cargo test --release -p tenon encode::tests::speed -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed() {
    let rows = 1 << 20;
    let mut random = Random::seeded();
    let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..rows).map(|_| random.below(6_000_000) as i64),
    ));
    let prices = Decimal128Array::from_iter_values((0..rows).map(|_| i128::from(random.below(10_000_000))));
    let prices: ArrayRef = Arc::new(prices.with_precision_and_scale(15, 2).unwrap());
    let dates: ArrayRef = Arc::new(Date32Array::from_iter_values(
        (0..rows).map(|_| 8000 + random.below(2500) as i32),
    ));
    let words = ["AIR", "TRUCK", "MAIL", "REG AIR"];
    let words: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        (0..rows).map(|_| words[random.below(4) as usize]),
    ));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..rows).map(|_| random.next() as f64 / 1e9),
    ));
    for (name, columns) in [
        ("narrow: int8", vec![(ints.clone(), oid::INT8)]),
        (
            "int8, numeric, date, text",
            vec![
                (ints, oid::INT8),
                (prices, oid::NUMERIC),
                (dates, oid::DATE),
                (words, oid::TEXT),
            ],
        ),
        ("float8", vec![(floats, oid::FLOAT8)]),
    ] {
        let (batch, descs) = batch(&columns);
        for format in [Format::Text, Format::Binary] {
            let encoder = RowEncoder::new(&descs, &vec![format; descs.len()], Style::default());
            let started = std::time::Instant::now();
            let (mut out, mut row, mut bytes) = (Vec::new(), 0, 0);
            let bound = encoder.bind(&batch).unwrap();
            while row < batch.num_rows() {
                row = bound.write(row, usize::MAX, 64 << 10, &mut out).unwrap();
                bytes += out.len();
                out.clear();
            }
            let seconds = started.elapsed().as_secs_f64();
            println!(
                "{name} {format:?}: {:.2} M rows/s, {:.0} MB/s",
                rows as f64 / seconds / 1e6,
                bytes as f64 / seconds / 1e6
            );
        }
    }
}
