//! `bench copy`: loads the rows of `lineitem` into an empty table, by COPY FROM STDIN through the wire and from files.
//!
//! Rates are of the file's bytes. Client and server share the process, so that CPU time is of both.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio_postgres::Client;

use crate::Options;
use crate::served::{Served, process_cpu_ms, query};
use crate::tpch::export;

/// A message of COPY data, as clients send them.
const PIECE_BYTES: usize = 64 << 10;

/// What must come out of every load.
const CHECK: &str =
    "count(*), sum(l_orderkey), sum(l_extendedprice), min(l_shipdate), max(l_comment), count(l_shipmode)";

pub fn run(options: &Options) -> Result<()> {
    std::fs::create_dir_all(".deps")?;
    let directory = std::path::absolute(options.data_directory())?;
    let served = Served::new(
        options,
        &[(
            "TENON_DATA_DIR",
            directory.parent().context("a root")?.display().to_string(),
        )],
    )?;
    export(served.database(), &directory)?;
    served.run(async |client| {
        let expected = query(client, &format!("SELECT {CHECK} FROM lineitem")).await?;
        let files = [("csv", "FORMAT csv"), ("text", "FORMAT text")];
        println!("load                 ms   cpu ms     MB/s");
        for (name, format) in files {
            let file = directory.join(format!("lineitem.{name}"));
            if !file.exists() {
                write_file(client, format, &file).await?;
            }
            let data = Bytes::from(std::fs::read(&file)?);
            let load = async || stdin(client, format, data.clone()).await;
            measure(client, options, &format!("stdin {name}"), data.len(), &expected, load).await?;
        }
        for name in ["csv", "parquet"] {
            let file = directory.join(format!("lineitem.{name}"));
            let bytes = std::fs::metadata(&file)?.len() as usize;
            let sql = format!("COPY loaded FROM '{}' (FORMAT {name})", file.display());
            let load = async || Ok(query(client, &sql).await.map(drop)?);
            measure(client, options, &format!("file {name}"), bytes, &expected, load).await?;
        }
        Ok(())
    })?;
    if options.peer {
        let status = std::process::Command::new(".deps/venv/bin/python")
            .arg("tests/bench/duckdb_copy.py")
            .arg(&directory)
            .args([options.threads.to_string(), options.runs.to_string()])
            .status()
            .context("DuckDB: run tests/bench/install_peers.sh first")?;
        ensure!(status.success(), "DuckDB failed");
    }
    Ok(())
}

/// Times `load` into an empty table `loaded`, and checks what is in it afterwards.
async fn measure(
    client: &Client,
    options: &Options,
    name: &str,
    bytes: usize,
    expected: &[Vec<Option<String>>],
    load: impl AsyncFn() -> Result<()>,
) -> Result<()> {
    let (mut ms, mut cpu_ms) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..options.runs {
        query(client, "CREATE TABLE loaded AS SELECT * FROM lineitem WHERE false").await?;
        let (start, cpu) = (Instant::now(), process_cpu_ms());
        load().await?;
        ms = ms.min(start.elapsed().as_secs_f64() * 1e3);
        cpu_ms = cpu_ms.min(process_cpu_ms() - cpu);
        let found = query(client, &format!("SELECT {CHECK} FROM loaded")).await?;
        ensure!(found == expected, "{name}: loaded {found:?}, expected {expected:?}");
        query(client, "DROP TABLE loaded").await?;
    }
    println!("{name:<14} {ms:8.0} {cpu_ms:8.0} {:8.0}", bytes as f64 / ms / 1e3);
    Ok(())
}

async fn stdin(client: &Client, format: &str, data: Bytes) -> Result<()> {
    let sink = client.copy_in(&format!("COPY loaded FROM STDIN ({format})")).await?;
    let mut sink = std::pin::pin!(sink);
    let mut at = 0;
    while at < data.len() {
        let end = data.len().min(at + PIECE_BYTES);
        sink.feed(data.slice(at..end)).await?;
        at = end;
    }
    sink.finish().await?;
    Ok(())
}

async fn write_file(client: &Client, format: &str, path: &Path) -> Result<()> {
    let stream = client.copy_out(&format!("COPY lineitem TO STDOUT ({format})")).await?;
    let mut stream = std::pin::pin!(stream);
    let unfinished = path.with_extension("unfinished");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&unfinished)?);
    while let Some(piece) = stream.next().await {
        file.write_all(&piece?)?;
    }
    file.flush()?;
    Ok(std::fs::rename(unfinished, path)?)
}
