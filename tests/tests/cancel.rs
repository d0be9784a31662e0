//! Cancels of joins at any moment: the client has its error at once, and the server stops working soon after.

use crate::process::{Server, sql_state, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("cancel::joins", joins),
        trial("cancel::pairs_of_one_key", pairs_of_one_key),
        trial("cancel::long_batches", long_batches),
        trial("cancel::on_the_device", on_the_device),
    ]
}

/// On an idle machine a cancel takes 0.1 s; tests share theirs.
const ANSWER_MAX: Duration = Duration::from_secs(1);
const IDLE_MAX: Duration = Duration::from_secs(2);

/// A cancel that comes before its statement is for none: where the machine is busy, an early one is sent again.
const AGAIN: Duration = Duration::from_millis(400);
const STARTED_MS: u64 = 300;

/// An operator, and a join that takes it seconds.
const JOINS: [(&str, &str); 8] = [
    ("auto", "SELECT count(*) FROM a JOIN b ON a.k = b.k"),
    ("auto", "SELECT count(*) FROM a JOIN b ON a.s = b.s AND a.k = b.k"),
    ("hj", "SELECT count(*) FROM a JOIN b ON a.k = b.k"),
    ("hj", "SELECT count(*) FROM a JOIN b ON a.s = b.s"),
    ("smj", "SELECT count(*) FROM a JOIN b ON a.k = b.k"),
    (
        "smj",
        "SELECT count(*) FROM a JOIN b ON a.k BETWEEN b.k AND b.k + 100000",
    ),
    ("inlj", "SELECT count(*) FROM a JOIN b ON a.k = b.k"),
    ("ninlj", "SELECT count(*) FROM a JOIN b ON a.k = b.k"),
];

/// When the cancel is sent: while inputs are read, sorted, put into tables, and matched.
const AFTER_MS: [u64; 5] = [30, 120, 250, 400, 700];

async fn joins() -> Result<()> {
    let server = Server::start_without_gpu(&[])?;
    let client = server.connect().await?;
    for table in ["a", "b"] {
        let rows = "SELECT g * 2654435761 % 4294967291, 'row ' || (g * 7919 % 1500007) FROM generate_series(1::int8, 1500000) q (g)";
        client
            .batch_execute(&format!(
                "CREATE TABLE {table} (k int8, s text); INSERT INTO {table} {rows}"
            ))
            .await?;
    }
    for (operator, sql) in JOINS {
        client
            .batch_execute(&format!("SET tenon.join_operator = '{operator}'"))
            .await?;
        cancelled(&server, &client, operator, sql).await?;
    }
    ensure!(value(&client, "SELECT 5").await? == "5");
    Ok(())
}

/// A probe batch whose rows all meet all rows of the build side: what they make is neither kept nor made at once. Where one
/// partner is enough, no more are looked for.
async fn pairs_of_one_key() -> Result<()> {
    let server = Server::start_without_gpu(&["--memory-limit", "512MiB"])?;
    let client = server.connect().await?;
    // Not in order, so that the rows meet in a hash table.
    let rows =
        "SELECT CASE WHEN g * 7919 % 10 < 6 THEN 1 ELSE g * 7919 % 100003 END, g FROM generate_series(1, 100000) q (g)";
    client
        .batch_execute(&format!("CREATE TABLE s (k int, t int); INSERT INTO s {rows}"))
        .await?;
    let met = "SELECT count(*) FROM s a WHERE EXISTS (SELECT 1 FROM s b WHERE b.k = a.k AND b.t <> a.t)";
    ensure!(value(&client, met).await? == "60000");
    for sql in [
        "SELECT count(*) FROM s a WHERE NOT EXISTS (SELECT 1 FROM s b WHERE b.k = a.k AND b.t > a.t + 1000000)",
        "SELECT count(*) FROM s a WHERE EXISTS (SELECT 1 FROM s b WHERE b.k = a.k AND b.t > a.t + 1000000)",
        "SELECT count(*) FROM s a JOIN s b ON a.k = b.k AND a.t + b.t < 0",
        "SELECT count(*) FROM s a LEFT JOIN s b ON a.k = b.k AND a.t + b.t < 0",
        "SELECT count(*) FROM s a FULL JOIN s b ON a.k = b.k AND a.t + b.t < 0",
        "SELECT sum(a.t + b.t) FROM s a JOIN s b ON a.k = b.k",
    ] {
        cancelled(&server, &client, "rows of one key", sql).await?;
    }
    ensure!(value(&client, "SELECT 5").await? == "5");
    Ok(())
}

