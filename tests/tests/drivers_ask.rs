//! What drivers ask of a server beyond queries, in bare frames: notifications, the fields of errors, encodings of clients,
//! arrays of any dimensions, other connections to stop, what a session has open.

use crate::process::Server;
use crate::raw::{Message, RawClient, error_state};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("drivers_ask::notifications", notifications),
        trial("drivers_ask::error_fields", error_fields),
        trial("drivers_ask::encodings", encodings),
        trial("drivers_ask::dimensions", dimensions),
        trial("drivers_ask::enum_arrays", enum_arrays),
        trial("drivers_ask::terminate", terminate),
        trial("drivers_ask::statements_by_name", statements_by_name),
        trial("drivers_ask::copy_messages", copy_messages),
    ]
}

fn run(client: &mut RawClient, sql: &str) -> Result<Vec<Message>> {
    client.send_query(sql)?;
    client.until_ready()
}

/// Runs what must not fail.
fn ok(client: &mut RawClient, sql: &str) -> Result<Vec<Message>> {
    let messages = run(client, sql)?;
    let failed = messages.iter().find(|message| message.kind == b'E');
    ensure!(
        failed.is_none(),
        "{sql}: {:?}",
        failed.and_then(|error| error.field(b'M'))
    );
    Ok(messages)
}

/// The cells of the rows among messages, NULLs as `NULL`.
fn rows(messages: &[Message]) -> Vec<Vec<Vec<u8>>> {
    let row = |message: &Message| {
        let (mut rest, mut cells) = (&message.body[2..], Vec::new());
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            let length = i32::from_be_bytes(*length);
            let (cell, tail) = tail.split_at(length.max(0) as usize);
            cells.push(if length < 0 { b"NULL".to_vec() } else { cell.to_vec() });
            rest = tail;
        }
        cells
    };
    messages
        .iter()
        .filter(|message| message.kind == b'D')
        .map(row)
        .collect()
}

fn text(client: &mut RawClient, sql: &str) -> Result<String> {
    let messages = ok(client, sql)?;
    let rows = rows(&messages);
    let cell = rows.first().and_then(|row| row.first()).context("no rows")?;
    Ok(String::from_utf8_lossy(cell).into_owned())
}

