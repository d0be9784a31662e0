//! Joins inside fragments on the simulated GPU that need no table of hashes.

use super::columns::on_cpu;
use super::{SIMULATOR, connected};
use crate::process::{Server, rows};
use anyhow::{Context, Result, ensure};
use tokio_postgres::Client;

/// Joins by bounds, of more pairs than are tried one by one: the rows of one side are sorted, and the others search them.
pub async fn by_bounds() -> Result<()> {
    let server = Server::start_with(&[], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client
        .batch_execute(
            "CREATE TABLE b AS SELECT g * 7919 % 90001 AS k, g % 100 AS x, CASE WHEN g % 9 > 0 THEN g % 50 END AS w \
             FROM generate_series(1, 12000) q (g); \
             CREATE TABLE p AS SELECT CASE WHEN g % 13 > 0 THEN g * 31 % 90001 END AS k, (g % 3000 / 7.0)::numeric(9, 2) AS n, \
             date '2020-01-01' + g % 4000 AS d, g AS y FROM generate_series(1, 12000) q (g); \
             CREATE TABLE e AS SELECT * FROM p WHERE y < 0; \
             CREATE TABLE i AS SELECT CASE WHEN g % 17 > 0 THEN g * 7919 % 90001 END AS lo, \
             CASE WHEN g % 19 > 0 THEN g * 7919 % 90001 + g % 40 - 5 END AS hi, g AS z FROM generate_series(1, 12000) q (g)",
        )
        .await?;
    bounded(&client, "").await?;
    // The same where rows need not be sorted, as an index's order of them is kept.
    let indexes = "CREATE INDEX ON b (k); CREATE INDEX ON i (lo); CREATE INDEX ON i (hi); CREATE INDEX ON p (y); \
         CREATE INDEX ON p (d); CREATE INDEX ON e (k)";
    client.batch_execute(indexes).await?;
    bounded(&client, "INLJ on gpu: bounds are searched").await
}

/// `told`: what the plans of some of these joins say.
async fn bounded(client: &Client, told: &str) -> Result<()> {
    let mut are_told = 0;
    for sql in [
        "SELECT count(*), count(z), sum(z), sum(y) FROM p LEFT JOIN i ON k >= lo AND k < hi",
        "SELECT count(*), sum(y) FROM p WHERE EXISTS (SELECT FROM i WHERE k BETWEEN lo AND hi)",
        "SELECT count(*), sum(y) FROM p WHERE NOT EXISTS (SELECT FROM i WHERE hi > k AND lo < k)",
        "SELECT count(*), sum(z), sum(y) FROM p JOIN i ON k BETWEEN lo AND hi",
        "SELECT count(*), sum(a.z), sum(b.z) FROM i a LEFT JOIN i b ON a.lo < b.hi AND b.lo < a.hi",
        "SELECT count(*), sum(b.x), sum(p.y) FROM b JOIN p ON b.k BETWEEN p.k - 10 AND p.k + 10",
        "SELECT count(*), sum(b.x), sum(p.y) FROM p JOIN b ON p.k > b.k - 5 AND p.k <= b.k + 5 AND p.y <> b.x",
        "SELECT b.x, count(*), sum(p.y) FROM p LEFT JOIN b ON b.k >= p.k AND b.k < p.k + b.w GROUP BY b.x ORDER BY b.x",
        "SELECT b.x, count(*), sum(p.y) FROM p LEFT JOIN b ON p.k >= b.k AND p.k < b.k + 4 GROUP BY b.x ORDER BY b.x",
        "SELECT count(*), sum(y) FROM p WHERE EXISTS (SELECT FROM b WHERE b.k BETWEEN p.k AND p.k + 3)",
        "SELECT count(*), sum(y) FROM p WHERE NOT EXISTS (SELECT FROM b WHERE b.k BETWEEN p.k AND p.k + b.w)",
        "SELECT count(*), sum(a.y - b.y) FROM p a JOIN p b ON a.d = b.d + 3 AND a.n < b.n",
        "SELECT count(*), sum(a.y - b.y) FROM p a JOIN p b ON a.n > b.n - 0.1 AND a.n < b.n",
        "SELECT count(*), sum(a.y - b.y) FROM p a JOIN p b ON a.d BETWEEN b.d - 1 AND b.d WHERE b.y % 3 = 0",
        "SELECT count(*), sum(a.y) FROM p a LEFT JOIN e ON a.k >= e.k",
        "SELECT count(*), sum(a.y) FROM p a JOIN b ON a.k <= b.k AND a.k >= b.k + 1",
    ] {
        let expected = on_cpu(client, sql).await?;
        let own = rows(client, sql).await?;
        ensure!(own == expected, "{sql}: {own:?} where the CPU has {expected:?}");
        let plan = rows(client, &format!("EXPLAIN ANALYZE {sql}")).await?;
        let says = |text: &str| plan.iter().flatten().flatten().any(|line| line.contains(text));
        ensure!(says("State Bytes"), "{sql}: {plan:?}");
        are_told += usize::from(says(told));
    }
    ensure!(are_told > 2, "{are_told} plans say {told:?}");
    Ok(())
}

/// The bytes of arrays that a query's fragment has.
async fn state_bytes(client: &Client, sql: &str) -> Result<u64> {
    let plan = rows(client, &format!("EXPLAIN ANALYZE {sql}")).await?;
    let mut lines = plan.iter().flatten().flatten();
    let told = lines.find_map(|line| line.split("State Bytes: ").nth(1)?.split(' ').next()?.parse().ok());
    told.with_context(|| format!("{sql}: {plan:?}"))
}

/// Of the build side's rows: not all of the table's go on.
const FILTERED: [&str; 3] = ["t.x < 50", "z > 100", "z % 2"];

/// Where a build side ascends by keys that are far apart, nothing is built but the keys in their order: the same rows, in less
/// memory than where it does not ascend.
pub async fn in_order() -> Result<()> {
    let server = Server::start_with(&["--threads", "8"], &[SIMULATOR])?;
    let client = connected(&server).await?;
    // `u`, `a` and `p` ascend, the first strictly; in the other schema are the same rows in another order.
    let tables = "CREATE TABLE u AS SELECT (g - 3000) * 1000003::bigint AS k, g % 100 AS x FROM generate_series(1, 9000) q (g); \
         INSERT INTO u VALUES (9223372036854775807, 7); \
         CREATE TABLE a AS SELECT (g / 3 - 1000) * 1000003::bigint AS k, CASE WHEN g % 7 > 0 THEN g % 90 END AS x \
         FROM generate_series(1, 12000) q (g); INSERT INTO a VALUES (9223372036854775807, 1); \
         CREATE TABLE e AS SELECT * FROM a WHERE x < 0; \
         CREATE TABLE p AS SELECT (g / 2 - 2000) * 1000003::bigint + g % 4 / 3 AS k, g AS z \
         FROM generate_series(1, 12000) q (g); \
         CREATE SCHEMA shuffled; \
         CREATE TABLE shuffled.u AS SELECT * FROM u ORDER BY x, k; \
         CREATE TABLE shuffled.a AS SELECT * FROM a ORDER BY x, k; \
         CREATE TABLE shuffled.e AS SELECT * FROM e; \
         CREATE TABLE shuffled.p AS SELECT * FROM p ORDER BY z % 90, k; \
         CREATE SCHEMA mixed; \
         CREATE TABLE mixed.p AS SELECT * FROM shuffled.p; \
         CREATE SCHEMA indexed; \
         CREATE TABLE indexed.u AS SELECT * FROM shuffled.u; CREATE TABLE indexed.a AS SELECT * FROM shuffled.a; \
         CREATE TABLE indexed.e AS SELECT * FROM e; CREATE TABLE indexed.p AS SELECT * FROM shuffled.p; \
         CREATE INDEX ON indexed.u (k); CREATE INDEX ON indexed.a (k DESC, x); CREATE INDEX ON indexed.e (k); \
         CREATE INDEX ON indexed.p (k)";
    client.batch_execute(tables).await?;
    for join in [
        "SELECT count(*), sum(x), sum(z) FROM p JOIN {} t ON p.k = t.k",
        "SELECT count(*), sum(x), sum(z) FROM {} t JOIN p ON p.k = t.k AND p.z % 3 <> t.x",
        "SELECT count(*), count(x), sum(x), sum(z) FROM p LEFT JOIN {} t ON p.k = t.k",
        "SELECT count(*), count(z), sum(x), sum(z) FROM {} t LEFT JOIN p ON p.k = t.k AND t.x > 20",
        "SELECT count(*), count(x), sum(x), sum(z) FROM p FULL JOIN {} t ON p.k = t.k",
        "SELECT count(*), sum(z) FROM p WHERE EXISTS (SELECT FROM {} t WHERE t.k = p.k)",
        "SELECT count(*), sum(z) FROM p WHERE NOT EXISTS (SELECT FROM {} t WHERE t.k = p.k AND t.x < 50)",
        "SELECT count(*), sum(z) FROM p WHERE z % 10 = 3 OR k IN (SELECT k FROM {} t)",
        "SELECT count(*), sum(z) FROM p WHERE k NOT IN (SELECT k FROM {} t)",
        "SELECT count(*), sum(x) FROM {} t WHERE k NOT IN (SELECT k FROM p WHERE k IS NOT NULL)",
        "SELECT x, count(*), sum(z) FROM p JOIN {} t USING (k) WHERE z > 100 GROUP BY x ORDER BY x",
        "SELECT count(*), sum(s.x), sum(t.x) FROM {} s JOIN {} t USING (k)",
        "SELECT count(*), sum(x), sum(z) FROM {} t JOIN (SELECT * FROM p WHERE z % 2 = 0) p ON t.k = p.k",
    ] {
        for table in ["u", "a", "e"] {
            let sql = join.replace("{}", table);
            let expected = on_cpu(&client, &sql).await?;
            let mut bytes = Vec::new();
            for path in ["public", "shuffled", "mixed, public", "indexed"] {
                client.batch_execute(&format!("SET search_path = {path}")).await?;
                let own = rows(&client, &sql).await?;
                ensure!(own == expected, "{path}: {sql}: {own:?} where the CPU has {expected:?}");
                bytes.push(state_bytes(&client, &sql).await?);
            }
            client.batch_execute("RESET search_path").await?;
            let is_whole = !FILTERED.iter().any(|filter| join.contains(filter)) && table != "e";
            ensure!(bytes[0] < bytes[1] || !is_whole, "{sql}: {bytes:?}");
        }
    }
    // Where rows are in no order but an index's, that is searched: made once, and kept.
    let sql = "SELECT count(*), sum(x), sum(z) FROM indexed.p p JOIN indexed.u t ON p.k = t.k";
    let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
    let lines: Vec<&str> = plan.iter().flatten().flatten().map(String::as_str).collect();
    ensure!(lines.iter().any(|line| line.contains("INLJ on gpu")), "{lines:?}");
    let kept = "SELECT sum(bytes) FROM tenon_device_columns WHERE schemaname = $$indexed$$ AND attname = $$k$$";
    let bytes = rows(&client, kept).await?;
    let word: Vec<Option<String>> = bytes.into_iter().flatten().collect();
    let bytes: u64 = word[0].as_deref().unwrap_or_default().parse()?;
    ensure!(bytes >= 12 * 9_000, "{bytes} bytes");
    // A kept plan does as the tables are now.
    let sql = "SELECT count(*), sum(x), sum(z) FROM p JOIN u t ON p.k = t.k";
    for path in ["public", "indexed"] {
        client.batch_execute(&format!("SET search_path = {path}")).await?;
        for change in [
            "INSERT INTO u VALUES (5 * 1000003, 1000)",
            "INSERT INTO p VALUES (5 * 1000003, 77)",
            "DELETE FROM u WHERE x = 1000",
            "UPDATE u SET k = k + 1 WHERE x = 50",
            "TRUNCATE u",
            "INSERT INTO u SELECT g * 1000003::bigint, 1 FROM generate_series(1, 5000) q (g) ORDER BY g % 7, g",
        ] {
            client.batch_execute(change).await?;
            let expected = on_cpu(&client, sql).await?;
            for _ in 0..2 {
                let own = rows(&client, sql).await?;
                ensure!(
                    own == expected,
                    "{path}: {change}: {own:?} where the CPU has {expected:?}"
                );
            }
        }
    }
    Ok(())
}
