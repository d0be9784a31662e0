//! Averages, quotients and sums of numerics whose digits depend on the values, and dates moved by days.

use super::{alike, begun};
use anyhow::{Result, ensure};
use rand::prelude::*;

const QUERIES: [&str; 26] = [
    "SELECT g, avg(a), avg(b), avg(c), avg(d), avg(e) FROM t GROUP BY g ORDER BY g LIMIT 9",
    "SELECT g, avg(a) FROM t GROUP BY g HAVING avg(a) > $W ORDER BY 2, 1",
    "SELECT g, avg(a), avg(b) FROM t GROUP BY g HAVING avg(a) * 1.2 > avg(b) ORDER BY 1",
    "SELECT g, sum(a) / nullif(sum(b), 0) AS q, sum(c) * 1.0 / nullif(sum(d), 0) FROM t GROUP BY g ORDER BY 2, 1",
    "SELECT g, avg(a) / nullif(avg(b), 0) FROM t GROUP BY g ORDER BY 1",
    "SELECT g, h, sum(a), sum(a) * 100 / nullif(sum(sum(a)) OVER (PARTITION BY g), 0) AS r FROM t GROUP BY g, h ORDER BY 1, 4, 2",
    "SELECT g, sum(a / 2), avg(a / 3), sum(a / $W) FROM t GROUP BY g ORDER BY 1",
    "SELECT g, sum(CASE WHEN c > 0 THEN a ELSE 0 END), avg(CASE WHEN c > 3 THEN b ELSE 0.00000 END) FROM t GROUP BY g ORDER BY 1",
    "SELECT g, sum(coalesce(a, 0)), avg(coalesce(b, 0)), count(*) FROM t GROUP BY g ORDER BY 1",
    "SELECT count(*) FROM t WHERE CASE WHEN b = 0 THEN NULL ELSE a / b END > $W",
    "SELECT count(*), sum(c) FROM t WHERE CASE WHEN d <> 0 THEN c * 1.000 / d END BETWEEN -0.3333 AND 1.5",
    "SELECT g, round(sum(a) / $W, 2), round(sum(b) * 1.0001, 3), round(sum(a), 5) FROM t GROUP BY g ORDER BY 1",
    "SELECT g, max(x) FROM (SELECT g, h, sum(a) / count(*) AS x, count(*) AS n FROM t GROUP BY g, h) s WHERE x > $W GROUP BY g ORDER BY 1",
    "SELECT sum(a / b) FROM t",
    "SELECT t.n, u.q, t.a * u.q FROM t JOIN (SELECT g, avg(a) AS q FROM t GROUP BY g) u ON u.g = t.g WHERE t.a > u.q * 1.1 ORDER BY 1 LIMIT 60",
    "SELECT n, a / 7, b / (c * c + 1), -(a * b) / 3, a * b, e / 1000000000 FROM t WHERE c = 2 ORDER BY n",
    "SELECT n, a + b * 2.50, a - 0.001, a * 1.10 AS p FROM t WHERE a * 1.10 > 5 ORDER BY p, n LIMIT 40",
    "SELECT count(*), sum(n) FROM t JOIN (SELECT day AS other, g AS og FROM t WHERE n < 300) o ON o.og = t.g AND other > day + $K",
    "SELECT count(*), min(day + c), max(day - $K) FROM t WHERE day - c < date '1998-05-01'",
    "SELECT g, count(*) FROM t WHERE abs(a / 3 - b) > $W AND round(a / 7) <> 3 GROUP BY g ORDER BY 1",
    "SELECT g, sum((a / 3)::numeric(9, 3)), max((b * 1.5)::numeric(20, 1)) FROM t GROUP BY g ORDER BY 1",
    "SELECT g, count(*) FROM t WHERE (a * 7)::numeric(6, 1) > 3 GROUP BY g ORDER BY 1",
    "SELECT g FROM t GROUP BY g HAVING CASE avg(a) WHEN 0 THEN 0 ELSE avg(b) / avg(a) END > $W ORDER BY 1",
    "SELECT count(*) FROM t WHERE day + d > date '2000-01-01'",
    "SELECT g, avg(x) FROM (SELECT g, a AS x FROM t WHERE c < 3 UNION ALL SELECT g, b / 3 FROM t WHERE c > 5 UNION ALL SELECT g, avg(a) FROM t GROUP BY g) s GROUP BY g ORDER BY g",
    "SELECT g, h, avg(a) AS x, rank() OVER (PARTITION BY g ORDER BY avg(a)) FROM t GROUP BY g, h ORDER BY 1, 4, 2",
];

/// The same answers on the device and on the CPU, digit by digit, or the same error.
pub(super) async fn numerics() -> Result<()> {
    let (_server, client, mut random, seed) = begun("fragments::numerics").await?;
    client
        .batch_execute(
            "CREATE TABLE t (n int, g int, h text, a numeric(7, 2), b numeric(12, 4), c int, d bigint, e numeric(18, 6), day date)",
        )
        .await?;
    let (nulls, zeros) = (random.random_range(0.0..0.2), random.random_bool(0.5));
    let rows = *[1, 40, 3000].choose(&mut random).unwrap_or(&3000);
    let size: i64 = *[3, 1000, 99_999].choose(&mut random).unwrap_or(&1000);
    let mut values = vec![];
    for n in 0..rows {
        let mut decimal = |unit: i64, least: i64| {
            if random.random_bool(nulls) {
                return "NULL".into();
            }
            let value = random.random_range(-size * unit / 4..size * unit).max(least);
            let sign = if value < 0 { "-" } else { "" };
            let digits = unit.ilog10() as usize;
            let rest = value.unsigned_abs() % unit as u64;
            format!("{sign}{}.{rest:0digits$}", value.unsigned_abs() / unit as u64)
        };
        let a = decimal(100, i64::MIN);
        // A quotient by zero is an error in some runs.
        let b = decimal(10_000, if zeros { i64::MIN } else { 1 });
        let e = decimal(1_000_000, i64::MIN);
        let (g, h) = (random.random_range(0..7), random.random_range(0..5));
        let (c, d) = (random.random_range(-2..9), random.random_range(-50..4000));
        let day = match random.random_ratio(1, 200) {
            true => "date 'infinity'".to_string(),
            false => format!("date '1997-11-01' + {}", random.random_range(0..400)),
        };
        values.push(format!("({n}, {g}, 'h{h}', {a}, {b}, {c}, {d}, {e}, {day})"));
    }
    for values in values.chunks(1000) {
        client
            .batch_execute(&format!("INSERT INTO t VALUES {}", values.join(", ")))
            .await?;
    }
    let mut whole = 0;
    for query in QUERIES {
        let constant = ["0.5", "7", "0.0003", "12.125"].choose(&mut random).unwrap_or(&"7");
        let days = ["3", "-40", "2147480000"].choose(&mut random).unwrap_or(&"3");
        let sql = query.replace("$W", constant).replace("$K", days);
        whole += usize::from(alike(&client, seed, &sql).await?);
    }
    println!("fragments::numerics: {whole} of {} on the device", QUERIES.len());
    ensure!(whole * 2 > QUERIES.len(), "{whole} on the device");
    Ok(())
}
