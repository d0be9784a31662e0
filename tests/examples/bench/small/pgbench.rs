//! pgbench's own scripts.

use anyhow::{Context, Result, ensure};

use super::postgres::told;

pub fn fill(server: &str, scale: usize) -> Result<()> {
    told("pgbench", &["-i", "-q", "-s", &scale.to_string(), server]).map(drop)
}

/// Reads of a row by its key, a second.
pub fn select(server: &str, mode: &str, clients: usize, seconds: u64) -> Result<f64> {
    run(server, &["-S", "-M", mode], clients, seconds)
}

/// Transactions that write, a second. Those that meet others begin anew. What they have added up must agree.
pub fn write(server: &str, script: &str, clients: usize, seconds: u64) -> Result<f64> {
    let rate = run(server, &["-b", script, "--max-tries=1000"], clients, seconds)?;
    let mut sums = vec!["SELECT sum(abalance) FROM pgbench_accounts"];
    if script == "tpcb-like" {
        sums.push("SELECT sum(bbalance) FROM pgbench_branches");
        sums.push("SELECT sum(tbalance) FROM pgbench_tellers");
    }
    let value = |sql: &str| told("psql", &["-XAtq", "-d", server, "-c", sql]);
    let expected = value("SELECT coalesce(sum(delta), 0) FROM pgbench_history")?;
    for sql in sums {
        let found = value(sql)?;
        ensure!(found == expected, "{sql}: {found}, where the history has {expected}");
    }
    // The other script changes one of the sums alone.
    for sql in [
        "UPDATE pgbench_accounts SET abalance = 0",
        "UPDATE pgbench_branches SET bbalance = 0",
        "UPDATE pgbench_tellers SET tbalance = 0",
        "TRUNCATE pgbench_history",
    ] {
        value(sql)?;
    }
    Ok(rate)
}

/// Runs of a script of one's own, a second, and how many there were.
pub fn script(server: &str, (path, mode): (&str, &str), clients: usize, seconds: u64) -> Result<(f64, u64)> {
    let text = output(server, &["-f", path, "-M", mode], clients, seconds)?;
    let number = number(&text, "number of transactions actually processed: ").context("no number of transactions")?;
    Ok((rate(&text)?, number as u64))
}

fn run(server: &str, args: &[&str], clients: usize, seconds: u64) -> Result<f64> {
    rate(&output(server, args, clients, seconds)?)
}

fn rate(text: &str) -> Result<f64> {
    number(text, "tps = ").with_context(|| format!("no rate in\n{text}"))
}

fn number(text: &str, before: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(before))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What pgbench prints, of a run in which nothing failed.
fn output(server: &str, args: &[&str], clients: usize, seconds: u64) -> Result<String> {
    let (clients, seconds, threads) = (clients.to_string(), seconds.to_string(), clients.min(2).to_string());
    let own = ["-n", "-c", &clients, "-j", &threads, "-T", &seconds];
    let text = told("pgbench", &[&own, args, &[server]].concat())?;
    let failed = number(&text, "number of failed transactions: ").unwrap_or(0.0);
    ensure!(failed == 0.0, "failed transactions:\n{text}");
    Ok(text)
}
