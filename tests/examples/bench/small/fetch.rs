//! All rows of a table to one client.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use futures::TryStreamExt;

use super::postgres::told;
use super::trivial::with_client;

pub const CLIENTS: [&str; 3] = ["tokio-postgres, binary", "psycopg, binary", "psql \\copy"];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

const SELECT: &str = "SELECT a, b, c FROM fetched";

pub fn fill(server: &str, rows: usize) -> Result<()> {
    let sql = format!(
        "CREATE TABLE fetched AS SELECT g::bigint AS a, g::double precision / 7 AS b, 'row number ' || g AS c \
         FROM generate_series(1, {rows}) AS g"
    );
    with_client(server, async |client| Ok(client.batch_execute(&sql).await?))
}

/// Rows a second.
pub fn rate(server: &str, client: &str, rows: usize) -> Result<f64> {
    let begin = Instant::now();
    let expected = (rows, rows as i64 * (rows as i64 + 1) / 2);
    let found = match client {
        "tokio-postgres, binary" => by_tokio_postgres(server)?,
        "psycopg, binary" => {
            let python = format!("{ROOT}/.deps/venv/bin/python");
            let script = format!("{ROOT}/tests/bench/psycopg_fetch.py");
            let told = told(&python, &[&script, server, SELECT])?;
            let Some((rows, sum)) = told.split_once(' ') else {
                bail!("{client}: {told}")
            };
            (rows.parse()?, sum.parse()?)
        }
        _ => {
            let copy = "\\copy fetched TO '/dev/null'";
            // COPY is not quiet about its rows.
            let told = told("psql", &["-XAt", "-d", server, "-c", copy])?;
            ensure!(told == format!("COPY {rows}"), "{client}: {told}");
            expected
        }
    };
    ensure!(found == expected, "{client}: {found:?}, and not {expected:?}");
    Ok(rows as f64 / begin.elapsed().as_secs_f64())
}

fn by_tokio_postgres(server: &str) -> Result<(usize, i64)> {
    with_client(server, async |client| {
        let rows = client.query_raw(SELECT, Vec::<i64>::new()).await?;
        let mut rows = std::pin::pin!(rows);
        let (mut count, mut sum) = (0, 0);
        while let Some(row) = rows.try_next().await? {
            let (a, b, c): (i64, f64, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            ensure!((b * 7.0).round() as i64 == a && c.len() > 11, "{a} {b} {c}");
            count += 1;
            sum += a;
        }
        Ok((count, sum))
    })
}
