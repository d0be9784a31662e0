//! Foreign keys in the catalog: what they depend on by place, what a transaction relied on, and stores of before.

use crate::transactions::rows_of;
use arrow::array::*;
use std::sync::Arc;
use tenon_storage::{
    ColumnDef, Database, ForeignKey, IndexDef, Keys, MemoryBudget, PendingKeys, ReferentialAction, SqlType, TableDef,
    TableDefinition, TableVersion, Transaction,
};

fn create(transaction: &mut Transaction, name: &str, columns: &[&str], key: &str) {
    let columns = columns
        .iter()
        .map(|name| ColumnDef::new(*name, SqlType::Int4))
        .collect();
    let def = TableDef {
        columns,
        primary_key: vec![key.into()],
        ..TableDef::default()
    };
    transaction.create_table("public", name, def).unwrap();
}

fn table(transaction: &Transaction, name: &str) -> Arc<TableVersion> {
    transaction.state().table("public", name).unwrap().clone()
}

fn insert(transaction: &mut Transaction, name: &str, rows: &[[i32; 3]]) {
    let table = table(transaction, name);
    let columns = (0..3).map(|at| Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row[at]))) as ArrayRef);
    let mut writer = transaction.writer(&table);
    let batch = RecordBatch::try_new(table.schema().clone(), columns.collect()).unwrap();
    writer.append(&batch).unwrap();
    transaction.append(table.oid(), writer.finish().unwrap()).unwrap();
}

/// Deletes the rows whose first column has this value.
fn delete(transaction: &mut Transaction, name: &str, value: i32) {
    let table = table(transaction, name);
    let gone = rows_of(&table, |segment, row| {
        let own = segment.column_slice(0, row, 1);
        own.is_valid(0) && own.as_primitive::<arrow::datatypes::Int32Type>().value(0) == value
    });
    transaction.replace_rows(&table, &gone, Vec::new(), Keys::Kept).unwrap();
}

fn key(parent: &TableVersion, columns: Vec<usize>) -> ForeignKey {
    ForeignKey {
        oid: 0,
        name: "c_fkey".into(),
        columns,
        references: parent.oid(),
        index: parent.definition().primary_key.as_ref().unwrap().oid,
        places: vec![0],
        on_update: ReferentialAction::NoAction,
        on_delete: ReferentialAction::Cascade,
        match_full: false,
        deferrable: true,
        initially_deferred: false,
        validated: true,
        on_delete_columns: Vec::new(),
        unchecked: false,
        unfollowed: false,
    }
}

/// `p (id, v, w)` with three rows, and `c (x, k, a)`, whose `a` references it.
fn database() -> Arc<Database> {
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    create(&mut transaction, "p", &["id", "v", "w"], "id");
    create(&mut transaction, "c", &["x", "k", "a"], "k");
    insert(&mut transaction, "p", &[[1, 0, 0], [2, 0, 0], [3, 0, 0]]);
    let parent = table(&transaction, "p");
    transaction
        .add_foreign_key("public", "c", key(&parent, vec![2]))
        .unwrap();
    transaction.commit().unwrap();
    database
}

fn own_key(transaction: &Transaction) -> ForeignKey {
    table(transaction, "c")
        .definition()
        .foreign_key("c_fkey")
        .unwrap()
        .clone()
}

fn keys(values: &[i32]) -> Vec<ArrayRef> {
    vec![Arc::new(Int32Array::from(values.to_vec()))]
}

#[test]
fn columns_keep_their_keys_when_others_go() {
    let database = database();
    let mut transaction = database.begin();
    transaction.drop_column("public", "c", "x").unwrap();
    assert_eq!(own_key(&transaction).columns, [1]);
    let unique = IndexDef {
        columns: vec![("w".into(), Default::default()), ("id".into(), Default::default())],
        unique: true,
        ..IndexDef::default()
    };
    let name = transaction.create_index("public", "p", unique).unwrap();
    let parent = table(&transaction, "p");
    let index = transaction.state().index("public", &name).unwrap().1.oid;
    let two = ForeignKey {
        name: "two".into(),
        columns: vec![0, 1],
        index,
        places: vec![1, 0],
        ..own_key(&transaction)
    };
    transaction.add_foreign_key("public", "c", two.clone()).unwrap();
    assert_eq!(two.referenced_columns(parent.definition()), Some(vec![0, 2]));
    transaction.drop_column("public", "p", "v").unwrap();
    let parent = table(&transaction, "p");
    assert_eq!(two.referenced_columns(parent.definition()), Some(vec![0, 1]));
    assert_eq!(transaction.state().references_to(parent.oid()).len(), 2);
    transaction.drop_column("public", "c", "k").unwrap();
    let left = transaction.state().references_to(parent.oid());
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].1.columns, [0]);
    let twice = transaction.add_foreign_key("public", "c", own_key(&transaction));
    assert_eq!(twice.unwrap_err().sqlstate(), "42710");
    assert!(transaction.rename_constraint("public", "c", "c_fkey", "other").unwrap());
    assert!(transaction.drop_constraint("public", "c", "other").unwrap());
    assert!(transaction.state().references_to(parent.oid()).is_empty());
}

