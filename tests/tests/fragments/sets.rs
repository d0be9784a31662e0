//! GROUPING SETS, ROLLUP and CUBE.

use super::{alike, begun};
use anyhow::{Result, ensure};
use rand::prelude::*;

const KEYS: [&str; 6] = ["a", "b", "s", "w", "d", "x"];
const AGGREGATES: [&str; 7] = [
    "count(*)",
    "count(n)",
    "sum(n)",
    "avg(m)",
    "min(d)",
    "max(m)",
    "sum(m) FILTER (WHERE a > 2)",
];

/// The same groups on the device and on the CPU.
pub(super) async fn grouping_sets() -> Result<()> {
    let (_server, client, mut random, seed) = begun("fragments::grouping_sets").await?;
    let mut tables = vec![];
    for (name, rows) in [("none", 0), ("one", 1), ("many", 6000)] {
        let sql = format!(
            "CREATE TABLE {name} (a int, b bigint, s text, w text, d date, x bool, n int, m numeric(12, 2), k int)"
        );
        client.batch_execute(&sql).await?;
        let mut values = vec![];
        for row in 0..rows {
            let mut value = |value: String| match random.random_ratio(1, 20) {
                true => "NULL".to_string(),
                false => value,
            };
            let a = value(format!("{}", row * 7 % 5));
            let b = value(format!("{}", (row * 31 % 11) as i64 * 10_000_000_019));
            let s = value(format!("'s{}'", row % 3));
            let w = value(format!("'a text of its own, number {}'", row * 13 % 5000));
            let d = value(format!("date '1999-12-30' + {}", row % 4));
            let x = value(format!("{}", row % 2 == 0));
            let n = value(format!("{}", row as i64 * 7919 % 1000 - 300));
            let m = value(format!("{}.{:02}", row * 17 % 4000, row % 100));
            values.push(format!("({a}, {b}, {s}, {w}, {d}, {x}, {n}, {m}, {})", row % 50));
        }
        for values in values.chunks(1000) {
            client
                .batch_execute(&format!("INSERT INTO {name} VALUES {}", values.join(", ")))
                .await?;
        }
        tables.push(name);
    }
    client
        .batch_execute("CREATE TABLE dim AS SELECT i AS k, 'dim ' || i % 6 AS v FROM generate_series(0, 40) i")
        .await?;
    let (mut asked, mut whole) = (0, 0);
    for at in 0..18 {
        let table = match at % 6 {
            0 => "none",
            1 => "one",
            _ => "many",
        };
        let keys: Vec<&str> = KEYS.choose_multiple(&mut random, 3).copied().collect();
        let [first, second, third] = keys[..] else { continue };
        let sets = match random.random_range(0..5) {
            0 => format!("ROLLUP ({first}, {second}, {third})"),
            1 => format!("CUBE ({first}, {second})"),
            2 => format!("GROUPING SETS (({first}, {second}, {third}), ({second}), ({third}, {first}))"),
            3 => format!("GROUPING SETS (({first}, {second}), ({second}, {first}), (), ({first}), ())"),
            _ => format!("{first}, ROLLUP ({second}, {third})"),
        };
        let shown: Vec<&str> = keys.iter().copied().filter(|key| sets.contains(key)).collect();
        let aggregates: Vec<&str> = AGGREGATES.choose_multiple(&mut random, 3).copied().collect();
        let having = ["", " HAVING count(*) > 2"].choose(&mut random).unwrap_or(&"");
        let columns = shown.join(", ");
        let count = shown.len() + 1 + aggregates.len();
        let order: Vec<String> = (1..=count).map(|at| at.to_string()).collect();
        let sql = format!(
            "SELECT {columns}, grouping({columns}), {} FROM {table} GROUP BY {sets}{having} ORDER BY {}",
            aggregates.join(", "),
            order.join(", ")
        );
        asked += 1;
        whole += usize::from(alike(&client, seed, &sql).await?);
    }
    let others = [
        "SELECT v, s, count(*), sum(n) FROM many JOIN dim USING (k) GROUP BY ROLLUP (v, s) ORDER BY 1, 2, 3",
        "SELECT v, s, sum(n), rank() OVER (PARTITION BY grouping(v) + grouping(s) ORDER BY sum(n) DESC, v, s) \
         FROM many JOIN dim USING (k) GROUP BY ROLLUP (v, s) ORDER BY 1, 2, 3",
        "SELECT * FROM (SELECT a, s, avg(m) AS x FROM many GROUP BY ROLLUP (a, s)) t WHERE x > 100 ORDER BY x, a, s LIMIT 7",
    ];
    for sql in others {
        asked += 1;
        whole += usize::from(alike(&client, seed, sql).await?);
    }
    println!("fragments::grouping_sets: {whole} of {asked} on the device");
    ensure!(whole * 3 > asked, "{whole} of {asked} on the device");
    Ok(())
}
