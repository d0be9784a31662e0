//! COPY FROM against a parser that reads one character at a time, and its errors word by word.
//!
//! More than 400 lines because it has a plain parser beside the trials.

use arrow::array::*;
use arrow::datatypes::Int32Type;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::sync::Arc;
use tenon_storage::load::{CopyFormat, CopyLoader, CopyOptions, Header, Loaded};
use tenon_storage::{
    ColumnDef, Database, MemoryBudget, SEGMENT_ROWS_MAX, SqlType, StorageError, TableDef, TableDefinition,
};

fn table(columns: &[(&str, SqlType)]) -> (Arc<Database>, Arc<TableDefinition>) {
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let columns = columns
        .iter()
        .map(|(name, sql_type)| ColumnDef::new(*name, *sql_type))
        .collect();
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
    transaction.commit().unwrap();
    (database, table.definition().clone())
}

fn load(
    database: &Arc<Database>,
    definition: &Arc<TableDefinition>,
    options: CopyOptions,
    pieces: &[&[u8]],
) -> Result<Loaded, StorageError> {
    let columns: Vec<usize> = (0..definition.columns.len()).collect();
    let defaults = vec![None; columns.len()];
    let mut loader = CopyLoader::new(definition, &columns, defaults, options, database.budget())?;
    for piece in pieces {
        loader.push(piece)?;
    }
    loader.finish()
}

/// What PostgreSQL's CSV reader does, one character at a time. None is NULL.
fn reference_csv(text: &str, quote: char, escape: char) -> Vec<Vec<Option<String>>> {
    let mut rows = Vec::new();
    let mut chars = text.chars().peekable();
    while chars.peek().is_some() {
        let mut row = Vec::new();
        'record: loop {
            let (mut value, mut inside, mut saw_quote) = (String::new(), false, false);
            let ended = loop {
                let Some(c) = chars.next() else { break true };
                if inside {
                    match chars.peek() {
                        Some(next) if c == escape && (*next == quote || *next == escape) => {
                            value.extend(chars.next());
                        }
                        _ if c == quote => inside = false,
                        _ => value.push(c),
                    }
                } else if c == quote {
                    (inside, saw_quote) = (true, true);
                } else if c == ',' {
                    break false;
                } else if c == '\n' {
                    break true;
                } else if c == '\r' && chars.peek() == Some(&'\n') {
                    chars.next();
                    break true;
                } else {
                    value.push(c);
                }
            };
            row.push(if value.is_empty() && !saw_quote {
                None
            } else {
                Some(value)
            });
            if ended {
                break 'record;
            }
        }
        rows.push(row);
    }
    rows
}

fn spell_csv(random: &mut StdRng, value: Option<&str>, quote: char, escape: char) -> String {
    let Some(value) = value else { return String::new() };
    let must = value.is_empty() || value.contains([quote, escape, ',', '\n', '\r', '"', '\'', '\\']);
    if !must && random.random_bool(0.7) {
        return value.to_string();
    }
    let mut spelled = String::from(quote);
    for c in value.chars() {
        if c == quote || c == escape {
            spelled.push(escape);
        }
        spelled.push(c);
    }
    spelled.push(quote);
    if random.random_bool(0.1) && !must {
        spelled.push_str("tail");
    }
    spelled
}

fn random_value(random: &mut StdRng) -> Option<String> {
    let words = [
        "",
        "a",
        "plain",
        "with,comma",
        "line\nbreak",
        "quo\"te",
        "it's",
        "back\\slash",
        "crlf\r\n",
        "héé",
        "日本",
        "\\.",
    ];
    match random.random_range(0..10) {
        0 => None,
        1 => Some("x".repeat(random.random_range(0..200))),
        _ => {
            let count = random.random_range(1..4);
            Some((0..count).map(|_| words[random.random_range(0..words.len())]).collect())
        }
    }
}

