//! Shapes that reports have: variances that are compared, extremes of and groups by computed numerics, numbers of 128 bits, many
//! sums of cases, texts that are put together for the rows of the result.

use super::{alike, begun_with};
use anyhow::{Result, ensure};
use rand::prelude::*;
use tokio_postgres::Client;

/// Of a table `T` and another one `U`.
const QUERIES: [&str; 33] = [
    // Variances that nodes of the fragment read.
    "SELECT k, s, m, CASE WHEN m = 0 THEN NULL ELSE s / m END AS cov FROM (SELECT k, stddev_samp(q) AS s, avg(q) AS m FROM T GROUP BY k) x \
     WHERE CASE WHEN m = 0 THEN 0 ELSE s / m END > 0.4 ORDER BY 1, 2",
    "WITH x AS (SELECT k, q % 2 AS half, stddev_samp(q) AS s, avg(q) AS m FROM T GROUP BY k, q % 2) \
     SELECT a.k, a.s, a.m, b.s, b.m FROM x a JOIN x b ON a.k = b.k WHERE a.half = 0 AND b.half = 1 AND a.s > b.s / 2 ORDER BY 1, 2",
    "SELECT k, var_pop(p), variance(p), stddev_pop(p) FROM T GROUP BY k HAVING variance(p) > 10 OR stddev_pop(q) < 100 ORDER BY 2, 1",
    "SELECT k, s * 1.5, round(v, 3) FROM (SELECT k, stddev(p) AS s, var_samp(q) AS v FROM T WHERE k < 12 GROUP BY k) x ORDER BY s DESC, k LIMIT 5",
    "SELECT count(*), max(s), min(v) FROM (SELECT k, j, stddev_samp(p) AS s, var_pop(q) AS v FROM T GROUP BY k, j) x WHERE s IS NOT NULL",
    // Groups by numerics that are computed, which show the value with the fewest digits.
    "SELECT k, q - coalesce(r, 0) AS n, p - coalesce(o, 0.0) AS v FROM T WHERE k < 6 UNION SELECT k, q, p FROM U WHERE k > 3 ORDER BY 1, 2, 3",
    "SELECT k, sum(n), sum(v) FROM (SELECT k, j, q - coalesce(r, 0) AS n, p - coalesce(o, 0.0) AS v FROM T \
     UNION SELECT k, j, q, p * 1.00 FROM U) x GROUP BY k ORDER BY k",
    "SELECT DISTINCT p * q, k FROM T ORDER BY 1, 2 LIMIT 50",
    "WITH x AS (SELECT k, j, sum(p) AS p, sum(o) AS o, sum(p) * 1.0000 / nullif(sum(o), 0) AS g FROM T GROUP BY k, j), \
     y AS (SELECT g, k, j, 0 AS level FROM x UNION SELECT sum(p) * 1.0000 / nullif(sum(o), 0), k, NULL, 1 FROM x GROUP BY k \
     UNION SELECT sum(p) * 1.0000 / nullif(sum(o), 0), NULL, NULL, 2 FROM x) \
     SELECT g, k, j, level, rank() OVER (PARTITION BY level ORDER BY g) AS r FROM y ORDER BY level DESC, k, r, j, g",
    "SELECT p / 3 AS third, count(*) FROM T GROUP BY 1 ORDER BY 1",
    "SELECT x, count(*), min(y), max(y) FROM (SELECT avg(p) AS x, max(q * o) AS y FROM T GROUP BY k, j) z GROUP BY x ORDER BY 1, 2 LIMIT 40",
    // Extremes of them.
    "SELECT k, min(p * q), max(p * q), min(p - 0.5), max(CASE WHEN q > 3 THEN p ELSE o END) FROM T GROUP BY k ORDER BY 1",
    "SELECT min(p / 7), max(p / 7), min(CASE WHEN k > 2 THEN p ELSE 1.0 END), max(CASE WHEN k > 2 THEN 0 ELSE 0.000 END) FROM T",
    "SELECT max(s), min(s), max(a), min(a) FROM (SELECT k, sum(p * q) AS s, avg(p * o) AS a FROM T GROUP BY k) x",
    "SELECT j, max(big), min(big), max(big * 10), min(-big) FROM T GROUP BY j ORDER BY 1",
    "SELECT k FROM T GROUP BY k HAVING max(p * q) > 2 * min(p) ORDER BY k",
    "SELECT k, sum(m) FROM T JOIN (SELECT j AS i, max(p * q) AS m FROM U GROUP BY j) x ON j = i GROUP BY k ORDER BY k",
    "SELECT k, j, max(p * o), grouping(k, j) FROM T GROUP BY ROLLUP (k, j) ORDER BY 1, 2, 4",
    // 128 bits.
    "SELECT k, sum(q * p) FROM T GROUP BY k HAVING sum(q * p) > 0.95 * (SELECT max(s) FROM (SELECT k, sum(q * p) AS s FROM U GROUP BY k) x) ORDER BY k",
    "SELECT sum(s) FROM (SELECT k, sum(q * p) * 0.95 AS s, sum(p) * sum(o) * sum(q) AS t FROM T GROUP BY k) x WHERE t <> 0",
    "SELECT k, j, big * p, big * 3 + o, big - p * o FROM T WHERE big * p * o > 1 AND k = 3 ORDER BY 3, 4, 5",
    "SELECT k, sum(big * p), sum(big) * 2 FROM T GROUP BY k ORDER BY k",
    "SELECT k, sum(a) FROM (SELECT k, avg(p) + sum(big) AS a FROM T GROUP BY k, j) x GROUP BY k ORDER BY k",
    // Many columns.
    "$MANY",
    // Texts of the result's rows.
    "SELECT id, coalesce(s, '') || ', ' || coalesce(w, '') AS name, k FROM T WHERE q > 2 ORDER BY q DESC, id LIMIT 30",
    "SELECT id, s || ', ' || w, concat(w, s), rtrim(c), q FROM T WHERE k IN (1, 4) ORDER BY q, id",
    "SELECT T.id, coalesce(U.s, '-') || T.w, upper(U.w) FROM T LEFT JOIN U ON T.id = U.id AND U.k > 4 ORDER BY T.id LIMIT 70",
    "SELECT T.id, x.name FROM T LEFT JOIN (SELECT id, coalesce(s, 'none') || w AS name FROM U WHERE k > 5) x ON T.id = x.id ORDER BY 1",
    "SELECT c, k, count(*) FROM T GROUP BY ROLLUP (c, k) ORDER BY 1, 2, 3",
    "SELECT c::text, sum(q) FROM T GROUP BY c ORDER BY 1",
    "SELECT id, c FROM T WHERE k < 9 ORDER BY c, id",
    "SELECT rtrim(w, '0123'), trim(c), ltrim(s, 'a') FROM T WHERE id > 5 AND rtrim(w) <> trim(c) ORDER BY k, q, id LIMIT 20",
    "SELECT count(*), sum(q) FROM T WHERE rtrim(w, '0 1') = 'w' OR trim(c) LIKE 'c%7' OR ltrim(w, 'w') < '4'",
];

