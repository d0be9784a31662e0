//! `bench join`: count and two sums over a join of two tables of as many rows, on the CPU and on the device, where their
//! columns lie there already and where they come from the host's memory.
//!
//! Keys are a permutation on both sides: each row has one partner. Each run over columns that are not on the device has
//! tables of its own, and the code of earlier ones.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio_postgres::Client;

use crate::Options;
use crate::served::{Served, query};

/// Pairs of tables: the first loads the code, each other is read from the host's memory once.
const PAIRS: usize = 4;
/// Time for the driver to pin what was loaded, once there is a device.
const SETTLE: Duration = Duration::from_secs(5);

pub fn run(options: &Options) -> Result<()> {
    let rows = options.rows_max().next_power_of_two();
    let served = Served::empty(options, &[])?;
    served.run(async |client| {
        client.batch_execute("SET tenon.wait_for_compile = on").await?;
        for pair in 0..PAIRS {
            for table in ["r", "s"] {
                let factor = if table == "r" { 2_654_435_761_u64 } else { 40_503 };
                let sql = format!(
                    "CREATE TABLE {table}{pair} AS SELECT (x::int8 * {factor} % {rows})::int4 AS k, (x % 1000000)::int4 AS v \
                     FROM generate_series(0, {rows} - 1) g(x)"
                );
                client.batch_execute(&sql).await?;
            }
        }
        let expected = vec![vec![
            Some(rows.to_string()),
            Some(sum(rows).to_string()),
            Some(sum(rows).to_string()),
        ]];
        println!(
            "{rows} rows a side, {} threads; best of {}",
            options.threads, options.runs
        );
        for device in ["cpu", "gpu"] {
            client.batch_execute(&format!("SET tenon.device = '{device}'")).await?;
            let mut first: Vec<f64> = vec![];
            for pair in 0..PAIRS {
                if options.explain && pair == PAIRS - 1 {
                    explain(client, pair).await?;
                    break;
                }
                first.push(timed(client, pair, &expected).await?);
                if pair == 0 {
                    tokio::time::sleep(SETTLE).await;
                }
            }
            let mut best = f64::INFINITY;
            for _ in 0..options.runs {
                best = best.min(timed(client, 1, &expected).await?);
            }
            let least = first[1..].iter().copied().fold(f64::INFINITY, f64::min);
            println!(
                "{device}: first {:.1} ms, other tables' first {least:.2} ms, again {best:.2} ms",
                first[0]
            );
        }
        if options.explain {
            explain(client, 1).await?;
        }
        Ok(())
    })
}

async fn explain(client: &Client, pair: usize) -> Result<()> {
    let lines = query(client, &format!("EXPLAIN ANALYZE {}", sql(pair))).await?;
    lines
        .into_iter()
        .flatten()
        .flatten()
        .for_each(|line| println!("{line}"));
    Ok(())
}

fn sum(rows: usize) -> u64 {
    (0..rows as u64).map(|x| x % 1_000_000).sum()
}

fn sql(pair: usize) -> String {
    format!("SELECT count(*), sum(r.v), sum(s.v) FROM r{pair} AS r JOIN s{pair} AS s ON r.k = s.k")
}

async fn timed(client: &Client, pair: usize, expected: &[Vec<Option<String>>]) -> Result<f64> {
    let begun = Instant::now();
    let found = query(client, &sql(pair)).await?;
    let took = begun.elapsed();
    ensure!(found == expected, "{found:?} instead of {expected:?}");
    Ok(took.as_secs_f64() * 1e3)
}
