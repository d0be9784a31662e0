//! What roles and databases keep for their sessions: which setting a session begins with, over a restart too, and the limits of
//! memory and of queries at a time that a role has.

use crate::process::{Server, connect, failing, rows, sql_state, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("roles::settings_at_login", at_login),
        trial("roles::settings_of_before", of_before),
        trial("roles::query_memory", query_memory),
        trial("roles::memory", memory),
        trial("roles::concurrency", concurrency),
    ]
}

async fn as_user(server: &Server, user: &str, options: &str) -> Result<Client> {
    let port = server.address().port();
    connect(&format!(
        "host=127.0.0.1 port={port} user={user} dbname=tenon sslmode=disable options='{options}'"
    ))
    .await
}

async fn told(client: &Client, name: &str) -> Result<(String, String, String)> {
    let sql = format!("SELECT setting, reset_val, source FROM pg_settings WHERE name = '{name}'");
    let mut found = rows(client, &sql).await?;
    let row = found.pop().context("no such setting")?;
    let mut values = row.into_iter().map(Option::unwrap_or_default);
    let mut next = || values.next().unwrap_or_default();
    Ok((next(), next(), next()))
}

/// A database's settings come before a role's, these before a role's in a database, and what the client asks for last.
async fn at_login() -> Result<()> {
    let server = Server::start(&["--statement-timeout", "90s"])?;
    let admin = server.connect().await?;
    admin
        .batch_execute(
            "CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; \
             ALTER ROLE ALL SET lock_timeout = 1; ALTER ROLE ALL SET idle_session_timeout = '1h'; \
             ALTER DATABASE tenon SET lock_timeout = 2; ALTER ROLE ann SET lock_timeout = 3; \
             ALTER ROLE ann SET statement_timeout = '10s'; ALTER ROLE ann SET DateStyle = 'SQL, DMY'; \
             ALTER ROLE ann SET search_path = own, public; ALTER ROLE ann SET log_min_duration_statement = '1h'; \
             ALTER ROLE ann SET application_name = 'as kept'",
        )
        .await?;
    let ann = as_user(&server, "ann", "").await?;
    let bob = as_user(&server, "bob", "").await?;
    let is = |value: &str, source: &str| (value.to_string(), value.to_string(), source.to_string());
    ensure!(told(&ann, "lock_timeout").await? == is("3", "user"));
    ensure!(told(&bob, "lock_timeout").await? == is("2", "database"));
    ensure!(told(&bob, "idle_session_timeout").await? == is("3600000", "global"));
    ensure!(value(&ann, "SHOW statement_timeout").await? == "10s");
    ensure!(value(&bob, "SHOW statement_timeout").await? == "90s");
    ensure!(value(&ann, "SHOW search_path").await? == "own, public");
    ensure!(value(&ann, "SHOW log_min_duration_statement").await? == "1h");
    ensure!(value(&ann, "SELECT date '2020-12-31'::text").await? == "31/12/2020");
    let seen = "SELECT application_name FROM pg_stat_activity WHERE usename = 'ann'";
    ensure!(value(&admin, seen).await? == "as kept");
    drop(ann);
    admin
        .batch_execute("ALTER ROLE ann IN DATABASE tenon SET lock_timeout = 4")
        .await?;
    let ann = as_user(&server, "ann", "").await?;
    ensure!(told(&ann, "lock_timeout").await? == is("4", "database user"));
    // A session's own value, and all ways back.
    for back in [
        "RESET lock_timeout",
        "SET lock_timeout TO DEFAULT",
        "RESET ALL",
        "DISCARD ALL",
    ] {
        ann.batch_execute("SET lock_timeout = 77").await?;
        ensure!(told(&ann, "lock_timeout").await?.2 == "session");
        ann.batch_execute(back).await?;
        ensure!(told(&ann, "lock_timeout").await? == is("4", "database user"), "{back}");
        ensure!(value(&ann, "SHOW statement_timeout").await? == "10s", "{back}");
    }
    // What the client asks for wins.
    let asks = as_user(&server, "ann", "-c lock_timeout=5 -c DateStyle=ISO").await?;
    ensure!(told(&asks, "lock_timeout").await? == is("5", "client"));
    asks.batch_execute("SET lock_timeout = 6; RESET lock_timeout").await?;
    ensure!(told(&asks, "lock_timeout").await? == is("5", "client"));
    ensure!(value(&asks, "SELECT date '2020-12-31'::text").await? == "2020-12-31");
    let Err(error) = as_user(&server, "ann", "-c log_min_duration_statement=0").await else {
        anyhow::bail!("a role sets what superusers alone may");
    };
    ensure!(error.downcast_ref().map(sql_state).as_deref() == Some("42501"));
    reported(&server).await?;
    // A role that is no more by now is warned of.
    admin
        .batch_execute("CREATE ROLE gone; GRANT gone TO bob; ALTER ROLE bob SET role = 'gone'")
        .await?;
    ensure!(value(&as_user(&server, "bob", "").await?, "SELECT current_user").await? == "gone");
    admin.batch_execute("DROP ROLE gone").await?;
    ensure!(value(&as_user(&server, "bob", "").await?, "SELECT current_user").await? == "bob");
    // Superusers whom the server believes have settings as one.
    admin
        .batch_execute("ALTER ROLE CURRENT_USER SET lock_timeout = 8")
        .await?;
    ensure!(told(&as_user(&server, "somebody", "").await?, "lock_timeout").await? == is("8", "user"));
    Ok(())
}

