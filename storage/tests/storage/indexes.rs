//! Indexes in the catalog: names, uniqueness with NULLs, changes of columns, transactions.

use arrow::array::*;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::collections::HashSet;
use std::sync::Arc;
use tenon_storage::{
    ColumnDef, ColumnOrder, Database, ErrorKind, IndexDef, Keys, MemoryBudget, Segment, SqlType, StorageError,
    TableDef, Transaction,
};

type Row = (Option<i32>, Option<String>);

/// `TENON_SEED`, or a fresh seed; printed.
fn seeded() -> (u64, StdRng) {
    let given = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("TENON_SEED={seed}");
    (seed, StdRng::seed_from_u64(seed))
}

fn database() -> Arc<Database> {
    let database = Database::new(MemoryBudget::unlimited());
    let mut transaction = database.begin();
    let def = TableDef {
        columns: vec![ColumnDef::new("a", SqlType::Int4), ColumnDef::new("b", SqlType::Text)],
        ..TableDef::default()
    };
    transaction.create_table("public", "t", def).unwrap();
    transaction.commit().unwrap();
    database
}

fn unique(columns: &[&str]) -> IndexDef {
    IndexDef {
        columns: columns
            .iter()
            .map(|name| (name.to_string(), ColumnOrder::default()))
            .collect(),
        unique: true,
        ..IndexDef::default()
    }
}

fn segments(transaction: &Transaction, rows: &[Row]) -> Vec<Arc<Segment>> {
    let table = transaction.state().table("public", "t").unwrap();
    let (a, b): (Vec<Option<i32>>, Vec<Option<String>>) = rows.iter().cloned().unzip();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(a)), Arc::new(StringViewArray::from_iter(b))];
    let mut writer = transaction.writer(table);
    writer
        .append(&RecordBatch::try_new(table.schema().clone(), columns).unwrap())
        .unwrap();
    writer.finish().unwrap()
}

fn insert(transaction: &mut Transaction, rows: &[Row]) -> Result<u64, StorageError> {
    let segments = segments(transaction, rows);
    let oid = transaction.state().table("public", "t").unwrap().oid();
    transaction.append(oid, segments)
}

fn indexes(transaction: &Transaction, table: &str) -> Vec<(String, Vec<usize>)> {
    let table = transaction.state().table("public", table).unwrap();
    let all = table.definition().all_indexes();
    all.map(|index| (index.name.clone(), index.columns.clone())).collect()
}

#[test]
fn unique_indexes_agree_with_a_set() {
    let (seed, mut rng) = seeded();
    for round in 0..60 {
        let nulls_not_distinct = rng.random_bool(0.5);
        let database = database();
        let mut transaction = database.begin();
        let columns: &[&str] = if rng.random_bool(0.5) { &["a", "b"] } else { &["b"] };
        let def = IndexDef {
            nulls_not_distinct,
            ..unique(columns)
        };
        transaction.create_index("public", "t", def.clone()).unwrap();
        let mut seen: HashSet<Row> = HashSet::new();
        let mut all: Vec<Row> = vec![];
        let key_of = |row: &Row| (row.0.filter(|_| columns.len() > 1), row.1.clone());
        for _ in 0..30 {
            let domain = rng.random_range(2..200);
            let row = |rng: &mut StdRng| {
                let a = (!rng.random_ratio(1, 5)).then(|| rng.random_range(0..domain));
                let b = (!rng.random_ratio(1, 5)).then(|| format!("value number {}", rng.random_range(0..domain)));
                (a, b)
            };
            let rows: Vec<Row> = (0..rng.random_range(1..6)).map(|_| row(&mut rng)).collect();
            let mut after = seen.clone();
            let fits = rows.iter().all(|row| {
                let key = key_of(row);
                let has_null = key.1.is_none() || (columns.len() > 1 && key.0.is_none());
                (has_null && !nulls_not_distinct) || after.insert(key)
            });
            let mut attempt = transaction.clone();
            match insert(&mut attempt, &rows) {
                Ok(_) => {
                    assert!(fits, "seed {seed}, round {round}: {rows:?} were taken beside {seen:?}");
                    (transaction, seen) = (attempt, after);
                    all.extend(rows);
                }
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::UniqueViolation, "seed {seed}");
                    assert!(
                        !fits,
                        "seed {seed}, round {round}: {rows:?} were refused beside {seen:?}"
                    );
                }
            }
        }
        // The same index over the rows that are there; with one of them doubled it is refused.
        let name = transaction.create_index("public", "t", def.clone()).unwrap();
        transaction.drop_index("public", &name).unwrap();
        transaction
            .drop_index("public", &indexes(&transaction, "t")[0].0)
            .unwrap();
        if let Some(row) = all.iter().find(|row| row.0.is_some() && row.1.is_some()) {
            insert(&mut transaction, std::slice::from_ref(row)).unwrap();
            let error = transaction.create_index("public", "t", def).unwrap_err();
            assert_eq!(error.kind, ErrorKind::UniqueViolation, "seed {seed}");
            assert!(error.message.starts_with("could not create unique index"), "{error}");
        }
    }
}