/// The channel and the payload of a NotificationResponse.
fn told(message: &Message) -> Option<(String, String)> {
    let mut texts = message.body.get(4..)?.split(|byte| *byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    (message.kind == b'A').then(|| Some((text()?, text()?)))?
}

fn payloads(messages: &[Message]) -> Vec<String> {
    messages.iter().filter_map(told).map(|(_, payload)| payload).collect()
}

async fn notifications() -> Result<()> {
    let server = Server::start(&[])?;
    let (mut hears, mut says) = (RawClient::connect(&server)?, RawClient::connect(&server)?);
    ok(&mut hears, "LISTEN News")?;
    let pid = text(&mut says, "SELECT pg_backend_pid()")?;
    ok(&mut says, "BEGIN; NOTIFY news, 'undone'; ROLLBACK")?;
    ensure!(error_state(&run(&mut says, "NOTIFY news, 'failed'; SELECT 1 / 0")?).as_deref() == Some("22012"));
    ok(&mut says, "NOTIFY news, '1'")?;
    // A client that rests is told at once.
    let message = hears.next()?.context("the connection ended")?;
    ensure!(
        told(&message) == Some(("news".into(), "1".into())),
        "{:?}",
        told(&message)
    );
    ensure!(message.body[..4] == pid.parse::<i32>()?.to_be_bytes());

    ok(
        &mut says,
        "BEGIN; NOTIFY news, '2'; SAVEPOINT s; NOTIFY news, 'undone'; SELECT pg_notify('other', 'x')",
    )?;
    ok(
        &mut says,
        "ROLLBACK TO s; NOTIFY news, '2'; SELECT pg_notify('news', '3')",
    )?;
    ok(&mut says, "NOTIFY news; COMMIT")?;
    let mut came = Vec::new();
    while came.len() < 3 {
        came.extend(payloads(&[hears.next()?.context("the connection ended")?]));
    }
    ensure!(came == ["2", "3", ""], "{came:?}");

    // Within a transaction nobody is told.
    ok(&mut hears, "BEGIN")?;
    ok(&mut says, "NOTIFY news, '4'")?;
    ensure!(payloads(&ok(&mut hears, "SELECT 1")?).is_empty());
    ensure!(payloads(&ok(&mut hears, "COMMIT")?) == ["4"]);
    // A session hears itself, whatever came first.
    let own = ok(&mut hears, "BEGIN; NOTIFY own, '5'; LISTEN own; COMMIT")?;
    ensure!(payloads(&own) == ["5"], "{:?}", payloads(&own));
    ok(&mut hears, "BEGIN; LISTEN third; UNLISTEN news; ROLLBACK")?;
    ok(&mut says, "NOTIFY third, 'nobody'; NOTIFY news, '6'")?;
    ensure!(payloads(&[hears.next()?.context("the connection ended")?]) == ["6"]);
    ok(&mut hears, "UNLISTEN *")?;
    ok(&mut says, "NOTIFY news, '7'; NOTIFY own, '7'")?;
    ensure!(payloads(&ok(&mut hears, "SELECT 1")?).is_empty());
    for wrong in [
        "SELECT pg_notify('', 'x')",
        "SELECT pg_notify(NULL, 'x')",
        "SELECT pg_notify(repeat('c', 64), 'x')",
        "SELECT pg_notify('news', repeat('x', 8000))",
    ] {
        ensure!(
            error_state(&run(&mut says, wrong)?).as_deref() == Some("22023"),
            "{wrong}"
        );
    }
    Ok(())
}

/// The fields `s`, `t`, `c`, `d` and `n` of the error that a statement ends with.
fn subject(client: &mut RawClient, sql: &str) -> Result<[Option<String>; 5]> {
    let messages = run(client, sql)?;
    let error = messages.iter().find(|message| message.kind == b'E');
    let error = error.with_context(|| format!("{sql} did not fail"))?;
    Ok([b's', b't', b'c', b'd', b'n'].map(|code| error.field(code)))
}

async fn error_fields() -> Result<()> {
    let server = Server::start(&[])?;
    let mut client = RawClient::connect(&server)?;
    ok(
        &mut client,
        "CREATE SCHEMA s; CREATE DOMAIN positive AS int CHECK (VALUE > 0); \
         CREATE TABLE s.t (a int PRIMARY KEY, b int NOT NULL CONSTRAINT small CHECK (b < 10), p positive); \
         CREATE UNIQUE INDEX halves ON s.t ((b / 2)); CREATE TABLE s.u (a int CONSTRAINT up REFERENCES s.t); \
         INSERT INTO s.t VALUES (1, 1, 1); INSERT INTO s.u VALUES (1)",
    )?;
    for (sql, wanted) in [
        ("INSERT INTO s.t VALUES (1, 5, 1)", ["s", "t", "", "", "t_pkey"]),
        ("INSERT INTO s.t VALUES (2, 0, 1)", ["s", "t", "", "", "halves"]),
        ("INSERT INTO s.t VALUES (2, NULL, 1)", ["s", "t", "b", "", ""]),
        ("INSERT INTO s.t VALUES (2, 11, 1)", ["s", "t", "", "", "small"]),
        ("UPDATE s.t SET b = 10", ["s", "t", "", "", "small"]),
        (
            "INSERT INTO s.t VALUES (2, 5, 0)",
            ["public", "", "", "positive", "positive_check"],
        ),
        (
            "SELECT (-a)::positive FROM s.t",
            ["public", "", "", "positive", "positive_check"],
        ),
        ("INSERT INTO s.u VALUES (7)", ["s", "u", "", "", "up"]),
        ("DELETE FROM s.t", ["s", "u", "", "", "up"]),
        ("SELECT * FROM absent", ["", "", "", "", ""]),
    ] {
        let found = subject(&mut client, sql)?.map(Option::unwrap_or_default);
        ensure!(found == wanted, "{sql}: {found:?}");
    }
    Ok(())
}

async fn encodings() -> Result<()> {
    let server = Server::start(&[])?;
    let mut client = RawClient::connect(&server)?;
    let set = ok(&mut client, "SET client_encoding TO 'iso-8859-15'")?;
    let status = set
        .iter()
        .find(|message| message.kind == b'S')
        .context("no ParameterStatus")?;
    ensure!(status.body == b"client_encoding\0LATIN9\0");
    ensure!(text(&mut client, "SELECT pg_client_encoding()")? == "LATIN9");
    client.send(
        b'Q',
        b"SELECT '\xa4', length('\xa4'), ascii('\xa4'), 'plain' AS \"\xe9\"\0",
    )?;
    let messages = client.until_ready()?;
    let found = rows(&messages);
    ensure!(
        found == [[b"\xa4".to_vec(), b"1".to_vec(), b"8364".to_vec(), b"plain".to_vec()]],
        "{found:?}"
    );
    let columns = messages
        .iter()
        .find(|message| message.kind == b'T')
        .context("no RowDescription")?;
    ensure!(columns.body.windows(2).any(|pair| pair == b"\xe9\0"));
    // A parameter and a result in binary format: an array of text.
    let array = [
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 25, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1][..],
        b"\xa4",
    ]
    .concat();
    client.send(b'P', b"\0SELECT $1::text[], $1[1]\0\0\x01\0\0\x03\xf1")?;
    let bind = [
        &b"\0\0\0\x01\0\x01\0\x01"[..],
        &(array.len() as i32).to_be_bytes(),
        &array,
        b"\0\x01\0\x01",
    ]
    .concat();
    client.send(b'B', &bind)?;
    client.send(b'E', b"\0\0\0\0\0")?;
    client.send(b'S', b"")?;
    let found = rows(&client.until_ready()?);
    ensure!(found == [[array, b"\xa4".to_vec()]], "{found:?}");
    // COPY, both ways.
    ok(&mut client, "CREATE TABLE t (a text)")?;
    client.send_query("COPY t FROM STDIN")?;
    ensure!(client.next()?.context("the connection ended")?.kind == b'G');
    client.send(b'd', b"caf\xe9 \xa4\n")?;
    client.send(b'c', b"")?;
    ensure!(error_state(&client.until_ready()?).is_none());
    let out = ok(&mut client, "COPY t TO STDOUT (FORMAT csv, HEADER)")?;
    let data: Vec<&[u8]> = out
        .iter()
        .filter(|m| m.kind == b'd')
        .map(|m| m.body.as_slice())
        .collect();
    ensure!(data == [&b"a\n"[..], b"caf\xe9 \xa4\n"], "{data:?}");
    // What an encoding lacks, either way.
    ensure!(error_state(&run(&mut client, "SELECT chr(9731)")?).as_deref() == Some("22P05"));
    ok(&mut client, "SET client_encoding TO WIN1252")?;
    client.send(b'Q', b"SELECT '\x81'\0")?;
    ensure!(error_state(&client.until_ready()?).as_deref() == Some("22021"));
    for (name, state) in [("EUC_JP", "0A000"), ("klingon", "22023")] {
        let error = error_state(&run(&mut client, &format!("SET client_encoding TO '{name}'"))?);
        ensure!(error.as_deref() == Some(state), "{name}: {error:?}");
    }
    ok(&mut client, "RESET client_encoding")?;
    ensure!(text(&mut client, "SELECT a FROM t")? == "café €");
    Ok(())
}

