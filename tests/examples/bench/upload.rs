//! `bench upload`: how fast tables' columns come to the device, where they are to stay there: the TPC-H tables, whole, in
//! the form in which storage keeps them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tenon_executor::counts::COUNTS;
use tokio_postgres::Client;

use crate::Options;
use crate::served::{Served, query};

const TABLES: [&str; 8] = [
    "region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem",
];

/// Time between looks at whether the driver still pins what was loaded.
const SETTLE: Duration = Duration::from_secs(3);
/// Looks, 50 ms apart, in which nothing more came.
const STILL: usize = 10;
/// No table takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn run(options: &Options) -> Result<()> {
    let served = Served::new(options, &[])?;
    let server = Arc::clone(served.server());
    served.run(async |client| {
        for setting in ["tenon.device = 'gpu'", "tenon.wait_for_compile = on"] {
            client.batch_execute(&format!("SET {setting}")).await?;
        }
        // The device is opened by who first wants it.
        query(client, "SELECT count(*) FROM region WHERE r_regionkey > 0").await?;
        let mut pinned = usize::MAX;
        while std::mem::replace(&mut pinned, server.engine.pinned_bytes()) != pinned {
            tokio::time::sleep(SETTLE).await;
        }
        println!("{} MiB pinned", pinned >> 20);
        println!("table         MiB       ms    GB/s");
        let mut best = (0, f64::INFINITY);
        for run in 0..options.runs.max(1) {
            let (mut bytes, mut seconds) = (0, 0.0);
            for table in TABLES {
                let copied = load(client, table).await?;
                bytes += copied.0;
                seconds += copied.1;
                if run == 0 {
                    print(table, copied);
                }
            }
            for table in TABLES {
                client
                    .batch_execute(&format!("ALTER TABLE {table} SET (tenon.device = 'never')"))
                    .await?;
            }
            if seconds < best.1 {
                best = (bytes, seconds);
            }
        }
        print(&format!("all, best of {}", options.runs.max(1)), best);
        Ok(())
    })
}

fn print(what: &str, (bytes, seconds): (u64, f64)) {
    println!(
        "{what:<10} {:6} {:8.2} {:7.1}",
        bytes >> 20,
        seconds * 1e3,
        bytes as f64 / seconds / 1e9
    );
}

/// Has a table's columns come; their bytes, and the seconds that the copies took.
async fn load(client: &Client, table: &str) -> Result<(u64, f64)> {
    let counts = || (COUNTS.column_bytes.get(), COUNTS.column_ns.get());
    let before = counts();
    client
        .batch_execute(&format!("ALTER TABLE {table} SET (tenon.device = 'resident')"))
        .await?;
    let begun = Instant::now();
    let (mut last, mut same) = (before, 0);
    // Columns that the device cannot take never come: a table is there when no more come.
    while same < STILL {
        ensure!(begun.elapsed() < PATIENCE, "{table} is not loaded");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = counts();
        same = if now == last && now != before { same + 1 } else { 0 };
        last = now;
    }
    Ok((last.0 - before.0, (last.1 - before.1) as f64 / 1e9))
}
