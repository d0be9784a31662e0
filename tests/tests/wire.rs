//! The wire under bad input, lost clients, cancels and time limits: a clear error or a quiet end, and the server lives.
//!
//! More than 400 lines because each fault is one trial, told from begin to end.

use crate::process::{Server, failing, rows, sql_state, value};
use crate::raw::{RawClient, error_state};
use crate::trial;
use anyhow::{Context, Result, ensure};
use futures::{SinkExt, StreamExt};
use libtest_mimic::Trial;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::time::{Duration, Instant};
use tokio_postgres::types::Type;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("wire::bad_frames", bad_frames),
        trial("wire::bad_startup", bad_startup),
        trial("wire::vanish_mid_query", vanish_mid_query),
        trial("wire::vanish_mid_copy", vanish_mid_copy),
        trial("wire::cancel", cancel),
        trial("wire::statement_timeout", statement_timeout),
        trial("wire::connection_limit", connection_limit),
        trial("wire::extended_errors", extended_errors),
        trial("wire::portals", portals),
        trial("wire::simple_batches", simple_batches),
        trial("wire::concurrent_writers", concurrent_writers),
        trial("wire::invalid_utf8", invalid_utf8),
        trial("wire::error_position", error_position),
        trial("wire::garbage_statements", garbage_statements),
        trial("wire::pipeline", pipeline),
        trial("wire::repeated_texts", repeated_texts),
        trial("wire::kept_at_once", kept_at_once),
    ]
}

/// A join that takes hours when nothing stops it.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 10000000) a(x), generate_series(1, 10000000) b(y) WHERE x * 3 = y * 7 + 1 OR x < y";

async fn alive(server: &mut Server) -> Result<()> {
    ensure!(server.is_alive()?, "the server died; its log:\n{}", server.log());
    ensure!(!server.log().contains("panicked"), "a panic:\n{}", server.log());
    let client = server
        .connect()
        .await
        .context("the server takes no connection any more")?;
    ensure!(value(&client, "SELECT 41 + 1").await? == "42");
    Ok(())
}

async fn bad_frames() -> Result<()> {
    let mut server = Server::start(&[])?;
    // Each: bytes after a good startup. The answer is an error (08P01) or an end, never a hang.
    let huge = [&b"Q"[..], &i32::MAX.to_be_bytes(), b"SELECT"].concat();
    let negative = [&b"Q"[..], &(-5i32).to_be_bytes(), b"SELECT 1\0"].concat();
    let short = [&b"Q"[..], &3i32.to_be_bytes()].concat();
    let unknown = [&b"\x01"[..], &8i32.to_be_bytes(), b"abcd"].concat();
    let unterminated = [&b"Q"[..], &12i32.to_be_bytes(), b"SELECT 1"].concat();
    let bad_bind = [&b"B"[..], &12i32.to_be_bytes(), b"\0\0\x7f\xff\x7f\xff\x7f\xff"].concat();
    let bad_parse = [&b"P"[..], &6i32.to_be_bytes(), b"\0\0"].concat();
    let all = [huge, negative, short, unknown, unterminated, bad_bind, bad_parse];
    for (i, bytes) in all.into_iter().enumerate() {
        let mut client = RawClient::connect(&server)?;
        client.send_bytes(&bytes)?;
        let _ = client.send(b'S', b"");
        let messages = client.until_ready().with_context(|| format!("frame {i}"))?;
        if let Some(state) = error_state(&messages) {
            // The Bind names no statement that exists and no known format: any of the faults may be told.
            ensure!(
                state == "08P01" || (i == 5 && ["26000", "22023"].contains(&state.as_str())),
                "frame {i}: SQLSTATE {state}"
            );
        }
        ensure!(!messages.iter().any(|m| m.kind == b'D'), "frame {i} gave rows");
        alive(&mut server).await.with_context(|| format!("after frame {i}"))?;
    }
    // Half a frame, then gone.
    for cut in 1..20 {
        let mut client = RawClient::connect(&server)?;
        let whole = [&b"Q"[..], &19i32.to_be_bytes(), b"SELECT 1 + 21;\0"].concat();
        client.send_bytes(&whole[..cut.min(whole.len() - 1)])?;
        client.vanish();
    }
    alive(&mut server).await
}

