//! Tables' columns on the simulated GPU: in chunks, kept there, kept off.

use super::{SIMULATOR, connected};
use crate::process::{Server, rows, sql_state, value};
use anyhow::{Result, anyhow, ensure};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// The rows that the CPU finds; the session's later statements are the device's.
pub(super) async fn on_cpu(client: &Client, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
    client.batch_execute("SET tenon.device = 'cpu'").await?;
    let expected = rows(client, sql).await?;
    client.batch_execute("SET tenon.device = 'gpu'").await?;
    Ok(expected)
}

/// Columns that do not fit the session's share of the device go there in chunks of segments, under the same pipelines.
pub async fn in_chunks() -> Result<()> {
    let server = Server::start_with(&[], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT g AS k, g % 7 AS v, CASE WHEN g % 5 > 0 THEN 'text ' || g % 11 END AS s \
             FROM generate_series(1, 400000) q (g); \
             CREATE TABLE d AS SELECT g AS v, g * 10 AS w FROM generate_series(0, 5) q (g); \
             CREATE TABLE u AS SELECT g AS k, g % 1000 AS x FROM generate_series(1, 400000) q (g)",
        )
        .await?;
    for sql in [
        "SELECT count(*), sum(k), min(k), max(v) FROM t WHERE k > 1000",
        "SELECT v, s, count(*), sum(k), count(s) FROM t GROUP BY v, s ORDER BY v, s",
        "SELECT d.w, sum(t.k), count(*) FROM t LEFT JOIN d ON t.v = d.v GROUP BY d.w ORDER BY d.w",
        "SELECT k, s FROM t WHERE v = 3 ORDER BY s, k DESC LIMIT 20",
        "SELECT count(*) FROM t WHERE k IN (SELECT v FROM t WHERE k % 3 = 0)",
        "SELECT count(*), sum(t.v), sum(u.x) FROM t JOIN u ON t.k = u.k",
    ] {
        let expected = on_cpu(&client, sql).await?;
        for limit in ["2MB", "3MB", "5MB", "64MB"] {
            client
                .batch_execute(&format!("SET tenon.gpu_memory_limit = '{limit}'"))
                .await?;
            let own = rows(&client, sql).await?;
            ensure!(
                own == expected,
                "{limit}: {sql}: {own:?} where the CPU has {expected:?}"
            );
        }
        client.batch_execute("SET tenon.gpu_memory_limit = '64MB'").await?;
    }
    let one = "SELECT v, count(*), sum(k), count(s) FROM t GROUP BY v";
    let two = "SELECT count(*), sum(t.v), sum(u.x) FROM t JOIN u ON t.k = u.k";
    for (sql, limit, chunked) in [(one, "64MB", 0), (one, "2MB", 1), (two, "64MB", 0), (two, "5MB", 2)] {
        client
            .batch_execute(&format!("SET tenon.gpu_memory_limit = '{limit}'"))
            .await?;
        let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
        let lines: Vec<&String> = plan.iter().flatten().flatten().collect();
        let on_device = lines.iter().any(|line| line.contains("Device: gpu"));
        let found: usize = lines.iter().map(|line| line.matches(" chunks ").count()).sum();
        ensure!(on_device && found == chunked, "{limit}: {sql}: {plan:?}");
    }
    Ok(())
}

