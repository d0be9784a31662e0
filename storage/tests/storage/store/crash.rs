//! Random transactions on a disk whose power goes at any moment: all that was acknowledged is there afterwards, and of the
//! transaction that was under way either everything or nothing. `TENON_SEED` repeats a seed, `TENON_STORE_CRASHES` tries more.

use super::sim::SimDisk;
use super::{create, dump, insert, open_on};
use crate::transactions::rows_of;
use futures::executor::block_on;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenon_storage::{
    CheckOption, Database, EnumLabel, EnumType, Keys, Object, ObjectKey, SequenceDef, SqlType, StorageError,
    Transaction,
};

const TABLES: [&str; 3] = ["t0", "t1", "t2"];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// One change, or several, of a transaction.
fn change(random: &mut StdRng, transaction: &mut Transaction) -> Result<(), StorageError> {
    let name = TABLES[random.random_range(0..TABLES.len())];
    let there = transaction.state().relation("public", name).is_some();
    match random.random_range(0..12) {
        0 if there => transaction.drop_relation("public", name)?,
        1 if there => transaction.truncate("public", name)?,
        2 => {
            let key = ObjectKey::Comment {
                oid: random.random_range(1..4),
                column: 0,
            };
            let text = random.random_range(0..100).to_string();
            transaction.put_object(key, random.random_bool(0.7).then(|| Object::Comment(text.into())));
        }
        3 => {
            let schema = ["s0", "s1"][random.random_range(0..2)];
            match transaction.state().schema(schema).is_some() {
                true => transaction.drop_schema(schema, true)?,
                false => transaction.create_schema(schema)?,
            }
        }
        4 => {
            let columns = Arc::new(arrow::datatypes::Schema::new(vec![SqlType::Date.field("d", true)]));
            let sql = format!("SELECT {}", random.random_range(0..100));
            transaction.replace_view("public", "v", &sql, columns)?;
            transaction.set_check_option("public", "v", CheckOption::Local)?;
        }
        5 => {
            let (oid, array_oid) = (transaction.new_oid(), transaction.new_oid());
            let label = EnumLabel {
                oid: transaction.new_oid(),
                label: "one".into(),
                order: 1.0,
            };
            let own = EnumType::register(oid, array_oid, "public", "e", vec![label]);
            let key = ObjectKey::Type {
                schema: "public".into(),
                name: "e".into(),
            };
            transaction.put_object(key, Some(Object::Enum(own)));
        }
        6 if there => {
            let table = transaction.state().table("public", name).unwrap().clone();
            let gone = rows_of(&table, |_, _| random.random_bool(0.2));
            transaction.replace_rows(&table, &gone, Vec::new(), Keys::Changed)?;
        }
        _ => {
            if !there {
                create(transaction, name)?;
            }
            let rows = [1, 1, 2, 30, 3000][random.random_range(0..5)];
            let numbers: Vec<i32> = (0..rows).map(|_| random.random_range(-50..50)).collect();
            insert(transaction, name, &numbers)?;
        }
    }
    Ok(())
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_any_moment() {
    let seed = number("TENON_SEED", rand::rng().random());
    println!("TENON_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for crash in 0..number("TENON_STORE_CRASHES", 30) {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(SimDisk::new(random.random()));
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        for life in 0..3 {
            disk.restart();
            let opened = open_on(directory.path(), disk.clone());
            let database: Arc<Database> = opened.unwrap_or_else(|error| panic!("crash {crash}, life {life}: {error}"));
            if life == 0 {
                known = dump(&database.snapshot());
            }
            assert_eq!(dump(&database.snapshot()), known, "crash {crash}, life {life}");
            disk.die_after(random.random_range(0..120));
            loop {
                if random.random_ratio(1, 12) && database.checkpoint().is_err() {
                    break;
                }
                let mut transaction = database.begin();
                for _ in 0..random.random_range(1..4) {
                    // A change that is refused leaves the transaction as it was.
                    let _ = change(&mut random, &mut transaction);
                }
                let wanted = dump(transaction.state());
                let committed = match random.random_bool(0.5) {
                    true => transaction.commit(),
                    false => block_on(transaction.finish()),
                };
                match committed {
                    Ok(()) => {
                        assert_eq!(dump(&database.snapshot()), wanted);
                        known = wanted;
                    }
                    Err(error) => {
                        assert!(["58030", "53100"].contains(&error.sqlstate()), "{error}");
                        assert_eq!(dump(&database.snapshot()), known, "what failed is not seen");
                        drop(database);
                        disk.restart();
                        // Nobody was told of it: it is there as a whole or not at all.
                        let found = dump(&open_on(directory.path(), disk.clone()).unwrap().snapshot());
                        assert!(
                            found == known || found == wanted,
                            "crash {crash}: neither {known:#?} nor {wanted:#?}: {found:#?}"
                        );
                        known = found;
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn sequences_give_no_value_twice() {
    let seed = number("TENON_SEED", rand::rng().random());
    println!("TENON_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(SimDisk::new(seed));
    let mut given = BTreeSet::new();
    for life in 0..12 {
        let database = open_on(directory.path(), disk.clone()).unwrap();
        if life == 0 {
            let mut transaction = database.begin();
            let def = SequenceDef {
                sql_type: SqlType::Int8,
                start: 1,
                increment: 3,
                min: 1,
                max: i64::MAX,
                cache: 1,
                cycle: false,
            };
            transaction.create_sequence("public", "s", def, None).unwrap();
            transaction.commit().unwrap();
        }
        let state = database.snapshot();
        let sequence = state.relation("public", "s").unwrap().as_sequence().unwrap();
        for _ in 0..random.random_range(0..200) {
            let value = sequence.next().unwrap();
            assert!(given.insert(value), "{value} was given before");
            if random.random_ratio(1, 20) {
                database.checkpoint().unwrap();
            }
        }
        sequence.settle().unwrap();
        drop(state);
        drop(database);
        disk.restart();
    }
}