async fn bad_startup() -> Result<()> {
    let mut server = Server::start(&[])?;
    let startups: [&[u8]; 7] = [
        b"",
        b"\0",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\0\0\0\x08\0\0\0\0",
        b"\0\0\0\x09\0\x03\0\0\0",
        b"\x7f\xff\xff\xff\0\x03\0\0",
        b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02",
    ];
    for (i, bytes) in startups.iter().enumerate() {
        let mut client = RawClient::open(&server)?;
        client.send_bytes(bytes)?;
        std::thread::sleep(Duration::from_millis(10));
        client.vanish();
        alive(&mut server).await.with_context(|| format!("after startup {i}"))?;
    }
    // TLS is not offered: the answer to SSLRequest is one byte N, and the connection goes on in the clear.
    let mut client = RawClient::open(&server)?;
    client.send_bytes(b"\0\0\0\x08\x04\xd2\x16\x2f")?;
    let answer = client.byte()?;
    ensure!(answer == b'N', "SSLRequest answered {answer}");
    client.startup()?;
    ensure!(client.count_rows("SELECT 1")? == (1, None));
    Ok(())
}

async fn vanish_mid_query() -> Result<()> {
    let mut server = Server::start(&[])?;
    for sql in [
        ENDLESS,
        "SELECT x, md5(x::text) FROM generate_series(1, 100000000) g(x)",
    ] {
        let mut client = RawClient::connect(&server)?;
        client.send_query(sql)?;
        std::thread::sleep(Duration::from_millis(300));
        client.vanish();
    }
    // The work stops too: the server's processor time stands still soon after.
    let begun = Instant::now();
    loop {
        let before = server.processor_ticks()?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        if server.processor_ticks()? - before <= 10 {
            break;
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(30),
            "the query of a vanished client goes on"
        );
    }
    alive(&mut server).await
}

async fn vanish_mid_copy() -> Result<()> {
    let mut server = Server::start(&[])?;
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE t (a int, b text)").await?;
    let mut lost = RawClient::connect(&server)?;
    lost.send_query("COPY t FROM STDIN")?;
    let answer = lost.next()?.context("no answer")?;
    ensure!(answer.kind == b'G', "COPY answered {}", answer.kind as char);
    for i in 0..1000 {
        lost.send(b'd', format!("{i}\trow {i}\n").as_bytes())?;
    }
    lost.vanish();
    tokio::time::sleep(Duration::from_millis(300)).await;
    ensure!(
        value(&client, "SELECT count(*) FROM t").await? == "0",
        "a lost COPY left rows"
    );
    // CopyFail does the same, with an error.
    let mut failing = RawClient::connect(&server)?;
    failing.send_query("COPY t FROM STDIN")?;
    failing.next()?;
    failing.send(b'd', b"1\tx\n")?;
    failing.send(b'f', b"the client gave up\0")?;
    let messages = failing.until_ready()?;
    ensure!(
        error_state(&messages).as_deref() == Some("57014"),
        "CopyFail: {:?}",
        error_state(&messages)
    );
    ensure!(failing.count_rows("SELECT 1")? == (1, None));
    ensure!(value(&client, "SELECT count(*) FROM t").await? == "0");
    // An error in the middle: the rest of the data is swallowed, the session goes on.
    let mut bad = RawClient::connect(&server)?;
    bad.send_query("COPY t FROM STDIN")?;
    bad.next()?;
    bad.send(b'd', b"1\tx\nnot a number\ty\n")?;
    for _ in 0..100 {
        bad.send(b'd', b"2\tz\n")?;
    }
    bad.send(b'c', b"")?;
    let messages = bad.until_ready()?;
    ensure!(
        error_state(&messages).as_deref() == Some("22P02"),
        "bad row: {:?}",
        error_state(&messages)
    );
    ensure!(bad.count_rows("SELECT 1")? == (1, None));
    ensure!(value(&client, "SELECT count(*) FROM t").await? == "0");
    alive(&mut server).await
}

