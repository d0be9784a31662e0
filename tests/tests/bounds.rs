//! What one client does must not take the server from the others: readers that stall, open cursors, many connections, and
//! statements that ask for more memory than there is. `TENON_BOUNDS_SECONDS` makes the random trials longer, and
//! `TENON_BOUNDS_CONNECTIONS` gives them more clients.
//!
//! More than 400 lines because each bound is one trial, told from begin to end.

use crate::process::{Server, failing, rows, sql_state, value};
use crate::raw::RawClient;
use crate::{trial, trial_alone};
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("bounds::memory", || memory("2")),
        trial("bounds::memory_of_many_threads", || memory("16")),
        trial("bounds::memory_of_files", memory_of_files),
        trial("bounds::recursion", recursion),
        trial("bounds::tables", tables),
        trial_alone("bounds::long_queries", long_queries),
        trial_alone("bounds::planning", planning),
        trial_alone("bounds::stalled_readers", stalled_readers),
        trial("bounds::stalled_timeout", stalled_timeout),
        trial("bounds::idle_timeouts", idle_timeouts),
        trial_alone("bounds::open_cursors", open_cursors),
        trial("bounds::many_connections", many_connections),
        trial("bounds::spilling", spilling),
        trial("bounds::moving_frames", moving_frames),
        trial("bounds::frames_of_all_before", frames_of_all_before),
        trial("bounds::lists_and_beginnings", lists_and_beginnings),
        trial("bounds::wide_rows", wide_rows),
        trial("bounds::sqlsmith", sqlsmith),
    ]
}

const MIB: u64 = 1 << 20;

/// A short statement waits no longer than this beside others as a rule, and never longer than that: what runs on the machine
/// beside the trial may take both its cores for some time slices. On an idle machine the worst is below the first.
const OTHERS_WAIT: Duration = Duration::from_millis(50);
const OTHERS_WAIT_MAX: Duration = Duration::from_millis(500);

/// How long sqlsmith may take to read the system tables, on a loaded machine.
const READING_MAX: Duration = Duration::from_secs(240);

/// How long a random trial runs.
pub fn random_time() -> Duration {
    let seconds = std::env::var("TENON_BOUNDS_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(10))
}

/// What a short statement takes beside others: the median, and the worst, of a hundred times.
async fn short_statements(client: &Client, beside: &str) -> Result<()> {
    short_statement(client, ("SELECT 1", "1"), beside).await
}

async fn short_statement(client: &Client, (statement, expected): (&str, &str), beside: &str) -> Result<()> {
    let mut times = vec![];
    for _ in 0..100 {
        let begun = Instant::now();
        let found = value(client, statement).await?;
        ensure!(found == expected, "{statement}: {found}");
        times.push(begun.elapsed());
    }
    times.sort();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    println!("bounds: {statement} beside {beside}: median {median:?}, worst {worst:?}");
    ensure!(
        median < OTHERS_WAIT && worst < OTHERS_WAIT_MAX,
        "{statement} beside {beside}: median {median:?}, worst {worst:?}"
    );
    Ok(())
}

/// Queries that run for minutes, more than run at a time, hold up no short one: neither one that reads a small table, nor one
/// that changes it, on a session that is known to the server or on a new one.
async fn long_queries() -> Result<()> {
    const LONG: usize = 12;
    let server = Server::start(&["--threads", "2"])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE small AS SELECT x AS id, x % 100 AS a FROM generate_series(1, 10000) g(x); CREATE INDEX ON small (id); \
             CREATE TABLE big AS SELECT x, x % 1000 AS k, md5(x::text) AS s FROM generate_series(1, 1000000) g(x); \
             CREATE TABLE changed (x int); INSERT INTO changed VALUES (1)",
        )
        .await?;
    let mut long = vec![];
    for number in 0..LONG {
        let mut client = RawClient::connect(&server)?;
        client.send_query(match number % 4 {
            0 => "SELECT count(*) FROM big a JOIN big b ON a.x < b.x + b.k",
            1 => "SELECT s FROM big WHERE regexp_replace(repeat(s, 20), '(a|b)*(d|e)', 'x', 'g') LIKE '%xxx'",
            _ => "SELECT count(*), sum(a.x + b.x) FROM big a JOIN big b USING (k) WHERE a.x <> b.x + 1",
        })?;
        long.push(client);
    }
    let mut asleep = RawClient::connect(&server)?;
    asleep.send_query("SELECT pg_sleep(1000) FROM big")?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let new = server.connect().await?;
    for client in [&client, &new] {
        for statement in [
            ("SELECT a FROM small WHERE id = 77", "77"),
            ("SELECT count(*) || ' ' || sum(a) FROM small", "10000 495000"),
            ("SELECT count(*) FROM small s JOIN small t USING (id)", "10000"),
            ("UPDATE changed SET x = 1 RETURNING x", "1"),
        ] {
            short_statement(client, statement, "long queries").await?;
        }
    }
    Ok(())
}

