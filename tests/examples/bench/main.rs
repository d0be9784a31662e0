//! Benchmarks of a whole server, in this process and through its wire, beside DuckDB over the same rows.
//!
//! `bench tpch` times the 22 TPC-H queries, `bench copy` loads `lineitem` in several ways, `bench planning` times the
//! planner.
//! `--sf 1` scale factor; `--runs 5`, of which the best counts; `--threads 2` for both engines; `--no-peer` leaves DuckDB
//! out. For `tpch`: `--query N` (repeatable), and `--explain` prints EXPLAIN ANALYZE. CPU time is that of the whole
//! process over one run: on a busy machine it tells more than the clock.

mod copy;
mod planning;
mod served;
mod tpch;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

pub struct Options {
    pub factor: f64,
    pub queries: Vec<usize>,
    pub runs: usize,
    pub threads: usize,
    pub peer: bool,
    pub explain: bool,
    /// Of the queries.
    pub directory: PathBuf,
}

impl Options {
    /// Where the tables lie as files, for DuckDB and for loads.
    pub fn data_directory(&self) -> PathBuf {
        PathBuf::from(format!(".deps/tpch-sf{}", self.factor))
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let benchmark = args.next();
    let options = options(args)?;
    match benchmark.as_deref() {
        Some("tpch") => tpch::run(&options),
        Some("copy") => copy::run(&options),
        Some("planning") => planning::run(&options),
        _ => bail!("usage: bench tpch|copy|planning [--sf 1] [--query N]... [--runs 5] [--threads 2] [--no-peer] [--explain]"),
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options {
        factor: 1.0,
        queries: vec![],
        runs: 5,
        threads: 2,
        peer: true,
        explain: false,
        directory: PathBuf::from("tests/tpch"),
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--sf" => options.factor = value()?.parse()?,
            "--query" => options.queries.push(value()?.parse()?),
            "--runs" => options.runs = value()?.parse()?,
            "--threads" => options.threads = value()?.parse()?,
            "--no-peer" => options.peer = false,
            "--explain" => options.explain = true,
            other => bail!("unknown option {other}"),
        }
    }
    if options.queries.is_empty() {
        options.queries = (1..=22).collect();
    }
    Ok(options)
}