async fn cancel() -> Result<()> {
    let mut server = Server::start(&[])?;
    let client = server.connect().await?;
    let token = client.cancel_token();
    let begun = Instant::now();
    let query = client.simple_query(ENDLESS);
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel_query(tokio_postgres::NoTls).await
    };
    let (result, cancelled) = tokio::join!(query, cancel);
    cancelled?;
    let error = result.err().context("a cancelled query answered rows")?;
    ensure!(sql_state(&error) == "57014", "cancel: {}", sql_state(&error));
    ensure!(
        begun.elapsed() < Duration::from_secs(10),
        "cancel took {:?}",
        begun.elapsed()
    );
    // While rows stream, by the extended protocol.
    let stream = client
        .query_raw("SELECT x FROM generate_series(1, 200000000) g(x)", Vec::<i32>::new())
        .await?;
    futures::pin_mut!(stream);
    for _ in 0..10 {
        stream.next().await.context("no row")??;
    }
    token.cancel_query(tokio_postgres::NoTls).await?;
    let ended = loop {
        match stream.next().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break sql_state(&error),
            None => break "no error".into(),
        }
    };
    ensure!(ended == "57014", "cancel of a stream: {ended}");
    ensure!(
        value(&client, "SELECT 5").await? == "5",
        "the session does not go on after a cancel"
    );
    alive(&mut server).await
}

async fn statement_timeout() -> Result<()> {
    let mut server = Server::start(&[])?;
    let client = server.connect().await?;
    client.batch_execute("SET statement_timeout = 200").await?;
    let begun = Instant::now();
    ensure!(failing(&client, ENDLESS).await? == "57014");
    ensure!(
        begun.elapsed() < Duration::from_secs(8),
        "statement_timeout took {:?}",
        begun.elapsed()
    );
    client.batch_execute("SET statement_timeout = 0").await?;
    ensure!(value(&client, "SELECT count(*) FROM generate_series(1, 100000)").await? == "100000");
    alive(&mut server).await
}

async fn connection_limit() -> Result<()> {
    let mut server = Server::start(&["--max-connections", "3"])?;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(server.connect().await?);
    }
    let refused = tokio_postgres::connect(&server.dsn(), tokio_postgres::NoTls).await;
    let error = refused.err().context("a fourth connection of three")?;
    ensure!(sql_state(&error) == "53300", "over the limit: {}", sql_state(&error));
    clients.pop();
    let begun = Instant::now();
    while server.connect().await.is_err() {
        ensure!(
            begun.elapsed() < Duration::from_secs(5),
            "a closed connection still counts"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    clients.clear();
    tokio::time::sleep(Duration::from_millis(200)).await;
    alive(&mut server).await
}

async fn extended_errors() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    let error = client.prepare("SELECT nosuch").await.err().context("prepared")?;
    ensure!(sql_state(&error) == "42703", "{}", sql_state(&error));
    let error = client
        .query("SELECT 10 / $1::int4", &[&0i32])
        .await
        .err()
        .context("divided")?;
    ensure!(sql_state(&error) == "22012", "{}", sql_state(&error));
    let error = client
        .query("SELECT 1; SELECT 2", &[])
        .await
        .err()
        .context("two statements")?;
    ensure!(sql_state(&error) == "42601", "{}", sql_state(&error));
    let row = client.query_one("SELECT $1::int4 + 1", &[&41i32]).await?;
    ensure!(row.get::<_, i32>(0) == 42);
    // After an error the server skips to Sync, then answers again.
    let mut raw = RawClient::connect(&server)?;
    raw.send(b'P', b"\0SELECT nosuch\0\0\0")?;
    raw.send(b'B', b"\0\0\0\0\0\0\0\0")?;
    raw.send(b'E', b"\0\0\0\0\0")?;
    raw.send(b'S', b"")?;
    let messages = raw.until_ready()?;
    ensure!(
        messages.iter().filter(|m| m.kind == b'E').count() == 1,
        "one error up to Sync"
    );
    ensure!(error_state(&messages).as_deref() == Some("42703"));
    raw.send(b'B', b"\0nosuch\0\0\0\0\0\0\0")?;
    raw.send(b'S', b"")?;
    ensure!(error_state(&raw.until_ready()?).as_deref() == Some("26000"));
    raw.send(b'E', b"nosuch\0\0\0\0\0")?;
    raw.send(b'S', b"")?;
    ensure!(error_state(&raw.until_ready()?).as_deref() == Some("34000"));
    ensure!(raw.count_rows("SELECT 1")? == (1, None));
    Ok(())
}