/// Statements that take long to parse or plan end by their time, and others go on meanwhile.
async fn planning() -> Result<()> {
    let server = Server::start(&["--threads", "2"])?;
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE t (a int, b int, s text)").await?;
    let list = |number: usize, between: &str, item: &dyn Fn(usize) -> String| {
        let items: Vec<String> = (0..number).map(item).collect();
        items.join(between)
    };
    let statements = [
        format!(
            "WITH c0 AS (SELECT a FROM t), {} SELECT * FROM c1000",
            list(1000, ", ", &|n| format!("c{} AS (SELECT a + 1 AS a FROM c{n})", n + 1))
        ),
        format!("SELECT {} FROM t", list(1000, " || ", &|_| "s".into())),
        list(1000, " UNION ", &|_| "SELECT a, b FROM t".into()),
        list(80, " EXCEPT ALL ", &|_| "SELECT a, b FROM t".into()),
        format!(
            "SELECT {} FROM t",
            list(250, ", ", &|n| format!(
                "sum(a + {n}) OVER (ORDER BY lower(s || '{n}'))"
            ))
        ),
        format!("SELECT {} FROM t", list(20_000, ", ", &|_| "lower(s)".into())),
        format!(
            "WITH {} SELECT 1 FROM c0",
            list(8_000, ", ", &|n| format!("c{n} AS (SELECT a + {n} AS x FROM t)"))
        ),
        format!(
            "SELECT 1 FROM t WHERE {}",
            list(1000, " OR ", &|n| format!(
                "EXISTS (SELECT a + {n} FROM t u WHERE u.a = t.b)"
            ))
        ),
        format!("SELECT ARRAY[{}]", list(60_000, ", ", &|n| n.to_string())),
        format!(
            "SELECT a FROM t WHERE a IN ({})",
            list(60_000, ", ", &|n| n.to_string())
        ),
        format!(
            "SELECT a FROM t WHERE {}",
            list(5000, " AND ", &|n| format!("a <> {n}"))
        ),
        format!("SELECT {} FROM t WHERE )", list(60_000, ", ", &|n| n.to_string())),
        format!(
            "DELETE FROM t WHERE (a, s) IN (VALUES {})",
            list(20_000, ", ", &|n| format!("({n}, 'x{n}')"))
        ),
        format!("SELECT '{{}}'::jsonb{}", " -> 'a'".repeat(190)),
        format!("SELECT '{{}}'::jsonb{}", " -> 'a'".repeat(1000)),
        format!("SELECT a{} FROM t", "::text::int".repeat(500)),
        format!(
            "SELECT 1 FROM t t0 {}",
            list(1000, " ", &|n| format!("JOIN t t{0} ON t{n}.a = t{0}.a", n + 1))
        ),
    ];
    let others = Others::start(&server, "SELECT count(*) FROM t")?;
    for statement in &statements {
        let mut planned = RawClient::connect(&server)?;
        planned.count_rows("SET statement_timeout = '500ms'")?;
        for extended in [false, true] {
            let begun = Instant::now();
            match extended {
                false => planned.send_query(statement)?,
                true => {
                    planned.send(b'P', &[b"\0", statement.as_bytes(), b"\0\0\0"].concat())?;
                    planned.send(b'B', b"\0\0\0\0\0\0\0\0")?;
                    planned.send(b'E', b"\0\0\0\0\0")?;
                    planned.send(b'S', b"")?;
                }
            }
            let state = crate::raw::error_state(&planned.until_ready()?);
            let took = begun.elapsed();
            let waited = others.waited()?;
            let told = format!(
                "{}: {state:?} after {took:?}, others waited {waited:?}",
                &statement[..60]
            );
            println!("bounds: {told}");
            ensure!(waited < OTHERS_WAIT_MAX, "{told}");
            ensure!(
                matches!(state.as_deref(), None | Some("57014" | "54001" | "54011" | "42601")),
                "{told}"
            );
            ensure!(took < Duration::from_secs(20), "{told}");
        }
    }
    Ok(())
}

/// A client that sends one short statement after the other, and looks how long it waits.
struct Others {
    worst_us: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<Result<()>>>,
}

impl Others {
    fn start(server: &Server, statement: &'static str) -> Result<Self> {
        let mut client = RawClient::connect(server)?;
        let (worst_us, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (worst, end) = (worst_us.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let (_, error) = client.count_rows(statement)?;
                ensure!(error.is_none(), "{statement}: {error:?}");
                worst.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(3));
            }
            Ok(())
        });
        Ok(Self {
            worst_us,
            ends,
            thread: Some(thread),
        })
    }

    /// The longest wait since it was last asked for.
    fn waited(&self) -> Result<Duration> {
        ensure!(
            self.thread.as_ref().is_some_and(|thread| !thread.is_finished()),
            "the others have failed"
        );
        Ok(Duration::from_micros(self.worst_us.swap(0, Ordering::Relaxed)))
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && let Ok(Err(error)) = thread.join()
        {
            eprintln!("{error:#}");
        }
    }
}

