//! TPC-H's 22 queries over the wire, against answers found by another engine.

use crate::process::{Server, rows};
use crate::trial;
use anyhow::{Context, Result};
use libtest_mimic::Trial;
use std::time::Instant;
use tenon_tests::tpch::{Scale, check, query};

pub fn trials() -> Vec<Trial> {
    let scales = [Scale::One, Scale::Tenth];
    let mut trials: Vec<Trial> = scales
        .map(|scale| trial(&format!("tpch::sf{}", scale.name()), move || all(scale)))
        .into();
    trials.push(trial("tpch::on_device", on_device));
    trials
}

/// On the simulated GPU the queries answer what they do on the CPU, and do run there. NVRTC compiles their pipelines, too.
async fn on_device() -> Result<()> {
    let env = [("TENON_DEVICE", "sim"), ("TENON_SIM_NVRTC", "1")];
    let server = Server::start_with(&["--demo=0.01"], &env)?;
    let client = server.connect().await?;
    client.batch_execute("SET tenon.wait_for_compile = on").await?;
    let mut failures = Vec::new();
    for number in 1..=22 {
        let begun = Instant::now();
        // Query 11's fraction is that of another scale: more rows, no fewer.
        let sql = query(number, Scale::Tenth)?;
        client.batch_execute("SET tenon.device = 'cpu'").await?;
        let expected = rows(&client, &sql).await?;
        client.batch_execute("SET tenon.device = 'gpu'").await?;
        if rows(&client, &sql).await? != expected {
            failures.push(format!("q{number:02}: other rows on the device"));
        }
        let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
        let plan: Vec<String> = plan.into_iter().flatten().flatten().collect();
        let nodes = plan.iter().filter(|line| line.contains("Device: gpu")).count();
        if nodes == 0 {
            failures.push(format!(
                "q{number:02}: {nodes} nodes on the device\n{}",
                plan.join("\n")
            ));
        }
        println!(
            "tpch q{number:02} on the device: {nodes} nodes, {} ms",
            begun.elapsed().as_millis()
        );
    }
    anyhow::ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

async fn all(scale: Scale) -> Result<()> {
    let begun = Instant::now();
    let server = Server::start(&[&format!("--demo={}", scale.name())])?;
    println!(
        "tpch sf{}: server ready after {:.1} s",
        scale.name(),
        begun.elapsed().as_secs_f64()
    );
    let client = server.connect().await?;
    let mut failures = Vec::new();
    for number in 1..=22 {
        let begun = Instant::now();
        if let Err(error) = one(&client, number, scale).await {
            failures.push(format!("q{number:02}: {error:#}"));
        }
        println!(
            "tpch sf{} q{number:02}: {} ms",
            scale.name(),
            begun.elapsed().as_millis()
        );
    }
    anyhow::ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

async fn one(client: &tokio_postgres::Client, number: usize, scale: Scale) -> Result<()> {
    let found = rows(client, &query(number, scale)?).await.context("query failed")?;
    check(number, scale, &found)
}
