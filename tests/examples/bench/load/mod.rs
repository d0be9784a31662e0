//! `bench load`: many connections that send a mix of requests to a server, or to any other that speaks PostgreSQL's protocol
//! (`--url`), whose answers are all checked.
//!
//! Closed loop (`--clients N`): each connection sends a request when it has the answer to the one before. A server that stalls
//! is then asked less, and most of what its clients would have waited for is not measured. Open loop (`--rate R`): R requests a
//! second are due, whatever the server does, and a request's latency counts from when it was due. The time for which it
//! could not be sent because all connections waited for answers is part of it, so that a stall shows in the latencies of all requests
//! that were due meanwhile (this corrects "coordinated omission"). The column `p99 (sent)` counts from when requests were
//! sent, as one would without.
//!
//! Each request is drawn by its number and `--seed`: which requests are sent does not depend on how they are answered. A wrong answer is
//! told and fails the run: of points and joins every value is known, TPC-H's rows must be those that the server gave alone (and
//! the committed ones, where the scale factor has such), accounts must hold in the end what they held in the beginning, with as many
//! changes as were acknowledged, and COPY's rows must be there all of them and no others. Errors are counted by SQLSTATE.

mod bad;
mod data;
mod mix;
mod plot;
mod report;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bad::Door;
pub use mix::{Kind, Mix};
use parking_lot::Mutex;
pub use plot::write as write_svg;
pub use report::Report;
use requests::{Answered, Caller, Knowledge, Known, Trouble};
use tenon_tests::tpch::{self, Scale};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::{Config, NoTls};

/// No request is waited for any longer.
const REQUEST_MAX: Duration = Duration::from_secs(120);
/// For so long requests that are due go on to be sent and answered when the run is over.
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// A client that has lost its connection waits so long before it opens another.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Sessions of clients that have gone are to be over after so long.
const GONE_AFTER: Duration = Duration::from_secs(30);

/// What a run is.
#[derive(Clone, Debug)]
pub struct Plan {
    pub mix: Mix,
    pub clients: usize,
    /// Requests a second; none: a closed loop.
    pub rate: Option<f64>,
    pub warm_up: Duration,
    pub time: Duration,
    pub seed: u64,
    /// Rows of `load_points`.
    pub points: i64,
    /// Of TPC-H's tables.
    pub factor: f64,
    /// How long `sleeps` do.
    pub sleep: Duration,
}

/// Makes the tables on the server, anew if they are there.
pub async fn fill(url: &str, plan: &Plan) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("cannot connect")?;
    tokio::spawn(connection);
    data::fill(&client, plan.points).await
}

/// Sends the load to a server whose tables are made.
pub async fn run(url: &str, plan: &Plan) -> Result<Report> {
    let config: Config = url.parse()?;
    let (client, connection) = config.connect(NoTls).await.context("cannot connect")?;
    tokio::spawn(connection);
    let load = Arc::new(Load {
        door: match plan.mix.has(Kind::Bad) {
            true => Some(Door::find(&config).await?),
            false => None,
        },
        knowledge: Knowledge {
            points: plan.points,
            tpch: match plan.mix.has(Kind::Tpch) {
                true => known(&client, plan.factor).await?,
                false => vec![],
            },
            ledger: data::Ledger::default(),
            sleep: plan.sleep,
        },
        begin: Instant::now() + plan.warm_up,
        warm_up: plan.warm_up,
        plan: plan.clone(),
        config,
        tickets: AtomicU64::new(0),
        report: Mutex::default(),
    });
    let clients: Vec<_> = (0..plan.clients).map(|_| tokio::spawn(load.clone().client())).collect();
    for client in clients {
        client.await??;
    }
    let mut report = std::mem::take(&mut *load.report.lock());
    report.time = plan.time;
    if let Some(rate) = plan.rate {
        let due = (rate * (plan.warm_up + plan.time).as_secs_f64()).ceil() as u64;
        report.unanswered += due.saturating_sub(load.tickets.load(Ordering::Relaxed));
    }
    // Some other connection than those that are left of the load.
    if let Err(error) = load.knowledge.ledger.check(&client, plan.points).await {
        report.wrong(format!("in the end: {error:#}"));
    }
    if load.door.is_some() {
        gone(&client, &mut report).await?;
    }
    Ok(report)
}