/// Statements that would take far more memory than queries have: each ends, by its end, by 53200 or 54000, or by its time.
async fn memory(threads: &str) -> Result<()> {
    const LIMIT_MIB: u64 = 256;
    let limit = format!("{LIMIT_MIB}MiB");
    let mut server = Server::start_without_gpu(&["--query-memory-limit", &limit, "--threads", threads])?;
    let statements = include_str!("../bounds/memory.sql");
    let mut told = vec![];
    for statement in statements
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("--"))
    {
        let begun = Instant::now();
        let mut client = RawClient::connect(&server)?;
        client.count_rows("SET statement_timeout = '3s'")?;
        let (_, error) = client.count_rows(statement).with_context(|| statement.to_owned())?;
        ensure!(server.is_alive()?, "{statement}: {}", server.log());
        let fine = [None, Some("53200"), Some("54000"), Some("57014")];
        if !fine.contains(&error.as_deref()) {
            told.push(format!("{statement}: {error:?}"));
        }
        if begun.elapsed() > Duration::from_secs(20) {
            told.push(format!("{statement}: {:?}", begun.elapsed()));
        }
    }
    // The program itself is much of a build for tests, and none of what statements take.
    let highest = server.resident_bytes()?.1 - server.program_bytes()?;
    // What allocators keep for each thread.
    let room_mib = if threads == "2" { 150 } else { 256 };
    println!(
        "bounds::memory, {threads} threads: the server grew to {} MiB",
        highest / MIB
    );
    ensure!(told.is_empty(), "{}", told.join("\n"));
    ensure!(
        highest < (LIMIT_MIB + room_mib) * MIB,
        "the server grew to {} MiB",
        highest / MIB
    );
    ensure!(!server.log().contains("panicked"), "{}", server.log());
    Ok(())
}

/// Queries of many threads that go through files leave no more resident than others do, while they run and afterwards.
async fn memory_of_files() -> Result<()> {
    const LIMIT_MIB: u64 = 128;
    let directory = tempfile::tempdir()?;
    let limit = format!("{LIMIT_MIB}MiB");
    let path = directory.path().display().to_string();
    let server = Server::start(&["--query-memory-limit", &limit, "--threads", "16", "--spill-dir", &path])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE m AS SELECT x % 500009 AS b, md5(x::text) AS s FROM generate_series(1, 1500000) g(x)",
        )
        .await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let threads = server.threads()?;
    let tables = server.resident_bytes()?.0 - server.program_bytes()?;
    for _ in 0..3 {
        let distinct = "SELECT count(DISTINCT b) + count(DISTINCT s) FROM m HAVING count(*) = 1500000";
        ensure!(value(&client, distinct).await? == "2000009");
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (now, highest) = server.resident_bytes()?;
    let beside = |bytes: u64| (bytes - server.program_bytes().unwrap_or(0)).saturating_sub(tables) / MIB;
    let (now, highest) = (beside(now), beside(highest));
    println!("bounds::memory_of_files: the server grew by {highest} MiB, and {now} MiB stayed");
    ensure!(highest < LIMIT_MIB + 256, "the server grew by {highest} MiB");
    ensure!(now < LIMIT_MIB, "{now} MiB stayed");
    // What each thread keeps for itself is nobody's.
    let more = server.threads()?.saturating_sub(threads);
    ensure!(more < 32, "{more} threads more");
    ensure!(
        std::fs::read_dir(directory.path())?.next().is_none(),
        "files have stayed"
    );
    Ok(())
}

/// What a recursion has seen goes with its statement, whichever way that ends.
async fn recursion() -> Result<()> {
    const STATEMENTS: usize = 25;
    let server = Server::start(&[&LITTLE[..], &["2"]].concat())?;
    let client = server.connect().await?;
    let seen = "WITH RECURSIVE r(n) AS (SELECT x FROM generate_series(1, 200000) g(x) UNION";
    for (statement, expected) in [
        (
            format!("{seen} SELECT n + 1 FROM r WHERE n < 200100) SELECT count(*) FROM r"),
            Some("200100"),
        ),
        (
            format!("{seen} SELECT n + 1 FROM r) SELECT n FROM r LIMIT 1"),
            Some("1"),
        ),
        (
            format!("{seen} SELECT n / (n - 7) FROM r) SELECT count(*) FROM r"),
            None,
        ),
        (
            format!(
                "DECLARE c CURSOR WITH HOLD FOR {seen} SELECT n + 1 FROM r) SELECT n FROM r LIMIT 10; FETCH c; CLOSE c"
            ),
            Some("1"),
        ),
    ] {
        for number in 0..STATEMENTS {
            // As other texts, whose plans are others.
            let statement = statement.replace("200000)", &format!("{})", 200_000 - (number as i64 % 2)));
            match expected {
                Some(expected) => {
                    let found = value(&client, &statement)
                        .await
                        .with_context(|| format!("{statement}, the {number}th"))?;
                    ensure!(found == expected, "{statement}: {found}");
                }
                None => {
                    let state = failing(&client, &statement).await?;
                    ensure!(state == "22012", "{statement}: {state}");
                }
            }
        }
    }
    // As many groups as there was room for at the beginning.
    let groups = "SELECT count(*) FROM (SELECT DISTINCT x FROM generate_series(1, 500000) g(x)) q";
    ensure!(value(&client, groups).await? == "500000");
    Ok(())
}

