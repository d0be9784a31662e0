//! What the server tells of sessions.

use crate::process::{Server, failing, rows, value};
use crate::trial;
use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("activity::sessions", sessions),
    ]
}

/// What they do, and wait for.
async fn sessions() -> Result<()> {
    let server = Server::start(&[])?;
    let (watching, other) = (server.connect().await?, server.connect().await?);
    other
        .batch_execute("CREATE TABLE t (k int); INSERT INTO t VALUES (1); SET application_name = 'other'")
        .await?;
    let pid = value(&other, "SELECT pg_backend_pid()").await?;
    let seen = async |what: &str| {
        value(
            &watching,
            &format!("SELECT {what} FROM pg_stat_activity WHERE pid = {pid}"),
        )
        .await
    };
    // What it shows changes a moment after the answer.
    let soon = async |what: &str, expected: &str| -> Result<()> {
        let begun = Instant::now();
        loop {
            let found = seen(what).await?;
            if found == expected {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < Duration::from_secs(10),
                "{what}: {found}, and not {expected}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("state", "idle").await?;
    soon("wait_event", "ClientRead").await?;
    ensure!(seen("query").await? == "SELECT pg_backend_pid()" && seen("xact_start").await? == "NULL");
    ensure!(seen("application_name").await? == "other" && seen("backend_type").await? == "client backend");
    ensure!(seen("backend_start < query_start AND query_start <= state_change").await? == "t");
    other.batch_execute("BEGIN").await?;
    soon("state", "idle in transaction").await?;
    ensure!(seen("xact_start IS NOT NULL").await? == "t");
    ensure!(failing(&other, "SELECT 1 / 0").await? == "22012");
    soon("state", "idle in transaction (aborted)").await?;
    other.batch_execute("ROLLBACK").await?;
    let sleeps = other.simple_query("SELECT pg_sleep(1.5)");
    let looks = async {
        soon("state", "active").await?;
        ensure!(seen("query").await? == "SELECT pg_sleep(1.5)" && seen("query_id IS NOT NULL").await? == "t");
        tokio::time::sleep(Duration::from_millis(300)).await;
        ensure!(seen("clock_timestamp() - query_start BETWEEN '0.2 s' AND '1.6 s'").await? == "t");
        anyhow::Ok(())
    };
    let (slept, looked) = tokio::join!(sleeps, looks);
    slept?;
    looked?;
    // Who waits for a row is seen to.
    watching.batch_execute("BEGIN; UPDATE t SET k = 2").await?;
    let waits = other.simple_query("UPDATE t SET k = k + 5");
    let looks = async {
        soon("wait_event_type", "Lock").await?;
        watching.batch_execute("COMMIT").await?;
        anyhow::Ok(())
    };
    let (waited, looked) = tokio::join!(waits, looks);
    waited?;
    looked?;
    ensure!(value(&watching, "SELECT k FROM t").await? == "7");
    // As long as its longest text may be, and no longer.
    let long = format!("SELECT '{}'", "é".repeat(2000));
    value(&other, &long).await?;
    ensure!(seen("octet_length(query) BETWEEN 1022 AND 1024").await? == "t");
    drop(other);
    let begun = Instant::now();
    let count = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    while value(&watching, &count).await? != "0" {
        ensure!(begun.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