/// Keys in no order over segments of many rows, of which some are removed: few are looked for at a time, and found by `locate`.
#[test]
fn few_keys_agree_with_a_map_among_many_rows() {
    let (seed, mut rng) = seeded();
    for round in 0..6 {
        let database = database();
        let mut transaction = database.begin();
        let columns: &[&str] = if rng.random_bool(0.5) { &["b", "a"] } else { &["b"] };
        transaction.create_index("public", "t", unique(columns)).unwrap();
        let domain = rng.random_range(3_000..9_000);
        let row = |key: u32| {
            (
                Some(key as i32 % 7),
                Some(format!("value number {}", key.reverse_bits())),
            )
        };
        let mut there: HashSet<u32> = HashSet::new();
        for _ in 0..4 {
            let new: HashSet<u32> = (0..1_500).map(|_| rng.random_range(0..domain)).collect();
            let new: Vec<u32> = new.into_iter().filter(|key| there.insert(*key)).collect();
            insert(&mut transaction, &new.iter().map(|key| row(*key)).collect::<Vec<_>>()).unwrap();
            for _ in 0..40 {
                let keys: Vec<u32> = (0..rng.random_range(1..4))
                    .map(|_| rng.random_range(0..domain))
                    .collect();
                let table = transaction.state().table("public", "t").unwrap().clone();
                let index = table.definition().all_indexes().next().unwrap().clone();
                let rows: Vec<Row> = keys.iter().map(|key| row(*key)).collect();
                let (a, b): (Vec<Option<i32>>, Vec<Option<String>>) = rows.iter().cloned().unzip();
                let (a, b): (ArrayRef, ArrayRef) =
                    (Arc::new(Int32Array::from(a)), Arc::new(StringViewArray::from_iter(b)));
                let sought = if columns.len() > 1 {
                    vec![b.clone(), a]
                } else {
                    vec![b.clone()]
                };
                let found = table.locate(&index, &sought, &MemoryBudget::unlimited()).unwrap();
                for ((key, place), at) in keys.iter().zip(&found).zip(0..) {
                    assert_eq!(
                        place.is_some(),
                        there.contains(key),
                        "seed {seed}, round {round}, key {key}"
                    );
                    if let Some(place) = place {
                        let own = table.segments()[place.segment].column_slice(1, place.row, 1);
                        assert_eq!(own.as_ref(), b.slice(at, 1).as_ref(), "seed {seed}, round {round}");
                    }
                }
                if rng.random_bool(0.3) {
                    let gone = found.iter().flatten().copied().collect();
                    transaction
                        .replace_rows(&table, &gone, Vec::new(), Keys::Changed)
                        .unwrap();
                    there.retain(|key| !keys.contains(key));
                    continue;
                }
                let mut after = there.clone();
                let fits = keys.iter().all(|key| after.insert(*key));
                let mut attempt = transaction.clone();
                match insert(&mut attempt, &rows) {
                    Ok(_) => {
                        assert!(fits, "seed {seed}, round {round}: {keys:?} were taken");
                        (transaction, there) = (attempt, after);
                    }
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::UniqueViolation, "seed {seed}");
                        assert!(!fits, "seed {seed}, round {round}: {keys:?} were refused");
                    }
                }
            }
        }
    }
}

#[test]
fn names_are_shared_with_relations() {
    let database = database();
    let mut transaction = database.begin();
    assert_eq!(
        transaction.create_index("public", "t", unique(&["a"])).unwrap(),
        "t_a_idx"
    );
    assert_eq!(
        transaction.create_index("public", "t", unique(&["a"])).unwrap(),
        "t_a_idx1"
    );
    let kind = |result: Result<(), StorageError>| result.unwrap_err().kind;
    let named = |name: &str| IndexDef {
        name: Some(name.into()),
        ..unique(&["b"])
    };
    for taken in ["t", "t_a_idx"] {
        let error = transaction.create_index("public", "t", named(taken)).map(drop);
        assert_eq!(kind(error), ErrorKind::DuplicateTable);
    }
    let table = transaction
        .create_table("public", "t_a_idx", TableDef::default())
        .map(drop);
    assert_eq!(kind(table), ErrorKind::DuplicateTable);
    assert_eq!(
        kind(transaction.rename_index("public", "t_a_idx", "t")),
        ErrorKind::DuplicateTable
    );
    transaction.rename_index("public", "t_a_idx", "own").unwrap();
    transaction.drop_index("public", "own").unwrap();
    assert_eq!(kind(transaction.drop_index("public", "own")), ErrorKind::UndefinedTable);
    transaction.drop_relation("public", "t").unwrap();
    transaction
        .create_table("public", "t_a_idx1", TableDef::default())
        .unwrap();
}

#[test]
fn a_name_taken_meanwhile_is_found_at_commit() {
    let database = database();
    let mut first = database.begin();
    first.create_table("public", "u", TableDef::default()).unwrap();
    let mut second = database.begin();
    let named = IndexDef {
        name: Some("u".into()),
        ..unique(&["a"])
    };
    second.create_index("public", "t", named).unwrap();
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().kind, ErrorKind::DuplicateTable);
    assert!(database.snapshot().index("public", "u").is_none());
}

#[test]
fn dropped_columns_take_their_indexes_with_them() {
    let database = database();
    let mut transaction = database.begin();
    transaction.create_index("public", "t", unique(&["a"])).unwrap();
    transaction.create_index("public", "t", unique(&["b"])).unwrap();
    transaction.create_index("public", "t", unique(&["a", "b"])).unwrap();
    insert(&mut transaction, &[(Some(1), Some("x".into()))]).unwrap();
    transaction.drop_column("public", "t", "a").unwrap();
    assert_eq!(indexes(&transaction, "t"), [("t_b_idx".to_string(), vec![0])]);
    transaction.truncate("public", "t").unwrap();
    assert_eq!(indexes(&transaction, "t").len(), 1);
}

#[test]
fn rows_and_an_index_created_side_by_side_conflict() {
    let database = database();
    let (mut rows, mut index) = (database.begin(), database.begin());
    insert(&mut rows, &[(Some(1), None), (Some(1), None)]).unwrap();
    index.create_index("public", "t", unique(&["a"])).unwrap();
    index.commit().unwrap();
    assert_eq!(rows.commit().unwrap_err().kind, ErrorKind::SerializationFailure);
}
