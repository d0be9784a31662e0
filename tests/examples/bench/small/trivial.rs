//! Trivial statements over one connection, each sent when the one before is answered.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

pub const CASES: [&str; 4] = [
    "SELECT 1",
    "SELECT * FROM t WHERE k = 5",
    "WHERE k = another, simple",
    "WHERE k = another, prepared",
];

const ROWS: i64 = 10_000;

/// Runs work with a client on this thread.
pub fn with_client<T>(server: &str, work: impl AsyncFnOnce(&Client) -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(server, NoTls).await?;
        let connection = tokio::spawn(connection);
        let result = work(&client).await;
        drop(client);
        connection.await??;
        result
    })
}

pub fn fill(server: &str) -> Result<()> {
    with_client(server, async |client| {
        client
            .batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)")
            .await?;
        let rows = format!("INSERT INTO t SELECT g, 'value ' || g FROM generate_series(1, {ROWS}) AS g");
        client.batch_execute(&rows).await?;
        Ok(client.batch_execute("ANALYZE t").await?)
    })
}

/// Statements a second.
pub fn rate(server: &str, case: &str, statements: usize) -> Result<f64> {
    with_client(server, async |client| {
        let prepared = client.prepare("SELECT * FROM t WHERE k = $1").await?;
        let begin = Instant::now();
        for number in 0..statements as i64 {
            let key = number * 7919 % ROWS + 1;
            if case.ends_with("prepared") {
                let row = client.query_one(&prepared, &[&key]).await?;
                ensure!(row.get::<_, &str>(1) == format!("value {key}"), "{case}: {row:?}");
                continue;
            }
            let (sql, expected) = match case.ends_with("simple") {
                true => (format!("SELECT v FROM t WHERE k = {key}"), format!("value {key}")),
                false if case == CASES[0] => (case.to_owned(), "1".to_owned()),
                false => (case.to_owned(), "5".to_owned()),
            };
            let messages = client.simple_query(&sql).await?;
            let row = messages.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            match row {
                Some(found) if found == expected => {}
                other => bail!("{sql}: {other:?} and not {expected}"),
            }
        }
        Ok(statements as f64 / begin.elapsed().as_secs_f64())
    })
}