/// Sums of cases by two columns, and of what those are divided by.
fn many() -> String {
    let mut sums = vec![];
    for at in 0..12 {
        sums.push(format!("sum(CASE WHEN q = {at} THEN p * q ELSE 0 END) AS p{at}"));
        sums.push(format!("sum(CASE WHEN q = {at} THEN o * q ELSE 0 END) AS o{at}"));
    }
    let parts = |table: &str| {
        format!(
            "SELECT k, j, {} FROM {table} WHERE j < 4 GROUP BY k, j",
            sums.join(", ")
        )
    };
    let mut columns = vec![];
    for at in 0..12 {
        columns.push(format!("sum(p{at}), sum(p{at} / (k + 1)), sum(o{at})"));
    }
    format!(
        "SELECT k, {} FROM ({} UNION ALL {}) x GROUP BY k ORDER BY k",
        columns.join(", "),
        parts("T"),
        parts("U")
    )
}

async fn table(client: &Client, random: &mut StdRng, name: &str, rows: i32) -> Result<()> {
    let sql = format!(
        "CREATE TABLE {name} (id int, k int, j int, q int, r int, p numeric(7, 2), o numeric(7, 2), big numeric(32, 4), s text, w text, \
         c char(12))"
    );
    client.batch_execute(&sql).await?;
    let nulls = *[0.0, 0.1].choose(random).unwrap_or(&0.1);
    let (sizes, wide) = ([3, 300, 6_000_000], random.random_bool(0.3));
    let size: i64 = *sizes.choose(random).unwrap_or(&300);
    let mut values = vec![];
    for id in 0..rows {
        let mut value = |value: String| match random.random_bool(nulls) {
            true => "NULL".to_string(),
            false => value,
        };
        let (k, j) = (value((id * 3 % 14).to_string()), (id * 5 % 6).to_string());
        let q = value((id * 31 % 13).to_string());
        let r = value((id * 11 % 3).to_string());
        let mut decimal = |of: i64, digits: usize| {
            let unit = 10_i64.pow(digits as u32);
            let own = (i64::from(id) * 7919 + of) % (2 * size) - size / 2;
            let sign = if own < 0 { "-" } else { "" };
            let (whole, rest) = (own.abs() / unit, own.abs() % unit);
            value(format!("{sign}{whole}.{rest:0digits$}"))
        };
        let (p, o) = (decimal(1, 2), decimal(17, 2));
        let big = match wide {
            true => format!("{}{:04}.{:04}", "9".repeat(20), id % 9999, id * 3 % 9999),
            false => decimal(5, 4),
        };
        let s = value(format!(
            "'{}'",
            ["", "a", "ab ", "äß", "a longer text"][id as usize % 5]
        ));
        let w = value(format!("'w{}{}'", id * 17 % 5003, " ".repeat(id as usize % 3)));
        let c = value(format!("'c{}'", id % 900));
        values.push(format!("({id}, {k}, {j}, {q}, {r}, {p}, {o}, {big}, {s}, {w}, {c})"));
    }
    for values in values.chunks(1000) {
        let sql = format!("INSERT INTO {name} VALUES {}", values.join(", "));
        client.batch_execute(&sql).await?;
    }
    Ok(())
}

