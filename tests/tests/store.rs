//! Servers with a store: what clients were told of is there after the server was killed, at any moment, and of what was under
//! way everything or nothing. `TENON_SEED` repeats a seed, `TENON_STORE_KILLS` tries more.

use crate::process::{Server, binary, failing, rows, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rand::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("store::all_kinds_of_objects", all_kinds_of_objects),
        trial("store::backups_beside_writers", backups_beside_writers),
        trial("store::kills_at_any_moment", kills_at_any_moment),
        trial("store::one_server_a_directory", one_server_a_directory),
    ]
}

fn start(directory: &Path) -> Result<Server> {
    let directory = directory.to_str().context("a path")?;
    Server::start(&["--store", directory])
}

/// One of each kind of object, and changes of each kind.
const OBJECTS: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'happy');
    ALTER TYPE mood ADD VALUE 'so so' BEFORE 'happy';
    CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    CREATE TYPE words AS RANGE (subtype = text);
    CREATE TABLE spans (id int PRIMARY KEY, w words, ws words[], m words_multirange DEFAULT '{[a,b)}');
    INSERT INTO spans SELECT g, words(g::text, NULL), ARRAY[words('1', '9' || g), NULL] FROM generate_series(1, 300) g;
    CREATE SCHEMA other;
    CREATE TABLE people (id serial PRIMARY KEY, name text NOT NULL DEFAULT 'nobody', born date, m mood, n numeric(10, 2),
        wide numeric, tags text[], j jsonb, p positive, at timestamptz, CHECK (name <> 'x'));
    INSERT INTO people (name, born, m, n, wide, tags, j, p, at)
        SELECT 'name ' || g % 40, date '2000-01-01' + g, (ARRAY['sad', 'so so', 'happy'])[1 + g % 3]::mood, g / 100.0,
            g * 1e30, ARRAY['a', NULL, g::text], jsonb_build_object('g', g), g, timestamptz '2020-01-01 00:00:00+00' + g * interval '1 hour'
        FROM generate_series(1, 3000) g;
    UPDATE people SET name = 'changed' WHERE id % 10 = 0;
    DELETE FROM people WHERE id % 7 = 0;
    ALTER TABLE people ADD COLUMN extra int DEFAULT 5;
    CREATE UNIQUE INDEX people_born ON people (born);
    CREATE TABLE visits (dropped int, person int REFERENCES people ON DELETE CASCADE, day date,
        CONSTRAINT of_the_day FOREIGN KEY (day) REFERENCES people (born) MATCH FULL DEFERRABLE);
    ALTER TABLE visits DROP COLUMN dropped;
    INSERT INTO visits SELECT id, born FROM people WHERE id % 50 = 1;
    CREATE VIEW sad_people AS SELECT id, name FROM people WHERE m = 'sad';
    CREATE MATERIALIZED VIEW moods AS SELECT m, count(*) AS c FROM people GROUP BY m;
    CREATE TABLE other.ranges (a int, b text) PARTITION BY RANGE (a);
    CREATE TABLE other.low PARTITION OF other.ranges FOR VALUES FROM (0) TO (10);
    CREATE TABLE other.high PARTITION OF other.ranges DEFAULT;
    INSERT INTO other.ranges SELECT g, 'row ' || g FROM generate_series(0, 20) g;
    CREATE FUNCTION twice(a int) RETURNS int LANGUAGE sql AS 'SELECT 2 * a';
    CREATE SEQUENCE steps START 10 INCREMENT 5;
    SELECT nextval('steps'), nextval('steps');
    COMMENT ON TABLE people IS 'all of them';
    CREATE SCHEMA before_name;
    CREATE TABLE before_name.t (id serial PRIMARY KEY, m mood, p positive);
    CREATE VIEW before_name.v AS SELECT id, m FROM before_name.t;
    CREATE TYPE before_name.pair AS (a int, b positive);
    CREATE TABLE pairs (p before_name.pair);
    INSERT INTO before_name.t (m, p) VALUES ('sad', 1), ('happy', 2);
    INSERT INTO pairs VALUES (ROW(1, 2));
    ALTER SCHEMA before_name RENAME TO after_name;
    COMMENT ON SCHEMA after_name IS 'renamed';
    CREATE FUNCTION thrice(a int) RETURNS int LANGUAGE sql AS 'SELECT 3 * a';
    ALTER FUNCTION thrice(int) IMMUTABLE STRICT COST 7 PARALLEL SAFE SET work_mem = '1MB';
    ALTER FUNCTION thrice(int) RENAME TO three_times;
    ALTER FUNCTION three_times(int) SET SCHEMA after_name;
    COMMENT ON FUNCTION after_name.three_times(int) IS 'by three';
    REVOKE USAGE ON TYPE mood FROM PUBLIC;
    CREATE TABLE unchecked (person int REFERENCES people);
    ALTER TABLE unchecked DISABLE TRIGGER ALL;
    INSERT INTO unchecked VALUES (-5);
    CREATE TABLE gone (a int); DROP TABLE gone;
    CREATE TEMP TABLE mine (a int);";

