//! What the server tells of statements: `pg_stat_statements`, the log of slow ones and their plans.

use crate::process::{Server, failing, rows, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("statements::counted", counted),
        trial("statements::prepared", prepared),
        trial("statements::settings", settings),
        trial("statements::log", log),
        trial("statements::plans_in_log", plans_in_log),
    ]
}

/// Calls, rows and text of all statements but those that ask for them.
async fn all(client: &Client) -> Result<Vec<String>> {
    let sql = "SELECT calls, rows, query FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat%'";
    let found = rows(client, sql).await?.into_iter();
    let lines = found.map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" "));
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    Ok(lines)
}

/// What PostgreSQL 15 shows for the same statements.
async fn counted() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        .await?;
    client
        .batch_execute("CREATE TABLE t (k int PRIMARY KEY, v text)")
        .await?;
    ensure!(value(&client, "SELECT pg_stat_statements_reset()").await?.is_empty());
    for sql in [
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO t VALUES (3, 'c')",
        "INSERT INTO t VALUES (4, 'c')",
        "INSERT INTO t VALUES (5, 'c')",
        "SELECT v FROM t WHERE k = 1",
        "SELECT v FROM t WHERE k = 2",
        "SELECT  v FROM t WHERE k = 3",
        "select v from t where k = 30 -- nothing",
        "SELECT count(*), -5 FROM t WHERE v IN ('a', 'b') AND k > 1.5 ORDER BY 1 LIMIT 5",
        "SELECT v::varchar(3), NULL, true FROM t WHERE v IS NOT NULL ORDER BY k LIMIT 2",
        "UPDATE t SET v = 'x' WHERE k = 4",
        "UPDATE t SET v = 'y' WHERE k = 3",
        "UPDATE t SET v = 'z' WHERE k = 5",
        "DELETE FROM t WHERE k = 77",
        "SET application_name = 'me'",
        "BEGIN",
        "COMMIT",
        "PREPARE p(int) AS SELECT v FROM t WHERE k = $1 AND v <> 'q'",
        "EXECUTE p(1)",
        "EXECUTE p(2)",
        "DEALLOCATE p",
        "SELECT extract(year FROM date '2020-01-01')",
        "CREATE TABLE u AS SELECT * FROM t",
        "COPY t TO STDOUT",
    ] {
        match sql.starts_with("COPY") {
            true => drop(futures::TryStreamExt::try_collect::<Vec<_>>(client.copy_out(sql).await?).await?),
            false => client.batch_execute(sql).await.context(sql)?,
        }
    }
    // What fails is not counted.
    ensure!(failing(&client, "SELECT 1 / 0").await? == "22012");
    let found = all(&client).await?;
    let expected = [
        "1 0 BEGIN",
        "1 0 COMMIT",
        "1 0 DELETE FROM t WHERE k = $1",
        "1 0 SET application_name = 'me'",
        "1 1 SELECT count(*), $1 FROM t WHERE v IN ($2, $3) AND k > $4 ORDER BY 1 LIMIT $5",
        "1 1 SELECT extract($1 FROM date $2)",
        "1 2 INSERT INTO t VALUES ($1, $2), ($3, $4)",
        "1 2 SELECT v::varchar(3), $1, $2 FROM t WHERE v IS NOT NULL ORDER BY k LIMIT $3",
        "1 5 COPY t TO STDOUT",
        "1 5 CREATE TABLE u AS SELECT * FROM t",
        "2 2 PREPARE p(int) AS SELECT v FROM t WHERE k = $1 AND v <> $2",
        "3 3 INSERT INTO t VALUES ($1, $2)",
        "3 3 UPDATE t SET v = $1 WHERE k = $2",
        "4 3 SELECT v FROM t WHERE k = $1",
    ];
    ensure!(found == expected, "{found:#?}");
    let times = "SELECT bool_and(total_exec_time > 0 AND min_exec_time <= mean_exec_time AND mean_exec_time <= max_exec_time \
                 AND max_exec_time <= total_exec_time AND stddev_exec_time >= 0 AND plans = 0 AND total_plan_time = 0 \
                 AND userid = 10 AND toplevel AND shared_blks_hit = 0) FROM pg_stat_statements";
    ensure!(value(&client, times).await? == "t");
    // One of them goes, then all.
    let one = "SELECT pg_stat_statements_reset(0, 0, queryid) FROM pg_stat_statements WHERE query LIKE 'DELETE%'";
    client.batch_execute(one).await?;
    let left = all(&client).await?;
    ensure!(
        left.len() == expected.len() - 1 && !left.iter().any(|line| line.contains("DELETE")),
        "{left:#?}"
    );
    client.batch_execute("SELECT pg_stat_statements_reset()").await?;
    client.batch_execute("SELECT v FROM t WHERE k = 1").await?;
    ensure!(all(&client).await? == ["1 1 SELECT v FROM t WHERE k = $1"]);
    ensure!(value(&client, "SELECT stats_reset <= now() FROM pg_stat_statements_info").await? == "t");
    Ok(())
}

