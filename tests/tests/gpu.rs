//! Joins on the simulated GPU under a whole server: states beyond its memory, several at once, and a GPU that fails.

mod columns;
mod explained;
mod joins;

use crate::process::{Server, rows, sql_state, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("gpu::states_beyond_its_memory", states_beyond_its_memory),
        trial("gpu::joins_at_once", joins_at_once),
        trial("gpu::little_host_memory", little_host_memory),
        trial("gpu::lost_in_mid_query", lost_in_mid_query),
        trial("gpu::lost_after_first_rows", lost_after_first_rows),
        trial("gpu::first_rows_only", first_rows_only),
        trial("gpu::count", count),
        trial("gpu::cancel", cancel),
        trial("gpu::fragments_in_little_memory", fragments_in_little_memory),
        trial("gpu::fragments_after_changes", fragments_after_changes),
        trial("gpu::fragments_in_chunks", columns::in_chunks),
        trial("gpu::fragments_in_passes", columns::in_passes),
        trial("gpu::fragments_in_chains", columns::in_chains),
        trial("gpu::fragments_by_bounds", joins::by_bounds),
        trial("gpu::fragments_in_order", joins::in_order),
        trial("gpu::fragments_explained", explained::rows_of_nodes),
        trial("gpu::fragments_of_tables_that_stay", columns::of_tables_that_stay),
        trial("gpu::columns_handed_on", columns::handed_on),
        trial("gpu::columns_kept_off", columns::kept_off),
        trial("gpu::fragments_compiled_meanwhile", fragments_compiled_meanwhile),
        trial("gpu::fragments_of_kept_plans", fragments_of_kept_plans),
    ]
}

const SIMULATOR: (&str, &str) = ("TENON_DEVICE", "sim");

/// Rows of each of the two tables.
const ROWS: i64 = 20_000;

/// `b` and `p`: each key of `b` is there twice, two thirds of those of `p` have partners.
async fn with_tables(server: &Server) -> Result<Client> {
    let client = connected(server).await?;
    let (keys, wide) = (ROWS / 2, ROWS * 3 / 4);
    client
        .batch_execute(&format!(
            "CREATE TABLE b AS SELECT x, (x % {keys})::int4 AS k FROM generate_series(1, {ROWS}) g(x);
             CREATE TABLE p AS SELECT y, (y % {wide})::int4 AS k FROM generate_series(1, {ROWS}) g(y)"
        ))
        .await?;
    Ok(client)
}

async fn connected(server: &Server) -> Result<Client> {
    let client = server.connect().await?;
    let settings = "SET tenon.device = 'gpu'; SET tenon.wait_for_compile = on";
    client.batch_execute(settings).await?;
    Ok(client)
}

const JOIN: &str = "SELECT count(*) AS n, sum(x) AS x, sum(y) AS y FROM b FULL JOIN p ON b.k = p.k";

/// What JOIN answers, by arithmetic on the host.
fn expected() -> String {
    let (mut count, mut x_sum, mut y_sum) = (0, 0, 0);
    let (keys, wide) = (ROWS / 2, ROWS * 3 / 4);
    let mut by_key = vec![vec![]; keys as usize];
    (1..=ROWS).for_each(|x| by_key[(x % keys) as usize].push(x));
    let mut met = vec![false; keys as usize];
    for y in 1..=ROWS {
        let key = (y % wide) as usize;
        let partners = by_key.get(key).map_or(&[][..], Vec::as_slice);
        if let Some(met) = met.get_mut(key) {
            *met = true;
        }
        count += partners.len().max(1) as i64;
        x_sum += partners.iter().sum::<i64>();
        y_sum += y * partners.len().max(1) as i64;
    }
    for (rows, _) in by_key.iter().zip(&met).filter(|(_, met)| !**met) {
        count += rows.len() as i64;
        x_sum += rows.iter().sum::<i64>();
    }
    format!("{count} {x_sum} {y_sum}")
}

async fn answer(client: &Client) -> Result<String> {
    let rows = rows(client, JOIN).await?;
    let cells: Vec<_> = rows.iter().flatten().flatten().cloned().collect();
    Ok(cells.join(" "))
}

/// EXPLAIN ANALYZE of JOIN.
async fn explained(client: &Client) -> Result<String> {
    let lines = rows(client, &format!("EXPLAIN ANALYZE {JOIN}")).await?;
    let lines: Vec<_> = lines.into_iter().flatten().flatten().collect();
    Ok(lines.join("\n"))
}