async fn portals() -> Result<()> {
    let server = Server::start(&[])?;
    let mut client = server.connect().await?;
    let transaction = client.transaction().await?;
    let statement = transaction
        .prepare("SELECT x FROM generate_series(1, 10) g(x) ORDER BY x")
        .await?;
    let portal = transaction.bind(&statement, &[]).await?;
    let mut sizes = Vec::new();
    let mut seen: Vec<i64> = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 4).await?;
        sizes.push(rows.len());
        for row in &rows {
            let value = if *row.columns()[0].type_() == tokio_postgres::types::Type::INT8 {
                row.get::<_, i64>(0)
            } else {
                i64::from(row.get::<_, i32>(0))
            };
            seen.push(value);
        }
        if rows.len() < 4 {
            break;
        }
    }
    ensure!(sizes == [4, 4, 2], "pieces {sizes:?}");
    ensure!(seen == (1..=10).collect::<Vec<_>>(), "rows {seen:?}");
    transaction.commit().await?;
    Ok(())
}

async fn simple_batches() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    // Several statements in one query string are one transaction.
    ensure!(
        failing(
            &client,
            "CREATE TABLE t (a int); INSERT INTO t VALUES (1); SELECT 1 / 0; CREATE TABLE u (a int)"
        )
        .await?
            == "22012"
    );
    ensure!(
        failing(&client, "SELECT * FROM t").await? == "42P01",
        "an implicit transaction was not rolled back"
    );
    client
        .batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
        .await?;
    ensure!(value(&client, "SELECT sum(a) FROM t").await? == "3");
    let mut raw = RawClient::connect(&server)?;
    raw.send_query("")?;
    let kinds: Vec<u8> = raw.until_ready()?.iter().map(|m| m.kind).collect();
    ensure!(kinds == *b"IZ", "an empty query answers {kinds:?}");
    raw.send_query("SELECT 1; SELECT 2, 3; -- nothing\n")?;
    let kinds: Vec<u8> = raw.until_ready()?.iter().map(|m| m.kind).collect();
    ensure!(
        kinds == *b"TDCTDCZ",
        "a batch answers {:?}",
        String::from_utf8_lossy(&kinds)
    );
    raw.send_query("BEGIN; SELECT 1 / 0")?;
    let messages = raw.until_ready()?;
    ensure!(
        messages.last().is_some_and(|m| m.body == b"E"),
        "the block is not failed"
    );
    raw.send_query("ROLLBACK")?;
    ensure!(raw.until_ready()?.last().is_some_and(|m| m.body == b"I"));
    Ok(())
}

async fn concurrent_writers() -> Result<()> {
    let mut server = Server::start(&[])?;
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE t (writer int, n int)").await?;
    let writers = (0..6).map(|writer| {
        let dsn = server.dsn();
        async move {
            let client = crate::process::connect(&dsn).await?;
            for n in 0..30 {
                client
                    .batch_execute(&format!("INSERT INTO t VALUES ({writer}, {n}), ({writer}, -{n})"))
                    .await?;
            }
            anyhow::Ok(())
        }
    });
    let dsn = server.dsn();
    let reader = async move {
        let client = crate::process::connect(&dsn).await?;
        let mut last = 0;
        for _ in 0..60 {
            let found = rows(&client, "SELECT count(*), sum(n) FROM t").await?;
            let count: i64 = found[0][0].as_deref().unwrap_or("0").parse()?;
            ensure!(
                count >= last && count % 2 == 0,
                "a reader saw {count} rows after {last}"
            );
            ensure!(
                matches!(found[0][1].as_deref(), None | Some("0")),
                "a reader saw half a statement: {found:?}"
            );
            last = count;
        }
        anyhow::Ok(())
    };
    let (written, read) = futures::join!(futures::future::try_join_all(writers), reader);
    written?;
    read?;
    ensure!(value(&client, "SELECT count(*) FROM t").await? == "360");
    alive(&mut server).await
}