/// The queries with their answers.
async fn known(client: &tokio_postgres::Client, factor: f64) -> Result<Vec<Known>> {
    let there = client.query_one("SELECT count(*) FROM lineitem", &[]).await;
    there.context("no TPC-H tables: start the server with --demo, or leave tpch out of --mix")?;
    let scales = [Scale::Tenth, Scale::One];
    let scale = scales.into_iter().find(|scale| scale.name() == factor.to_string());
    let mut known = vec![];
    for number in 1..=22 {
        let sql = tpch::query(number, scale.unwrap_or(Scale::Tenth))?;
        let one = Known::ask(client, sql, number).await?;
        if let Some(scale) = scale {
            one.verify(scale)?;
        }
        known.push(one);
    }
    Ok(known)
}

/// Bad clients leave nothing behind that runs on.
async fn gone(client: &tokio_postgres::Client, report: &mut Report) -> Result<()> {
    let begun = Instant::now();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    loop {
        let left: i64 = client.query_one(sql, &[&bad::NAME]).await?.get(0);
        if left == 0 {
            return Ok(());
        }
        if begun.elapsed() > GONE_AFTER {
            report.wrong(format!(
                "{left} sessions of clients that have vanished are there after {GONE_AFTER:?}"
            ));
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A run in progress.
struct Load {
    plan: Plan,
    config: Config,
    knowledge: Knowledge,
    door: Option<Door>,
    /// When measuring begins.
    begin: Instant,
    warm_up: Duration,
    /// Requests that clients have taken on.
    tickets: AtomicU64,
    report: Mutex<Report>,
}

impl Load {
    /// One connection's part, until the run is over.
    async fn client(self: Arc<Self>) -> Result<()> {
        let (end, mut caller) = (self.begin + self.plan.time, None);
        loop {
            let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
            let due = match self.plan.rate {
                Some(rate) => self.begin - self.warm_up + Duration::from_secs_f64(ticket as f64 / rate),
                None => Instant::now(),
            };
            if due >= end {
                return Ok(());
            }
            if Instant::now() > end + DRAIN_MAX {
                self.report.lock().unanswered += 1;
                return Ok(());
            }
            sleep_until(due).await;
            let kind = self.plan.mix.draw(mix::dice(self.plan.seed, ticket));
            let dice = requests::own_dice(self.plan.seed, ticket);
            let sent = Instant::now();
            let answer = timeout(REQUEST_MAX, self.request(&mut caller, kind, dice)).await;
            let answer = answer.unwrap_or_else(|_| Err(Trouble::Wrong(format!("{}: no answer", kind.name()))));
            let now = Instant::now();
            if due >= self.begin {
                let (latency, service) = (now - due, now - sent);
                self.report
                    .lock()
                    .record(kind, now - self.begin, latency, service, answer);
            } else if let Err(Trouble::Wrong(what)) = answer {
                self.report.lock().wrong(what);
            }
        }
    }

    async fn request(&self, caller: &mut Option<Caller>, kind: Kind, dice: u64) -> Answered {
        if let (Kind::Bad, Some(door)) = (kind, &self.door) {
            return door.knock(dice).await;
        }
        // Given back where the connection can be used again: a request that is dropped takes its connection along.
        let own = match caller.take() {
            Some(own) => own,
            None => match Caller::connect(&self.config).await {
                Ok(own) => own,
                Err(error) => {
                    tokio::time::sleep(AGAIN_AFTER).await;
                    return Err(error.into());
                }
            },
        };
        let knowledge = &self.knowledge;
        let answer = match kind {
            Kind::Points => own.point(knowledge, dice).await,
            Kind::Joins => own.join(knowledge, dice).await,
            Kind::Tpch => own.tpch(knowledge, dice).await,
            Kind::Copy => own.copy(knowledge).await,
            Kind::Updates => own.update(knowledge, dice).await,
            Kind::Cancels => own.cancel(dice).await,
            Kind::Sleeps | Kind::Bad => own.sleep(knowledge).await,
        };
        if !matches!(answer, Err(Trouble::Lost)) {
            *caller = Some(own);
        }
        answer
    }
}

/// Ends with an error where an answer was wrong.
pub fn verdict(report: &Report) -> Result<()> {
    match report.told.len() {
        0 => Ok(()),
        _ => bail!("wrong answers"),
    }
}
