//! Advisory locks of several sessions: who waits for whom and how it ends, as in PostgreSQL.

use crate::process::{Server, failing, rows, sql_state, value};
use crate::row_locks::{begin, ends, waits};
use crate::trial;
use anyhow::{Result, bail, ensure};
use libtest_mimic::Trial;
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("advisory_locks::held", held),
        trial("advisory_locks::spans", spans),
        trial("advisory_locks::waits", who_waits),
        trial("advisory_locks::stopped", stopped),
        trial("advisory_locks::deadlocks", deadlocks),
        trial("advisory_locks::many_clients", many_clients),
    ]
}

/// Whether another session could take a lock, which it gives back.
async fn is_free(client: &Client, key: &str) -> Result<bool> {
    let free = value(client, &format!("SELECT pg_try_advisory_lock({key})")).await? == "t";
    if free {
        value(client, &format!("SELECT pg_advisory_unlock({key})")).await?;
    }
    Ok(free)
}

async fn held() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    one.batch_execute("SELECT pg_advisory_lock(7)").await?;
    ensure!(!is_free(&two, "7").await?);
    // One number, two and others are different things.
    for other in ["8", "0, 7", "7, 0", "-7"] {
        ensure!(is_free(&two, other).await?, "{other}");
    }
    ensure!(value(&two, "SELECT pg_try_advisory_lock_shared(7)").await? == "f");
    ensure!(value(&two, "SELECT pg_advisory_unlock(7)").await? == "f");
    // It counts how often it is taken, also by the other mode.
    one.batch_execute("SELECT pg_advisory_lock(7); SELECT pg_advisory_lock_shared(7)")
        .await?;
    for (unlock, free) in [
        ("pg_advisory_unlock(7)", false),
        ("pg_advisory_unlock(7)", false),
        ("pg_advisory_unlock_shared(7)", true),
    ] {
        ensure!(value(&one, &format!("SELECT {unlock}")).await? == "t");
        ensure!(is_free(&two, "7").await? == free, "{unlock}");
    }
    ensure!(value(&one, "SELECT pg_advisory_unlock(7)").await? == "f");
    // Shared ones go together.
    for client in [&one, &two] {
        client.batch_execute("SELECT pg_advisory_lock_shared(1, 2)").await?;
    }
    ensure!(value(&two, "SELECT pg_try_advisory_lock(1, 2)").await? == "f");
    let shown = rows(
        &two,
        "SELECT locktype, classid, objid, objsubid, mode, granted, count(DISTINCT pid) FROM pg_locks
         WHERE locktype = 'advisory' GROUP BY 1, 2, 3, 4, 5, 6",
    )
    .await?;
    let shown: Vec<Vec<&str>> = shown
        .iter()
        .map(|row| row.iter().flatten().map(String::as_str).collect())
        .collect();
    ensure!(
        shown == [["advisory", "1", "2", "2", "ShareLock", "t", "2"]],
        "{shown:?}"
    );
    one.batch_execute("SELECT pg_advisory_unlock_all()").await?;
    ensure!(value(&two, "SELECT pg_try_advisory_lock(1, 2)").await? == "t");
    two.batch_execute("SELECT pg_advisory_unlock_all()").await?;
    // Once a row.
    one.batch_execute("SELECT pg_advisory_lock(5) FROM generate_series(1, 3)")
        .await?;
    let unlocked = "SELECT string_agg(pg_advisory_unlock(5)::text, ' ') FROM generate_series(1, 4)";
    let unlocked = value(&one, unlocked).await?;
    ensure!(unlocked == "true true true false", "{unlocked}");
    Ok(())
}