/// A hash join in memory where the state fits, the Triton join where it does not, and the choice says why.
async fn states_beyond_its_memory() -> Result<()> {
    let server = Server::start_with(&["--gpu-memory-limit", "64MiB"], &[SIMULATOR])?;
    let client = with_tables(&server).await?;
    ensure!(answer(&client).await? == expected());
    let shown = explained(&client).await?;
    ensure!(shown.contains(" on gpu: ") && !shown.contains("Triton"), "{shown}");
    for limit in ["64kB", "300kB", "1MB"] {
        client
            .batch_execute(&format!("SET tenon.gpu_memory_limit = '{limit}'"))
            .await?;
        ensure!(answer(&client).await? == expected(), "under {limit}");
        let shown = explained(&client).await?;
        ensure!(
            shown.contains("Triton on gpu") && shown.contains("exceeds"),
            "under {limit}:\n{shown}"
        );
    }
    client.batch_execute("SET tenon.gpu_memory_limit = '64kB'").await?;
    let shown = explained(&client).await?;
    ensure!(shown.contains("Spilled Bytes: "), "{shown}");
    // Too little for any join.
    client.batch_execute("SET tenon.gpu_memory_limit = '1kB'").await?;
    ensure!(answer(&client).await? == expected());
    let shown = explained(&client).await?;
    ensure!(
        shown.contains("HJ on cpu") && shown.contains("fell back to cpu: ") && shown.contains("Gpu Fallbacks: 1"),
        "{shown}"
    );
    Ok(())
}

/// More joins than the GPU has room for, each larger than it: all of them end, and right.
async fn joins_at_once() -> Result<()> {
    let mut server = Server::start_with(&["--gpu-memory-limit", "512KiB"], &[SIMULATOR])?;
    with_tables(&server).await?;
    let expected = expected();
    let clients = 5;
    let joins = (0..clients).map(|_| async {
        let client = connected(&server).await?;
        for _ in 0..2 {
            let found = answer(&client).await?;
            ensure!(found == expected, "{found} instead of {expected}");
        }
        Ok(())
    });
    futures::future::try_join_all(joins).await?;
    let shown = explained(&connected(&server).await?).await?;
    ensure!(shown.contains("Triton on gpu"), "memory was not given back:\n{shown}");
    ensure!(server.is_alive()?, "{}", server.log());
    Ok(())
}

/// Spilled rows and pairs count as the query's memory: where there is none left for them, the CPU joins.
async fn little_host_memory() -> Result<()> {
    let server = Server::start_with(&["--query-memory-limit", "16MiB"], &[SIMULATOR])?;
    let client = with_tables(&server).await?;
    client.batch_execute("SET tenon.gpu_memory_limit = '64kB'").await?;
    ensure!(answer(&client).await? == expected());
    let shown = explained(&client).await?;
    ensure!(shown.contains("fell back to cpu: Triton"), "{shown}");
    Ok(())
}

/// The GPU fails for good at some launch of a join: that query and those after it are answered by the CPU.
async fn lost_in_mid_query() -> Result<()> {
    for launch in ["1", "6", "40"] {
        let server = Server::start_with(&[], &[SIMULATOR, ("TENON_SIM_LOST_AT_LAUNCH", launch)])?;
        let client = with_tables(&server).await?;
        client
            .batch_execute("SET tenon.join_operator = 'triton'; SET tenon.gpu_memory_limit = '64kB'")
            .await?;
        let shown = explained(&client).await?;
        ensure!(
            shown.contains("Triton on cpu") && shown.contains("fell back to cpu: Triton: the GPU is lost"),
            "launch {launch}:\n{shown}"
        );
        ensure!(answer(&client).await? == expected(), "after launch {launch}");
        let shown = explained(&client).await?;
        ensure!(shown.contains("fell back to cpu: the GPU is lost"), "{shown}");
        ensure!(server.log().contains("the GPU is lost"), "{}", server.log());
    }
    // The first statement is the one that meets the fault, and sends every row once.
    let server = Server::start_with(&[], &[SIMULATOR, ("TENON_SIM_LOST_AT_LAUNCH", "9")])?;
    let client = with_tables(&server).await?;
    client.batch_execute("SET tenon.gpu_memory_limit = '64kB'").await?;
    ensure!(answer(&client).await? == expected());
    Ok(())
}

const PAIRS: &str = "SELECT x, y FROM b JOIN p ON b.k = p.k";

/// The GPU fails for good when rows are on their way already: each comes once.
async fn lost_after_first_rows() -> Result<()> {
    for launch in ["15", "40"] {
        let server = Server::start_with(&[], &[SIMULATOR, ("TENON_SIM_LOST_AT_LAUNCH", launch)])?;
        let client = with_tables(&server).await?;
        client
            .batch_execute("SET tenon.join_operator = 'triton'; SET tenon.gpu_memory_limit = '64kB'")
            .await?;
        let mut found = rows(&client, PAIRS).await?;
        ensure!(server.log().contains("the GPU is lost"), "{}", server.log());
        client.batch_execute("SET tenon.device = 'cpu'").await?;
        let mut expected = rows(&client, PAIRS).await?;
        found.sort_unstable();
        expected.sort_unstable();
        ensure!(found == expected, "{} rows instead of {}", found.len(), expected.len());
    }
    Ok(())
}

