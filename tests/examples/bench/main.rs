//! Benchmarks of a whole server, in this process and through its wire, beside DuckDB over the same rows.
//!
//! `bench tpch` times the 22 TPC-H queries, `bench growth` how their times grow with the scale factor (`--factors 1,3,10`),
//! `bench budgets` how they grow as the device memory that each may have shrinks, `bench upload` how fast tables come to the device,
//! `bench copy` loads `lineitem` in several ways, `bench planning` times the planner, `bench regret` compares the join
//! operator that was chosen with all others (`--seconds 120`, `--rows-min 0`, `--rows-max 16777216`, `--csv FILE`),
//! `bench join` times sums over a join of `--rows-max` rows a side, `bench clients` the queries of `--clients 16` at once,
//! `bench store` what `--store` costs loads and commits, how fast a store is read again, and what counting statements costs
//! (`--rows-max 6000000`, `--seconds 5`, `--clients 16`), beside PostgreSQL 15; it runs the program `tenon` that lies beside it,
//! `bench small` many small statements and `--rows-max` rows fetched, beside PostgreSQL 15 (`--sf 5` for pgbench's tables,
//! `--seconds 5` for each of its runs), `bench load` a mix of requests of many clients, all of whose answers are checked: on a server
//! of its own or on the one at `--url`, with `--clients 16` in a closed loop or `--rate R` requests a second in an open one, for
//! `--seconds 60` after `--warm-up 5`; `--mix points:70,joins:10,...`, `--points 100000` rows, `--seed N`, `--csv FILE`, `--svg FILE`.
//! `--sf 1` scale factor; `--runs 5`, of which the best counts; `--threads 2` for both engines; `--no-peer` leaves DuckDB
//! out. For `tpch` and `growth`: `--query N` (repeatable), `--set NAME=VALUE` (likewise); for `tpch` `--explain` prints EXPLAIN ANALYZE. CPU time is that of the whole
//! process over one run: on a busy machine it tells more than the clock.

mod budgets;
mod clients;
mod copy;
mod growth;
mod join;
mod load;
mod planning;
mod raw;
mod regret;
mod served;
mod small;
mod store;
mod tpch;
mod upload;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use served::Served;
use tenon_executor::device;
use tenon_executor::join::calibrate::{self, Calibration};

#[derive(Clone)]
pub struct Options {
    pub factor: f64,
    /// Of `growth`.
    pub factors: Vec<f64>,
    pub queries: Vec<usize>,
    pub runs: usize,
    /// Of `clients`.
    pub clients: usize,
    pub threads: usize,
    pub peer: bool,
    pub explain: bool,
    /// Settings of the session, as `SET` takes them.
    pub set: Vec<String>,
    /// Of the queries.
    pub directory: PathBuf,
    /// Of `regret`: no case begins later, and none has fewer or more rows on its larger side.
    pub seconds: Option<u64>,
    pub rows_min: usize,
    pub rows_max: Option<usize>,
    pub csv: Option<PathBuf>,
    /// Of `load`.
    pub load: LoadOptions,
}

/// Of `load`, unless it is told otherwise.
const MIX: &str = "points:70,joins:10,tpch:5,copy:5,updates:8,cancels:1,bad:1";

#[derive(Clone)]
pub struct LoadOptions {
    pub url: Option<String>,
    pub mix: load::Mix,
    pub rate: Option<f64>,
    pub warm_up: u64,
    pub points: i64,
    pub seed: Option<u64>,
    pub svg: Option<PathBuf>,
}

impl Options {
    /// The text of a query.
    pub fn sql(&self, number: usize) -> Result<String> {
        let path = self.directory.join(format!("q{number:02}.sql"));
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// Of `clients` and `regret`.
    pub fn time(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(120))
    }

