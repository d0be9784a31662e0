//! Transactions: what each sees, what survives together, what conflicts; primary keys.
//!
//! More than 400 lines because it lists which changes conflict, pair by pair.

use arrow::array::*;
use arrow::datatypes::{Int32Type, Schema};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenon_storage::{
    ColumnDef, Database, DatabaseState, Keys, MemoryBudget, RowLocation, Segment, SqlType, StorageError, TableDef,
    TableRows, TableVersion, Transaction,
};

pub fn database(key: &[&str]) -> Arc<Database> {
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    create(&mut transaction, "t", key).unwrap();
    transaction.commit().unwrap();
    database
}

fn create(transaction: &mut Transaction, name: &str, key: &[&str]) -> Result<(), StorageError> {
    let columns = vec![ColumnDef::new("a", SqlType::Int4), ColumnDef::new("b", SqlType::Text)];
    let primary_key = key.iter().map(|name| name.to_string()).collect();
    transaction
        .create_table(
            "public",
            name,
            TableDef {
                columns,
                primary_key,
                ..TableDef::default()
            },
        )
        .map(drop)
}

fn segments(transaction: &Transaction, values: impl Iterator<Item = (i32, String)>) -> Vec<Arc<Segment>> {
    let table = transaction.state().table("public", "t").unwrap();
    let (a, b): (Vec<i32>, Vec<String>) = values.unzip();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(a)),
        Arc::new(StringViewArray::from_iter_values(b)),
    ];
    let mut writer = transaction.writer(table);
    writer
        .append(&RecordBatch::try_new(table.schema().clone(), columns).unwrap())
        .unwrap();
    writer.finish().unwrap()
}

fn insert(transaction: &mut Transaction, values: &[i32]) -> Result<u64, StorageError> {
    let segments = segments(transaction, values.iter().map(|a| (*a, format!("row {a}"))));
    let oid = transaction.state().table("public", "t").unwrap().oid();
    transaction.append(oid, segments)
}

/// The rows of a table that are wanted.
pub fn rows_of(table: &TableVersion, mut wanted: impl FnMut(&Segment, usize) -> bool) -> TableRows {
    let segments = table.segments().iter().enumerate();
    let each = segments.flat_map(|(at, segment)| (0..segment.rows()).map(move |row| (at, segment, row)));
    let wanted = each.filter(|(_, segment, row)| wanted(segment, *row));
    let wanted = wanted.map(|(segment, _, row)| RowLocation { segment, row });
    wanted.collect()
}

/// Deletes the rows whose `a` is in `values`.
fn delete(transaction: &mut Transaction, values: &[i32]) -> Result<(), StorageError> {
    let table = transaction.state().table("public", "t").unwrap().clone();
    let gone = rows_of(&table, |segment, row| {
        values.contains(&segment.column_slice(0, row, 1).as_primitive::<Int32Type>().value(0))
    });
    transaction.replace_rows(&table, &gone, Vec::new(), Keys::Changed)
}

fn rows(state: &DatabaseState) -> Vec<i32> {
    let table = state.table("public", "t").unwrap();
    let mut all: Vec<i32> = Vec::new();
    for segment in table.segments().iter() {
        all.extend(segment.column(0).as_primitive::<Int32Type>().values());
        for (row, text) in segment.column(1).as_string_view().iter().enumerate() {
            assert_eq!(
                text.unwrap(),
                format!("row {}", segment.column(0).as_primitive::<Int32Type>().value(row))
            );
        }
    }
    assert_eq!(all.len() as u64, table.rows());
    all.sort_unstable();
    all
}

#[test]
fn a_transaction_sees_its_own_changes_and_its_snapshot() {
    let database = database(&[]);
    let mut first = database.begin();
    insert(&mut first, &[1, 2, 3]).unwrap();
    delete(&mut first, &[2]).unwrap();
    assert_eq!(rows(first.state()), [1, 3]);
    assert!(rows(&database.snapshot()).is_empty());
    let before = database.begin();
    first.commit().unwrap();
    assert!(rows(before.state()).is_empty());
    assert_eq!(rows(&database.snapshot()), [1, 3]);
    let mut dropped = database.begin();
    insert(&mut dropped, &[9]).unwrap();
    drop(dropped);
    assert_eq!(rows(&database.snapshot()), [1, 3]);
}

