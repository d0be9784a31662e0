//! The `tenon` command: arguments to a running server or one of its helpers.

use crate::config::Config;
use crate::config::cli::{Cli, Command};
use crate::serve::Server;
use crate::{allocator, backup, demo, descriptors, health, load, logging};
use anyhow::Context;
use clap::Parser;
use std::process::ExitCode;
use tenon_executor::join::calibrate;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// Runs the command line of this process. Exit code 1 is a failure, 2 a wrong command line.
pub fn main_entry() -> ExitCode {
    allocator::tune();
    let cli = Cli::parse();
    let result = match &cli.command {
        None => serve(&cli),
        Some(Command::Load(args)) => runtime(1).and_then(|runtime| {
            let (rows, time) = runtime.block_on(load::run(args))?;
            println!("{rows} rows loaded into {} in {:.1} s", args.table, time.as_secs_f64());
            Ok(())
        }),
        Some(Command::Backup { from, file }) => runtime(1).and_then(|runtime| {
            let (bytes, time) = runtime.block_on(backup::run(from, file))?;
            // The file may be standard output.
            eprintln!(
                "{bytes} bytes copied into {} in {:.1} s",
                file.display(),
                time.as_secs_f64()
            );
            Ok(())
        }),
        Some(Command::Restore { file, store }) => Config::load(&cli.settings, std::env::vars()).and_then(|config| {
            let found = backup::restore(file, store, config.memory_limit_bytes)?;
            println!(
                "{} tables with {} rows restored into {} in {:.1} s",
                found.tables,
                found.rows,
                store.display(),
                found.took.as_secs_f64()
            );
            Ok(())
        }),
        Some(Command::Health { to }) => runtime(1).and_then(|runtime| runtime.block_on(health::check(to))),
        Some(Command::GpuInfo) => {
            print!("{}", tenon_gpu::info_report());
            Config::load(&cli.settings, std::env::vars())
                .map(|config| print!("{}", calibrate::report(config.calibration)))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tenon: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Threads that work on beside those of the sockets, on what is long of a client's messages. Beyond the cores they are started where
/// the others have not come to run yet, as when many connect at once, and each keeps memory of its own for seconds.
const ASIDE_THREADS_MAX: usize = 128;

fn runtime(threads: usize) -> anyhow::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(threads)
        .max_blocking_threads(ASIDE_THREADS_MAX)
        .thread_name("tenon-wire")
        .thread_stack_size(tenon_planner::STACK_BYTES)
        .enable_all()
        .build()
        .context("cannot start threads")
}

fn serve(cli: &Cli) -> anyhow::Result<()> {
    let config = Config::load(&cli.settings, std::env::vars())?;
    logging::start(&config);
    descriptors::raise_for(config.max_connections);
    let server = Server::new(&config)?;
    calibrate::start(config.calibration);
    runtime(config.threads)?.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut hangup = signal(SignalKind::hangup())?;
        // The address first: a port in use must not cost the time of the demo data.
        let reserved = server.bind(&config.listen).await?;
        for address in &config.http {
            println!("metrics on http://{}/metrics", server.observe(*address).await?);
        }
        // Not held: what the store has is freed when it goes.
        let has_demo = server
            .engine
            .database()
            .snapshot()
            .table("public", "lineitem")
            .is_some();
        if config.demo.is_some() && has_demo {
            println!("TPC-H: the tables that the store has");
        } else if let Some(factor) = config.demo {
            let (database, threads) = (server.engine.database().clone(), config.threads);
            let loading = tokio::task::spawn_blocking(move || demo::load(&database, factor, threads));
            let (rows, time) = tokio::select! {
                loaded = loading => loaded.context("the demo data")??,
                _ = terminate.recv() => std::process::exit(0),
                _ = interrupt.recv() => std::process::exit(130),
            };
            println!(
                "TPC-H at scale factor {factor}: {rows} rows in {:.1} s",
                time.as_secs_f64()
            );
        }
        if config.store.is_none() {
            println!("Tables are kept in memory only: without --store DIR they go when the server stops");
        }
        let addresses = server.listen(reserved)?;
        for address in &addresses {
            println!("tenon {} listens on {address}", env!("CARGO_PKG_VERSION"));
        }
        if let Some(address) = addresses.first() {
            let host = if address.ip().is_unspecified() {
                "127.0.0.1".to_owned()
            } else {
                address.ip().to_string()
            };
            println!("Connect with:  psql -h {host} -p {} -U tenon", address.port());
        }
        loop {
            tokio::select! {
                _ = terminate.recv() => break tracing::info!("SIGTERM: the server stops"),
                _ = interrupt.recv() => break tracing::info!("SIGINT: the server stops"),
                _ = hangup.recv() => server.reload(&config),
                () = server.backends.reload.notified() => server.reload(&config),
            }
        }
        server.stop().await;
        let database = server.engine.database().clone();
        // The next start reads no log.
        tokio::task::spawn_blocking(move || database.checkpoint()).await??;
        anyhow::Ok(())
    })
}
