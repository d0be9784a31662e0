//! COPY in every format and direction, its options and its errors.
//!
//! More than 400 lines because it is a table of data with what comes of them.

use crate::process::{Server, failing, rows, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use libtest_mimic::Trial;
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("copy::round_trips", round_trips),
        trial("copy::options", options),
        trial("copy::errors", errors),
        trial("copy::pieces", pieces),
        trial("copy::files", files),
        trial("copy::in_transaction", in_transaction),
        trial("copy::partitions", partitions),
        trial("copy::changes", changes),
    ]
}

async fn send(client: &Client, sql: &str, data: &[u8]) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in::<_, Bytes>(sql).await?;
    futures::pin_mut!(sink);
    sink.send(Bytes::copy_from_slice(data)).await?;
    sink.finish().await
}

async fn receive(client: &Client, sql: &str) -> Result<Vec<u8>> {
    let stream = client.copy_out(sql).await.with_context(|| sql.to_string())?;
    Ok(stream.map_ok(|piece| piece.to_vec()).try_concat().await?)
}

const TABLE: &str = "(id int, b bool, i2 int2, i8 int8, f4 float4, f8 float8, n numeric(12, 3), t text, v varchar(9), \
     d date, tm time, ts timestamp, tz timestamptz, iv interval, y bytea, u uuid, j json, \
     w bit(3), x varbit, ip inet, net cidr, mac macaddr, mac8 macaddr8, r int4range, rt tsrange, m nummultirange, p pair_of, ps pair_of[])";

const VALUES: &str = "(1, true, -5, 9000000000, 1.5, -2.25e10, 123.456, E'tab\\there \"quoted\", \\\\ and\\nline', 'v', \
     '2024-02-29', '12:34:56.789', '1999-12-31 23:59:59', '2024-01-01 00:00:00+00', '1 mon 2 days 03:00:00', \
     '\\x00ff5c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\": 1}', \
     '101', '', '1.2.3.4/8', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '[1,5]', \
     '[2020-01-01,2020-01-02)', '{[1,2.5],(7,)}', '(1,\"a, \"\"b\"\"\",\"{1,2}\")', '{\"(1,x,)\",NULL}'), \
     (2, false, 0, 0, 0, 0, 0, '', '', '1969-01-01', '00:00:00', '1969-01-01 00:00:00', '1969-01-01 00:00:00+00', \
     '-1 days', '', '00000000-0000-0000-0000-000000000000', '[]', '000', B'1', '::1', '10:23::8000/113', \
     '00:00:00:00:00:00', '00:00:00:ff:fe:00:00:00', 'empty', '(,)', '{}', '(,,)', '{}'), \
     (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
     (4, true, 1, 1, 2.5, 1e300, -0.001, 'NULL', '\\N', '0001-01-01', '23:59:59.999999', '2200-01-01 00:00:00', \
     '2200-01-01 00:00:00+00', '00:00:00.000001', '\\x0a', 'ffffffff-ffff-ffff-ffff-ffffffffffff', 'null', \
     '111', X'123456789abcdef01', '255.255.255.255', '0.0.0.0/0', 'ff:ff:ff:ff:ff:ff', 'ff:ff:ff:ff:ff:ff:ff:ff', '(,5)', \
     '(2020-01-01 10:00,infinity]', '{(,1),(2,3),(4,NaN]}', '(-5,\"a\\\\b (c) \",{})', '{\"(,\\\"\\\",{NULL})\"}')";

/// What COPY TO writes, COPY FROM reads back the same, for every type and format.
async fn round_trips() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute(&format!(
            "CREATE TYPE pair_of AS (a int, b text, c int[]); \
             CREATE TABLE src {TABLE}; INSERT INTO src VALUES {VALUES}"
        ))
        .await?;
    let all = rows(&client, "SELECT * FROM src ORDER BY id").await?;
    ensure!(all.len() == 4);
    for (i, format) in [
        "",
        "(FORMAT csv)",
        "(FORMAT csv, HEADER)",
        "(FORMAT csv, FORCE_QUOTE *, DELIMITER ';')",
        "(FORMAT binary)",
    ]
    .iter()
    .enumerate()
    {
        let data = receive(&client, &format!("COPY src TO STDOUT {format}")).await?;
        client.batch_execute(&format!("CREATE TABLE dst{i} {TABLE}")).await?;
        let back = format.replace(", FORCE_QUOTE *", "");
        let loaded = send(&client, &format!("COPY dst{i} FROM STDIN {back}"), &data)
            .await
            .with_context(|| format.to_string())?;
        ensure!(loaded == 4, "{format}: {loaded} rows");
        let found = rows(&client, &format!("SELECT * FROM dst{i} ORDER BY id")).await?;
        for (a, b) in all.iter().zip(&found) {
            ensure!(a == b, "{format}:\n{a:?}\n{b:?}");
        }
    }
    let text = receive(&client, "COPY (SELECT id, t, v FROM src ORDER BY id) TO STDOUT").await?;
    let expected = b"1\ttab\\there \"quoted\", \\\\ and\\nline\tv\n2\t\t\n3\t\\N\t\\N\n4\tNULL\t\\\\N\n";
    ensure!(text == expected, "text: {}", String::from_utf8_lossy(&text));
    let csv = receive(
        &client,
        "COPY (SELECT id, t, v FROM src ORDER BY id) TO STDOUT (FORMAT csv, HEADER)",
    )
    .await?;
    let expected = b"id,t,v\n1,\"tab\there \"\"quoted\"\", \\ and\nline\",v\n2,\"\",\"\"\n3,,\n4,NULL,\\N\n";
    ensure!(csv == expected, "csv: {}", String::from_utf8_lossy(&csv));
    Ok(())
}