/// What is asked of them, before and after.
const QUESTIONS: [&str; 20] = [
    "SELECT * FROM after_name.v ORDER BY id",
    "SELECT (p).a, (p).b, pg_typeof(p) FROM pairs",
    "SELECT after_name.three_times(4), obj_description('after_name'::regnamespace, 'pg_namespace'), \
     obj_description('after_name.three_times(int)'::regprocedure, 'pg_proc')",
    "SELECT proname, provolatile, proisstrict, procost, proparallel, proconfig FROM pg_proc WHERE proname = 'three_times'",
    "SELECT typacl FROM pg_type WHERE typname = 'mood'",
    "SELECT * FROM unchecked",
    "SELECT * FROM people ORDER BY id",
    "SELECT count(*), min(m), max(m) FROM people",
    "SELECT * FROM sad_people ORDER BY id LIMIT 20",
    "SELECT * FROM moods ORDER BY m",
    "SELECT tableoid::regclass, * FROM other.ranges ORDER BY a",
    "SELECT * FROM other.low ORDER BY a",
    "SELECT twice(21)",
    "SELECT id, w, ws, m, pg_typeof(m) FROM spans ORDER BY w",
    "SELECT words('a', 'c') @> 'b'::text, typtype FROM pg_type WHERE typname LIKE '%words%' ORDER BY typname",
    "SELECT obj_description('people'::regclass)",
    "SELECT enumlabel FROM pg_enum ORDER BY enumsortorder",
    "SELECT conname, convalidated, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' ORDER BY conname",
    "SELECT conname, contype FROM pg_constraint WHERE contype IN ('c', 'p', 'u') ORDER BY conname",
    "SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname IN ('public', 'other') ORDER BY 1, 2",
];

type Rows = Vec<Vec<Option<String>>>;

async fn answers(client: &Client) -> Result<Vec<Rows>> {
    let mut all = Vec::new();
    for question in QUESTIONS {
        all.push(rows(client, question).await.with_context(|| question.to_string())?);
    }
    Ok(all)
}

/// They are there after a kill, after a checkpoint and a kill, and after an orderly end; and they work.
async fn all_kinds_of_objects() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut server = start(directory.path())?;
    let client = server.connect().await?;
    client.batch_execute(OBJECTS).await?;
    let expected = answers(&client).await?;
    let mut next_step = 20;
    for end in ["kill", "checkpoint", "terminate"] {
        match end {
            "terminate" => ensure!(server.terminate()?.success()),
            "checkpoint" => {
                server.connect().await?.batch_execute("CHECKPOINT").await?;
                drop(server);
            }
            _ => drop(server),
        }
        server = start(directory.path())?;
        let client = server.connect().await?;
        for (question, (found, expected)) in QUESTIONS.iter().zip(answers(&client).await?.iter().zip(&expected)) {
            ensure!(found == expected, "after {end}: {question}");
        }
        for (sql, state) in [
            ("SELECT * FROM mine", "42P01"),
            ("SELECT * FROM gone", "42P01"),
            ("INSERT INTO people (id, born) VALUES (1, date '1990-01-01')", "23505"),
            ("INSERT INTO people (name) VALUES ('x')", "23514"),
            ("INSERT INTO people (p) VALUES (0)", "23514"),
            ("INSERT INTO people (m) VALUES ('none')", "22P02"),
            ("INSERT INTO visits VALUES (700)", "23503"),
            ("INSERT INTO visits VALUES (1, date '1990-01-01')", "23503"),
            ("UPDATE people SET born = date '1990-01-01' WHERE id = 1", "23503"),
            ("DROP TABLE people", "2BP01"),
            ("SELECT * FROM before_name.v", "42P01"),
            ("INSERT INTO after_name.t (p) VALUES (0)", "23514"),
            ("SELECT ROW(1, 0)::after_name.pair", "23514"),
        ] {
            let found = failing(&client, sql).await?;
            ensure!(found == state, "after {end}: {sql}: {found}");
        }
        let step: i64 = value(&client, "SELECT nextval('steps')").await?.parse()?;
        ensure!(step >= next_step && (step - 10) % 5 == 0, "{step} after {next_step}");
        next_step = step + 5;
    }
    Ok(())
}

