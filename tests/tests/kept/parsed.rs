//! The time in plans that are kept, and texts that are parsed again.

use super::writes::told;
use super::{answer, fill};
use crate::process::{Server, failing, sql_state};
use crate::raw::RawClient;
use anyhow::{Result, ensure};
use bytes::BytesMut;
use std::error::Error;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// The time in a plan that is kept is that of each transaction.
pub(super) async fn time() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE t (k int, at timestamptz DEFAULT now(), said text);
             PREPARE p(int) AS INSERT INTO t (k) VALUES ($1);
             PREPARE q(int) AS INSERT INTO t VALUES ($1, CURRENT_TIMESTAMP, now()::text);
             PREPARE r(int) AS UPDATE t SET at = now() WHERE k = $1 AND at < now() RETURNING k, at = now()",
        )
        .await?;
    for mode in ["auto", "force_generic_plan"] {
        client
            .batch_execute(&format!("SET plan_cache_mode = {mode}; TRUNCATE t"))
            .await?;
        for key in 0..9 {
            let text = format!("INSERT INTO t (k, at) VALUES ({key}, now())");
            for sql in [format!("EXECUTE p({key})"), format!("EXECUTE q({key})"), text] {
                client.batch_execute(&sql).await?;
            }
            let block =
                format!("BEGIN; EXECUTE p({key}); EXECUTE q({key}); SELECT pg_sleep(0.001); EXECUTE p({key}); COMMIT");
            client.batch_execute(&block).await?;
            let zone = ["UTC", "Asia/Tokyo"][key % 2];
            client.batch_execute(&format!("SET TimeZone = '{zone}'")).await?;
        }
        // Four transactions for each of nine keys; what was said is the time that was kept.
        let sql = "SELECT count(*), count(DISTINCT at), bool_and(said IS NULL OR said::timestamptz = at), \
                   bool_and(at BETWEEN now() - interval '1 minute' AND now()) FROM t";
        let found = answer(&client, sql).await;
        ensure!(found[1] == ["54", "36", "t", "t"], "{mode}: {found:?}");
        for key in 0..9 {
            let found = told(&client, &format!("EXECUTE r({key})")).await;
            let now = found.iter().filter(|row| row.ends_with("|t")).count();
            ensure!(found.len() == 7 && now == 6, "{found:?}");
        }
        let found = answer(&client, "SELECT count(DISTINCT at) FROM t").await;
        ensure!(found[1] == ["9"], "{mode}: {found:?}");
    }
    Ok(())
}

/// A text that is parsed again is the statement that it was, for any client, as long as its names mean the same.
pub(super) async fn parsed() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    fill(&one).await?;
    let uses = async |statement: &str| -> Result<Vec<Vec<String>>> {
        let sql = format!("SELECT parameters, uses FROM tenon_statements WHERE statement = '{statement}' ORDER BY 2");
        let mut rows = answer(&one, &sql).await;
        rows.remove(0);
        Ok(rows)
    };
    let select = "SELECT v, s FROM big WHERE k = $1";
    for key in 1..=10_i32 {
        let client = if key % 2 == 0 { &one } else { &two };
        let row = client.query_one(select, &[&key]).await?;
        ensure!(row.get::<_, &str>(0) == format!("v{}", key % 11) && row.get::<_, i16>(1) == (key % 3) as i16);
    }
    // The first and the second time it is prepared.
    ensure!(uses(select).await? == [["1", "8"]], "{:?}", uses(select).await?);
    let update = "UPDATE small SET g = g + $1 WHERE k = $2 RETURNING g";
    for time in 1..=10_i64 {
        let row = one.query_one(update, &[&1_i64, &5_i32]).await?;
        ensure!(row.get::<_, Option<i64>>(0).is_none(), "5 has no g, {time}");
        let row = two.query_one(update, &[&1_i64, &6_i32]).await?;
        ensure!(row.get::<_, i64>(0) == 6 + time);
    }
    ensure!(uses(update).await? == [["2", "18"]], "{:?}", uses(update).await?);
    // Of another type, and then of another table.
    one.batch_execute("ALTER TABLE big ALTER COLUMN s TYPE bigint").await?;
    ensure!(two.query_one(select, &[&7_i32]).await?.get::<_, i64>(1) == 1);
    two.batch_execute("CREATE TEMP TABLE big (k text, v text, s int); INSERT INTO big VALUES ('a', 'b', 9)")
        .await?;
    for _ in 0..3 {
        ensure!(two.query_one(select, &[&"a"]).await?.get::<_, i32>(1) == 9);
        ensure!(one.query_one(select, &[&7_i32]).await?.get::<_, i64>(1) == 1);
    }
    // Declared types make another statement of it.
    let typed = "SELECT $1 AS a FROM single";
    let statement = one.prepare_typed(typed, &[tokio_postgres::types::Type::INT4]).await?;
    for _ in 0..3 {
        ensure!(one.query_one(&statement, &[&7_i32]).await?.get::<_, i32>(0) == 7);
        ensure!(one.query_one(typed, &[&"x"]).await?.get::<_, &str>(0) == "x");
        let statement = two.prepare_typed(typed, &[tokio_postgres::types::Type::INT8]).await?;
        ensure!(two.query_one(&statement, &[&8_i64]).await?.get::<_, i64>(0) == 8);
    }
    // The unnamed statement, all of it in one write.
    let mut raw = RawClient::connect(&server)?;
    for key in 1..=12 {
        let text = "SELECT v FROM big WHERE k = $1";
        let key = key.to_string();
        let parse = [b"\0", text.as_bytes(), b"\0\0\0"].concat();
        let value = [&(key.len() as i32).to_be_bytes()[..], key.as_bytes()].concat();
        let bind = [&b"\0\0\0\0\0\x01"[..], &value, b"\0\0"].concat();
        let messages = [
            (b'P', &parse[..]),
            (b'B', &bind),
            (b'D', b"P\0"),
            (b'E', b"\0\0\0\0\0"),
            (b'S', b""),
        ];
        let frame = |(kind, body): &(u8, &[u8])| [&[*kind][..], &(body.len() as i32 + 4).to_be_bytes(), body].concat();
        raw.send_bytes(&messages.iter().flat_map(frame).collect::<Vec<u8>>())?;
        let answered = raw.until_ready()?;
        let kinds: Vec<u8> = answered.iter().map(|message| message.kind).collect();
        ensure!(kinds.starts_with(b"12TDC"), "{:?}", String::from_utf8_lossy(&kinds));
        let number = key.parse::<i32>()? % 11;
        ensure!(answered[3].body.ends_with(format!("v{number}").as_bytes()), "{key}");
    }
    let shown = "SELECT uses FROM tenon_statements WHERE statement = 'SELECT v FROM big WHERE k = $1' AND uses = 10";
    ensure!(raw.count_rows(shown)? == (1, None));
    // In a transaction that has failed there is nothing but its end.
    one.batch_execute("BEGIN").await?;
    ensure!(one.batch_execute("SELECT 1 / 0").await.is_err());
    let error = one.query(select, &[&7_i32]).await.err().map(|error| sql_state(&error));
    ensure!(error.as_deref() == Some("25P02"), "{error:?}");
    one.batch_execute("ROLLBACK").await?;
    Ok(())
}

