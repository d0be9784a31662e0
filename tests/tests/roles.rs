//! Roles: logins by the verifiers that the catalog keeps, over a restart, and plans that are kept for the rights of the role
//! that they were made for.

use crate::process::{Server, connect, sql_state, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::io::Write;
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("roles::login", login),
        trial("roles::trust", trust),
        trial("roles::kept_plans", kept_plans),
    ]
}

async fn as_user(server: &Server, user: &str, password: &str) -> Result<Client> {
    let port = server.address().port();
    connect(&format!(
        "host=127.0.0.1 port={port} user={user} password={password} dbname=tenon sslmode=disable"
    ))
    .await
}

/// The error of a login that must fail: its state, and what it says.
async fn refused(server: &Server, user: &str, password: &str) -> Result<(String, String)> {
    let Err(error) = as_user(server, user, password).await else {
        anyhow::bail!("{user} was let in");
    };
    let error = error.downcast_ref::<tokio_postgres::Error>().context("another error")?;
    let told = error.as_db_error().context("no error of the server")?;
    Ok((told.code().code().to_string(), told.message().to_string()))
}

async fn state_of(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(_) => "00000".into(),
        Err(error) => sql_state(&error),
    }
}

async fn login() -> Result<()> {
    let (store, mut passwords) = (tempfile::tempdir()?, tempfile::NamedTempFile::new()?);
    writeln!(passwords, "boss:secret")?;
    let (store_path, password_path) = (
        store.path().display().to_string(),
        passwords.path().display().to_string(),
    );
    let args = ["--store", &store_path, "--password-file", &password_path];
    let server = Server::start(&args)?;
    let boss = as_user(&server, "boss", "secret").await?;
    boss.batch_execute(
        "CREATE ROLE ann LOGIN PASSWORD 'annpw' CONNECTION LIMIT 1; CREATE ROLE nolog PASSWORD 'x'; \
         CREATE ROLE late LOGIN PASSWORD 'x' VALID UNTIL '2020-01-01'; CREATE ROLE bare LOGIN; CREATE ROLE readers; \
         CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 2); GRANT SELECT (a) ON t TO readers; \
         GRANT readers TO ann",
    )
    .await?;
    // A verifier, which is given as it is, lets in who knows its password.
    let verifier = value(&boss, "SELECT rolpassword FROM pg_authid WHERE rolname = 'ann'").await?;
    ensure!(
        verifier.starts_with("SCRAM-SHA-256$4096:") && !verifier.contains("annpw"),
        "{verifier}"
    );
    boss.batch_execute(&format!("CREATE ROLE twin LOGIN PASSWORD '{verifier}'"))
        .await?;
    as_user(&server, "twin", "annpw").await?;
    let wrong = |user: &str| {
        (
            "28P01".to_string(),
            format!("password authentication failed for user \"{user}\""),
        )
    };
    for (user, password) in [
        ("ann", "wrong"),
        ("late", "x"),
        ("bare", "x"),
        ("nobody", "x"),
        ("boss", "annpw"),
    ] {
        ensure!(refused(&server, user, password).await? == wrong(user), "{user}");
    }
    let no_login = (
        "28000".to_string(),
        "role \"nolog\" is not permitted to log in".to_string(),
    );
    ensure!(refused(&server, "nolog", "x").await? == no_login);
    ensure!(state_of(&boss, "CREATE ROLE boss").await == "42710");
    server.terminate()?;

    let server = Server::start(&args)?;
    let boss = as_user(&server, "boss", "secret").await?;
    let ann = as_user(&server, "ann", "annpw").await?;
    ensure!(value(&ann, "SELECT current_user || ' ' || a FROM t").await? == "ann 1");
    ensure!(state_of(&ann, "SELECT * FROM t").await == "42501");
    ensure!(state_of(&ann, "SELECT rolpassword FROM pg_authid").await == "42501");
    let full = ("53300".to_string(), "too many connections for role \"ann\"".to_string());
    ensure!(refused(&server, "ann", "annpw").await? == full);
    ann.batch_execute("ALTER ROLE ann PASSWORD 'other'").await?;
    ensure!(state_of(&ann, "ALTER ROLE ann LOGIN SUPERUSER").await == "42501");
    // Who was dropped keeps no rights, and becomes nobody else.
    boss.batch_execute("REVOKE readers FROM ann; DROP ROLE ann").await?;
    ensure!(state_of(&ann, "SELECT a FROM t").await == "42501");
    drop(ann);
    ensure!(refused(&server, "ann", "other").await? == wrong("ann"));
    boss.batch_execute("REVOKE CONNECT ON DATABASE tenon FROM PUBLIC")
        .await?;
    let (state, _) = refused(&server, "twin", "annpw").await?;
    ensure!(state == "42501", "{state}");
    ensure!(!server.log().contains("annpw") && !server.log().contains("'other'"));
    Ok(())
}

/// Without a password file every name is a superuser's but those of roles.
async fn trust() -> Result<()> {
    let server = Server::start(&[])?;
    let first = server.connect().await?;
    first
        .batch_execute("CREATE ROLE ann LOGIN; CREATE ROLE group_only; CREATE TABLE t (a int)")
        .await?;
    let ann = as_user(&server, "ann", "x").await?;
    ensure!(state_of(&ann, "SELECT * FROM t").await == "42501");
    ensure!(state_of(&ann, "SET ROLE tenon").await == "22023");
    ensure!(state_of(&ann, "COPY t FROM '/etc/passwd'").await == "42501");
    ensure!(state_of(&ann, "CHECKPOINT").await == "42501");
    ensure!(state_of(&ann, "BACKUP").await == "42501");
    ensure!(refused(&server, "group_only", "x").await?.0 == "28000");
    let other = as_user(&server, "somebody", "x").await?;
    ensure!(state_of(&other, "SELECT * FROM t").await == "00000");
    Ok(())
}