/// A statement that wants a few rows leaves the GPU to others.
async fn first_rows_only() -> Result<()> {
    let server = Server::start_with(&["--gpu-memory-limit", "512KiB"], &[SIMULATOR])?;
    let client = with_tables(&server).await?;
    for _ in 0..5 {
        let few = rows(&client, &format!("{PAIRS} LIMIT 5")).await?;
        ensure!(few.len() == 5, "{} rows", few.len());
    }
    ensure!(answer(&client).await? == expected());
    let shown = explained(&client).await?;
    ensure!(shown.contains("Triton on gpu"), "memory was not given back:\n{shown}");
    Ok(())
}

/// Where only the number of pairs is asked for, only that leaves the GPU.
async fn count() -> Result<()> {
    let server = Server::start_with(&[], &[SIMULATOR])?;
    let client = with_tables(&server).await?;
    let pairs = rows(&client, PAIRS).await?.len().to_string();
    // By an operator of its own: else it is part of a pipeline.
    client.batch_execute("SET tenon.join_operator = 'smj'").await?;
    let count = "SELECT count(*) FROM b JOIN p ON b.k = p.k";
    ensure!(value(&client, count).await? == pairs);
    let lines = rows(&client, &format!("EXPLAIN ANALYZE {count}")).await?;
    let shown: Vec<_> = lines.into_iter().flatten().flatten().collect();
    let shown = shown.join("\n");
    ensure!(shown.contains("Bytes From Gpu: 8\n"), "{shown}");
    Ok(())
}

/// A cancel ends a join on the GPU at its next chunk.
async fn cancel() -> Result<()> {
    let server = Server::start_with(&["--gpu-memory-limit", "1MiB"], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client
        .batch_execute("CREATE TABLE b AS SELECT x, (x % 1000000)::int4 AS k FROM generate_series(1, 2000000) g(x)")
        .await?;
    let join = "SELECT count(*) FROM b JOIN b AS c ON b.k = c.k AND b.x <> c.x";
    let token = client.cancel_token();
    let begun = Instant::now();
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let begun = Instant::now();
        token.cancel_query(tokio_postgres::NoTls).await.map(|()| begun)
    };
    let (result, asked) = tokio::join!(client.simple_query(join), cancelling);
    let took = asked?.elapsed();
    let error = result
        .err()
        .with_context(|| format!("a join that was to be cancelled ended within {:?}", begun.elapsed()))?;
    ensure!(sql_state(&error) == "57014", "{}", sql_state(&error));
    ensure!(took < Duration::from_secs(5), "the cancel took {took:?}");
    client
        .batch_execute("CREATE TABLE few AS SELECT x, k FROM b WHERE x <= 1000")
        .await?;
    let few = "SELECT count(*) FROM few JOIN few AS c ON few.k = c.k";
    ensure!(value(&client, few).await? == "1000");
    Ok(())
}

/// Parts of queries on the device whose tables and sums have room there, push each other out, or have none: the same rows.
async fn fragments_in_little_memory() -> Result<()> {
    let queries = [
        "SELECT l_returnflag, l_linestatus, sum(l_quantity), avg(l_discount), count(*) FROM lineitem GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT o_custkey, c_name, sum(o_totalprice), max(o_orderdate) FROM orders JOIN customer ON c_custkey = o_custkey \
         GROUP BY o_custkey, c_custkey, c_name ORDER BY 3 DESC, 1 LIMIT 20",
        "SELECT p_brand, count(DISTINCT ps_suppkey) FROM partsupp JOIN part ON p_partkey = ps_partkey GROUP BY 1 ORDER BY 1",
        "SELECT count(*), min(s_acctbal) FROM supplier WHERE s_comment LIKE '%a%e%'",
    ];
    for limit in ["64KiB", "1MiB", "4MiB", "1GiB"] {
        let args = ["--demo=0.01", "--gpu-memory-limit", limit];
        let mut server = Server::start_with(&args, &[SIMULATOR])?;
        let client = connected(&server).await?;
        let mut on_device = 0;
        for round in 0..2 {
            for sql in queries {
                client.batch_execute("SET tenon.device = 'cpu'").await?;
                let expected = rows(&client, sql).await?;
                client.batch_execute("SET tenon.device = 'gpu'").await?;
                ensure!(rows(&client, sql).await? == expected, "{limit}, round {round}: {sql}");
                let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
                on_device += usize::from(plan.iter().flatten().flatten().any(|line| line.contains("Device: gpu")));
            }
        }
        println!(
            "gpu::fragments_in_little_memory: under {limit} {on_device} of {} on the device",
            2 * queries.len()
        );
        ensure!(
            limit != "1GiB" || on_device == 2 * queries.len(),
            "{on_device} under {limit}"
        );
        ensure!(server.is_alive()?);
    }
    Ok(())
}