fn cut<'a>(random: &mut StdRng, text: &'a [u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let longest = if random.random_bool(0.5) { 50_000 } else { 2_000_000 };
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(random.random_range(1..=longest).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn strings_of(loaded: &Loaded, columns: usize) -> Vec<Vec<Option<String>>> {
    let mut rows = Vec::new();
    for segment in &loaded.segments {
        let arrays: Vec<_> = (0..columns).map(|column| segment.column(column)).collect();
        for row in 0..segment.rows() {
            let value = |array: &ArrayRef| {
                let array = array.as_string_view();
                array.is_valid(row).then(|| array.value(row).to_string())
            };
            rows.push(arrays.iter().map(value).collect());
        }
    }
    rows
}

#[test]
fn csv_equals_the_reference() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..40 {
        let columns = random.random_range(1..5);
        let names = ["a", "b", "c", "d"];
        let (database, definition) = table(
            &names[..columns]
                .iter()
                .map(|name| (*name, SqlType::Text))
                .collect::<Vec<_>>(),
        );
        let (quote, escape) = [('"', '"'), ('"', '\\'), ('\'', '\''), ('\'', '"')][random.random_range(0..4)];
        let newline = if random.random_bool(0.3) { "\r\n" } else { "\n" };
        let rows = if round % 8 == 0 {
            30_000
        } else {
            random.random_range(0..500)
        };
        let mut text = String::new();
        for row in 0..rows {
            let fields: Vec<_> = (0..columns)
                .map(|_| {
                    let value = random_value(&mut random);
                    spell_csv(&mut random, value.as_deref(), quote, escape)
                })
                .collect();
            text.push_str(&fields.join(","));
            if row + 1 < rows || random.random_bool(0.5) || fields.join("").is_empty() {
                text.push_str(newline);
            }
        }
        let mut options = CopyOptions::csv();
        (options.quote, options.escape) = (quote as u8, escape as u8);
        let expected = reference_csv(&text, quote, escape);
        let pieces = cut(&mut random, text.as_bytes());
        let loaded = load(&database, &definition, options, &pieces).unwrap();
        assert_eq!(loaded.rows as usize, expected.len(), "round {round}");
        assert!(strings_of(&loaded, columns) == expected, "round {round}: values differ");
        let budget = database.budget().clone();
        drop((loaded, definition, database));
        returns_to_zero(&budget);
    }
}

#[test]
fn text_round_trips() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..20 {
        let (database, definition) = table(&[("a", SqlType::Text), ("b", SqlType::Text)]);
        let count = if round % 8 == 0 { 40_000 } else { 300 };
        let rows: Vec<Vec<Option<String>>> = (0..count)
            .map(|_| (0..2).map(|_| random_value(&mut random)).collect())
            .collect();
        let mut text = String::new();
        for row in &rows {
            let fields = row.iter().map(|value| match value {
                None => "\\N".to_string(),
                Some(value) => {
                    let value = value.replace('\\', "\\\\").replace('\t', "\\t").replace('\r', "\\r");
                    let newline = if random.random_bool(0.5) { "\\n" } else { "\\\n" };
                    value.replace('\n', newline)
                }
            });
            text.push_str(&fields.collect::<Vec<_>>().join("\t"));
            text.push('\n');
        }
        let pieces = cut(&mut random, text.as_bytes());
        let loaded = load(&database, &definition, CopyOptions::new(CopyFormat::Text), &pieces).unwrap();
        assert!(strings_of(&loaded, 2) == rows, "round {round}: values differ");
    }
}

#[test]
fn text_escapes_and_end_marker() {
    let (database, definition) = table(&[("a", SqlType::Text)]);
    let data = b"\\x41\\102\\t\\q\\\\\nplain\n\\N\n\\.\nnot data\t\t\n";
    let loaded = load(&database, &definition, CopyOptions::new(CopyFormat::Text), &[data]).unwrap();
    let expected = [Some("AB\tq\\".to_string()), Some("plain".into()), None];
    assert_eq!(strings_of(&loaded, 1).concat(), expected);
}

