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
        trial("for_update::within", within),
        trial("for_update::queues_within", queues_within),
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

/// Queries within a statement, views, partitions and cursors lock the rows that they give, and no others.
async fn within() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    one.batch_execute(
        "CREATE TABLE fu (i int PRIMARY KEY, v text); INSERT INTO fu SELECT g, 'v' || g FROM generate_series(1, 6) g;
         CREATE TABLE other (a int, b int); INSERT INTO other VALUES (1, 1), (2, 2);
         CREATE VIEW few AS SELECT i AS k FROM fu WHERE i < 3;
         CREATE VIEW twice AS SELECT a.i FROM fu a JOIN fu b ON a.i = b.i WHERE a.i = 2;
         CREATE TABLE parts (i int, w int) PARTITION BY LIST (w);
         CREATE TABLE parts1 PARTITION OF parts FOR VALUES IN (1);
         CREATE TABLE parts2 PARTITION OF parts FOR VALUES IN (2);
         INSERT INTO parts SELECT g, 1 + g % 2 FROM generate_series(1, 6) g;
         PREPARE few(int) AS SELECT * FROM (SELECT * FROM fu WHERE i < $1 ORDER BY i LIMIT 2 FOR UPDATE) s",
    )
    .await?;
    for (sql, table, held) in [
        (
            "SELECT * FROM (SELECT * FROM fu WHERE i < 3 FOR UPDATE) s",
            "fu",
            &[1, 2][..],
        ),
        (
            "SELECT * FROM (SELECT * FROM fu WHERE i < 3) s FOR UPDATE",
            "fu",
            &[1, 2],
        ),
        (
            "SELECT 1 FROM (SELECT * FROM fu WHERE i < 3) s, other FOR UPDATE OF other",
            "fu",
            &[],
        ),
        (
            "WITH x AS (SELECT * FROM fu WHERE i > 4 FOR UPDATE) SELECT * FROM x",
            "fu",
            &[5, 6],
        ),
        ("SELECT (SELECT v FROM fu WHERE i = 1 FOR UPDATE)", "fu", &[1]),
        (
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM fu WHERE i = 2 FOR UPDATE)",
            "fu",
            &[2],
        ),
        (
            "SELECT * FROM other WHERE a IN (SELECT i FROM fu ORDER BY i DESC LIMIT 2 FOR UPDATE)",
            "fu",
            &[5, 6],
        ),
        ("SELECT k FROM few FOR UPDATE", "fu", &[1, 2]),
        ("SELECT x FROM few AS f(x) FOR UPDATE OF f", "fu", &[1, 2]),
        ("SELECT * FROM twice FOR UPDATE", "fu", &[2]),
        ("SELECT i FROM parts2 FOR UPDATE", "parts", &[1, 3, 5]),
        ("SELECT i FROM parts WHERE i < 3 FOR UPDATE", "parts", &[1, 2]),
        (
            "INSERT INTO other SELECT 1, i FROM fu WHERE i < 3 FOR UPDATE",
            "fu",
            &[1, 2],
        ),
        (
            "CREATE TABLE made AS SELECT * FROM fu WHERE i = 6 FOR UPDATE",
            "fu",
            &[6],
        ),
        (
            "UPDATE other SET b = s.i FROM (SELECT i FROM fu WHERE i = 3 FOR UPDATE) s",
            "fu",
            &[3],
        ),
        (
            "DELETE FROM other WHERE b IN (SELECT i FROM fu ORDER BY i LIMIT 1 FOR UPDATE)",
            "fu",
            &[1],
        ),
        ("COPY (SELECT i FROM fu WHERE i = 5 FOR UPDATE) TO STDOUT", "fu", &[5]),
        (
            "DECLARE c CURSOR FOR SELECT * FROM fu WHERE i < 4 FOR UPDATE",
            "fu",
            &[1, 2, 3],
        ),
        (
            "DECLARE c CURSOR FOR SELECT * FROM (SELECT * FROM fu WHERE i = 5 FOR UPDATE) s",
            "fu",
            &[5],
        ),
        ("EXECUTE few(2)", "fu", &[1]),
        ("EXECUTE few(3)", "fu", &[1, 2]),
        ("EXECUTE few(9)", "fu", &[1, 2]),
    ] {
        one.batch_execute("BEGIN").await?;
        if sql.starts_with("COPY") {
            use futures::TryStreamExt;
            let copied: Vec<_> = one.copy_out(sql).await?.try_collect().await?;
            ensure!(copied.len() == 1);
        } else {
            one.batch_execute(sql).await.with_context(|| sql.to_string())?;
        }
        let free = ids(
            &two,
            &format!("SELECT i FROM {table} ORDER BY i FOR UPDATE SKIP LOCKED"),
        )
        .await?;
        one.batch_execute("ROLLBACK").await?;
        let expected: Vec<i32> = (1..=6).filter(|i| !held.contains(i)).collect();
        ensure!(free == expected, "{sql}: {free:?}");
    }
    // It waits, and sees what it has waited for.
    for sql in [
        "SELECT 1 FROM (SELECT * FROM fu WHERE v = 'v3' FOR UPDATE) s",
        "SELECT 1 FROM (SELECT * FROM fu WHERE v = 'v3' LIMIT 1 FOR UPDATE) s",
    ] {
        one.batch_execute("BEGIN; UPDATE fu SET v = 'gone' WHERE i = 3").await?;
        let state = failing(&two, &sql.replace("FOR UPDATE", "FOR UPDATE NOWAIT")).await?;
        ensure!(state == "55P03", "{sql}: {state}");
        let waiting = server.connect().await?;
        let task = begin(waiting, sql);
        waits(&task).await?;
        one.batch_execute("COMMIT; UPDATE fu SET v = 'v3' WHERE v = 'v3'")
            .await?;
        let (waiting, done) = ends(task).await?;
        ensure!(done? == 0, "{sql}");
        waiting.batch_execute("UPDATE fu SET v = 'v3' WHERE i = 3").await?;
    }
    Ok(())
}