async fn spans() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    let lasting = "SELECT pg_advisory_lock(1)";
    let passing = "SELECT pg_advisory_xact_lock(2)";
    // A session's outlive transactions, also those that are rolled back.
    for end in ["COMMIT", "ROLLBACK"] {
        one.batch_execute(&format!("BEGIN; {lasting}; {passing}; {passing}"))
            .await?;
        ensure!(!is_free(&two, "1").await? && !is_free(&two, "2").await?);
        ensure!(value(&one, "SELECT pg_advisory_unlock(2)").await? == "f");
        one.batch_execute("SELECT pg_advisory_unlock_all()").await?;
        ensure!(is_free(&two, "1").await? && !is_free(&two, "2").await?);
        one.batch_execute(lasting).await?;
        one.batch_execute(end).await?;
        ensure!(!is_free(&two, "1").await? && is_free(&two, "2").await?, "{end}");
        one.batch_execute("SELECT pg_advisory_unlock(1)").await?;
    }
    // A statement by itself, by either protocol; one that fails; several of one message.
    one.batch_execute(passing).await?;
    ensure!(is_free(&two, "2").await?);
    one.query(passing, &[]).await?;
    ensure!(is_free(&two, "2").await?);
    one.query("SELECT pg_advisory_lock($1)", &[&1_i64]).await?;
    one.query("SELECT pg_advisory_lock($1, $2)", &[&1_i32, &2_i32]).await?;
    ensure!(!is_free(&two, "1").await? && !is_free(&two, "1, 2").await?);
    one.batch_execute("DISCARD ALL").await?;
    ensure!(is_free(&two, "1").await? && is_free(&two, "1, 2").await?);
    failing(&one, "SELECT pg_advisory_xact_lock(2), 1 / (random() * 0)::int").await?;
    ensure!(is_free(&two, "2").await?);
    failing(&one, &format!("{passing}; SELECT 1 / 0")).await?;
    ensure!(is_free(&two, "2").await?);
    // What was taken after a savepoint goes with it.
    one.batch_execute(&format!(
        "BEGIN; {passing}; SAVEPOINT s; {passing}; SELECT pg_advisory_xact_lock(3); {lasting}; ROLLBACK TO s"
    ))
    .await?;
    ensure!(!is_free(&two, "2").await? && is_free(&two, "3").await? && !is_free(&two, "1").await?);
    one.batch_execute("ROLLBACK").await?;
    ensure!(is_free(&two, "2").await? && !is_free(&two, "1").await?);
    // The end of a session.
    drop(one);
    two.batch_execute(lasting).await?;
    let pid = value(&two, "SELECT pg_backend_pid()").await?;
    let one = server.connect().await?;
    value(&one, &format!("SELECT pg_terminate_backend({pid})")).await?;
    one.batch_execute(lasting).await?;
    Ok(())
}

async fn who_waits() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two, three) = (
        server.connect().await?,
        server.connect().await?,
        server.connect().await?,
    );
    let watcher = server.connect().await?;
    one.batch_execute("SELECT pg_advisory_lock_shared(1)").await?;
    let task = begin(two, "SELECT pg_advisory_lock(1)");
    waits(&task).await?;
    let waiting = "SELECT mode FROM pg_locks WHERE NOT granted AND objid = 1";
    ensure!(value(&watcher, waiting).await? == "ExclusiveLock");
    // Who comes later does not pass.
    ensure!(value(&watcher, "SELECT pg_try_advisory_lock_shared(1)").await? == "f");
    let later = begin(three, "SELECT pg_advisory_lock_shared(1)");
    waits(&later).await?;
    one.batch_execute("SELECT pg_advisory_unlock_shared(1)").await?;
    let (two, done) = ends(task).await?;
    done?;
    ensure!(!later.is_finished());
    two.batch_execute("SELECT pg_advisory_unlock(1)").await?;
    let (three, done) = ends(later).await?;
    done?;
    // The end of a transaction, and of a client.
    two.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(2)").await?;
    let task = begin(one, "SELECT pg_advisory_xact_lock(2)");
    waits(&task).await?;
    two.batch_execute("COMMIT").await?;
    let (one, done) = ends(task).await?;
    done?;
    let task = begin(one, "SELECT pg_advisory_lock(1)");
    waits(&task).await?;
    drop(three);
    ends(task).await?.1?;
    Ok(())
}

