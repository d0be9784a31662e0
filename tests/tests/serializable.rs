//! SERIALIZABLE transactions: what others change of what one has read keeps it from committing, and nothing else does.

use crate::process::{Server, sql_state, value};
use crate::{seed, trial};
use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rand::prelude::*;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("serializable::pairs", pairs),
        trial("serializable::merged_segments", merged_segments),
        trial("serializable::by_default", by_default),
        trial("serializable::at_random", at_random),
    ]
}

const TABLES: &str = "
    DROP TABLE IF EXISTS t, u, k CASCADE;
    CREATE TABLE t (id int, class int, v int);
    CREATE TABLE u (id int PRIMARY KEY, class int, v int);
    CREATE TABLE k (id int PRIMARY KEY, v int);
    CREATE VIEW ones AS SELECT id, v FROM t WHERE class = 1;
    INSERT INTO t VALUES (1, 1, 10), (2, 1, 20), (3, 2, 100), (4, 2, 200);
    INSERT INTO u SELECT * FROM t;
    INSERT INTO k SELECT g, 0 FROM generate_series(1, 10000) g";

/// What one transaction does, what another one does and commits before the first commits, and what the first one's COMMIT gives.
const PAIRS: [(&str, &str, &str); 24] = [
    // Each adds the sum of what the other adds to (PostgreSQL's documentation, section 13.2.3).
    (
        "INSERT INTO t SELECT 5, 2, sum(v) FROM t WHERE class = 1",
        "INSERT INTO t SELECT 6, 1, sum(v) FROM t WHERE class = 2",
        "40001",
    ),
    (
        "SELECT sum(v) FROM t WHERE class = 1; INSERT INTO u VALUES (9, 9, 9)",
        "INSERT INTO t VALUES (6, 1, 5)",
        "40001",
    ),
    (
        "SELECT sum(v) FROM t WHERE class = 1; INSERT INTO u VALUES (9, 9, 9)",
        "INSERT INTO t VALUES (6, 2, 5)",
        "",
    ),
    (
        "SELECT count(*) FROM t; INSERT INTO u VALUES (9, 9, 9)",
        "INSERT INTO t VALUES (6, 2, 5)",
        "40001",
    ),
    (
        "SELECT max(v) FROM u; INSERT INTO t VALUES (9, 9, 9)",
        "DELETE FROM u WHERE id = 1",
        "40001",
    ),
    // Rows that leave what was read, and that come into it.
    (
        "UPDATE t SET v = 0 WHERE class = 1",
        "UPDATE t SET class = 1 WHERE id = 3",
        "40001",
    ),
    (
        "SELECT * FROM t WHERE v < 50; INSERT INTO u VALUES (9, 9, 9)",
        "UPDATE t SET v = 500 WHERE id = 1",
        "40001",
    ),
    (
        "SELECT * FROM t WHERE v < 50; INSERT INTO u VALUES (9, 9, 9)",
        "UPDATE t SET v = 500 WHERE id = 3",
        "",
    ),
    // Write skew.
    (
        "UPDATE u SET v = v - 1 WHERE id = 1 AND (SELECT sum(v) FROM u WHERE class = 1) > 0",
        "UPDATE u SET v = v - 30 WHERE id = 2",
        "40001",
    ),
    // Keys.
    ("UPDATE k SET v = 1 WHERE id = 5", "UPDATE k SET v = 1 WHERE id = 6", ""),
    (
        "SELECT v FROM k WHERE id = 5; UPDATE k SET v = 1 WHERE id = 7",
        "UPDATE k SET v = 1 WHERE id = 6",
        "",
    ),
    (
        "SELECT v FROM k WHERE id = 5; UPDATE k SET v = 1 WHERE id = 7",
        "UPDATE k SET v = 1 WHERE id = 5",
        "40001",
    ),
    (
        "SELECT v FROM k WHERE id = 0; UPDATE k SET v = 1 WHERE id = 7",
        "INSERT INTO k VALUES (0, 0)",
        "40001",
    ),
    (
        "DELETE FROM k WHERE id BETWEEN 5 AND 9",
        "INSERT INTO k VALUES (-1, 0)",
        "",
    ),
    // By joins, views, subqueries, and conditions that never hold.
    (
        "SELECT * FROM t JOIN u USING (id) WHERE u.class = 1; INSERT INTO k VALUES (0, 0)",
        "INSERT INTO u VALUES (77, 1, 0)",
        "40001",
    ),
    (
        "SELECT * FROM t JOIN u USING (id) WHERE u.class = 1; INSERT INTO k VALUES (0, 0)",
        "INSERT INTO u VALUES (77, 2, 0)",
        "",
    ),
    (
        "SELECT sum(v) FROM ones; INSERT INTO k VALUES (0, 0)",
        "DELETE FROM t WHERE id = 2",
        "40001",
    ),
    (
        "SELECT sum(v) FROM ones; INSERT INTO k VALUES (0, 0)",
        "DELETE FROM t WHERE id = 3",
        "",
    ),
    (
        "INSERT INTO k SELECT 0, 0 WHERE NOT EXISTS (SELECT FROM t WHERE class = 3)",
        "INSERT INTO t VALUES (1, 3, 1)",
        "40001",
    ),
    (
        "DECLARE c CURSOR FOR SELECT * FROM t; INSERT INTO k VALUES (0, 0)",
        "DELETE FROM t WHERE id = 3",
        "40001",
    ),
    // Who only reads, or only writes, is in nobody's way; other tables are not read.
    ("SELECT * FROM t; SELECT * FROM u", "DELETE FROM t", ""),
    (
        "SELECT 1; INSERT INTO t VALUES (5, 5, 5)",
        "INSERT INTO t VALUES (6, 6, 6)",
        "",
    ),
    (
        "SELECT * FROM t; INSERT INTO u VALUES (9, 9, 9)",
        "INSERT INTO k VALUES (0, 0)",
        "",
    ),
    (
        "SELECT * FROM t; INSERT INTO u VALUES (9, 9, 9)",
        "CREATE INDEX ON t (v)",
        "40001",
    ),
];

