//! Every test that needs a running server: one binary, each test a named trial (`cargo test --workspace --test server -- NAME`).
//!
//! With `TENON_SLT_POSTGRES=postgresql://...` the .slt files run against that PostgreSQL instead, and with
//! `TENON_SLT_UPDATE=1` their expected results are rewritten from what it answers (see `scripts/slt-oracle.sh`).

mod activity;
mod advisory_locks;
mod all_rules;
mod architecture;
#[path = "../examples/bench/store.rs"]
mod bench_store;
mod bounds;
mod cancel;
mod computed_keys;
mod copy;
mod demo;
mod drivers;
mod drivers_ask;
mod estimates;
mod for_update;
mod foreign_keys;
mod fragments;
mod frames;
mod gpu;
mod hba;
mod http;
mod kept;
mod key_locks;
mod limits;
#[path = "../examples/bench/load/mod.rs"]
mod load;
mod oracle;
mod pgtext;
mod plans;
mod process;
mod raw;
#[path = "../examples/bench/regret/mod.rs"]
mod regret;
mod restarts;
mod role_settings;
mod roles;
mod row_locks;
mod rows_of_values;
mod serializable;
mod slt;
#[path = "../examples/bench/small/mod.rs"]
mod small;
mod statements;
mod store;
mod times;
mod together;
mod tops;
mod tpch;
mod types;
mod under_load;
mod wire;
mod wire_fuzz;

use libtest_mimic::{Arguments, Failed, Trial};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

fn main() {
    let args = Arguments::from_args();
    if let Ok(url) = std::env::var("TENON_SLT_POSTGRES") {
        libtest_mimic::run(&args, slt::postgres_trials(&url)).exit();
    }
    let mut trials = Vec::new();
    trials.extend(tpch::trials());
    trials.extend(plans::trials());
    trials.extend(all_rules::trials());
    trials.extend(estimates::trials());
    trials.extend(slt::trials());
    trials.extend(copy::trials());
    trials.extend(types::trials());
    trials.extend(wire::trials());
    trials.extend(wire_fuzz::trials());
    trials.extend(cancel::trials());
    trials.extend(kept::trials());
    trials.extend(frames::trials());
    trials.extend(computed_keys::trials());
    trials.extend(tops::trials());
    trials.extend(together::trials());
    trials.extend(limits::trials());
    trials.extend(hba::trials());
    trials.extend(http::trials());
    trials.extend(statements::trials());
    trials.extend(activity::trials());
    trials.extend(bounds::trials());
    trials.extend(demo::trials());
    trials.extend(foreign_keys::trials());
    trials.extend(store::trials());
    trials.extend(restarts::trials());
    trials.extend(role_settings::trials());
    trials.extend(roles::trials());
    trials.extend(key_locks::trials());
    trials.extend(row_locks::trials());
    trials.extend(rows_of_values::trials());
    trials.extend(serializable::trials());
    trials.extend(advisory_locks::trials());
    trials.extend(for_update::trials());
    trials.push(trial("bench::regret", small_regret));
    trials.push(trial("bench::small", small_small));
    trials.push(trial("bench::store", small_store));
    trials.extend(under_load::trials());
    trials.push(trial("architecture::layers", architecture::layers));
    trials.push(trial("architecture::circles", architecture::circles));
    trials.push(trial("architecture::lengths", architecture::lengths));
    trials.extend(gpu::trials());
    trials.extend(fragments::trials());
    trials.extend(drivers::trials());
    trials.extend(drivers_ask::trials());
    trials.extend(oracle::trials());
    let conclusion = libtest_mimic::run(&args, without_gaps(trials));
    times::report();
    conclusion.exit();
}

/// Trials that `known-gaps.txt` names (a name, two spaces, what is missing) are reported as ignored, and why.
fn without_gaps(trials: Vec<Trial>) -> Vec<Trial> {
    let gaps = std::fs::read_to_string(process::root().join("tests/known-gaps.txt")).unwrap_or_default();
    let gaps: HashMap<&str, &str> = gaps
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once("  "))
        .collect();
    let mark = |trial: Trial| match gaps.get(trial.name()) {
        Some(reason) => {
            println!("not run: {}: {reason}", trial.name());
            trial.with_ignored_flag(true)
        }
        None => trial,
    };
    trials.into_iter().map(mark).collect()
}

