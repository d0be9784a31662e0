//! PostgreSQL 15 beside Tenon (`tests/oracle/run.py`): its own regression suite statement by statement, and random
//! statements; and random statements that Tenon must answer alike by every way to join.

use crate::process::{binary, root};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::process::{Command, Stdio};

/// How long each of the two fuzzers runs in an ordinary test run.
const FUZZ_SECONDS: &str = "30";

pub fn trials() -> Vec<Trial> {
    vec![
        trial("oracle::regress", || run(&["regress", "--check"])),
        trial("oracle::fuzz", || run(&["fuzz", "--seconds", FUZZ_SECONDS])),
        trial("oracle::self", || run(&["self", "--seconds", FUZZ_SECONDS])),
    ]
}

/// Runs the comparison to its end and shows what it told. `TENON_SEED` repeats a random run.
async fn run(args: &[&str]) -> Result<()> {
    let mut command = Command::new(root().join(".deps/venv/bin/python"));
    command.arg(root().join("tests/oracle/run.py")).args(args);
    if let Some(seed) = std::env::var_os("TENON_SEED").filter(|_| args[0] != "regress") {
        command.arg("--seed").arg(seed);
    }
    let output = command
        .env("TENON_TEST_BINARY", binary())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .context("cannot run Python: run scripts/install-test-deps.sh first")?;
    let told = String::from_utf8_lossy(&output.stdout);
    for line in told.lines() {
        println!("oracle: {line}");
    }
    ensure!(
        output.status.success(),
        "run.py {}: {}\n{told}\n{}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