/// The same statement by whatever protocol, of several sessions, and in portions.
async fn prepared() -> Result<()> {
    let server = Server::start(&[])?;
    let (mut one, other) = (server.connect().await?, server.connect().await?);
    one.batch_execute("CREATE TABLE t AS SELECT g AS k, 'v' || g AS v FROM generate_series(1, 100) g")
        .await?;
    one.batch_execute("SELECT pg_stat_statements_reset()").await?;
    for client in [&one, &other] {
        let statement = client.prepare("SELECT v FROM t WHERE k = $1").await?;
        for key in 1..=20 {
            let row = client.query_one(&statement, &[&key]).await?;
            ensure!(row.get::<_, &str>(0) == format!("v{key}"));
            value(client, &format!("SELECT v FROM t WHERE k = {key}")).await?;
        }
    }
    let transaction = one.transaction().await?;
    let portal = transaction.bind("SELECT k FROM t", &[]).await?;
    let mut portions = vec![];
    loop {
        let rows = transaction.query_portal(&portal, 30).await?;
        if rows.is_empty() {
            break;
        }
        portions.push(rows.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(portions == [30, 30, 30, 10], "{portions:?}");
    transaction.commit().await?;
    let found = all(&one).await?;
    ensure!(
        found.contains(&"80 80 SELECT v FROM t WHERE k = $1".to_owned()),
        "{found:#?}"
    );
    ensure!(found.contains(&"1 100 SELECT k FROM t".to_owned()), "{found:#?}");
    // The time that the client took between the portions is not the statement's.
    let took = value(
        &one,
        "SELECT max_exec_time < 100 FROM pg_stat_statements WHERE query = 'SELECT k FROM t'",
    )
    .await?;
    ensure!(took == "t");
    Ok(())
}

async fn settings() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    let both = async |setting: &str| -> Result<Vec<String>> {
        let batch = format!("SELECT pg_stat_statements_reset(); SET {setting}");
        client.batch_execute(&batch).await?;
        client.batch_execute("SELECT 1 AS one").await?;
        client.batch_execute("LISTEN x").await?;
        client.batch_execute("RESET ALL").await?;
        let found = all(&client).await?;
        let of_both = |line: &String| line.contains("one") || line.contains("LISTEN");
        Ok(found.into_iter().filter(of_both).collect())
    };
    ensure!(both("compute_query_id = on").await? == ["1 0 LISTEN x", "1 1 SELECT $1 AS one"]);
    ensure!(both("compute_query_id = off").await?.is_empty());
    ensure!(both("pg_stat_statements.track = none").await?.is_empty());
    ensure!(both("pg_stat_statements.track_utility = off").await? == ["1 1 SELECT $1 AS one"]);
    client
        .batch_execute("SET pg_stat_statements.track_planning = on")
        .await?;
    client.batch_execute("SELECT 1 AS planned").await?;
    let planned =
        "SELECT plans = 1 AND total_plan_time > 0 FROM pg_stat_statements WHERE query = 'SELECT $1 AS planned'";
    ensure!(value(&client, planned).await? == "t");
    for (wrong, state) in [
        ("compute_query_id = perhaps", "22023"),
        ("log_min_duration_statement = -2", "22023"),
        ("log_min_duration_statement = soon", "22023"),
        ("log_parameter_max_length = -2", "22023"),
        ("pg_stat_statements.max = 3", "55P02"),
    ] {
        ensure!(failing(&client, &format!("SET {wrong}")).await? == state, "{wrong}");
    }
    // EXPLAIN VERBOSE shows the number under which a statement is counted, where that is asked for.
    client.batch_execute("SELECT pg_stat_statements_reset()").await?;
    value(&client, "SELECT 5 + 5 AS ten").await?;
    let id = "SELECT queryid FROM pg_stat_statements WHERE query = 'SELECT $1 + $2 AS ten'";
    let id = value(&client, id).await?;
    let explained = async |sql: &str| -> Result<String> {
        let lines = rows(&client, sql).await?.into_iter().flatten().flatten();
        Ok(lines.collect::<Vec<_>>().join("\n"))
    };
    let plan = explained("EXPLAIN (VERBOSE, COSTS OFF) SELECT 6 + 4 AS ten").await?;
    ensure!(!plan.contains("Query Identifier"), "{plan}");
    client.batch_execute("SET compute_query_id = on").await?;
    let plan = explained("EXPLAIN (VERBOSE, COSTS OFF) SELECT 6 + 4 AS ten").await?;
    ensure!(plan.contains(&format!("Query Identifier: {id}")), "{plan}");
    let plan = explained("EXPLAIN (VERBOSE, FORMAT JSON) SELECT 6 + 4 AS ten").await?;
    ensure!(plan.contains(&format!("\"Query Identifier\": {id}")), "{plan}");
    Ok(())
}

/// Lines of the log, as JSON objects, of those that have a duration.
fn durations(server: &Server) -> Result<Vec<serde_json::Value>> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("\"duration: "));
    lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// The line about a statement, which comes a little after its answer.
