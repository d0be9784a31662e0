//! Servers with a store that were killed and start again: sequences go on behind what they gave, views know the types of their
//! columns, and what was there at the start is freed when it goes.

use crate::process::{Server, rows, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("restarts::rows_are_freed", rows_are_freed),
        trial("restarts::sequences_go_on", sequences_go_on),
        trial("restarts::sequences_of_two", sequences_of_two),
        trial("restarts::views_of_altered_types", views_of_altered_types),
    ]
}

fn start(directory: &Path, more: &[&str]) -> Result<Server> {
    let directory = directory.to_str().context("a path")?;
    Server::start(&[&["--store", directory], more].concat())
}

/// Bytes of a store's logs.
fn log_bytes(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("log-") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// Rows that a server found at its start give back their memory and their place on disk.
async fn rows_are_freed() -> Result<()> {
    const FILL: &str = "INSERT INTO t SELECT md5(g::text) || md5((-g)::text) FROM generate_series(1, 300000) g";
    const LIMIT: [&str; 2] = ["--memory-limit", "48MiB"];
    let directory = tempfile::tempdir()?;
    let server = start(directory.path(), &[])?;
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE t (a text)").await?;
    client.batch_execute(FILL).await?;
    drop(server);
    let full = log_bytes(directory.path())?;
    ensure!(full > 10 << 20, "{full} bytes of rows");

    let server = start(directory.path(), &LIMIT)?;
    let client = server.connect().await?;
    for _ in 0..3 {
        client.batch_execute("TRUNCATE t").await?;
        client.batch_execute("CHECKPOINT").await?;
        let left = log_bytes(directory.path())?;
        ensure!(left < full / 4, "{left} bytes of {full}");
        client.batch_execute(FILL).await?;
    }
    ensure!(value(&client, "SELECT count(*) FROM t").await? == "300000");
    Ok(())
}

/// No value is given again after a RESTART that was rolled back.
async fn sequences_go_on() -> Result<()> {
    const ROLLED_BACK: [&str; 5] = [
        "BEGIN; TRUNCATE t RESTART IDENTITY; INSERT INTO t (v) VALUES (2); ROLLBACK",
        "BEGIN; ALTER TABLE t ALTER i RESTART; INSERT INTO t (v) VALUES (2); ROLLBACK",
        "BEGIN; ALTER SEQUENCE t_i_seq RESTART WITH 5; SELECT nextval('t_i_seq'); ROLLBACK",
        "BEGIN; ALTER SEQUENCE t_i_seq RESTART; SELECT setval('t_i_seq', 7); ROLLBACK",
        "BEGIN; SAVEPOINT a; TRUNCATE t RESTART IDENTITY; INSERT INTO t (v) VALUES (2); ROLLBACK TO a; COMMIT",
    ];
    let directory = tempfile::tempdir()?;
    let mut server = start(directory.path(), &[])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE t (i int GENERATED ALWAYS AS IDENTITY, v int);
             INSERT INTO t (v) SELECT 1 FROM generate_series(1, 100)",
        )
        .await?;
    let mut last = 100;
    for rolled_back in ROLLED_BACK {
        let client = server.connect().await?;
        client.batch_execute(rolled_back).await?;
        for _ in 0..2 {
            let client = server.connect().await?;
            let next: i32 = value(&client, "INSERT INTO t (v) VALUES (3) RETURNING i")
                .await?
                .parse()?;
            ensure!(next > last, "{next} after {last}: {rolled_back}");
            last = next;
            drop(server);
            server = start(directory.path(), &[])?;
        }
    }
    let client = server.connect().await?;
    client
        .batch_execute("CREATE SEQUENCE m; SELECT nextval('m'); ALTER SEQUENCE m MAXVALUE 20")
        .await?;
    drop(server);
    let server = start(directory.path(), &[])?;
    let next = value(&server.connect().await?, "SELECT nextval('m')").await?;
    ensure!(next == "2", "{next}");
    Ok(())
}

