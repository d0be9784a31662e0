//! What the server tells of sessions, of tables, and of how far long statements are.

use crate::process::{Server, failing, rows, value};
use crate::trial;
use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("activity::sessions", sessions),
        trial("activity::tables", tables),
        trial("activity::progress", progress),
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
    // Whence it came, by its own account and by others'.
    let own = value(&other, "SELECT host(inet_client_addr()) || ' ' || inet_client_port()").await?;
    ensure!(own.starts_with("127.0.0.1 ") && seen("host(client_addr) || ' ' || client_port").await? == own);
    let server_end = value(&other, "SELECT host(inet_server_addr()) || ':' || inet_server_port()").await?;
    ensure!(server_end == server.address().to_string());
    let started = "SELECT pg_postmaster_start_time() < (SELECT min(backend_start) FROM pg_stat_activity)";
    ensure!(value(&other, started).await? == "t");
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

/// How tables are read and changed.
async fn tables() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE t (k int PRIMARY KEY, v int); CREATE TABLE bare (a int);
             INSERT INTO t SELECT g, g % 10 FROM generate_series(1, 100000) g",
        )
        .await?;
    let of = async |what: &str| -> Result<i64> {
        let sql = format!("SELECT {what} FROM pg_stat_user_tables WHERE relname = 't'");
        Ok(value(&client, &sql).await?.parse()?)
    };
    ensure!(of("n_tup_ins").await? == 100_000 && of("n_live_tup").await? == 100_000);
    client.batch_execute("UPDATE t SET v = 100 WHERE k <= 30").await?;
    client.batch_execute("DELETE FROM t WHERE k > 99990").await?;
    client
        .batch_execute("INSERT INTO t VALUES (1, 1), (200000, 5) ON CONFLICT (k) DO UPDATE SET v = 7")
        .await?;
    let counts = "SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup FROM pg_stat_user_tables WHERE relname = 't'";
    let found: Vec<String> = rows(&client, counts).await?.into_iter().flatten().flatten().collect();
    ensure!(found == ["100001", "31", "10", "99991"], "{found:?}");
    ensure!(of("n_dead_tup").await? <= 41);
    let (scans, read) = (of("seq_scan").await?, of("seq_tup_read").await?);
    ensure!(value(&client, "SELECT count(*) FROM t WHERE v % 10 < 50").await? != "0");
    ensure!(of("seq_scan").await? == scans + 1);
    ensure!(of("seq_tup_read").await? == read + 99_991);
    // By the key's index, planned anew and by a kept plan; those are no scans of the table.
    let (scans, looked_up, found) = (of("seq_scan").await?, of("idx_scan").await?, of("idx_tup_fetch").await?);
    for key in 501..=510 {
        ensure!(value(&client, &format!("SELECT v FROM t WHERE k = {key}")).await? == (key % 10).to_string());
    }
    ensure!(of("idx_scan").await? == looked_up + 10 && of("idx_tup_fetch").await? == found + 10);
    ensure!(of("seq_scan").await? == scans);
    let analyzed = "SELECT last_analyze IS NOT NULL, analyze_count, n_mod_since_analyze FROM pg_stat_all_tables \
                    WHERE relname = 't'";
    let text = async || -> Result<String> {
        let row = rows(&client, analyzed).await?.into_iter().flatten().flatten();
        Ok(row.collect::<Vec<_>>().join(" "))
    };
    ensure!(text().await? == "f 0 100042", "{}", text().await?);
    client.batch_execute("ANALYZE t").await?;
    ensure!(text().await? == "t 1 0", "{}", text().await?);
    // What ALTER TABLE leaves is the same table; one without indexes has no figures of them.
    client.batch_execute("ALTER TABLE t ADD COLUMN w int").await?;
    ensure!(of("n_tup_upd").await? == 31);
    let bare = "SELECT idx_scan IS NULL AND seq_scan = 0 FROM pg_stat_user_tables WHERE relname = 'bare'";
    ensure!(value(&client, bare).await? == "t");
    ensure!(
        value(
            &client,
            "SELECT pg_typeof(last_analyze) FROM pg_stat_user_tables LIMIT 1"
        )
        .await?
            == "timestamp with time zone"
    );
    Ok(())
}

/// How far long statements are.
async fn progress() -> Result<()> {
    let server = Server::start(&[])?;
    let (watching, other) = (server.connect().await?, server.connect().await?);
    other.batch_execute("CREATE TABLE t (k int, v text)").await?;
    let pid = value(&other, "SELECT pg_backend_pid()").await?;
    let seen = async |view: &str, what: &str| -> Result<Option<String>> {
        let sql = format!("SELECT {what} FROM {view} WHERE pid = {pid}");
        Ok(rows(&watching, &sql).await?.into_iter().flatten().flatten().next())
    };
    let copies = "pg_stat_progress_copy";
    ensure!(seen(copies, "pid").await?.is_none());
    let sink = other.copy_in("COPY t FROM STDIN").await?;
    let mut sink = std::pin::pin!(sink);
    let piece: String = (0..50_000)
        .map(|number| format!("{number}\tvalue {number}\n"))
        .collect();
    for _ in 0..4 {
        futures::SinkExt::send(&mut sink, bytes::Bytes::from(piece.clone())).await?;
    }
    let is_on = "command = 'COPY FROM' AND type = 'PIPE' AND bytes_total = 0 AND bytes_processed > 100000 AND \
                 tuples_processed >= 0 AND relid = (SELECT oid FROM pg_class WHERE relname = 't')";
    let begun = Instant::now();
    while seen(copies, is_on).await?.as_deref() != Some("t") {
        ensure!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            seen(copies, "bytes_processed").await?
        );
    }
    ensure!(sink.finish().await? == 200_000);
    ensure!(seen(copies, "pid").await?.is_none());
    // A client that is slow to read what it asked for.
    let mut stream = std::pin::pin!(
        other
            .copy_out("COPY (SELECT k, repeat(v, 100) FROM t) TO STDOUT")
            .await?
    );
    ensure!(futures::StreamExt::next(&mut stream).await.is_some());
    let is_on = "command = 'COPY TO' AND relid = 0 AND bytes_processed > 1000 AND tuples_processed > 1";
    let begun = Instant::now();
    while seen(copies, is_on).await?.as_deref() != Some("t") {
        ensure!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            seen(copies, "bytes_processed").await?
        );
    }
    while let Some(piece) = futures::StreamExt::next(&mut stream).await {
        piece?;
    }
    ensure!(seen(copies, "pid").await?.is_none());
    // An index takes a moment: one of several is met while it is built.
    let indexes = "pg_stat_progress_create_index";
    let is_on = "command = 'CREATE INDEX' AND phase = 'building index' AND tuples_total = 200000";
    let mut met = false;
    for number in 0..20 {
        let sql = format!("CREATE INDEX i{number} ON t (v)");
        let mut created = std::pin::pin!(other.batch_execute(&sql));
        loop {
            let look = seen(indexes, is_on);
            let look = std::pin::pin!(look);
            match futures::future::select(created, look).await {
                futures::future::Either::Left((done, look)) => {
                    done?;
                    drop(look.await?);
                    break;
                }
                futures::future::Either::Right((found, rest)) => {
                    met |= found?.as_deref() == Some("t");
                    created = rest;
                }
            }
        }
        if met {
            break;
        }
    }
    ensure!(met, "no index was seen while it was built");
    ensure!(seen(indexes, "pid").await?.is_none());
    Ok(())
}
