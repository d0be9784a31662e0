//! Plans as EXPLAIN (COSTS OFF) prints them, against the files in `tests/plans`; with `TENON_PLANS_UPDATE=1` the files
//! are written instead. And what must hold of plans whatever they are: they do not depend on the order of FROM, and are
//! found in time.

use crate::process::{Server, root, rows, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};
use std::fmt::Write;
use std::path::PathBuf;
use tenon_tests::planning::{Shape, TABLES_MAX, join, planning_ms, tables};
use tenon_tests::tpch::{Scale, query};
use tokio_postgres::Client;

/// Plans depend on the number of partitions.
const ARGS: [&str; 2] = ["--threads=2", "--target-partitions=2"];

pub fn trials() -> Vec<Trial> {
    vec![
        trial("plans::tpch", tpch),
        trial("plans::ladder", ladder),
        trial("plans::shuffled", shuffled),
        trial("plans::thirty", thirty),
    ]
}

fn directory() -> PathBuf {
    root().join("tests/plans")
}

async fn explain(client: &Client, options: &str, sql: &str) -> Result<String> {
    let found = rows(client, &format!("EXPLAIN ({options}) {sql}")).await?;
    let lines: Vec<String> = found.into_iter().filter_map(|mut row| row.pop().flatten()).collect();
    Ok(lines.join("\n"))
}

/// Compares with a file, or writes it.
fn check(name: &str, plan: &str, failures: &mut Vec<String>) -> Result<()> {
    let path = directory().join(name);
    if std::env::var_os("TENON_PLANS_UPDATE").is_some() {
        return Ok(std::fs::write(path, plan)?);
    }
    let wanted = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    if wanted != plan {
        failures.push(format!("{name}: the plan is\n{plan}\nbut the file has\n{wanted}"));
    }
    Ok(())
}

fn done(failures: &[String]) -> Result<()> {
    ensure!(
        failures.is_empty(),
        "{}\nIf the new plans are better: scripts/update-plans.sh",
        failures.join("\n")
    );
    Ok(())
}

/// The 22 queries at scale factor 0.1.
async fn tpch() -> Result<()> {
    let server = Server::start_without_gpu(&["--demo=0.1", ARGS[0], ARGS[1]])?;
    let client = server.connect().await?;
    let mut failures = Vec::new();
    for number in 1..=22 {
        let plan = explain(&client, "COSTS OFF", &query(number, Scale::Tenth)?).await?;
        check(&format!("tpch/q{number:02}.txt"), &format!("{plan}\n"), &mut failures)?;
    }
    done(&failures)
}

/// The queries of `ladder.sql`, over tables of 10 rows to a million.
async fn ladder() -> Result<()> {
    let server = Server::start_without_gpu(&ARGS)?;
    let client = server.connect().await?;
    let text = std::fs::read_to_string(directory().join("ladder.sql"))?;
    let mut plans = String::new();
    for statement in text.split(";\n").map(str::trim).filter(|s| !s.is_empty()) {
        let bare: Vec<&str> = statement.lines().filter(|line| !line.starts_with("--")).collect();
        if ["SELECT", "WITH"].iter().any(|word| bare.join("\n").starts_with(word)) {
            let plan = explain(&client, "COSTS OFF", &bare.join("\n")).await?;
            writeln!(plans, "{statement};\n{plan}\n")?;
        } else {
            client
                .batch_execute(statement)
                .await
                .with_context(|| statement.to_string())?;
        }
    }
    let mut failures = Vec::new();
    check("ladder.txt", &plans, &mut failures)?;
    done(&failures)
}

/// A query's text with the items of its outermost FROM list in another order.
fn with_from_shuffled(sql: &str, rng: &mut StdRng) -> Option<String> {
    let lower = sql.to_lowercase();
    let start = lower.find("from ")? + 5;
    let end = start + lower[start..].find("where")?;
    let list = &sql[start..end];
    if list.contains('(') || list.to_lowercase().contains("join") {
        return None;
    }
    let mut items: Vec<&str> = list.split(',').map(str::trim).collect();
    items.shuffle(rng);
    Some(format!("{}{} {}", &sql[..start], items.join(", "), &sql[end..]))
}

/// Twenty orders of each query's FROM list: all plans must cost the same.
async fn shuffled() -> Result<()> {
    let seed = std::env::var("TENON_SEED").ok().and_then(|s| s.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("plans::shuffled: seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let server = Server::start_without_gpu(&["--demo=0.1", ARGS[0], ARGS[1]])?;
    let client = server.connect().await?;
    let mut failures = Vec::new();
    for number in [2, 3, 5, 7, 8, 9, 10, 11, 18, 20, 21] {
        let own = query(number, Scale::Tenth)?;
        let reference = cost(&client, &own).await?;
        for _ in 0..20 {
            let Some(variant) = with_from_shuffled(&own, &mut rng) else {
                break;
            };
            let found = cost(&client, &variant).await?;
            if (found - reference).abs() > 1e-6 * reference {
                failures.push(format!("q{number:02}: cost {found} instead of {reference}:\n{variant}"));
            }
        }
    }
    done(&failures)
}

async fn cost(client: &Client, sql: &str) -> Result<f64> {
    let document: serde_json::Value = serde_json::from_str(&explain(client, "FORMAT JSON", sql).await?)?;
    let cost = document
        .pointer("/0/Plan/Total Cost")
        .and_then(serde_json::Value::as_f64);
    cost.context("no cost")
}

/// Joins of thirty tables, as a chain, a star and a clique, are ordered in bounded time, and answered.
async fn thirty() -> Result<()> {
    let server = Server::start_without_gpu(&ARGS)?;
    let client = server.connect().await?;
    for statement in tables() {
        client.batch_execute(&statement).await?;
    }
    for shape in Shape::ALL {
        let sql = join(shape, TABLES_MAX);
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let text = explain(&client, "SUMMARY", &sql).await?;
            best = best.min(planning_ms(&text).context("no time")?);
        }
        println!("plans::thirty: {} planned in {best:.1} ms", shape.name());
        // A release build needs 50 ms at most; this one is not optimized, and other tests may run beside it.
        ensure!(best < 500.0, "{}: planned in {best} ms", shape.name());
        let found = value(&client, &sql).await?;
        ensure!(shape == Shape::Chain || found == "10", "{}: {found} rows", shape.name());
    }
    Ok(())
}
