//! Several clients that change rows of one table: who waits for whom, and what each then sees, as in PostgreSQL.

use crate::process::{Server, failing, value};
use crate::trial;
use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use rand::prelude::*;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, SimpleQueryMessage};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("row_locks::different_rows", different_rows),
        trial("row_locks::the_same_row", the_same_row),
        trial("row_locks::deadlocks", deadlocks),
        trial("row_locks::limits_of_time", limits_of_time),
        trial("row_locks::snapshots", snapshots),
        trial("row_locks::many_clients", || many_clients(false)),
        trial("row_locks::many_clients_stored", || many_clients(true)),
    ]
}

/// Long enough for a statement that does not wait.
const MOMENT: Duration = Duration::from_millis(300);

/// A statement of a client in the background.
pub fn begin(client: Client, sql: &str) -> JoinHandle<(Client, Result<u64, tokio_postgres::Error>)> {
    let sql = sql.to_string();
    tokio::spawn(async move {
        let done = client.simple_query(&sql).await.map(|messages| {
            let count = messages.iter().rev().find_map(|message| match message {
                SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
                _ => None,
            });
            count.unwrap_or_default()
        });
        (client, done)
    })
}

pub async fn waits<T>(task: &JoinHandle<T>) -> Result<()> {
    tokio::time::sleep(MOMENT).await;
    ensure!(!task.is_finished(), "the statement did not wait");
    Ok(())
}

pub async fn ends<T>(task: JoinHandle<T>) -> Result<T> {
    let ended = tokio::time::timeout(Duration::from_secs(30), task).await;
    Ok(ended.context("the statement still waits")??)
}

/// Tables with and without a key, each with rows in one large segment and in small ones.
pub const TABLES: &str = "
    CREATE TABLE keyed (k int PRIMARY KEY, v int, s text);
    CREATE TABLE plain (k int, v int, s text);
    INSERT INTO keyed SELECT g, 0, 'row ' || g FROM generate_series(1, 3000) g;
    INSERT INTO plain SELECT g, 0, 'row ' || g FROM generate_series(1, 3000) g;
    INSERT INTO keyed VALUES (3001, 0, 'a'); INSERT INTO keyed VALUES (3002, 0, 'b'); INSERT INTO keyed VALUES (3003, 0, 'c');
    INSERT INTO plain VALUES (3001, 0, 'a'); INSERT INTO plain VALUES (3002, 0, 'b'); INSERT INTO plain VALUES (3003, 0, 'c');";

async fn different_rows() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two, other) = (
        server.connect().await?,
        server.connect().await?,
        server.connect().await?,
    );
    one.batch_execute(TABLES).await?;
    for table in ["keyed", "plain"] {
        for (a, b) in [(1, 2), (3001, 3002), (5, 3003), (3003, 7)] {
            one.batch_execute(&format!("BEGIN; UPDATE {table} SET v = v + 1 WHERE k = {a}"))
                .await?;
            two.batch_execute(&format!("BEGIN; UPDATE {table} SET v = v + 1 WHERE k = {b}"))
                .await?;
            other
                .batch_execute(&format!("INSERT INTO {table} VALUES (9000 + {a} + {b}, 0, 'x')"))
                .await?;
            two.batch_execute(&format!("DELETE FROM {table} WHERE k = 9000 + {a} + {b}"))
                .await?;
            one.batch_execute("COMMIT").await?;
            two.batch_execute("COMMIT").await?;
        }
        let sums = "SELECT sum(v) || ' ' || count(*) || ' ' || count(DISTINCT k) FROM ";
        let sums = value(&other, &format!("{sums}{table}")).await?;
        ensure!(sums == "8 3003 3003", "{table}: {sums}");
    }
    Ok(())
}

