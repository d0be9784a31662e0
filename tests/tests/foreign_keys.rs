//! Foreign keys beside other transactions: no reference to a row that another one took away, and none added to a row that
//! this one takes away.

use crate::process::{Server, failing, sql_state, value};
use crate::row_locks::{begin, ends, waits};
use crate::{seed, trial};
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rand::prelude::*;
use std::{
    pin::pin,
    time::{Duration, Instant},
};
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("foreign_keys::pairs", pairs),
        trial("foreign_keys::at_random", at_random),
        trial("foreign_keys::copy", copy),
        trial("foreign_keys::partitioned", partitioned),
        trial("foreign_keys::rows_that_go", rows_that_go),
    ]
}

const TABLES: &str = "
    CREATE TABLE p (id int PRIMARY KEY, v int);
    CREATE TABLE c (k int, a int REFERENCES p);
    CREATE TABLE d (k int, a int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE);
    INSERT INTO p SELECT g, 0 FROM generate_series(1, 20) g;
    INSERT INTO c VALUES (0, 20);";

/// Of the other statement: it waits until the first transaction has ended, and is done then.
const WAITS: &str = "waits";

/// What a transaction does, what another one does and commits before the first commits, and what that gives: of the other
/// statement, then of the first one's COMMIT.
const PAIRS: [(&str, &str, &str, &str); 21] = [
    ("INSERT INTO c VALUES (1, 1)", "DELETE FROM p WHERE id = 1", "", "40001"),
    ("INSERT INTO d VALUES (1, 1)", "DELETE FROM p WHERE id = 1", "", "40001"),
    ("UPDATE c SET a = 1", "DELETE FROM p WHERE id = 1", "", "40001"),
    (
        "INSERT INTO c VALUES (1, 1)",
        "UPDATE p SET id = 50 WHERE id = 1",
        "",
        "40001",
    ),
    ("DELETE FROM p WHERE id = 1", "INSERT INTO c VALUES (1, 1)", "", "40001"),
    ("DELETE FROM p WHERE id = 1", "INSERT INTO d VALUES (1, 1)", "", "40001"),
    (
        "UPDATE p SET id = 50 WHERE id = 1",
        "INSERT INTO d VALUES (1, 1)",
        "",
        "40001",
    ),
    ("DELETE FROM p WHERE id = 1", "UPDATE c SET a = 1", "", "40001"),
    // These ask for a lock of the table that the first one holds.
    ("TRUNCATE c", "INSERT INTO c VALUES (1, 1)", WAITS, ""),
    ("INSERT INTO c VALUES (1, 1)", "TRUNCATE p, c, d", WAITS, ""),
    (
        "INSERT INTO c VALUES (1, 1)",
        "ALTER TABLE p DROP CONSTRAINT p_pkey CASCADE",
        WAITS,
        "",
    ),
    ("INSERT INTO c VALUES (1, 1)", "TRUNCATE p CASCADE", WAITS, ""),
    ("INSERT INTO c VALUES (1, 1)", "DROP TABLE p CASCADE", WAITS, ""),
    // These do not meet.
    ("INSERT INTO c VALUES (1, 1)", "INSERT INTO p VALUES (30, 0)", "", ""),
    ("INSERT INTO c VALUES (1, 1)", "DELETE FROM p WHERE id = 2", "", ""),
    ("INSERT INTO c VALUES (1, 1)", "UPDATE p SET v = 1 WHERE id = 1", "", ""),
    ("INSERT INTO c VALUES (1, 1)", "INSERT INTO c VALUES (2, 1)", "", ""),
    (
        "UPDATE p SET v = v + 1 WHERE id = 1",
        "INSERT INTO c VALUES (1, 1)",
        "",
        "",
    ),
    ("DELETE FROM p WHERE id = 1", "INSERT INTO c VALUES (1, 2)", "", ""),
    ("DELETE FROM p WHERE id = 1", "INSERT INTO d VALUES (1, 2)", "", ""),
    ("UPDATE p SET id = 60 WHERE id = 1", "UPDATE c SET k = 1", "", ""),
];