#[test]
fn errors_name_line_and_column() {
    let (database, definition) = table(&[("a", SqlType::Int4), ("b", SqlType::VarcharOf(3))]);
    let csv = |data: &str| load(&database, &definition, CopyOptions::csv(), &[data.as_bytes()]).unwrap_err();
    let cases = [
        (
            "1,x\n2,y\nx,z\n",
            "22P02",
            "invalid input syntax for type integer: \"x\"",
            "COPY t, line 3, column a: \"x\"",
        ),
        (
            "1,x\n99999999999,y\n",
            "22003",
            "value \"99999999999\" is out of range for type integer",
            "COPY t, line 2, column a: \"99999999999\"",
        ),
        (
            "1,x\n2\n",
            "22P04",
            "missing data for column \"b\"",
            "COPY t, line 2: \"2\"",
        ),
        (
            "1,x,y\n",
            "22P04",
            "extra data after last expected column",
            "COPY t, line 1: \"1,x,y\"",
        ),
        (
            "1,\"x\ny\n",
            "22P04",
            "unterminated CSV quoted field",
            "COPY t, line 2: \"1,\"x\ny\"",
        ),
        (
            "1,abcd\n",
            "22001",
            "value too long for type character varying(3)",
            "COPY t, line 1, column b: \"abcd\"",
        ),
        (
            "1,a\rb\n",
            "22P04",
            "unquoted newline found in data",
            "COPY t, line 2: \"b\"",
        ),
        (
            "1,\"a\n\"\n2,a\n3,x,\n",
            "22P04",
            "extra data after last expected column",
            "COPY t, line 4: \"3,x,\"",
        ),
    ];
    for (data, state, message, context) in cases {
        let error = csv(data);
        assert_eq!((error.sqlstate(), error.message.as_str()), (state, message), "{data:?}");
        assert_eq!(error.context.as_deref(), Some(context), "{data:?}");
    }
    let bad = load(&database, &definition, CopyOptions::csv(), &[b"1,a\n2,\xff\n"]).unwrap_err();
    assert_eq!(bad.sqlstate(), "22021");
    assert_eq!(bad.message, "invalid byte sequence for encoding \"UTF8\": 0xff");
    assert_eq!(bad.context.as_deref(), Some("COPY t, line 2"));
    let nul = load(&database, &definition, CopyOptions::csv(), &[b"1,a\n2,\0\n"]).unwrap_err();
    assert_eq!(nul.message, "invalid byte sequence for encoding \"UTF8\": 0x00");
}

#[test]
fn the_first_error_of_many_pieces_counts() {
    let (database, definition) = table(&[("a", SqlType::Int4)]);
    let mut data = String::new();
    for row in 1..=600_000 {
        match row {
            400_001 | 500_000 | 599_999 => data.push_str("bad\n"),
            _ => data.push_str(&format!("{row}\n")),
        }
    }
    for _ in 0..5 {
        let error = load(&database, &definition, CopyOptions::csv(), &[data.as_bytes()]).unwrap_err();
        assert_eq!(error.context.as_deref(), Some("COPY t, line 400001, column a: \"bad\""));
        assert_eq!(database.budget().in_use_bytes(), 0);
    }
}

#[test]
fn order_is_kept_and_segments_are_full() {
    let (database, definition) = table(&[("a", SqlType::Int4)]);
    let mut data = String::new();
    (0..1_500_000).for_each(|row| data.push_str(&format!("{row}\n")));
    let loaded = load(&database, &definition, CopyOptions::csv(), &[data.as_bytes()]).unwrap();
    assert_eq!(
        loaded.segments.iter().map(|s| s.rows()).collect::<Vec<_>>(),
        full_segments(1_500_000)
    );
    let mut expected = 0;
    for segment in &loaded.segments {
        for value in segment.column(0).as_primitive::<Int32Type>().values() {
            assert_eq!(*value, expected);
            expected += 1;
        }
        assert!(segment.statistics(0).strictly_ascending);
    }
}

