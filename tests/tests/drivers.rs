//! Programs of other people against the server: psql, pgbench, pg_dump, postgres_fdw, PgBouncer, drizzle-kit, psycopg, psycopg 2, pg8000, asyncpg, SQLAlchemy, Django,
//! node-postgres, postgres.js, pgjdbc, psqlODBC, ADBC, Ruby's pg with ActiveRecord, Perl's DBD::Pg, PHP; and DuckDB as an oracle.
//!
//! `scripts/install-test-deps.sh` installs them. Where one is missing its test fails and says so.

use crate::process::{Server, binary, root};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub fn trials() -> Vec<Trial> {
    let python = [
        "psycopg_driver",
        "psycopg_cursors",
        "psycopg2_driver",
        "pg8000_driver",
        "asyncpg_driver",
        "sqlalchemy_driver",
        "django_driver",
        "pg_dump",
        "postgres_fdw",
        "pgbouncer",
        "drizzle_kit",
        "odbc_driver",
        "adbc_driver",
        "differential",
    ];
    let mut trials = vec![
        trial("drivers::psql", psql),
        trial("drivers::psql_copy", psql_copy),
        trial("drivers::pgbench", pgbench),
    ];
    for name in python {
        trials.push(trial(&format!("drivers::{name}"), move || python_script(name)));
    }
    for name in ["node_postgres", "postgres_js"] {
        trials.push(trial(&format!("drivers::{name}"), move || node_script(name)));
    }
    trials.push(trial("drivers::pgjdbc", pgjdbc));
    for (program, file) in [
        ("ruby", "ruby_driver.rb"),
        ("perl", "perl_driver.pl"),
        ("php", "php_driver.php"),
    ] {
        trials.push(trial(&format!("drivers::{program}"), move || {
            interpreted(program, file)
        }));
    }
    trials
}

/// Runs a program to its end with its output to ours; its failure is the test's.
fn check(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}: run scripts/install-test-deps.sh first"))?;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    ensure!(output.status.success(), "{program}: {}\n{text}", output.status);
    Ok(text)
}

fn psql_command(server: &Server) -> Command {
    let mut command = Command::new("psql");
    command.args(["-X", "-v", "ON_ERROR_STOP=0", "-d", &server.dsn()]);
    command
        .env("PAGER", "")
        .env("LC_ALL", "C.UTF-8")
        .env("PSQL_HISTORY", "/dev/null")
        .env("COLUMNS", "120");
    command
}

/// The same input through psql gives the committed output, which PostgreSQL gave (`scripts/psql-oracle.sh`).
async fn psql() -> Result<()> {
    let directory = root().join("tests/drivers/psql");
    let mut compared = 0;
    let mut inputs: Vec<PathBuf> = std::fs::read_dir(&directory)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    inputs.sort();
    let mut failures = Vec::new();
    for input in inputs
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "sql"))
    {
        let server = Server::start(&[])?;
        let found = check(
            psql_command(&server)
                .args(["-a", "-f"])
                .arg(input.file_name().context("no name")?)
                .current_dir(&directory),
        )?;
        let expected = std::fs::read_to_string(input.with_extension("out"))?;
        if found.trim_end() != expected.trim_end() {
            let differing = found
                .lines()
                .zip(expected.lines())
                .enumerate()
                .find(|(_, (a, b))| a != b);
            let (line, (a, b)) =
                differing.unwrap_or((found.lines().count().min(expected.lines().count()), ("(end)", "(end)")));
            failures.push(format!(
                "{}: line {}\n found:    {a}\n expected: {b}\n all found:\n{found}",
                input.display(),
                line + 1
            ));
        }
        compared += 1;
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    ensure!(compared > 0, "no psql scripts in {}", directory.display());
    Ok(())
}

