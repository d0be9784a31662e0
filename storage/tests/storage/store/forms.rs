//! Columns of every type are found again in the form that they had, with all that was known of them.

use super::{dump, open};
use crate::encodings::{TYPES, WAYS, check, column, seeded, table, written};
use arrow::array::*;
use rand::seq::SliceRandom;
use rand::{Rng, rngs::StdRng};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tenon_storage::{ColumnDef, Database, MemoryBudget, RealDisk, Segment, SqlType, TableDef};

/// The form of a column, what it takes, and what is known of it.
fn told(segment: &Segment, column: usize) -> String {
    let known = segment.statistics(column);
    format!(
        "{}, {} bytes: {} rows, {} null, {:?} to {:?} ({}), {} distinct, {} {}",
        segment.encoding(column),
        segment.column_bytes(column),
        known.rows,
        known.null_count,
        known.min,
        known.max,
        known.bounds_met,
        known.distinct(),
        known.ascending,
        known.strictly_ascending,
    )
}

#[test]
fn columns_have_the_forms_that_they_had() {
    let mut random = seeded();
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    // What each round's table was given, and what is told of it.
    let mut expected: Vec<(String, RecordBatch, Vec<String>)> = vec![];
    let mut forms = BTreeSet::new();
    // The last of texts that are short and few, which any of the others may not be.
    let types = [&TYPES[..], &[SqlType::Text]].concat();
    for (round, rows) in [1, 2, 1023, 1024, 1500, 2500, 3000, 20_000, 20_000]
        .into_iter()
        .enumerate()
    {
        let schema = format!("s{round}");
        let mut transaction = database.begin();
        let columns = types.iter().enumerate();
        let columns = columns.map(|(at, sql_type)| ColumnDef::new(format!("c{at}"), *sql_type));
        let def = TableDef {
            columns: columns.collect(),
            ..TableDef::default()
        };
        transaction.create_schema(&schema).unwrap();
        let table = transaction.create_table(&schema, "t", def).unwrap();
        let few = (0..rows).map(|row| (row % 13 != 5).then(|| format!("kind {}", row % 40)));
        let few: ArrayRef = Arc::new(few.collect::<StringViewArray>());
        let columns = TYPES.iter().enumerate().map(|(at, sql_type)| {
            let way = WAYS[(at + round) % WAYS.len()];
            column(&mut random, *sql_type, rows, way)
        });
        let columns = columns.collect::<Vec<_>>().into_iter().chain([few]);
        let batch = RecordBatch::try_new(table.schema().clone(), columns.collect()).unwrap();
        let segments = written(&transaction, &table, std::slice::from_ref(&batch));
        let all: Vec<String> = (0..types.len()).map(|at| told(&segments[0], at)).collect();
        forms.extend((0..types.len()).map(|at| segments[0].encoding(at)));
        transaction.append(table.oid(), segments).unwrap();
        transaction.commit().unwrap();
        expected.push((schema, batch, all));
    }
    let mut transaction = database.begin();
    table(&mut transaction, &TYPES);
    transaction.commit().unwrap();
    for form in ["plain", "constant", "runs", "codes of 8 bits", "differences of 64 bits"] {
        assert!(forms.contains(form), "no column is in {form}: {forms:?}");
    }
    drop(database);
    // The second time of what a checkpoint says, and with nothing written again.
    for _ in 0..2 {
        let database = open(directory.path()).unwrap();
        let state = database.snapshot();
        assert_eq!(state.table("public", "t").unwrap().rows(), 0);
        for (schema, batch, all) in &expected {
            let table = state.table(schema, "t").unwrap();
            let [segment] = &table.segments()[..] else {
                panic!("{schema} has {} segments", table.segments().len());
            };
            for (at, sql_type) in types.iter().enumerate() {
                let what = format!("{sql_type} of {schema}");
                check(&mut random, segment, at, batch.column(at), &what);
                assert_eq!(told(segment, at), all[at], "{what}");
            }
        }
        database.checkpoint().unwrap();
        let budget = database.budget().clone();
        drop((state, database));
        assert_eq!(budget.in_use_bytes(), 0);
    }
}

