//! Stores: what is found again after the process ended, died in mid-write, or met a disk that fails.

mod crash;
mod damage;
mod faults;
mod forms;
mod sequences;
mod sim;
mod types;

use crate::transactions::rows_of;
use arrow::array::*;
use arrow::datatypes::*;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::executor::block_on;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tenon_storage::range::is_range;
use tenon_storage::store::Disk;
use tenon_storage::{
    ColumnDef, Database, DatabaseState, EnumType, Keys, MemoryBudget, RealDisk, Relation, SqlType, StorageError,
    TableDef, TableVersion, Transaction,
};

pub(crate) fn open(directory: &Path) -> Result<Arc<Database>, StorageError> {
    open_on(directory, Arc::new(RealDisk))
}

pub(crate) fn open_on(directory: &Path, disk: Arc<dyn Disk>) -> Result<Arc<Database>, StorageError> {
    Ok(Database::open(directory, disk, MemoryBudget::unlimited())?.0)
}

/// All that a state has: relations with their definitions and rows, objects, schemas.
pub(crate) fn dump(state: &DatabaseState) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (name, schema) in state.schemas() {
        all.insert(format!("schema {name}"), schema.oid.to_string());
    }
    for relation in state.relations() {
        let name = format!("{}.{}", relation.schema_name(), relation.name());
        let told = match relation {
            Relation::Table(table) => format!("{} {}", serde_json::to_string(table.definition()).unwrap(), rows(table)),
            Relation::View(view) => format!("{} {:?} {:?} {}", view.oid, view.sql, view.check_option, view.schema),
            Relation::Sequence(own) => format!("{} {:?} {:?}", own.oid, own.def, own.owner),
            Relation::Partition(own) => format!("{own:?}"),
        };
        all.insert(name, told);
    }
    for (key, object) in state.objects() {
        all.insert(format!("{key:?}"), format!("{object:?}"));
    }
    all
}

/// A table's rows in their order, as text.
pub(crate) fn rows(table: &TableVersion) -> String {
    let mut told = String::new();
    for segment in table.segments().iter() {
        let columns: Vec<ArrayRef> = (0..segment.columns()).map(|at| plain(&segment.column(at))).collect();
        let options = FormatOptions::default().with_null("NULL");
        let formats: Vec<ArrayFormatter<'_>> = columns
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        for row in 0..segment.rows() {
            formats
                .iter()
                .for_each(|format| told += &format!("{}|", format.value(row)));
            told.push('\n');
        }
    }
    told
}

/// Enums as their labels, in records and arrays too.
fn plain(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        of if let Some(own) = EnumType::of(of) => Arc::new(own.texts(column)),
        DataType::Struct(fields) if !is_range(column.data_type()) => {
            let records = column.as_struct();
            let columns: Vec<ArrayRef> = records.columns().iter().map(plain).collect();
            let fields = fields.iter().zip(&columns);
            let fields = fields.map(|(own, column)| Field::new(own.name(), column.data_type().clone(), true));
            Arc::new(StructArray::new(fields.collect(), columns, records.nulls().cloned()))
        }
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            let items = plain(lists.values());
            let item = Arc::new(Field::new("item", items.data_type().clone(), true));
            Arc::new(ListArray::new(
                item,
                lists.offsets().clone(),
                items,
                lists.nulls().cloned(),
            ))
        }
        _ => column.clone(),
    }
}

/// A table of a number and a text.
pub(crate) fn create(transaction: &mut Transaction, name: &str) -> Result<(), StorageError> {
    let columns = vec![
        ColumnDef::new("a", SqlType::Int4).not_null(),
        ColumnDef::new("b", SqlType::Text),
    ];
    let def = TableDef {
        columns,
        ..TableDef::default()
    };
    transaction.create_table("public", name, def).map(drop)
}

/// Adds rows of these numbers to such a table.
pub(crate) fn insert(transaction: &mut Transaction, table: &str, numbers: &[i32]) -> Result<u64, StorageError> {
    let version = transaction.state().table("public", table).unwrap().clone();
    let texts = numbers
        .iter()
        .map(|number| (number % 5 != 0).then(|| format!("text {}", number % 7)));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(numbers.to_vec())),
        Arc::new(texts.collect::<StringViewArray>()),
    ];
    let mut writer = transaction.writer(&version);
    writer.append(&RecordBatch::try_new(version.schema().clone(), columns).unwrap())?;
    transaction.append(version.oid(), writer.finish()?)
}

