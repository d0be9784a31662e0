//! What EXPLAIN ANALYZE tells of the nodes inside fragments.

use super::SIMULATOR;
use crate::process::{Server, value};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio_postgres::Client;

/// A node's type, the rows that it gave, if they are told, and whether joins above leave out some of them on the CPU, where
/// that is done by a filter that lets others pass, too.
type Node = (String, Option<u64>, bool);

/// Those of a plan, and its text.
async fn nodes(client: &Client, sql: &str) -> Result<(Vec<Node>, String)> {
    fn walk(plan: &Value, below: &mut Vec<Node>) {
        let kind = plan["Node Type"].as_str().unwrap_or_default().to_string();
        let rows = plan["Actual Rows"].as_u64();
        // Which operator a join is, and so whether its build side is hashed, may be another one here.
        let kind = match plan.get("Join Type") {
            Some(_) => "Join".into(),
            None => kind,
        };
        if kind != "Hash" {
            below.push((kind, rows, plan.get("Runtime Filter").is_some()));
        }
        let inputs = plan["Plans"].as_array();
        inputs.into_iter().flatten().for_each(|input| walk(input, below));
    }
    let text = value(client, &format!("EXPLAIN (ANALYZE, FORMAT JSON) {sql}")).await?;
    let document: Value = serde_json::from_str(&text)?;
    let mut found = vec![];
    walk(&document[0]["Plan"], &mut found);
    Ok((found, text))
}

/// The rows of nodes in fragments are those that the CPU's nodes give: of all that are told, and of how many at least that is.
pub async fn rows_of_nodes() -> Result<()> {
    let server = Server::start_with(&["--threads", "2"], &[SIMULATOR])?;
    let client = server.connect().await?;
    let tables = "CREATE TABLE f AS SELECT g AS a, g * 7 % 1000 AS b, (g % 500 / 3.0)::numeric(9, 2) AS c, \
         CASE WHEN g % 11 > 0 THEN 'n' || g % 13 END AS s FROM generate_series(1, 30000) q (g); \
         CREATE TABLE d AS SELECT g * 3 AS b, 'd' || g % 17 AS n, g % 5 AS x FROM generate_series(1, 400) q (g); \
         CREATE TABLE far AS SELECT g * 7919 % 90001 * 1000003::bigint AS k, g % 20 AS y FROM generate_series(1, 20000) q (g); \
         CREATE SCHEMA indexed; CREATE TABLE indexed.far AS SELECT * FROM far; CREATE INDEX ON indexed.far (k); \
         CREATE TABLE few AS SELECT k, y FROM far WHERE y = 3; \
         CREATE TABLE e AS SELECT * FROM d WHERE x < 0";
    client.batch_execute(tables).await?;
    for (sql, least) in [
        (
            "SELECT s, count(*), sum(c) FROM f WHERE a < 20000 GROUP BY s ORDER BY s",
            2,
        ),
        (
            "SELECT d.n, sum(f.c) FROM f JOIN d USING (b) WHERE d.x = 1 AND f.a > 500 GROUP BY d.n ORDER BY 1",
            4,
        ),
        (
            "SELECT d.n, f.s, count(*) FROM f LEFT JOIN d ON f.b = d.b AND f.a % 3 = d.x GROUP BY 1, 2 ORDER BY 1, 2",
            4,
        ),
        (
            "SELECT count(*), count(d.b) FROM f FULL JOIN d ON f.b = d.b AND f.a < 9000",
            4,
        ),
        (
            "SELECT count(*) FROM f WHERE EXISTS (SELECT FROM d WHERE d.b = f.b AND d.x < 3)",
            3,
        ),
        (
            "SELECT count(*) FROM d WHERE NOT EXISTS (SELECT FROM f WHERE d.b = f.b AND f.a > 29000)",
            3,
        ),
        ("SELECT count(*) FROM f JOIN e ON f.b = e.b", 2),
        (
            "SELECT a, row_number() OVER (PARTITION BY s ORDER BY c, a) FROM f WHERE b < 300 ORDER BY a",
            3,
        ),
        ("SELECT sum(y) FROM few LEFT JOIN far USING (k, y)", 3),
        ("SELECT count(*), sum(far.y) FROM few LEFT JOIN far ON few.k = far.k", 3),
        (
            "SELECT n, count(*) FROM (SELECT n, b FROM d UNION ALL SELECT s, b FROM f WHERE a < 100) u GROUP BY n ORDER BY n",
            4,
        ),
        (
            "SELECT s, b, sum(a) AS t FROM f GROUP BY s, b ORDER BY t DESC, s, b LIMIT 10",
            2,
        ),
        ("SELECT count(DISTINCT b), count(*) FROM f WHERE s = 'n4'", 2),
    ] {
        client
            .batch_execute("SET tenon.device = 'cpu'; SET search_path = public")
            .await?;
        let (expected, expected_plan) = nodes(&client, sql).await?;
        let on_gpu = "SET tenon.device = 'gpu'; SET search_path = indexed, public";
        client.batch_execute(on_gpu).await?;
        // An order that the first run makes is there in the second, and what would be put in it is not read then.
        for run in 0..2 {
            let (own, plan) = nodes(&client, sql).await?;
            let told = || format!("{sql}, run {run}\n{plan}\nwhere the CPU has\n{expected_plan}");
            ensure!(plan.contains("\"Bytes Read\"") && plan.contains("\"Pipeline\""), told());
            let kinds = |nodes: &[Node]| nodes.iter().map(|(kind, ..)| kind.clone()).collect::<Vec<_>>();
            ensure!(kinds(&own) == kinds(&expected), told());
            let mut compared = 0;
            for ((kind, rows, filtered), (_, expected, _)) in own.iter().zip(&expected) {
                let Some(rows) = rows.filter(|_| !filtered) else {
                    continue;
                };
                let expected = expected.with_context(told)?;
                ensure!(
                    rows == expected || (run == 1 && rows == 0),
                    "{kind}: {rows}, not {expected}\n{}",
                    told()
                );
                compared += 1;
            }
            ensure!(compared >= least, "{compared} of {least} compared: {}", told());
        }
    }
    Ok(())
}
