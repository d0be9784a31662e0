//! `bench budgets`: the TPC-H queries with less and less device memory: each one's time where it may have all that it touches
//! there, and where its columns or its state must go elsewhere.

use anyhow::{Context, Result, ensure};
use tokio_postgres::Client;

use crate::Options;
use crate::raw::Raw;
use crate::served::{Served, query};
use crate::tpch::{measure, set};

/// Of what a query touches.
const SHARES: [u64; 5] = [1, 2, 4, 8, 16];

/// How a query ran within a budget.
struct Run {
    ms: f64,
    /// Fragments on the device, scans in chunks, and fragments that were to run there and did not.
    device: usize,
    chunked: usize,
    host: usize,
}

impl Run {
    /// In a column of the table: `*` marks scans that went there in chunks, `c` what the CPU did.
    fn told(&self) -> String {
        let chunked = if self.chunked > 0 { "*" } else { "" };
        let host = if self.host > 0 || self.device == 0 { "c" } else { "" };
        format!("{:.2}{:2}", self.ms, format!("{chunked}{host}"))
    }
}

pub fn run(options: &Options) -> Result<()> {
    let served = Served::new(options, &[])?;
    served.run_with_raw(async |client, raw| {
        set(options, client, raw).await?;
        println!("ms within a share of the device memory that a query touches (*: columns in chunks, c: not all of it on the GPU), and on the CPU");
        let titles = SHARES.iter().map(|share| format!("{:>12}", format!("1/{share}")));
        println!("query   touched MiB{}         cpu", titles.collect::<String>());
        let mut sums = vec![0.0; SHARES.len() + 1];
        for &number in &options.queries {
            let sql = options.sql(number)?;
            let (mut line, mut touched) = (format!("q{number:<6}"), 0);
            let mut expected = None;
            for (at, share) in SHARES.iter().enumerate() {
                limited(client, raw, touched / share).await?;
                let measured = measure(client, raw, &sql, options.runs).await?;
                ensure!(
                    *expected.get_or_insert_with(|| measured.rows.clone()) == measured.rows,
                    "q{number} within {} bytes has other rows",
                    touched / share
                );
                let (run, bytes) = explained(client, &sql, measured.ms).await?;
                if at == 0 {
                    touched = bytes;
                    line += &format!("{:12}", bytes >> 20);
                }
                sums[at] += run.ms;
                line += &format!("{:>12}", run.told());
            }
            limited(client, raw, 0).await?;
            for session in ["SET tenon.device = 'cpu'", "RESET tenon.device"] {
                client.batch_execute(session).await?;
                raw.query(session)?;
                if session.starts_with("SET") {
                    let measured = measure(client, raw, &sql, options.runs).await?;
                    sums[SHARES.len()] += measured.ms;
                    line += &format!("{:12.2}", measured.ms);
                }
            }
            // `--set` may have said where.
            set(options, client, raw).await?;
            println!("{line}");
        }
        let all = sums.iter().map(|sum| format!("{sum:>10.2}  "));
        println!("sum                {}", all.collect::<String>());
        Ok(())
    })
}

/// Limits what both sessions may have of the device; 0: not.
async fn limited(client: &Client, raw: &mut Raw, bytes: u64) -> Result<()> {
    let setting = match bytes {
        0 => "RESET tenon.gpu_memory_limit".to_owned(),
        bytes => format!("SET tenon.gpu_memory_limit = '{}kB'", (bytes >> 10).max(1)),
    };
    client.batch_execute(&setting).await?;
    raw.query(&setting)?;
    Ok(())
}

/// Where a query ran, and the bytes that it touched on the device.
async fn explained(client: &Client, sql: &str, ms: f64) -> Result<(Run, u64)> {
    let plan = query(client, &format!("EXPLAIN ANALYZE {sql}")).await?;
    let lines: Vec<&str> = plan.iter().flatten().flatten().map(String::as_str).collect();
    let count = |what: &str| lines.iter().map(|line| line.matches(what).count()).sum();
    let mut bytes = 0;
    for label in ["Bytes Read: ", "State Bytes: "] {
        for line in &lines {
            for part in line.split(label).skip(1) {
                let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
                bytes += digits.parse::<u64>().with_context(|| (*line).to_owned())?;
            }
        }
    }
    let run = Run {
        ms,
        device: count("Device: gpu"),
        chunked: count(" chunks "),
        host: count("Fragment: none"),
    };
    Ok((run, bytes))
}
