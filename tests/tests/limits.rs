//! Memory: results of any length in constant memory, tables bounded by `--memory-limit`, and life after either.

use crate::process::{Server, failing, value};
use crate::raw::RawClient;
use crate::trial;
use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use std::path::{Path, PathBuf};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("limits::ten_million_rows", ten_million_rows),
        trial("limits::slow_reader", slow_reader),
        trial("limits::memory_limit", memory_limit),
        trial("limits::control_group", control_group),
        trial("limits::query_memory", query_memory),
        trial("limits::long_conditions", long_conditions),
        trial("limits::long_chains", long_chains),
        trial("limits::stack_depth", stack_depth),
    ]
}

const MIB: u64 = 1 << 20;

async fn ten_million_rows() -> Result<()> {
    let server = Server::start(&[])?;
    let mut client = RawClient::connect(&server)?;
    client.count_rows("SELECT x, x * 2, 'some text ' || x FROM generate_series(1, 1000) g(x)")?;
    let (before, _) = server.resident_bytes()?;
    let (rows, error) = client.count_rows("SELECT x, x * 2, 'some text' FROM generate_series(1, 10000000) g(x)")?;
    ensure!(error.is_none() && rows == 10_000_000, "{rows} rows, error {error:?}");
    let (_, highest) = server.resident_bytes()?;
    let grown = highest.saturating_sub(before) / MIB;
    println!("limits::ten_million_rows: resident memory grew by {grown} MiB");
    ensure!(grown < 150, "resident memory grew by {grown} MiB");
    Ok(())
}

/// A client that does not read holds the query back instead of filling the server's memory.
async fn slow_reader() -> Result<()> {
    let server = Server::start(&[])?;
    let mut client = RawClient::connect(&server)?;
    client.count_rows("SELECT 1")?;
    let (before, _) = server.resident_bytes()?;
    client.send_query("SELECT x, repeat('y', 1000) FROM generate_series(1, 5000000) g(x)")?;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let (now, _) = server.resident_bytes()?;
    let grown = now.saturating_sub(before) / MIB;
    ensure!(grown < 150, "resident memory grew by {grown} MiB with nobody reading");
    client.vanish();
    Ok(())
}

/// A control group for the trial, gone with it.
struct Group(PathBuf);

