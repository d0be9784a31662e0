//! Several clients that add rows with the same keys, and locks on tables: who waits for whom, and what each then sees, as in
//! PostgreSQL.
//!
//! More than 400 lines because each kind of lock is tried against all that meets it.

use crate::process::{Server, failing, value};
use crate::row_locks::{begin, ends, waits};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rand::prelude::*;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("key_locks::inserts", inserts),
        trial("key_locks::on_conflict", on_conflict),
        trial("key_locks::changed_keys", changed_keys),
        trial("key_locks::snapshots", snapshots),
        trial("key_locks::savepoints", savepoints),
        trial("key_locks::deadlocks", deadlocks),
        trial("key_locks::failed_transactions", failed_transactions),
        trial("key_locks::tables", tables),
        trial("key_locks::definitions", definitions),
        trial("key_locks::many_clients", || many_clients(false)),
        trial("key_locks::many_clients_stored", || many_clients(true)),
    ]
}

async fn clients<const N: usize>(server: &Server) -> Result<[Client; N]> {
    let mut all = Vec::new();
    for _ in 0..N {
        all.push(server.connect().await?);
    }
    all.try_into().map_err(|_| anyhow::anyhow!("not so many clients"))
}

fn state<T>(result: Result<T, tokio_postgres::Error>) -> Result<SqlState> {
    let error = result.err().context("no error")?;
    error.code().cloned().context("an error without a state")
}

/// Two clients insert one key, in a small table and in a large one: the second waits for what becomes of the first.
async fn inserts() -> Result<()> {
    let server = Server::start(&[])?;
    let [one, mut two] = clients(&server).await?;
    one.batch_execute(
        "CREATE TABLE small (k int PRIMARY KEY, v int); CREATE TABLE large (k text UNIQUE, v int);
         INSERT INTO large SELECT md5(g::text), g FROM generate_series(1, 5000) g",
    )
    .await?;
    for (table, key) in [("small", "1"), ("large", "'a'")] {
        for ended in [false, true] {
            let end = if ended { "COMMIT" } else { "ROLLBACK" };
            one.batch_execute(&format!("BEGIN; INSERT INTO {table} VALUES ({key}, 1)"))
                .await?;
            let second = begin(two, &format!("INSERT INTO {table} VALUES ({key}, 2)"));
            waits(&second).await?;
            one.batch_execute(end).await?;
            let (client, done) = ends(second).await?;
            two = client;
            match ended {
                false => ensure!(done? == 1),
                true => ensure!(state(done)? == SqlState::UNIQUE_VIOLATION),
            }
            ensure!(
                value(&one, &format!("SELECT v FROM {table} WHERE k = {key}")).await? == if ended { "1" } else { "2" }
            );
            one.batch_execute(&format!("DELETE FROM {table} WHERE k = {key}"))
                .await?;
        }
        // Other keys, and NULL where there may be several, wait for nobody.
        one.batch_execute(&format!("BEGIN; INSERT INTO {table} VALUES ({key}, 1)"))
            .await?;
        let other = if table == "small" { "2" } else { "NULL" };
        two.batch_execute(&format!("INSERT INTO {table} VALUES ({other}, 1)"))
            .await?;
        one.batch_execute("ROLLBACK").await?;
    }
    // COPY waits, too, in a block and outside.
    for (open, close) in [("", ""), ("BEGIN;", "COMMIT")] {
        one.batch_execute("BEGIN; INSERT INTO small VALUES (5, 1)").await?;
        two.batch_execute(open).await?;
        let sink = two.copy_in::<_, bytes::Bytes>("COPY small FROM STDIN").await?;
        let copy = tokio::spawn(async move {
            let mut sink = Box::pin(sink);
            use futures::SinkExt;
            sink.send(bytes::Bytes::from_static(b"5\t2\n6\t2\n")).await?;
            sink.as_mut().finish().await
        });
        waits(&copy).await?;
        one.batch_execute("ROLLBACK").await?;
        ensure!(ends(copy).await?? == 2);
        two.batch_execute(close).await?;
        ensure!(value(&one, "SELECT sum(v) FROM small WHERE k IN (5, 6)").await? == "4");
        one.batch_execute("DELETE FROM small WHERE k IN (5, 6)").await?;
    }
    Ok(())
}