    /// Of `join` and `regret`.
    pub fn rows_max(&self) -> usize {
        self.rows_max.unwrap_or(16 << 20)
    }

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
        Some("growth") => growth::run(&options),
        Some("budgets") => budgets::run(&options),
        Some("upload") => upload::run(&options),
        Some("copy") => copy::run(&options),
        Some("planning") => planning::run(&options),
        Some("regret") => run_regret(&options),
        Some("join") => join::run(&options),
        Some("clients") => clients::run(&options),
        Some("small") => run_small(&options),
        Some("store") => run_store(&options),
        Some("load") => run_load(&options),
        _ => bail!(
            "usage: bench tpch|copy|planning [--sf 1] [--query N]... [--runs 5] [--threads 2] [--no-peer] [--explain]\n       \
             bench join [--rows-max N] [--runs 5] [--threads 2] [--explain]\n       \
             bench clients [--sf 1] [--clients 16] [--seconds 120] [--threads 2] [--set NAME=VALUE]...\n       \
             bench small [--sf 1] [--seconds 5] [--rows-max 10000000] [--threads 2]\n       \
             bench store [--rows-max 6000000] [--seconds 5] [--clients 16] [--runs 3] [--threads 2]\n       \
             bench load [--url postgres://...] [--mix KIND:WEIGHT,...] [--clients 16] [--rate N] [--seconds 60] [--warm-up 5]\n             \
             [--points 100000] [--sf 1] [--seed N] [--csv FILE] [--svg FILE] [--threads 2]\n       \
             bench growth [--factors 1,3,10] [--query N]... [--set NAME=VALUE]... [--runs 5] [--threads 2]\n       \
             bench upload [--sf 1] [--runs 5] [--threads 2]\n       \
             bench budgets [--sf 1] [--query N]... [--set NAME=VALUE]... [--runs 5] [--threads 2]\n       \
             bench regret [--seconds 120] [--rows-min N] [--rows-max N] [--runs 5] [--threads 2] [--csv FILE]"
        ),
    }
}

/// Beside a PostgreSQL on as many cores.
fn run_small(options: &Options) -> Result<()> {
    let sizes = small::Sizes {
        scale: options.factor.max(1.0) as usize,
        seconds: options.seconds.unwrap_or(5),
        clients: vec![1, 8, 64],
        statements: 10_000,
        rows: options.rows_max.unwrap_or(10_000_000),
    };
    let all = std::thread::available_parallelism()?.get();
    let cores = (options.threads < all).then(|| format!("0-{}", options.threads - 1));
    if let Some(cores) = &cores {
        let own = std::process::id().to_string();
        small::postgres::told("taskset", &["-acp", cores, &own])?;
    }
    let postgres = small::Postgres::start(cores.as_deref(), false)?;
    let peer = postgres.dsn()?;
    Served::empty(options, &[])?.run_at(0, async |_, address| {
        let own = format!(
            "host={} port={} user=bench dbname=bench sslmode=disable",
            address.ip(),
            address.port()
        );
        tokio::task::spawn_blocking(move || small::run(&peer, &own, &sizes)).await??;
        Ok(())
    })
}

/// With the program of the same build.
fn run_store(options: &Options) -> Result<()> {
    let own = std::env::current_exe()?;
    let program = own
        .parent()
        .and_then(|examples| examples.parent())
        .context("a build directory")?
        .join("tenon");
    let sizes = store::Sizes {
        rows: options.rows_max.unwrap_or(6_000_000),
        seconds: options.seconds.unwrap_or(5),
        clients: options.clients,
        runs: options.runs.min(3),
        threads: options.threads,
        cold: true,
    };
    store::run(&program, &sizes).map(drop)
}