/// Joins and groups whose tables do not fit: by ranges of a key that is in order in one table, in none in another and missing
/// in some rows of a third; and rows of which there are far more than the planner expects.
pub async fn in_passes() -> Result<()> {
    let server = Server::start_with(&[], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT g AS k, g % 7 AS v, g % 10 AS x, g % 10 AS y, g % 10 AS z \
             FROM generate_series(1, 300000) q (g); \
             CREATE TABLE u AS SELECT g * 7919::bigint % 300007 AS k, g % 1000 AS w FROM generate_series(1, 200000) q (g); \
             CREATE TABLE n AS SELECT CASE WHEN g % 9 > 0 THEN g * 31 % 250007 END AS k, g AS w \
             FROM generate_series(1, 60000) q (g); \
             CREATE TABLE d AS SELECT g AS v, g * 10 AS w FROM generate_series(0, 5) q (g); \
             CREATE TABLE f AS SELECT g AS k, g % 10 AS x FROM generate_series(1, 2000) q (g)",
        )
        .await?;
    let mut passes = 0;
    for sql in [
        "SELECT count(*), sum(t.v), sum(n.w) FROM t JOIN n ON t.k = n.k",
        "SELECT t.v, count(*), sum(u.w), min(u.k) FROM t JOIN u ON t.k = u.k GROUP BY t.v ORDER BY t.v",
        "SELECT count(*), count(n.w), sum(t.v) FROM t LEFT JOIN n ON t.k = n.k",
        "SELECT count(*), count(t.k), sum(n.w) FROM n LEFT JOIN t ON t.k = n.k",
        "SELECT count(*), count(t.k), count(n.w), sum(n.w) FROM n FULL JOIN t ON t.k = n.k",
        "SELECT count(*), sum(w) FROM n WHERE EXISTS (SELECT FROM t WHERE t.k = n.k AND t.v <> n.w % 7)",
        "SELECT count(*), sum(w) FROM n WHERE NOT EXISTS (SELECT FROM t WHERE t.k = n.k)",
        "SELECT count(*), sum(v) FROM t WHERE k NOT IN (SELECT k FROM u)",
        "SELECT k, count(*), sum(w) FROM n GROUP BY k HAVING count(*) > 1 OR k IS NULL OR k < 9 ORDER BY k",
        "SELECT c, count(*) FROM (SELECT k, count(*) AS c FROM u GROUP BY k) q GROUP BY c ORDER BY c",
        "SELECT t.k, t.v, sum(u.w) FROM t JOIN u ON t.k = u.k GROUP BY t.k, t.v ORDER BY 3 DESC, 1 LIMIT 7",
        "SELECT d.w, count(*), sum(q.c) FROM (SELECT k, max(v) AS v, count(*) AS c FROM t GROUP BY k) q \
         LEFT JOIN d ON d.v = q.v GROUP BY d.w ORDER BY d.w",
        "SELECT count(DISTINCT t.k), count(DISTINCT u.w) FROM t JOIN u ON t.k = u.k WHERE t.v < 3",
        "SELECT a.k, b.k FROM f a JOIN f b ON a.x = b.x ORDER BY a.k + b.k DESC, 1, 2 LIMIT 3",
        "SELECT count(*), sum(b.k), sum(n.w) FROM t b JOIN n ON b.k = n.w WHERE b.x = 3 AND b.y = 3 AND b.z = 3",
    ] {
        let expected = on_cpu(&client, sql).await?;
        for limit in ["700kB", "1500kB", "64MB"] {
            client
                .batch_execute(&format!("SET tenon.gpu_memory_limit = '{limit}'"))
                .await?;
            for run in 1..3 {
                let own = rows(&client, sql).await?;
                ensure!(
                    own == expected,
                    "{limit}, run {run}: {sql}: {own:?} where the CPU has {expected:?}"
                );
            }
            let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
            let has = |part: &str| plan.iter().flatten().flatten().any(|line| line.contains(part));
            passes += usize::from(has(" passes "));
            ensure!(limit != "64MB" || has("State Bytes"), "{sql}: {plan:?}");
        }
        client.batch_execute("SET tenon.gpu_memory_limit = '64MB'").await?;
    }
    println!("gpu::fragments_in_passes: {passes} times");
    ensure!(passes >= 8, "in passes {passes} times");
    Ok(())
}

