//! How far the planner's row counts are off, over TPC-H at scale factor 0.01 and over tables that change: as q-errors,
//! the larger of estimate and truth divided by the smaller (Moerkotte, Neumann and Steidl 2009).

use crate::process::{Server, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![trial("estimates::tpch", tpch), trial("estimates::changes", changes)]
}

/// Rows that a query is expected to give, and those that it gives.
async fn rows_of(client: &Client, sql: &str) -> Result<(f64, f64)> {
    let document = value(client, &format!("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {sql}")).await?;
    let document: serde_json::Value = serde_json::from_str(&document)?;
    let number = |name: &str| document.pointer(&format!("/0/Plan/{name}")).and_then(|n| n.as_f64());
    let expected = number("Plan Rows").with_context(|| sql.to_string())?;
    Ok((expected, number("Actual Rows").with_context(|| sql.to_string())?))
}

async fn q_error(client: &Client, sql: &str) -> Result<f64> {
    let (expected, actual) = rows_of(client, sql).await?;
    let (expected, actual) = (expected.max(1.0), actual.max(1.0));
    Ok((expected / actual).max(actual / expected))
}

/// Parts of the TPC-H queries, each with the q-error that it must not exceed.
const PARTS: [(&str, f64); 22] = [
    ("SELECT l_tax FROM lineitem WHERE l_shipdate <= date '1998-09-02'", 1.05),
    (
        "SELECT l_tax FROM lineitem WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01'",
        1.1,
    ),
    (
        "SELECT l_tax FROM lineitem WHERE l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
        1.3,
    ),
    ("SELECT l_tax FROM lineitem WHERE l_shipmode IN ('MAIL', 'SHIP')", 1.1),
    ("SELECT l_tax FROM lineitem WHERE l_returnflag = 'R'", 1.1),
    ("SELECT l_tax FROM lineitem WHERE l_receiptdate > l_commitdate", 1.5),
    ("SELECT p_size FROM part WHERE p_name LIKE '%green%'", 2.0),
    (
        "SELECT p_size FROM part WHERE p_type LIKE '%BRASS' AND p_size = 15",
        3.0,
    ),
    (
        "SELECT o_clerk FROM orders WHERE o_comment NOT LIKE '%special%requests%'",
        1.1,
    ),
    (
        "SELECT c_name FROM customer WHERE substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23')",
        1.5,
    ),
    (
        "SELECT o_clerk FROM orders, customer WHERE c_custkey = o_custkey AND c_mktsegment = 'BUILDING'",
        1.2,
    ),
    (
        "SELECT l_tax FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey \
         AND l_orderkey = o_orderkey AND o_orderdate < date '1995-03-15'",
        1.3,
    ),
    (
        "SELECT l_tax FROM part, lineitem, partsupp WHERE p_partkey = l_partkey AND ps_suppkey = l_suppkey \
         AND ps_partkey = l_partkey AND p_name LIKE '%green%'",
        2.0,
    ),
    (
        "SELECT n_name FROM supplier, nation, region WHERE s_nationkey = n_nationkey AND n_regionkey = r_regionkey \
         AND r_name = 'EUROPE'",
        1.5,
    ),
    (
        "SELECT n_name FROM customer, orders, lineitem, supplier, nation, region WHERE c_custkey = o_custkey \
         AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey \
         AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA' \
         AND o_orderdate >= date '1994-01-01' AND o_orderdate < date '1995-01-01'",
        2.0,
    ),
    (
        "SELECT a.o_clerk FROM orders a JOIN customer b ON a.o_totalprice BETWEEN b.c_acctbal AND b.c_acctbal + 100",
        3.0,
    ),
    (
        "SELECT o_clerk FROM orders WHERE EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey)",
        1.1,
    ),
    ("SELECT l_suppkey, count(*) FROM lineitem GROUP BY l_suppkey", 1.1),
    (
        "SELECT l_returnflag, l_linestatus, count(*) FROM lineitem GROUP BY l_returnflag, l_linestatus",
        2.0,
    ),
    ("SELECT o_custkey, count(*) FROM orders GROUP BY o_custkey", 1.3),
    (
        "SELECT c_name FROM (SELECT o_custkey AS k FROM orders UNION ALL SELECT c_custkey FROM customer) u, customer \
         WHERE k = c_custkey AND c_mktsegment = 'BUILDING'",
        1.5,
    ),
    (
        "SELECT k, count(*) FROM (SELECT l_suppkey AS k FROM lineitem UNION ALL SELECT s_suppkey FROM supplier) u \
         GROUP BY k",
        1.2,
    ),
];

