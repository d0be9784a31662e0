//! PostgreSQL 15 beside Tenon (`tests/oracle/run.py`): its own regression suite statement by statement. The random
//! statements of the same program run at night (`scripts/nightly.sh`): they still find differences.

use crate::process::{binary, root};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::process::{Command, Stdio};

pub fn trials() -> Vec<Trial> {
    vec![trial("oracle::regress", || run(&["regress", "--check"]))]
}

/// Runs the comparison to its end and shows what it told.
async fn run(args: &[&str]) -> Result<()> {
    let mut command = Command::new(root().join(".deps/venv/bin/python"));
    command.arg(root().join("tests/oracle/run.py")).args(args);
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