/// Texts of which there are `values`, each row's any of them.
fn texts(random: &mut StdRng, rows: usize, values: std::ops::Range<u32>) -> ArrayRef {
    let mut picked: Vec<u32> = values.clone().collect();
    picked.extend((picked.len()..rows).map(|_| random.random_range(values.clone())));
    picked.shuffle(random);
    let text = |value: &u32| (value % 97 != 5).then(|| format!("{value:08} {}", "of some length ".repeat(6)));
    Arc::new(picked.iter().map(text).collect::<StringViewArray>())
}

/// A dictionary of more texts than 16 bits can tell apart, which segments fill in any order when they are read.
#[test]
fn dictionaries_are_found_again() {
    let mut random = seeded();
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let mut transaction = database.begin();
    let own = table(&mut transaction, &[SqlType::Text]);
    let rows = 1 << 17;
    let columns = [
        texts(&mut random, rows, 0..40_000),
        texts(&mut random, rows, 20_000..110_000),
        texts(&mut random, 5000, 100_000..100_200),
        texts(&mut random, 5000, 500_000..505_000),
    ];
    let mut before = vec![];
    for texts in &columns {
        let batch = RecordBatch::try_new(own.schema().clone(), vec![texts.clone()]).unwrap();
        let segments = written(&transaction, &own, &[batch]);
        assert_eq!(segments.len(), 1);
        before.push((segments[0].encoding(0), segments[0].statistics(0).clone()));
        transaction.append(own.oid(), segments).unwrap();
    }
    transaction.commit().unwrap();
    let encodings: Vec<&str> = before.iter().map(|(encoding, _)| *encoding).collect();
    assert_eq!(
        encodings,
        ["codes of 16 bits", "codes of 32 bits", "codes of 32 bits", "text"]
    );
    let whole = dump(&database.snapshot());
    drop((own, database));
    let reopened = open(directory.path()).unwrap();
    let table = reopened.snapshot().table("public", "t").unwrap().clone();
    for ((segment, texts), (encoding, known)) in table.segments().iter().zip(&columns).zip(&before) {
        // Which codes a text has is for who comes first.
        assert_eq!(&segment.encoding(0)[..4], &encoding[..4]);
        assert!(&segment.column(0) == texts, "{encoding}");
        let found = segment.statistics(0);
        assert_eq!((&found.min, &found.max), (&known.min, &known.max));
        assert_eq!(found.distinct(), known.distinct());
    }
    let dictionaries = table.segments()[..3]
        .iter()
        .map(|segment| segment.dictionary(0).unwrap().dictionary_id());
    assert_eq!(dictionaries.collect::<BTreeSet<_>>().len(), 1);
    assert!(dump(&reopened.snapshot()) == whole);
    let budget = reopened.budget().clone();
    drop((table, reopened));
    assert_eq!(budget.in_use_bytes(), 0);
}

/// Whatever memory there is to open a store with: all of its rows are found, or there is 53200 and nothing is kept.
#[test]
fn memory_may_end_while_a_store_is_read() {
    let mut random = seeded();
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let mut transaction = database.begin();
    let own = table(&mut transaction, &TYPES);
    for round in 0..3 {
        let columns = TYPES.iter().enumerate();
        let columns = columns.map(|(at, of)| column(&mut random, *of, 3000, WAYS[(at + round) % WAYS.len()]));
        let batch = RecordBatch::try_new(own.schema().clone(), columns.collect()).unwrap();
        let segments = written(&transaction, &own, &[batch]);
        transaction.append(own.oid(), segments).unwrap();
    }
    transaction.commit().unwrap();
    let whole = dump(&database.snapshot());
    let enough = database.budget().in_use_bytes();
    drop((own, database));
    let with = |directory: &Path, bytes: usize| {
        let budget = MemoryBudget::new(bytes);
        let opened = Database::open(directory, Arc::new(RealDisk), budget.clone());
        (budget, opened)
    };
    let (mut held, mut refused) = (0, 0);
    for step in 0..=40 {
        let (budget, opened) = with(directory.path(), enough * step / 32);
        match opened {
            Ok((database, _)) => {
                held += 1;
                assert!(dump(&database.snapshot()) == whole, "with {step}/32");
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.sqlstate(), "53200", "{error}");
            }
        }
        assert_eq!(budget.in_use_bytes(), 0);
    }
    assert!(held > 5 && refused > 5, "{held} held, {refused} refused");
}