/// Tables up to their limit and past it, with an index: what is resident stays near the two limits together.
async fn tables() -> Result<()> {
    let server = Server::start(&[
        "--memory-limit",
        "512MiB",
        "--query-memory-limit",
        "256MiB",
        "--threads",
        "2",
    ])?;
    let client = server.connect().await?;
    client
        .batch_execute("CREATE TABLE big (x int8, s text); CREATE INDEX ON big (x)")
        .await?;
    let insert = "INSERT INTO big SELECT x, 'row number ' || x || repeat('z', 50) FROM generate_series(1, 200000) g(x)";
    let mut state = None;
    for _ in 0..100 {
        if let Err(error) = client.batch_execute(insert).await {
            state = Some(sql_state(&error));
            break;
        }
    }
    ensure!(state.as_deref() == Some("53200"), "filling memory answered {state:?}");
    // The same by COPY.
    let mut copy = RawClient::connect(&server)?;
    copy.send_query("COPY big FROM STDIN")?;
    let lines: Vec<u8> = (0..20_000)
        .flat_map(|x| format!("{x}\trow number {x} {}\n", "z".repeat(200)).into_bytes())
        .collect();
    for _ in 0..100 {
        if copy.send(b'd', &lines).is_err() {
            break;
        }
    }
    let _ = copy.send(b'c', b"");
    let answer = copy.until_ready()?;
    ensure!(crate::raw::error_state(&answer).as_deref() == Some("53200"));
    ensure!(value(&client, "SELECT count(*) > 0 FROM big WHERE x = 77").await? == "t");
    let (_, highest) = server.resident_bytes()?;
    println!("bounds::tables: the server grew to {} MiB", highest / MIB);
    let update = failing(&client, "UPDATE big SET s = s || 'y'").await?;
    ensure!(update == "53200", "{update}");
    let (_, highest) = server.resident_bytes()?;
    println!("bounds::tables: by an UPDATE, to {} MiB", highest / MIB);
    let allowed = (512 + 256) * MIB * 5 / 4;
    ensure!(highest < allowed, "the server grew to {} MiB", highest / MIB);
    Ok(())
}

/// Clients that stop reading hold up nobody, and go on where they read again.
async fn stalled_readers() -> Result<()> {
    const STALLED: usize = 200;
    let server = Server::start(&["--threads", "2", "--max-connections", "300"])?;
    let other = server.connect().await?;
    let mut stalled = vec![];
    for number in 0..STALLED {
        let mut client = RawClient::connect(&server)?;
        // Rows made as they are read, sorted ones, and a join's.
        client.send_query(match number % 4 {
            0 => "SELECT x, md5(x::text) FROM generate_series(1, 30000) g(x) ORDER BY 2",
            1 => "SELECT a.x, repeat('y', 1000) FROM generate_series(1, 30000) a(x) JOIN generate_series(1, 30000) b(x) ON a.x = b.x",
            _ => "SELECT x, repeat('y', 1000) FROM generate_series(1, 30000) g(x)",
        })?;
        stalled.push(client);
    }
    short_statements(&other, "queries that begin").await?;
    // Until all have filled what lies between them and their clients.
    let begun = Instant::now();
    let mut busy = server.processor_ticks()?;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = server.processor_ticks()?;
        if now - busy <= 5 {
            break;
        }
        ensure!(
            begun.elapsed() < Duration::from_secs(120),
            "the stalled queries go on working"
        );
        busy = now;
    }
    let resident = server.resident_bytes()?.0 / MIB;
    println!(
        "bounds::stalled_readers: at rest after {:?}, with {resident} MiB",
        begun.elapsed()
    );
    short_statements(&other, "stalled readers").await?;
    let begun = Instant::now();
    drop(server.connect().await?);
    ensure!(
        begun.elapsed() < OTHERS_WAIT_MAX,
        "a connection took {:?}",
        begun.elapsed()
    );
    ensure!(value(&other, "SELECT count(*) FROM generate_series(1, 1000000)").await? == "1000000");
    for client in &mut stalled[..5] {
        let rows = client
            .until_ready()?
            .iter()
            .filter(|message| message.kind == b'D')
            .count();
        ensure!(rows == 30_000, "{rows} rows");
    }
    Ok(())
}