async fn the_same_row() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, mut two, other) = (
        server.connect().await?,
        server.connect().await?,
        server.connect().await?,
    );
    one.batch_execute(TABLES).await?;
    for table in ["keyed", "plain"] {
        for k in [10, 3002] {
            // Both additions count.
            let add = format!("UPDATE {table} SET v = v + 1 WHERE k = {k}");
            one.batch_execute(&format!("BEGIN; {add}")).await?;
            let task = begin(two, &add);
            waits(&task).await?;
            // Its row moves to another segment meanwhile.
            for at in 0..5 {
                other
                    .batch_execute(&format!("INSERT INTO {table} VALUES (5000 + {at}, 0, 'y')"))
                    .await?;
            }
            let third = server.connect().await?;
            let late = begin(third, &add);
            waits(&late).await?;
            one.batch_execute("COMMIT").await?;
            let (client, done) = ends(task).await?;
            ensure!(done? == 1);
            ensure!(ends(late).await?.1? == 1);
            two = client;
            let v = value(&other, &format!("SELECT v FROM {table} WHERE k = {k}")).await?;
            ensure!(v == "3", "{table} {k}: {v}");
            other
                .batch_execute(&format!("DELETE FROM {table} WHERE k >= 5000"))
                .await?;

            // What is rolled back is not waited for in vain.
            one.batch_execute(&format!("BEGIN; {add}")).await?;
            let task = begin(two, &add);
            waits(&task).await?;
            one.batch_execute("ROLLBACK").await?;
            let (client, done) = ends(task).await?;
            ensure!(done? == 1);
            two = client;
            let v = value(&other, &format!("SELECT v FROM {table} WHERE k = {k}")).await?;
            ensure!(v == "4", "{table} {k}: {v}");

            // A condition holds for the new version or the row is left alone.
            one.batch_execute(&format!("BEGIN; UPDATE {table} SET s = 'done' WHERE k = {k}"))
                .await?;
            let task = begin(two, &format!("UPDATE {table} SET v = 99 WHERE k = {k} AND s <> 'done'"));
            waits(&task).await?;
            one.batch_execute("COMMIT").await?;
            let (client, done) = ends(task).await?;
            ensure!(done? == 0);
            two = client;

            // One within a block sees what it did before.
            two.batch_execute(&format!("BEGIN; UPDATE {table} SET v = 50 WHERE k = 20"))
                .await?;
            one.batch_execute(&format!("BEGIN; DELETE FROM {table} WHERE k = {k}"))
                .await?;
            let task = begin(two, &format!("UPDATE {table} SET v = v + 1 WHERE k IN (20, {k})"));
            waits(&task).await?;
            one.batch_execute("COMMIT").await?;
            let (client, done) = ends(task).await?;
            ensure!(done? == 1);
            client.batch_execute("COMMIT").await?;
            two = client;
            let v = value(&other, &format!("SELECT v FROM {table} WHERE k = 20")).await?;
            ensure!(v == "51", "{table} {k}: {v}");
        }
    }
    // ON CONFLICT, and MERGE.
    let count = "INSERT INTO keyed VALUES (30, 1, 'new') ON CONFLICT (k) DO UPDATE SET v = keyed.v + 1";
    one.batch_execute(&format!("BEGIN; {count}")).await?;
    two.batch_execute("BEGIN").await?;
    let task = begin(two, count);
    waits(&task).await?;
    one.batch_execute("COMMIT").await?;
    let (two, done) = ends(task).await?;
    ensure!(done? == 1);
    two.batch_execute("COMMIT").await?;
    let merge = "MERGE INTO plain p USING (VALUES (30)) s(k) ON p.k = s.k WHEN MATCHED THEN UPDATE SET v = p.v + 1";
    one.batch_execute(&format!("BEGIN; {merge}")).await?;
    let task = begin(two, merge);
    waits(&task).await?;
    one.batch_execute("COMMIT").await?;
    ensure!(ends(task).await?.1? == 1);
    for table in ["keyed", "plain"] {
        let v = value(&other, &format!("SELECT v FROM {table} WHERE k = 30")).await?;
        ensure!(v == "2", "{table}: {v}");
    }
    Ok(())
}

async fn deadlocks() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    one.batch_execute(TABLES).await?;
    one.batch_execute("BEGIN; UPDATE keyed SET v = 1 WHERE k = 1").await?;
    two.batch_execute("BEGIN; UPDATE keyed SET v = 2 WHERE k = 2").await?;
    let task = begin(one, "UPDATE keyed SET v = 1 WHERE k = 2");
    waits(&task).await?;
    let state = failing(&two, "UPDATE keyed SET v = 2 WHERE k = 1").await?;
    ensure!(state == "40P01", "{state}");
    two.batch_execute("ROLLBACK").await?;
    let (one, done) = ends(task).await?;
    ensure!(done? == 1);
    one.batch_execute("COMMIT").await?;
    let found = value(
        &two,
        "SELECT string_agg(v::text, ' ' ORDER BY k) FROM keyed WHERE k <= 2",
    )
    .await?;
    ensure!(found == "1 1", "{found}");
    // Locks go with what a savepoint takes back.
    one.batch_execute("BEGIN; SAVEPOINT s; UPDATE keyed SET v = 7 WHERE k = 3; ROLLBACK TO s")
        .await?;
    let task = begin(two, "UPDATE keyed SET v = 8 WHERE k = 3");
    ensure!(ends(task).await?.1? == 1);
    one.batch_execute("COMMIT").await?;
    Ok(())
}

async fn limits_of_time() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    one.batch_execute(TABLES).await?;
    one.batch_execute("BEGIN; DELETE FROM plain WHERE k = 1").await?;
    let state = failing(&two, "SET lock_timeout = '100ms'; UPDATE plain SET v = 1 WHERE k = 1").await?;
    ensure!(state == "55P03", "{state}");
    let state = failing(
        &two,
        "RESET lock_timeout; SET statement_timeout = '100ms'; UPDATE plain SET v = 1",
    )
    .await?;
    ensure!(state == "57014", "{state}");
    two.batch_execute("RESET statement_timeout").await?;
    let cancel = two.cancel_token();
    let task = begin(two, "DELETE FROM plain");
    waits(&task).await?;
    cancel.cancel_query(tokio_postgres::NoTls).await?;
    let (two, done) = ends(task).await?;
    let Err(error) = done else {
        bail!("it was not cancelled")
    };
    ensure!(crate::process::sql_state(&error) == "57014", "{error}");
    // A client that goes frees what it holds.
    let task = begin(two, "UPDATE plain SET v = 5 WHERE k = 1");
    waits(&task).await?;
    drop(one);
    ensure!(ends(task).await?.1? == 1);
    Ok(())
}

