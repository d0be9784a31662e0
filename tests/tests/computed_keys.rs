//! Unique indexes on expressions, over some of the rows: what they refuse and what ON CONFLICT finds by them is what an
//! ordinary unique index over a generated column refuses and finds.

use crate::process::Server;
use crate::{seed, trial};
use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![trial("computed_keys::random", random)]
}

/// Rows that make segments large enough to be looked up by hash.
const ROWS: usize = 3000;
const STATEMENTS: usize = 150;

async fn random() -> Result<()> {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(&[])?;
    // A session each: a block that has failed is another's.
    let (client, other) = (server.connect().await?, server.connect().await?);
    client
        .batch_execute(
            "CREATE TABLE own (k text, live boolean, n int);
             CREATE UNIQUE INDEX ON own (lower(k)) WHERE live;
             CREATE TABLE other (k text, live boolean, n int,
                 key text GENERATED ALWAYS AS (CASE WHEN live THEN lower(k) END) STORED UNIQUE)",
        )
        .await?;
    let filled = format!("SELECT 'Key ' || g, g % 7 > 0, g FROM generate_series(1, {ROWS}) g");
    for table in ["own", "other"] {
        client.batch_execute(&format!("INSERT INTO {table} {filled}")).await?;
    }
    let mut refused = 0;
    for round in 0..STATEMENTS {
        let statement = statement(&mut random);
        let (ended, wanted) = (
            done(&client, &statement, "own", "(lower(k)) WHERE live").await,
            done(&other, &statement, "other", "(key)").await,
        );
        ensure!(
            ended == wanted,
            "seed {seed}, round {round}: {statement}: {ended} and {wanted}"
        );
        refused += usize::from(ended == "23505");
        if random.random_ratio(1, 8) {
            let end = ["BEGIN", "SAVEPOINT s", "ROLLBACK TO s", "COMMIT", "ROLLBACK"][random.random_range(0..5)];
            for client in [&client, &other] {
                let _ = client.batch_execute(end).await;
            }
        }
    }
    for client in [&client, &other] {
        let _ = client.batch_execute("COMMIT").await;
    }
    let differ = "SELECT count(*) FROM ((TABLE own EXCEPT ALL SELECT k, live, n FROM other)
        UNION ALL (SELECT k, live, n FROM other EXCEPT ALL TABLE own)) d";
    let differ: i64 = client.query_one(differ, &[]).await?.get(0);
    ensure!(differ == 0, "seed {seed}: {differ} rows differ");
    ensure!(refused > 0, "seed {seed}: no statement was refused");
    Ok(())
}

/// A statement over TABLE, with ON CONFLICT by @.
fn statement(random: &mut StdRng) -> String {
    let key = |random: &mut StdRng| {
        let word = ["key", "KEY", "Key"][random.random_range(0..3)];
        match random.random_range(0..12) {
            0 => "NULL".to_string(),
            _ => format!("'{word} {}'", random.random_range(0..ROWS + 200)),
        }
    };
    let live = |random: &mut StdRng| ["true", "true", "true", "false", "NULL"][random.random_range(0..5)];
    let (from, many) = (random.random_range(0..ROWS), random.random_range(1..40));
    match random.random_range(0..8) {
        0..3 => {
            let rows = (0..random.random_range(1..4)).map(|_| format!("({}, {}, 0)", key(random), live(random)));
            let rows = rows.collect::<Vec<_>>().join(", ");
            let conflict = [
                "",
                "ON CONFLICT DO NOTHING",
                "ON CONFLICT @ DO NOTHING",
                "ON CONFLICT @ DO UPDATE SET n = TABLE.n + 1",
                "ON CONFLICT @ DO UPDATE SET k = excluded.k || 'x'",
            ];
            format!(
                "INSERT INTO TABLE (k, live, n) VALUES {rows} {}",
                conflict[random.random_range(0..5)]
            )
        }
        3 => format!(
            "INSERT INTO TABLE (k, live, n) SELECT 'kEy ' || g, true, g FROM generate_series({from}, {}) g ON CONFLICT DO NOTHING",
            from + 20 * many
        ),
        4 => format!("DELETE FROM TABLE WHERE n BETWEEN {from} AND {}", from + many),
        5 => format!(
            "UPDATE TABLE SET live = NOT live WHERE n BETWEEN {from} AND {}",
            from + many
        ),
        6 => format!(
            "UPDATE TABLE SET k = {}, live = {} WHERE n = {from}",
            key(random),
            live(random)
        ),
        _ => format!(
            "UPDATE TABLE SET n = n + 1, k = upper(k) WHERE n BETWEEN {from} AND {}",
            from + many
        ),
    }
}

/// How a statement ends over a table: the rows that it concerns, or the SQLSTATE.
async fn done(client: &Client, statement: &str, table: &str, key: &str) -> String {
    let statement = statement.replace('@', key).replace("TABLE", table);
    match client.execute(&statement, &[]).await {
        Ok(rows) => format!("{rows} rows"),
        Err(error) => error.code().map_or(error.to_string(), |code| code.code().to_string()),
    }
}