/// The same statements by a role with rights and by one without, by plans that are kept: as texts, prepared, and after the
/// rights have changed.
async fn kept_plans() -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let admin = server.connect().await?;
    admin
        .batch_execute(
            "CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t SELECT g, g FROM generate_series(1, 2000) AS g; \
             CREATE TABLE log (k int); CREATE VIEW w AS SELECT k, v FROM t; \
             CREATE ROLE may LOGIN; CREATE ROLE may_not LOGIN; CREATE ROLE some LOGIN; \
             GRANT SELECT, UPDATE, DELETE ON t TO may; GRANT INSERT ON log TO may; GRANT SELECT ON w TO may; \
             GRANT SELECT (k) ON t TO some",
        )
        .await?;
    let texts = |number: i32| {
        [
            format!("SELECT v FROM t WHERE k = {number}"),
            format!("SELECT v FROM w WHERE k = {number}"),
            format!("SELECT count(*) FROM t a JOIN t b ON a.k = b.v WHERE a.k = {number}"),
            format!("UPDATE t SET v = v + 1 WHERE k = {number}"),
            format!("DELETE FROM t WHERE k = {}", -number),
            format!("INSERT INTO log VALUES ({number})"),
            format!("INSERT INTO log SELECT k FROM t WHERE k = {number}"),
        ]
    };
    let may = as_user(&server, "may", "x").await?;
    let may_not = as_user(&server, "may_not", "x").await?;
    let some = as_user(&server, "some", "x").await?;
    // The plans are made and kept by who may, and by the superuser.
    for number in 1..8 {
        for sql in texts(number) {
            for client in [&admin, &may] {
                ensure!(state_of(client, &sql).await == "00000", "{sql}");
            }
            ensure!(state_of(&may_not, &sql).await == "42501", "{sql}");
            ensure!(state_of(&some, &sql).await == "42501", "{sql}");
        }
        let sql = format!("SELECT k FROM t WHERE k = {number}");
        for (client, state) in [
            (&admin, "00000"),
            (&may, "00000"),
            (&some, "00000"),
            (&may_not, "42501"),
        ] {
            ensure!(state_of(client, &sql).await == state, "{sql}");
        }
    }
    // One session that changes whom it acts as.
    for round in 0..4 {
        for (role, state) in [
            ("may", "00000"),
            ("may_not", "42501"),
            ("none", "00000"),
            ("may_not", "42501"),
        ] {
            admin.batch_execute(&format!("SET ROLE {role}")).await?;
            for sql in texts(100 + round) {
                ensure!(state_of(&admin, &sql).await == state, "{role}: {sql}");
            }
        }
    }
    admin.batch_execute("RESET ROLE").await?;
    // Prepared statements.
    let prepared = admin.prepare("SELECT v FROM t WHERE k = $1").await?;
    let change = admin.prepare("UPDATE t SET v = v WHERE k = $1").await?;
    for round in 0..8 {
        for (role, allowed) in [("may", true), ("may_not", false), ("none", true)] {
            admin.batch_execute(&format!("SET ROLE {role}")).await?;
            for statement in [&prepared, &change] {
                let result = admin.query(statement, &[&round]).await;
                ensure!(result.is_ok() == allowed, "{role}: {result:?}");
                if let Err(error) = result {
                    ensure!(sql_state(&error) == "42501");
                }
            }
        }
    }
    admin
        .batch_execute("RESET ROLE; PREPARE p AS SELECT v FROM t WHERE k = 5; SET ROLE may_not")
        .await?;
    ensure!(state_of(&admin, "EXECUTE p").await == "42501");
    admin.batch_execute("RESET ROLE").await?;
    // A plan goes with the right, and comes back with it.
    let own = may.prepare("SELECT v FROM t WHERE k = $1").await?;
    for _ in 0..8 {
        may.query(&own, &[&7]).await?;
    }
    for _ in 0..3 {
        admin.batch_execute("REVOKE SELECT ON t FROM may").await?;
        ensure!(
            may.query(&own, &[&7])
                .await
                .is_err_and(|error| sql_state(&error) == "42501")
        );
        for sql in texts(7)
            .iter()
            .filter(|sql| !sql.contains(" w ") && !sql.contains("VALUES"))
        {
            ensure!(state_of(&may, sql).await == "42501", "{sql}");
        }
        // The view reads with its owner's rights.
        ensure!(state_of(&may, "SELECT v FROM w WHERE k = 7").await == "00000");
        admin.batch_execute("GRANT SELECT ON t TO may").await?;
        ensure!(may.query(&own, &[&7]).await.is_ok());
        for sql in texts(7) {
            ensure!(state_of(&may, &sql).await == "00000", "{sql}");
        }
    }
    // What a transaction has taken away is gone within it, and there again after it was rolled back.
    admin
        .batch_execute("BEGIN; REVOKE SELECT ON t FROM may; SET LOCAL ROLE may")
        .await?;
    ensure!(state_of(&admin, "SELECT v FROM t WHERE k = 7").await == "42501");
    admin
        .batch_execute("ROLLBACK; SET ROLE may; SELECT v FROM t WHERE k = 7; RESET ROLE")
        .await?;
    // A member has the rights of its role as long as it is one.
    admin.batch_execute("GRANT may TO may_not").await?;
    for _ in 0..4 {
        ensure!(state_of(&may_not, "SELECT v FROM t WHERE k = 7").await == "00000");
    }
    admin.batch_execute("REVOKE may FROM may_not").await?;
    ensure!(state_of(&may_not, "SELECT v FROM t WHERE k = 7").await == "42501");
    Ok(())
}