/// A client that reads nothing for too long is sent away.
async fn stalled_timeout() -> Result<()> {
    let server = Server::start(&["--client-stalled-timeout", "1s"])?;
    let mut client = RawClient::connect(&server)?;
    client.send_query("SELECT x, repeat('y', 1000) FROM generate_series(1, 1000000) g(x)")?;
    let begun = Instant::now();
    while !server.log().contains("08006") {
        ensure!(begun.elapsed() < Duration::from_secs(20), "{}", server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let other = server.connect().await?;
    ensure!(value(&other, "SHOW tenon.client_stalled_timeout").await? == "1s");
    Ok(())
}

/// As in PostgreSQL: 57P05 and 25P03.
async fn idle_timeouts() -> Result<()> {
    let server = Server::start(&[])?;
    for (setup, state) in [
        ("SET idle_session_timeout = '300ms'", "57P05"),
        ("SET idle_in_transaction_session_timeout = '300ms'; BEGIN", "25P03"),
    ] {
        let mut client = RawClient::connect(&server)?;
        for statement in setup.split("; ") {
            client.count_rows(statement)?;
        }
        let end = client.until_ready()?;
        let told = crate::raw::error_state(&end);
        ensure!(told.as_deref() == Some(state), "{setup}: {told:?}");
    }
    Ok(())
}

/// Cursors with a row fetched and more to come, in one session and in many: others go on, and so do their own sessions.
async fn open_cursors() -> Result<()> {
    const CURSORS: usize = 200;
    let server = Server::start(&["--threads", "2", "--max-connections", "300"])?;
    let query = "SELECT x FROM generate_series(1, 1000000) g(x)";
    let holder = server.connect().await?;
    holder.batch_execute("BEGIN").await?;
    for number in 0..CURSORS {
        holder
            .batch_execute(&format!("DECLARE c{number} CURSOR FOR {query}; FETCH 1 FROM c{number}"))
            .await?;
    }
    let other = server.connect().await?;
    short_statements(&other, "the cursors of one session").await?;
    let mut holders = vec![];
    for number in 0..CURSORS {
        let client = server.connect().await?;
        let ordered = ["", " ORDER BY x % 1000, x"][usize::from(number % 10 == 0)];
        let declare = format!("BEGIN; DECLARE c CURSOR FOR {query}{ordered}; FETCH 1 FROM c");
        client.batch_execute(&declare).await?;
        holders.push(client);
    }
    short_statements(&other, "cursors of as many sessions").await?;
    println!("bounds::open_cursors: {} MiB", server.resident_bytes()?.0 / MIB);
    ensure!(value(&holder, "SELECT count(*) FROM generate_series(1, 100000)").await? == "100000");
    for (client, cursor) in [(&holder, "c7"), (&holders[0], "c"), (&holders[7], "c")] {
        let last = rows(client, &format!("FETCH ALL FROM {cursor}")).await?;
        ensure!(last.len() == 999_999, "{} rows", last.len());
    }
    Ok(())
}

/// A thousand connections, some of them at work: memory stays flat.
async fn many_connections() -> Result<()> {
    const ACTIVE: usize = 64;
    let connections = std::env::var("TENON_BOUNDS_CONNECTIONS").ok();
    let connections: usize = connections.and_then(|text| text.parse().ok()).unwrap_or(1000);
    // Fewer than the connections, as most machines begin: the server takes what it needs.
    tenon::descriptors::raise();
    let server = Server::start_in("ulimit -S -n 512", &["--max-connections", "1100", "--threads", "2"])?;
    let mut idle = vec![];
    for _ in 0..connections - ACTIVE {
        idle.push(server.connect().await?);
    }
    // What is kept of statements, up to its limits, is there once each has sent some.
    const STATEMENTS_WARM: u64 = 7 * 20 * ACTIVE as u64;
    let (statements, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = |number: usize| {
        let (server, statements, ended) = (&server, &statements, &ended);
        async move {
            let client = server.connect().await?;
            while !ended.load(Ordering::Relaxed) {
                let sum = value(&client, "SELECT sum(x) FROM generate_series(1, 10000) g(x)").await?;
                ensure!(sum == "50005000");
                ensure!(value(&client, &format!("SELECT {number}")).await? == number.to_string());
                // What sessions and the server keep: plans, tables, snapshots, errors, connections.
                let made = format!("SELECT $1::int8 + {}", statements.load(Ordering::Relaxed) % 1000);
                client.query_one(&made, &[&1i64]).await?;
                client
                    .batch_execute("CREATE TEMP TABLE t (x int); INSERT INTO t VALUES (1), (2); DROP TABLE t")
                    .await?;
                ensure!(failing(&client, "SELECT 1 / 0").await? == "22012");
                drop(server.connect().await?);
                statements.fetch_add(7, Ordering::Relaxed);
            }
            anyhow::Ok(())
        }
    };
    let watch = async {
        let begun = Instant::now();
        while statements.load(Ordering::Relaxed) < STATEMENTS_WARM && begun.elapsed() < Duration::from_secs(120) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let early = server.resident_bytes();
        tokio::time::sleep(random_time()).await;
        ended.store(true, Ordering::Relaxed);
        anyhow::Ok((early?.0, server.resident_bytes()?.0))
    };
    let all = futures::future::join_all((0..ACTIVE).map(work));
    let (all, resident) = tokio::join!(all, watch);
    all.into_iter().collect::<Result<()>>()?;
    let (early, late) = resident?;
    let statements = statements.into_inner();
    ensure!(statements >= STATEMENTS_WARM, "{statements} statements in two minutes");
    println!(
        "bounds::many_connections: {statements} statements; {} MiB, then {} MiB",
        early / MIB,
        late / MIB
    );
    ensure!(
        late < early + early / 4 + 64 * MIB,
        "{} MiB, then {} MiB",
        early / MIB,
        late / MIB
    );
    drop(idle);
    Ok(())
}

/// With a directory to spill to, what does not fit goes on through files; the limit of these counts, and they go.
async fn spilling() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().display().to_string();
    let statements = [
        (
            "SELECT count(*) FROM (SELECT s, count(*) AS c FROM \
             (SELECT md5(x::text) || repeat('z', 100) AS s FROM generate_series(1, 1000000) g(x)) t GROUP BY s) q",
            "1000000",
        ),
        (
            "SELECT count(*) FROM (SELECT x % 999983 AS k, md5(x::text) AS s FROM generate_series(1, 1500000) g(x) \
             ORDER BY 1, 2 OFFSET 10) q",
            "1499990",
        ),
        // Window functions: one value for all rows, few partitions, many, and frames that move.
        (
            "SELECT count(*) FROM (SELECT s, sum(x) OVER () AS w FROM (SELECT x, md5(x::text) || repeat('z', 100) AS s \
             FROM generate_series(1, 600000) g(x)) t) q WHERE w = 180000300000 AND length(s) = 132",
            "600000",
        ),
        (
            "SELECT count(*) FROM (SELECT s, count(s) OVER (PARTITION BY x % 3) AS w FROM (SELECT x, md5(x::text) || \
             repeat('z', 100) AS s FROM generate_series(1, 600000) g(x)) t) q WHERE w = 200000 AND length(s) = 132",
            "600000",
        ),
        (
            "SELECT count(*) FROM (SELECT s, ntile(2) OVER (PARTITION BY x % 60000 ORDER BY x) AS w FROM (SELECT x, \
             md5(x::text) || repeat('z', 100) AS s FROM generate_series(1, 600000) g(x)) t) q \
             WHERE w = 2 AND length(s) = 132",
            "300000",
        ),
        (
            "SELECT count(*) FROM (SELECT s, lag(s) OVER (ORDER BY s) AS w FROM (SELECT x, md5(x::text) || \
             repeat('z', 100) AS s FROM generate_series(1, 600000) g(x)) t) q WHERE w < s",
            "599999",
        ),
        // Both sides of a join.
        (
            "SELECT count(*) FROM (SELECT x, md5(x::text) || repeat('z', 100) AS s FROM generate_series(1, 400000) g(x)) a \
             FULL JOIN (SELECT x, md5(x::text) || repeat('y', 100) AS s FROM generate_series(1, 400000) g(x)) b \
             ON a.x = b.x + 10 WHERE a.s IS NULL OR b.s IS NULL OR a.s <> b.s",
            "400010",
        ),
        // Tables: their batches are slices of segments.
        (
            "SELECT count(*) FROM (SELECT * FROM t ORDER BY k, s OFFSET 10) q",
            "1199990",
        ),
        (
            "SELECT count(*) FROM (SELECT DISTINCT s, k FROM t UNION SELECT s || '1', k FROM t) q",
            "2400000",
        ),
        (
            "SELECT count(*) FROM t a JOIN t b ON a.s = b.s AND a.k < b.x + 2000000",
            "1200000",
        ),
        // Joins by no equality.
        (
            "SELECT count(*) || max(b.s) FROM (SELECT * FROM t WHERE x % 10000 = 7) a JOIN t b ON b.x > a.x AND b.x < a.x + 3",
            "240fe06e3eb679ce59e929016f99d039047",
        ),
        (
            "SELECT count(*) || ' ' || count(b.s) || max(b.s) FROM (SELECT x FROM t WHERE x % 100000 = 7 OR x = 1200000) a \
             LEFT JOIN t b ON b.x > a.x AND b.x < a.x + 3",
            "25 24eebb54cfd8f3db802fb39a5eacf5be74",
        ),
        (
            "SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY x % 3 ORDER BY s) AS r, lag(s) OVER (ORDER BY s) \
             AS l FROM t) q WHERE r > 0 AND l > ''",
            "1199999",
        ),
        // Sets of values beside other aggregates; a join that knows nulls; functions of their partition's rows.
        ("SELECT count(DISTINCT s) FROM t HAVING count(*) = 1200000", "1200000"),
        (
            "SELECT sum(c) FROM (SELECT count(DISTINCT s) FILTER (WHERE k > 0) AS c, count(*) AS n FROM t GROUP BY x % 7) q \
             WHERE n > 170000",
            "1199999",
        ),
        (
            "SELECT count(*) FROM t WHERE s NOT IN (SELECT s || '1' FROM t)",
            "1200000",
        ),
        (
            "SELECT count(*) FROM t WHERE NOT (s IN (SELECT nullif(s, md5('7')) FROM t))",
            "0",
        ),
        (
            "SELECT count(*) FROM (SELECT ntile(12) OVER (ORDER BY s) AS n, percent_rank() OVER (ORDER BY x) AS p, \
             cume_dist() OVER (PARTITION BY x % 3 ORDER BY k) AS c FROM t) q WHERE n = 12 AND p >= 0 AND c > 0",
            "100000",
        ),
        // Frames that reach to the end of their partition, whichever order the rows have.
        (
            "SELECT sum(w) FROM (SELECT count(*) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS w FROM t) q",
            "720000600000",
        ),
        (
            "SELECT sum(w) FROM (SELECT count(*) OVER (ORDER BY s DESC ROWS BETWEEN 3 FOLLOWING AND UNBOUNDED FOLLOWING) AS w \
             FROM t) q",
            "719997000003",
        ),
        (
            "SELECT count(*) FROM (SELECT s, first_value(s) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) \
             AS f, last_value(x) OVER (PARTITION BY x % 3 ORDER BY s ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) \
             AS l FROM t) q WHERE s = f AND l > 3",
            "1200000",
        ),
        // Two columns of texts.
        (
            "SELECT count(*) FROM (SELECT DISTINCT s, repeat(s, 10) || x % 100 FROM t) q",
            "1200000",
        ),
        (
            "SELECT count(*) FROM (SELECT x, s FROM t EXCEPT SELECT x, s FROM t WHERE x % 2 = 0) q",
            "600000",
        ),
        // Values by their place in order; sets of values by several keys.
        (
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) || percentile_disc(0.25) WITHIN GROUP (ORDER BY s) FROM t",
            "600000.53fd37eadd7bbf686eb198e9806b1480a",
        ),
        (
            "SELECT sum(p) FROM (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS p FROM t GROUP BY k % 1000) q",
            "600000500",
        ),
        (
            "SELECT sum(m) FROM (SELECT mode() WITHIN GROUP (ORDER BY x) AS m FROM t GROUP BY k % 7) q",
            "28",
        ),
        (
            "SELECT sum(c) FROM (SELECT count(DISTINCT s) AS c, sum(DISTINCT x), count(*) FROM t \
             GROUP BY GROUPING SETS ((k % 7), (k % 3), ())) q",
            "3600000",
        ),
    ];
    let with = go_through_files(&path, &statements).await?;
    // What a run in memory held when it was given up must not count in the run through files, however far its tasks were.
    for _ in 0..4 {
        let given_up = "SELECT count(*) FROM t WHERE s NOT IN (SELECT s || '1' FROM t)";
        let found = rows(&with[1].connect().await?, given_up).await?;
        ensure!(found[0][0].as_deref() == Some("1200000"), "{given_up}: {found:?}");
    }
    let narrow = Server::start(&[&LITTLE[..], &["2", "--spill-dir", &path, "--spill-limit", "1MiB"]].concat())?;
    let state = failing(&narrow.connect().await?, statements[0].0).await?;
    ensure!(state == "53100" || state == "53200", "past the limit of files: {state}");
    drop((with, narrow));
    Ok(())
}

/// What a server may hold for queries that does not suffice for most of those of these trials.
const LITTLE: [&str; 3] = ["--query-memory-limit", "64MiB", "--threads"];

/// Each of the statements fails without files, and gives the value with them. Gives the servers that have files, of few threads and
/// of many.
async fn go_through_files(path: &str, statements: &[(&str, &str)]) -> Result<[Server; 2]> {
    let without = Server::start(&[&LITTLE[..], &["2"]].concat())?;
    let with = |threads| Server::start(&[&LITTLE[..], &[threads, "--spill-dir", path]].concat());
    let with = [with("2")?, with("8")?];
    let table = "CREATE TABLE t AS SELECT x, x % 999983 AS k, md5(x::text) AS s FROM generate_series(1, 1200000) g(x)";
    for server in [&without, &with[0], &with[1]] {
        server.connect().await?.batch_execute(table).await?;
    }
    for (number, (statement, expected)) in statements.iter().enumerate() {
        let state = failing(&without.connect().await?, statement).await?;
        ensure!(state == "53200", "{statement}: {state}");
        let found = rows(&with[number % 2].connect().await?, statement).await?;
        ensure!(found[0][0].as_deref() == Some(*expected), "{statement}: {found:?}");
    }
    Ok(with)
}

/// Frames that move along a partition that does not fit, also beside functions of other frames.
async fn moving_frames() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let statements = [
        (
            "SELECT sum(length(w)) FROM (SELECT nth_value(s, 2) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND 5 FOLLOWING) AS w \
             FROM t) q",
            "38399968",
        ),
        (
            "SELECT sum(w) FROM (SELECT sum(x) OVER (ORDER BY k GROUPS BETWEEN 2 PRECEDING AND 3 FOLLOWING) AS w FROM t) q",
            "5760111200362",
        ),
        (
            "SELECT sum(length(w)), sum(v) FROM (SELECT nth_value(s, 3) OVER (ORDER BY k RANGE BETWEEN 3 PRECEDING AND 3 \
             FOLLOWING) AS w, sum(x) OVER (ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS v FROM t) q",
            "38400000",
        ),
        (
            "SELECT sum(w) FROM (SELECT count(*) OVER (ORDER BY k / 3 ROWS BETWEEN 2 PRECEDING AND 3 FOLLOWING EXCLUDE TIES) \
             AS w FROM t) q",
            "4199942",
        ),
        (
            "SELECT sum(r + length(w)) FROM (SELECT row_number() OVER (ORDER BY x) AS r, nth_value(s, 2) OVER (ORDER BY x ROWS \
             BETWEEN CURRENT ROW AND 5 FOLLOWING) AS w FROM t) q",
            "720037799968",
        ),
        // Rows at a distance, with what there is where there is no such row.
        (
            "SELECT count(w) || ' ' || sum(length(w)) FROM (SELECT lag(s, 1, 'none') OVER (ORDER BY x) AS w FROM t) q",
            "1200000 38399972",
        ),
        (
            "SELECT sum(w) || ' ' || sum(length(v)) FROM (SELECT lead(x, 2, -x) OVER (PARTITION BY x % 3 ORDER BY s DESC) AS w, \
             lag(s, -3, k::text) OVER (PARTITION BY x % 3 ORDER BY x) AS v FROM t) q",
            "719995286136 38399766",
        ),
    ];
    go_through_files(&directory.path().display().to_string(), &statements).await?;
    Ok(())
}