/// A label of an enum.
#[derive(Debug)]
struct Label(&'static str);

impl ToSql for Label {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// ALTER TYPE by another client: a statement that is prepared knows the labels as they are when it is executed.
pub(super) async fn altered_types() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    one.batch_execute(
        "CREATE TYPE e AS ENUM ('a', 'b'); CREATE TABLE t (v e, l e[]);
         PREPARE p AS INSERT INTO t VALUES ($1, $2); PREPARE q AS SELECT v, l FROM t ORDER BY v",
    )
    .await?;
    let added = one.prepare("INSERT INTO t (v) VALUES ($1)").await?;
    let found = one.prepare("SELECT v::text FROM t WHERE v = $1 LIMIT 1").await?;
    let adds = async |label| match one.execute(&added, &[&Label(label)]).await {
        Ok(_) => String::new(),
        Err(error) => sql_state(&error),
    };
    let finds = async |label| match one.query(&found, &[&Label(label)]).await {
        Ok(rows) => rows.iter().map(|row| row.get::<_, String>(0)).collect(),
        Err(error) => sql_state(&error),
    };
    for _ in 0..3 {
        one.batch_execute("EXECUTE p('a', '{b}'); EXECUTE q").await?;
        ensure!(adds("b").await.is_empty());
        ensure!(finds("b").await == "b");
    }
    two.batch_execute("ALTER TYPE e ADD VALUE 'c' BEFORE 'b'").await?;
    ensure!(adds("c").await.is_empty());
    ensure!(finds("c").await == "c");
    one.batch_execute("EXECUTE p('c', '{c,b}')").await?;
    two.batch_execute("ALTER TYPE e RENAME VALUE 'a' TO 'x'").await?;
    ensure!(failing(&one, "EXECUTE p('a', NULL)").await? == "22P02");
    ensure!(adds("a").await == "22P02");
    ensure!(adds("x").await.is_empty());
    ensure!(finds("x").await == "x" && finds("b").await == "b");
    one.batch_execute("EXECUTE p('x', '{x}')").await?;
    let shown = told(&one, "EXECUTE q").await;
    let old = shown.iter().filter(|row| *row == "x|{b}").count();
    ensure!(old == 3 && shown.contains(&"c|{c,b}".to_owned()), "{shown:?}");
    let counts = "SELECT string_agg(n, ' ') FROM (SELECT v || '=' || count(*) AS n FROM t GROUP BY v ORDER BY v) c";
    let found = answer(&one, counts).await;
    ensure!(found[1] == ["x=5 c=2 b=3"], "{found:?}");
    // What another client has not committed is nobody's.
    two.batch_execute("BEGIN; ALTER TYPE e ADD VALUE 'later'").await?;
    ensure!(failing(&one, "EXECUTE p('later', NULL)").await? == "22P02");
    ensure!(adds("later").await == "22P02" && adds("b").await.is_empty());
    one.batch_execute("EXECUTE p('b', NULL); PREPARE r AS INSERT INTO t (v) VALUES ($1)")
        .await?;
    ensure!(failing(&one, "EXECUTE r('later')").await? == "22P02");
    two.batch_execute("ROLLBACK").await?;
    Ok(())
}