/// Joins whose build keys are all different, or not, which only their pipelines find out.
pub async fn in_chains() -> Result<()> {
    let server = Server::start_with(&[], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client
        .batch_execute(
            "CREATE TABLE b AS SELECT g * 7919 % 9001 AS k, g * 7 % 1000 AS x, 'b' || g % 13 AS s \
             FROM generate_series(1, 9000) q (g); \
             CREATE TABLE c AS SELECT * FROM b UNION ALL SELECT 9000, 5, 'twice'; \
             CREATE TABLE w AS SELECT k % 3000 AS k, x, s FROM b; \
             CREATE TABLE p AS SELECT g * 7919 % 11003 - 500 AS k, g AS y FROM generate_series(1, 20000) q (g); \
             CREATE TABLE n AS SELECT CASE WHEN g % 11 > 0 THEN g * 31 % 12007 END AS k, g AS y \
             FROM generate_series(1, 5000) q (g)",
        )
        .await?;
    for sql in [
        "SELECT count(*), sum(x), sum(y) FROM BUILD b JOIN PROBE p ON b.k = p.k",
        "SELECT b.s, count(*), sum(y) FROM PROBE p LEFT JOIN BUILD b ON b.k = p.k GROUP BY b.s ORDER BY b.s",
        "SELECT count(*), sum(x), count(y), count(b.k) FROM BUILD b FULL JOIN PROBE p ON b.k = p.k",
        "SELECT count(*), sum(y) FROM PROBE p WHERE k IN (SELECT k FROM BUILD b)",
        "SELECT count(*), sum(y) FROM PROBE p WHERE NOT EXISTS (SELECT 1 FROM BUILD b WHERE b.k = p.k)",
        "SELECT count(*), sum(x) FROM BUILD b WHERE k NOT IN (SELECT k FROM PROBE p WHERE k IS NOT NULL)",
        "SELECT count(*), sum(b.x), sum(c.x) FROM BUILD b JOIN PROBE p ON b.k = p.k JOIN b c ON c.k = p.y",
    ] {
        for build in ["b", "c", "w"] {
            for probe in ["p", "n"] {
                let sql = sql.replace("BUILD", build).replace("PROBE", probe);
                let expected = on_cpu(&client, &sql).await?;
                let own = rows(&client, &sql).await?;
                ensure!(own == expected, "{sql}: {own:?} where the CPU has {expected:?}");
            }
        }
    }
    Ok(())
}

/// What `tenon.device` of a table says of its columns.
pub async fn of_tables_that_stay() -> Result<()> {
    let server = Server::start_with(&[], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT g AS k, g % 7 AS v, 'a ' || g AS s FROM generate_series(1, 5000) q (g)",
        )
        .await?;
    let states = "SELECT string_agg(attname || ' ' || state, ', ' ORDER BY attname) FROM tenon_device_columns";
    let options = "SELECT reloptions FROM pg_class WHERE relname = 't'";
    let sql = "EXPLAIN ANALYZE SELECT v, count(*) FROM t GROUP BY v";
    let says = async |what: &str| -> Result<bool> {
        let plan = rows(&client, sql).await?;
        Ok(plan.iter().flatten().flatten().any(|line| line.contains(what)))
    };
    ensure!(says("Device: gpu").await? && value(&client, states).await? == "v auto");
    client
        .batch_execute("ALTER TABLE t SET (tenon.device = 'never')")
        .await?;
    ensure!(
        rows(&client, states).await? == [[None]],
        "columns of a table that is kept off"
    );
    ensure!(says("t is kept off the GPU").await?);
    client
        .batch_execute("ALTER TABLE t SET (fillfactor = 70, tenon.device = 'resident')")
        .await?;
    let begun = Instant::now();
    while rows(&client, states).await? != [[Some("k resident, s resident, v resident".to_string())]] {
        ensure!(
            begun.elapsed() < Duration::from_secs(30),
            "a resident table is not loaded"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let found = value(&client, options).await?;
    ensure!(
        found == "{fillfactor=70,tenon.device=resident}" && says("Device: gpu").await?,
        "{found}"
    );
    client.batch_execute("ALTER TABLE t RESET (tenon.device)").await?;
    ensure!(value(&client, options).await? == "{fillfactor=70}");
    for (change, code) in [
        ("SET (tenon.device = 'sometimes')", "22023"),
        ("SET (tenon.other = 1)", "22023"),
    ] {
        let error = client.batch_execute(&format!("ALTER TABLE t {change}")).await;
        let error = error.err().ok_or_else(|| anyhow!("{change} is taken"))?;
        ensure!(sql_state(&error) == code, "{change}: {error}");
    }
    Ok(())
}

/// Columns of types that the device knows nothing of go through filters, joins, groups and sorts by the places of their rows.
pub async fn handed_on() -> Result<()> {
    let server = Server::start_with(&[], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT g AS k, g % 70 AS v, \
               CASE WHEN g % 5 > 0 THEN (g * 1.50)::numeric END AS p, CASE WHEN g % 3 > 0 THEN ARRAY[g, NULL, 7] END AS a, \
               ('{\"k\": ' || g || '}')::jsonb AS j, decode(lpad(to_hex(g), 8, '0'), 'hex') AS b, ARRAY['x', g::text] AS w, \
               CASE WHEN g % 7 > 0 THEN 'text ' || g END AS s \
             FROM generate_series(1, 20000) q (g); \
             CREATE TABLE d AS SELECT g AS v, (g / 7.0)::numeric AS q, ARRAY[g] AS r FROM generate_series(0, 99, 3) q (g)",
        )
        .await?;
    for sql in [
        "SELECT k, p, a, j, b, w FROM t WHERE v = 3 AND k > 500 ORDER BY k DESC",
        "SELECT k, p, a FROM t ORDER BY v, k LIMIT 30",
        "SELECT t.k, t.p, d.q, d.r, t.j FROM t JOIN d ON t.v = d.v WHERE t.k % 11 = 0 ORDER BY t.k",
        "SELECT t.k, d.q, d.r, t.a FROM t LEFT JOIN d ON t.v = d.v WHERE t.k < 900 ORDER BY t.k",
        "SELECT d.v, d.q, t.k, t.p, t.w FROM t FULL JOIN d ON t.k = d.v WHERE t.k < 300 OR t.k IS NULL ORDER BY t.k, d.v",
        "SELECT d.v, d.q, t.k, t.p, t.w, t.s FROM d FULL JOIN t ON t.k = d.v + 19950 WHERE t.k > 19900 OR t.k IS NULL \
         ORDER BY t.k, d.v",
        "SELECT d.v, t.s, count(*) FROM d LEFT JOIN t ON t.k = d.v * 300 GROUP BY d.v, t.s ORDER BY d.v, t.s",
        "SELECT k, p, a, count(*), sum(v) FROM (SELECT t.* FROM t JOIN d ON t.v > d.v AND t.k = d.v + 40) q GROUP BY k, p, a \
         ORDER BY k",
        "SELECT k, p, n, b FROM (SELECT k, p, b, row_number() OVER (PARTITION BY v ORDER BY k) AS n FROM t) q WHERE n < 3 \
         ORDER BY k",
        "SELECT k, p, r FROM (SELECT k, p, v FROM t WHERE v < 20 UNION ALL SELECT k, p, v FROM t WHERE v > 60) u \
         JOIN d ON d.v = u.v ORDER BY k, r LIMIT 500",
        "SELECT k, p, first_value(p) OVER w, lag(a, 2) OVER w, count(p) OVER w FROM t WHERE k < 700 \
         WINDOW w AS (PARTITION BY v ORDER BY k) ORDER BY k",
        "SELECT DISTINCT ON (v) v, p, a FROM t ORDER BY v, k DESC",
        "SELECT count(p), count(a), count(j), count(*) FROM t WHERE k > 7",
        "SELECT p FROM t WHERE k = (SELECT max(k) FROM t WHERE v = 17)",
    ] {
        let expected = on_cpu(&client, sql).await?;
        ensure!(!expected.is_empty(), "{sql} has no rows");
        let own = rows(&client, sql).await?;
        let first = own.iter().zip(&expected).find(|(own, expected)| own != expected);
        ensure!(
            own == expected,
            "{sql}: {first:?} of {} and {} rows",
            own.len(),
            expected.len()
        );
    }
    // What reads such values is the CPU's, which says so.
    for (sql, why) in [
        (
            "SELECT k, a FROM t WHERE v = 3 AND k > 500 ORDER BY k DESC",
            "Device: gpu",
        ),
        ("SELECT t.k, d.q FROM t JOIN d ON t.v = d.v ORDER BY t.k", "Device: gpu"),
        ("SELECT sum(p) FROM t", "a column of LargeBinary"),
        ("SELECT v, count(a) FROM t GROUP BY v", "a column of"),
        ("SELECT v, count(*) FROM t WHERE p IS NULL GROUP BY v", "a column of"),
    ] {
        let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
        let told = plan.iter().flatten().flatten().any(|line| line.contains(why));
        ensure!(told, "{sql}: no {why} in {plan:?}");
    }
    Ok(())
}

/// Neither a fragment nor a single join takes a table to the device that is kept off it.
pub async fn kept_off() -> Result<()> {
    let server = Server::start_with(&[], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT g AS k, g % 70 AS v FROM generate_series(1, 2000) q (g); \
             CREATE TABLE d AS SELECT g AS v FROM generate_series(0, 99, 3) q (g)",
        )
        .await?;
    let sql = "SELECT t.k, d.v FROM t JOIN d ON t.v = d.v ORDER BY t.k, d.v";
    let expected = rows(&client, sql).await?;
    for operator in ["auto", "hj", "smj", "ninlj"] {
        client
            .batch_execute(&format!("SET tenon.join_operator = '{operator}'"))
            .await?;
        for (setting, on_gpu) in [("never", false), ("auto", true)] {
            client
                .batch_execute(&format!("ALTER TABLE d SET (tenon.device = '{setting}')"))
                .await?;
            ensure!(rows(&client, sql).await? == expected, "{operator}, {setting}");
            let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
            let says = |what: &str| plan.iter().flatten().flatten().any(|line| line.contains(what));
            ensure!(says("kept off the GPU") != on_gpu, "{operator}, {setting}: {plan:?}");
            ensure!(says("Device: gpu") == on_gpu, "{operator}, {setting}: {plan:?}");
        }
    }
    Ok(())
}