#[test]
fn changes_of_rows_survive_together_and_others_conflict() {
    let database = database(&[]);
    let (mut first, mut second, mut third) = (database.begin(), database.begin(), database.begin());
    insert(&mut first, &[1]).unwrap();
    insert(&mut second, &[2]).unwrap();
    insert(&mut third, &[3]).unwrap();
    delete(&mut third, &[3]).unwrap();
    first.commit().unwrap();
    second.commit().unwrap();
    // It took out a row of its own.
    third.commit().unwrap();
    assert_eq!(rows(&database.snapshot()), [1, 2]);

    let (mut first, mut second, mut third) = (database.begin(), database.begin(), database.begin());
    insert(&mut first, &[6]).unwrap();
    delete(&mut first, &[2]).unwrap();
    delete(&mut second, &[2]).unwrap();
    delete(&mut third, &[1]).unwrap();
    insert(&mut third, &[1, 2]).unwrap();
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().sqlstate(), "40001");
    third.commit().unwrap();
    assert_eq!(rows(&database.snapshot()), [1, 2, 6]);
    let mut again = database.begin();
    delete(&mut again, &[6]).unwrap();
    again.commit().unwrap();

    let (mut truncating, mut deleting) = (database.begin(), database.begin());
    truncating.truncate("public", "t").unwrap();
    insert(&mut truncating, &[1, 2]).unwrap();
    delete(&mut deleting, &[1]).unwrap();
    truncating.commit().unwrap();
    assert_eq!(deleting.commit().unwrap_err().sqlstate(), "40001");

    let (mut deleting, mut appending) = (database.begin(), database.begin());
    delete(&mut deleting, &[1]).unwrap();
    insert(&mut appending, &[4]).unwrap();
    deleting.commit().unwrap();
    appending.commit().unwrap();
    assert_eq!(rows(&database.snapshot()), [2, 4]);

    let (mut dropping, mut appending) = (database.begin(), database.begin());
    dropping.drop_relation("public", "t").unwrap();
    insert(&mut appending, &[5]).unwrap();
    dropping.commit().unwrap();
    assert_eq!(appending.commit().unwrap_err().sqlstate(), "40001");
}

#[test]
fn names_conflict_as_their_statements_would() {
    let database = database(&[]);
    let (mut first, mut second) = (database.begin(), database.begin());
    create(&mut first, "u", &[]).unwrap();
    create(&mut second, "u", &[]).unwrap();
    assert_eq!(create(&mut second, "u", &[]).unwrap_err().sqlstate(), "42P07");
    first.commit().unwrap();
    let error = second.commit().unwrap_err();
    assert_eq!(
        (error.sqlstate(), error.message.as_str()),
        ("42P07", "relation \"u\" already exists")
    );

    let (mut first, mut second) = (database.begin(), database.begin());
    first.create_schema("s").unwrap();
    second.create_schema("s").unwrap();
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().sqlstate(), "42P06");

    let mut transaction = database.begin();
    let columns = vec![ColumnDef::new("x", SqlType::Int4)];
    transaction
        .create_table(
            "s",
            "inside",
            TableDef {
                columns,
                ..TableDef::default()
            },
        )
        .unwrap();
    assert_eq!(transaction.drop_schema("s", false).unwrap_err().sqlstate(), "2BP01");
    transaction.drop_schema("s", true).unwrap();
    transaction
        .create_view("public", "v", "SELECT 1", Arc::new(Schema::empty()))
        .unwrap();
    assert_eq!(transaction.truncate("public", "v").unwrap_err().sqlstate(), "42809");
    transaction.rename_relation("public", "v", "w").unwrap();
    transaction
        .replace_view("public", "w", "SELECT 2", Arc::new(Schema::empty()))
        .unwrap();
    transaction.commit().unwrap();
    assert!(database.snapshot().schema("s").is_none());
    assert_eq!(database.snapshot().relation("public", "w").unwrap().name(), "w");
    assert_eq!(
        database.begin().drop_relation("public", "v").unwrap_err().sqlstate(),
        "42P01"
    );
}

