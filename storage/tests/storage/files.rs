//! Parquet, Arrow and CSV files: loaded values, guessed columns, damage.

use arrow::array::*;
use arrow::datatypes::*;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenon_storage::load::{CopyOptions, FileFormat, Loaded, Target, file_columns, load_file};
use tenon_storage::{ColumnDef, Database, MemoryBudget, SqlType, StorageError, TableDef};

/// A file of its own for each test, removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("tenon-{}-{number}-{name}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn batch(rows: i64) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("price", DataType::Decimal128(10, 2), true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]);
    let names = (0..rows).map(|i| (i % 7 != 0).then(|| format!("a name that is long {}", i % 100)));
    let prices = Decimal128Array::from_iter_values((0..rows).map(|i| i128::from(i) * 10));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..rows)),
        Arc::new(StringArray::from_iter(names)),
        Arc::new(prices.with_precision_and_scale(10, 2).unwrap()),
        Arc::new(TimestampMillisecondArray::from_iter_values((0..rows).map(|i| i * 1000))),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn load(
    path: &Path,
    format: FileFormat,
    columns: Vec<ColumnDef>,
    options: CopyOptions,
) -> Result<Loaded, StorageError> {
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let count = columns.len();
    let table = transaction.create_table(
        "public",
        "t",
        TableDef {
            columns,
            ..TableDef::default()
        },
    )?;
    let columns: Vec<usize> = (0..count).collect();
    let (definition, budget) = (table.definition(), database.budget());
    let target = Target {
        definition,
        columns: &columns,
        defaults: vec![None; count],
        budget,
    };
    load_file(path, format, options, target, &|done, total| assert!(done <= total))
}

fn check(loaded: &Loaded, rows: i64) {
    assert_eq!(loaded.rows as i64, rows);
    let mut next = 0;
    for segment in &loaded.segments {
        let (ids, names) = (segment.column(0), segment.column(1));
        let (prices, times) = (segment.column(2), segment.column(3));
        for row in 0..segment.rows() {
            assert_eq!(ids.as_primitive::<Int64Type>().value(row), next);
            let name = names
                .is_valid(row)
                .then(|| names.as_string_view().value(row).to_string());
            assert_eq!(
                name,
                (next % 7 != 0).then(|| format!("a name that is long {}", next % 100))
            );
            assert_eq!(
                prices.as_primitive::<Decimal128Type>().value(row),
                i128::from(next) * 10
            );
            assert_eq!(
                times.as_primitive::<TimestampMicrosecondType>().value(row),
                next * 1_000_000
            );
            next += 1;
        }
    }
    assert_eq!(next, rows);
}

