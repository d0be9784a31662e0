//! Sequences whose values were given before the process died: none is given again, whatever became of ALTER SEQUENCE beside.

use super::sim::SimDisk;
use super::{open, open_on};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tenon_storage::{Database, DatabaseState, Sequence, SequenceDef, SequenceOwner, SqlType};

fn definition(max: i64) -> SequenceDef {
    SequenceDef {
        sql_type: SqlType::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max,
        cache: 1,
        cycle: false,
    }
}

fn created(directory: &Path) -> Arc<Database> {
    let database = open(directory).unwrap();
    create(&database);
    database
}

fn create(database: &Arc<Database>) {
    let mut transaction = database.begin();
    transaction
        .create_sequence("public", "s", definition(i64::MAX), None)
        .unwrap();
    transaction.commit().unwrap();
}

fn sequence(state: &DatabaseState) -> Arc<Sequence> {
    state.sequence("public", "s").unwrap().clone()
}

/// Takes so many values, which are durable then; gives the last one.
fn take(sequence: &Sequence, count: usize) -> i64 {
    let last = (0..count).fold(None, |_, _| Some(sequence.next().unwrap())).unwrap();
    sequence.settle().unwrap();
    last
}

/// The next value when the process has died.
fn next_life(directory: &Path, database: Arc<Database>) -> i64 {
    drop(database);
    let database = open(directory).unwrap();
    sequence(&database.snapshot()).next().unwrap()
}

#[test]
fn a_restart_that_is_rolled_back_takes_nothing_back() {
    let directory = tempfile::tempdir().unwrap();
    let database = created(directory.path());
    let own = sequence(&database.snapshot());
    assert_eq!(take(&own, 100), 100);
    // Its note waits while the other counter notes.
    let last = (0..40).fold(None, |_, _| Some(own.next().unwrap())).unwrap();
    let mut transaction = database.begin();
    transaction
        .alter_sequence("public", "s", definition(i64::MAX), None, Some(1))
        .unwrap();
    let restarted = sequence(transaction.state());
    assert_eq!(take(&restarted, 2), 2);
    restarted.set(7, true).unwrap();
    restarted.settle().unwrap();
    drop(transaction);
    drop((own, restarted));
    let next = next_life(directory.path(), database);
    assert!(next > last, "{next} after {last}");
}

#[test]
fn a_restart_that_is_committed_holds() {
    let directory = tempfile::tempdir().unwrap();
    let database = created(directory.path());
    let before = sequence(&database.snapshot());
    take(&before, 100);
    let mut transaction = database.begin();
    transaction
        .alter_sequence("public", "s", definition(i64::MAX), None, Some(1000))
        .unwrap();
    assert_eq!(take(&sequence(transaction.state()), 1), 1000);
    transaction.commit().unwrap();
    assert_eq!(take(&sequence(&database.snapshot()), 50), 1050);
    // Who still sees the sequence as it was goes on with the others.
    assert_eq!(take(&before, 50), 1100);
    drop(before);
    let next = next_life(directory.path(), database);
    assert!((1101..1150).contains(&next), "{next}");
}

#[test]
fn alter_sequence_forgets_what_was_logged_ahead() {
    let directory = tempfile::tempdir().unwrap();
    let database = created(directory.path());
    take(&sequence(&database.snapshot()), 1);
    let mut transaction = database.begin();
    transaction
        .alter_sequence("public", "s", definition(20), None, None)
        .unwrap();
    transaction.commit().unwrap();
    assert_eq!(sequence(&database.snapshot()).counter().log_count, 0);
    assert_eq!(next_life(directory.path(), database), 2);
}

/// A commit has the sequence as it was when it was written, not as it was before others took values.
#[test]
fn alter_sequence_beside_others_takes_nothing_back() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let database = created(directory.path());
        let table_oid = database.begin().new_oid();
        let last = AtomicI64::new(0);
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| {
                for _ in 0..20 {
                    // More than is logged ahead.
                    last.store(take(&sequence(&database.snapshot()), 40), Ordering::Relaxed);
                }
            });
            while !taken.is_finished() {
                let mut transaction = database.begin();
                let owner = SequenceOwner {
                    table_oid,
                    column: "a".into(),
                    identity: false,
                };
                transaction
                    .alter_sequence("public", "s", definition(i64::MAX), Some(owner), None)
                    .unwrap();
                transaction.commit().unwrap();
            }
        });
        let next = next_life(directory.path(), database);
        assert!(next > last.into_inner(), "{next}");
    }
}

/// Who takes a value that was logged ahead by another waits until that is durable.
#[test]
fn values_are_durable_before_they_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(SimDisk::new(1));
    let database = open_on(directory.path(), disk.clone()).unwrap();
    create(&database);
    let own = sequence(&database.snapshot());
    let before = disk.syncs();
    disk.slow_syncs(Duration::from_millis(300));
    own.next().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| own.settle().unwrap());
        std::thread::sleep(Duration::from_millis(100));
        take(&own, 1);
        assert!(disk.syncs() > before);
    });
}