/// ON CONFLICT does what is right for what becomes of the other.
async fn on_conflict() -> Result<()> {
    let server = Server::start(&[])?;
    let [one, mut two] = clients(&server).await?;
    one.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v int, w int UNIQUE)")
        .await?;
    for (action, after_commit, after_rollback) in [
        ("DO NOTHING", (0, "1"), (1, "2")),
        ("(k) DO NOTHING", (0, "1"), (1, "2")),
        ("(k) DO UPDATE SET v = t.v + excluded.v", (1, "3"), (1, "2")),
        ("(k) DO UPDATE SET v = 9 WHERE t.v > 5", (0, "1"), (1, "2")),
    ] {
        for (end, (count, left)) in [("COMMIT", after_commit), ("ROLLBACK", after_rollback)] {
            for block in [false, true] {
                one.batch_execute("BEGIN; INSERT INTO t VALUES (1, 1)").await?;
                if block {
                    two.batch_execute("BEGIN").await?;
                }
                let second = begin(two, &format!("INSERT INTO t VALUES (1, 2) ON CONFLICT {action}"));
                waits(&second).await?;
                one.batch_execute(end).await?;
                let (client, done) = ends(second).await?;
                two = client;
                ensure!(done? == count, "{action} after {end}");
                if block {
                    two.batch_execute("COMMIT").await?;
                }
                ensure!(value(&one, "SELECT v FROM t").await? == left, "{action} after {end}");
                one.batch_execute("DELETE FROM t").await?;
            }
        }
    }
    // Another constraint than the one named still refuses.
    one.batch_execute("BEGIN; INSERT INTO t VALUES (1, 1, 7)").await?;
    let second = begin(
        two,
        "INSERT INTO t VALUES (2, 2, 7) ON CONFLICT (k) DO UPDATE SET v = 9",
    );
    waits(&second).await?;
    one.batch_execute("COMMIT").await?;
    ensure!(state(ends(second).await?.1)? == SqlState::UNIQUE_VIOLATION);
    Ok(())
}

/// A key that another transaction takes away, or gives a row: it is waited for.
async fn changed_keys() -> Result<()> {
    let server = Server::start(&[])?;
    let [one, mut two] = clients(&server).await?;
    one.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await?;
    for first in ["DELETE FROM t WHERE k = 1", "UPDATE t SET k = 5 WHERE k = 1"] {
        for (second, committed, undone) in [
            ("INSERT INTO t VALUES (1, 2)", Some(1), None),
            ("UPDATE t SET k = 1 WHERE k = 2", Some(1), None),
            ("UPDATE t SET k = k - 1 WHERE k BETWEEN 2 AND 3", Some(2), None),
            ("INSERT INTO t VALUES (1, 2) ON CONFLICT DO NOTHING", Some(1), Some(0)),
            (
                "INSERT INTO t VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET v = 3",
                Some(1),
                Some(1),
            ),
        ] {
            for (end, expected) in [("COMMIT", committed), ("ROLLBACK", undone)] {
                one.batch_execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)").await?;
                one.batch_execute(&format!("BEGIN; {first}")).await?;
                let task = begin(two, second);
                waits(&task).await.with_context(|| format!("{second} after {first}"))?;
                one.batch_execute(end).await?;
                let (client, done) = ends(task).await?;
                two = client;
                match expected {
                    Some(count) => ensure!(done? == count, "{second} after {first}, {end}"),
                    None => ensure!(state(done)? == SqlState::UNIQUE_VIOLATION),
                }
                one.batch_execute("DELETE FROM t").await?;
            }
        }
    }
    // The key that an UPDATE gives.
    one.batch_execute("INSERT INTO t VALUES (1, 1)").await?;
    one.batch_execute("BEGIN; UPDATE t SET k = 7 WHERE k = 1").await?;
    let task = begin(two, "INSERT INTO t VALUES (7, 2)");
    waits(&task).await?;
    one.batch_execute("COMMIT").await?;
    let (two, done) = ends(task).await?;
    ensure!(state(done)? == SqlState::UNIQUE_VIOLATION);
    // Who only locks a row keeps nobody from being told of its key.
    one.batch_execute("BEGIN; SELECT * FROM t WHERE k = 7 FOR UPDATE")
        .await?;
    ensure!(failing(&two, "INSERT INTO t VALUES (7, 2)").await? == "23505");
    ensure!(
        two.execute("INSERT INTO t VALUES (7, 2) ON CONFLICT DO NOTHING", &[])
            .await?
            == 0
    );
    one.batch_execute("COMMIT").await?;
    Ok(())
}