/// A statement with one parameter in text format, by the extended protocol.
fn with_parameter(client: &mut RawClient, sql: &str, oid: u32, value: &str) -> Result<Vec<Message>> {
    client.send(b'P', &[b"\0", sql.as_bytes(), b"\0\0\x01", &oid.to_be_bytes()].concat())?;
    let length = (value.len() as i32).to_be_bytes();
    client.send(
        b'B',
        &[&b"\0\0\0\0\0\x01"[..], &length, value.as_bytes(), b"\0\0"].concat(),
    )?;
    client.send(b'E', b"\0\0\0\0\0")?;
    client.send(b'S', b"")?;
    client.until_ready()
}

async fn dimensions() -> Result<()> {
    let server = Server::start(&[])?;
    let mut client = RawClient::connect(&server)?;
    for (sql, oid, value, wanted) in [
        ("SELECT $1::int[]", 1007, "{{1,2},{3,NULL}}", "{{1,2},{3,NULL}}"),
        ("SELECT $1", 1009, "{{{a},{b}}}", "{{{a},{b}}}"),
        ("SELECT array_ndims($1::text[])", 0, "{{{{a}}}}", "4"),
        ("SELECT $1::int[]", 1007, "{}", "{}"),
        ("SELECT 3 = ANY ($1::int[])", 0, "{{1,2},{3,4}}", "t"),
    ] {
        let messages = with_parameter(&mut client, sql, oid, value)?;
        let found = rows(&messages);
        ensure!(
            found == [[wanted.as_bytes().to_vec()]],
            "{sql} {value}: {:?} {found:?}",
            error_state(&messages)
        );
    }
    let wrong = with_parameter(&mut client, "SELECT $1::int[]", 1007, "{{1,2},{3}}")?;
    ensure!(error_state(&wrong).as_deref() == Some("22P02"));
    Ok(())
}