#[test]
fn headers_nulls_and_forced_columns() {
    let (database, definition) = table(&[("a", SqlType::Text), ("b", SqlType::Text)]);
    let mut options = CopyOptions {
        header: Header::Skip,
        null: "NA".into(),
        ..CopyOptions::csv()
    };
    options.force_null = vec!["a".into()];
    options.force_not_null = vec!["b".into()];
    let loaded = load(&database, &definition, options, &[b"\"x\ny\",,,\n\"NA\",NA\n,\"NA\"\n"]).unwrap();
    let text = |value: &str| Some(value.to_string());
    assert_eq!(strings_of(&loaded, 2), [[None, text("NA")], [text(""), text("NA")]]);

    let matched = CopyOptions {
        header: Header::Match,
        ..CopyOptions::csv()
    };
    assert_eq!(
        load(&database, &definition, matched.clone(), &[b"a,b\n1,2\n"])
            .unwrap()
            .rows,
        1
    );
    let error = load(&database, &definition, matched.clone(), &[b"a,c\n1,2\n"]).unwrap_err();
    assert_eq!(
        error.message,
        "column name mismatch in header line field 2: got \"c\", expected \"b\""
    );
    assert!(load(&database, &definition, matched, &[b""]).is_err());
    let empty = load(&database, &definition, CopyOptions::csv(), &[]).unwrap();
    assert_eq!((empty.rows, empty.segments.len()), (0, 0));
}

#[test]
fn missing_columns_take_defaults_and_not_null_is_checked() {
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let columns = vec![
        ColumnDef::new("a", SqlType::Int4).not_null(),
        ColumnDef::new("b", SqlType::Text),
        ColumnDef::new("c", SqlType::Int4),
    ];
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
    let seven: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    let defaults = vec![None, None, Some(seven)];
    let new = || {
        CopyLoader::new(
            table.definition(),
            &[1, 0],
            defaults.clone(),
            CopyOptions::csv(),
            database.budget(),
        )
    };
    let mut loader = new().unwrap();
    loader.push(b"x,1\ny,2\n").unwrap();
    let loaded = loader.finish().unwrap();
    assert_eq!(
        loaded.segments[0].column(2).as_primitive::<Int32Type>().values(),
        &[7, 7]
    );
    assert_eq!(
        loaded.segments[0].column(0).as_primitive::<Int32Type>().values(),
        &[1, 2]
    );
    let mut loader = new().unwrap();
    loader.push(b"x,1\ny,\n").unwrap();
    let error = loader.finish().unwrap_err();
    assert_eq!(
        error.message,
        "null value in column \"a\" of relation \"t\" violates not-null constraint"
    );
    assert_eq!(error.detail.as_deref(), Some("Failing row contains (null, y, 7)."));
    assert_eq!(error.context.as_deref(), Some("COPY t, line 2: \"y,\""));
}