async fn stopped() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    one.batch_execute("SELECT pg_advisory_lock(1)").await?;
    for (limit, wanted) in [("statement_timeout", "57014"), ("lock_timeout", "55P03")] {
        two.batch_execute(&format!("SET {limit} = 200")).await?;
        let state = failing(&two, "SELECT pg_advisory_lock(1)").await?;
        ensure!(state == wanted, "{limit}: {state}");
        two.batch_execute(&format!("RESET {limit}")).await?;
    }
    let cancel = two.cancel_token();
    let task = begin(two, "SELECT pg_advisory_lock(1)");
    waits(&task).await?;
    cancel.cancel_query(tokio_postgres::NoTls).await?;
    let (two, done) = ends(task).await?;
    let Err(error) = done else {
        bail!("it was not cancelled")
    };
    ensure!(sql_state(&error) == "57014", "{error}");
    let pid = value(&two, "SELECT pg_backend_pid()").await?;
    let task = begin(two, "SELECT pg_advisory_lock(1)");
    waits(&task).await?;
    value(&one, &format!("SELECT pg_cancel_backend({pid})")).await?;
    let (two, done) = ends(task).await?;
    ensure!(done.is_err_and(|error| sql_state(&error) == "57014"));
    // A session that is ended waits no more.
    let task = begin(two, "SELECT pg_advisory_lock(1)");
    waits(&task).await?;
    value(&one, &format!("SELECT pg_terminate_backend({pid})")).await?;
    ensure!(ends(task).await?.1.is_err());
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    for _ in 0..100 {
        if value(&one, waiting).await? == "0" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    ensure!(value(&one, waiting).await? == "0");
    one.batch_execute("SELECT pg_advisory_unlock(1)").await?;
    let locks = value(&one, "SELECT count(*) FROM pg_locks").await?;
    ensure!(locks == "0", "{locks}");
    Ok(())
}

async fn deadlocks() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    one.batch_execute("SELECT pg_advisory_lock(1)").await?;
    two.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(2)").await?;
    let task = begin(one, "SELECT pg_advisory_lock(2)");
    waits(&task).await?;
    let state = failing(&two, "SELECT pg_advisory_lock(1)").await?;
    ensure!(state == "40P01", "{state}");
    two.batch_execute("ROLLBACK").await?;
    let (one, done) = ends(task).await?;
    done?;
    // Both want more of what both share.
    one.batch_execute("SELECT pg_advisory_lock_shared(3)").await?;
    two.batch_execute("SELECT pg_advisory_lock_shared(3)").await?;
    let task = begin(one, "SELECT pg_advisory_lock(3)");
    waits(&task).await?;
    let state = failing(&two, "SELECT pg_advisory_lock(3)").await?;
    ensure!(state == "40P01", "{state}");
    // Who holds something that others wait for passes who only waits.
    let third = server.connect().await?;
    let later = begin(third, "SELECT pg_advisory_lock_shared(1)");
    waits(&later).await?;
    two.batch_execute("SELECT pg_advisory_unlock_shared(3)").await?;
    ends(task).await?.1?;
    ends(later).await?.1?;
    Ok(())
}

/// More clients wait than there are threads and turns; one at a time goes on, and others are not held up.
async fn many_clients() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client
        .batch_execute("CREATE TABLE counted (v int); INSERT INTO counted VALUES (0)")
        .await?;
    client.batch_execute("SELECT pg_advisory_lock(1)").await?;
    let mut tasks = Vec::new();
    for _ in 0..40 {
        let own = server.connect().await?;
        tasks.push(tokio::spawn(async move {
            own.batch_execute("SELECT pg_advisory_lock(1)").await?;
            let seen: i32 = value(&own, "SELECT v FROM counted").await?.parse()?;
            own.batch_execute(&format!("UPDATE counted SET v = {seen} + 1")).await?;
            own.batch_execute("SELECT pg_advisory_unlock(1)").await?;
            anyhow::Ok(())
        }));
    }
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let waiting = value(&client, "SELECT count(*) FROM pg_locks WHERE NOT granted").await?;
    ensure!(waiting == "40", "{waiting}");
    let asked = std::time::Instant::now();
    ensure!(value(&client, "SELECT v FROM counted").await? == "0");
    ensure!(asked.elapsed().as_secs() < 5);
    client.batch_execute("SELECT pg_advisory_unlock(1)").await?;
    for task in tasks {
        ends(task).await??;
    }
    ensure!(value(&client, "SELECT v FROM counted").await? == "40");
    Ok(())
}