/// The benchmark of the choice of joins, small: all operators agree, and the report holds every case.
async fn small_regret() -> anyhow::Result<()> {
    let server = process::Server::start(&["--threads=2"])?;
    let limits = regret::Limits {
        rows: 0..=1 << 10,
        time: Duration::from_secs(60),
        runs: 1,
        gpu: false,
    };
    let report = regret::run(&server.connect().await?, limits).await?;
    let file = tempfile::NamedTempFile::new()?;
    report.write_csv(file.path())?;
    let lines = std::fs::read_to_string(file.path())?.lines().count();
    anyhow::ensure!(
        report.cases.len() >= 10 && lines > 3 * report.cases.len(),
        "{}",
        report.summary()
    );
    Ok(())
}

/// The benchmark of small statements, small: both servers answer all of them, and alike.
async fn small_small() -> anyhow::Result<()> {
    let server = process::Server::start(&["--threads=2"])?;
    let postgres = small::Postgres::start(None, false)?;
    let sizes = small::Sizes {
        scale: 1,
        seconds: 1,
        clients: vec![2],
        statements: 50,
        rows: 20_000,
    };
    let (peer, own) = (postgres.dsn()?, server.dsn());
    let lines = tokio::task::spawn_blocking(move || small::run(&peer, &own, &sizes)).await??;
    let measured = |line: &small::Line| line.postgres > 0.0 && line.tenon > 0.0;
    anyhow::ensure!(
        lines.len() == 3 + 4 + 4 + 20 + 20 + 3 && lines.iter().all(measured),
        "{lines:?}"
    );
    Ok(())
}

/// The benchmark of stores, small: all that was loaded and committed is found again.
async fn small_store() -> anyhow::Result<()> {
    let sizes = bench_store::Sizes {
        rows: 20_000,
        seconds: 1,
        clients: 4,
        runs: 1,
        threads: 2,
        cold: false,
    };
    let lines = tokio::task::spawn_blocking(move || bench_store::run(&process::binary(), &sizes)).await??;
    anyhow::ensure!(lines.len() == 4 && lines.iter().all(|line| line.own > 0.0), "{lines:?}");
    Ok(())
}

/// Far more than any trial takes on two loaded cores; `TENON_TRIAL_SECONDS` where trials are made longer.
fn trial_timeout() -> Duration {
    let seconds = std::env::var("TENON_TRIAL_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(300))
}

/// The seed of a random trial, which it tells: `TENON_SEED` repeats one.
fn seed() -> u64 {
    let given = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("TENON_SEED={seed}");
    seed
}

/// Held by all trials, or by one that measures how long others wait: what runs beside it would be measured too.
static RUNNING: RwLock<()> = RwLock::new(());

/// A trial whose body is asynchronous and fails by an error or a panic.
fn trial<F>(name: &str, body: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = anyhow::Result<()>>,
{
    bounded(name, || RUNNING.read(), body)
}

/// The same for one that no other trial runs beside.
fn trial_alone<F>(name: &str, body: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = anyhow::Result<()>>,
{
    bounded(name, || RUNNING.write(), body)
}

/// `turn` waits until the trial may run, for as long as it is held.
fn bounded<T, F>(
    name: &str,
    turn: impl FnOnce() -> T + Send + 'static,
    body: impl FnOnce() -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = anyhow::Result<()>>,
{
    let timed = name.to_string();
    Trial::test(name, move || {
        let _turn = turn();
        let _timed = times::Timed::start(&timed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let bounded = async { tokio::time::timeout(trial_timeout(), body()).await };
        match runtime.block_on(bounded) {
            Ok(result) => result.map_err(|error| Failed::from(format!("{error:#}"))),
            Err(_) => Err(format!("no end after {:?}", trial_timeout()).into()),
        }
    })
}