fn write_parquet(path: &Path, rows: i64, group: usize) {
    let batch = batch(rows);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn parquet_in_small_and_large_row_groups() {
    for (rows, group) in [(0, 100), (10_000, 999), (1_200_000, 5_000_000), (1_200_000, 500_000)] {
        let file = Temporary::new("a.parquet");
        write_parquet(&file.0, rows, group);
        assert_eq!(FileFormat::of_path(&file.0), Some(FileFormat::Parquet));
        let (columns, options) = file_columns(&file.0, FileFormat::Parquet, None).unwrap();
        let types: Vec<SqlType> = columns.iter().map(|column| column.sql_type).collect();
        assert_eq!(
            types,
            [
                SqlType::Int8,
                SqlType::Text,
                SqlType::NumericOf(10, 2),
                SqlType::Timestamp
            ]
        );
        check(&load(&file.0, FileFormat::Parquet, columns, options).unwrap(), rows);
    }
}

#[test]
fn columns_match_by_name_or_position_and_are_cast() {
    let file = Temporary::new("a.parquet");
    write_parquet(&file.0, 100, 100);
    let named = vec![
        ColumnDef::new("PRICE", SqlType::Float8),
        ColumnDef::new("id", SqlType::Int4),
    ];
    let loaded = load(&file.0, FileFormat::Parquet, named, CopyOptions::csv()).unwrap();
    assert_eq!(loaded.segments[0].column(0).as_primitive::<Float64Type>().value(5), 0.5);
    assert_eq!(loaded.segments[0].column(1).as_primitive::<Int32Type>().value(5), 5);
    let unnamed = ["w", "x", "y", "z"]
        .map(|name| ColumnDef::new(name, SqlType::Text))
        .to_vec();
    let loaded = load(&file.0, FileFormat::Parquet, unnamed, CopyOptions::csv()).unwrap();
    assert_eq!(loaded.segments[0].column(0).as_string_view().value(42), "42");
    let missing = vec![
        ColumnDef::new("id", SqlType::Int8),
        ColumnDef::new("other", SqlType::Int8),
    ];
    let error = load(&file.0, FileFormat::Parquet, missing, CopyOptions::csv()).unwrap_err();
    assert_eq!(
        (error.sqlstate(), error.message.as_str()),
        ("22P04", "the file has no column \"other\"")
    );
    let not_null = vec![ColumnDef::new("name", SqlType::Text).not_null()];
    assert_eq!(
        load(&file.0, FileFormat::Parquet, not_null, CopyOptions::csv())
            .unwrap_err()
            .sqlstate(),
        "23502"
    );
    let narrow = vec![ColumnDef::new("price", SqlType::NumericOf(1, 1))];
    assert_eq!(
        load(&file.0, FileFormat::Parquet, narrow, CopyOptions::csv())
            .unwrap_err()
            .sqlstate(),
        "22003"
    );
    let short = vec![ColumnDef::new("name", SqlType::VarcharOf(3))];
    assert_eq!(
        load(&file.0, FileFormat::Parquet, short, CopyOptions::csv())
            .unwrap_err()
            .sqlstate(),
        "22001"
    );
}

#[test]
fn arrow_files_and_streams() {
    let rows = 50_000;
    for stream in [false, true] {
        let file = Temporary::new("a.arrow");
        let (batch, target) = (batch(rows), File::create(&file.0).unwrap());
        if stream {
            let mut writer = arrow::ipc::writer::StreamWriter::try_new(target, &batch.schema()).unwrap();
            (0..rows as usize)
                .step_by(7000)
                .for_each(|at| writer.write(&batch.slice(at, 7000.min(rows as usize - at))).unwrap());
            writer.finish().unwrap();
        } else {
            let mut writer = arrow::ipc::writer::FileWriter::try_new(target, &batch.schema()).unwrap();
            (0..rows as usize)
                .step_by(7000)
                .for_each(|at| writer.write(&batch.slice(at, 7000.min(rows as usize - at))).unwrap());
            writer.finish().unwrap();
        }
        let (columns, options) = file_columns(&file.0, FileFormat::Arrow, None).unwrap();
        check(&load(&file.0, FileFormat::Arrow, columns, options).unwrap(), rows);
    }
}

/// Whatever holds them: Arrow types in which tables have bit strings, numerics and addresses too.
#[test]
fn byte_strings() {
    let bytes: Vec<Option<Vec<u8>>> = vec![Some(b"123456".to_vec()), None, Some(vec![0, 255, 1, 2, 3, 4])];
    let fixed = |width: usize| {
        let values = bytes
            .iter()
            .map(|own| own.as_ref().map(|own| own.repeat(6)[..width].to_vec()));
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, width as i32).unwrap()
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(BinaryArray::from_iter(&bytes))),
        ("b", Arc::new(LargeBinaryArray::from_iter(&bytes))),
        ("c", Arc::new(BinaryViewArray::from_iter(&bytes))),
        ("d", Arc::new(fixed(6))),
        ("e", Arc::new(fixed(34))),
        ("id", Arc::new(fixed(16))),
    ];
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, own)| (name, own, true))).unwrap();
    for format in [FileFormat::Parquet, FileFormat::Arrow] {
        let file = Temporary::new("bytes");
        let target = File::create(&file.0).unwrap();
        match format {
            FileFormat::Parquet => {
                let mut writer = ArrowWriter::try_new(target, batch.schema(), None).unwrap();
                writer.write(&batch).unwrap();
                writer.close().unwrap();
            }
            _ => {
                let mut writer = arrow::ipc::writer::FileWriter::try_new(target, &batch.schema()).unwrap();
                writer.write(&batch).and_then(|()| writer.finish()).unwrap();
            }
        }
        let (columns, options) = file_columns(&file.0, format, None).unwrap();
        let types: Vec<SqlType> = columns.iter().map(|column| column.sql_type).collect();
        assert_eq!(types[..5], [SqlType::Bytea; 5], "{format:?}");
        assert_eq!(types[5], SqlType::Uuid);
        let loaded = load(&file.0, format, columns, options).unwrap();
        for (column, width) in [6, 6, 6, 6, 34].into_iter().enumerate() {
            let found = loaded.segments[0].column(column);
            let found: Vec<Option<Vec<u8>>> = found
                .as_binary_view()
                .iter()
                .map(|own| own.map(<[u8]>::to_vec))
                .collect();
            let expected = bytes
                .iter()
                .map(|own| own.as_ref().map(|own| own.repeat(6)[..width].to_vec()));
            assert_eq!(found, expected.collect::<Vec<_>>(), "{format:?} {column}");
        }
    }
}

