//! `bench store`: what it costs that tables outlive the process, and that statements are counted.
//!
//! Rows are loaded by psql's \copy with and without a store; after kill -9 the store is opened again, and all rows counted;
//! clients commit a row at a time, in Tenon with a store and in PostgreSQL 15 with its own settings, on the same disk;
//! pgbench reads rows by key with pg_stat_statements on and off.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::small::pgbench;
use crate::small::postgres::{Postgres, told};

/// How much of everything.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Loaded.
    pub rows: usize,
    /// How long each run of pgbench takes.
    pub seconds: u64,
    pub clients: usize,
    /// Of which the best counts.
    pub runs: usize,
    pub threads: usize,
    /// Whether a store is read from disk, as after a failure of power: the whole machine's page cache is emptied, as far as
    /// the user may.
    pub cold: bool,
}

/// One measurement beside what it is measured by.
#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    pub other: f64,
    pub own: f64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, other, own } = self;
        write!(f, "{name:<64} {other:>10.0} {own:>10.0} {:>8.2}", own / other)
    }
}

/// A server of the program; it is killed without a word when it goes.
struct Process {
    child: Child,
    port: u16,
}

impl Process {
    /// Returns when it listens.
    fn start(program: &Path, threads: usize, store: Option<&Path>) -> Result<Process> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(program);
        command.args([
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--threads",
            &threads.to_string(),
        ]);
        if let Some(store) = store {
            command.arg("--store").arg(store);
        }
        let command = command.env("TENON_CALIBRATE", "off").stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = Process {
            child: child.with_context(|| program.display().to_string())?,
            port,
        };
        let mut lines = BufReader::new(process.child.stdout.take().context("no output")?).lines();
        while let Some(line) = lines.next().transpose()? {
            if line.contains("listens on") {
                // Nothing it says later may wait for a reader.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(process);
            }
        }
        bail!("the server ended at its start")
    }

    fn dsn(&self) -> String {
        format!(
            "host=127.0.0.1 port={} user=bench dbname=bench sslmode=disable",
            self.port
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn psql(server: &str, sql: &str) -> Result<String> {
    told("psql", &["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", server, "-c", sql])
}

const LOADED: &str = "CREATE TABLE loaded (k bigint, a int, price numeric(12,2), day date, note text)";
const SUMS: &str = "SELECT count(*), sum(k), sum(a), sum(price), max(day), max(note) FROM loaded";

/// Measures, and prints each line when it is there. Blocks.
pub fn run(program: &Path, sizes: &Sizes) -> Result<Vec<Line>> {
    let directory = tempfile::Builder::new().prefix("tenon-bench.").tempdir()?;
    let store = directory.path().join("store");
    println!("{:<64} {:>10} {:>10} {:>8}", "", "other", "own", "ratio");
    let lines = [
        copy(program, sizes, directory.path(), &store)?,
        recovery(program, sizes, &store)?,
        commits(program, sizes, directory.path(), &store)?,
        counting(program, sizes)?,
    ];
    Ok(lines.into())
}

fn said(line: Line) -> Line {
    println!("{line}");
    line
}

/// Loads, MB of text a second, without a store and with one.
fn copy(program: &Path, sizes: &Sizes, directory: &Path, store: &Path) -> Result<Line> {
    let file = directory.join("rows");
    let without = Process::start(program, sizes.threads, None)?;
    let with = Process::start(program, sizes.threads, Some(store))?;
    let rows = format!(
        "\\copy (SELECT x, x * 71 % 1000003, (x % 1000000) / 100.0, date '1992-01-01' + (x % 2500)::int, \
         'note ' || md5(x::text) FROM generate_series(1, {}) g(x)) TO '{}'",
        sizes.rows,
        file.display()
    );
    psql(&without.dsn(), &rows)?;
    let bytes = std::fs::metadata(&file)?.len();
    let mut rates = [0.0_f64; 2];
    let mut sums = [String::new(), String::new()];
    for server in [&without, &with] {
        psql(&server.dsn(), LOADED)?;
    }
    for _ in 0..sizes.runs {
        for (at, server) in [&without, &with].into_iter().enumerate() {
            psql(&server.dsn(), "TRUNCATE loaded")?;
            let begun = Instant::now();
            psql(&server.dsn(), &format!("\\copy loaded FROM '{}'", file.display()))?;
            rates[at] = rates[at].max(bytes as f64 / begun.elapsed().as_secs_f64() / 1e6);
            sums[at] = psql(&server.dsn(), SUMS)?;
        }
    }
    ensure!(
        sums[0] == sums[1] && sums[0].starts_with(&sizes.rows.to_string()),
        "{sums:?}"
    );
    Ok(said(Line {
        name: "MB/s by \\copy: without a store, with one",
        other: rates[0],
        own: rates[1],
    }))
}

/// Rows committed one by one, a second: of PostgreSQL and of Tenon.
fn commits(program: &Path, sizes: &Sizes, directory: &Path, store: &Path) -> Result<Line> {
    let script = directory.join("commit.sql");
    let mut file = std::fs::File::create(&script)?;
    writeln!(file, "INSERT INTO committed VALUES (:client_id, 'a row of its own');")?;
    let script = script.display().to_string();
    let postgres = Postgres::start(None, true)?;
    let own = Process::start(program, sizes.threads, Some(store))?;
    let mut rates = [0.0_f64; 2];
    for (at, server) in [postgres.dsn()?, own.dsn()].iter().enumerate() {
        psql(server, "CREATE TABLE committed (client int, note text)")?;
        let mut all = 0;
        for _ in 0..sizes.runs {
            let (rate, number) = pgbench::script(server, (&script, "simple"), sizes.clients, sizes.seconds)?;
            rates[at] = rates[at].max(rate);
            all += number;
        }
        let found = psql(server, "SELECT count(*) FROM committed")?;
        ensure!(found == all.to_string(), "{found} rows of {all} that were committed");
    }
    Ok(said(Line {
        name: "rows committed one by one: PostgreSQL, Tenon",
        other: rates[0],
        own: rates[1],
    }))
}

/// MB of a store that are read again a second: by reading its files alone, and by opening it.
fn recovery(program: &Path, sizes: &Sizes, store: &Path) -> Result<Line> {
    let forget = || {
        if sizes.cold {
            drop(told("sh", &["-c", "sync; echo 3 > /proc/sys/vm/drop_caches"]));
        }
    };
    let [mut other, mut own] = [0.0_f64; 2];
    let files = || -> Result<Vec<_>> { Ok(std::fs::read_dir(store)?.collect::<Result<Vec<_>, _>>()?) };
    let mut bytes = 0;
    for file in files()? {
        bytes += file.metadata()?.len();
    }
    for _ in 0..sizes.runs {
        forget();
        let begun = Instant::now();
        for file in files()? {
            let mut file = std::fs::File::open(file.path())?;
            std::io::copy(&mut file, &mut std::io::sink())?;
        }
        other = other.max(bytes as f64 / begun.elapsed().as_secs_f64() / 1e6);
        forget();
        let begun = Instant::now();
        let server = Process::start(program, sizes.threads, Some(store))?;
        own = own.max(bytes as f64 / begun.elapsed().as_secs_f64() / 1e6);
        let rows = psql(&server.dsn(), "SELECT count(*) FROM loaded")?;
        ensure!(rows == sizes.rows.to_string(), "{rows} rows of {}", sizes.rows);
    }
    Ok(said(Line {
        name: "MB/s of a store's files after kill -9: read alone, opened",
        other,
        own,
    }))
}

/// Rows read by their keys, a second: statements not counted, and counted.
fn counting(program: &Path, sizes: &Sizes) -> Result<Line> {
    let server = Process::start(program, sizes.threads, None)?;
    let counted = server.dsn();
    let uncounted = format!("{counted} options='-c pg_stat_statements.track=none'");
    pgbench::fill(&counted, 1)?;
    let mut rates = [0.0_f64; 2];
    for _ in 0..sizes.runs {
        for (at, server) in [&uncounted, &counted].into_iter().enumerate() {
            rates[at] = rates[at].max(pgbench::select(server, "prepared", 8, sizes.seconds)?);
        }
    }
    Ok(said(Line {
        name: "pgbench -S, prepared, 8 clients: not counted, counted",
        other: rates[0],
        own: rates[1],
    }))
}
