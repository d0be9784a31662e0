//! Disks that are full or do not answer.

use super::sim::SimDisk;
use super::{create, dump, insert, open_on};
use std::io::ErrorKind;
use std::sync::Arc;

#[test]
fn a_full_disk_fails_the_commit_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(SimDisk::new(2));
    let database = open_on(directory.path(), disk.clone()).unwrap();
    let mut transaction = database.begin();
    create(&mut transaction, "t").unwrap();
    transaction.commit().unwrap();
    for round in 0..20 {
        let before = dump(&database.snapshot());
        let mut transaction = database.begin();
        insert(&mut transaction, "t", &[round]).unwrap();
        disk.fail_next_write(ErrorKind::StorageFull);
        let error = transaction.commit().unwrap_err();
        assert_eq!(error.sqlstate(), "53100", "{error}");
        assert_eq!(dump(&database.snapshot()), before);
        disk.fail_next_write(ErrorKind::StorageFull);
        assert_eq!(database.checkpoint().unwrap_err().sqlstate(), "53100");
        let mut transaction = database.begin();
        insert(&mut transaction, "t", &[100 + round]).unwrap();
        transaction.commit().unwrap();
    }
    let expected = dump(&database.snapshot());
    database.checkpoint().unwrap();
    drop(database);
    disk.restart();
    assert_eq!(dump(&open_on(directory.path(), disk).unwrap().snapshot()), expected);
}

#[test]
fn after_a_sync_that_failed_nothing_is_committed() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(SimDisk::new(3));
    let database = open_on(directory.path(), disk.clone()).unwrap();
    let mut transaction = database.begin();
    create(&mut transaction, "t").unwrap();
    transaction.commit().unwrap();
    let before = dump(&database.snapshot());
    let mut transaction = database.begin();
    insert(&mut transaction, "t", &[1]).unwrap();
    let wanted = dump(transaction.state());
    disk.fail_next_sync();
    assert_eq!(transaction.commit().unwrap_err().sqlstate(), "58030");
    let mut transaction = database.begin();
    insert(&mut transaction, "t", &[2]).unwrap();
    let error = transaction.commit().unwrap_err();
    assert_eq!(
        (error.sqlstate(), error.hint.as_deref()),
        ("58030", Some("Restart the server."))
    );
    assert_eq!(
        dump(&database.snapshot()),
        before,
        "readers go on, and see what was acknowledged"
    );
    drop(database);
    disk.restart();
    let found = dump(&open_on(directory.path(), disk).unwrap().snapshot());
    assert!(found == before || found == wanted);
}