/// On a server in this process, or on another.
fn run_load(options: &Options) -> Result<()> {
    let own = &options.load;
    // Another one each time, unless it is given.
    let now = std::time::UNIX_EPOCH.elapsed()?;
    let plan = load::Plan {
        mix: own.mix.clone(),
        clients: options.clients,
        rate: own.rate,
        warm_up: Duration::from_secs(own.warm_up),
        time: Duration::from_secs(options.seconds.unwrap_or(60)),
        seed: own.seed.unwrap_or(now.as_nanos() as u64 & 0xffff_ffff),
        points: own.points,
        factor: options.factor,
        sleep: Duration::from_millis(500),
    };
    println!("seed {}", plan.seed);
    let work = async |url: &str| {
        load::fill(url, &plan).await?;
        let report = load::run(url, &plan).await?;
        print!("{report}");
        if let Some(path) = &options.csv {
            report.write_csv(path)?;
        }
        if let Some(path) = &own.svg {
            load::write_svg(&report, path)?;
        }
        load::verdict(&report)
    };
    if let Some(url) = &own.url {
        let runtime = tokio::runtime::Runtime::new()?;
        return runtime.block_on(work(url));
    }
    let connections = (plan.clients + 20).max(100).to_string();
    let settings = [("TENON_MAX_CONNECTIONS", connections)];
    let served = match plan.mix.has(load::Kind::Tpch) {
        true => Served::new(options, &settings)?,
        false => Served::empty(options, &settings)?,
    };
    served.run_at(0, async |_, address| {
        let (host, port) = (address.ip(), address.port());
        work(&format!(
            "host={host} port={port} user=bench dbname=bench sslmode=disable"
        ))
        .await
    })
}

/// With what joins cost on this machine, and on its GPU if it has one.
fn run_regret(options: &Options) -> Result<()> {
    let served = Served::empty(options, &[])?;
    print!("{}", calibrate::report(Calibration::Auto));
    let gpu = !matches!(std::env::var("TENON_DEVICE").as_deref(), Ok("sim" | "none"));
    let limits = regret::Limits {
        rows: options.rows_min..=options.rows_max(),
        time: options.time(),
        runs: options.runs,
        gpu: gpu && device::shared().is_ok(),
    };
    served.run(async |client| {
        let report = regret::run(client, limits).await?;
        println!("{}", report.summary());
        match &options.csv {
            Some(path) => report.write_csv(path),
            None => Ok(()),
        }
    })
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options> {
    let mut options = Options {
        factor: 1.0,
        factors: vec![1.0, 3.0, 10.0],
        queries: vec![],
        runs: 5,
        clients: 16,
        threads: 2,
        peer: true,
        explain: false,
        set: vec![],
        directory: PathBuf::from("tests/tpch"),
        seconds: None,
        rows_min: 0,
        rows_max: None,
        csv: None,
        load: LoadOptions {
            url: None,
            mix: load::Mix::parse(MIX)?,
            rate: None,
            warm_up: 5,
            points: 100_000,
            seed: None,
            svg: None,
        },
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--sf" => options.factor = value()?.parse()?,
            "--factors" => {
                options.factors = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--query" => options.queries.push(value()?.parse()?),
            "--runs" => options.runs = value()?.parse()?,
            "--clients" => options.clients = value()?.parse()?,
            "--threads" => options.threads = value()?.parse()?,
            "--seconds" => options.seconds = Some(value()?.parse()?),
            "--rows-min" => options.rows_min = value()?.parse()?,
            "--rows-max" => options.rows_max = Some(value()?.parse()?),
            "--csv" => options.csv = Some(value()?.into()),
            "--url" => options.load.url = Some(value()?),
            "--mix" => options.load.mix = load::Mix::parse(&value()?)?,
            "--rate" => options.load.rate = Some(value()?.parse()?),
            "--warm-up" => options.load.warm_up = value()?.parse()?,
            "--points" => options.load.points = value()?.parse()?,
            "--seed" => options.load.seed = Some(value()?.parse()?),
            "--svg" => options.load.svg = Some(value()?.into()),
            "--no-peer" => options.peer = false,
            "--explain" => options.explain = true,
            "--set" => options.set.push(value()?),
            other => bail!("unknown option {other}"),
        }
    }
    if options.queries.is_empty() {
        options.queries = (1..=22).collect();
    }
    Ok(options)
}