async fn enum_arrays() -> Result<()> {
    let server = Server::start(&[])?;
    let mut client = RawClient::connect(&server)?;
    ok(
        &mut client,
        "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (m mood); INSERT INTO t VALUES ('ok'), ('sad')",
    )?;
    let oid: u32 = text(&mut client, "SELECT typarray FROM pg_type WHERE typname = 'mood'")?.parse()?;
    for (sql, wanted) in [
        ("SELECT $1", "{ok,NULL}"),
        ("SELECT $1::text[]", "{ok,NULL}"),
        ("SELECT $1[1]", "ok"),
        ("SELECT count(*) FROM t WHERE m = ANY ($1)", "1"),
    ] {
        let messages = with_parameter(&mut client, sql, oid, "{ok,NULL}")?;
        let found = rows(&messages);
        ensure!(
            found == [[wanted.as_bytes().to_vec()]],
            "{sql}: {:?} {found:?}",
            error_state(&messages)
        );
    }
    Ok(())
}

async fn terminate() -> Result<()> {
    let server = Server::start(&[])?;
    let (mut one, mut other) = (RawClient::connect(&server)?, RawClient::connect(&server)?);
    let pid = text(&mut one, "SELECT pg_backend_pid()")?;
    one.send_query("SELECT pg_sleep(60)")?;
    let active = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND query LIKE '%pg_sleep(60)%' AND state = 'active'"
    );
    while text(&mut other, &active)? != "1" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    ensure!(text(&mut other, &format!("SELECT pg_cancel_backend({pid})"))? == "t");
    one.send_query("SELECT 1")?;
    let canceled = one.until_ready()?;
    ensure!(
        error_state(&canceled).as_deref() == Some("57014"),
        "{:?}",
        error_state(&canceled)
    );
    one.until_ready()?;
    ensure!(text(&mut other, &format!("SELECT pg_terminate_backend({pid})"))? == "t");
    let last = one.until_ready()?;
    ensure!(
        error_state(&last).as_deref() == Some("57P01"),
        "{:?}",
        error_state(&last)
    );
    ensure!(one.next()?.is_none());
    let missing = ok(&mut other, "SELECT pg_terminate_backend(999999)")?;
    ensure!(rows(&missing) == [[b"f".to_vec()]]);
    let warning = missing
        .iter()
        .find(|message| message.kind == b'N')
        .context("no warning")?;
    ensure!(warning.field(b'C').as_deref() == Some("01000"));
    Ok(())
}

async fn statements_by_name() -> Result<()> {
    let server = Server::start(&[])?;
    let mut client = RawClient::connect(&server)?;
    client.send(b'P', b"by_protocol\0SELECT $1::int + 1\0\0\0")?;
    client.send(b'S', b"")?;
    ensure!(error_state(&client.until_ready()?).is_none());
    ok(&mut client, "PREPARE by_sql (text) AS SELECT $1")?;
    let listed = ok(
        &mut client,
        "SELECT name, parameter_types, from_sql FROM pg_prepared_statements ORDER BY name",
    )?;
    let row = |cells: [&str; 3]| cells.map(|cell| cell.as_bytes().to_vec()).to_vec();
    ensure!(rows(&listed) == [row(["by_protocol", "{integer}", "f"]), row(["by_sql", "{text}", "t"])]);
    ensure!(text(&mut client, "EXECUTE by_protocol (41)")? == "42");
    ensure!(error_state(&run(&mut client, "PREPARE by_protocol AS SELECT 1")?).as_deref() == Some("42P05"));
    client.send(b'P', b"by_sql\0SELECT 1\0\0\0")?;
    client.send(b'S', b"")?;
    ensure!(error_state(&client.until_ready()?).as_deref() == Some("42P05"));
    ok(&mut client, "DEALLOCATE by_protocol")?;
    client.send(b'D', b"Sby_protocol\0")?;
    client.send(b'S', b"")?;
    ensure!(error_state(&client.until_ready()?).as_deref() == Some("26000"));
    ok(&mut client, "DEALLOCATE ALL")?;
    ensure!(text(&mut client, "SELECT count(*) FROM pg_prepared_statements")? == "0");
    Ok(())
}

/// The signature of COPY's binary format comes with the first row, as from PostgreSQL: drivers that read row by row rely on it.
async fn copy_messages() -> Result<()> {
    let server = Server::start(&[])?;
    let mut client = RawClient::connect(&server)?;
    for (rows, wanted) in [(0, 1), (1, 2), (3, 4)] {
        let sql = format!("COPY (SELECT * FROM generate_series(1, {rows})) TO STDOUT (FORMAT binary)");
        let messages = ok(&mut client, &sql)?;
        let data: Vec<&[u8]> = messages
            .iter()
            .filter(|m| m.kind == b'd')
            .map(|m| m.body.as_slice())
            .collect();
        ensure!(data.len() == wanted, "{rows} rows in {} messages", data.len());
        ensure!(data[0].starts_with(b"PGCOPY\n\xff\r\n\0") && data[wanted - 1].ends_with(b"\xff\xff"));
    }
    Ok(())
}