#[test]
fn columns_are_added_renamed_and_dropped() {
    let database = database(&["a"]);
    let mut transaction = database.begin();
    insert(&mut transaction, &[1, 2]).unwrap();
    let five: ArrayRef = Arc::new(Int64Array::from(vec![5]));
    transaction
        .add_column("public", "t", ColumnDef::new("c", SqlType::Int8).not_null(), Some(five))
        .unwrap();
    transaction
        .add_column("public", "t", ColumnDef::new("d", SqlType::Text), None)
        .unwrap();
    let refused = transaction.add_column("public", "t", ColumnDef::new("e", SqlType::Text).not_null(), None);
    assert_eq!(refused.unwrap_err().sqlstate(), "23502");
    assert_eq!(
        transaction
            .set_not_null("public", "t", "d", true)
            .unwrap_err()
            .sqlstate(),
        "23502"
    );
    transaction.rename_column("public", "t", "c", "five").unwrap();
    let table = transaction.state().table("public", "t").unwrap().clone();
    let segment = &table.segments()[0];
    assert_eq!(
        segment.column(2).as_primitive::<arrow::datatypes::Int64Type>().values(),
        &[5, 5]
    );
    assert_eq!(segment.column(3).null_count(), 2);
    assert_eq!(table.schema().field(2).name(), "five");
    transaction.drop_column("public", "t", "a").unwrap();
    let table = transaction.state().table("public", "t").unwrap().clone();
    assert!(table.definition().primary_key.is_none());
    assert_eq!(table.segments()[0].column(0).as_string_view().value(1), "row 2");
    transaction.truncate("public", "t").unwrap();
    transaction.commit().unwrap();
    assert_eq!(database.snapshot().table("public", "t").unwrap().rows(), 0);
}

#[test]
fn refresh_moves_to_what_others_committed() {
    let database = database(&[]);
    let mut mine = database.begin();
    insert(&mut mine, &[1]).unwrap();
    let mut other = database.begin();
    insert(&mut other, &[2]).unwrap();
    other.commit().unwrap();
    assert_eq!(rows(mine.state()), [1]);
    mine.refresh().unwrap();
    assert_eq!(rows(mine.state()), [1, 2]);
    delete(&mut mine, &[2]).unwrap();
    let mut other = database.begin();
    insert(&mut other, &[3]).unwrap();
    other.commit().unwrap();
    mine.refresh().unwrap();
    assert_eq!(rows(mine.state()), [1, 3]);
    let mut other = database.begin();
    delete(&mut other, &[2]).unwrap();
    other.commit().unwrap();
    assert_eq!(mine.refresh().unwrap_err().sqlstate(), "40001");
    assert_eq!(mine.commit().unwrap_err().sqlstate(), "40001");
}

#[test]
fn duplicate_keys_are_refused() {
    let database = database(&["a"]);
    let mut transaction = database.begin();
    insert(&mut transaction, &[5, 3, 9]).unwrap();
    for (values, key) in [
        (vec![4, 4], 4),
        (vec![1, 2, 3], 3),
        (vec![3, 4, 5], 3),
        (vec![10, 9], 9),
    ] {
        let error = insert(&mut transaction, &values).unwrap_err();
        assert_eq!(
            (error.sqlstate(), error.message.as_str()),
            ("23505", "duplicate key value violates unique constraint \"t_pkey\"")
        );
        assert!(
            error
                .detail
                .unwrap()
                .contains(&format!("Key (a)=({key}) already exists."))
                || values == [3, 4, 5]
        );
    }
    insert(&mut transaction, &[4, 10]).unwrap();
    transaction.commit().unwrap();
    // Two that append the same key: the second to commit fails.
    let (mut first, mut second, mut other) = (database.begin(), database.begin(), database.begin());
    insert(&mut first, &[7]).unwrap();
    insert(&mut second, &[7]).unwrap();
    insert(&mut other, &[8]).unwrap();
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().sqlstate(), "23505");
    other.commit().unwrap();
    // An update may take a key that it frees.
    let mut transaction = database.begin();
    let table = transaction.state().table("public", "t").unwrap().clone();
    let added = segments(&transaction, [(5, "row 5".to_string())].into_iter());
    let all = rows_of(&table, |_, _| true);
    transaction.replace_rows(&table, &all, added, Keys::Changed).unwrap();
    transaction.commit().unwrap();
    assert_eq!(rows(&database.snapshot()), [5]);
}

