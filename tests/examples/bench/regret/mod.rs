//! `bench regret`: what the choice of a join's operator costs. Over a grid of predicates, sizes, orders of keys,
//! selectivities and skew, with an index and without, every operator that can run the query runs it on every device at
//! hand; the regret is the time of what `auto` chose over the time of the fastest. All must give the same answer.

mod cases;
mod report;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

pub use cases::Case;
pub use report::Report;

/// How much of the grid is run.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Of the larger side.
    pub rows: RangeInclusive<usize>,
    /// No case is begun after it.
    pub time: Duration,
    /// Repeats, of which the best counts.
    pub runs: usize,
    /// Whether there is a GPU to run on.
    pub gpu: bool,
}

/// Pairs that a nested loop is tried on.
const LOOPED_PAIRS_MAX: f64 = 2e10;
/// An operator this many times slower than the choice is cut off.
const SLOWER_MAX: u32 = 8;
/// And no sooner than after this time.
const PATIENCE: Duration = Duration::from_millis(500);

/// What ran one case.
#[derive(Clone, Debug)]
pub struct Timed {
    /// `auto`, or an operator.
    pub operator: &'static str,
    pub device: &'static str,
    /// None where it was cut off.
    pub ms: Option<f64>,
}

/// One case's times, `auto`'s first.
#[derive(Clone, Debug)]
pub struct Measured {
    pub case: Case,
    /// What EXPLAIN ANALYZE says of the choice.
    pub reason: String,
    pub times: Vec<Timed>,
}

/// Runs the grid, the small cases first.
pub async fn run(client: &Client, limits: Limits) -> Result<Report> {
    let begin = Instant::now();
    let (mut report, mut left) = (Report::default(), 0);
    println!("{}", report::HEAD);
    for case in cases::grid(&limits.rows) {
        if begin.elapsed() > limits.time {
            left += 1;
            continue;
        }
        let measured = measure(client, case, &limits).await?;
        println!("{}", report::line(&measured));
        report.cases.push(measured);
    }
    if left > 0 {
        println!("{left} cases are left out: the time is up");
    }
    Ok(report)
}

async fn measure(client: &Client, case: Case, limits: &Limits) -> Result<Measured> {
    for statement in case.setup() {
        client.batch_execute(&statement).await.context(statement)?;
    }
    let sql = case.query();
    set(client, "auto", "auto").await?;
    client.batch_execute("SET statement_timeout = 0").await?;
    let expected = answer(client, &sql).await?;
    let reason = reason(client, &sql).await?;
    let mut times = vec![Timed {
        operator: "auto",
        device: "auto",
        ms: Some(time(client, &sql, &expected).await?),
    }];
    let patience = Duration::from_secs_f64(times[0].ms.unwrap_or(0.0) / 1e3) * SLOWER_MAX;
    let timeout = patience.max(PATIENCE).as_millis();
    client
        .batch_execute(&format!("SET statement_timeout = {timeout}"))
        .await?;
    let devices: &[&'static str] = if limits.gpu { &["cpu", "gpu"] } else { &["cpu"] };
    for &device in devices {
        for operator in case.operators(device) {
            let few = case.pairs() <= LOOPED_PAIRS_MAX;
            if operator != "ninlj" || few {
                set(client, operator, device).await?;
                let first = checked(client, &sql, &expected)
                    .await
                    .with_context(|| format!("{case:?} by {operator} on {device}"))?;
                let (operator, ms) = (operator, first);
                times.push(Timed { operator, device, ms });
            }
        }
    }
    // In turns, so that what else the machine does meets all alike.
    for _ in 0..case.repeats(limits.runs) {
        for timed in times.iter_mut().filter(|timed| timed.ms.is_some()) {
            set(client, timed.operator, timed.device).await?;
            if let Some(ms) = checked(client, &sql, &expected).await? {
                timed.ms = timed.ms.map(|best| best.min(ms));
            }
        }
    }
    client.batch_execute("SET statement_timeout = 0").await?;
    for statement in case.teardown() {
        client.batch_execute(&statement).await?;
    }
    Ok(Measured { case, reason, times })
}

async fn set(client: &Client, operator: &str, device: &str) -> Result<()> {
    let sql = format!("SET tenon.join_operator = '{operator}'; SET tenon.device = '{device}'");
    Ok(client.batch_execute(&sql).await?)
}

/// Milliseconds of one run; none if it was cut off or is not supported. The answer must be the expected one.
async fn checked(client: &Client, sql: &str, expected: &[String]) -> Result<Option<f64>> {
    match time(client, sql, expected).await {
        Ok(ms) => Ok(Some(ms)),
        Err(error) => {
            let of_database = error.downcast_ref::<tokio_postgres::Error>();
            let out = [SqlState::QUERY_CANCELED, SqlState::FEATURE_NOT_SUPPORTED];
            match of_database.and_then(tokio_postgres::Error::code) {
                Some(code) if out.contains(code) => Ok(None),
                _ => Err(error),
            }
        }
    }
}

async fn time(client: &Client, sql: &str, expected: &[String]) -> Result<f64> {
    let start = Instant::now();
    let found = answer(client, sql).await?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    ensure!(found == expected, "{sql}: {found:?}, but auto found {expected:?}");
    Ok(ms)
}

async fn answer(client: &Client, sql: &str) -> Result<Vec<String>> {
    let mut values = vec![];
    for message in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            values.extend((0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()));
        }
    }
    Ok(values)
}

async fn reason(client: &Client, sql: &str) -> Result<String> {
    let lines = answer(client, &format!("EXPLAIN (ANALYZE, COSTS OFF) {sql}")).await?;
    let reason = lines.iter().find_map(|line| line.trim().strip_prefix("Reason: "));
    Ok(reason.unwrap_or("no join").to_owned())
}