/// The query of these tables.
fn of_tables(query: &str, [first, second]: [&str; 2]) -> String {
    let named = |sql: &str, of: char, name: &str| {
        let sql = sql.replace(&format!("FROM {of} "), &format!("FROM {name} AS {of} "));
        let sql = sql.replace(&format!("FROM {of})"), &format!("FROM {name} AS {of})"));
        let sql = sql.replace(&format!("JOIN {of} "), &format!("JOIN {name} AS {of} "));
        match sql.strip_suffix(&format!("FROM {of}")) {
            Some(begin) => format!("{begin}FROM {name} AS {of}"),
            None => sql,
        }
    };
    named(&named(&query.replace("$MANY", &many()), 'T', first), 'U', second)
}

/// The same answers on the device and on the CPU. NVRTC compiles the code of some, too, which takes long.
pub(super) async fn shapes() -> Result<()> {
    let (mut asked, mut whole) = (0, 0);
    let tables = [("many", 3000), ("others", 700), ("one", 1), ("none", 0)];
    for (nvrtc, queries) in [("0", [14, 4, 3]), ("1", [3, 0, 0])] {
        let (_server, client, mut random, seed) =
            begun_with("fragments::shapes", &[("TENON_SIM_NVRTC", nvrtc)]).await?;
        for (name, rows) in tables {
            table(&client, &mut random, name, rows).await?;
        }
        for (queries, of) in queries
            .into_iter()
            .zip([["many", "others"], ["one", "many"], ["none", "one"]])
        {
            for query in QUERIES.choose_multiple(&mut random, queries) {
                asked += 1;
                whole += usize::from(alike(&client, seed, &of_tables(query, of)).await?);
            }
        }
    }
    println!("fragments::shapes: {whole} of {asked} on the device");
    ensure!(whole * 5 > asked * 4, "{whole} of {asked} on the device");
    Ok(())
}
