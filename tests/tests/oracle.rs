//! PostgreSQL 15 beside Tenon (`tests/oracle/run.py`): its own regression suite statement by statement; and random
//! statements for some seconds, which fail where an answer is wrong. They run longer at night (`scripts/nightly.sh`).

use crate::process::{binary, root};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::process::{Command, Stdio};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("oracle::regress", || run(&["regress", "--check"])),
        trial("oracle::fuzz", || random("fuzz")),
        trial("oracle::self", || random("self")),
    ]
}

/// Random statements; `TENON_SEED` repeats a run.
async fn random(what: &str) -> Result<()> {
    let seed = std::env::var("TENON_SEED").unwrap_or_else(|_| std::process::id().to_string());
    run(&[what, "--seed", &seed, "--seconds", "10"]).await
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