async fn options() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute("CREATE TABLE t (a int, b text, c date DEFAULT '2020-02-02')")
        .await?;
    let cases: [(&str, &[u8], &[&str]); 11] = [
        (
            "COPY t (a, b) FROM STDIN",
            b"1\tx\n2\t\\N\n",
            &["1|x|2020-02-02", "2|NULL|2020-02-02"],
        ),
        (
            "COPY t FROM STDIN WITH CSV HEADER",
            b"a,b,c\r\n1,x,2024-01-01\r\n",
            &["1|x|2024-01-01"],
        ),
        (
            "COPY t FROM STDIN (FORMAT csv)",
            b"1,\"a,\"\"b\"\"\nc\",\n",
            &["1|a,\"b\"\\nc|NULL"],
        ),
        (
            "COPY t FROM STDIN (FORMAT csv, DELIMITER '|', NULL 'nil')",
            b"nil|nil|nil\n",
            &["NULL|NULL|NULL"],
        ),
        (
            "COPY t (b, a) FROM STDIN (FORMAT csv, QUOTE '''')",
            b"'it''s',7\n",
            &["7|it's|2020-02-02"],
        ),
        (
            "COPY t FROM STDIN (FORMAT csv, FORCE_NULL (b))",
            b"1,\"\",\n",
            &["1|NULL|NULL"],
        ),
        (
            "COPY t FROM STDIN (FORMAT csv, FORCE_NOT_NULL (b))",
            b"1,,\n",
            &["1||NULL"],
        ),
        (
            "COPY t FROM STDIN",
            b"1\ta\\tb\\\\c\\x41\\101\t\\N\n\\.\n",
            &["1|a\tb\\cAA|NULL"],
        ),
        (
            "COPY t FROM STDIN",
            b"1\tx\t\\N\r2\ty\t\\N\r\\.\r",
            &["1|x|NULL", "2|y|NULL"],
        ),
        (
            "COPY t FROM STDIN (FORMAT csv, HEADER)",
            b"a,b,c\r1,\"x\ny\",\r",
            &["1|x\\ny|NULL"],
        ),
        (
            "COPY t FROM STDIN (FORMAT csv)",
            b"5,no newline at end,",
            &["5|no newline at end|NULL"],
        ),
    ];
    for (sql, data, expected) in cases {
        client.batch_execute("TRUNCATE t").await?;
        send(&client, sql, data).await.with_context(|| sql.to_string())?;
        let found = rows(&client, "SELECT * FROM t ORDER BY a").await?;
        let found: Vec<String> = found
            .iter()
            .map(|row| {
                row.iter()
                    .map(|v| v.as_deref().unwrap_or("NULL").replace('\n', "\\n"))
                    .collect::<Vec<_>>()
                    .join("|")
            })
            .collect();
        ensure!(found == expected, "{sql}: {found:?}");
    }
    Ok(())
}

