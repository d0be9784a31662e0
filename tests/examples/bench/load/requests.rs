//! The requests of a well-behaved client, each of which knows its answer.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::SinkExt;
use tenon_tests::tpch;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, Statement};

use super::data::{self, Ledger};
use super::mix::dice;

/// What has become of a request.
#[derive(Debug)]
pub enum Trouble {
    /// The server's error.
    Sql(String),
    /// No answer, and the connection is of no use any more.
    Lost,
    /// An answer that is wrong.
    Wrong(String),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            // The requests are right: a server that refuses them, or breaks over them, is wrong.
            Some(code) if code.code().starts_with("42") || code.code().starts_with("XX") => {
                Trouble::Wrong(error.as_db_error().map(ToString::to_string).unwrap_or_default())
            }
            Some(code) => Trouble::Sql(code.code().to_owned()),
            None if error.is_closed()
                || std::error::Error::source(&error).is_some_and(|e| e.is::<std::io::Error>()) =>
            {
                Trouble::Lost
            }
            None => Trouble::Wrong(format!("not understood: {error}")),
        }
    }
}

pub type Answered = std::result::Result<(), Trouble>;

/// After so long a request for a cancel goes out, and again: it does nothing where it comes before its statement.
const CANCEL_AFTER: Duration = Duration::from_millis(5);
const CANCEL_AGAIN: Duration = Duration::from_millis(200);

/// Of 4.8e13 pairs with 300 thousand items: nobody waits for its end.
pub const ENDLESS: &str = "SELECT count(*) FROM load_items a, load_items b, load_items c \
                           WHERE (a.amount + b.amount * 3 + c.amount * 5) % 7 = 8";

const POINT: &str = "SELECT v, t FROM load_points WHERE k = $1";
/// Points that a join looks at.
const JOINED: i64 = 10;
const JOIN: &str = "SELECT p.k, p.v, count(*), sum(i.amount)::bigint FROM load_points p JOIN load_items i ON i.point = p.k \
                    WHERE p.k BETWEEN $1 AND $2 GROUP BY p.k, p.v ORDER BY p.k";
const TRANSFER: &str = "UPDATE load_accounts SET balance = balance + CASE WHEN id = $1 THEN $3::bigint ELSE -$3::bigint END, \
                        changes = changes + 1 WHERE id IN ($1, $2)";

/// A TPC-H query and its answer, found when nobody else was there.
pub struct Known {
    sql: String,
    number: usize,
    rows: Vec<Vec<Option<String>>>,
}

/// What all clients know.
pub struct Knowledge {
    pub points: i64,
    pub tpch: Vec<Known>,
    pub ledger: Ledger,
    pub sleep: Duration,
}

/// One connection.
pub struct Caller {
    client: Client,
    point: Statement,
    join: Statement,
    transfer: Statement,
}