/// Two who alter a sequence do so one after the other; what others take meanwhile is given to nobody else, whatever becomes of
/// it, and after a crash neither.
async fn sequences_of_two() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut server = start(directory.path(), &[])?;
    let mut given = std::collections::BTreeSet::new();
    let mut take = |next: String| -> Result<i64> {
        let next: i64 = next.parse()?;
        ensure!(given.insert(next), "{next} again");
        Ok(next)
    };
    server.connect().await?.batch_execute("CREATE SEQUENCE s").await?;
    const NEXT: &str = "SELECT nextval('s')";
    for (end, crashes) in [
        ("ROLLBACK", false),
        ("COMMIT", false),
        ("ROLLBACK", true),
        ("COMMIT", true),
    ] {
        let (one, two, other) = (
            server.connect().await?,
            server.connect().await?,
            server.connect().await?,
        );
        let first = take(value(&one, NEXT).await?)?;
        one.batch_execute("BEGIN; ALTER SEQUENCE s INCREMENT 10 CACHE 2")
            .await?;
        let own = value(&one, NEXT).await?;
        ensure!(own == (first + 10).to_string(), "{own} after {first}");
        if end == "COMMIT" {
            take(own)?;
        }
        for _ in 0..3 {
            take(value(&other, NEXT).await?)?;
        }
        if end == "COMMIT" {
            take(value(&one, NEXT).await?)?;
            take(value(&one, NEXT).await?)?;
        }
        let altered = tokio::spawn(async move {
            two.batch_execute("BEGIN; ALTER SEQUENCE s INCREMENT 1 CACHE 1").await?;
            Ok::<_, anyhow::Error>(two)
        });
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        ensure!(!altered.is_finished(), "the second did not wait");
        one.batch_execute(end).await?;
        let two = altered.await??;
        take(value(&other, NEXT).await?)?;
        take(value(&two, NEXT).await?)?;
        two.batch_execute("COMMIT").await?;
        take(value(&one, NEXT).await?)?;
        take(value(&other, NEXT).await?)?;
        if crashes {
            drop(server);
            server = start(directory.path(), &[])?;
        }
    }
    take(value(&server.connect().await?, NEXT).await?)?;
    Ok(())
}

/// The columns of views are of the types that an enum, or a composite type, became.
async fn views_of_altered_types() -> Result<()> {
    const MADE: &str = "
        CREATE SCHEMA s;
        CREATE TYPE s.e AS ENUM ('a', 'b');
        CREATE TYPE s.pair AS (x int, y s.e);
        CREATE TABLE t (f s.e, g s.e[], h s.pair, i s.pair[]);
        CREATE VIEW v AS SELECT * FROM t;
        CREATE VIEW w AS SELECT f AS other, g, h, i FROM v";
    const CHANGES: [&str; 5] = [
        "ALTER TYPE s.e ADD VALUE 'c'",
        "ALTER TYPE s.e RENAME TO renamed",
        "ALTER TYPE s.pair ADD ATTRIBUTE z int",
        "ALTER SCHEMA s RENAME TO moved",
        "ALTER TYPE moved.renamed SET SCHEMA public",
    ];
    const TOLD: &str = "SELECT attrelid::regclass, attname, atttypid::regtype, udt_schema, udt_name
        FROM pg_attribute JOIN information_schema.columns
            ON table_name = attrelid::regclass::text AND column_name = attname
        WHERE attrelid IN ('t'::regclass, 'v'::regclass, 'w'::regclass) AND attnum > 0 ORDER BY attnum, 1";
    let directory = tempfile::tempdir()?;
    let mut server = start(directory.path(), &[])?;
    server.connect().await?.batch_execute(MADE).await?;
    for change in CHANGES {
        let client = server.connect().await?;
        client.batch_execute(change).await?;
        let told = rows(&client, TOLD).await?;
        ensure!(told.len() == 12, "{told:?}");
        // Each column of the table with those of the views over it.
        for of in told.chunks(3) {
            ensure!(of.iter().all(|own| own[2..] == of[0][2..]), "{change}: {of:?}");
        }
        client.batch_execute("CHECKPOINT").await?;
        drop(server);
        server = start(directory.path(), &[])?;
        let found = rows(&server.connect().await?, TOLD).await?;
        ensure!(found == told, "after {change}: {found:?}, before {told:?}");
    }
    Ok(())
}