#[test]
fn binary_round_trips_and_refuses_damage() {
    let (database, definition) = table(&[("a", SqlType::Int4), ("b", SqlType::Text)]);
    let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    let rows = 200_000_i32;
    for row in 0..rows {
        data.extend(2_i16.to_be_bytes());
        data.extend(4_i32.to_be_bytes());
        data.extend(row.to_be_bytes());
        match row % 3 {
            0 => data.extend((-1_i32).to_be_bytes()),
            _ => {
                let text = format!("row {row}");
                data.extend((text.len() as i32).to_be_bytes());
                data.extend(text.as_bytes());
            }
        }
    }
    let whole = data.len();
    data.extend((-1_i16).to_be_bytes());
    let options = CopyOptions::new(CopyFormat::Binary);
    let pieces: Vec<&[u8]> = data.chunks(100_003).collect();
    let loaded = load(&database, &definition, options.clone(), &pieces).unwrap();
    assert_eq!(loaded.rows, rows as u64);
    let segment = &loaded.segments[0];
    assert_eq!(segment.column(0).as_primitive::<Int32Type>().value(777), 777);
    assert_eq!(segment.column(1).as_string_view().value(778), "row 778");
    assert!(segment.column(1).is_null(777));

    let state = |data: &[u8]| load(&database, &definition, options.clone(), &[data]).unwrap_err();
    assert_eq!(state(&data[..whole - 3]).message, "unexpected EOF in COPY data");
    assert_eq!(state(b"NOTCOPY").message, "COPY file signature not recognized");
    assert_eq!(state(b"").message, "COPY file signature not recognized");
    let mut wide = data[..19].to_vec();
    wide.extend(3_i16.to_be_bytes());
    wide.extend([0xff; 12]);
    assert_eq!(state(&wide).message, "row field count is 3, expected 2");
    let mut short = data[..19].to_vec();
    short.extend([0, 2, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(state(&short).sqlstate(), "22P03");
    assert_eq!(state(&short).context.as_deref(), Some("COPY t, line 1, column a"));
}

#[test]
fn a_load_past_the_memory_limit_is_refused_and_gives_all_back() {
    let database = Database::new(MemoryBudget::new(1_000_000));
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
    let new = || {
        CopyLoader::new(
            table.definition(),
            &[0],
            vec![None],
            CopyOptions::csv(),
            database.budget(),
        )
        .unwrap()
    };
    let line = format!("{}\n", "x".repeat(99));
    let mut loader = new();
    let outcome = (0..100_000)
        .try_for_each(|_| loader.push(line.as_bytes()))
        .and_then(|()| loader.finish().map(drop));
    assert_eq!(outcome.unwrap_err().sqlstate(), "53200");
    // A quote that never closes makes one long record.
    let mut loader = new();
    loader.push(b"\"").unwrap();
    let outcome = (0..100_000).try_for_each(|_| loader.push(line.as_bytes()));
    assert_eq!(outcome.unwrap_err().sqlstate(), "53200");
    drop(transaction);
    returns_to_zero(database.budget());
}

/// Workers may hold the load's state a moment longer than the loader.
fn returns_to_zero(budget: &MemoryBudget) {
    for _ in 0..1000 {
        if budget.in_use_bytes() == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{} bytes are still in use", budget.in_use_bytes());
}

#[test]
fn arbitrary_input_gives_rows_or_errors() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (database, definition) = table(&[("a", SqlType::Text), ("b", SqlType::Int4)]);
    let words: [&[u8]; 16] = [
        b"a",
        b",",
        b"\t",
        b"\n",
        b"\r",
        b"\r\n",
        b"\"",
        b"\\",
        b"\\.",
        b"\\N",
        b"1",
        b"\xc3\xa9",
        b"\xff",
        b"\0",
        b"\\x",
        b"\\377",
    ];
    for _ in 0..4000 {
        let count = random.random_range(0..40);
        let data: Vec<u8> = (0..count)
            .flat_map(|_| words[random.random_range(0..words.len())])
            .copied()
            .collect();
        let format = [CopyFormat::Csv, CopyFormat::Text][random.random_range(0..2)];
        let mut options = CopyOptions::new(format);
        options.header = [Header::Absent, Header::Skip, Header::Match][random.random_range(0..3)];
        let pieces = cut(&mut random, &data);
        if let Err(error) = load(&database, &definition, options, &pieces) {
            assert_ne!(error.sqlstate(), "XX000", "{data:?}: {error:?}");
        }
    }
    let mut whole = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for row in 0..20_i32 {
        whole.extend([0, 2, 0, 0, 0, 1, b'x', 0, 0, 0, 4]);
        whole.extend(row.to_be_bytes());
    }
    whole.extend([0xff, 0xff]);
    for _ in 0..4000 {
        let mut data = whole.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..data.len());
            data[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)];
        }
        data.truncate(random.random_range(0..=data.len()));
        if let Err(error) = load(&database, &definition, CopyOptions::new(CopyFormat::Binary), &[&data]) {
            assert_ne!(error.sqlstate(), "XX000", "{data:?}: {error:?}");
        }
    }
}

fn full_segments(rows: usize) -> Vec<usize> {
    let full = std::iter::repeat_n(SEGMENT_ROWS_MAX, rows / SEGMENT_ROWS_MAX);
    full.chain((!rows.is_multiple_of(SEGMENT_ROWS_MAX)).then_some(rows % SEGMENT_ROWS_MAX))
        .collect()
}