/// With one snapshot: a key that came later is refused, and ON CONFLICT cannot go on.
async fn snapshots() -> Result<()> {
    let server = Server::start(&[])?;
    let [one, two] = clients(&server).await?;
    one.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await?;
    for (insert, refused) in [
        ("INSERT INTO t VALUES (1, 2)", "23505"),
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT DO NOTHING", "40001"),
        (
            "INSERT INTO t VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET v = 3",
            "40001",
        ),
    ] {
        two.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t")
            .await?;
        one.batch_execute("INSERT INTO t VALUES (1, 1)").await?;
        ensure!(failing(&two, insert).await? == refused, "{insert}");
        two.batch_execute("ROLLBACK").await?;
        one.batch_execute("DELETE FROM t").await?;
    }
    // A row that the snapshot has and others have removed.
    one.batch_execute("INSERT INTO t VALUES (1, 1)").await?;
    two.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t")
        .await?;
    one.batch_execute("DELETE FROM t").await?;
    ensure!(failing(&two, "INSERT INTO t VALUES (1, 2) ON CONFLICT DO NOTHING").await? == "40001");
    Ok(())
}

/// What was added after a savepoint and taken back is free for others.
async fn savepoints() -> Result<()> {
    let server = Server::start(&[])?;
    let [one, two] = clients(&server).await?;
    one.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await?;
    one.batch_execute(
        "BEGIN; INSERT INTO t VALUES (1, 1); SAVEPOINT s; INSERT INTO t VALUES (2, 1); ROLLBACK TO s; INSERT INTO t VALUES (3, 1)",
    )
    .await?;
    two.batch_execute("INSERT INTO t VALUES (2, 2)").await?;
    for key in [1, 3] {
        let error = failing(
            &two,
            &format!("SET lock_timeout = '100ms'; INSERT INTO t VALUES ({key}, 2)"),
        )
        .await?;
        ensure!(error == "55P03", "{error}");
    }
    one.batch_execute("COMMIT").await?;
    ensure!(value(&two, "SELECT string_agg(k || ':' || v, ' ' ORDER BY k) FROM t").await? == "1:1 2:2 3:1");
    Ok(())
}

/// Who closes a circle of waits is told, and the others go on at once.
async fn deadlocks() -> Result<()> {
    let server = Server::start(&[])?;
    let [one, two] = clients(&server).await?;
    one.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v int); CREATE TABLE other (k int)")
        .await?;
    one.batch_execute("BEGIN; INSERT INTO t VALUES (1, 1)").await?;
    two.batch_execute("BEGIN; INSERT INTO t VALUES (2, 2)").await?;
    let first = begin(one, "INSERT INTO t VALUES (2, 1)");
    waits(&first).await?;
    ensure!(failing(&two, "INSERT INTO t VALUES (1, 2)").await? == "40P01");
    let (one, done) = ends(first).await?;
    ensure!(done? == 1);
    one.batch_execute("COMMIT").await?;
    two.batch_execute("ROLLBACK").await?;
    // Tables and rows together.
    one.batch_execute("BEGIN; LOCK TABLE other IN SHARE MODE").await?;
    two.batch_execute("BEGIN; UPDATE t SET v = 5 WHERE k = 1").await?;
    let second = begin(two, "INSERT INTO other VALUES (1)");
    waits(&second).await?;
    ensure!(failing(&one, "UPDATE t SET v = 6 WHERE k = 1").await? == "40P01");
    let (two, done) = ends(second).await?;
    ensure!(done? == 1);
    two.batch_execute("COMMIT").await?;
    Ok(())
}

