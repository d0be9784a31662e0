//! SELECT ... FOR UPDATE and FOR SHARE: who waits for whom, and queues of jobs.

use crate::process::{Server, failing};
use crate::row_locks::{TABLES, begin, ends, waits};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("for_update::waits", for_update),
        trial("for_update::queues", queues),
    ]
}

/// SELECT ... FOR UPDATE and FOR SHARE, which wait for writers, and writers for them.
async fn for_update() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    one.batch_execute(TABLES).await?;
    one.batch_execute("BEGIN; SELECT v FROM keyed WHERE k = 5 FOR UPDATE")
        .await?;
    for sql in [
        "SELECT * FROM keyed WHERE k = 5 FOR UPDATE NOWAIT",
        "SELECT * FROM keyed k JOIN plain p USING (k) WHERE k = 5 FOR SHARE OF k NOWAIT",
        "SELECT 1 FROM keyed WHERE k IN (4, 5) ORDER BY 1 FOR SHARE NOWAIT",
    ] {
        let state = failing(&two, sql).await?;
        ensure!(state == "55P03", "{sql}: {state}");
    }
    // Other tables, other rows, and readers are free.
    let free = "SELECT p.k FROM keyed k JOIN plain p USING (k) WHERE k = 5 FOR UPDATE OF p NOWAIT;
        SELECT v FROM keyed WHERE k = 5; SELECT v FROM keyed WHERE k = 6 FOR UPDATE NOWAIT";
    two.batch_execute(free).await?;
    let task = begin(two, "SELECT v FROM keyed WHERE k = 5 FOR UPDATE");
    waits(&task).await?;
    one.batch_execute("UPDATE keyed SET v = 77 WHERE k = 5; COMMIT").await?;
    let (two, done) = ends(task).await?;
    ensure!(done? == 1);
    // The version that it waited for is seen.
    one.batch_execute("BEGIN; UPDATE keyed SET v = 78, k = 50005 WHERE k = 5")
        .await?;
    let task = begin(two, "SELECT v FROM keyed WHERE k = 5 FOR UPDATE");
    waits(&task).await?;
    one.batch_execute("COMMIT").await?;
    let (two, done) = ends(task).await?;
    ensure!(done? == 0);
    // Those that share do not wait for each other, but a writer for all of them.
    one.batch_execute("BEGIN; SELECT 1 FROM plain WHERE k < 4 FOR SHARE")
        .await?;
    two.batch_execute("BEGIN; SELECT 1 FROM plain WHERE k < 3 FOR SHARE")
        .await?;
    let writer = server.connect().await?;
    let task = begin(writer, "UPDATE plain SET v = 1 WHERE k = 2");
    waits(&task).await?;
    one.batch_execute("COMMIT").await?;
    waits(&task).await?;
    two.batch_execute("COMMIT").await?;
    ensure!(ends(task).await?.1? == 1);
    for (sql, expected) in [
        ("SELECT DISTINCT v FROM plain FOR UPDATE", "0A000"),
        ("SELECT v FROM plain GROUP BY v FOR UPDATE", "0A000"),
        ("SELECT v FROM plain FOR UPDATE OF missing", "42P01"),
        ("BEGIN READ ONLY; SELECT v FROM plain FOR UPDATE", "25006"),
    ] {
        let state = failing(&two, sql).await?;
        ensure!(state == expected, "{sql}: {state}");
    }
    two.batch_execute("ROLLBACK").await?;
    let prepared = two.prepare("SELECT v, k FROM keyed WHERE k = $1 FOR UPDATE").await?;
    let row = two.query_one(&prepared, &[&7_i32]).await?;
    ensure!(row.get::<_, i32>(1) == 7);
    Ok(())
}

/// Workers that take jobs with SKIP LOCKED: each job is done once.
async fn queues() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute("CREATE TABLE jobs (id int PRIMARY KEY, done_by int); INSERT INTO jobs SELECT g, NULL FROM generate_series(1, 120) g")
        .await?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    let take = "SELECT * FROM jobs WHERE done_by IS NULL ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED";
    one.batch_execute("BEGIN").await?;
    two.batch_execute("BEGIN").await?;
    ensure!(ids(&one, take).await? == [1, 2]);
    ensure!(ids(&two, take).await? == [3, 4]);
    ensure!(
        ids(
            &one,
            "SELECT id FROM jobs ORDER BY 1 DESC LIMIT 1 FOR UPDATE SKIP LOCKED"
        )
        .await?
            == [120]
    );
    let statement = two
        .prepare("SELECT id FROM jobs j ORDER BY id DESC LIMIT $1 FOR UPDATE OF j SKIP LOCKED")
        .await?;
    let found = two.query(&statement, &[&2_i64]).await?;
    ensure!(found.iter().map(|row| row.get(0)).collect::<Vec<i32>>() == [119, 118]);
    one.batch_execute("ROLLBACK").await?;
    two.batch_execute("ROLLBACK").await?;
    let workers = (1..=4).map(|worker| {
        let dsn = server.dsn();
        tokio::spawn(async move {
            let client = crate::process::connect(&dsn).await?;
            let mut jobs = Vec::new();
            loop {
                client.batch_execute("BEGIN").await?;
                let taken = ids(&client, take).await?;
                for id in &taken {
                    let sql = format!("UPDATE jobs SET done_by = {worker} WHERE id = {id}");
                    client.batch_execute(&sql).await?;
                }
                client.batch_execute("COMMIT").await?;
                match taken.is_empty() {
                    true => return anyhow::Ok(jobs),
                    false => jobs.extend(taken),
                }
            }
        })
    });
    let mut all = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        all.extend(worker.await??);
    }
    all.sort_unstable();
    ensure!(all == (1..=120).collect::<Vec<i32>>(), "{all:?}");
    Ok(())
}

async fn ids(client: &Client, sql: &str) -> Result<Vec<i32>> {
    let rows = crate::process::rows(client, sql).await?;
    let first = rows
        .into_iter()
        .map(|row| Ok(row[0].as_deref().context("a null")?.parse()?));
    first.collect()
}
