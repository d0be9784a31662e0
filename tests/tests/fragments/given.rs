//! Joins whose small side has no device form: the CPU makes its rows, the rest is one fragment.

use super::answer;
use crate::process::{Server, rows};
use anyhow::{Result, ensure};
use rand::prelude::*;

/// Small sides of joins with `f`, by a key `k`, of which some have no device form, each with what is read of it.
const SIDES: [(&str, &str); 6] = [
    ("(SELECT k, substr(name, 1, 3) AS v FROM d)", "v"),
    ("(SELECT k, upper(name) AS v FROM d WHERE k % 3 <> 1)", "v"),
    ("(SELECT k, name || '!' AS v, x FROM d WHERE x / 3 > 1.5)", "v"),
    ("(SELECT k, max(name || '-') AS v FROM d GROUP BY k)", "v"),
    (
        "(SELECT d.k, e.v FROM d JOIN (SELECT k, reverse(name) AS v FROM d) e ON e.k = d.k)",
        "v",
    ),
    ("(SELECT k, x / 7 AS v FROM d)", "v"),
];

/// Queries over `f` and a side `p` that have the same rows in the same order on the device and on the CPU, before and after the
/// side's rows have changed.
pub(super) async fn rows_of_the_cpu() -> Result<()> {
    let seed = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| rand::rng().random());
    println!("fragments::rows_of_the_cpu: seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let device = std::env::var("TENON_DEVICE").unwrap_or_else(|_| "sim".into());
    let server = Server::start_with(&[], &[("TENON_DEVICE", &device)])?;
    let client = server.connect().await?;
    let names = ["", "a", "abcd", "abce", "zebra"];
    let dims: Vec<String> = (0..random.random_range(1..40))
        .map(|k| {
            let name = names.choose(&mut random).unwrap_or(&"");
            let null = random.random_ratio(1, 8);
            let name = if null { "NULL".to_string() } else { format!("'{name}'") };
            format!(
                "({}, {name}, {}.25)",
                k / random.random_range(1..3),
                random.random_range(0..30)
            )
        })
        .collect();
    client
        .batch_execute(&format!(
            "SET tenon.wait_for_compile = on; \
             CREATE TABLE d(k int, name text, x numeric(8, 2)); INSERT INTO d VALUES {}; \
             CREATE TABLE f AS SELECT CASE WHEN i % 11 <> 0 THEN i % 37 END AS k, i % 5 AS g, i AS n \
             FROM generate_series(1, 3000) i",
            dims.join(", ")
        ))
        .await?;
    let queries: Vec<String> = SIDES
        .iter()
        .flat_map(|(side, column)| {
            [
                format!("SELECT p.{column}, count(*), sum(f.n) FROM f JOIN {side} p ON f.k = p.k GROUP BY 1 ORDER BY 1"),
                format!(
                    "SELECT f.g, p.{column}, max(f.n) FROM f LEFT JOIN {side} p ON f.k = p.k GROUP BY 1, 2 ORDER BY 1, 2"
                ),
                format!("SELECT count(*), sum(n) FROM f WHERE k IN (SELECT k FROM {side} p WHERE {column} IS NOT NULL)"),
            ]
        })
        .collect();
    let changes = [
        "SELECT 1",
        "INSERT INTO d VALUES (36, 'new name', 11), (2, 'abzz', 29.5)",
        "DELETE FROM d",
    ];
    let mut given = 0;
    for change in changes {
        client.batch_execute(change).await?;
        for sql in &queries {
            let expected = answer(&client, "cpu", sql).await?;
            // Again with what was made for the first.
            for _ in 0..2 {
                let found = answer(&client, "gpu", sql).await?;
                ensure!(
                    found == expected && found.is_ok(),
                    "seed {seed}, after {change}: {sql}\ncpu {expected:?}\ngpu {found:?}"
                );
            }
            let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
            given += usize::from(
                plan.iter()
                    .flatten()
                    .flatten()
                    .any(|line| line.contains("rows of the CPU")),
            );
        }
    }
    println!(
        "fragments::rows_of_the_cpu: {given} of {} with such",
        queries.len() * changes.len()
    );
    ensure!(given * 3 > queries.len() * changes.len(), "{given}");
    Ok(())
}

/// Groups of rows that come more than once, as many as they are: the side that is looked up is small, and its rows have many
/// partners, which the planner expects to be one.
pub(super) async fn groups_of_partners() -> Result<()> {
    let device = std::env::var("TENON_DEVICE").unwrap_or_else(|_| "sim".into());
    let server = Server::start_with(&[], &[("TENON_DEVICE", &device)])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "SET tenon.wait_for_compile = on; \
             CREATE TABLE s AS SELECT i AS k, i % 3 AS day, i * 100003 AS item FROM generate_series(1, 4000) i; \
             CREATE TABLE r AS SELECT i * 40 AS k FROM generate_series(1, 100) i; \
             CREATE TABLE days AS SELECT i AS day, 2000 + i AS year FROM generate_series(0, 2) i",
        )
        .await?;
    let sql = "SELECT year, item, count(*) FROM s LEFT JOIN r ON r.k = s.k JOIN days ON days.day = s.day \
               WHERE r.k IS NULL GROUP BY year, item ORDER BY 1, 2";
    let expected = answer(&client, "cpu", sql).await?;
    for _ in 0..2 {
        let found = answer(&client, "gpu", sql).await?;
        ensure!(
            found == expected && found.is_ok(),
            "cpu {expected:.300?}\ngpu {found:.300?}"
        );
    }
    let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
    let plan: Vec<String> = plan.into_iter().flatten().flatten().collect();
    ensure!(!plan.iter().any(|line| line.contains("a table is full")), "{plan:#?}");
    Ok(())
}
