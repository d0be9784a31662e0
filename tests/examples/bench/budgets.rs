//! `bench budgets`: the TPC-H queries with less and less device memory: each one's time where it may have all that it touches
//! there, and where its columns or its state must go elsewhere.

use anyhow::{Context, Result, ensure};
use tenon_executor::counts::{COUNTS, Count};
use tokio_postgres::Client;

use crate::Options;
use crate::raw::Raw;
use crate::served::{Served, query};
use crate::tpch::{in_both, measure, set};

/// Of what a query touches.
const SHARES: [u64; 5] = [1, 2, 4, 8, 16];

/// Where a query runs that comes again and again within a budget.
struct Place {
    /// Parts of it on the device, bytes that go there each time, and parts that have a form for it and run on the CPU.
    device: u64,
    copied: u64,
    host: u64,
}

impl Place {
    /// `*` marks columns that go to the device in chunks, `c` what the CPU does.
    fn told(&self) -> &'static str {
        match (self.copied > 0, self.host > 0 || self.device == 0) {
            (false, false) => "",
            (true, false) => "*",
            (false, true) => "c",
            (true, true) => "*c",
        }
    }
}

fn counts() -> [u64; 3] {
    [
        &COUNTS.fragments_on_device,
        &COUNTS.bytes_to_device,
        &COUNTS.fragments_on_cpu,
    ]
    .map(Count::get)
}

pub fn run(options: &Options) -> Result<()> {
    let served = Served::new(options, &[])?;
    let mut csv = String::from("query,share,touched_bytes,ms,where\n");
    served.run_with_raw(async |client, raw| {
        set(options, client, raw).await?;
        println!("ms within a share of the device memory that a query touches (*: columns in chunks, c: CPU), and on the CPU alone");
        let titles = SHARES.iter().map(|share| format!("{:>12}", format!("1/{share}")));
        println!("query  touched MiB{}         cpu", titles.collect::<String>());
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
                let before = counts();
                tokio::task::block_in_place(|| raw.query(&sql))?;
                let now = counts();
                let place = Place {
                    device: now[0] - before[0],
                    copied: now[1] - before[1],
                    host: now[2] - before[2],
                };
                if at == 0 {
                    client.batch_execute("SET tenon.device = 'gpu'").await?;
                    touched = touched_bytes(client, &sql).await?;
                    client.batch_execute("RESET tenon.device").await?;
                    set(options, client, raw).await?;
                    line += &format!("{:11}", touched >> 20);
                }
                sums[at] += measured.ms;
                line += &format!("{:>10.2}{:2}", measured.ms, place.told());
                csv += &format!("q{number},{share},{touched},{:.3},{}\n", measured.ms, place.told());
            }
            limited(client, raw, 0).await?;
            in_both(client, raw, "SET tenon.device = 'cpu'").await?;
            let measured = measure(client, raw, &sql, options.runs).await?;
            in_both(client, raw, "RESET tenon.device").await?;
            sums[SHARES.len()] += measured.ms;
            csv += &format!("q{number},cpu,{touched},{:.3},c\n", measured.ms);
            println!("{line}{:12.2}", measured.ms);
            // `--set` may have said where.
            set(options, client, raw).await?;
        }
        let all = sums.iter().map(|sum| format!("{sum:>10.2}  "));
        println!("sum               {}", all.collect::<String>());
        Ok(())
    })?;
    match &options.csv {
        Some(path) => std::fs::write(path, csv).with_context(|| path.display().to_string()),
        None => Ok(()),
    }
}

/// Limits what both sessions may have of the device; 0: not.
async fn limited(client: &Client, raw: &mut Raw, bytes: u64) -> Result<()> {
    let setting = match bytes {
        0 => "RESET tenon.gpu_memory_limit".to_owned(),
        bytes => format!("SET tenon.gpu_memory_limit = '{}kB'", (bytes >> 10).max(1)),
    };
    in_both(client, raw, &setting).await
}

/// The bytes that a query touches on the device.
async fn touched_bytes(client: &Client, sql: &str) -> Result<u64> {
    let plan = query(client, &format!("EXPLAIN ANALYZE {sql}")).await?;
    let mut bytes = 0;
    for line in plan.iter().flatten().flatten() {
        let told = ["Bytes Read: ", "State Bytes: "];
        if let Some(digits) = told.iter().find_map(|label| line.trim_start().strip_prefix(label)) {
            bytes += digits.trim().parse::<u64>().with_context(|| line.clone())?;
        }
    }
    Ok(bytes)
}