/// The client is told the values that its session begins with.
async fn reported(server: &Server) -> Result<()> {
    let port = server.address().port();
    let dsn = format!("host=127.0.0.1 port={port} user=ann dbname=tenon sslmode=disable");
    let (_client, connection) = tokio_postgres::connect(&dsn, NoTls).await?;
    let style = connection.parameter("DateStyle");
    ensure!(style == Some("SQL, DMY"), "{style:?}");
    Ok(())
}

/// Settings outlive the server, and not their role.
async fn of_before() -> Result<()> {
    let store = tempfile::tempdir()?;
    let path = store.path().display().to_string();
    let args = ["--store", &path];
    let server = Server::start(&args)?;
    let admin = server.connect().await?;
    for sql in [
        "CREATE ROLE ann LOGIN; ALTER ROLE ann SET lock_timeout = 3; ALTER DATABASE tenon SET statement_timeout = '9s'",
        "CHECKPOINT",
        "ALTER ROLE ann SET bytea_output = 'escape'; ALTER DATABASE tenon SET lock_timeout = 5",
        "BEGIN; ALTER ROLE ann SET lock_timeout = 4; ROLLBACK",
    ] {
        admin.batch_execute(sql).await?;
    }
    server.terminate()?;
    let server = Server::start(&args)?;
    let ann = as_user(&server, "ann", "").await?;
    ensure!(value(&ann, "SHOW lock_timeout").await? == "3ms");
    ensure!(value(&ann, "SHOW bytea_output").await? == "escape");
    ensure!(value(&ann, "SHOW statement_timeout").await? == "9s");
    let admin = server.connect().await?;
    admin
        .batch_execute("DROP ROLE ann; ALTER DATABASE tenon RESET ALL")
        .await?;
    server.terminate()?;
    let server = Server::start(&args)?;
    let admin = server.connect().await?;
    ensure!(value(&admin, "SELECT count(*) FROM pg_db_role_setting").await? == "0");
    admin.batch_execute("CREATE ROLE ann LOGIN").await?;
    ensure!(value(&as_user(&server, "ann", "").await?, "SHOW lock_timeout").await? == "0");
    Ok(())
}

/// A statement of a role that may use little ends with 53200, and those of others go on.
async fn query_memory() -> Result<()> {
    let spill = tempfile::tempdir()?;
    let directory = spill.path().display().to_string();
    for args in [&[][..], &["--spill-dir", &directory]] {
        let mut server = Server::start(&[&["--query-memory-limit", "2GiB"], args].concat())?;
        let admin = server.connect().await?;
        admin
            .batch_execute("CREATE ROLE ann LOGIN; ALTER ROLE ann SET tenon.query_memory_limit = '32MiB'")
            .await?;
        let ann = as_user(&server, "ann", "").await?;
        let rows = "FROM (SELECT x, x::text || repeat('z', 200) AS s FROM generate_series(1, 300000) g(x)) r";
        let large = format!("SELECT cardinality(array_agg(s)) {rows}");
        ensure!(failing(&ann, &large).await? == "53200");
        ensure!(value(&admin, &large).await? == "300000");
        let grouped = format!("SELECT count(*) FROM (SELECT s, count(*) {rows} GROUP BY s) g");
        match args {
            [] => ensure!(failing(&ann, &grouped).await? == "53200"),
            // Through files, as where the server has little memory.
            _ => ensure!(value(&ann, &grouped).await? == "300000"),
        }
        ensure!(failing(&ann, "SET tenon.query_memory_limit = 'none'").await? == "42501");
        ensure!(value(&ann, "SELECT sum(x) FROM generate_series(1, 100000) g(x)").await? == "5000050000");
        ensure!(server.is_alive()?, "{}", server.log());
    }
    Ok(())
}

