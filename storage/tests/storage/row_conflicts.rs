//! Transactions that change rows of one table at once, against sets of rows: each row is named by its two values.

use crate::transactions::database as database_of;
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, StringViewArray};
use arrow::datatypes::Int32Type;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenon_storage::{Bound, DatabaseState, Keys, RowLocation, Segment, TableRows, Transaction};

type Rows = BTreeSet<(i32, i32)>;

/// A transaction and what it should see and do.
struct Open {
    transaction: Transaction,
    sees: Rows,
    /// Rows of others that it took out.
    removed: Rows,
    added: Rows,
}

fn segments(transaction: &Transaction, rows: &Rows) -> Vec<Arc<Segment>> {
    let table = transaction.state().table("public", "t").unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            rows.iter()
                .map(|(a, b)| (a % 7 > 0 || *b > 0).then_some(*a))
                .collect::<Int32Array>(),
        ),
        Arc::new(
            rows.iter()
                .map(|(a, b)| Some(format!("{a}/{b}")))
                .collect::<StringViewArray>(),
        ),
    ];
    let mut writer = transaction.writer(table);
    let batch = RecordBatch::try_new(table.schema().clone(), columns).unwrap();
    writer.append(&batch).unwrap();
    writer.finish().unwrap()
}

/// The rows in the table's order.
fn listed(segment: &Segment) -> Vec<(i32, i32)> {
    let (texts, numbers) = (segment.column(1), segment.column(0));
    let read = texts.as_string_view().iter().enumerate().map(|(row, text)| {
        let (a, b) = text.unwrap().split_once('/').unwrap();
        let numbers = numbers.as_primitive::<Int32Type>();
        let (a, b): (i32, i32) = (a.parse().unwrap(), b.parse().unwrap());
        match numbers.is_valid(row) {
            true => assert_eq!(numbers.value(row), a),
            false => assert!(a % 7 == 0 && b == 0),
        }
        (a, b)
    });
    read.collect()
}

fn check(state: &DatabaseState, expected: &Rows) {
    let table = state.table("public", "t").unwrap();
    let mut all = Rows::new();
    let (mut count, mut nulls) = (0, 0);
    for segment in table.segments().iter() {
        let rows = listed(segment);
        assert!(!rows.is_empty());
        count += rows.len();
        nulls += segment.column(0).null_count();
        assert_eq!(segment.statistics(0).null_count, segment.column(0).null_count() as u64);
        // Rows by their numbers are those of the whole column.
        let at = rows.len() / 2;
        let one = segment.take(1, &vec![at as u32].into()).unwrap();
        assert_eq!(one.as_string_view().value(0), format!("{}/{}", rows[at].0, rows[at].1));
        let from = rows.len() / 3;
        assert_eq!(
            *segment.column_slice(1, from, at - from),
            *segment.column(1).slice(from, at - from)
        );
        all.extend(rows);
    }
    assert_eq!(all, *expected);
    let statistics = table.statistics();
    assert_eq!((count, statistics.rows), (expected.len(), expected.len() as u64));
    assert_eq!(statistics.columns[0].null_count, nulls as u64);
    if let (Some(Bound::Int(min)), Some(Bound::Int(max))) = (&statistics.columns[0].min, &statistics.columns[0].max) {
        let valid = expected.iter().filter(|(a, b)| a % 7 > 0 || *b > 0);
        assert!(valid.into_iter().all(|(a, _)| (*min..=*max).contains(&i64::from(*a))));
    }
}

impl Open {
    /// Takes rows out, and puts them in again with a second value that nobody has used.
    fn change(&mut self, chosen: &Rows, again: Option<i32>) {
        let table = self.transaction.state().table("public", "t").unwrap().clone();
        let mut gone = TableRows::default();
        for (at, segment) in table.segments().iter().enumerate() {
            let rows = listed(segment).into_iter().enumerate();
            for (row, _) in rows.filter(|(_, row)| chosen.contains(row)) {
                gone.insert(RowLocation { segment: at, row });
            }
        }
        let next: Rows = again.map_or(Rows::new(), |b| chosen.iter().map(|(a, _)| (*a, b)).collect());
        let added = match next.is_empty() {
            true => vec![],
            false => segments(&self.transaction, &next),
        };
        self.transaction.replace_rows(&table, &gone, added, Keys::Kept).unwrap();
        for row in chosen {
            self.sees.remove(row);
            if !self.added.remove(row) {
                self.removed.insert(*row);
            }
        }
        self.sees.extend(&next);
        self.added.extend(next);
    }