#[test]
fn rows_that_were_relied_on_stay() {
    let index = |transaction: &Transaction| own_key(transaction).index;
    let p = |transaction: &Transaction| table(transaction, "p").oid();
    // What another transaction does, whether the keys are known, and whether the first one may commit then.
    type Change = fn(&mut Transaction);
    let cases: [(Change, bool, bool); 7] = [
        (|other| insert(other, "p", &[[4, 0, 0]]), false, true),
        (|other| insert(other, "p", &[[4, 0, 0]]), true, true),
        (|other| delete(other, "p", 1), true, false),
        (|other| delete(other, "p", 3), true, true),
        (|other| delete(other, "p", 3), false, false),
        (|other| other.truncate("public", "p").unwrap(), true, false),
        (|other| other.drop_relation("public", "p").unwrap(), true, false),
    ];
    for (number, (change, known, may)) in cases.into_iter().enumerate() {
        let database = database();
        let mut own = database.begin();
        insert(&mut own, "c", &[[0, number as i32, 1]]);
        let (table, index) = (p(&own), index(&own));
        own.rely_on_rows(table, index, known.then(|| keys(&[1, 2])));
        let mut other = database.begin();
        change(&mut other);
        other.commit().unwrap();
        let mut moved = own.clone();
        assert_eq!(moved.refresh().is_ok(), may, "case {number}");
        match own.commit() {
            Ok(()) => assert!(may, "case {number}"),
            Err(error) => {
                assert!(!may, "case {number}: {error}");
                assert_eq!(error.sqlstate(), "40001");
            }
        }
    }
}

#[test]
fn rows_that_were_not_there_do_not_come() {
    // The rows that come beside it, whether the keys are known, and whether the transaction may commit then.
    for (comes, known, may) in [
        (None, true, true),
        (None, false, true),
        (Some(1), true, false),
        (Some(2), true, true),
        (Some(2), false, false),
    ] {
        let database = database();
        let mut own = database.begin();
        delete(&mut own, "p", 1);
        let savepoint = own.clone();
        let c = table(&own, "c").oid();
        own.rely_on_absence(c, &[2], known.then(|| keys(&[1, 7])));
        let mut other = database.begin();
        if let Some(a) = comes {
            insert(&mut other, "c", &[[0, 1, a]]);
        }
        other.commit().unwrap();
        assert_eq!(own.clone().refresh().is_ok(), may, "{comes:?} {known}");
        assert_eq!(own.commit().is_ok(), may, "{comes:?} {known}");
        // One that relied on nothing meets only its own like.
        assert_eq!(savepoint.commit().is_ok(), !may, "{comes:?} {known}");
    }
}

#[test]
fn keys_wait_as_long_as_their_constraint_says() {
    let database = database();
    let mut transaction = database.begin();
    let constraint = own_key(&transaction);
    let pending = PendingKeys {
        constraint: constraint.oid,
        table: table(&transaction, "c").oid(),
        keys: keys(&[9]),
        are_gone: false,
        at_once: false,
    };
    assert!(!transaction.is_deferred(&constraint));
    transaction.add_pending(pending.clone());
    assert_eq!(transaction.take_pending(false).len(), 1);
    transaction.set_deferred(Some(constraint.oid), true);
    transaction.add_pending(pending.clone());
    assert!(transaction.take_pending(false).is_empty());
    assert!(transaction.has_pending());
    transaction.set_deferred(None, false);
    assert_eq!(transaction.take_pending(false).len(), 1);
    transaction.set_deferred(None, true);
    transaction.add_pending(pending);
    assert!(transaction.take_pending(false).is_empty());
    assert_eq!(transaction.take_pending(true).len(), 1);
}

#[test]
fn definitions_of_before_are_read() {
    let database = database();
    let definition = table(&database.begin(), "c").definition().clone();
    let mut written = serde_json::to_value(&*definition).unwrap();
    let read: TableDefinition = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(read.foreign_keys, definition.foreign_keys);
    written.as_object_mut().unwrap().remove("foreign_keys").unwrap();
    let read: TableDefinition = serde_json::from_value(written).unwrap();
    assert!(read.foreign_keys.is_empty());
}
