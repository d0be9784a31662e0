//! The tables of the load: every value follows from its key, so that each answer is known; and what must hold in the end.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Context, Result, ensure};
use tokio_postgres::Client;

/// Rows of `load_items` that belong to one of `load_points`.
pub const ITEMS: i64 = 4;
/// What each account has in the beginning.
const BALANCE: i64 = 1_000;
/// Rows of a COPY.
pub const COPIED: i64 = 500;

/// The value of a row of `load_points`.
pub fn value(key: i64) -> i64 {
    (key * 7919 + 13) % 1_000_003
}

/// The value of a row of `load_items`.
pub fn amount(key: i64) -> i64 {
    key % 97
}

/// Makes the tables anew, with so many points.
pub async fn fill(client: &Client, points: i64) -> Result<()> {
    let (items, accounts) = (points * ITEMS, accounts(points));
    let sql = format!(
        "DROP TABLE IF EXISTS load_points, load_items, load_accounts, load_copied;
         CREATE TABLE load_points (k bigint PRIMARY KEY, v bigint NOT NULL, t text NOT NULL);
         CREATE TABLE load_items (k bigint PRIMARY KEY, point bigint NOT NULL, amount bigint NOT NULL);
         CREATE TABLE load_accounts (id bigint PRIMARY KEY, balance bigint NOT NULL, changes bigint NOT NULL);
         CREATE TABLE load_copied (id bigint NOT NULL, v bigint NOT NULL, t text NOT NULL);
         INSERT INTO load_points SELECT g, (g * 7919 + 13) % 1000003, 'row ' || g
             FROM generate_series(1::bigint, {points}) AS g;
         INSERT INTO load_items SELECT g, (g - 1) / {ITEMS} + 1, g % 97 FROM generate_series(1::bigint, {items}) AS g;
         INSERT INTO load_accounts SELECT g, {BALANCE}, 0 FROM generate_series(1::bigint, {accounts}) AS g;
         CREATE INDEX load_items_point ON load_items (point);"
    );
    client.batch_execute(&sql).await.context("cannot make the tables")?;
    for table in ["load_points", "load_items", "load_accounts"] {
        client.batch_execute(&format!("ANALYZE {table}")).await?;
    }
    Ok(())
}

/// How many accounts there are: few enough that changes meet.
pub fn accounts(points: i64) -> i64 {
    (points / 10).max(2)
}

/// The rows of a COPY that begins with an id, as text.
pub fn copied(first: i64) -> String {
    let mut text = String::new();
    for id in first..first + COPIED {
        // A String takes all that is written.
        let _ = writeln!(text, "{id}\t{}\tcopied {id}", value(id));
    }
    text
}

/// What the server has acknowledged, and what it may have done besides because the answer was lost.
#[derive(Debug, Default)]
pub struct Ledger {
    next_copied: AtomicI64,
    copied_rows: AtomicI64,
    copied_sum: AtomicI64,
    transfers: AtomicI64,
    unknown_copies: AtomicI64,
    unknown_transfers: AtomicI64,
}

impl Ledger {
    /// The first id of a COPY that nobody else uses.
    pub fn take_ids(&self) -> i64 {
        self.next_copied.fetch_add(COPIED, Ordering::Relaxed) + 1
    }

    pub fn copied(&self, first: i64) {
        self.copied_rows.fetch_add(COPIED, Ordering::Relaxed);
        let sum = (first..first + COPIED).map(value).sum();
        self.copied_sum.fetch_add(sum, Ordering::Relaxed);
    }

    pub fn transferred(&self) {
        self.transfers.fetch_add(1, Ordering::Relaxed);
    }

    pub fn copy_unknown(&self) {
        self.unknown_copies.fetch_add(1, Ordering::Relaxed);
    }

    pub fn transfer_unknown(&self) {
        self.unknown_transfers.fetch_add(1, Ordering::Relaxed);
    }

    /// Fails where the tables do not hold what was acknowledged.
    pub async fn check(&self, client: &Client, points: i64) -> Result<()> {
        let get = |own: &AtomicI64| own.load(Ordering::Relaxed);
        let one = async |sql: &str| -> Result<(i64, i64)> {
            let row = client.query_one(sql, &[]).await.context(sql.to_owned())?;
            Ok((row.try_get(0)?, row.try_get(1)?))
        };
        let (balance, changes) = one("SELECT sum(balance)::bigint, sum(changes)::bigint FROM load_accounts").await?;
        let expected = accounts(points) * BALANCE;
        ensure!(
            balance == expected,
            "the accounts hold {balance} together, and not {expected}"
        );
        let (known, unknown) = (2 * get(&self.transfers), 2 * get(&self.unknown_transfers));
        ensure!(
            (known..=known + unknown).contains(&changes),
            "{changes} changes of accounts, where {known} were acknowledged and {unknown} had no answer"
        );
        let (rows, sum) = one("SELECT count(*), coalesce(sum(v), 0)::bigint FROM load_copied").await?;
        let (known, unknown) = (get(&self.copied_rows), COPIED * get(&self.unknown_copies));
        ensure!(
            (known..=known + unknown).contains(&rows) && rows % COPIED == 0,
            "{rows} rows copied, where {known} were acknowledged and {unknown} had no answer"
        );
        let known = get(&self.copied_sum);
        ensure!(
            unknown > 0 || sum == known,
            "the rows copied sum up to {sum}, and not {known}"
        );
        Ok(())
    }
}