impl Group {
    /// With so much memory, of version 1 or 2, where this machine lets one be made.
    fn of_bytes(bytes: u64) -> std::io::Result<Self> {
        let name = format!("tenon-trial-{}", std::process::id());
        let version_1 = Path::new("/sys/fs/cgroup/memory");
        let (root, file) = match version_1.exists() {
            true => (version_1, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let group = Self(root.join(name));
        std::fs::create_dir(&group.0)?;
        std::fs::write(group.0.join(file), bytes.to_string())?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// In a control group the limits that nobody gave are shares of the group's memory: tables and queries end with 53200 before
/// the kernel ends the server.
async fn control_group() -> Result<()> {
    const GROUP_BYTES: u64 = 1 << 30;
    let group = match Group::of_bytes(GROUP_BYTES) {
        Ok(group) => group,
        Err(error) => {
            println!("not run: limits::control_group: no control group can be made here: {error}");
            return Ok(());
        }
    };
    let enter = format!("echo $$ > {}/cgroup.procs", group.0.display());
    let mut server = Server::start_in(&enter, &["--threads", "2"])?;
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE big (s text)").await?;
    let insert = "INSERT INTO big SELECT x || repeat('z', 1000) FROM generate_series(1, 40000) g(x)";
    let mut filled = 0;
    let state = loop {
        match client.batch_execute(insert).await {
            Ok(()) => filled += 1,
            Err(error) => break crate::process::sql_state(&error),
        }
        ensure!(filled < 100, "{filled} times 40 MB in a group of 1 GiB");
    };
    ensure!(state == "53200" && filled >= 5, "after {filled} times 40 MB: {state}");
    let query = "SELECT count(*) FROM (SELECT x || repeat('y', 1000), count(*) FROM generate_series(1, 1000000) g(x) GROUP BY 1) q";
    let state = failing(&client, query).await?;
    ensure!(state == "53200", "{state}");
    ensure!(value(&client, "SELECT 1").await? == "1" && server.is_alive()?);
    let (_, highest) = server.resident_bytes()?;
    println!(
        "limits::control_group: {filled} times 40 MB, up to {} MiB of 1024",
        highest / MIB
    );
    drop((server, group));
    Ok(())
}

async fn memory_limit() -> Result<()> {
    let mut server = Server::start(&["--memory-limit", "256MiB"])?;
    let client = server.connect().await?;
    client
        .batch_execute("CREATE TABLE kept AS SELECT x FROM generate_series(1, 1000) g(x)")
        .await?;
    client
        .batch_execute("CREATE TABLE big (x int8, y int8, s text)")
        .await?;
    let mut state = None;
    for _ in 0..20 {
        let insert = "INSERT INTO big SELECT x, x * 31, 'row number ' || x::text FROM generate_series(1, 1000000) g(x)";
        if let Err(error) = client.batch_execute(insert).await {
            state = Some(crate::process::sql_state(&error));
            break;
        }
    }
    ensure!(state.as_deref() == Some("53200"), "filling memory answered {state:?}");
    ensure!(server.is_alive()?, "{}", server.log());
    ensure!(value(&client, "SELECT sum(x) FROM kept").await? == "500500");
    client.batch_execute("DROP TABLE big").await?;
    client
        .batch_execute("CREATE TABLE again AS SELECT x FROM generate_series(1, 1000000) g(x)")
        .await?;
    ensure!(
        value(&client, "SELECT count(*) FROM again").await? == "1000000",
        "dropped tables keep their memory"
    );
    Ok(())
}

/// A query whose state does not fit fails alone, and what it had goes back.
async fn query_memory() -> Result<()> {
    let mut server = Server::start(&["--query-memory-limit", "256MiB"])?;
    let client = server.connect().await?;
    let rows = "FROM (SELECT x, x::text || repeat('z', 200) AS s FROM generate_series(1, 3000000) g(x)) r";
    let fails = async |aggregate: &str| -> Result<()> {
        let state = failing(&client, &format!("SELECT {aggregate} {rows}")).await?;
        ensure!(state == "53200", "{aggregate}: {state}");
        let grouped = format!("SELECT max(a) FROM (SELECT x % 10, {aggregate} AS a {rows} GROUP BY 1) g");
        let state = failing(&client, &grouped).await?;
        ensure!(state == "53200", "{aggregate} by group: {state}");
        Ok(())
    };
    for aggregate in [
        "cardinality(array_agg(s))",
        "cardinality(array_agg(s ORDER BY x DESC))",
        "cardinality(array_agg(DISTINCT s))",
        "length(string_agg(s, ','))",
        "length(string_agg(s, ',' ORDER BY x % 1000))",
        "length(string_agg(DISTINCT s, ','))",
        "count(DISTINCT s)",
    ] {
        fails(aggregate).await?;
    }
    // The allocator keeps some of what earlier queries gave back, for threads that may not use it.
    let (_, highest) = server.resident_bytes()?;
    println!("limits::query_memory: the server grew to {} MiB", highest / MIB);
    ensure!(highest < 640 * MIB, "the server grew to {} MiB", highest / MIB);
    ensure!(server.is_alive()?, "{}", server.log());
    let fits = "SELECT cardinality(array_agg(x::text || repeat('z', 200))) FROM generate_series(1, 100000) g(x)";
    ensure!(value(&client, fits).await? == "100000");
    Ok(())
}

/// A condition of thousands of terms is a tree as deep: it is answered, and the server lives on.
async fn long_conditions() -> Result<()> {
    let mut server = Server::start(&["--threads", "2"])?;
    let client = server.connect().await?;
    for terms in [500, 2_000] {
        let condition: Vec<String> = (0..terms).map(|term| format!("x <> {}", term + 2)).collect();
        let sql = format!(
            "SELECT count(*) FROM (VALUES (1)) v(x) WHERE {}",
            condition.join(" AND ")
        );
        ensure!(value(&client, &sql).await? == "1");
    }
    ensure!(server.is_alive()?, "{}", server.log());
    Ok(())
}

/// Operators of a chain are planned in time by the square of its length at most, not by the cube or worse.
async fn long_chains() -> Result<()> {
    let server = Server::start(&["--threads", "2"])?;
    let client = server.connect().await?;
    client.batch_execute("SET statement_timeout = '60s'").await?;
    let sum = format!("SELECT {} FROM (VALUES (1)) v(x)", vec!["x"; 800].join(" + "));
    ensure!(value(&client, &sum).await? == "800");
    let text = format!(
        "SELECT length({}) FROM (VALUES ('a')) v(x)",
        vec!["x"; 800].join(" || ")
    );
    ensure!(value(&client, &text).await? == "800");
    Ok(())
}

/// What is nested or chained past what stacks bear is refused before anything walks it, and ends no server.
async fn stack_depth() -> Result<()> {
    let mut server = Server::start(&["--threads", "2"])?;
    let client = server.connect().await?;
    let chain = |term: &str, by: &str, terms: usize| vec![term; terms].join(by);
    let nest = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let from = "FROM (VALUES (1)) v(x)";
    for times in [3_000, 100_000] {
        let statements = [
            format!("SELECT {} {from}", chain("x", " + ", times)),
            format!("SELECT {}", chain("'a'", "||", times)),
            format!("SELECT 1{}", "::int".repeat(times)),
            format!("SELECT 1::int{}", "[]".repeat(times)),
            format!("SELECT now(){}", " AT TIME ZONE 'utc'".repeat(times)),
            format!("SELECT {}true", "NOT ".repeat(times)),
            format!("SELECT {}1", "- ".repeat(times)),
            format!("SELECT {}", nest("(", "1", ")", times)),
            format!("SELECT {}", nest("abs(", "1", ")", times)),
            format!("SELECT {}", nest("ARRAY[", "1", "]", times)),
            format!("SELECT {}", nest("CASE WHEN true THEN ", "1", " END", times)),
            nest("SELECT (", "SELECT 1", ")", times),
            nest("SELECT * FROM (", "SELECT 1", ") s", times),
            chain("SELECT 1", " UNION ", times),
            chain("SELECT 1", " INTERSECT ", times),
            format!("SELECT 1 FROM {}", chain("(VALUES (1)) v", " CROSS JOIN ", times)),
            format!("SELECT 1 FROM {}", chain("(VALUES (1)) v", ", ", times)),
            format!("PREPARE p AS SELECT {}", chain("1", " * ", times)),
            format!("CREATE TABLE t (x int CHECK ({} > 0))", chain("x", " + ", times)),
            format!("CREATE TABLE t (x int DEFAULT {})", chain("1", " + ", times)),
            format!("CREATE VIEW w AS SELECT {}", chain("1", " + ", times)),
        ];
        for sql in &statements {
            let state = failing(&client, sql).await?;
            ensure!(state == "54001", "{} ...: {state}", &sql[..60]);
        }
    }
    for sql in [
        "SELECT ".to_string() + &"(".repeat(100_000),
        "SELECT CASE ".repeat(100_000),
    ] {
        let state = failing(&client, &sql).await?;
        ensure!(state == "54001", "{} ...: {state}", &sql[..60]);
    }
    // What stands side by side is not deep.
    let numbers: Vec<String> = (0..5_000).map(|at| at.to_string()).collect();
    let listed = format!("SELECT count(*) {from} WHERE x IN ({})", numbers.join(", "));
    ensure!(value(&client, &listed).await? == "1");
    let rows = format!("SELECT count(*) FROM (VALUES ({})) v(x)", numbers.join("), ("));
    ensure!(value(&client, &rows).await? == "5000");
    ensure!(server.is_alive()?, "{}", server.log());
    Ok(())
}