async fn tpch() -> Result<()> {
    let server = Server::start(&["--demo=0.01", "--threads=2", "--target-partitions=2"])?;
    let client = server.connect().await?;
    let mut wrong = Vec::new();
    for (sql, bound) in PARTS {
        let (expected, actual) = rows_of(&client, sql).await?;
        let error = q_error(&client, sql).await?;
        println!("{error:8.3}  expected {expected:8} found {actual:8}  {sql}");
        if error > bound {
            wrong.push(format!("{error:.2} instead of {bound}: {sql}"));
        }
    }
    ensure!(wrong.is_empty(), "q-errors: {wrong:#?}");
    Ok(())
}

/// What is known of a table follows its data, without and with ANALYZE, and pg_stats shows it.
async fn changes() -> Result<()> {
    let server = Server::start(&["--threads=2", "--target-partitions=2"])?;
    let client = server.connect().await?;
    let run = async |sql: &str| client.batch_execute(sql).await.with_context(|| sql.to_string());
    run("CREATE TABLE t (id int, kind int, word text)").await?;
    // Nothing is known of an empty table; queries are answered all the same.
    ensure!(value(&client, "SELECT count(*) FROM t a, t b WHERE a.kind = b.kind").await? == "0");
    // Half of the rows have one kind, the others one of a thousand.
    let insert = "INSERT INTO t SELECT v, CASE v % 2 WHEN 0 THEN 7 ELSE v % 1000 END, 'word ' || v % 10 \
                  FROM generate_series(1, 20000) AS g(v)";
    run(insert).await?;
    let queries = [
        ("SELECT id FROM t WHERE kind = 7", 1.1),
        ("SELECT id FROM t WHERE kind = 501", 3.0),
        ("SELECT id FROM t WHERE kind > 500", 1.2),
        ("SELECT id FROM t WHERE word = 'word 3'", 1.2),
        ("SELECT a.id FROM t a JOIN t b ON a.kind = b.kind WHERE a.id < 500", 2.0),
        ("SELECT kind FROM t GROUP BY kind", 1.3),
    ];
    for round in ["one load", "tenfold", "analyzed"] {
        match round {
            "tenfold" => {
                for _ in 0..9 {
                    run(insert).await?;
                }
            }
            "analyzed" => run("ANALYZE t").await?,
            _ => {}
        }
        for (sql, bound) in queries {
            // The join would give a hundred million rows of the tenfold table.
            if round != "one load" && sql.contains("JOIN") {
                continue;
            }
            let error = q_error(&client, sql).await?;
            println!("{round}: {error:.3} {sql}");
            ensure!(
                error <= bound,
                "{round}: a q-error of {error:.2} instead of {bound}: {sql}"
            );
        }
    }
    // Days of two hundred years, of which five have facts: a year that is asked for is one of these, a month is in all.
    run("CREATE TABLE days AS SELECT v AS id, v / 365 AS year, v % 12 AS month FROM generate_series(0, 72999) AS g(v)")
        .await?;
    run("CREATE TABLE facts AS SELECT 36500 + v * 7 % 1825 AS day FROM generate_series(1, 50000) AS g(v)").await?;
    for condition in [
        "year = 102",
        "month = 3",
        "year = 102 AND month = 3",
        "year BETWEEN 101 AND 102",
    ] {
        let sql = format!("SELECT day, month FROM facts, days WHERE day = id AND {condition}");
        let error = q_error(&client, &sql).await?;
        println!("{error:.3} {sql}");
        ensure!(error <= 1.5, "a q-error of {error:.2} instead of 1.5: {sql}");
    }
    let stats = value(
        &client,
        "SELECT n_distinct::text || ' ' || (most_common_vals::text = '{7}' OR most_common_vals::text LIKE '{7,%') FROM pg_stats \
         WHERE tablename = 't' AND attname = 'kind'",
    )
    .await?;
    ensure!(stats.ends_with(" true"), "pg_stats: {stats}");
    Ok(())
}