/// Frames that begin or end with a partition that does not fit, by offsets of RANGE and GROUPS; `nth_value` from its beginning, to its
/// end, and over all of it.
async fn frames_of_all_before() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let statements = [
        (
            "SELECT sum(w) FROM (SELECT count(*) OVER (ORDER BY k RANGE BETWEEN 10 PRECEDING AND UNBOUNDED FOLLOWING) AS w FROM t) q",
            "720016800202",
        ),
        (
            "SELECT sum(w) FROM (SELECT count(*) OVER (ORDER BY k RANGE BETWEEN UNBOUNDED PRECEDING AND 10 FOLLOWING) AS w FROM t) q",
            "720016800202",
        ),
        (
            "SELECT sum(w), sum(v) FROM (SELECT count(*) OVER (ORDER BY k GROUPS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING) AS w, \
             last_value(x) OVER (ORDER BY k GROUPS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS v FROM t) q",
            "720004000078",
        ),
        (
            "SELECT count(w) FROM (SELECT nth_value(s, 3) OVER (ORDER BY x) AS w FROM t) q",
            "1199998",
        ),
        (
            "SELECT count(*) FROM (SELECT nth_value(s, 3) OVER (PARTITION BY x % 3 ORDER BY x ROWS BETWEEN CURRENT ROW AND \
             UNBOUNDED FOLLOWING) AS w, nth_value(s, 4) OVER (PARTITION BY x % 3 ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING \
             AND UNBOUNDED FOLLOWING) AS v FROM t) q WHERE w <> v OR w IS NULL",
            "1199997",
        ),
    ];
    go_through_files(&directory.path().display().to_string(), &statements).await?;
    Ok(())
}