    fn insert(&mut self, rows: Rows) {
        let oid = self.transaction.state().table("public", "t").unwrap().oid();
        self.transaction
            .append(oid, segments(&self.transaction, &rows))
            .unwrap();
        self.sees.extend(&rows);
        self.added.extend(rows);
    }
}

#[test]
fn changes_of_different_rows_all_commit() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..12 {
        // Half of the tables have a key.
        let database = database_of(if round % 2 == 0 { &["b"] } else { &[] });
        let mut committed = Rows::new();
        let mut next = 0;
        let mut fresh = |count: i32| -> Rows {
            next += count;
            (next - count..next).map(|a| (a, 0)).collect()
        };
        let mut generation = 0;
        let mut open: Vec<Open> = Vec::new();
        let (mut conflicts, mut commits) = (0, 0);
        for _ in 0..300 {
            if open.len() < 4 && random.random_bool(0.5) {
                open.push(Open {
                    transaction: database.begin(),
                    sees: committed.clone(),
                    removed: Rows::new(),
                    added: Rows::new(),
                });
                continue;
            }
            let Some(at) = (!open.is_empty()).then(|| random.random_range(0..open.len())) else {
                continue;
            };
            let own = &mut open[at];
            match random.random_range(0..10) {
                0 => own.insert(fresh([1, 3, 700][random.random_range(0..3)])),
                1 | 2 => own.insert(fresh(random.random_range(1..4))),
                3..=6 => {
                    let share = [0.001, 0.01, 0.4][random.random_range(0..3)];
                    let mut chosen: Rows = own.sees.iter().filter(|_| random.random_bool(share)).copied().collect();
                    if let Some(row) = own.sees.iter().nth(random.random_range(0..own.sees.len().max(1))) {
                        chosen.insert(*row);
                    }
                    generation += 1;
                    own.change(&chosen, random.random_bool(0.6).then_some(generation));
                }
                7 => {
                    let fits = own.removed.is_subset(&committed);
                    let refreshed = own.transaction.refresh();
                    assert_eq!(refreshed.is_ok(), fits, "{refreshed:?}");
                    if fits {
                        own.sees = committed.difference(&own.removed).chain(&own.added).copied().collect();
                    }
                }
                // A savepoint that is gone back to.
                8 => {
                    let kept = own.transaction.clone();
                    let (sees, removed, added) = (own.sees.clone(), own.removed.clone(), own.added.clone());
                    let chosen = own.sees.iter().take(3).copied().collect();
                    generation += 1;
                    own.change(&chosen, Some(generation));
                    (own.transaction, own.sees, own.removed, own.added) = (kept, sees, removed, added);
                }
                _ => {
                    let own = open.swap_remove(at);
                    let fits = own.removed.is_subset(&committed);
                    let result = own.transaction.commit();
                    assert_eq!(result.is_ok(), fits, "{result:?}");
                    if fits {
                        commits += 1;
                        committed = committed.difference(&own.removed).chain(&own.added).copied().collect();
                    } else {
                        conflicts += 1;
                        assert_eq!(result.unwrap_err().sqlstate(), "40001");
                    }
                    check(&database.snapshot(), &committed);
                    continue;
                }
            }
            check(open[at].transaction.state(), &open[at].sees);
        }
        println!("{commits} commits, {conflicts} conflicts, {} rows", committed.len());
        let segments = database.snapshot().table("public", "t").unwrap().segments().len();
        assert!(segments <= 40, "{segments} segments");
    }
}