/// A client that writes transactions, each of one row in each of two tables, until its server is gone. Gives the number of the
/// last one that was acknowledged.
async fn write(client: Client, writer: i32, first: i32) -> i32 {
    let mut acknowledged = first - 1;
    loop {
        let n = acknowledged + 1;
        let sql = match n % 4 {
            // Each statement is a transaction of its own, but for those of one message.
            0 => format!("INSERT INTO a VALUES ({writer}, {n}); INSERT INTO b VALUES ({writer}, {n})"),
            1 => format!("WITH x AS (INSERT INTO a VALUES ({writer}, {n})) INSERT INTO b VALUES ({writer}, {n})"),
            2 => format!(
                "BEGIN; INSERT INTO b VALUES ({writer}, {n}); CREATE TABLE t_{writer}_{n} AS SELECT {n} AS n; \
                 INSERT INTO a VALUES ({writer}, {n}); COMMIT"
            ),
            _ => format!(
                "BEGIN; INSERT INTO a SELECT {writer}, {n} UNION ALL SELECT {writer}, -1; \
                 INSERT INTO b VALUES ({writer}, {n}); DROP TABLE IF EXISTS t_{writer}_{}; COMMIT",
                n - 1
            ),
        };
        if client.batch_execute(&sql).await.is_err() {
            return acknowledged;
        }
        acknowledged = n;
    }
}

/// The number of a writer's last transaction: all before it are there, each in whole.
async fn last_of(client: &Client, writer: usize) -> Result<i32> {
    let numbers = async |table: &str| -> Result<BTreeSet<i32>> {
        let sql = format!("SELECT n FROM {table} WHERE w = {writer} AND n >= 0");
        let found = rows(client, &sql).await?;
        let found = found.into_iter().flatten().flatten();
        Ok(found.map(|n| n.parse()).collect::<Result<_, _>>()?)
    };
    let (a, b) = (numbers("a").await?, numbers("b").await?);
    let last = a.last().copied().unwrap_or(-1);
    ensure!(a == b, "half a transaction of {last}");
    ensure!(a.iter().copied().eq(0..=last), "a gap before {last}");
    let lone = format!("SELECT count(*) FROM a WHERE w = {writer} AND n = -1");
    let lone: i32 = value(client, &lone).await?.parse()?;
    ensure!(
        lone == (0..=last).filter(|n| n % 4 == 3).count() as i32,
        "{lone} of -1 beside {last}"
    );
    Ok(last)
}