/// Lists of each group's values, the first rows of an order where these are many, rows that a query reads twice.
async fn lists_and_beginnings() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let statements = [
        (
            "SELECT sum(length(l)) FROM (SELECT string_agg(s, ',') AS l FROM t GROUP BY k % 1000) q",
            "39599000",
        ),
        (
            "SELECT sum(cardinality(l)) FROM (SELECT array_agg(s || 'x') AS l, count(*) FROM t GROUP BY k % 1000) q",
            "1200000",
        ),
        (
            "SELECT sum(length(l)) FROM (SELECT string_agg(DISTINCT s, ',') AS l FROM t GROUP BY k % 1000) q",
            "39599000",
        ),
        (
            "SELECT md5(max(l)) || sum(length(l)) || sum(n) FROM (SELECT string_agg(DISTINCT s, ',' ORDER BY s DESC) AS l, count(*) AS n \
             FROM t GROUP BY k % 1000) q",
            "cc0451aeb2b0a75ca77d689158d02886395990001200000",
        ),
        (
            "SELECT sum(cardinality(l)) FROM (SELECT array_agg(DISTINCT s || 'x') AS l FROM t GROUP BY k % 1000) q",
            "1200000",
        ),
        (
            "SELECT count(*) || max(s) FROM (SELECT s FROM t ORDER BY s LIMIT 900000) q",
            "900000c051326d1b571b18b19f698ae6a2e4f9",
        ),
        (
            "WITH q AS MATERIALIZED (SELECT s, x FROM t) SELECT count(*) FROM q a JOIN q b USING (x) WHERE a.s = b.s",
            "1200000",
        ),
        (
            "SELECT count(*) FROM (SELECT s, x FROM t INTERSECT ALL SELECT s, x FROM t) q",
            "1200000",
        ),
    ];
    go_through_files(&directory.path().display().to_string(), &statements).await?;
    Ok(())
}