#[test]
fn damaged_and_missing_files_are_errors() {
    let file = Temporary::new("a.parquet");
    write_parquet(&file.0, 10_000, 1000);
    let whole = std::fs::read(&file.0).unwrap();
    let columns = || {
        vec![
            ColumnDef::new("id", SqlType::Int8),
            ColumnDef::new("name", SqlType::Text),
        ]
    };
    for damage in 0..60 {
        let mut bytes = whole.clone();
        let at = bytes.len() * damage / 60;
        match damage % 3 {
            0 => bytes.truncate(at),
            _ => bytes[at..].iter_mut().take(50).for_each(|byte| *byte ^= 0x5a),
        }
        std::fs::write(&file.0, &bytes).unwrap();
        for format in [FileFormat::Parquet, FileFormat::Arrow] {
            if let Err(error) = load(&file.0, format, columns(), CopyOptions::csv()) {
                assert_ne!(error.sqlstate(), "XX000", "{error:?}");
            }
        }
    }
    // The same for the Arrow formats.
    let (mut plain, mut streamed) = (Vec::new(), Vec::new());
    let rows = batch(2000);
    let mut writer = arrow::ipc::writer::FileWriter::try_new(&mut plain, &rows.schema()).unwrap();
    writer.write(&rows).and_then(|()| writer.finish()).unwrap();
    drop(writer);
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(&mut streamed, &rows.schema()).unwrap();
    writer.write(&rows).and_then(|()| writer.finish()).unwrap();
    drop(writer);
    for whole in [plain, streamed] {
        for damage in 0..200 {
            let mut bytes = whole.clone();
            // Mostly in the first part, where the lengths are.
            let at = if damage % 2 == 0 {
                damage * 4
            } else {
                bytes.len() * damage / 200
            };
            match damage % 3 {
                0 => bytes.truncate(at),
                _ => bytes[at..].iter_mut().take(3).for_each(|byte| *byte ^= 0xa5),
            }
            std::fs::write(&file.0, &bytes).unwrap();
            if let Err(error) = load(&file.0, FileFormat::Arrow, columns(), CopyOptions::csv()) {
                assert_ne!(error.sqlstate(), "XX000", "{error:?}");
            }
        }
    }
    let missing = Path::new("/nonexistent/a.parquet");
    for format in [FileFormat::Parquet, FileFormat::Arrow, FileFormat::Csv] {
        assert_eq!(
            load(missing, format, columns(), CopyOptions::csv())
                .unwrap_err()
                .sqlstate(),
            "58P01"
        );
        assert_eq!(file_columns(missing, format, None).unwrap_err().sqlstate(), "58P01");
    }
}

#[test]
fn csv_columns_are_guessed() {
    let file = Temporary::new("a.csv");
    let mut text = String::from("id,amount,day,moment,flag,code,words\n");
    for i in 0..1000 {
        text.push_str(&format!(
            "{i},{i}.5,2024-01-{:02},2024-01-01 10:00:{:02},{},0{i},\"word, {i}\"\n",
            i % 28 + 1,
            i % 60,
            i % 2 == 0
        ));
    }
    File::create(&file.0).unwrap().write_all(text.as_bytes()).unwrap();
    let (columns, options) = file_columns(&file.0, FileFormat::Csv, None).unwrap();
    let found: Vec<(&str, SqlType)> = columns.iter().map(|c| (c.name.as_str(), c.sql_type)).collect();
    let expected = [
        ("id", SqlType::Int8),
        ("amount", SqlType::Float8),
        ("day", SqlType::Date),
        ("moment", SqlType::Timestamp),
        ("flag", SqlType::Bool),
        ("code", SqlType::Text),
        ("words", SqlType::Text),
    ];
    assert_eq!(found, expected);
    let loaded = load(&file.0, FileFormat::Csv, columns, options).unwrap();
    assert_eq!(loaded.rows, 1000);
    assert_eq!(loaded.segments[0].column(6).as_string_view().value(999), "word, 999");

    std::fs::write(&file.0, "1|x|\n2|y|\n").unwrap();
    let (columns, options) = file_columns(&file.0, FileFormat::Csv, None).unwrap();
    assert_eq!(
        (options.delimiter, columns.len(), columns[0].name.as_str()),
        (b'|', 3, "column1")
    );
    std::fs::write(&file.0, "").unwrap();
    assert_eq!(
        file_columns(&file.0, FileFormat::Csv, None).unwrap_err().sqlstate(),
        "22P04"
    );
}