async fn snapshots() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    one.batch_execute(TABLES).await?;
    let begin_snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM plain LIMIT 1";
    for end in ["COMMIT", "ROLLBACK"] {
        two.batch_execute(begin_snapshot).await?;
        one.batch_execute("BEGIN; UPDATE plain SET v = v + 1 WHERE k = 1")
            .await?;
        let waiting = server.connect().await?;
        waiting.batch_execute(begin_snapshot).await?;
        let task = begin(waiting, "UPDATE plain SET v = v + 1 WHERE k = 1");
        waits(&task).await?;
        one.batch_execute(end).await?;
        let (_, done) = ends(task).await?;
        match (end, done) {
            ("COMMIT", Err(error)) => {
                let state = crate::process::sql_state(&error);
                ensure!(state == "40001", "{state}");
                let state = failing(&two, "DELETE FROM plain WHERE k = 1").await?;
                ensure!(state == "40001", "{state}");
            }
            ("ROLLBACK", Ok(1)) => two.batch_execute("UPDATE plain SET v = v + 1 WHERE k = 2").await?,
            (_, done) => bail!("{end}: {done:?}"),
        }
        two.batch_execute("ROLLBACK").await?;
    }
    Ok(())
}

/// Sums of what all clients have added are right, whatever was waited for.
/// Where there is a store, others see what was committed later than it is merged.
async fn many_clients(is_stored: bool) -> Result<()> {
    let seed: u64 = match std::env::var("TENON_SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => rand::random(),
    };
    println!("row_locks::many_clients: seed {seed}");
    let store = tempfile::tempdir()?;
    let args = ["--store".to_string(), store.path().display().to_string()];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = Server::start(if is_stored { &args } else { &[] })?;
    let client = server.connect().await?;
    client.batch_execute(TABLES).await?;
    let work = (0..8).map(|number| {
        let dsn = server.dsn();
        tokio::spawn(async move {
            let client = crate::process::connect(&dsn).await?;
            let mut random = StdRng::seed_from_u64(seed ^ number);
            let mut added = [0; 2];
            for _ in 0..40 {
                let mut own = [0; 2];
                let block = random.random_bool(0.5);
                if block {
                    client.batch_execute("BEGIN").await?;
                }
                let mut failed = false;
                for _ in 0..random.random_range(1..4) {
                    let at = random.random_range(0..2);
                    let table = ["keyed", "plain"][at];
                    let k = [
                        random.random_range(1..6),
                        random.random_range(1..3000),
                        random.random_range(3001..3004),
                    ][random.random_range(0..3)];
                    let sql = match random.random_range(0..6) {
                        0 => format!(
                            "INSERT INTO {table} VALUES ({}, 0, 'z')",
                            10_000 + random.random_range(0..1_000_000_000)
                        ),
                        1 => format!("UPDATE {table} SET v = v + 1 WHERE k BETWEEN {k} AND {k} + 2"),
                        _ => format!("UPDATE {table} SET v = v + 1 WHERE k = {k}"),
                    };
                    match client.simple_query(&sql).await {
                        Ok(messages) => {
                            if let (true, Some(SimpleQueryMessage::CommandComplete(rows))) =
                                (sql.starts_with("UPDATE"), messages.last())
                            {
                                own[at] += rows;
                            }
                        }
                        Err(error) => {
                            let state = crate::process::sql_state(&error);
                            ensure!(state == "40P01", "{sql}: {state}");
                            failed = true;
                            break;
                        }
                    }
                    if !block {
                        break;
                    }
                }
                if block {
                    client.batch_execute(if failed { "ROLLBACK" } else { "COMMIT" }).await?;
                }
                if !failed {
                    added[0] += own[0];
                    added[1] += own[1];
                }
            }
            anyhow::Ok(added)
        })
    });
    let mut added = [0; 2];
    for task in work.collect::<Vec<_>>() {
        let own = task.await??;
        added[0] += own[0];
        added[1] += own[1];
    }
    for (table, added) in ["keyed", "plain"].into_iter().zip(added) {
        let sum = value(&client, &format!("SELECT sum(v) FROM {table}")).await?;
        ensure!(sum == added.to_string(), "{table}: {sum} of {added}");
        let rows = "count(*) FILTER (WHERE k < 10000) || ' ' || count(DISTINCT k) FILTER (WHERE k < 10000)";
        let rows = value(&client, &format!("SELECT {rows} FROM {table}")).await?;
        ensure!(rows == "3003 3003", "{table}: {rows}");
    }
    Ok(())
}