async fn outcome(client: &Client, sql: &str) -> String {
    match client.batch_execute(sql).await {
        Ok(()) => String::new(),
        Err(error) => sql_state(&error),
    }
}

async fn orphans(client: &Client) -> Result<String> {
    let sql = "SELECT (SELECT count(*) FROM c WHERE a NOT IN (SELECT id FROM p)) \
               + (SELECT count(*) FROM d WHERE a NOT IN (SELECT id FROM p))";
    value(client, sql).await
}

async fn pairs() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, other) = (server.connect().await?, server.connect().await?);
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        for (first, second, of_second, of_commit) in PAIRS {
            one.batch_execute("DROP TABLE IF EXISTS d, c, p").await?;
            one.batch_execute(TABLES).await?;
            one.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; {first}"))
                .await?;
            let mut of_other = pin!(outcome(&other, second));
            let patience = Duration::from_millis(if of_second == WAITS { 200 } else { 20_000 });
            let met = tokio::time::timeout(patience, &mut of_other).await.ok();
            let found = met.clone().unwrap_or_else(|| WAITS.into());
            ensure!(found == of_second, "{level}: {second} beside {first}: {found:?}");
            let found = outcome(&one, "COMMIT").await;
            ensure!(found == of_commit, "{level}: {first} beside {second}: {found:?}");
            if met.is_none() {
                let found = of_other.await;
                ensure!(found.is_empty(), "{level}: {second} after {first}: {found:?}");
            }
            if second.starts_with("DROP") {
                continue;
            }
            let left = orphans(&one).await?;
            ensure!(left == "0", "{level}: {first} beside {second}: {left} orphans");
        }
    }
    // The next statement of the block finds out already.
    one.batch_execute("DROP TABLE IF EXISTS d, c, p").await?;
    one.batch_execute(TABLES).await?;
    one.batch_execute("BEGIN; INSERT INTO c VALUES (1, 1)").await?;
    other.batch_execute("DELETE FROM p WHERE id = 1").await?;
    ensure!(failing(&one, "SELECT 1").await? == "40001");
    one.batch_execute("ROLLBACK").await?;
    // A savepoint that is gone back to relied on nothing.
    one.batch_execute("BEGIN; SAVEPOINT s; INSERT INTO c VALUES (1, 2); ROLLBACK TO s; INSERT INTO c VALUES (1, 3)")
        .await?;
    other.batch_execute("DELETE FROM p WHERE id = 2").await?;
    one.batch_execute("COMMIT").await?;
    // A constraint that is added while rows go that it may need.
    one.batch_execute("BEGIN; CREATE TABLE e (a int REFERENCES p); INSERT INTO e VALUES (5)")
        .await?;
    let mut of_other = pin!(outcome(&other, "DELETE FROM p WHERE id = 5"));
    let met = tokio::time::timeout(Duration::from_millis(200), &mut of_other).await;
    ensure!(met.is_err(), "the other did not wait: {met:?}");
    ensure!(outcome(&one, "COMMIT").await.is_empty());
    ensure!(of_other.await == "23503");
    Ok(())
}