#[test]
fn a_store_has_one_user() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path()).unwrap();
    assert_eq!(open(directory.path()).unwrap_err().sqlstate(), "58030");
    drop(first);
    open(directory.path()).unwrap();
}

#[test]
fn commits_are_found_again_with_and_without_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let mut expected = Vec::new();
    for round in 0..3 {
        let mut transaction = database.begin();
        create(&mut transaction, &format!("t{round}")).unwrap();
        insert(&mut transaction, &format!("t{round}"), &(0..5000).collect::<Vec<_>>()).unwrap();
        insert(&mut transaction, "t0", &[round, -round]).unwrap();
        transaction.commit().unwrap();
        expected.push(dump(&database.snapshot()));
        if round == 1 {
            database.checkpoint().unwrap();
        }
    }
    drop(database);
    let database = open(directory.path()).unwrap();
    assert_eq!(dump(&database.snapshot()), expected[2]);
    database.checkpoint().unwrap();
    drop(database);
    let (database, recovered) =
        Database::open(directory.path(), Arc::new(RealDisk), MemoryBudget::unlimited()).unwrap();
    assert_eq!(dump(&database.snapshot()), expected[2]);
    assert_eq!((recovered.tables, recovered.rows, recovered.commits), (3, 15_006, 0));
}

#[test]
fn temporary_tables_are_nobodys() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let mut transaction = database.begin();
    transaction.create_schema("pg_temp_7").unwrap();
    let def = TableDef {
        columns: vec![ColumnDef::new("a", SqlType::Int4)],
        ..TableDef::default()
    };
    transaction.create_table("pg_temp_7", "t", def).unwrap();
    transaction.commit().unwrap();
    assert!(database.snapshot().table("pg_temp_7", "t").is_some());
    drop(database);
    let database = open(directory.path()).unwrap();
    assert!(database.snapshot().schema("pg_temp_7").is_none());
}

#[test]
fn clients_that_commit_at_once_share_syncs() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(sim::SimDisk::new(1));
    let database = open_on(directory.path(), disk.clone()).unwrap();
    let mut transaction = database.begin();
    create(&mut transaction, "t").unwrap();
    transaction.commit().unwrap();
    disk.slow_syncs(std::time::Duration::from_millis(2));
    let before = disk.syncs();
    std::thread::scope(|scope| {
        for client in 0..16 {
            let database = database.clone();
            scope.spawn(move || {
                for round in 0..10 {
                    let mut transaction = database.begin();
                    insert(&mut transaction, "t", &[client * 100 + round]).unwrap();
                    match client % 2 {
                        0 => transaction.commit().unwrap(),
                        _ => block_on(transaction.finish()).unwrap(),
                    }
                }
            });
        }
    });
    let syncs = disk.syncs() - before;
    assert!(syncs < 100, "{syncs} syncs for 160 commits");
    assert_eq!(database.snapshot().table("public", "t").unwrap().rows(), 160);
    let expected = dump(&database.snapshot());
    drop(database);
    disk.restart();
    assert_eq!(dump(&open(directory.path()).unwrap().snapshot()), expected);
}