/// No acknowledged transaction is lost, none is there in part.
async fn kills_at_any_moment() -> Result<()> {
    const WRITERS: i32 = 4;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("TENON_SEED").unwrap_or_else(|| rand::rng().random());
    println!("store::kills_at_any_moment: TENON_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir()?;
    let mut server = start(directory.path())?;
    let client = server.connect().await?;
    client
        .batch_execute("CREATE TABLE a (w int, n int); CREATE TABLE b (w int, n int, PRIMARY KEY (w, n))")
        .await?;
    let mut firsts = [0; WRITERS as usize];
    for kill in 0..number("TENON_STORE_KILLS").unwrap_or(20) {
        let mut writers = Vec::new();
        for (writer, first) in (0..).zip(firsts) {
            writers.push(tokio::spawn(write(server.connect().await?, writer, first)));
        }
        let client = server.connect().await?;
        tokio::time::sleep(Duration::from_millis(random.random_range(5..150))).await;
        if random.random_ratio(1, 3) {
            // The kill comes while this is under way, or after it.
            drop(
                tokio::time::timeout(
                    Duration::from_millis(random.random_range(0..30)),
                    client.batch_execute("CHECKPOINT"),
                )
                .await,
            );
        }
        drop(server);
        let mut acknowledged = Vec::new();
        for writer in writers {
            acknowledged.push(writer.await?);
        }
        server = start(directory.path())?;
        let client = server.connect().await?;
        for (writer, (acknowledged, first)) in acknowledged.into_iter().zip(&mut firsts).enumerate() {
            let told = format!("kill {kill}, writer {writer}");
            let there = last_of(&client, writer).await.context(told.clone())?;
            // The one that was under way may be there.
            ensure!(
                [acknowledged, acknowledged + 1].contains(&there),
                "{told}: {there} are there, {acknowledged} acknowledged"
            );
            *first = there + 1;
        }
    }
    Ok(())
}

/// A backup holds what was committed before it, all transactions in whole; one that is cut off or changed is refused.
async fn backups_beside_writers() -> Result<()> {
    const WRITERS: usize = 3;
    let seed = rand::rng().random();
    println!("store::backups_beside_writers: seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let places = tempfile::tempdir()?;
    let place = |name: String| places.path().join(name);
    let server = start(&place("store".into()))?;
    let client = server.connect().await?;
    client.batch_execute(OBJECTS).await?;
    client
        .batch_execute("CREATE TABLE a (w int, n int); CREATE TABLE b (w int, n int, PRIMARY KEY (w, n))")
        .await?;
    let expected = answers(&client).await?;
    for writer in 0..WRITERS {
        tokio::spawn(write(server.connect().await?, writer as i32, 0));
    }
    let mut archive = vec![];
    for number in 0..4 {
        tokio::time::sleep(Duration::from_millis(random.random_range(5..200))).await;
        let mut before = vec![];
        for writer in 0..WRITERS {
            let sql = format!("SELECT coalesce(max(n), -1) FROM a WHERE w = {writer}");
            before.push(value(&client, &sql).await?.parse::<i32>()?);
        }
        let checkpoints = server.connect().await?;
        let checkpoint = tokio::spawn(async move { checkpoints.batch_execute("CHECKPOINT").await });
        let (file, directory) = (place(format!("{number}.tar")), place(format!("restored {number}")));
        let (ok, told) = tenon(&["backup", "--from", &server.dsn(), &text(&file)])?;
        ensure!(ok, "{told}");
        checkpoint.await??;
        let (ok, told) = tenon(&["restore", &text(&file), "--store", &text(&directory)])?;
        ensure!(ok && told.contains("tables with"), "{told}");
        let restored = start(&directory)?;
        let there = restored.connect().await?;
        for (writer, before) in before.into_iter().enumerate() {
            let last = last_of(&there, writer)
                .await
                .with_context(|| format!("backup {number}"))?;
            ensure!(
                last >= before,
                "backup {number}: {last} of {writer} are there, {before} were committed"
            );
        }
        // Those about the tables of all, which the writers change, aside.
        for (question, (found, expected)) in QUESTIONS.iter().zip(answers(&there).await?.iter().zip(&expected)) {
            let of_writers = question.contains("pg_class") || question.contains("pg_constraint");
            ensure!(of_writers || found == expected, "backup {number}: {question}");
        }
        there.batch_execute("INSERT INTO a VALUES (9, 9); CHECKPOINT").await?;
        archive = std::fs::read(&file)?;
        let (ok, told) = tenon(&["backup", "--from", &server.dsn(), &text(&file)])?;
        ensure!(!ok && told.contains("is there already"), "{told}");
        let (ok, told) = tenon(&["restore", &text(&file), "--store", &text(&directory)])?;
        ensure!(!ok && told.contains("is there already"), "{told}");
    }
    // Cut off anywhere before the end of what its last file holds.
    for number in 0..12 {
        let cut = random.random_range(0..archive.len() - 1024 - 512);
        let (file, directory) = (place(format!("cut {number}")), place(format!("of cut {number}")));
        std::fs::write(&file, &archive[..cut])?;
        let (ok, told) = tenon(&["restore", &text(&file), "--store", &text(&directory)])?;
        ensure!(
            !ok && told.contains("the backup is not"),
            "cut at {cut} of {}: {told}",
            archive.len()
        );
        ensure!(!directory.exists() && !place(format!("of cut {number}.partial")).exists());
    }
    // A byte of the checkpoint, which is the last file.
    let mut damaged = archive.clone();
    let at = archive.len() - 1024 - 600;
    damaged[at] ^= 1;
    let (file, directory) = (place("damaged".into()), place("of damaged".into()));
    std::fs::write(&file, &damaged)?;
    let (ok, told) = tenon(&["restore", &text(&file), "--store", &text(&directory)])?;
    ensure!(!ok && told.contains("damaged") && !directory.exists(), "{told}");

    let without = Server::start(&[])?;
    ensure!(failing(&without.connect().await?, "BACKUP").await? == "55000");
    let file = place("none.tar".into());
    let (ok, told) = tenon(&["backup", "--from", &without.dsn(), &text(&file)])?;
    ensure!(!ok && told.contains("keeps no tables on disk"), "{told}");
    ensure!(!file.exists() && !place("none.tar.partial".into()).exists());
    Ok(())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Whether a command of the program succeeds, and all that it says.
fn tenon(arguments: &[&str]) -> Result<(bool, String)> {
    let output = std::process::Command::new(binary()).args(arguments).output()?;
    let told = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&told).into_owned()))
}

async fn one_server_a_directory() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let _first = start(directory.path())?;
    let refused = start(directory.path()).err().context("a second server started")?;
    ensure!(refused.to_string().contains("in use by another server"), "{refused}");
    Ok(())
}