/// Statements that work for long on each batch, or on all rows at once.
async fn long_batches() -> Result<()> {
    let server = Server::start(&["--threads", "2"])?;
    let client = server.connect().await?;
    for sql in [
        "SELECT count(*) FROM (SELECT count(*) FROM (SELECT g % 2 a, g % 3 b, g % 5 c, g % 7 d, g % 11 e, g % 13 f, g % 17 h, \
         g % 19 i, g % 23 j, g % 29 k, g % 31 l, g % 37 m FROM generate_series(1, 200000) q(g)) t \
         GROUP BY CUBE (a, b, c, d, e, f, h, i, j, k, l, m)) q",
        "SELECT count(w) FROM (SELECT sum(g) OVER (ORDER BY g % 1000 ROWS BETWEEN 1000000 PRECEDING AND CURRENT ROW) AS w \
         FROM generate_series(1, 3000000) q(g)) q",
        "SELECT cardinality(array_agg(g ORDER BY g % 1000, g DESC)) FROM generate_series(1, 3000000) q(g)",
        "SELECT g FROM generate_series(1, 8000000) q(g) ORDER BY g % 1000, g DESC OFFSET 7999999",
        "SELECT jsonb_array_length(jsonb_agg(g)) FROM generate_series(1, 1500000) q(g)",
    ] {
        cancelled(&server, &client, "one batch", sql).await?;
    }
    ensure!(value(&client, "SELECT 5").await? == "5");
    Ok(())
}

/// The simulator is slow, so that few rows keep it busy; what it does at once is what a GPU does in some 10 ms.
async fn on_the_device() -> Result<()> {
    let server = Server::start_with(&[], &[("TENON_DEVICE", "sim")])?;
    let client = server.connect().await?;
    let rows = "SELECT g * 7919 % 30011, g FROM generate_series(1, 30000) q (g)";
    client
        .batch_execute(&format!(
            "CREATE TABLE a (k int8, x int8); INSERT INTO a {rows}; CREATE TABLE b (k int8, x int8); INSERT INTO b {rows}; \
             SET tenon.device = 'gpu'; SET tenon.wait_for_compile = on"
        ))
        .await?;
    let sql = "SELECT count(*) FROM a JOIN b ON a.k + b.k = 5 OR a.x = b.k * 3";
    cancelled(&server, &client, "ninlj on the simulator", sql).await
}

/// Cancels the statement at several moments; statements that end before are passed over, but not all.
async fn cancelled(server: &Server, client: &tokio_postgres::Client, operator: &str, sql: &str) -> Result<()> {
    let token = client.cancel_token();
    let mut times = vec![];
    for after in AFTER_MS {
        let mut query = std::pin::pin!(async {
            let result = client.simple_query(sql).await;
            (result, Instant::now())
        });
        if tokio::time::timeout(Duration::from_millis(after), &mut query)
            .await
            .is_ok()
        {
            continue;
        }
        let sent = Instant::now();
        let mut cancels = 0;
        let (result, ended) = loop {
            token.cancel_query(tokio_postgres::NoTls).await?;
            cancels += 1;
            if let Ok(done) = tokio::time::timeout(AGAIN, &mut query).await {
                break done;
            }
        };
        ensure!(
            cancels == 1 || after < STARTED_MS,
            "{operator}: {cancels} cancels after {after} ms: {sql}"
        );
        let Err(error) = result else {
            // The cancel may still be on its way, and is not for what comes next.
            server.idle_since().await?;
            continue;
        };
        ensure!(sql_state(&error) == "57014", "{operator}: {}", sql_state(&error));
        let idle = server.idle_since().await?.saturating_duration_since(sent);
        times.push((after, ended.saturating_duration_since(sent), idle));
    }
    ensure!(!times.is_empty(), "{operator} never took {} ms: {sql}", AFTER_MS[0]);
    let shown = times
        .iter()
        .map(|(after, answer, idle)| format!("at {after} ms: {} / {} ms", answer.as_millis(), idle.as_millis()));
    println!(
        "{operator}: {sql}: error / idle after cancel {}",
        shown.collect::<Vec<_>>().join(", ")
    );
    for (after, answer, idle) in times {
        let late = || format!("{operator} after {after} ms: error {answer:?}, idle {idle:?}: {sql}");
        ensure!(answer < ANSWER_MAX && idle < IDLE_MAX, "{}", late());
    }
    Ok(())
}

impl Server {
    /// When the server's threads were last seen at work, once they rest.
    async fn idle_since(&self) -> Result<Instant> {
        const LOOK: Duration = Duration::from_millis(10);
        let begun = Instant::now();
        let (mut last, mut worked) = (self.cpu_ticks()?, begun);
        // A tick of the kernel's clock is 10 ms, and a busy machine may give the server none for a while.
        while worked.elapsed() < LOOK * 10 && begun.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(LOOK).await;
            let ticks = self.cpu_ticks()?;
            if ticks > last {
                (last, worked) = (ticks, Instant::now());
            }
        }
        Ok(worked)
    }

    /// Processor time of all threads so far, in ticks.
    fn cpu_ticks(&self) -> Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
        // After the name in parentheses, user time is the 12th field and system time the 13th.
        let (_, fields) = stat.rsplit_once(')').context("no name in a stat file")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |at: usize| -> Result<u64> { Ok(fields.get(at).context("a short stat file")?.parse()?) };
        Ok(ticks(11)? + ticks(12)?)
    }
}