#[test]
fn composite_keys_in_and_out_of_order() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..60 {
        let database = database(&["a", "b"]);
        let mut transaction = database.begin();
        let mut there = BTreeSet::new();
        let oid = transaction.state().table("public", "t").unwrap().oid();
        for _ in 0..random.random_range(1..8) {
            let range = [5, 50, 5000][random.random_range(0..3)];
            let mut values: Vec<(i32, String)> = (0..random.random_range(1..100))
                .map(|_| {
                    (
                        random.random_range(0..range),
                        format!("k{}", random.random_range(0..range)),
                    )
                })
                .collect();
            if random.random_bool(0.5) {
                values.sort();
            }
            let mut next = there.clone();
            let unique = values.iter().all(|value| next.insert(value.clone()));
            let result = transaction.append(oid, segments(&transaction, values.into_iter()));
            assert_eq!(result.is_ok(), unique);
            if unique {
                there = next;
            }
        }
    }
}

#[test]
fn many_small_inserts_leave_few_segments() {
    let database = database(&["a"]);
    let count = 2000;
    for value in 0..count {
        let mut transaction = database.begin();
        insert(&mut transaction, &[value]).unwrap();
        transaction.commit().unwrap();
    }
    let table = database.snapshot().table("public", "t").unwrap().clone();
    assert!(table.segments().len() <= 12, "{} segments", table.segments().len());
    assert!(table.statistics().columns[0].strictly_ascending);
    assert_eq!(rows(&database.snapshot()), (0..count).collect::<Vec<_>>());
}

#[test]
fn concurrent_transactions_lose_nothing() {
    let database = database(&["a"]);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let database = database.clone();
            std::thread::spawn(move || {
                let mut conflicts = 0;
                for round in 0..100 {
                    let base = (thread * 100 + round) * 10;
                    loop {
                        let mut transaction = database.begin();
                        let changed = insert(&mut transaction, &[base, base + 1]).and_then(|_| {
                            if round % 3 == 0 {
                                delete(&mut transaction, &[base + 1])
                            } else {
                                Ok(())
                            }
                        });
                        match changed.and_then(|()| transaction.commit()) {
                            Ok(()) => break,
                            Err(error) => assert_eq!(error.sqlstate(), "40001"),
                        }
                        conflicts += 1;
                    }
                }
                conflicts
            })
        })
        .collect();
    let reader = {
        let database = database.clone();
        std::thread::spawn(move || {
            let mut last = 0;
            for _ in 0..200 {
                let state = database.snapshot();
                let seen = rows(&state);
                assert!(seen.len() >= last, "rows that nobody deletes stay");
                last = seen.iter().filter(|a| *a % 10 == 0).count();
            }
        })
    };
    let conflicts: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    reader.join().unwrap();
    println!("{conflicts} conflicts");
    let expected: Vec<i32> = (0..400)
        .flat_map(|i| {
            let base = i * 10;
            if (i % 100) % 3 == 0 {
                vec![base]
            } else {
                vec![base, base + 1]
            }
        })
        .collect();
    assert_eq!(rows(&database.snapshot()), expected);
    let budget = database.budget().clone();
    drop(database);
    assert_eq!(budget.in_use_bytes(), 0);
}

