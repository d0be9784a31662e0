//! `bench tpch`: the 22 TPC-H queries through the wire of a server in this process, timed, with their answers checked
//! against DuckDB's over the same rows, or without that against the CPU's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use tenon_storage::Database;

use crate::Options;
use crate::raw::Raw;
use crate::served::{Served, process_cpu_ms, query};

/// Milliseconds of clock and of CPU, and the rows as text.
pub struct Measured {
    /// Of the run before those that are timed.
    pub first_ms: f64,
    pub ms: f64,
    pub cpu_ms: f64,
    pub rows: Vec<Vec<Option<String>>>,
}

pub fn run(options: &Options) -> Result<()> {
    let served = Served::new(options, &[])?;
    let mut peer = if options.peer {
        duckdb(options, served.database())?
    } else {
        BTreeMap::new()
    };
    served.run_with_raw(async |client, raw| {
        set(options, client, raw).await?;
        let others = if options.peer { "duckdb" } else { "on cpu" };
        println!("query    first ms tenon ms   cpu ms |  {others} ms   cpu ms | answers");
        let mut all = vec![];
        for &number in &options.queries {
            let sql = options.sql(number)?;
            let own = measure(client, raw, &sql, options.runs).await?;
            if options.explain {
                for row in query(client, &format!("EXPLAIN ANALYZE {sql}"))
                    .await?
                    .into_iter()
                    .flatten()
                    .flatten()
                {
                    println!("{row}");
                }
            }
            let theirs = match peer.remove(&number) {
                Some(theirs) => theirs,
                None => on_cpu(options, client, raw, &sql).await?,
            };
            let verdict = compare(&own.rows, &theirs.rows);
            let (ms, cpu_ms) = (theirs.ms, theirs.cpu_ms);
            println!(
                "q{number:<6} {:9.1} {:8.2} {:8.1} | {ms:10.1} {cpu_ms:8.1} | {verdict}",
                own.first_ms, own.ms, own.cpu_ms
            );
            all.push([own.first_ms, own.ms, own.cpu_ms, ms, cpu_ms]);
        }
        let mean = |at: usize| (all.iter().map(|one| one[at].ln()).sum::<f64>() / all.len() as f64).exp();
        println!(
            "geomean {:9.1} {:8.2} {:8.1} | {:10.1} {:8.1} |",
            mean(0),
            mean(1),
            mean(2),
            mean(3),
            mean(4)
        );
        Ok(())
    })
}

/// A query's first run on the CPU.
async fn on_cpu(options: &Options, client: &tokio_postgres::Client, raw: &mut Raw, sql: &str) -> Result<Measured> {
    client.batch_execute("SET tenon.device = 'cpu'").await?;
    let (start, cpu) = (Instant::now(), process_cpu_ms());
    let rows = query(client, sql).await?;
    let (ms, cpu_ms) = (start.elapsed().as_secs_f64() * 1e3, process_cpu_ms() - cpu);
    client.batch_execute("RESET tenon.device").await?;
    set(options, client, raw).await?;
    Ok(Measured {
        first_ms: ms,
        ms,
        cpu_ms,
        rows,
    })
}

/// Applies `--set` to both of the sessions.
pub async fn set(options: &Options, client: &tokio_postgres::Client, raw: &mut Raw) -> Result<()> {
    for setting in &options.set {
        in_both(client, raw, &format!("SET {setting}")).await?;
    }
    Ok(())
}

/// Says the same in both of the sessions.
pub async fn in_both(client: &tokio_postgres::Client, raw: &mut Raw, statement: &str) -> Result<()> {
    client.batch_execute(statement).await?;
    raw.query(statement)?;
    Ok(())
}

/// A query's fastest run of `runs` as `raw` receives it, after one by the client, and two until its plan is kept.
pub async fn measure(client: &tokio_postgres::Client, raw: &mut Raw, sql: &str, runs: usize) -> Result<Measured> {
    let start = Instant::now();
    let rows = query(client, sql).await?;
    let first_ms = start.elapsed().as_secs_f64() * 1e3;
    let (mut ms, mut cpu_ms) = (f64::INFINITY, f64::INFINITY);
    for run in 0..runs + 2 {
        let (start, cpu) = (Instant::now(), process_cpu_ms());
        let found = tokio::task::block_in_place(|| raw.query(sql))?;
        ensure!(found == rows.len(), "{found} rows instead of {}", rows.len());
        if run >= 2 {
            ms = ms.min(start.elapsed().as_secs_f64() * 1e3);
            cpu_ms = cpu_ms.min(process_cpu_ms() - cpu);
        }
    }
    Ok(Measured {
        first_ms,
        ms,
        cpu_ms,
        rows,
    })
}

/// DuckDB's times and answers over the same rows, which go to it as Parquet files.
fn duckdb(options: &Options, database: &Database) -> Result<BTreeMap<usize, Measured>> {
    let directory = options.data_directory();
    export(database, &directory)?;
    let mut command = std::process::Command::new(".deps/venv/bin/python");
    command
        .arg("tests/bench/duckdb_tpch.py")
        .arg(&directory)
        .arg(&options.directory)
        .arg(options.threads.to_string());
    command
        .arg(options.runs.to_string())
        .args(options.queries.iter().map(usize::to_string));
    let output = command
        .output()
        .context("DuckDB: run tests/bench/install_peers.sh first")?;
    if !output.status.success() {
        bail!("DuckDB failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut answers = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        let number = value["query"].as_u64().context("query")? as usize;
        let (ms, cpu_ms) = (
            value["ms"].as_f64().context("ms")?,
            value["cpu_ms"].as_f64().context("cpu_ms")?,
        );
        answers.insert(
            number,
            Measured {
                first_ms: ms,
                ms,
                cpu_ms,
                rows: serde_json::from_value(value["rows"].clone())?,
            },
        );
    }
    Ok(answers)
}

/// Writes every table to `TABLE.parquet` in the directory, unless it is there.
pub fn export(database: &Database, directory: &Path) -> Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let unfinished = directory.with_extension("unfinished");
    std::fs::create_dir_all(&unfinished)?;
    for relation in database.snapshot().relations() {
        let Some(table) = relation.as_table() else { continue };
        let file = std::fs::File::create(unfinished.join(format!("{}.parquet", table.name())))?;
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, table.schema().clone(), None)?;
        let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
        for segment in table.segments().iter() {
            writer.write(&segment.batch(table.schema(), &columns, 0, segment.rows())?)?;
        }
        writer.close()?;
    }
    Ok(std::fs::rename(unfinished, directory)?)
}

/// Row by row, in order; numbers may differ in their last digits (averages and ratios have other scales).
fn compare(own: &[Vec<Option<String>>], theirs: &[Vec<Option<String>>]) -> String {
    if own.len() != theirs.len() {
        return format!("WRONG: {} rows, DuckDB {}", own.len(), theirs.len());
    }
    for (at, (own, theirs)) in own.iter().zip(theirs).enumerate() {
        for (value, other) in own.iter().zip(theirs) {
            let same = match (value, other) {
                (Some(value), Some(other)) => match (value.parse::<f64>(), other.parse::<f64>()) {
                    (Ok(a), Ok(b)) => (a - b).abs() <= 1e-5 * a.abs().max(b.abs()).max(1.0),
                    _ => value.trim_end() == other.trim_end(),
                },
                (value, other) => value == other,
            };
            if !same {
                return format!("WRONG: row {at}: {value:?}, DuckDB {other:?}");
            }
        }
    }
    "same".into()
}
