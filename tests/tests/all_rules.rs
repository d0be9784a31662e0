//! Plans are the same whether rules run only where they are about something, or all of them always.

use crate::process::{Server, root, rows};
use crate::trial;
use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tenon_tests::tpch::{Scale, query};
use tokio_postgres::Client;

const ARGS: [&str; 3] = ["--demo=0.01", "--threads=2", "--target-partitions=2"];

/// Of the SQL logic tests, those that have most kinds of nodes among them.
const FILES: [&str; 10] = [
    "select/subqueries",
    "select/scalar_subqueries",
    "select/grouping_sets",
    "select/windows",
    "select/with_queries",
    "select/lateral",
    "select/set_functions",
    "select/sets_ctes",
    "joins/kinds",
    "joins/using",
];

pub fn trials() -> Vec<Trial> {
    vec![trial("all_rules::plans", plans)]
}

async fn plans() -> Result<()> {
    let some = Server::start_with(&ARGS, &[("TENON_DEVICE", "none")])?;
    let all = Server::start_with(&ARGS, &[("TENON_DEVICE", "none"), ("TENON_TEST_ALL_RULES", "1")])?;
    let (some, all) = (some.connect().await?, all.connect().await?);
    let mut compared = 0;
    for number in 1..=22 {
        compared += usize::from(same(&some, &all, &query(number, Scale::Tenth)?).await?);
    }
    ensure!(compared == 22, "of 22 queries {compared} were planned");
    for file in FILES {
        let path = root().join(format!("tests/slt/{file}.slt"));
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for block in text.split("\n\n") {
            let mut lines = block.lines().skip_while(|line| line.starts_with('#'));
            let kind = lines.next().unwrap_or_default();
            let sql: Vec<&str> = lines.take_while(|line| *line != "----").collect();
            let sql = sql.join("\n");
            if kind.starts_with("query") {
                compared += usize::from(same(&some, &all, &sql).await?);
            } else if kind.starts_with("statement ok") {
                for client in [&some, &all] {
                    // What needs another configuration fails on both.
                    let _ = client.batch_execute(&sql).await;
                }
            }
        }
    }
    ensure!(compared > 300, "only {compared} statements were planned");
    Ok(())
}

/// Whether the statement has a plan, which must be the same on both servers.
async fn same(some: &Client, all: &Client, sql: &str) -> Result<bool> {
    let explain = format!("EXPLAIN {sql}");
    let (some, all) = (rows(some, &explain).await, rows(all, &explain).await);
    match (some, all) {
        (Ok(some), Ok(all)) => {
            let shown = |rows: &[Vec<Option<String>>]| {
                let lines: Vec<&str> = rows.iter().flatten().flatten().map(String::as_str).collect();
                lines.join("\n")
            };
            let (some, all) = (shown(&some), shown(&all));
            ensure!(some == all, "{sql}\nhas the plan\n{some}\nand with all rules\n{all}");
            Ok(true)
        }
        (Err(_), Err(_)) => Ok(false),
        (some, all) => {
            some.context(sql.to_string())?;
            all.context(sql.to_string())?;
            Ok(false)
        }
    }
}