/// A bad row names its line and column, and nothing is loaded.
async fn errors() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE t (a int NOT NULL, b numeric(5, 2), c varchar(3));
             CREATE TABLE k (a int PRIMARY KEY, c text); INSERT INTO k VALUES (7, '')",
        )
        .await?;
    let cases: [(&str, &[u8], &str, &str); 22] = [
        ("COPY t FROM STDIN", b"1\t1\tx\nabc\t1\tx\n", "22P02", "line 2"),
        (
            "COPY t FROM STDIN",
            b"1\t1\tx\n2\t1\tx\r\n",
            "22P04",
            "literal carriage return",
        ),
        ("COPY k FROM STDIN", b"1\tx\n2\t\n7\tx", "23505", "COPY k, line 3"),
        ("COPY k FROM STDIN", b"1\tx\n2\t\n1\tx\n", "23505", "COPY k, line 3"),
        (
            "COPY k FROM STDIN (FORMAT csv, HEADER)",
            b"a,c\n1,x\n7,x\n",
            "23505",
            "COPY k, line 3",
        ),
        // Here a record is two lines.
        ("COPY k FROM STDIN (FORMAT csv)", b"1,\"x\n\"\n7,x\n", "23505", ""),
        ("COPY k FROM STDIN WHERE a > 1", b"1\tx\n2\t\n7\tx\n", "23505", ""),
        ("COPY t FROM STDIN", b"1\t1\tx\r\n2\t1\tx\n", "22P04", "literal newline"),
        ("COPY t FROM STDIN", b"1\t1\tx\r2\t1\tx\r\n", "22P04", "literal newline"),
        ("COPY t FROM STDIN", b"1\t1\tx\r\n\\.\n", "22P04", "end-of-copy marker"),
        (
            "COPY t FROM STDIN (FORMAT csv)",
            b"1,1,x\n2,1,x\r\n3,1,x\n",
            "22P04",
            "unquoted carriage return",
        ),
        (
            "COPY t FROM STDIN (FORMAT csv, HEADER)",
            b"a,b,c\r\n2,1,x\n",
            "22P04",
            "unquoted newline",
        ),
        (
            "COPY t FROM STDIN (FORMAT csv, HEADER)",
            b"a,b,c\r2,1,x\n",
            "22P04",
            "unquoted newline",
        ),
        ("COPY t FROM STDIN", b"1\t1\tx\n2\t9999\tx\n", "22003", "line 2"),
        ("COPY t FROM STDIN", b"1\t1\n", "22P04", "line 1"),
        ("COPY t FROM STDIN", b"1\t1\tx\ty\n", "22P04", "line 1"),
        ("COPY t FROM STDIN (FORMAT csv)", b"1,1,x\n2,1,\"open", "22P04", ""),
        ("COPY t FROM STDIN (FORMAT csv)", b"1,1,toolong\n", "22001", "line 1"),
        ("COPY t FROM STDIN (FORMAT csv)", b"1,1,x\n,1,x\n", "23502", ""),
        ("COPY t FROM STDIN (FORMAT csv)", b"1,1,\xff\n", "22021", ""),
        ("COPY t FROM STDIN (FORMAT binary)", b"not the signature", "22P04", ""),
        (
            "COPY t FROM STDIN (FORMAT binary)",
            b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x08",
            "22P04",
            "",
        ),
    ];
    for (sql, data, state, place) in cases {
        let error = send(&client, sql, data)
            .await
            .err()
            .with_context(|| format!("loaded: {sql} {data:?}"))?;
        let db = error.as_db_error().context("no SQLSTATE")?;
        ensure!(
            db.code().code() == state,
            "{sql} {}: {} {}",
            String::from_utf8_lossy(data),
            db.code().code(),
            db.message()
        );
        let told = format!(
            "{} {} {}",
            db.message(),
            db.detail().unwrap_or(""),
            db.where_().unwrap_or("")
        );
        ensure!(told.contains(place), "{sql}: {told}");
    }
    ensure!(value(&client, "SELECT count(*) FROM t").await? == "0");
    for (sql, state) in [
        ("COPY nosuch FROM STDIN", "42P01"),
        ("COPY t (nosuch) FROM STDIN", "42703"),
        ("COPY t FROM STDIN (FORMAT nosuch)", "22023"),
        ("COPY t FROM STDIN (DELIMITER 'ab')", "0A000"),
        ("COPY t FROM STDIN (nosuch 1)", "42601"),
    ] {
        let found = failing(&client, sql).await?;
        ensure!(found == state, "{sql}: {found}");
    }
    Ok(())
}

/// The stream may be cut anywhere.
async fn pieces() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE t (a int, b text)").await?;
    let mut data = Vec::new();
    for i in 0..2000 {
        data.extend_from_slice(format!("{i},\"row \"\"{i}\"\",\né☃\"\n").as_bytes());
    }
    for size in [1, 7, 4096] {
        client.batch_execute("TRUNCATE t").await?;
        let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN (FORMAT csv)").await?;
        futures::pin_mut!(sink);
        for piece in data.chunks(size) {
            sink.feed(Bytes::copy_from_slice(piece)).await?;
        }
        ensure!(sink.finish().await? == 2000, "pieces of {size}");
        ensure!(value(&client, "SELECT sum(a) FROM t WHERE b = 'row \"' || a || E'\",\\né☃'").await? == "1999000");
    }
    Ok(())
}