/// Of a partitioned table that is referenced, PostgreSQL's check takes rows that the transaction's snapshot does not show; of
/// another one it does not.
async fn partitioned() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, other) = (server.connect().await?, server.connect().await?);
    for (parted, deferred) in [(true, false), (true, true), (false, false)] {
        one.batch_execute("DROP TABLE IF EXISTS c, p").await?;
        one.batch_execute(match parted {
            true => "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE q PARTITION OF p DEFAULT",
            false => "CREATE TABLE p (id int PRIMARY KEY)",
        })
        .await?;
        let when = if deferred { "DEFERRABLE INITIALLY DEFERRED" } else { "" };
        one.batch_execute(&format!("CREATE TABLE c (a int REFERENCES p {when})"))
            .await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM p";
        one.batch_execute(begin).await?;
        other.batch_execute("INSERT INTO p VALUES (1), (2)").await?;
        let found = outcome(&one, "INSERT INTO c VALUES (1)").await;
        if !parted {
            ensure!(found == "23503", "{found}");
            one.batch_execute("ROLLBACK").await?;
            continue;
        }
        ensure!(found.is_empty(), "{found}");
        ensure!(value(&one, "SELECT count(*) FROM p").await? == "0");
        ensure!(outcome(&one, "COMMIT").await.is_empty());
        ensure!(value(&one, "SELECT string_agg(a::text, ' ') FROM c").await? == "1");
        // The row that was relied on goes before the commit.
        one.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM c")
            .await?;
        other.batch_execute("INSERT INTO p VALUES (3)").await?;
        one.batch_execute("INSERT INTO c VALUES (3)").await?;
        other.batch_execute("DELETE FROM p WHERE id = 3").await?;
        let found = outcome(&one, "COMMIT").await;
        ensure!(found == "40001", "{found}");
        one.batch_execute("ROLLBACK").await?;
    }
    Ok(())
}

/// A row is taken away while another transaction takes away the only one that references it: that one decides.
async fn rows_that_go() -> Result<()> {
    let server = Server::start(&[])?;
    let one = server.connect().await?;
    let mut other = server.connect().await?;
    for (declared, level, end, outcome_of_other) in [
        ("", "READ COMMITTED", "COMMIT", ""),
        ("", "READ COMMITTED", "ROLLBACK", "23503"),
        ("", "REPEATABLE READ", "COMMIT", "40001"),
        ("", "REPEATABLE READ", "ROLLBACK", "23503"),
        ("ON DELETE RESTRICT", "READ COMMITTED", "COMMIT", ""),
        ("ON DELETE RESTRICT", "READ COMMITTED", "ROLLBACK", "23503"),
        ("DEFERRABLE INITIALLY DEFERRED", "READ COMMITTED", "COMMIT", ""),
        ("DEFERRABLE INITIALLY DEFERRED", "READ COMMITTED", "ROLLBACK", "23503"),
    ] {
        for block in [false, true] {
            one.batch_execute(&format!(
                "DROP TABLE IF EXISTS c, p; CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (a int REFERENCES p {declared});
                 INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (1), (1), (2)"
            ))
            .await?;
            one.batch_execute("BEGIN; DELETE FROM c WHERE a = 1").await?;
            let sql = match block {
                true => format!("BEGIN ISOLATION LEVEL {level}; DELETE FROM p WHERE id = 1; COMMIT"),
                false => "DELETE FROM p WHERE id = 1".into(),
            };
            let task = begin(other, &sql);
            waits(&task)
                .await
                .with_context(|| format!("{declared} {level} {sql}"))?;
            one.batch_execute(end).await?;
            let (client, done) = ends(task).await?;
            other = client;
            let found = done.err().map_or_else(String::new, |error| sql_state(&error));
            // A statement by itself is run again.
            let expected = match (block, outcome_of_other) {
                (false, "40001") => "",
                (_, expected) => expected,
            };
            ensure!(found == expected, "{declared} {level} {end}: {found}");
            other.batch_execute("ROLLBACK").await?;
            let left = value(
                &one,
                "SELECT (SELECT count(*) FROM p) || ' ' || (SELECT count(*) FROM c)",
            )
            .await?;
            ensure!(
                left == if end == "COMMIT" {
                    if expected.is_empty() { "1 1" } else { "2 1" }
                } else {
                    "2 3"
                },
                "{left}"
            );
        }
    }
    // A row that nobody is taking away is in the way at once.
    one.batch_execute("BEGIN; DELETE FROM c WHERE a = 1").await?;
    ensure!(failing(&other, "DELETE FROM p WHERE id = 2").await? == "23503");
    one.batch_execute("ROLLBACK").await?;
    Ok(())
}

