//! What supervisors are told over HTTP: each figure before and after something of its kind has happened.

use crate::process::{Server, failing, free_address, root, value};
use crate::trial;
use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use std::collections::HashMap;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("http::metrics", metrics),
        trial("http::device", device),
        trial("http::fallbacks", fallbacks),
        trial("http::bad_questions", bad_questions),
    ]
}

/// The status and the whole answer to some bytes.
async fn ask(address: SocketAddr, request: &[u8]) -> Result<(u16, String)> {
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(request).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).context("an answer")?.parse()?;
    Ok((status, answer))
}

async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: tenon\r\nConnection: close\r\n\r\n");
    ask(address, request.as_bytes()).await
}

/// Figures by their names with labels.
async fn figures(address: SocketAddr) -> Result<HashMap<String, f64>> {
    let (status, text) = get(address, "/metrics").await?;
    ensure!(status == 200 && text.contains("application/openmetrics-text"), "{text}");
    ensure!(text.trim_end().ends_with("# EOF"), "{text}");
    let (_, body) = text.split_once("\r\n\r\n").context("a body")?;
    let lines = body.lines().filter(|line| !line.starts_with('#') && line.contains(' '));
    let figure = |line: &str| {
        let (name, value) = line.rsplit_once(' ').context("a figure")?;
        Ok((name.to_string(), value.parse().context(line.to_string())?))
    };
    lines.map(figure).collect()
}

