//! Sorts that keep their first rows, whose scans pass over what cannot be among them, against the same sorts by keys that are
//! no columns, whose scans read all rows.

use crate::process::{Server, rows};
use crate::{seed, trial};
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::Client;

/// Rows of the tables: more than a segment, more than one core reads, one, and none.
const TABLES: [(&str, usize); 4] = [("big", 180_000), ("some", 50_000), ("single", 1), ("empty", 0)];

pub fn trials() -> Vec<Trial> {
    vec![
        trial("tops::same_rows", same_rows),
        trial("tops::few_rows_are_read", few_rows_are_read),
        trial("tops::first_rows_by_index", first_rows_by_index),
    ]
}

async fn fill(client: &Client) -> Result<()> {
    client
        .batch_execute(
            "CREATE TABLE side (g bigint, w int); INSERT INTO side SELECT g, g * 3 FROM generate_series(-2, 5) g",
        )
        .await?;
    for (name, count) in TABLES {
        // Ascending, descending, in no order, with ties and NULLs; some with values of the first column in the middle of others.
        let columns = "g, -g, g::bigint * 7919 % 100003, CASE WHEN g % 7 > 0 THEN g / 1000 END, 'v' || g::bigint * 7919 % 5003,
             CASE WHEN g % 1000 > 0 THEN g / 3.0 END, g * 1.25, timestamp '2020-01-01' + g * interval '1 minute', g % 9 - 2";
        let sql = format!(
            "CREATE TABLE {name} (up int, down int, mixed int, ties bigint, v text, f float8, n numeric(12,2), t timestamp, g bigint);
             INSERT INTO {name} SELECT {columns} FROM generate_series(1, {count}) AS g;
             INSERT INTO {name} SELECT {columns} FROM generate_series({count} / 2, {count} / 2 + {count} / 20) AS g"
        );
        client.batch_execute(&sql).await?;
    }
    client
        .batch_execute(
            "CREATE INDEX ON some (g); CREATE INDEX ON some (ties, v); CREATE INDEX ON some (n); CREATE INDEX ON some (f);
             CREATE INDEX ON some (down); CREATE INDEX ON some (v) WHERE up > 100;
             CREATE INDEX ON big (mixed); CREATE INDEX ON big (g, t); CREATE INDEX ON big (ties); CREATE INDEX ON big (v, n)",
        )
        .await?;
    Ok(())
}

const KEYS: [&str; 9] = ["up", "down", "mixed", "ties", "v", "f", "n", "t", "g"];

/// A query twice: by columns, and by what no scan knows.
fn query(random: &mut StdRng) -> (String, String) {
    let (table, count) = TABLES[random.random_range(0..TABLES.len())];
    let wanted = [1, 1, 2, 3][random.random_range(0..4)];
    let mut keys: Vec<(&str, String)> = vec![];
    for _ in 0..wanted {
        let key = KEYS[random.random_range(0..KEYS.len())];
        let direction = ["", " DESC", " DESC"][random.random_range(0..3)];
        let nulls = ["", "", " NULLS FIRST", " NULLS LAST"][random.random_range(0..4)];
        keys.push((key, format!("{direction}{nulls}")));
    }
    let near = random.random_range(0..count.max(1));
    let condition = [
        "true".to_owned(),
        "true".to_owned(),
        format!("a.g = {}", random.random_range(-2..8)),
        format!("a.up < {near}"),
        format!("a.up BETWEEN {near} AND {near} + 30000"),
        "a.ties IS NULL".to_owned(),
        format!("a.mixed > {near} AND a.f IS NOT NULL"),
        format!("a.g = {} AND a.up > {near}", random.random_range(-2..8)),
        format!("a.ties = {}", near / 1000),
        format!("a.v = 'v{}'", near % 5003),
        format!("a.n < {near} AND a.up > 100"),
        format!("a.v < 'v{}' AND a.n > {near}", random.random_range(0..6)),
        format!("a.mixed % 1000 = {}", random.random_range(0..4)),
    ];
    let condition = &condition[random.random_range(0..condition.len())];
    let from = [
        "t a",
        "t a",
        "t a",
        "t a JOIN side s ON s.g = a.g",
        "t a LEFT JOIN side s ON s.g = a.g",
        "side s LEFT JOIN t a ON s.g = a.g AND a.up < 500",
        "(SELECT * FROM t UNION ALL SELECT * FROM some) a",
        "(SELECT up, down, mixed, ties, v, f, n, t, g FROM t WHERE g > 0) a",
    ][random.random_range(0..8)];
    let from = from
        .replace("t a", &format!("{table} a"))
        .replace("FROM t ", &format!("FROM {table} "));
    let limit = [0, 1, 3, 10, 100, 3000][random.random_range(0..6)];
    let offset = [0, 0, 2, 50][random.random_range(0..4)];
    let items: Vec<String> = keys.iter().map(|(key, _)| format!("a.{key}")).collect();
    let by = |key: &dyn Fn(&str) -> String| {
        let keys: Vec<String> = keys
            .iter()
            .map(|(name, order)| format!("{}{order}", key(name)))
            .collect();
        keys.join(", ")
    };
    let sql = |by: String| {
        format!(
            "SELECT {} FROM {from} WHERE {condition} ORDER BY {by} LIMIT {limit} OFFSET {offset}",
            items.join(", ")
        )
    };
    let hidden = |name: &str| format!("CASE WHEN a.up IS NOT NULL THEN a.{name} END");
    (sql(by(&|name: &str| format!("a.{name}"))), sql(by(&hidden)))
}