async fn outcome(client: &Client, sql: &str) -> String {
    match client.batch_execute(sql).await {
        Ok(()) => String::new(),
        Err(error) => sql_state(&error),
    }
}

async fn pairs() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, other) = (server.connect().await?, server.connect().await?);
    for level in ["SERIALIZABLE", "READ COMMITTED"] {
        for (first, second, of_commit) in PAIRS {
            one.batch_execute(TABLES).await?;
            one.batch_execute(&format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {first}"))
                .await?;
            // Whatever the other is.
            other
                .batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; {second}; COMMIT"))
                .await?;
            let found = outcome(&one, "COMMIT").await;
            ensure!(found == of_commit, "{first} beside {second} ({level}): {found:?}");
            // A snapshot is not enough to find out.
            one.batch_execute(TABLES).await?;
            one.batch_execute(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {first}"))
                .await?;
            other.batch_execute(second).await?;
            let found = outcome(&one, "COMMIT").await;
            ensure!(
                found.is_empty(),
                "{first} beside {second}: {found:?} under REPEATABLE READ"
            );
        }
    }
    Ok(())
}

/// Rows that were there before are not taken for others' where commits put them in other segments.
async fn merged_segments() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, other) = (server.connect().await?, server.connect().await?);
    for (changed, of_commit) in [(3, ""), (250, "40001")] {
        one.batch_execute(TABLES).await?;
        one.batch_execute("DELETE FROM k").await?;
        for id in 0..300 {
            one.batch_execute(&format!("INSERT INTO k VALUES ({id}, 0)")).await?;
        }
        one.batch_execute(
            "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT * FROM k WHERE id >= 200; INSERT INTO t VALUES (5, 5, 5)",
        )
        .await?;
        for id in 0..100 {
            other
                .batch_execute(&format!("UPDATE k SET v = 1 WHERE id = {}", id % 4))
                .await?;
            other
                .batch_execute(&format!("INSERT INTO k VALUES ({}, 0)", -1 - id))
                .await?;
        }
        other
            .batch_execute(&format!(
                "DELETE FROM k WHERE id BETWEEN 20 AND 190; DELETE FROM k WHERE id = {changed}"
            ))
            .await?;
        let found = outcome(&one, "COMMIT").await;
        ensure!(found == of_commit, "{changed}: {found:?}");
    }
    Ok(())
}