/// Clients that add, change and remove rows of all tables; none leaves a reference to a row that is not there.
async fn at_random() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client.batch_execute(TABLES).await?;
    let seed = seed();
    let until = Instant::now() + Duration::from_secs(4);
    let mut writers = Vec::new();
    for number in 0..4 {
        let (client, mut rng) = (server.connect().await?, StdRng::seed_from_u64(seed + number));
        writers.push(tokio::spawn(async move {
            let mut done = 0;
            while Instant::now() < until {
                let mut sql = String::new();
                let in_block = rng.random_bool(0.5);
                for _ in 0..if in_block { rng.random_range(1..4) } else { 1 } {
                    let (a, b) = (rng.random_range(1..20), rng.random_range(1..20));
                    let table = if rng.random_bool(0.5) { "c" } else { "d" };
                    sql.push_str(&match rng.random_range(0..8) {
                        0 | 1 => format!("INSERT INTO {table} VALUES ({b}, {a});"),
                        2 => format!("INSERT INTO {table} SELECT g, {a} FROM generate_series(1, 3) g;"),
                        3 => format!("DELETE FROM p WHERE id = {a};"),
                        4 => format!("INSERT INTO p VALUES ({a}, 0) ON CONFLICT DO NOTHING;"),
                        5 => format!("UPDATE {table} SET a = {a} WHERE k = {b};"),
                        6 => format!("UPDATE p SET id = {a} WHERE id = {b};"),
                        _ => format!("DELETE FROM {table} WHERE a = {a};"),
                    });
                }
                let sql = if in_block { format!("BEGIN; {sql} COMMIT") } else { sql };
                match client.batch_execute(&sql).await {
                    Ok(()) => done += 1,
                    Err(error) => {
                        let state = sql_state(&error);
                        ensure!(
                            ["23503", "23505", "40001", "40P01"].contains(&state.as_str()),
                            "{sql}: {state}"
                        );
                        client.batch_execute("ROLLBACK").await?;
                    }
                }
            }
            Ok(done)
        }));
    }
    let mut done = 0;
    for writer in writers {
        done += writer.await??;
    }
    ensure!(done > 20, "{done} transactions in all");
    let left = orphans(&client).await?;
    ensure!(left == "0", "{left} orphans, TENON_SEED={seed}");
    Ok(())
}

async fn put(client: &Client, rows: String) -> Result<String> {
    use futures::SinkExt;
    let sink = client.copy_in::<_, bytes::Bytes>("COPY c FROM STDIN").await?;
    let mut sink = Box::pin(sink);
    sink.send(rows.into()).await.context("the rows")?;
    Ok(match sink.as_mut().finish().await {
        Ok(rows) => rows.to_string(),
        Err(error) => sql_state(&error),
    })
}

/// COPY checks what it loads, in a block and outside; many rows do not take long.
async fn copy() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client.batch_execute(TABLES).await?;
    ensure!(put(&client, "1\t1\n2\t\\N\n3\t3\n".into()).await? == "3");
    ensure!(put(&client, "1\t1\n2\t77\n".into()).await? == "23503");
    client.batch_execute("BEGIN; INSERT INTO p VALUES (77, 0)").await?;
    ensure!(put(&client, "4\t77\n".into()).await? == "1");
    client.batch_execute("COMMIT; BEGIN").await?;
    ensure!(put(&client, "4\t78\n".into()).await? == "23503");
    ensure!(failing(&client, "SELECT 1").await? == "25P02");
    client.batch_execute("ROLLBACK").await?;
    ensure!(value(&client, "SELECT count(*) FROM c").await? == "5");
    client
        .batch_execute("INSERT INTO p SELECT g, 0 FROM generate_series(1000, 60000) g")
        .await?;
    let rows: String = (0..200_000)
        .map(|n| format!("{n}\t{}\n", 1000 + n * 7 % 59_000))
        .collect();
    ensure!(put(&client, rows).await? == "200000");
    let rows: String = (0..200_000)
        .map(|n| format!("{n}\t{}\n", 1002 + n * 7 % 59_001))
        .collect();
    ensure!(put(&client, rows).await? == "23503");
    Ok(())
}