/// Files on the server: only below the directories that the configuration allows.
async fn files() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let allowed = directory.path().join("allowed");
    std::fs::create_dir(&allowed)?;
    std::fs::write(allowed.join("a.csv"), "a,b\n1,x\n2,y\n")?;
    std::fs::write(allowed.join("bad.csv"), "a,b\n1,x\nz,y\n")?;
    std::fs::write(directory.path().join("secret.csv"), "a,b\n1,x\n")?;
    std::os::unix::fs::symlink(directory.path().join("secret.csv"), allowed.join("link.csv"))?;
    let server = Server::start(&["--data-dir", &allowed.display().to_string()])?;
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE t (a int, b text)").await?;
    let copy = |name: &str| format!("COPY t FROM '{}' (FORMAT csv, HEADER)", allowed.join(name).display());
    client.batch_execute(&copy("a.csv")).await?;
    ensure!(value(&client, "SELECT sum(a) FROM t").await? == "3");
    for (sql, state) in [
        (copy("bad.csv"), "22P02"),
        (copy("nosuch.csv"), "58P01"),
        (copy("../secret.csv"), "42501"),
        (copy("link.csv"), "42501"),
        ("COPY t FROM '/etc/passwd' (FORMAT csv)".into(), "42501"),
        ("COPY t TO '/tmp/never-written.csv' (FORMAT csv)".into(), "0A000"),
        ("CREATE TABLE p AS SELECT * FROM '/etc/passwd.parquet'".into(), "42501"),
    ] {
        let found = failing(&client, &sql).await?;
        ensure!(found == state, "{sql}: {found}");
    }
    ensure!(value(&client, "SELECT count(*) FROM t").await? == "2");
    Ok(())
}

async fn in_transaction() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    let other = server.connect().await?;
    client.batch_execute("CREATE TABLE t (a int)").await?;
    client.batch_execute("BEGIN").await?;
    send(&client, "COPY t FROM STDIN", b"1\n2\n").await?;
    ensure!(value(&client, "SELECT count(*) FROM t").await? == "2");
    ensure!(value(&other, "SELECT count(*) FROM t").await? == "0");
    client.batch_execute("ROLLBACK").await?;
    ensure!(value(&client, "SELECT count(*) FROM t").await? == "0");
    client.batch_execute("BEGIN").await?;
    send(&client, "COPY t FROM STDIN", b"1\n2\n3\n").await?;
    client.batch_execute("COMMIT").await?;
    ensure!(value(&other, "SELECT count(*) FROM t").await? == "3");
    Ok(())
}

/// Rows go to the partitions that they belong to, and a partition takes and gives its columns in its own order.
async fn partitions() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE t (a int, b text) PARTITION BY RANGE (a); CREATE TABLE p (b text, a int); \
             ALTER TABLE t ATTACH PARTITION p FOR VALUES FROM (0) TO (10)",
        )
        .await?;
    send(&client, "COPY t FROM STDIN", b"1\tx\n2\ty\n").await?;
    send(&client, "COPY p FROM STDIN", b"z\t3\n").await?;
    for (sql, row) in [("COPY t FROM STDIN", b"33\tz\n"), ("COPY p FROM STDIN", b"z\t33\n")] {
        let failed = send(&client, sql, row).await;
        let code = failed.err().and_then(|error| error.code().cloned());
        ensure!(code.is_some_and(|code| code.code() == "23514"), "{sql}");
    }
    let sorted = receive(&client, "COPY (SELECT * FROM p ORDER BY b) TO STDOUT").await?;
    ensure!(sorted == b"x\t1\ny\t2\nz\t3\n");
    ensure!(receive(&client, "COPY p TO STDOUT").await?.len() == sorted.len());
    let refused = receive(&client, "COPY t TO STDOUT").await;
    ensure!(refused.is_err());
    ensure!(value(&client, "SELECT sum(a) FROM t").await? == "6");
    Ok(())
}

/// What changes return goes to the client, with queries before them and among those of a query.
async fn changes() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE t (a int, b int)").await?;
    for (copied, expected) in [
        ("INSERT INTO t VALUES (1, 2), (3, 4) RETURNING a, b", "1\t2\n3\t4\n"),
        (
            "WITH d AS (SELECT 5 AS v) INSERT INTO t SELECT v, v FROM d RETURNING a",
            "5\n",
        ),
        (
            "WITH d AS (SELECT 5 AS v) UPDATE t SET b = 6 FROM d WHERE a = v RETURNING a, b",
            "5\t6\n",
        ),
        (
            "WITH d AS (DELETE FROM t WHERE a = 3 RETURNING *) SELECT a * 2, b FROM d",
            "6\t4\n",
        ),
        (
            "WITH d AS (SELECT 1 AS v) DELETE FROM t USING d WHERE a = v RETURNING b",
            "2\n",
        ),
        ("WITH d AS (SELECT 7 AS v) SELECT v, a FROM d, t", "7\t5\n"),
    ] {
        let sent = receive(&client, &format!("COPY ({copied}) TO STDOUT")).await?;
        ensure!(sent == expected.as_bytes(), "{copied}");
    }
    ensure!(value(&client, "SELECT sum(a) || ' ' || sum(b) FROM t").await? == "5 6");
    Ok(())
}