/// Those who commit together meet as they do one after the other: of two that took the same row one fails.
#[test]
fn who_commits_together_conflicts() {
    const CLIENTS: i32 = 8;
    const ROUNDS: i32 = 25;
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(sim::SimDisk::new(1));
    let database = open_on(directory.path(), disk.clone()).unwrap();
    let mut transaction = database.begin();
    create(&mut transaction, "t").unwrap();
    insert(&mut transaction, "t", &[0, -1]).unwrap();
    transaction.commit().unwrap();
    disk.slow_syncs(std::time::Duration::from_millis(1));
    let conflicts: i32 = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| {
            let database = database.clone();
            scope.spawn(move || {
                let mut conflicts = 0;
                for round in 0..ROUNDS {
                    while let Err(error) = block_on(replace_first(&database, client * ROUNDS + round + 1).finish()) {
                        assert_eq!(error.sqlstate(), "40001");
                        conflicts += 1;
                    }
                }
                conflicts
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    println!("{conflicts} conflicts");
    let expected = dump(&database.snapshot());
    let table = database.snapshot().table("public", "t").unwrap().clone();
    // The first row was replaced again and again, and each time a row was added.
    assert_eq!(table.rows(), 2 + u64::try_from(CLIENTS * ROUNDS).unwrap());
    assert!(table.segments().len() < 20, "{} segments", table.segments().len());
    drop((table, database));
    disk.restart();
    assert_eq!(dump(&open(directory.path()).unwrap().snapshot()), expected);
}

/// A transaction that takes out the row 0, which is there once, and adds it again with another.
fn replace_first(database: &Arc<Database>, other: i32) -> Transaction {
    let mut transaction = database.begin();
    let table = transaction.state().table("public", "t").unwrap().clone();
    let gone = rows_of(&table, |segment, row| {
        segment.column_slice(0, row, 1).as_primitive::<Int32Type>().value(0) == 0
    });
    transaction
        .replace_rows(&table, &gone, Vec::new(), Keys::Changed)
        .unwrap();
    insert(&mut transaction, "t", &[0, other]).unwrap();
    transaction
}

/// Rows are written before their commit: a checkpoint between the two knows nothing of them.
#[test]
fn commits_beside_checkpoints() {
    const CLIENTS: i32 = 4;
    const ROUNDS: i32 = 60;
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let left = std::sync::atomic::AtomicI32::new(CLIENTS);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (database, left) = (database.clone(), &left);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut transaction = database.begin();
                    let name = format!("t{client}_{round}");
                    create(&mut transaction, &name).unwrap();
                    insert(&mut transaction, &name, &(0..500).collect::<Vec<_>>()).unwrap();
                    transaction.commit().unwrap();
                }
                left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            });
        }
        while left.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            database.checkpoint().unwrap();
        }
    });
    let expected = dump(&database.snapshot());
    drop(database);
    let database = open(directory.path()).unwrap();
    assert_eq!(dump(&database.snapshot()), expected);
    assert_eq!(database.snapshot().relations().count() as i32, CLIENTS * ROUNDS);
}

#[test]
fn garbage_goes() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).unwrap();
    let mut transaction = database.begin();
    create(&mut transaction, "kept").unwrap();
    insert(&mut transaction, "kept", &(0..1000).collect::<Vec<_>>()).unwrap();
    transaction.commit().unwrap();
    let mut most = 0;
    for round in 0..20 {
        let mut transaction = database.begin();
        create(&mut transaction, "t").unwrap();
        let numbers: Vec<i32> = (0..50_000).map(|at| at * (round + 1)).collect();
        insert(&mut transaction, "t", &numbers).unwrap();
        transaction.commit().unwrap();
        let mut transaction = database.begin();
        transaction.drop_relation("public", "t").unwrap();
        transaction.commit().unwrap();
        database.checkpoint().unwrap();
        let files = std::fs::read_dir(directory.path()).unwrap();
        let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        most = most.max(bytes);
    }
    assert!(most < 100_000, "{most} bytes are kept for a thousand rows");
    let expected = dump(&database.snapshot());
    drop(database);
    assert_eq!(dump(&open(directory.path()).unwrap().snapshot()), expected);
}

#[test]
fn how_far_a_checkpoint_is() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(sim::SimDisk::new(9));
    let database = open_on(directory.path(), disk.clone()).unwrap();
    let mut transaction = database.begin();
    create(&mut transaction, "kept").unwrap();
    insert(&mut transaction, "kept", &(0..1000).collect::<Vec<_>>()).unwrap();
    create(&mut transaction, "garbage").unwrap();
    insert(&mut transaction, "garbage", &(0..50_000).collect::<Vec<_>>()).unwrap();
    transaction.commit().unwrap();
    let mut transaction = database.begin();
    transaction.drop_relation("public", "garbage").unwrap();
    transaction.commit().unwrap();
    disk.slow_syncs(Duration::from_millis(200));
    let store = database.store().unwrap().clone();
    assert!(store.checkpoint_progress().is_none());
    let mut seen = Vec::new();
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| database.checkpoint().unwrap());
        while !checkpoint.is_finished() {
            seen.extend(store.checkpoint_progress());
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert!(store.checkpoint_progress().is_none());
    // Its file is synced in this phase.
    let written = seen
        .iter()
        .find(|progress| progress.phase == "writing catalog")
        .unwrap();
    assert!(written.segments_copied > 0 && written.bytes_copied > 0, "{written:?}");
    assert!(written.segments_copied == written.segments_total && written.started_us > 0);
}