async fn line_of(server: &Server, words: &str) -> Result<serde_json::Value> {
    let begun = Instant::now();
    loop {
        let lines = durations(server)?;
        let has = |line: &&serde_json::Value| line["message"].as_str().is_some_and(|message| message.contains(words));
        if let Some(line) = lines.iter().find(has) {
            return Ok(line.clone());
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(10),
            "no line with {words}: {}",
            server.log()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn log() -> Result<()> {
    let arguments = ["--log-format", "json", "--log-min-duration-statement", "200ms"];
    let server = Server::start(&arguments)?;
    let client = server.connect().await?;
    let pid = value(&client, "SELECT pg_backend_pid()").await?;
    ensure!(value(&client, "SHOW log_min_duration_statement").await? == "200ms");
    value(&client, "SELECT 'quick'").await?;
    value(&client, "SELECT pg_sleep(0.25), 'slow' AS what").await.ok();
    let line = line_of(&server, "'slow'").await?;
    let id = "SELECT queryid FROM pg_stat_statements WHERE query = 'SELECT pg_sleep($1), $2 AS what'";
    let id = value(&client, id).await?;
    ensure!(
        line["query_id"] == id.parse::<i64>()? && line["pid"] == pid.parse::<i64>()?,
        "{line}"
    );
    ensure!(
        line["user"] == "tenon" && line["database"] == "tenon" && line["rows"] == 1,
        "{line}"
    );
    let message = line["message"].as_str().unwrap_or_default();
    let took = message
        .strip_prefix("duration: ")
        .and_then(|rest| rest.split(' ').next());
    let took: f64 = took.context("a duration")?.parse()?;
    ensure!((250.0..5000.0).contains(&took), "{line}");
    ensure!(
        message.ends_with(" ms  statement: SELECT pg_sleep(0.25), 'slow' AS what"),
        "{line}"
    );
    ensure!(line["level"] == "INFO" && !server.log().contains("quick"));
    // Parameters, as long as they may be.
    let statement = client
        .prepare("SELECT pg_sleep($1::float8), $2::text || 'x' AS text")
        .await?;
    let run = async |text: Option<&str>| client.query(&statement, &[&0.22_f64, &text]).await;
    run(Some("it's")).await?;
    let line = line_of(&server, ": SELECT pg_sleep($1::float8)").await?;
    ensure!(line["parameters"] == "$1 = '0.22', $2 = 'it''s'", "{line}");
    ensure!(
        line["message"]
            .as_str()
            .is_some_and(|message| message.contains(" ms  execute s")),
        "{line}"
    );
    run(None).await?;
    client.batch_execute("SET log_parameter_max_length = 3").await?;
    run(Some("abcdef")).await?;
    client.batch_execute("SET log_parameter_max_length = 0").await?;
    run(Some("hidden")).await?;
    let begun = Instant::now();
    let of_it = || -> Result<Vec<serde_json::Value>> {
        // Others may be slow on a loaded machine.
        let lines = durations(&server)?.into_iter();
        let is_it = |line: &serde_json::Value| {
            line["message"]
                .as_str()
                .is_some_and(|m| m.contains("pg_sleep($1::float8)"))
        };
        Ok(lines.filter(is_it).collect())
    };
    while of_it()?.len() < 4 && begun.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let lines = of_it()?;
    let told: Vec<String> = lines.iter().map(|line| line["parameters"].to_string()).collect();
    let expected = [
        "\"$1 = '0.22', $2 = 'it''s'\"",
        "\"$1 = '0.22', $2 = NULL\"",
        "\"$1 = '0.2...', $2 = 'abc...'\"",
        "null",
    ];
    ensure!(told == expected, "{told:#?}");
    // Sessions may have all in the log, or nothing.
    client.batch_execute("SET log_min_duration_statement = -1").await?;
    value(&client, "SELECT pg_sleep(0.25) IS NULL AS unseen").await?;
    client.batch_execute("SET log_min_duration_statement = 0").await?;
    for _ in 0..3 {
        value(&client, "SELECT 1 AS seen").await?;
    }
    line_of(&server, "AS seen").await?;
    ensure!(!server.log().contains("AS unseen"), "{}", server.log());
    Ok(())
}

async fn plans_in_log() -> Result<()> {
    let arguments = ["--log-format", "json", "--log-min-duration-plan", "0"];
    let server = Server::start(&arguments)?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT g AS k FROM generate_series(1, 1000) g; SET auto_explain.log_analyze = on",
        )
        .await?;
    // Also by kept plans.
    for _ in 0..4 {
        ensure!(value(&client, "SELECT count(*) FROM t WHERE k > 500").await? == "500");
    }
    let statement = client.prepare("SELECT max(k) FROM t WHERE k < $1").await?;
    ensure!(client.query_one(&statement, &[&100]).await?.get::<_, i32>(0) == 99);
    let line = line_of(&server, "SELECT max(k)").await?;
    let plan = line["message"].as_str().unwrap_or_default();
    ensure!(
        plan.contains("plan:\nQuery Text: SELECT max(k)") && plan.contains("Seq Scan on t"),
        "{plan}"
    );
    ensure!(plan.contains("(actual time=") && plan.contains("rows=99"), "{plan}");
    let counts = durations(&server)?.into_iter();
    let counts = counts.filter(|line| line["message"].to_string().contains("Query Text: SELECT count(*)"));
    ensure!(counts.count() == 4, "{}", server.log());
    Ok(())
}
