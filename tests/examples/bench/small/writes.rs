//! Small writes as applications send them: rows with a serial whose value is returned, upserts, rows that are locked before they
//! are changed, keys that are expressions. What a case adds up must be as much as there were transactions.

use anyhow::{Context, Result, ensure};

use super::postgres::told;
use super::{pgbench, trivial};

/// Rows of the table whose rows change.
const ROWS: usize = 200_000;

/// A case: its name, pgbench's script, and the query for what it adds up, one a transaction.
pub struct Case {
    pub name: &'static str,
    script: String,
    sum: &'static str,
    /// pgbench's.
    mode: &'static str,
}

impl Case {
    pub fn new(name: &'static str, script: String, sum: &'static str) -> Self {
        Self {
            name,
            script,
            sum,
            mode: "prepared",
        }
    }
}

/// All of them.
pub fn cases() -> Vec<Case> {
    let counted = "SELECT coalesce(sum(n), 0) FROM counted";
    let key = format!("\\set k random(1, {})\n", 2 * ROWS);
    let there = format!("\\set k random(1, {ROWS})\n");
    let pieces = "\\set v random(1, 1000000000)\n\\set w random(1, 1000)\nINSERT INTO pieces (thing, part, price) VALUES (:v, 'one', 1.25), (:v, 'two', :w), (:v, 'three', 0);\n";
    let case = Case::new;
    vec![
        case(
            "UPDATE ... RETURNING",
            format!("{there}UPDATE counted SET n = n + 1 WHERE k = :k RETURNING n, v;\n"),
            counted,
        ),
        case(
            "INSERT with serial, unique lower(v)",
            "\\set v random(1, 1000000000000000)\nINSERT INTO users (email) VALUES (:v) RETURNING users.id;\n".into(),
            "SELECT count(*) FROM users",
        ),
        case(
            "INSERT ... ON CONFLICT DO UPDATE",
            format!(
                "{key}INSERT INTO counted (k, v, n) VALUES (:k, 'x', 1) ON CONFLICT (k) DO UPDATE SET n = counted.n + excluded.n;\n"
            ),
            counted,
        ),
        case(
            "SELECT ... FOR UPDATE, UPDATE",
            format!(
                "{there}BEGIN;\nSELECT n FROM counted WHERE k = :k FOR UPDATE;\nUPDATE counted SET n = n + 1 WHERE k = :k;\nCOMMIT;\n"
            ),
            counted,
        ),
        Case {
            mode: "simple",
            ..case(
                "INSERT of literals of many types, simple",
                "\\set v random(1, 1000000000)\nINSERT INTO events (day, at, price, id, kind, seen, note) VALUES ('2024-02-03', \
                 '2024-02-03 04:05:06'::timestamp, :v.25, '00000000-0000-4000-8000-000000000001', 'login', true, '{\"v\": :v}');\n"
                    .into(),
                "SELECT count(*) FROM events",
            )
        },
        case("INSERT of three rows", pieces.into(), "SELECT count(*) / 3 FROM pieces"),
        Case {
            mode: "simple",
            ..case("INSERT of three rows, simple", pieces.into(), "SELECT count(*) / 3 FROM pieces")
        },
        case(
            "UPDATE by a bigint of an int column",
            format!("{there}UPDATE narrow SET n = n + 1 WHERE k = :k::bigint;\n"),
            "SELECT sum(n) FROM narrow",
        ),
    ]
}

pub fn fill(server: &str) -> Result<()> {
    trivial::with_client(server, async |client| {
        let tables = format!(
            "CREATE TABLE counted (k bigint PRIMARY KEY, v text, n bigint NOT NULL);
             INSERT INTO counted SELECT g, 'value ' || g, 0 FROM generate_series(1, {ROWS}) AS g;
             CREATE TABLE users (id bigserial PRIMARY KEY, email text NOT NULL, created timestamptz DEFAULT now());
             CREATE UNIQUE INDEX ON users (lower(email));
             CREATE TABLE narrow (k int PRIMARY KEY, n int NOT NULL);
             INSERT INTO narrow SELECT g, 0 FROM generate_series(1, {ROWS}) AS g;
             CREATE TABLE events (n bigserial PRIMARY KEY, day date, at timestamp, price numeric(12,2), id uuid, kind char(8),
                 seen boolean, note jsonb);
             CREATE TABLE pieces (id bigserial PRIMARY KEY, thing bigint, part text, price numeric(14,2), made timestamptz DEFAULT now());
             INSERT INTO users (email) SELECT 'Name' || g FROM generate_series(1, {ROWS}) AS g"
        );
        client.batch_execute(&tables).await?;
        Ok(client.batch_execute("ANALYZE").await?)
    })
}

/// Transactions of a case a second.
pub fn rate(server: &str, case: &Case, clients: usize, seconds: u64) -> Result<f64> {
    let file = tempfile::Builder::new().prefix("tenon-bench.").tempfile()?;
    std::fs::write(file.path(), &case.script)?;
    let path = file.path().to_str().context("a path that is no text")?;
    let sum = || -> Result<u64> { Ok(told("psql", &["-XAtq", "-d", server, "-c", case.sum])?.trim().parse()?) };
    let before = sum()?;
    let (rate, number) = pgbench::script(server, (path, case.mode), clients, seconds)?;
    let added = sum()? - before;
    ensure!(added == number, "{}: {added} for {number} transactions", case.name);
    Ok(rate)
}
