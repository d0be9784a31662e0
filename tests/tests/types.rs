//! Every type as a typed binary parameter and back, through tokio-postgres.

use crate::process::Server;
use crate::trial;
use anyhow::{Context, Result, ensure};
use bytes::BytesMut;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use libtest_mimic::Trial;
use std::fmt::Debug;
use tokio_postgres::types::{FromSql, FromSqlOwned, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("types::parameters", parameters),
        trial("types::inferred_parameters", inferred_parameters),
        trial("types::columns_say_their_type", columns_say_their_type),
        trial("types::passwords", passwords),
    ]
}

/// A bit string in the binary format.
#[derive(Clone, Debug, PartialEq)]
struct Bits {
    length: i32,
    bytes: Vec<u8>,
}

impl Bits {
    fn of(length: i32, bytes: &[u8]) -> Bits {
        let bytes = bytes.to_vec();
        Bits { length, bytes }
    }
}

impl ToSql for Bits {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.length.to_be_bytes());
        out.extend_from_slice(&self.bytes);
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        matches!(*of, Type::BIT | Type::VARBIT)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Bits {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Bits, Box<dyn std::error::Error + Sync + Send>> {
        let (length, bytes) = raw.split_first_chunk::<4>().ok_or("too short")?;
        Ok(Bits::of(i32::from_be_bytes(*length), bytes))
    }

    fn accepts(of: &Type) -> bool {
        <Bits as ToSql>::accepts(of)
    }
}

async fn echo<T: ToSql + FromSqlOwned + PartialEq + Debug + Sync>(
    client: &Client,
    name: &str,
    values: &[T],
) -> Result<()> {
    let statement = client
        .prepare(&format!("SELECT $1::{name}"))
        .await
        .with_context(|| name.to_string())?;
    for value in values {
        let row = client
            .query_one(&statement, &[value])
            .await
            .with_context(|| format!("{name} {value:?}"))?;
        let back: T = row.try_get(0).with_context(|| format!("{name} {value:?}"))?;
        ensure!(back == *value, "{name}: sent {value:?}, got {back:?}");
    }
    let row = client.query_one(&statement, &[&None::<T>]).await?;
    ensure!(
        row.try_get::<_, Option<T>>(0)?.is_none(),
        "{name}: NULL came back as a value"
    );
    Ok(())
}

async fn parameters() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    echo(&client, "bool", &[true, false]).await?;
    echo(&client, "int2", &[0i16, i16::MIN, i16::MAX]).await?;
    echo(&client, "int4", &[0i32, i32::MIN, i32::MAX]).await?;
    echo(&client, "int8", &[0i64, i64::MIN, i64::MAX]).await?;
    echo(&client, "float4", &[0f32, -1.5, f32::MAX, f32::INFINITY]).await?;
    echo(&client, "float8", &[0f64, -1.5, f64::MIN_POSITIVE, f64::NEG_INFINITY]).await?;
    echo(
        &client,
        "text",
        &[String::new(), "naïve ☃ '\"\\".into(), "x".repeat(100_000)],
    )
    .await?;
    echo(&client, "varchar", &["abc".to_string()]).await?;
    echo(&client, "bytea", &[vec![], vec![0u8, 255, 92, 39]]).await?;
    let bits = [
        Bits::of(0, &[]),
        Bits::of(3, &[0xa0]),
        Bits::of(17, &[0xff, 0x01, 0x80]),
    ];
    echo(&client, "varbit", &bits).await?;
    echo(&client, "\"bit\"", &bits).await?;
    echo(&client, "bit(3)", &bits[1..2]).await?;
    echo(&client, "varbit[]", &[bits.to_vec(), vec![]]).await?;
    let day = |y, m, d| NaiveDate::from_ymd_opt(y, m, d).context("no such day");
    echo(
        &client,
        "date",
        &[day(2000, 1, 1)?, day(1969, 12, 31)?, day(2024, 2, 29)?, day(1, 1, 1)?],
    )
    .await?;
    let time = NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999).context("no such time")?;
    echo(&client, "time", &[NaiveTime::MIN, time]).await?;
    let stamps: [NaiveDateTime; 2] = [
        day(1999, 12, 31)?.and_time(time),
        day(2262, 5, 5)?.and_time(NaiveTime::MIN),
    ];
    echo(&client, "timestamp", &stamps).await?;
    let zoned: Vec<DateTime<Utc>> = stamps.iter().map(NaiveDateTime::and_utc).collect();
    echo(&client, "timestamptz", &zoned).await?;
    echo(&client, "uuid", &[Uuid::nil(), Uuid::new_v4()]).await?;
    echo(
        &client,
        "json",
        &[serde_json::json!({"a": [1, "x", null]}), serde_json::json!([])],
    )
    .await?;
    Ok(())
}