/// Jobs that are taken by one statement: `UPDATE ... WHERE id = (SELECT ... FOR UPDATE SKIP LOCKED)`.
async fn queues_within() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute("CREATE TABLE jobs (id int PRIMARY KEY, done_by int); INSERT INTO jobs SELECT g, NULL FROM generate_series(1, 60) g")
        .await?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    let take = "UPDATE jobs SET done_by = 1 WHERE id = (SELECT id FROM jobs WHERE done_by IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
    one.batch_execute("BEGIN").await?;
    two.batch_execute("BEGIN").await?;
    ensure!(ids(&one, take).await? == [1]);
    ensure!(ids(&two, take).await? == [2]);
    one.batch_execute("ROLLBACK").await?;
    ensure!(ids(&two, take).await? == [1]);
    two.batch_execute("ROLLBACK").await?;
    let workers = (1..=4).map(|worker| {
        let dsn = server.dsn();
        tokio::spawn(async move {
            let client = crate::process::connect(&dsn).await?;
            let statement = client
                .prepare("WITH j AS (SELECT id FROM jobs WHERE done_by IS NULL ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) UPDATE jobs SET done_by = $1 FROM j WHERE jobs.id = j.id RETURNING jobs.id")
                .await?;
            let mut jobs = Vec::new();
            loop {
                let taken = client.query(&statement, &[&worker]).await?;
                match taken.is_empty() {
                    true => return anyhow::Ok(jobs),
                    false => jobs.extend(taken.iter().map(|row| row.get::<_, i32>(0))),
                }
            }
        })
    });
    let mut all = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        all.extend(worker.await??);
    }
    all.sort_unstable();
    ensure!(all == (1..=60).collect::<Vec<i32>>(), "{all:?}");
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