#[test]
fn a_full_budget_refuses_rows_and_keeps_what_is_there() {
    let database = Database::new(MemoryBudget::new(200_000));
    let mut transaction = database.begin();
    create(&mut transaction, "t", &[]).unwrap();
    insert(&mut transaction, &[1]).unwrap();
    transaction.commit().unwrap();
    let mut transaction = database.begin();
    let table = transaction.state().table("public", "t").unwrap().clone();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(0..100_000)),
        Arc::new(StringViewArray::from_iter_values(
            (0..100_000).map(|a| format!("row {a}")),
        )),
    ];
    let mut writer = transaction.writer(&table);
    let batch = RecordBatch::try_new(table.schema().clone(), columns).unwrap();
    let outcome = writer
        .append(&batch)
        .and_then(|()| writer.finish())
        .and_then(|s| transaction.append(table.oid(), s));
    let error = outcome.unwrap_err();
    assert_eq!(error.sqlstate(), "53200");
    assert!(error.detail.unwrap().contains("memory limit of 200000"));
    insert(&mut transaction, &[2]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(rows(&database.snapshot()), [1, 2]);
}

#[test]
fn rows_written_for_other_columns_are_a_conflict() {
    let database = database(&[]);
    let words = || (0..1000).map(|a| (a, format!("row {}", a % 3)));
    let changes: [fn(&mut Transaction); 4] = [
        |transaction| transaction.truncate("public", "t").unwrap(),
        |transaction| transaction.drop_column("public", "t", "a").unwrap(),
        |transaction| {
            transaction
                .add_column("public", "t", ColumnDef::new("c", SqlType::Int4), None)
                .unwrap()
        },
        |transaction| transaction.rename_column("public", "t", "c", "d").unwrap(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut transaction = database.begin();
        transaction.drop_relation("public", "t").unwrap();
        create(&mut transaction, "t", &[]).unwrap();
        if number == 3 {
            transaction.rename_column("public", "t", "a", "c").unwrap();
        }
        let table = transaction.state().table("public", "t").unwrap().clone();
        let written = segments(&transaction, words());
        assert!(written[0].dictionary(1).is_some());
        change(&mut transaction);
        let result = transaction.append(table.oid(), written);
        assert_eq!(
            result.err().map(|error| error.sqlstate()),
            (number != 3).then_some("40001")
        );
        transaction.commit().unwrap();
    }
}

#[test]
fn primary_keys_are_added_dropped_and_located() {
    let database = database(&[]);
    let mut transaction = database.begin();
    insert(&mut transaction, &[5, 3, 9, 3]).unwrap();
    let key = ["a".to_string()];
    let error = transaction.add_primary_key("public", "t", &key, None).unwrap_err();
    assert_eq!(
        (error.sqlstate(), error.message.as_str()),
        ("23505", "could not create unique index \"t_pkey\"")
    );
    assert_eq!(error.detail.as_deref(), Some("Key (a)=(3) is duplicated."));
    delete(&mut transaction, &[3]).unwrap();
    transaction.add_primary_key("public", "t", &key, None).unwrap();
    assert_eq!(
        transaction
            .add_primary_key("public", "t", &key, None)
            .unwrap_err()
            .sqlstate(),
        "42P16"
    );
    insert(&mut transaction, &[3]).unwrap();
    assert_eq!(insert(&mut transaction, &[9]).unwrap_err().sqlstate(), "23505");
    let table = transaction.state().table("public", "t").unwrap().clone();
    let asked: ArrayRef = Arc::new(Int32Array::from(vec![9, 4, 3, 9]));
    let key = table.definition().primary_key.clone().unwrap();
    let found = table.locate(&key, &[asked], database.budget()).unwrap();
    let values: Vec<Option<i32>> = found
        .iter()
        .map(|at| {
            at.map(|at| {
                table.segments()[at.segment]
                    .column(0)
                    .as_primitive::<Int32Type>()
                    .value(at.row)
            })
        })
        .collect();
    assert_eq!(values, [Some(9), None, Some(3), Some(9)]);
    let wrong: ArrayRef = Arc::new(Int64Array::from(vec![9]));
    assert!(table.locate(&key, &[wrong], database.budget()).is_err());
    assert!(transaction.drop_constraint("public", "t", "t_pkey").unwrap());
    assert!(!transaction.drop_constraint("public", "t", "t_pkey").unwrap());
    insert(&mut transaction, &[9]).unwrap();
    assert_eq!(rows(transaction.state()), [3, 5, 9, 9]);
}