/// A transaction that has failed holds nobody up, before it is rolled back.
async fn failed_transactions() -> Result<()> {
    let server = Server::start(&[])?;
    let [one, two] = clients(&server).await?;
    one.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)")
        .await?;
    for held in [
        "UPDATE t SET v = 2 WHERE k = 1",
        "SELECT * FROM t FOR UPDATE",
        "INSERT INTO t VALUES (2, 2)",
        "LOCK TABLE t",
        "SELECT pg_advisory_xact_lock(7)",
    ] {
        one.batch_execute(&format!("BEGIN; {held}")).await?;
        ensure!(failing(&one, "SELECT 1 / 0").await? == "22012");
        two.batch_execute(
            "SET lock_timeout = '5s'; UPDATE t SET v = 3 WHERE k = 1; INSERT INTO t VALUES (2, 3); DELETE FROM t WHERE k = 2;
             SELECT pg_advisory_lock(7); SELECT pg_advisory_unlock(7)",
        )
        .await?;
        ensure!(failing(&one, "SELECT 1").await? == "25P02");
        one.batch_execute("ROLLBACK").await?;
    }
    Ok(())
}

/// LOCK TABLE: each mode keeps out what PostgreSQL's table of conflicts says, shown in pg_locks.
async fn tables() -> Result<()> {
    let server = Server::start(&[])?;
    let [one, mut two] = clients(&server).await?;
    one.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)")
        .await?;
    let modes = [
        "ACCESS SHARE",
        "ROW SHARE",
        "ROW EXCLUSIVE",
        "SHARE UPDATE EXCLUSIVE",
        "SHARE",
        "SHARE ROW EXCLUSIVE",
        "EXCLUSIVE",
        "ACCESS EXCLUSIVE",
    ];
    let conflicts = [
        ".......X", "......XX", "....XXXX", "...XXXXX", "..XX.XXX", "..XXXXXX", ".XXXXXXX", "XXXXXXXX",
    ];
    for (mode, conflicts) in modes.iter().zip(conflicts) {
        one.batch_execute(&format!("BEGIN; LOCK TABLE t IN {mode} MODE"))
            .await?;
        let shown = value(
            &two,
            "SELECT mode || ' ' || granted FROM pg_locks WHERE relation = 't'::regclass",
        )
        .await?;
        let name: String = mode
            .split(' ')
            .map(|word| format!("{}{}", &word[..1], word[1..].to_lowercase()))
            .collect();
        ensure!(shown == format!("{name}Lock true"), "{shown}");
        for (other, conflict) in modes.iter().zip(conflicts.chars()) {
            two.batch_execute("BEGIN").await?;
            let taken = two.batch_execute(&format!("LOCK TABLE t IN {other} MODE NOWAIT")).await;
            match conflict {
                '.' => taken?,
                _ => ensure!(state(taken)? == SqlState::LOCK_NOT_AVAILABLE, "{mode} and {other}"),
            }
            two.batch_execute("ROLLBACK").await?;
        }
        // ROW EXCLUSIVE, and ROW SHARE.
        for (change, at) in [
            ("UPDATE t SET v = 2", 2),
            ("INSERT INTO t VALUES (2, 2)", 2),
            ("DELETE FROM t", 2),
            ("SELECT * FROM t FOR SHARE", 1),
        ] {
            let keeps_out = conflicts.as_bytes()[at] == b'X';
            two.batch_execute("BEGIN; SET LOCAL lock_timeout = '50ms'").await?;
            let changed = two.batch_execute(change).await;
            match keeps_out {
                false => changed?,
                true => ensure!(state(changed)? == SqlState::LOCK_NOT_AVAILABLE, "{mode}: {change}"),
            }
            two.batch_execute("ROLLBACK").await?;
        }
        // Queries go on.
        ensure!(value(&two, "SELECT count(*) FROM t").await? == "1");
        one.batch_execute("COMMIT").await?;
    }
    // Reading under the lock sees what was committed before it.
    one.batch_execute("BEGIN; UPDATE t SET v = v + 1").await?;
    let task = begin(
        two,
        "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE; UPDATE t SET v = v * 10; COMMIT",
    );
    waits(&task).await?;
    one.batch_execute("COMMIT").await?;
    let (client, done) = ends(task).await?;
    done?;
    two = client;
    ensure!(value(&two, "SELECT v FROM t").await? == "20");
    ensure!(failing(&two, "LOCK TABLE t").await? == "25P01");
    two.batch_execute("CREATE VIEW seen AS SELECT 1; CREATE SEQUENCE numbers; BEGIN")
        .await?;
    two.batch_execute("LOCK TABLE seen").await?;
    ensure!(failing(&two, "LOCK TABLE numbers").await? == "42809");
    two.batch_execute("ROLLBACK").await?;
    Ok(())
}

