//! Correlated subqueries that run for many rows together, against the same run row by row: a volatile condition that always
//! holds keeps them apart.

use crate::process::{Server, rows};
use crate::{seed, trial};
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![trial("together::same_rows", same_rows)]
}

async fn fill(client: &Client) -> Result<()> {
    client
        .batch_execute(
            "CREATE TABLE a (id int, k int, x int, y numeric, s text, c char(3), arr int[], words text[]);
             INSERT INTO a SELECT g, nullif(g % 7, 3), nullif(g % 11, 5), g / 4.0, 's' || g % 5, 'c' || g % 4,
                 CASE g % 6 WHEN 0 THEN NULL WHEN 1 THEN '{}' WHEN 2 THEN ARRAY[g, NULL, 3] ELSE ARRAY[g % 3, g % 5, g] END,
                 CASE g % 4 WHEN 0 THEN NULL ELSE ARRAY['s' || g % 5, 's1', NULL] END FROM generate_series(1, 60) g;
             CREATE TABLE b (id int, k int, x int, y numeric, s text, c char(3));
             INSERT INTO b SELECT g, nullif(g % 5, 2), nullif(g % 13, 4), g / 8.0, 's' || g % 3, 'c' || g % 6 FROM generate_series(1, 90) g;
             CREATE TABLE none (id int, k int, x int, y numeric, s text, c char(3));
             CREATE TABLE one (id int, k int, x int, y numeric, s text, c char(3));
             INSERT INTO one VALUES (1, 1, 1, 1, 's1', 'c1');
             CREATE TABLE long (id int, k int, x int, y numeric, s text, c char(3));
             INSERT INTO long SELECT g, g % 50, g % 1000, g / 8.0, 's' || g % 30, 'c' || g % 6 FROM generate_series(1, 9000) g;
             CREATE INDEX ON long (k)",
        )
        .await?;
    Ok(())
}

fn one_of<'a>(random: &mut StdRng, of: &[&'a str]) -> &'a str {
    of[random.random_range(0..of.len())]
}

/// Conditions on the rows of `i`, of one of the inner tables, beside a row of `a`.
fn condition(random: &mut StdRng) -> String {
    let one = [
        "i.k = a.k",
        "i.k = a.k",
        "i.x < a.x",
        "i.x >= a.x - 3 AND i.x < a.x + 2",
        "i.s = a.s AND i.k IS NOT DISTINCT FROM a.k",
        "i.c = a.c",
        "i.y > a.y + 2",
        "i.k = a.k AND i.x <> a.x",
        "i.k + a.k = 4",
        "i.x = ANY (a.arr)",
    ];
    let mut all = one_of(random, &one).to_owned();
    if random.random_bool(0.3) {
        all += &format!(" AND {}", one_of(random, &one));
    }
    all
}