impl Caller {
    pub async fn connect(config: &tokio_postgres::Config) -> Result<Caller, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(Caller {
            point: client.prepare(POINT).await?,
            join: client.prepare(JOIN).await?,
            transfer: client.prepare(TRANSFER).await?,
            client,
        })
    }

    /// A row by its key: by a prepared statement, or by a text.
    pub async fn point(&self, knowledge: &Knowledge, dice: u64) -> Answered {
        let key = dice as i64 % knowledge.points;
        let key = key.abs() + 1;
        let found = match dice >> 63 {
            0 => {
                let row = self.client.query_opt(&self.point, &[&key]).await?;
                row.map(|row| (row.get::<_, i64>(0).to_string(), row.get::<_, String>(1)))
            }
            _ => {
                let rows = texts(&self.client, &POINT.replace("$1", &key.to_string())).await?;
                let text = |at: usize| rows.first().and_then(|row| row.get(at).cloned().flatten());
                text(0).zip(text(1))
            }
        };
        let expected = Some((data::value(key).to_string(), format!("row {key}")));
        same(found, expected, || format!("point {key}"))
    }

    pub async fn join(&self, knowledge: &Knowledge, dice: u64) -> Answered {
        let first = (dice >> 1) as i64 % (knowledge.points - JOINED).max(1) + 1;
        let last = (first + JOINED - 1).min(knowledge.points);
        let rows = self.client.query(&self.join, &[&first, &last]).await?;
        let found: Vec<[i64; 4]> = rows.iter().map(|row| [0, 1, 2, 3].map(|at| row.get(at))).collect();
        let expected = |point: i64| {
            let items = (point - 1) * data::ITEMS + 1..=point * data::ITEMS;
            [point, data::value(point), data::ITEMS, items.map(data::amount).sum()]
        };
        same(found, (first..=last).map(expected).collect(), || {
            format!("join from {first}")
        })
    }

    pub async fn tpch(&self, knowledge: &Knowledge, dice: u64) -> Answered {
        let known = &knowledge.tpch[(dice >> 1) as usize % knowledge.tpch.len()];
        let rows = texts(&self.client, &known.sql).await?;
        known.check(&rows)
    }

    pub async fn copy(&self, knowledge: &Knowledge) -> Answered {
        let first = knowledge.ledger.take_ids();
        let done = async {
            let sink = self.client.copy_in("COPY load_copied FROM STDIN").await?;
            let mut sink = std::pin::pin!(sink);
            sink.send(Bytes::from(data::copied(first))).await?;
            sink.finish().await
        };
        match done.await {
            Ok(rows) => {
                knowledge.ledger.copied(first);
                same(rows, data::COPIED as u64, || "rows that COPY took".to_owned())
            }
            Err(error) => {
                if error.code().is_none() {
                    knowledge.ledger.copy_unknown();
                }
                Err(error.into())
            }
        }
    }

    /// Takes from one account what it gives to another.
    pub async fn update(&self, knowledge: &Knowledge, dice: u64) -> Answered {
        let accounts = data::accounts(knowledge.points) as u64;
        let a = (dice >> 8) % accounts;
        let b = (a + 1 + (dice >> 40) % (accounts - 1)) % accounts;
        // In one order, so that few wait for each other.
        let (a, b, amount) = (a.min(b) as i64 + 1, a.max(b) as i64 + 1, (dice % 100) as i64);
        let done = match dice >> 63 {
            0 => {
                let changed = self.client.execute(&self.transfer, &[&a, &b, &amount]).await;
                changed.map(|changed| changed == 2)
            }
            _ => self.block(a, b, amount).await,
        };
        match done {
            Ok(both) => {
                knowledge.ledger.transferred();
                same(both, true, || format!("both accounts, {a} and {b}, changed"))
            }
            Err(error) => {
                if error.code().is_none() {
                    knowledge.ledger.transfer_unknown();
                }
                Err(error.into())
            }
        }
    }

    async fn block(&self, a: i64, b: i64, amount: i64) -> Result<bool, tokio_postgres::Error> {
        let change = |id, amount| {
            format!("UPDATE load_accounts SET balance = balance + {amount}, changes = changes + 1 WHERE id = {id}")
        };
        let work = async {
            self.client.batch_execute("BEGIN").await?;
            let first = self.client.execute(&change(a, amount), &[]).await?;
            let second = self.client.execute(&change(b, -amount), &[]).await?;
            self.client.batch_execute("COMMIT").await?;
            Ok(first + second == 2)
        };
        let done = work.await;
        if done.is_err() {
            self.client.batch_execute("ROLLBACK").await?;
        }
        done
    }

    /// A statement that would not end is to end as cancelled, and its connection to go on.
    pub async fn cancel(&self, dice: u64) -> Answered {
        let token = self.client.cancel_token();
        let sql = if dice & 1 == 0 { "SELECT pg_sleep(60)" } else { ENDLESS };
        let mut statement = std::pin::pin!(self.client.simple_query(sql));
        let mut wait = CANCEL_AFTER;
        let outcome = loop {
            tokio::select! {
                outcome = &mut statement => break outcome,
                () = tokio::time::sleep(wait) => token.cancel_query(NoTls).await?,
            }
            wait = CANCEL_AGAIN;
        };
        match outcome {
            Ok(_) => return Err(Trouble::Wrong(format!("{sql} came to an end"))),
            Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {}
            Err(error) => return Err(error.into()),
        }
        // A request that came late may end the next statement, once.
        let mut found = texts(&self.client, "SELECT 1").await;
        if matches!(&found, Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED)) {
            found = texts(&self.client, "SELECT 1").await;
        }
        same(found?, vec![vec![Some("1".to_owned())]], || {
            "SELECT 1 after a cancel".to_owned()
        })
    }

    pub async fn sleep(&self, knowledge: &Knowledge) -> Answered {
        let seconds = knowledge.sleep.as_secs_f64();
        let rows = texts(&self.client, &format!("SELECT pg_sleep({seconds})")).await?;
        same(rows, vec![vec![Some(String::new())]], || "pg_sleep".to_owned())
    }
}

impl Known {
    /// Runs the query alone.
    pub async fn ask(client: &Client, sql: String, number: usize) -> Result<Known> {
        let rows = texts(client, &sql).await.with_context(|| format!("q{number}"))?;
        Ok(Known { sql, number, rows })
    }

    /// Compares with the committed answers, where there are some for the scale factor.
    pub fn verify(&self, scale: tpch::Scale) -> Result<()> {
        tpch::check(self.number, scale, &self.rows).with_context(|| format!("q{}", self.number))
    }

    fn check(&self, rows: &[Vec<Option<String>>]) -> Answered {
        // Q11 leaves the order of ties open.
        let sorted = |rows: &[Vec<Option<String>>]| {
            let mut rows = rows.to_vec();
            rows.sort();
            rows
        };
        match rows == self.rows || sorted(rows) == sorted(&self.rows) {
            true => Ok(()),
            false => Err(Trouble::Wrong(format!("q{}: other rows than alone", self.number))),
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T, what: impl FnOnce() -> String) -> Answered {
    match found == expected {
        true => Ok(()),
        false => Err(Trouble::Wrong(format!("{}: {found:?}, and not {expected:?}", what()))),
    }
}

async fn texts(client: &Client, sql: &str) -> Result<Vec<Vec<Option<String>>>, tokio_postgres::Error> {
    let mut rows = vec![];
    for message in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
        }
    }
    Ok(rows)
}

/// A request's own random number, which says nothing of its kind.
pub fn own_dice(seed: u64, ticket: u64) -> u64 {
    dice(!seed, ticket)
}
