//! Sums over window frames with exclusions, against sums of the lists of what the same frames hold.

use crate::process::{Server, rows};
use crate::{seed, trial};
use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub fn trials() -> Vec<Trial> {
    vec![trial("frames::exclusions", exclusions)]
}

async fn exclusions() -> Result<()> {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(&["--threads=2"])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE t (id int, p int, k int, x int, n numeric);
             INSERT INTO t SELECT g, g % 4, g * 7 % 23, nullif(g % 11, 3), CASE WHEN g % 13 > 0 THEN g / 8.0 END FROM generate_series(1, 300) g;
             INSERT INTO t VALUES (301, 9, 1, NULL, NULL), (302, 8, NULL, 5, 'NaN')",
        )
        .await?;
    for _ in 0..60 {
        let mut one = |of: &[&str]| of[random.random_range(0..of.len())].to_owned();
        let units = one(&["ROWS", "GROUPS", "RANGE"]);
        let start = one(&["UNBOUNDED PRECEDING", "3 PRECEDING", "CURRENT ROW", "1 FOLLOWING"]);
        let end = match start.as_str() {
            "1 FOLLOWING" => one(&["UNBOUNDED FOLLOWING", "4 FOLLOWING"]),
            _ => one(&["UNBOUNDED FOLLOWING", "2 FOLLOWING", "CURRENT ROW"]),
        };
        let exclude = one(&["CURRENT ROW", "GROUP", "TIES"]);
        let partition = one(&["", "PARTITION BY p", "PARTITION BY x % 2"]);
        let order = one(&["k", "k DESC", "x"]);
        let filter = one(&["", "FILTER (WHERE x > 2)"]);
        let column = one(&["x", "n"]);
        // Rows of one key have no order among them that both forms share, but for groups of them.
        let order = if units == "ROWS" { "id".to_owned() } else { order };
        let over =
            format!("{filter} OVER ({partition} ORDER BY {order} {units} BETWEEN {start} AND {end} EXCLUDE {exclude})");
        let sums =
            format!("SELECT id, sum({column}) {over}, count({column}) {over}, avg({column}) {over} FROM t ORDER BY id");
        let lists = format!(
            "SELECT id, (SELECT sum(u) FROM unnest(l) u), (SELECT count(u) FROM unnest(l) u), (SELECT avg(u) FROM unnest(l) u)
             FROM (SELECT id, array_agg({column}) {over} AS l FROM t) s ORDER BY id"
        );
        let (found, expected) = (rows(&client, &sums).await?, rows(&client, &lists).await?);
        ensure!(found == expected, "{sums}\n{found:?}\nand not\n{expected:?}");
    }
    Ok(())
}
