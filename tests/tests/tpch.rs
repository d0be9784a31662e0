//! TPC-H's 22 queries over the wire, against answers found by another engine.

use crate::process::{Server, rows};
use crate::trial;
use anyhow::{Context, Result};
use libtest_mimic::Trial;
use std::time::Instant;
use tenon_tests::tpch::{Scale, check, query};

pub fn trials() -> Vec<Trial> {
    let scales = [Scale::One, Scale::Tenth];
    scales
        .map(|scale| trial(&format!("tpch::sf{}", scale.name()), move || all(scale)))
        .into()
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
