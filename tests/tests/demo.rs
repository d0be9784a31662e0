//! The program as a person meets it: --help, the README's table of settings, bad values, --demo, health, the end.

use crate::process::{Server, binary, free_address, root, value};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use std::process::{Command, Output};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("demo::settings_in_readme", settings_in_readme),
        trial("demo::bad_settings", bad_settings),
        trial("demo::sources_of_settings", sources_of_settings),
        trial("demo::health", health),
        trial("demo::ends_on_sigterm", ends_on_sigterm),
        trial("demo::load", load),
        trial("demo::json_logs", json_logs),
        trial("demo::readme_transcript", readme_transcript),
    ]
}

fn run(args: &[&str], env: &[(&str, &str)]) -> Result<Output> {
    Ok(Command::new(binary()).args(args).envs(env.iter().copied()).output()?)
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// README.md's table of settings names what --help names: no more, no less.
async fn settings_in_readme() -> Result<()> {
    let help = run(&["--help"], &[("COLUMNS", "200")])?;
    ensure!(help.status.success());
    let help = String::from_utf8(help.stdout)?;
    let mut settings: Vec<&str> = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("--"))
        .filter_map(|rest| rest.split([' ', '=', '[', '\n']).next())
        .filter(|name| *name != "help" && *name != "version")
        .collect();
    settings.sort_unstable();
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    let mut table: Vec<&str> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `--"))
        .filter_map(|rest| rest.split(['`', ' ', '=', '[']).next())
        .collect();
    table.sort_unstable();
    ensure!(
        !settings.is_empty() && settings == table,
        "--help has {settings:?}\nREADME.md has {table:?}"
    );
    Ok(())
}

/// A bad value names the setting, the value and what is allowed.
async fn bad_settings() -> Result<()> {
    let cases: [(&[&str], &[&str]); 7] = [
        (&["--listen", "nowhere"], &["listen", "nowhere"]),
        (&["--memory-limit", "lots"], &["memory", "lots", "GB"]),
        (&["--max-connections", "0"], &["max", "connections", "0"]),
        (&["--demo=-1"], &["demo", "-1"]),
        (&["--threads", "many"], &["threads", "many"]),
        (&["--nosuch"], &["--nosuch"]),
        (&["--config", "/nosuch/tenon.toml"], &["/nosuch/tenon.toml"]),
    ];
    for (args, words) in cases {
        let output = run(args, &[])?;
        let told = text(&output);
        ensure!(!output.status.success(), "{args:?} was taken");
        for word in words {
            ensure!(told.contains(word), "{args:?} does not say {word}:\n{told}");
        }
        ensure!(!told.contains("panicked"), "{args:?}:\n{told}");
    }
    // Any address but loopback needs passwords or an explicit wish.
    let output = run(&["--listen", "0.0.0.0:0"], &[])?;
    ensure!(
        !output.status.success() && text(&output).contains("insecure_trust"),
        "{}",
        text(&output)
    );
    Ok(())
}

/// The command line covers the environment, and that the file.
async fn sources_of_settings() -> Result<()> {
    let file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    std::fs::write(file.path(), "max_connections = 1\nstatement_timeout = \"7s\"\n")?;
    let path = file.path().display().to_string();
    let server = Server::start(&["--config", &path])?;
    let client = server.connect().await?;
    ensure!(value(&client, "SHOW statement_timeout").await? == "7s");
    ensure!(
        server.connect().await.is_err(),
        "the file's max_connections does not count"
    );
    let server = Server::start_with(
        &["--config", &path],
        &[("TENON_STATEMENT_TIMEOUT", "8s"), ("TENON_MAX_CONNECTIONS", "2")],
    )?;
    let client = server.connect().await?;
    ensure!(value(&client, "SHOW statement_timeout").await? == "8s");
    ensure!(server.connect().await.is_ok());
    let args = ["--config", &path, "--statement-timeout", "9s"];
    let server = Server::start_with(&args, &[("TENON_STATEMENT_TIMEOUT", "8s")])?;
    ensure!(value(&server.connect().await?, "SHOW statement_timeout").await? == "9s");
    std::fs::write(file.path(), "nosuch_setting = 1\n")?;
    let output = run(&["--config", &path], &[])?;
    ensure!(
        !output.status.success() && text(&output).contains("nosuch_setting"),
        "{}",
        text(&output)
    );
    Ok(())
}

async fn health() -> Result<()> {
    let server = Server::start(&[])?;
    let up = run(&["health", "--to", &server.address().to_string()], &[])?;
    ensure!(up.status.success(), "{}", text(&up));
    let down = run(&["health", "--to", &free_address()?.to_string()], &[])?;
    ensure!(down.status.code() == Some(1), "{:?} {}", down.status, text(&down));
    Ok(())
}

async fn ends_on_sigterm() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    ensure!(value(&client, "SELECT 1").await? == "1");
    let status = server.terminate()?;
    ensure!(status.success(), "SIGTERM ended the server with {status}");
    Ok(())
}

