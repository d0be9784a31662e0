//! Tables' columns on the simulated GPU: in chunks, kept there, kept off.

use super::{SIMULATOR, connected};
use crate::process::{Server, rows, sql_state, value};
use anyhow::{Result, anyhow, ensure};
use std::time::{Duration, Instant};

/// Columns that do not fit the session's share of the device go there in chunks of segments, under the same pipelines.
pub async fn in_chunks() -> Result<()> {
    let server = Server::start_with(&[], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT g AS k, g % 7 AS v, CASE WHEN g % 5 > 0 THEN 'text ' || g % 11 END AS s \
             FROM generate_series(1, 400000) q (g); \
             CREATE TABLE d AS SELECT g AS v, g * 10 AS w FROM generate_series(0, 5) q (g)",
        )
        .await?;
    for sql in [
        "SELECT count(*), sum(k), min(k), max(v) FROM t WHERE k > 1000",
        "SELECT v, s, count(*), sum(k), count(s) FROM t GROUP BY v, s ORDER BY v, s",
        "SELECT d.w, sum(t.k), count(*) FROM t LEFT JOIN d ON t.v = d.v GROUP BY d.w ORDER BY d.w",
        "SELECT k, s FROM t WHERE v = 3 ORDER BY s, k DESC LIMIT 20",
        "SELECT count(*) FROM t WHERE k IN (SELECT v FROM t WHERE k % 3 = 0)",
    ] {
        client.batch_execute("SET tenon.device = 'cpu'").await?;
        let expected = rows(&client, sql).await?;
        client.batch_execute("SET tenon.device = 'gpu'").await?;
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
    let sql = "EXPLAIN ANALYZE SELECT v, count(*), sum(k), count(s) FROM t GROUP BY v";
    for (limit, streams) in [("64MB", false), ("2MB", true)] {
        client
            .batch_execute(&format!("SET tenon.gpu_memory_limit = '{limit}'"))
            .await?;
        let plan = rows(&client, sql).await?;
        let says = |what: &str| plan.iter().flatten().flatten().any(|line| line.contains(what));
        ensure!(says("Device: gpu") && says(" chunks ") == streams, "{limit}: {plan:?}");
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
    ensure!(value(&client, options).await? == "{tenon.device=resident}" && says("Device: gpu").await?);
    client.batch_execute("ALTER TABLE t RESET (tenon.device)").await?;
    ensure!(rows(&client, options).await? == [[None]]);
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