async fn metrics() -> Result<()> {
    let (http, directory) = (free_address()?, tempfile::tempdir()?);
    let store = directory.path().join("store").display().to_string();
    let arguments = ["--http", &http.to_string(), "--store", &store, "--max-connections", "3"];
    let server = Server::start(&arguments)?;
    ensure!(get(http, "/healthz").await?.0 == 200 && get(http, "/readyz").await?.0 == 200);
    let client = server.connect().await?;
    let before = figures(http).await?;
    for sql in [
        "CREATE TABLE t AS SELECT g AS a, g % 7 AS b FROM generate_series(1, 200000) g",
        "INSERT INTO t VALUES (0, 0)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "UPDATE t SET b = 1 WHERE a = 5",
        "BEGIN",
        "DELETE FROM t WHERE a = 6",
        "ROLLBACK",
    ] {
        client.batch_execute(sql).await?;
    }
    for _ in 0..5 {
        value(&client, "SELECT count(*) FROM t").await?;
    }
    // By whichever operator.
    ensure!(value(&client, "SELECT count(*) FROM t x JOIN t y ON x.a = y.a").await? != "0");
    for _ in 0..3 {
        ensure!(failing(&client, "SELECT * FROM nothing").await? == "42P01");
    }
    ensure!(failing(&client, "SELECT 1 / 0").await? == "22012");
    // Others than the first are refused.
    let mut others = vec![];
    for _ in 0..2 {
        others.push(server.connect().await?);
    }
    ensure!(server.connect().await.is_err());
    let after = figures(http).await?;
    let at = |figures: &HashMap<String, f64>, name: &str| figures.get(name).copied().unwrap_or(0.0);
    let more = |name: &str| at(&after, name) - at(&before, name);
    for (name, expected) in [
        ("tenon_statements_total{command=\"INSERT\"}", 2.0),
        ("tenon_statements_total{command=\"UPDATE\"}", 1.0),
        ("tenon_statements_total{command=\"DELETE\"}", 1.0),
        ("tenon_statements_total{command=\"BEGIN\"}", 1.0),
        ("tenon_statements_total{command=\"ROLLBACK\"}", 1.0),
        ("tenon_errors_total{sqlstate=\"42P01\"}", 3.0),
        ("tenon_errors_total{sqlstate=\"22012\"}", 1.0),
        ("tenon_connections_opened_total", 2.0),
        ("tenon_connections_refused_total", 1.0),
        ("tenon_connections", 2.0),
    ] {
        ensure!(
            more(name) == expected,
            "{name}: {} more, and not {expected}",
            more(name)
        );
    }
    // The queries, and what CREATE TABLE AS says of itself.
    let selects = more("tenon_statements_total{command=\"SELECT\"}");
    ensure!((6.0..=7.0).contains(&selects), "{selects} SELECTs");
    let joins = |figures: &HashMap<String, f64>| -> f64 {
        let joins = figures
            .iter()
            .filter(|(name, _)| name.starts_with("tenon_joins_total{"));
        joins.map(|(_, count)| count).sum()
    };
    ensure!(
        joins(&after) - joins(&before) == 1.0,
        "{} joins",
        joins(&after) - joins(&before)
    );
    let hash = "tenon_joins_total{operator=\"hj\",device=\"cpu\"}";
    ensure!(after.contains_key(hash), "no {hash}");
    let waits = more("tenon_turn_wait_seconds_count");
    ensure!(
        waits >= 1.0 && waits == more("tenon_turn_wait_seconds_bucket{le=\"+Inf\"}"),
        "{waits} waits"
    );
    let requests = more("tenon_request_seconds_count");
    ensure!(
        requests >= 10.0 && more("tenon_request_seconds_sum") > 0.0,
        "{requests} requests"
    );
    let counted = at(&after, "tenon_request_seconds_bucket{le=\"+Inf\"}");
    ensure!(
        counted == at(&after, "tenon_request_seconds_count"),
        "{counted} in buckets"
    );
    ensure!(at(&after, "tenon_connections_max") == 3.0);
    // Two columns of 200,000 rows, each of a byte at least.
    let tables = more("tenon_memory_bytes{purpose=\"tables\"}");
    ensure!(tables > 300e3, "tables grew by {tables} bytes");
    ensure!(at(&after, "tenon_memory_limit_bytes{purpose=\"tables\"}") > tables);
    let (syncs, bytes) = (more("tenon_store_syncs_total"), more("tenon_store_log_bytes"));
    ensure!(syncs >= 4.0 && bytes > 100e3, "{syncs} syncs, {bytes} bytes of log");
    // What the dashboard shows is there.
    let dashboard = std::fs::read_to_string(root().join("docker/grafana/tenon.json"))?;
    let (_, text) = get(http, "/metrics").await?;
    let mut shown = 0;
    for place in dashboard.match_indices("tenon_").map(|(at, _)| &dashboard[at..]) {
        let name = place
            .split(|c: char| !c.is_ascii_lowercase() && c != '_')
            .next()
            .unwrap_or_default();
        ensure!(text.contains(&format!("\n{name}")), "no {name}");
        shown += 1;
    }
    ensure!(shown > 15, "{shown} names in the dashboard");
    client.batch_execute("CHECKPOINT").await?;
    let last = figures(http).await?;
    let number = "tenon_store_log_number";
    ensure!(at(&last, number) == at(&after, number) + 1.0 && at(&last, "tenon_store_failed") == 0.0);
    Ok(())
}

/// Fragments that ran on the device, and those that were left to the CPU.
async fn device() -> Result<()> {
    let http = free_address()?;
    let server = Server::start_with(&["--http", &http.to_string()], &[("TENON_DEVICE", "sim")])?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT g AS a, g % 7 AS b FROM generate_series(1, 5000) g;
             SET tenon.wait_for_compile = on; SET tenon.device = 'gpu'",
        )
        .await?;
    ensure!(value(&client, "SELECT sum(a) FROM t WHERE b = 3").await? == "1783929");
    let found = figures(http).await?;
    let fragments = found.get("tenon_fragments_total{ran=\"device\"}").copied();
    ensure!(fragments.is_some_and(|fragments| fragments >= 1.0), "{fragments:?}");
    let copied = found.get("tenon_device_bus_bytes_total{to=\"device\"}").copied();
    ensure!(copied.is_some_and(|bytes| bytes >= 5000.0), "{copied:?}");
    let columns = found.get("tenon_memory_bytes{purpose=\"device_columns\"}").copied();
    ensure!(columns.is_some_and(|bytes| bytes >= 5000.0), "{columns:?}");
    let of_columns = ["bytes", "seconds"].map(|unit| found.get(&format!("tenon_device_columns_copied_{unit}_total")));
    let [Some(bytes), Some(seconds)] = of_columns else {
        bail!("what was copied of columns is not told: {of_columns:?}");
    };
    ensure!(*bytes >= 5000.0 && *seconds > 0.0, "{of_columns:?}");
    Ok(())
}