async fn invalid_utf8() -> Result<()> {
    let mut server = Server::start(&[])?;
    let mut raw = RawClient::connect(&server)?;
    raw.send(b'Q', b"SELECT '\xff\xfe'\0")?;
    let state = error_state(&raw.until_ready()?);
    ensure!(state.as_deref() == Some("22021"), "query text: {state:?}");
    ensure!(raw.count_rows("SELECT 1")? == (1, None));
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE t (a text)").await?;
    let sink = client.copy_in::<_, bytes::Bytes>("COPY t FROM STDIN").await?;
    futures::pin_mut!(sink);
    sink.send(bytes::Bytes::from_static(b"good\n\xc3\x28bad\n")).await?;
    let error = sink.finish().await.err().context("invalid UTF-8 was loaded")?;
    ensure!(sql_state(&error) == "22021", "COPY: {}", sql_state(&error));
    ensure!(value(&client, "SELECT count(*) FROM t").await? == "0");
    alive(&mut server).await
}

async fn error_position() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE t (alpha int, beta int)").await?;
    let position = async |sql: &str| -> Result<u32> {
        let error = client.simple_query(sql).await.err().context("no error")?;
        let error = error.as_db_error().context("no SQLSTATE")?;
        match error.position() {
            Some(tokio_postgres::error::ErrorPosition::Original(position)) => Ok(*position),
            other => anyhow::bail!("position {other:?}: {sql}"),
        }
    };
    ensure!(position("SELECT alpha, nosuch FROM t").await? == 15);
    ensure!(position("SELECT * FROM nosuch").await? == 15);
    ensure!(position("SELEC 1").await? == 1);
    ensure!(
        position("SELECT 'é☃', nosuch FROM t").await? == 14,
        "positions count characters"
    );
    let error = client
        .simple_query("SELECT alhpa FROM t")
        .await
        .err()
        .context("no error")?;
    let hint = error.as_db_error().and_then(|e| e.hint()).unwrap_or_default();
    ensure!(hint.contains("alpha"), "hint: {hint}");
    Ok(())
}

/// Statements cut off, doubled and mixed: each answers something, none ends the server.
async fn garbage_statements() -> Result<()> {
    use rand::{Rng, SeedableRng};
    let seed: u64 = std::env::var("TENON_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(rand::random);
    println!("wire::garbage_statements: TENON_SEED={seed}");
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    let mut server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute("SET statement_timeout = '2s'; CREATE TABLE t (id int, s text, n numeric(10, 2), d date)")
        .await?;
    client
        .batch_execute("INSERT INTO t VALUES (1, 'a', 1.5, '2024-01-01'), (2, NULL, NULL, NULL)")
        .await?;
    let words = [
        "SELECT",
        "FROM",
        "t",
        "WHERE",
        "id",
        "s",
        "n",
        "d",
        "=",
        "<",
        "+",
        "*",
        "(",
        ")",
        ",",
        "1",
        "'x'",
        "NULL",
        "NOT",
        "IN",
        "EXISTS",
        "JOIN",
        "LEFT",
        "ON",
        "USING",
        "GROUP BY",
        "ORDER BY",
        "LIMIT",
        "UNION",
        "WITH",
        "AS",
        "a",
        "b",
        "count(*)",
        "sum(n)",
        "max(d)",
        "CASE",
        "WHEN",
        "THEN",
        "END",
        "BETWEEN",
        "AND",
        "::int",
        "::text",
        "::date",
        "interval '1 day'",
        "OVER ()",
        "row_number()",
        "LATERAL",
        "VALUES",
        "ARRAY[1]",
        "[1]",
        ".",
        "-",
        "$1",
        "\"q\"",
        "DISTINCT",
        "HAVING",
        "INSERT INTO",
        "UPDATE",
        "SET",
        "DELETE",
        "EXPLAIN",
        "CREATE TABLE",
        "DROP TABLE",
        "LIKE",
        "9999999999999999999999",
        "1e400",
        "''",
        "generate_series(1, 3)",
        "date '2024-01-01'",
        ";",
    ];
    for _ in 0..1500 {
        let length = random.random_range(1..14);
        let mut sql = String::from(if random.random_bool(0.7) { "SELECT " } else { "" });
        for _ in 0..length {
            sql.push_str(words[random.random_range(0..words.len())]);
            sql.push(' ');
        }
        if let Err(error) = client.simple_query(&sql).await {
            let state = sql_state(&error);
            ensure!(state.len() == 5, "{state} for: {sql}");
            ensure!(!error.to_string().contains("panic"), "a panic for: {sql}");
            if server.log().contains("panicked") {
                anyhow::bail!("a panic for: {sql}\n{}", server.log());
            }
        }
        let _ = client.simple_query("ROLLBACK").await;
    }
    alive(&mut server).await
}

/// Many statements in flight on one connection come back in order.
async fn pipeline() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    let queries = (0..200i32).map(|i| {
        let client = &client;
        async move {
            anyhow::Ok((
                i,
                client.query_one("SELECT $1::int4 * 2", &[&i]).await?.get::<_, i32>(0),
            ))
        }
    });
    for (i, doubled) in futures::future::try_join_all(queries).await? {
        ensure!(doubled == i * 2);
    }
    Ok(())
}