/// What defines a table anew waits for who changes its rows, whose work is not lost; and the other way round.
async fn definitions() -> Result<()> {
    let server = Server::start(&[])?;
    let [one, mut two] = clients(&server).await?;
    one.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)")
        .await?;
    for (number, definition) in [
        "CREATE INDEX ON t (v)",
        "CREATE UNIQUE INDEX ON t (v)",
        "ALTER TABLE t ADD COLUMN w int DEFAULT 7",
        "ALTER TABLE t ALTER v SET NOT NULL",
        "ALTER TABLE t ADD CHECK (v > 0)",
        "CREATE TABLE child (k int REFERENCES t)",
        "CREATE TABLE other_child (k int, FOREIGN KEY (k) REFERENCES t)",
        "ALTER TABLE child ADD FOREIGN KEY (k) REFERENCES t",
        "TRUNCATE t CASCADE",
        "DROP TABLE t CASCADE",
    ]
    .into_iter()
    .enumerate()
    {
        let key = number + 10;
        one.batch_execute(&format!("BEGIN; INSERT INTO t VALUES ({key}, {key})"))
            .await?;
        let task = begin(two, definition);
        waits(&task).await.with_context(|| definition.to_string())?;
        ensure!(value(&one, "SELECT 1").await? == "1");
        one.batch_execute("COMMIT").await?;
        let (client, done) = ends(task).await?;
        done.with_context(|| definition.to_string())?;
        two = client;
        let left = one.query_opt(&format!("SELECT v FROM t WHERE k = {key}"), &[]).await;
        match definition.split(' ').next() {
            Some("TRUNCATE") => ensure!(left?.is_none()),
            Some("DROP") => ensure!(state(left)? == SqlState::UNDEFINED_TABLE),
            _ => ensure!(left?.is_some(), "{definition}"),
        }
    }
    // Who waits for a definition changes the table that comes of it.
    one.batch_execute("CREATE TABLE t (k int PRIMARY KEY)").await?;
    one.batch_execute("BEGIN; ALTER TABLE t ADD COLUMN w int DEFAULT 7")
        .await?;
    let task = begin(two, "INSERT INTO t VALUES (1)");
    waits(&task).await?;
    one.batch_execute("COMMIT").await?;
    let (mut two, done) = ends(task).await?;
    ensure!(done? == 1);
    ensure!(value(&one, "SELECT w FROM t").await? == "7");
    // A transaction of one snapshot that begins with a definition goes on over what it has waited for; and LOCK TABLE leaves the
    // snapshot to the statements after it.
    for (locks, sees) in [("ALTER TABLE t ADD COLUMN u int", "2"), ("LOCK TABLE t", "3")] {
        one.batch_execute("BEGIN; INSERT INTO t (k) SELECT max(k) + 1 FROM t")
            .await?;
        let sql = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {locks}");
        let task = begin(two, &sql);
        waits(&task).await?;
        one.batch_execute("COMMIT").await?;
        let (client, done) = ends(task).await?;
        done?;
        two = client;
        ensure!(value(&two, "SELECT count(*) FROM t").await? == sees);
        two.batch_execute("UPDATE t SET w = w; COMMIT").await?;
    }
    // Who drops a table that references another waits for those who change that one.
    for definition in ["ALTER TABLE child DROP CONSTRAINT child_k_fkey", "DROP TABLE child"] {
        two.batch_execute("DROP TABLE IF EXISTS child; CREATE TABLE child (k int REFERENCES t)")
            .await?;
        one.batch_execute("BEGIN; DELETE FROM t WHERE k = 3; INSERT INTO t VALUES (3)")
            .await?;
        let task = begin(two, definition);
        waits(&task).await.with_context(|| definition.to_string())?;
        one.batch_execute("COMMIT").await?;
        let (client, done) = ends(task).await?;
        done?;
        two = client;
    }
    // Keys that are expressions.
    one.batch_execute("CREATE TABLE mail (a text, gone bool); CREATE UNIQUE INDEX ON mail (lower(a)) WHERE NOT gone")
        .await?;
    one.batch_execute("BEGIN; INSERT INTO mail VALUES ('A', false)").await?;
    let task = begin(two, "INSERT INTO mail VALUES ('a', false)");
    waits(&task).await?;
    one.batch_execute("COMMIT").await?;
    let (two, done) = ends(task).await?;
    ensure!(state(done)? == SqlState::UNIQUE_VIOLATION);
    // Others, and those of rows that the index does not hold, are in nobody's way.
    one.batch_execute("BEGIN; INSERT INTO mail VALUES ('B', false)").await?;
    two.batch_execute("INSERT INTO mail VALUES ('c', false), ('b', true)")
        .await?;
    let task = begin(two, "INSERT INTO mail VALUES ('b', false)");
    waits(&task).await?;
    one.batch_execute("ROLLBACK").await?;
    ensure!(ends(task).await?.1? == 1);
    Ok(())
}