fn change(random: &mut StdRng) -> String {
    let (table, count) = TABLES[random.random_range(0..TABLES.len())];
    let near = random.random_range(0..count.max(1));
    match random.random_range(0..4) {
        0 => format!("DELETE FROM {table} WHERE up BETWEEN {near} AND {near} + 900"),
        1 => format!("UPDATE {table} SET up = -up, ties = NULL WHERE up BETWEEN {near} AND {near} + 20"),
        2 => format!("INSERT INTO {table} VALUES ({near} * 10, 5, 5, NULL, NULL, 'NaN', 7, NULL, 1)"),
        _ => format!("DELETE FROM {table} WHERE up > {count} - 3000 OR ties IS NULL AND up % 2 = 0"),
    }
}

async fn same_rows() -> Result<()> {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(&["--threads=2"])?;
    let client = server.connect().await?;
    fill(&client).await?;
    let mut within = false;
    for round in 0..150 {
        if random.random_bool(0.1) {
            let order = match (within, random.random_bool(0.5)) {
                (false, _) => "BEGIN",
                (true, true) => "COMMIT",
                (true, false) => "ROLLBACK",
            };
            client.batch_execute(order).await?;
            within = !within;
        }
        if random.random_bool(0.15) {
            client.batch_execute(&change(&mut random)).await?;
        }
        let (sql, plain) = query(&mut random);
        // Twice: the second time by a plan that is kept.
        for _ in 0..2 {
            let found = rows(&client, &sql).await.with_context(|| sql.clone())?;
            let expected = rows(&client, &plain).await.with_context(|| plain.clone())?;
            ensure!(
                found == expected,
                "round {round}: {sql}\n{found:?}\nand not\n{expected:?}"
            );
        }
    }
    Ok(())
}

/// Of a table that is stored in the opposite order, one morsel is read and the rest passed over.
async fn few_rows_are_read() -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let client = server.connect().await?;
    client
        .batch_execute("CREATE TABLE t (up int, down int, g int); INSERT INTO t SELECT g, -g, g % 10 FROM generate_series(1, 600000) g")
        .await?;
    for order in ["up DESC", "down", "down ASC, g", "up DESC NULLS LAST OFFSET 3"] {
        for condition in ["", "WHERE g = 3"] {
            let sql = format!("EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM t {condition} ORDER BY {order} LIMIT 10");
            let lines = rows(&client, &sql).await?.concat();
            let lines: String = lines.into_iter().flatten().map(|line| line + "\n").collect();
            let pruned = lines.split("Rows Pruned: ").nth(1).context(lines.clone())?;
            let pruned: String = pruned.chars().take_while(char::is_ascii_digit).collect();
            ensure!(pruned.parse::<usize>()? > 400_000, "{sql}\n{lines}");
        }
    }
    Ok(())
}

/// An index in the sort's order gives the first rows of a table that is stored in no order, through filters and joins.
async fn first_rows_by_index() -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE u (id int PRIMARY KEY, name text); INSERT INTO u SELECT g, 'u' || g FROM generate_series(0, 999) g;
             CREATE TABLE t (id int PRIMARY KEY, u int, at int, kind text);
             INSERT INTO t SELECT g, g % 1000, g::bigint * 7919 % 200003, 'k' || g % 50 FROM generate_series(1, 200000) g;
             CREATE INDEX ON t (at); CREATE INDEX ON t (kind, at) WHERE u > 5",
        )
        .await?;
    for query in [
        "SELECT * FROM t ORDER BY at LIMIT 10",
        "SELECT * FROM t ORDER BY at DESC, id LIMIT 10 OFFSET 20",
        "SELECT * FROM t WHERE at > 70000 AND u % 3 = 1 ORDER BY at LIMIT 10",
        "SELECT * FROM t WHERE kind = 'k7' AND u > 5 ORDER BY at DESC LIMIT 10",
        "SELECT md5(kind), t.* FROM t ORDER BY at LIMIT 10",
        "SELECT * FROM t JOIN u ON u.id = t.u ORDER BY at LIMIT 10",
        "SELECT * FROM t JOIN u ON u.id = t.u WHERE name < 'u2' ORDER BY at DESC LIMIT 10",
        "SELECT * FROM t LEFT JOIN u ON u.id = t.u AND u.name > 'u5' ORDER BY at LIMIT 10",
    ] {
        let lines = rows(&client, &format!("EXPLAIN (ANALYZE, COSTS OFF) {query}"))
            .await?
            .concat();
        let lines: String = lines.into_iter().flatten().map(|line| line + "\n").collect();
        let found = lines.split("Rows Found By Index: ").nth(1).context(lines.clone())?;
        let found: String = found.chars().take_while(char::is_ascii_digit).collect();
        let few = 1..3000;
        ensure!(
            few.contains(&found.parse::<usize>()?) && !lines.contains("Seq Scan on t"),
            "{query}\n{lines}"
        );
    }
    Ok(())
}