/// Parameters whose type the statement's context gives.
async fn inferred_parameters() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute("CREATE TABLE t (id int8, name text, pay numeric(10, 2), born date, ok bool)")
        .await?;
    let insert = client
        .prepare("INSERT INTO t (id, name, born, ok) VALUES ($1, $2, $3, $4)")
        .await?;
    ensure!(
        insert.params() == [Type::INT8, Type::TEXT, Type::DATE, Type::BOOL],
        "INSERT: {:?}",
        insert.params()
    );
    let born = NaiveDate::from_ymd_opt(1990, 5, 6);
    for i in 0..10i64 {
        ensure!(
            client
                .execute(&insert, &[&i, &format!("n{i}"), &born, &(i % 2 == 0)])
                .await?
                == 1
        );
    }
    let select = client
        .prepare("SELECT name FROM t WHERE id = $1 AND ok = $2 AND born <= $3")
        .await?;
    ensure!(
        select.params() == [Type::INT8, Type::BOOL, Type::DATE],
        "SELECT: {:?}",
        select.params()
    );
    let row = client.query_one(&select, &[&4i64, &true, &born]).await?;
    ensure!(row.get::<_, String>(0) == "n4");
    let limited = client
        .query("SELECT id FROM t ORDER BY id LIMIT $1 OFFSET $2", &[&3i64, &2i64])
        .await?;
    let ids: Vec<i64> = limited.iter().map(|row| row.get(0)).collect();
    ensure!(ids == [2, 3, 4], "{ids:?}");
    ensure!(
        client
            .execute(
                "UPDATE t SET name = $1 WHERE id BETWEEN $2 AND $3",
                &[&"new", &2i64, &5i64]
            )
            .await?
            == 4
    );
    ensure!(client.execute("DELETE FROM t WHERE name = $1", &[&"new"]).await? == 4);
    let row = client
        .query_one(
            "SELECT count(*) FROM t WHERE name LIKE $1 AND id IN ($2, $3)",
            &[&"n%", &1i64, &9i64],
        )
        .await?;
    ensure!(row.get::<_, i64>(0) == 2);
    // One prepared statement after the table under it has changed.
    let all = client.prepare("SELECT id FROM t ORDER BY id").await?;
    let before = client.query(&all, &[]).await?.len();
    client.batch_execute("INSERT INTO t (id) VALUES (100)").await?;
    ensure!(
        client.query(&all, &[]).await?.len() == before + 1,
        "a prepared statement reads an old snapshot"
    );
    Ok(())
}

async fn columns_say_their_type() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE t (a int2, b int4, c int8, d float4, e float8, f numeric(10, 2), g text, h varchar(5), i char(3), \
             j date, k time, l timestamp, m timestamptz, n interval, o bytea, p uuid, q json, r bool, s bit(3), t varbit)",
        )
        .await?;
    let expected = [
        Type::INT2,
        Type::INT4,
        Type::INT8,
        Type::FLOAT4,
        Type::FLOAT8,
        Type::NUMERIC,
        Type::TEXT,
        Type::VARCHAR,
        Type::BPCHAR,
        Type::DATE,
        Type::TIME,
        Type::TIMESTAMP,
        Type::TIMESTAMPTZ,
        Type::INTERVAL,
        Type::BYTEA,
        Type::UUID,
        Type::JSON,
        Type::BOOL,
        Type::BIT,
        Type::VARBIT,
    ];
    let statement = client.prepare("SELECT * FROM t").await?;
    for (column, expected) in statement.columns().iter().zip(&expected) {
        ensure!(
            column.type_() == expected,
            "{}: {} instead of {expected}",
            column.name(),
            column.type_()
        );
    }
    let statement = client
        .prepare("SELECT sum(b), sum(c), avg(b), count(*), max(j), min(h), sum(e), sum(f), bool_and(r) FROM t")
        .await?;
    let expected = [
        Type::INT8,
        Type::NUMERIC,
        Type::NUMERIC,
        Type::INT8,
        Type::DATE,
        Type::TEXT,
        Type::FLOAT8,
        Type::NUMERIC,
        Type::BOOL,
    ];
    for (i, (column, expected)) in statement.columns().iter().zip(&expected).enumerate() {
        let same = column.type_() == expected || (i == 5 && *column.type_() == Type::VARCHAR);
        ensure!(
            same,
            "column {i} {}: {} instead of {expected}",
            column.name(),
            column.type_()
        );
    }
    let names: Vec<&str> = statement.columns().iter().map(|column| column.name()).collect();
    ensure!(
        names == ["sum", "sum", "avg", "count", "max", "min", "sum", "sum", "bool_and"],
        "{names:?}"
    );
    Ok(())
}

/// Any address but loopback needs passwords; SCRAM takes the right one and no other.
async fn passwords() -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), "# users\nalice:open sesame\n")?;
    let server = Server::start(&["--password-file", &file.path().display().to_string()])?;
    let connect = |user: &str, password: &str| {
        let dsn = format!(
            "host=127.0.0.1 port={} dbname=tenon sslmode=disable",
            server.address().port()
        );
        let mut config: tokio_postgres::Config = match dsn.parse() {
            Ok(config) => config,
            Err(error) => panic!("{error}"),
        };
        config.user(user).password(password);
        async move { config.connect(NoTls).await }
    };
    let (client, connection) = connect("alice", "open sesame")
        .await
        .context("the right password was refused")?;
    tokio::spawn(connection);
    ensure!(
        client
            .query_one("SELECT current_user::text", &[])
            .await?
            .get::<_, String>(0)
            == "alice"
    );
    for (user, password) in [("alice", "wrong"), ("bob", "open sesame"), ("alice", "x")] {
        let error = connect(user, password)
            .await
            .err()
            .with_context(|| format!("{user} came in"))?;
        let state = crate::process::sql_state(&error);
        ensure!(state == "28P01", "{user}: {state}");
    }
    Ok(())
}