/// `--log-format json`: every line of the log is an object with a level and a message.
async fn json_logs() -> Result<()> {
    let child = Command::new(binary())
        .args([
            "--listen",
            &free_address()?.to_string(),
            "--log-format",
            "json",
            "--log-level",
            "debug",
        ])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()?;
    std::thread::sleep(std::time::Duration::from_millis(500));
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
    let output = child.wait_with_output()?;
    let log = String::from_utf8(output.stderr)?;
    for line in log.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).with_context(|| line.to_string())?;
        ensure!(entry["level"].is_string() && entry["message"].is_string(), "{line}");
    }
    ensure!(log.contains("SIGTERM"), "{log}");
    Ok(())
}

/// `tenon load`: a file into a table of a running server.
async fn load() -> Result<()> {
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    client.batch_execute("CREATE TABLE t (a int, b text)").await?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("rows.csv");
    std::fs::write(&path, "a,b\n1,one\n2,two\n3,\"three, four\"\n")?;
    let url = format!("postgres://tenon@{}", server.address());
    let path = path.display().to_string();
    let output = run(&["load", "--to", &url, "--header", "t", &path], &[])?;
    ensure!(output.status.success(), "{}", text(&output));
    ensure!(value(&client, "SELECT count(*) FROM t WHERE b LIKE 't%'").await? == "2");
    std::fs::write(&path, "a,b\n1,one\nx,two\n")?;
    let output = run(&["load", "--to", &url, "--header", "t", &path], &[])?;
    ensure!(
        !output.status.success() && text(&output).contains("line 3"),
        "{}",
        text(&output)
    );
    ensure!(
        value(&client, "SELECT count(*) FROM t")
            .await
            .context("after a failed load")?
            == "3"
    );
    Ok(())
}

/// The README's psql session is what psql shows: its statements against `--demo`, output compared line by line.
async fn readme_transcript() -> Result<()> {
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    let block = readme
        .split("```console\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .context("no console block")?;
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in block.lines().skip(1) {
        if let Some(sql) = line.strip_prefix("tenon=# ") {
            steps.push((sql.to_string(), String::new()));
        } else if let Some(sql) = line.strip_prefix("tenon-# ") {
            let step = steps.last_mut().context("a continued statement without its start")?;
            step.0.push('\n');
            step.0.push_str(sql);
        } else {
            let step = steps.last_mut().context("output before any statement")?;
            step.1.push_str(line.trim_end());
            step.1.push('\n');
        }
    }
    ensure!(
        steps.iter().any(|(sql, _)| sql.starts_with("EXPLAIN")),
        "no EXPLAIN in the transcript"
    );
    let server = Server::start(&["--demo", "--threads", "2"])?;
    for (sql, expected) in steps {
        let output = Command::new("psql")
            .args(["-X", "-d", &server.dsn(), "-c", &sql])
            .env("PAGER", "")
            .output()?;
        let found: String = text(&output)
            .lines()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect();
        ensure!(
            found.trim_end() == expected.trim_end(),
            "{sql}\n{found}\nREADME.md has:\n{expected}"
        );
    }
    Ok(())
}