/// Rows on their way to a table are not held until all are there.
async fn wide_rows() -> Result<()> {
    let server = Server::start(&[&LITTLE[..], &["2"]].concat())?;
    let client = server.connect().await?;
    let wide = "AS SELECT g, repeat(md5(g::text), 30) AS s FROM generate_series(1, 300000) g(g)";
    for statement in [
        &format!("CREATE TABLE wide {wide}"),
        "BEGIN",
        &format!("CREATE TABLE others {wide}"),
    ] {
        client.batch_execute(statement).await?;
    }
    client
        .batch_execute("INSERT INTO wide SELECT * FROM others; COMMIT")
        .await?;
    let found = value(&client, "SELECT sum(length(s)) FROM wide").await?;
    ensure!(found == "576000000", "{found} bytes of wide rows");
    Ok(())
}

/// Random statements over the catalog and a few tables: none ends in an internal error, and none takes the server along.
async fn sqlsmith() -> Result<()> {
    let mut server = Server::start(&[
        "--query-memory-limit",
        "1GiB",
        "--statement-timeout",
        "2s",
        "--log-level",
        "info,tenon::wire=debug",
    ])?;
    let client = server.connect().await?;
    client.batch_execute(include_str!("../bounds/sqlsmith.sql")).await?;
    let seed = std::env::var("TENON_SEED").unwrap_or_else(|_| std::process::id().to_string());
    println!("bounds::sqlsmith: seed {seed}");
    let log = tempfile::NamedTempFile::new()?;
    let mut child = Command::new("sqlsmith")
        .arg(format!("--target={}", server.dsn()))
        .arg(format!("--seed={seed}"))
        .args(["--max-queries=1000000", "--verbose"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.reopen()?)
        .spawn()
        .context("cannot run sqlsmith: run scripts/install-test-deps.sh first")?;
    // It asks for each function's parameters first.
    let mut end = Instant::now() + READING_MAX;
    let (mut early, mut reads) = (None, true);
    while Instant::now() < end && early.is_none() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        early = child.try_wait()?;
        if reads && std::fs::read_to_string(log.path())?.contains("aggregate parameters...done") {
            reads = false;
            end = Instant::now() + random_time();
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    let told = std::fs::read_to_string(log.path())?;
    ensure!(early.is_none() && !reads, "sqlsmith ended with {early:?}:\n{told}");
    ensure!(server.is_alive()?, "{}", server.log());
    let log = server.log();
    let internal: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("XX000") || line.contains("panicked"))
        .collect();
    ensure!(internal.is_empty(), "{}", internal.join("\n"));
    Ok(())
}