/// Statements outside blocks, and blocks that do not say how they are isolated.
async fn by_default() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, other) = (server.connect().await?, server.connect().await?);
    one.batch_execute(TABLES).await?;
    one.batch_execute("SET default_transaction_isolation = serializable")
        .await?;
    one.batch_execute("BEGIN; SELECT count(*) FROM t; INSERT INTO u VALUES (9, 9, 9)")
        .await?;
    other.batch_execute("INSERT INTO t VALUES (6, 1, 5)").await?;
    ensure!(outcome(&one, "COMMIT").await == "40001");
    // A kept plan is not run where its reads have to be noted.
    let count = one.prepare("SELECT v FROM k WHERE id = $1").await?;
    for id in 1..20 {
        one.query(&count, &[&id]).await?;
    }
    one.batch_execute("BEGIN").await?;
    one.query(&count, &[&5]).await?;
    one.batch_execute("INSERT INTO u VALUES (9, 9, 9)").await?;
    other.batch_execute("UPDATE k SET v = 1 WHERE id = 5").await?;
    ensure!(outcome(&one, "COMMIT").await == "40001");
    // A key that was read not to be there, and one that was not looked for.
    for (read, found) in [
        ("SELECT v FROM k WHERE id = -5", "40001"),
        ("SELECT v FROM k WHERE id = 5", "23505"),
    ] {
        one.batch_execute(&format!("BEGIN; {read}")).await?;
        other.batch_execute("INSERT INTO k VALUES (-5, 0)").await?;
        ensure!(outcome(&one, "INSERT INTO k VALUES (-5, 1)").await == found, "{read}");
        one.batch_execute("ROLLBACK; DELETE FROM k WHERE id = -5").await?;
    }
    // SET TRANSACTION, and a savepoint that is gone back to: what was read was read.
    other.batch_execute("BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SAVEPOINT s; SELECT count(*) FROM t; ROLLBACK TO s; INSERT INTO u VALUES (10, 9, 9)").await?;
    one.batch_execute("INSERT INTO t VALUES (7, 7, 7)").await?;
    ensure!(outcome(&other, "COMMIT").await == "40001");
    one.batch_execute("UPDATE t SET v = (SELECT count(*) FROM u)").await?;
    ensure!(value(&one, "SELECT max(v) FROM t").await? == "4");
    Ok(())
}

/// Clients that each count rows and add one with the number, and that move amounts between accounts of which two together may
/// not fall below nothing: no number comes twice, and no two accounts fall.
async fn at_random() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    let accounts = "
        CREATE TABLE numbers (n bigint, by int);
        CREATE TABLE accounts (id int, of int, amount int);
        INSERT INTO accounts SELECT g, g / 2, 20 FROM generate_series(0, 7) g";
    client.batch_execute(accounts).await?;
    let seed = seed();
    let until = Instant::now() + Duration::from_secs(4);
    let mut writers = Vec::new();
    for number in 0..4 {
        let (client, mut rng) = (server.connect().await?, StdRng::seed_from_u64(seed + number));
        writers.push(tokio::spawn(async move {
            let (mut done, mut refused) = (0, 0);
            while Instant::now() < until {
                let sql = match rng.random_bool(0.5) {
                    true => format!("INSERT INTO numbers SELECT count(*), {number} FROM numbers"),
                    false => {
                        let (id, by) = (rng.random_range(0..8), rng.random_range(-15..20));
                        let of = id / 2;
                        format!(
                            "UPDATE accounts SET amount = amount - {by} WHERE id = {id} \
                             AND (SELECT sum(amount) FROM accounts WHERE of = {of}) >= {by}"
                        )
                    }
                };
                let sql = format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {sql}; COMMIT");
                match client.batch_execute(&sql).await {
                    Ok(()) => done += 1,
                    Err(error) => {
                        let state = sql_state(&error);
                        ensure!(["40001", "40P01"].contains(&state.as_str()), "{sql}: {state}");
                        client.batch_execute("ROLLBACK").await?;
                        refused += 1;
                    }
                }
            }
            Ok((done, refused))
        }));
    }
    let (mut done, mut refused) = (0, 0);
    for writer in writers {
        let (own, not) = writer.await??;
        done += own;
        refused += not;
    }
    println!("serializable::at_random: {done} transactions, {refused} refused");
    ensure!(done > 20, "{done} transactions in all");
    let twice = value(&client, "SELECT count(*) - count(DISTINCT n) FROM numbers").await?;
    ensure!(twice == "0", "{twice} numbers came twice, TENON_SEED={seed}");
    let fallen = "SELECT count(*) FROM (SELECT of FROM accounts GROUP BY of HAVING sum(amount) < 0)";
    let fallen = value(&client, fallen).await?;
    ensure!(fallen == "0", "{fallen} pairs of accounts fell, TENON_SEED={seed}");
    Ok(())
}