/// The statements of a role may use so much together: what one session's cursors hold is missed by another's.
async fn memory() -> Result<()> {
    let server = Server::start(&["--query-memory-limit", "2GiB"])?;
    let admin = server.connect().await?;
    admin
        .batch_execute("CREATE ROLE ann LOGIN; ALTER ROLE ann SET tenon.role_memory_limit = '128MiB'")
        .await?;
    let ann = [as_user(&server, "ann", "").await?, as_user(&server, "ann", "").await?];
    let alone = "SELECT cardinality(array_agg(x::text || repeat('z', 200))) FROM generate_series(1, 60000) g(x)";
    let sorted = async |client: &Client, number: usize| {
        let sql = format!(
            "DECLARE c{number} CURSOR FOR SELECT x, x::text || repeat('z', 200) AS s FROM generate_series(1, 60000) g(x) \
             ORDER BY s; FETCH 1 FROM c{number}"
        );
        state_of(client, &sql).await
    };
    for client in ann.iter().chain([&admin]) {
        ensure!(value(client, alone).await? == "60000");
        client.batch_execute("BEGIN").await?;
    }
    let mut opened = 0;
    let state = loop {
        match sorted(&ann[opened % 2], opened).await {
            state if state != "00000" || opened == 20 => break state,
            _ => opened += 1,
        }
    };
    ensure!(state == "53200" && opened > 0, "{state} after {opened} cursors");
    for number in 0..=opened {
        ensure!(sorted(&admin, number).await == "00000");
    }
    for client in &ann {
        client.batch_execute("ROLLBACK").await?;
        ensure!(value(client, alone).await? == "60000");
    }
    Ok(())
}

async fn state_of(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(_) => "00000".into(),
        Err(error) => sql_state(&error),
    }
}

const SLEEP: Duration = Duration::from_millis(700);

/// Sessions of a role wait for each other; those of another do not, and who waits can be cancelled.
async fn concurrency() -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let admin = server.connect().await?;
    admin
        .batch_execute(
            "CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; ALTER ROLE ann SET tenon.role_concurrency = 1; \
             CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 1); GRANT SELECT, UPDATE ON t TO ann",
        )
        .await?;
    let [one, two, three] = [
        as_user(&server, "ann", "").await?,
        as_user(&server, "ann", "").await?,
        as_user(&server, "ann", "").await?,
    ];
    let bob = as_user(&server, "bob", "").await?;
    let sleep = format!("SELECT pg_sleep({})", SLEEP.as_secs_f64());
    let begun = Instant::now();
    let others = async {
        tokio::time::sleep(SLEEP / 3).await;
        ensure!(
            value(
                &bob,
                "SELECT count(*) FROM generate_series(1, 1000) g(x) GROUP BY x % 1"
            )
            .await?
                == "1000"
        );
        ensure!(begun.elapsed() < SLEEP, "bob waited for ann");
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'tenon.role_concurrency'";
        let waits = value(&admin, waits).await?;
        ensure!(waits == "2", "{waits} wait");
        Ok(())
    };
    let (first, second, third, others) = tokio::join!(
        one.simple_query(&sleep),
        two.simple_query(&sleep),
        three.simple_query(&sleep),
        others
    );
    for slept in [first, second, third] {
        slept?;
    }
    others?;
    ensure!(begun.elapsed() >= 3 * SLEEP, "they ran at a time");
    cancelled(&one, &two, &sleep).await?;
    // Who waits for a row has no turn, so that its owner goes on.
    one.batch_execute("BEGIN; UPDATE t SET b = 2 WHERE a = 1").await?;
    let (waits, goes_on) = tokio::join!(two.simple_query("UPDATE t SET b = b + 1 WHERE a = 1"), async {
        tokio::time::sleep(SLEEP / 3).await;
        ensure!(value(&one, "SELECT count(*) FROM t GROUP BY a").await? == "1");
        Ok(one.batch_execute("COMMIT").await?)
    });
    waits?;
    goes_on?;
    ensure!(value(&one, "SELECT b FROM t").await? == "3");
    // Nor has who waits for its client.
    one.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT x FROM generate_series(1, 1000000) g(x); FETCH 1 FROM c")
        .await?;
    let begun = Instant::now();
    ensure!(value(&two, "SELECT count(*) FROM t GROUP BY a").await? == "1");
    ensure!(begun.elapsed() < Duration::from_secs(5));
    ensure!(value(&one, "SELECT count(*) FROM t GROUP BY a").await? == "1");
    Ok(())
}

/// What waits for its turn ends at once where it is cancelled, or its time is up.
async fn cancelled(one: &Client, two: &Client, sleep: &str) -> Result<()> {
    let begun = Instant::now();
    let waits = async {
        tokio::time::sleep(SLEEP / 7).await;
        let token = two.cancel_token();
        let (ended, cancel) = tokio::join!(two.simple_query("SELECT pg_sleep(0)"), async {
            tokio::time::sleep(SLEEP / 7).await;
            token.cancel_query(NoTls).await
        });
        cancel?;
        ensure!(ended.is_err_and(|error| sql_state(&error) == "57014"));
        two.batch_execute("SET statement_timeout = '50ms'").await?;
        ensure!(failing(two, "SELECT pg_sleep(0)").await? == "57014");
        ensure!(begun.elapsed() < SLEEP, "it waited for its turn");
        Ok(two.batch_execute("SET statement_timeout = 0").await?)
    };
    let (sleeps, waits) = tokio::join!(one.simple_query(sleep), waits);
    sleeps?;
    waits
}