/// Counters that many clients make and count up by ON CONFLICT, alone and in blocks: none is lost, and nobody is refused.
async fn many_clients(stored: bool) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("store").display().to_string();
    let options: &[&str] = if stored { &["--store", &path] } else { &[] };
    let server = Server::start(options)?;
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let control = server.connect().await?;
    control
        .batch_execute(
            "CREATE TABLE counters (k text PRIMARY KEY, n bigint); CREATE TABLE once (k int PRIMARY KEY, by_whom int);
             CREATE TABLE folded (k text, n bigint); CREATE UNIQUE INDEX ON folded (lower(k)) WHERE n > 0",
        )
        .await?;
    const CLIENTS: u64 = 8;
    const ROUNDS: usize = 60;
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let client = server.connect().await?;
        let mut rng = StdRng::seed_from_u64(seed ^ number);
        tasks.push(tokio::spawn(async move {
            let (mut counted, mut first) = (0_u64, 0_u64);
            for _ in 0..ROUNDS {
                let mut keys: Vec<u32> = (0..rng.random_range(1..4)).map(|_| rng.random_range(0..40)).collect();
                // In one order: else two may wait for each other.
                keys.sort_unstable();
                keys.dedup();
                let in_block = rng.random_bool(0.5);
                if in_block {
                    client.batch_execute("BEGIN").await?;
                }
                for key in &keys {
                    let upsert = "INSERT INTO counters VALUES ($1, 1) ON CONFLICT (k) DO UPDATE SET n = counters.n + 1";
                    client.execute(upsert, &[&format!("key {key}")]).await?;
                    let upsert = "INSERT INTO folded VALUES ($1, 1) ON CONFLICT (lower(k)) WHERE n > 0 DO UPDATE SET n = folded.n + 1";
                    let word = ["key", "KEY", "Key"][rng.random_range(0..3)];
                    client.execute(upsert, &[&format!("{word} {key}")]).await?;
                }
                let undone = in_block && rng.random_ratio(1, 4);
                if in_block {
                    client.batch_execute(if undone { "ROLLBACK" } else { "COMMIT" }).await?;
                }
                counted += if undone { 0 } else { keys.len() as u64 };
                let key: i32 = rng.random_range(0..200);
                first += client
                    .execute(
                        "INSERT INTO once VALUES ($1, $2) ON CONFLICT DO NOTHING",
                        &[&key, &(number as i32)],
                    )
                    .await?;
            }
            Ok::<_, tokio_postgres::Error>((counted, first))
        }));
    }
    let (mut counted, mut first) = (0, 0);
    for task in tasks {
        let (own_counted, own_first) = ends(task).await??;
        counted += own_counted;
        first += own_first;
    }
    for table in ["counters", "folded"] {
        let sum = value(&control, &format!("SELECT sum(n) FROM {table}")).await?;
        ensure!(sum == counted.to_string(), "seed {seed}, {table}");
    }
    ensure!(
        value(&control, "SELECT count(*) FROM once").await? == first.to_string(),
        "seed {seed}"
    );
    ensure!(value(&control, "SELECT count(DISTINCT k) = count(*) FROM counters").await? == "t");
    Ok(())
}