/// A subquery with `{apart}` in a condition of it.
fn subquery(random: &mut StdRng, columns: usize) -> String {
    let table = one_of(random, &["b", "b", "b", "none", "one", "long"]);
    let order = one_of(
        random,
        &[
            "i.x DESC, i.id",
            "i.y, i.id",
            "i.s DESC NULLS LAST, i.id DESC",
            "a.x - i.x, i.id",
            "i.id",
        ],
    );
    let limit = one_of(
        random,
        &[
            "LIMIT 1",
            "LIMIT 3",
            "LIMIT 2 OFFSET 1",
            "OFFSET 80",
            "LIMIT 0",
            "FETCH FIRST 2 ROWS ONLY",
        ],
    );
    let condition = condition(random);
    let (item, aggregate) = match columns {
        1 => (
            "i.y + a.x",
            one_of(
                random,
                &[
                    "sum(i.y)",
                    "count(*)",
                    "max(i.s)",
                    "count(i.x) + a.x",
                    "array_agg(i.x ORDER BY i.id)",
                    "avg(i.x - a.x)",
                    "min(i.y) FILTER (WHERE i.x > a.k)",
                    "string_agg(i.s, ',' ORDER BY i.id)",
                    "coalesce(sum(i.x), -1)",
                    "count(DISTINCT i.s)",
                ],
            ),
        ),
        _ => (
            "i.x, i.s || a.s",
            one_of(
                random,
                &[
                    "sum(i.y), count(*)",
                    "max(i.s), a.k + count(i.k)",
                    "bool_or(i.x > a.x), 7",
                ],
            ),
        ),
    };
    let set = match random.random_range(0..4) {
        0 => "unnest(a.arr) WITH ORDINALITY AS u (x, id)".to_owned(),
        1 => "(SELECT u AS x, u * 2 AS id FROM unnest(a.arr) AS u) AS u".to_owned(),
        2 => "(VALUES (a.k, 1), (a.x, 2), (7, 3), (NULL, 4)) AS u (x, id)".to_owned(),
        _ => "generate_series(a.k, a.x) WITH ORDINALITY AS u (x, id)".to_owned(),
    };
    let (of_set, first) = match columns {
        1 => (
            one_of(
                random,
                &[
                    "sum(u.x)",
                    "count(*)",
                    "max(u.x) + a.k",
                    "array_agg(u.x ORDER BY u.id)",
                    "count(u.x)",
                ],
            ),
            "u.x + 1",
        ),
        _ => (one_of(random, &["sum(u.x), count(*)", "min(u.id), a.s"]), "u.x, u.id"),
    };
    match random.random_range(0..12) {
        0 => format!("SELECT {item} FROM {table} i WHERE {condition} AND {{apart}} ORDER BY {order} {limit}"),
        1 => format!("SELECT {aggregate} FROM {table} i WHERE {condition} AND {{apart}}"),
        2 => format!("SELECT {of_set} FROM {set} WHERE {{apart}}"),
        3 => format!("SELECT {first} FROM {set} WHERE u.x > a.k AND {{apart}} ORDER BY u.id {limit}"),
        4 => format!("SELECT {of_set} FROM {set} JOIN {table} i ON i.x = u.x WHERE {{apart}}"),
        5 => format!(
            "SELECT {aggregate} FROM (SELECT * FROM {table} i WHERE {condition} AND {{apart}} ORDER BY {order} {limit}) i"
        ),
        6 => format!(
            "SELECT {first} FROM {set} LEFT JOIN {table} i ON i.x = u.x AND i.k = a.k WHERE {{apart}} ORDER BY u.id, u.x, i.id {limit}"
        ),
        7 => format!(
            "SELECT {aggregate} FROM {table} i WHERE {condition} AND {{apart}} GROUP BY i.s HAVING count(*) > a.k - 3 ORDER BY 1 {limit}"
        ),
        8 => format!(
            "SELECT {aggregate} FROM {table} i LEFT JOIN b j ON j.id = i.id AND j.x > a.x WHERE {condition} AND {{apart}}"
        ),
        9 if columns == 1 => format!(
            "SELECT i.x FROM {table} i WHERE {condition} AND {{apart}} UNION SELECT a.x UNION ALL SELECT u.x FROM {set} ORDER BY 1 {limit}"
        ),
        10 if columns == 1 => {
            format!("SELECT DISTINCT i.k + a.k FROM {table} i WHERE {condition} AND {{apart}} ORDER BY 1 {limit}")
        }
        _ if columns == 1 => format!(
            "SELECT sum(i.x) OVER (PARTITION BY i.s ORDER BY i.id) FROM {table} i WHERE {condition} AND {{apart}} ORDER BY i.id {limit}"
        ),
        _ => format!("SELECT {item} FROM {table} i WHERE {condition} AND {{apart}} ORDER BY {order}"),
    }
}

fn query(random: &mut StdRng) -> String {
    let from = one_of(
        random,
        &["a", "a", "a WHERE a.id > 57", "a WHERE a.id < 0", "a WHERE a.k = 4"],
    );
    let (one, two) = (subquery(random, 1), subquery(random, 2));
    let and = if from.contains("WHERE") { "AND" } else { "WHERE" };
    match random.random_range(0..7) {
        0 => format!("SELECT a.id, ({one}) FROM {from} ORDER BY a.id"),
        1 => format!("SELECT a.id FROM {from} {and} EXISTS ({one}) ORDER BY a.id"),
        2 => format!("SELECT a.id FROM {from} {and} NOT EXISTS ({two}) ORDER BY a.id"),
        3 => format!("SELECT a.id, a.x IN ({one}), a.k NOT IN ({one}) FROM {from} ORDER BY a.id"),
        4 => format!("SELECT a.id, CASE WHEN a.k > 3 THEN ({one}) ELSE ({one}) END FROM {from} ORDER BY a.id"),
        5 => format!(
            "SELECT a.id, l.* FROM {}, LATERAL ({two}) AS l (p, q) ORDER BY a.id, p, q",
            from.split(' ').next().unwrap_or(from)
        ),
        _ => format!(
            "SELECT a.id, l.* FROM a LEFT JOIN LATERAL ({two}) AS l (p, q) ON l.q IS NOT NULL ORDER BY a.id, p, q"
        ),
    }
}

async fn same_rows() -> Result<()> {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(&["--threads=2"])?;
    let client = server.connect().await?;
    fill(&client).await?;
    let mut answered = 0;
    for round in 0..120 {
        let sql = query(&mut random);
        let found = rows(&client, &sql.replace("{apart}", "true")).await;
        let expected = rows(&client, &sql.replace("{apart}", "random() < 2")).await;
        let code = |error: &anyhow::Error| {
            error
                .downcast_ref::<tokio_postgres::Error>()
                .map(crate::process::sql_state)
        };
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                ensure!(
                    found == expected,
                    "round {round}: {sql}\n{found:?}\nand not\n{expected:?}"
                );
                answered += 1;
            }
            (Err(found), Err(expected)) => {
                ensure!(
                    code(&found) == code(&expected),
                    "round {round}: {sql}\n{found:?}\nand not\n{expected:?}"
                );
            }
            (found, expected) => {
                found.map(drop).with_context(|| format!("round {round}: {sql}"))?;
                expected
                    .map(drop)
                    .with_context(|| format!("round {round}, row by row: {sql}"))?;
            }
        }
    }
    ensure!(answered > 60, "only {answered} queries were answered");
    Ok(())
}
