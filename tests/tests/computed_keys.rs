//! Indexes on expressions, over some of the rows: what unique ones refuse and what ON CONFLICT finds by them is what an
//! ordinary unique index over a generated column refuses and finds; queries find by them what they find without.

use crate::process::{Server, rows};
use crate::{seed, trial};
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("computed_keys::random", random),
        trial("computed_keys::searched", searched),
    ]
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

/// Rows of the table that is searched: more than one segment of them, some written alone.
const SEARCHED_ROWS: usize = 20_000;
const SEARCHES: usize = 250;

/// Queries by what indexes compute or are limited to, and the same by what no index knows, while rows change.
async fn searched() -> Result<()> {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(&["--threads=2"])?;
    let client = server.connect().await?;
    client
        .batch_execute(&format!(
            "CREATE TABLE t (id int, name text, v varchar(20), amount numeric, gone timestamp, live boolean, kind text);
             INSERT INTO t SELECT g, CASE WHEN g % 9 > 0 THEN 'Name ' || g / 2 END, 'V' || g % 4000, g * 0.5,
                 CASE WHEN g % 10 > 0 THEN timestamp '2024-01-01' + g * interval '1 hour' END, g % 3 > 0,
                 CASE WHEN g % 50 = 0 THEN 'open' ELSE 'shut' END FROM generate_series(1, {SEARCHED_ROWS}) g;
             CREATE INDEX by_name ON t (lower(name));
             CREATE INDEX by_parts ON t (upper(v), id);
             CREATE INDEX by_v ON t (v);
             CREATE INDEX by_sum ON t ((id + 7));
             CREATE INDEX by_live ON t (id) WHERE live AND gone IS NULL;
             CREATE INDEX by_kind ON t (amount) WHERE kind = 'open';
             CREATE UNIQUE INDEX by_both ON t (lower(v), (id % 7), id) WHERE id > 5"
        ))
        .await?;
    let (mut within, mut by_index) = (false, 0);
    for round in 0..SEARCHES {
        if random.random_ratio(1, 6) {
            let from = random.random_range(0..SEARCHED_ROWS);
            let change = [
                format!("DELETE FROM t WHERE id BETWEEN {from} AND {from} + 30"),
                format!("UPDATE t SET name = upper(name), live = NOT live WHERE id BETWEEN {from} AND {from} + 50"),
                format!("UPDATE t SET kind = 'open', gone = NULL WHERE id = {from}"),
                format!(
                    "INSERT INTO t VALUES ({SEARCHED_ROWS} + {round}, 'NAME {from}', 'v{}', {from}, NULL, true, 'open')",
                    from % 4000
                ),
                format!(
                    "INSERT INTO t SELECT id + 100000 + {round} * 30000, name, v, amount, gone, live, kind FROM t WHERE id BETWEEN {from} AND {from} + 200"
                ),
            ];
            let change = &change[random.random_range(0..change.len())];
            client.batch_execute(change).await.with_context(|| change.clone())?;
        }
        if random.random_ratio(1, 10) {
            let end = match (within, random.random_bool(0.5)) {
                (false, _) => "BEGIN",
                (true, true) => "COMMIT",
                (true, false) => "ROLLBACK",
            };
            client.batch_execute(end).await?;
            within = !within;
        }
        let near = random.random_range(0..SEARCHED_ROWS + 50);
        let op = ["=", "=", "=", "<", ">=", "IN"][random.random_range(0..6)];
        let value = |one: &dyn Fn(usize) -> String| match op {
            "IN" => format!("({}, {}, NULL)", one(near), one(near / 2)),
            _ => one(near),
        };
        let conditions = [
            ("lower(t.name)", op, value(&|near| format!("'name {near}'")), ""),
            ("upper(t.v)", op, value(&|near| format!("'V{}'", near % 4000)), ""),
            ("upper(t.v)", "=", format!("'V{}'", near % 4000), "AND t.id > 9000"),
            ("lower(t.name)", "LIKE", format!("'name {near}%'"), ""),
            ("lower(t.name)", "LIKE", format!("'name%{near}'"), ""),
            ("t.v", "LIKE", format!("'V{}\\_%'", near % 400), "OR t.v LIKE 'V1234%'"),
            ("t.v", "LIKE", format!("'V{}_'", near % 400), ""),
            ("t.id + 7", op, value(&|near| near.to_string()), ""),
            (
                "t.id",
                op,
                value(&|near| near.to_string()),
                "AND t.live AND t.gone IS NULL",
            ),
            ("t.id", op, value(&|near| near.to_string()), "AND t.gone IS NULL"),
            (
                "t.amount",
                op,
                value(&|near| format!("{near}.0")),
                "AND t.kind = 'open'",
            ),
            (
                "t.amount",
                op,
                value(&|near| format!("{near}.5")),
                "AND t.kind = 'shut'",
            ),
            (
                "lower(t.v)",
                "=",
                format!("'v{}'", near % 4000),
                "AND t.id % 7 = 3 AND t.id > 5",
            ),
            ("lower(t.v)", "=", format!("'v{}'", near % 4000), "AND t.id % 7 = 3"),
        ];
        let (key, op, value, rest) = &conditions[random.random_range(0..conditions.len())];
        let order = ["t.id", "t.amount, t.id", "t.id DESC", "t.v, t.id"][random.random_range(0..4)];
        let limit = ["", "", "LIMIT 5", "LIMIT 40"][random.random_range(0..4)];
        let sql = |key: &str| format!("SELECT * FROM t WHERE {key} {op} {value} {rest} ORDER BY {order} {limit}");
        let (query, plain) = (sql(key), sql(&format!("CASE WHEN t.kind IS NOT NULL THEN {key} END")));
        for _ in 0..2 {
            let found = rows(&client, &query).await.with_context(|| query.clone())?;
            let expected = rows(&client, &plain).await.with_context(|| plain.clone())?;
            ensure!(
                found == expected,
                "round {round}: {query}\n{found:?}\nand not\n{expected:?}"
            );
        }
        let plan = rows(&client, &format!("EXPLAIN {query}")).await?;
        by_index += usize::from(format!("{plan:?}").contains(" by_"));
    }
    ensure!(
        by_index > SEARCHES / 4,
        "{by_index} of {SEARCHES} queries were planned with an index"
    );
    Ok(())
}
