//! `bench planning`: how long the 22 TPC-H queries and joins of many tables take to plan, as `EXPLAIN (SUMMARY)` says:
//! names bound, joins ordered, a physical plan made. And how long it takes where a prepared statement has kept its plan.

use anyhow::{Context, Result};
use tenon_tests::planning::{Shape, join, planning_ms, tables};
use tokio_postgres::Client;

use crate::Options;
use crate::served::{Served, query};

/// Times of one query: median and 95th percentile, in milliseconds.
struct Times {
    median: f64,
    p95: f64,
}

pub fn run(options: &Options) -> Result<()> {
    Served::new(options, &[])?.run(async |client| {
        println!("query          made: median      p95 | kept: median      p95 (ms)");
        let mut medians = vec![];
        for &number in &options.queries {
            let sql = options.sql(number)?;
            let sql = sql.trim().trim_end_matches(';');
            let made = measure(client, options, sql).await?;
            medians.push(made.median);
            print(&format!("q{number}"), &made, &kept(client, options, sql).await?);
        }
        medians.sort_by(f64::total_cmp);
        println!("median of the queries: {:.3}", medians[medians.len() / 2]);
        for statement in tables() {
            query(client, &statement).await?;
        }
        for shape in Shape::ALL {
            for tables in [10, 20, 30] {
                let sql = join(shape, tables);
                let made = measure(client, options, &sql).await?;
                print(
                    &format!("{} of {tables}", shape.name()),
                    &made,
                    &kept(client, options, &sql).await?,
                );
            }
        }
        let point = "SELECT o_totalprice FROM orders WHERE o_orderkey = $1";
        let made = measure(client, options, &point.replace("$1", "7")).await?;
        print("one order", &made, &kept_for_any(client, options, point).await?);
        Ok(())
    })
}

fn print(name: &str, made: &Times, kept: &Times) {
    let ([median, p95], [kept, kept_p95]) = ([made.median, made.p95], [kept.median, kept.p95]);
    println!("{name:<14} {median:12.3} {p95:8.3} | {kept:12.3} {kept_p95:8.3}");
}

/// Planned anew each time.
async fn measure(client: &Client, options: &Options, sql: &str) -> Result<Times> {
    let explain = format!("EXPLAIN (SUMMARY) {sql}");
    repeated(client, options, |_| explain.clone()).await
}

/// Kept by a prepared statement.
async fn kept(client: &Client, options: &Options, sql: &str) -> Result<Times> {
    query(client, &format!("PREPARE kept AS {sql}")).await?;
    for _ in 0..2 {
        query(client, "EXECUTE kept").await?;
    }
    let times = repeated(client, options, |_| "EXPLAIN (SUMMARY) EXECUTE kept".into()).await?;
    query(client, "DEALLOCATE kept").await?;
    Ok(times)
}

/// Kept by a prepared statement that has another value of its parameter each time.
async fn kept_for_any(client: &Client, options: &Options, sql: &str) -> Result<Times> {
    query(client, &format!("PREPARE kept(bigint) AS {sql}")).await?;
    for value in 1..10 {
        query(client, &format!("EXECUTE kept({value})")).await?;
    }
    let times = repeated(client, options, |run| format!("EXPLAIN (SUMMARY) EXECUTE kept({run})")).await?;
    query(client, "DEALLOCATE kept").await?;
    Ok(times)
}

async fn repeated(client: &Client, options: &Options, sql: impl Fn(usize) -> String) -> Result<Times> {
    let mut times = vec![];
    for run in 0..options.runs.max(1) {
        let lines: Vec<String> = query(client, &sql(run))
            .await?
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        times.push(planning_ms(&lines.join("\n")).context("no planning time")?);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    Ok(Times {
        median: at(0.5),
        p95: at(0.95),
    })
}
