//! The load harness, small: a server answers all kinds of requests as it must; wrong answers are found; a stall is seen.

use crate::load::{self, Kind, Mix, Plan, Report};
use crate::process::Server;
use crate::{trial, trial_alone};
use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("bench::load", answers),
        trial("bench::load_finds_wrong_rows", finds_wrong_rows),
        trial("bench::load_finds_rows_too_many", finds_rows_too_many),
        trial_alone("bench::load_sees_stalls", sees_stalls),
    ]
}

fn plan(mix: &str, clients: usize, seconds: u64) -> Result<Plan> {
    Ok(Plan {
        mix: Mix::parse(mix)?,
        clients,
        rate: None,
        warm_up: Duration::ZERO,
        time: Duration::from_secs(seconds),
        seed: 7,
        points: 2_000,
        factor: 0.01,
        sleep: Duration::from_millis(500),
    })
}

/// All kinds of requests, also those of clients that are to be sent away, in a closed and in an open loop.
async fn answers() -> Result<()> {
    let server = Server::start(&["--demo=0.01", "--threads=2"])?;
    let mix = "points:40,joins:10,tpch:10,copy:10,updates:20,cancels:8,bad:12,sleeps:1";
    let closed = Plan {
        warm_up: Duration::from_secs(1),
        ..plan(mix, 6, 8)?
    };
    let open = Plan {
        rate: Some(10.0),
        ..closed.clone()
    };
    for plan in [closed, open] {
        load::fill(&server.dsn(), &plan).await?;
        let report = load::run(&server.dsn(), &plan).await?;
        ensure!(load::verdict(&report).is_ok() && report.unanswered == 0, "{report}");
        let all = report.all();
        ensure!(all.errors.is_empty() && all.latency.count() >= 40, "{report}");
        let kinds: Vec<Kind> = report.kinds.keys().copied().collect();
        ensure!(kinds.len() >= 6, "{report}");
        let directory = tempfile::tempdir()?;
        let (csv, svg) = (directory.path().join("load.csv"), directory.path().join("load.svg"));
        report.write_csv(&csv)?;
        load::write_svg(&report, &svg)?;
        let csv = std::fs::read_to_string(csv)?;
        let counts = csv
            .lines()
            .skip(1)
            .filter_map(|line| line.split(',').nth(2)?.parse::<u64>().ok());
        ensure!(counts.sum::<u64>() == all.latency.count(), "{csv}");
        let svg = std::fs::read_to_string(svg)?;
        let shown = |kind: &Kind| svg.contains(&format!(">{}</text>", kind.name()));
        ensure!(kinds.iter().all(shown) && svg.contains("<polyline"), "{svg}");
    }
    Ok(())
}

/// A report with these words among what is wrong.
fn told(report: &Report, words: &str) -> Result<()> {
    ensure!(
        report.told.iter().any(|what| what.contains(words)),
        "no {words}: {report}"
    );
    ensure!(load::verdict(report).is_err());
    Ok(())
}

/// Rows that are not what they should be, and accounts that hold more than they got.
async fn finds_wrong_rows() -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let plan = plan("points:4,joins:2,updates:1", 2, 3)?;
    load::fill(&server.dsn(), &plan).await?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "UPDATE load_points SET v = v + 1 WHERE k % 5 = 0; UPDATE load_items SET amount = 0 WHERE k % 5 = 1;
             UPDATE load_accounts SET balance = balance + 1 WHERE id = 2",
        )
        .await?;
    let report = load::run(&server.dsn(), &plan).await?;
    told(&report, "point ")?;
    told(&report, "join from ")?;
    told(&report, "the accounts hold 200001 together, and not 200000")?;
    let wrong = report.kinds.get(&Kind::Points).map_or(0, |tally| tally.wrong);
    ensure!(
        wrong > 0 && report.to_string().contains(&format!("WRONG: {wrong}")),
        "{report}"
    );
    Ok(())
}

/// A COPY of which more is there than it was told of.
async fn finds_rows_too_many() -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let plan = plan("copy:1", 1, 1)?;
    load::fill(&server.dsn(), &plan).await?;
    let client = server.connect().await?;
    client
        .batch_execute("INSERT INTO load_copied VALUES (-1, 1, 'x')")
        .await?;
    told(&load::run(&server.dsn(), &plan).await?, "rows copied, where")
}

/// One connection sleeps now and then. The requests that are due meanwhile wait, and in an open loop that is in their
/// latencies, though once sent they are answered as soon as ever.
async fn sees_stalls() -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let closed = plan("points:199,sleeps:1", 1, 6)?;
    let open = Plan {
        rate: Some(50.0),
        ..closed.clone()
    };
    load::fill(&server.dsn(), &closed).await?;
    let report = load::run(&server.dsn(), &open).await?;
    let points = &report.kinds[&Kind::Points];
    ensure!(report.kinds.contains_key(&Kind::Sleeps), "{report}");
    ensure!(points.latency.quantile(0.99) > Duration::from_millis(300), "{report}");
    ensure!(points.service.quantile(0.9) < Duration::from_millis(150), "{report}");
    let report = load::run(&server.dsn(), &closed).await?;
    let points = &report.kinds[&Kind::Points];
    ensure!(points.latency.quantile(0.99) < Duration::from_millis(300), "{report}");
    Ok(())
}