async fn psql_copy() -> Result<()> {
    let server = Server::start(&[])?;
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("in.csv"), "1,one\n2,\"two, or so\"\n3,\n")?;
    let script = "CREATE TABLE t (a int, b text);\n\\copy t from 'in.csv' csv\n\\copy (select * from t order by a desc) to 'out.csv' csv header\n\
                  COPY t FROM STDIN;\n4\tfour\n\\.\nSELECT count(*), sum(a) FROM t;\n";
    std::fs::write(directory.path().join("script.sql"), script)?;
    let found = check(
        psql_command(&server)
            .args(["-v", "ON_ERROR_STOP=1", "-At", "-f", "script.sql"])
            .current_dir(directory.path()),
    )?;
    ensure!(found == "CREATE TABLE\nCOPY 3\nCOPY 3\nCOPY 1\n4|10\n", "{found}");
    let out = std::fs::read_to_string(directory.path().join("out.csv"))?;
    ensure!(out == "a,b\n3,\n2,\"two, or so\"\n1,one\n", "{out}");
    let timing = check(psql_command(&server).args([
        "-c",
        "\\timing on",
        "-c",
        "SELECT 1",
        "-c",
        "\\l",
        "-c",
        "\\df",
        "-c",
        "\\dn",
    ]))?;
    ensure!(
        timing.contains("Time: ") && timing.contains("tenon") && timing.contains("public"),
        "{timing}"
    );
    Ok(())
}

/// pgbench's own tables and its read-only script, by all three query modes.
async fn pgbench() -> Result<()> {
    let server = Server::start(&[])?;
    let dsn = server.dsn();
    check(Command::new("pgbench").args(["-i", "-s", "1", "-q", &dsn]))?;
    for mode in ["simple", "extended", "prepared"] {
        let told = check(Command::new("pgbench").args(["-n", "-S", "-c", "2", "-t", "20", "-M", mode, &dsn]))?;
        ensure!(
            told.contains("number of transactions actually processed: 40/40"),
            "{mode}:\n{told}"
        );
    }
    Ok(())
}

async fn python_script(name: &'static str) -> Result<()> {
    let mut command = Command::new(root().join(".deps/venv/bin/python"));
    command.arg(root().join("tests/drivers").join(format!("{name}.py")));
    script(name, &mut command)
}

/// With Node.js of the machine, or else that of `.deps/venv`.
async fn node_script(name: &'static str) -> Result<()> {
    let packages = root().join(".deps/node/node_modules");
    ensure!(
        packages.exists(),
        "no {}: run scripts/install-test-deps.sh first",
        packages.display()
    );
    let own = root().join(".deps/venv/bin/node");
    let mut command = Command::new(if own.exists() { own } else { "node".into() });
    command.arg(root().join("tests/drivers/node").join(format!("{name}.js")));
    script(name, command.env("NODE_PATH", packages))
}

/// By an interpreter of the machine, which has its driver.
async fn interpreted(program: &'static str, file: &'static str) -> Result<()> {
    let mut command = Command::new(program);
    // Warnings about the syntax of packages are not ours.
    if program == "ruby" {
        command.arg("-W0");
    }
    command.arg(root().join("tests/drivers").join(file));
    script(program, &mut command)
}

async fn pgjdbc() -> Result<()> {
    let driver = "/usr/share/java/postgresql.jar";
    ensure!(
        std::path::Path::new(driver).exists(),
        "no {driver}: run scripts/install-test-deps.sh first"
    );
    let mut command = Command::new("java");
    command
        .args(["-cp", driver])
        .arg(root().join("tests/drivers/Pgjdbc.java"));
    script("pgjdbc", &mut command)
}

/// Runs a program that asks the server of `TENON_DSN`, and shows what it tells.
fn script(name: &str, command: &mut Command) -> Result<()> {
    let server = Server::start(&[])?;
    let told = check(
        command
            .env("TENON_DSN", server.dsn())
            .env("TENON_TEST_BINARY", binary())
            .env("PYTHONDONTWRITEBYTECODE", "1"),
    )
    .with_context(|| format!("the server's log:\n{}", server.log()))?;
    for line in told.lines() {
        println!("drivers::{name}: {line}");
    }
    Ok(())
}