/// The first run of a query is the CPU's; once its code is there, the device's.
async fn fragments_compiled_meanwhile() -> Result<()> {
    let server = Server::start_with(&["--demo=0.01"], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client.batch_execute("SET tenon.wait_for_compile = off").await?;
    let sql = "SELECT l_shipmode, count(*), sum(l_tax) FROM lineitem WHERE l_quantity < 7 GROUP BY 1 ORDER BY 1";
    let expected = rows(&client, sql).await?;
    let explain = format!("EXPLAIN ANALYZE {sql}");
    let begun = Instant::now();
    loop {
        let plan = rows(&client, &explain).await?;
        let shows = |what: &str| plan.iter().flatten().flatten().any(|line| line.contains(what));
        if shows("Device: gpu") {
            break;
        }
        ensure!(shows("its code is being compiled"), "{plan:?}");
        ensure!(begun.elapsed() < Duration::from_secs(60), "{plan:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(rows(&client, sql).await? == expected);
    Ok(())
}

/// A plan that is kept runs the same code again, and other code for other values.
async fn fragments_of_kept_plans() -> Result<()> {
    let server = Server::start_with(&["--demo=0.01"], &[SIMULATOR])?;
    let client = connected(&server).await?;
    let by_value =
        "SELECT l_linestatus, count(*), avg(l_tax) FROM lineitem WHERE l_quantity < $1 GROUP BY 1 ORDER BY 1";
    let statement = client
        .prepare_typed(by_value, &[tokio_postgres::types::Type::INT4])
        .await?;
    let whole = "SELECT count(*) FROM orders WHERE o_totalprice > (SELECT avg(o_totalprice) FROM orders) \
                 AND o_orderpriority LIKE '%URGENT%'";
    for round in 0..12i32 {
        let value = round * 7 % 51;
        let literal = by_value.replace("$1", &value.to_string());
        let mut found = vec![];
        for device in ["cpu", "gpu"] {
            client.batch_execute(&format!("SET tenon.device = '{device}'")).await?;
            let counts = client.query(&statement, &[&value]).await?;
            let counts: Vec<i64> = counts.iter().map(|row| row.get(1)).collect();
            found.push((counts, rows(&client, &literal).await?, rows(&client, whole).await?));
        }
        ensure!(found[0] == found[1], "{value}: {found:?}");
    }
    Ok(())
}

/// Columns that stay on the device are those of the table as the statement sees it.
async fn fragments_after_changes() -> Result<()> {
    let server = Server::start_with(&[], &[SIMULATOR])?;
    let client = connected(&server).await?;
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT g AS k, g % 7 AS v, CASE WHEN g % 5 > 0 THEN 'text ' || g % 11 END AS s \
             FROM generate_series(1, 200000) q (g)",
        )
        .await?;
    let sql = "SELECT v, s, count(*) AS n, count(s) AS texts, sum(k) AS k FROM t GROUP BY v, s ORDER BY v, s";
    let there = "SELECT string_agg(attname || ' ' || segments, ', ' ORDER BY attname) FROM tenon_device_columns";
    rows(&client, sql).await?;
    ensure!(value(&client, there).await? == "k 2, s 2, v 2");
    for change in [
        "SELECT 1",
        "INSERT INTO t VALUES (-5, 100, 'another'), (NULL, NULL, NULL)",
        "UPDATE t SET v = 3000000, s = 'a' WHERE k < 10",
        "DELETE FROM t WHERE k % 3 = 0",
        "ALTER TABLE t ADD COLUMN w int DEFAULT 4; UPDATE t SET k = k + w WHERE v = 2",
        "ALTER TABLE t DROP COLUMN w; BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 1, 'own')",
        "ROLLBACK",
        "TRUNCATE t",
    ] {
        client.batch_execute(change).await?;
        let own = rows(&client, sql).await?;
        client.batch_execute("SET tenon.device = 'cpu'").await?;
        let expected = rows(&client, sql).await?;
        client.batch_execute("SET tenon.device = 'gpu'").await?;
        ensure!(
            own == expected,
            "after {change}: {own:?} where the CPU has {expected:?}"
        );
    }
    Ok(())
}