/// The same texts again and again, whose plans are kept, beside texts that are new each time, while tables, views and
/// settings change: the answers are the same.
async fn repeated_texts() -> Result<()> {
    const TEXTS: [&str; 14] = [
        "SELECT * FROM r",
        "SELECT a, count(*) FROM r GROUP BY a ORDER BY a",
        "SELECT * FROM v ORDER BY 1",
        "SELECT a FROM r WHERE a > (SELECT min(a) FROM r) ORDER BY a",
        "WITH w AS (SELECT a, count(*) c FROM r GROUP BY a) SELECT x.a, y.c FROM w x JOIN w y USING (a) ORDER BY 1",
        "SELECT d, d + interval '1 day' FROM dated ORDER BY d",
        "SELECT r.a, dated.n FROM r JOIN dated ON r.a = dated.n ORDER BY 1, 2",
        "SELECT 10 / a FROM r WHERE a >= 0 ORDER BY 1",
        "SELECT current_schema, count(*) FROM r",
        "SELECT max(a) FROM r",
        "SELECT a, (SELECT count(*) FROM r) FROM r WHERE a < (SELECT max(a) FROM r) ORDER BY a",
        "SELECT a FROM r WHERE a = (SELECT min(a) FROM r WHERE a > (SELECT avg(a) FROM r)) ORDER BY a",
        "SELECT a FROM r GROUP BY a HAVING count(*) > (SELECT avg(c) FROM (SELECT count(*) c FROM r GROUP BY a) q) ORDER BY a",
        "WITH w AS (SELECT a, count(*) c FROM r GROUP BY a) SELECT a FROM w WHERE c = (SELECT max(c) FROM w) ORDER BY a",
    ];
    const CHANGES: [&str; 20] = [
        "INSERT INTO r SELECT g % 7 + 1 FROM generate_series(1, 20) g",
        "INSERT INTO r(a) VALUES (0)",
        "DELETE FROM r WHERE a = 0",
        "UPDATE r SET a = a + 1 WHERE a < 4",
        "TRUNCATE r",
        "ALTER TABLE r ADD COLUMN b text DEFAULT 'x'",
        "ALTER TABLE r DROP COLUMN b",
        "DROP VIEW v; ALTER TABLE r ALTER COLUMN a TYPE bigint; CREATE VIEW v AS SELECT a FROM r",
        "DROP VIEW v; ALTER TABLE r ALTER COLUMN a TYPE int; CREATE VIEW v AS SELECT a FROM r",
        "CREATE OR REPLACE VIEW v AS SELECT a FROM r WHERE a > 2",
        "DROP VIEW v; CREATE VIEW v AS SELECT a * 2 AS twice, 'v' AS t FROM r",
        "DROP VIEW v; CREATE VIEW v AS SELECT a FROM r",
        "CREATE SCHEMA s; CREATE TABLE s.r(a int); INSERT INTO s.r VALUES (100)",
        "DROP SCHEMA s CASCADE",
        "INSERT INTO dated VALUES ('2024-02-29', 3)",
        "CREATE INDEX ON r(a)",
        "ANALYZE r",
        "DROP TABLE dated; CREATE TABLE dated(n numeric(5,1), d timestamp)",
        "DROP TABLE dated; CREATE TABLE dated(d date, n int); INSERT INTO dated VALUES ('2020-01-31', 1)",
        "INSERT INTO dated(n) VALUES (2)",
    ];
    // Of the session: both have them.
    const SETTINGS: [&str; 8] = [
        "SET search_path = s, public",
        "RESET search_path",
        "SET DateStyle = 'German'",
        "RESET DateStyle",
        "CREATE TEMP TABLE r(a int, t text)",
        "DROP TABLE IF EXISTS pg_temp.r",
        "BEGIN",
        "ROLLBACK",
    ];
    let seed = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("wire::repeated_texts: TENON_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(&[])?;
    let (kept, fresh, other) = (
        server.connect().await?,
        server.connect().await?,
        server.connect().await?,
    );
    other
        .batch_execute("CREATE TABLE r(a int); CREATE VIEW v AS SELECT a FROM r; CREATE TABLE dated(d date, n int)")
        .await?;
    let answer = async |client: &tokio_postgres::Client, sql: &str| match client.simple_query(sql).await {
        Ok(messages) => format!("{messages:?}"),
        Err(error) => sql_state(&error),
    };
    for round in 0..600 {
        if random.random_ratio(1, 4) {
            // Some are refused, as things stand.
            let _ = other
                .batch_execute(CHANGES[random.random_range(0..CHANGES.len())])
                .await;
        }
        if random.random_ratio(1, 8) {
            let setting = SETTINGS[random.random_range(0..SETTINGS.len())];
            let (one, two) = (answer(&kept, setting).await, answer(&fresh, setting).await);
            ensure!(one == two, "seed {seed}, round {round}: {setting}: {one} but {two}");
        }
        let text = TEXTS[random.random_range(0..TEXTS.len())];
        for _ in 0..random.random_range(1..4) {
            let own = answer(&kept, text).await;
            // What is set may have been reset; a block that has failed refuses it as it does the text.
            answer(&fresh, "SET tenon.shared_plans = off").await;
            let expected = answer(&fresh, text).await;
            ensure!(
                own == expected,
                "seed {seed}, round {round}: {text}\n{own}\nbut {expected}"
            );
        }
    }
    Ok(())
}

/// One kept plan runs several times at once: each run has rows and results of subqueries of its own.
async fn kept_at_once() -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let mut client = server.connect().await?;
    client
        .batch_execute("CREATE TABLE t AS SELECT x FROM generate_series(1, 30000) g(x)")
        .await?;
    let texts = [
        "SELECT x FROM t WHERE x > (SELECT min(x) + $1 FROM t) ORDER BY x",
        "SELECT x FROM t WHERE x % 3 < 3 AND x - $1 > (SELECT min(x) FROM t WHERE x > (SELECT max(x) FROM t) - 30000) ORDER BY x",
        "WITH w AS (SELECT x + $1 AS y, count(*) AS c FROM t GROUP BY 1) \
         SELECT w.y - 1 - $1 + $1 FROM w JOIN w v USING (y) WHERE w.c = (SELECT max(c) FROM w) ORDER BY 1",
    ];
    for text in texts {
        let statement = client.prepare_typed(text, &[Type::INT4]).await?;
        for low in 0..8 {
            client.query(&statement, &[&low]).await?;
        }
        let transaction = client.transaction().await?;
        let mut portals = Vec::new();
        for low in [3i32, 700, 12, 29_000] {
            let portal = transaction.bind(&statement, &[&low]).await?;
            let first = transaction.query_portal(&portal, 2).await?;
            portals.push((low, portal, first));
        }
        for (low, portal, mut rows) in portals {
            rows.extend(transaction.query_portal(&portal, 0).await?);
            let own: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
            let expected: Vec<i32> = match text.starts_with("WITH") {
                true => (low..low + 30_000).collect(),
                false => (low + 2..=30_000).collect(),
            };
            ensure!(
                own == expected,
                "{text} with {low}: {} rows, {:?}",
                own.len(),
                own.first()
            );
        }
        transaction.commit().await?;
    }
    Ok(())
}