/// A join that the GPU begins and the CPU has to do, for it is lost meanwhile.
async fn fallbacks() -> Result<()> {
    let http = free_address()?;
    let lost = [("TENON_DEVICE", "sim"), ("TENON_SIM_LOST_AT_LAUNCH", "6")];
    let server = Server::start_with(&["--http", &http.to_string()], &lost)?;
    let client = server.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE b AS SELECT g AS k, g AS x FROM generate_series(1, 20000) g;
             CREATE TABLE p AS SELECT g AS k, g AS y FROM generate_series(1, 20000) g;
             SET tenon.device = 'gpu'; SET tenon.join_operator = 'triton'; SET tenon.gpu_memory_limit = '64kB'",
        )
        .await?;
    let before = figures(http).await?;
    ensure!(value(&client, "SELECT sum(x + y) FROM b JOIN p ON b.k = p.k").await? == "400020000");
    let after = figures(http).await?;
    let more = |name: &str| after.get(name).copied().unwrap_or(0.0) - before.get(name).copied().unwrap_or(0.0);
    for (name, expected) in [
        ("tenon_device_join_fallbacks_total{why=\"lost\"}", 1.0),
        ("tenon_device_join_fallbacks_total{why=\"memory\"}", 0.0),
        ("tenon_device_joins_total{ran=\"fell_back\"}", 1.0),
        ("tenon_joins_total{operator=\"triton\",device=\"gpu\"}", 0.0),
    ] {
        ensure!(
            more(name) == expected,
            "{name}: {} more, and not {expected}",
            more(name)
        );
    }
    let on_cpu =
        ["hj", "triton"].map(|operator| more(&format!("tenon_joins_total{{operator=\"{operator}\",device=\"cpu\"}}")));
    ensure!(on_cpu.iter().sum::<f64>() == 1.0, "{on_cpu:?}");
    Ok(())
}

/// None of them keeps the server from answering the next.
async fn bad_questions() -> Result<()> {
    let http = free_address()?;
    let _server = Server::start(&["--http", &http.to_string()])?;
    ensure!(get(http, "/nothing").await?.0 == 404);
    let post = b"POST /metrics HTTP/1.1\r\nHost: tenon\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    ensure!(ask(http, post).await?.0 == 405);
    let head = b"HEAD /metrics HTTP/1.1\r\nHost: tenon\r\nConnection: close\r\n\r\n";
    let (status, text) = ask(http, head).await?;
    ensure!(status == 200 && text.ends_with("\r\n\r\n"), "{text}");
    for bad in [
        &b"\0\0\0\x08\x04\xd2\x16\x2f"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ] {
        let mut socket = TcpStream::connect(http).await?;
        socket.write_all(bad).await?;
        socket.shutdown().await?;
        let mut answer = vec![];
        // Refused, or cut off.
        let _ = socket.read_to_end(&mut answer).await;
        ensure!(!answer.starts_with(b"HTTP/1.1 200"), "{bad:?} is answered");
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: tenon\r\n\r\n", "x".repeat(1 << 20));
    let mut socket = TcpStream::connect(http).await?;
    let _ = socket.write_all(long.as_bytes()).await;
    ensure!(get(http, "/healthz").await?.0 == 200);
    // More that say nothing than there are places for: the one that comes when they have gone is answered.
    let mut silent = vec![];
    for _ in 0..80 {
        silent.push(TcpStream::connect(http).await?);
    }
    drop(silent);
    let mut answered = false;
    for _ in 0..50 {
        answered = get(http, "/readyz").await.is_ok_and(|(status, _)| status == 200);
        if answered {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    ensure!(answered);
    Ok(())
}
