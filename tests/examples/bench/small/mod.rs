//! `bench small`: how fast many small statements are, and many rows in one answer, beside PostgreSQL 15 on the same cores.
//!
//! pgbench's scripts run with several numbers of clients, in its three modes where they read; 10,000 statements go over one
//! connection one after the other; small writes and queries are those of applications (`writes`, `listings`, `orders`); a table of (bigint, double precision, text) is fetched whole. After pgbench has written, its
//! tables' sums must agree, and what is fetched is counted and summed up by the client.

mod fetch;
mod listings;
mod orders;
pub mod pgbench;
pub mod postgres;
mod trivial;
mod writes;

use std::fmt;

use anyhow::Result;
pub use postgres::Postgres;

/// How much of everything.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Of pgbench's tables.
    pub scale: usize,
    /// How long each of pgbench's runs takes.
    pub seconds: u64,
    pub clients: Vec<usize>,
    /// Sent over one connection.
    pub statements: usize,
    /// Fetched.
    pub rows: usize,
}

/// One measurement: how many a second of PostgreSQL and of Tenon.
#[derive(Debug)]
pub struct Line {
    pub name: String,
    pub postgres: f64,
    pub tenon: f64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, postgres, tenon } = self;
        write!(f, "{name:<40} {postgres:>12.0} {tenon:>12.0} {:>8.2}", tenon / postgres)
    }
}

/// Measures both servers, given by their connection strings, and prints each line when it is there. Blocks.
pub fn run(postgres: &str, tenon: &str, sizes: &Sizes) -> Result<Vec<Line>> {
    println!("{:<40} {:>12} {:>12} {:>8}", "a second", "PostgreSQL", "Tenon", "ratio");
    let mut lines = vec![];
    let mut measure = |name: String, one: &dyn Fn(&str) -> Result<f64>| {
        let line = Line {
            name,
            postgres: one(postgres)?,
            tenon: one(tenon)?,
        };
        println!("{line}");
        lines.push(line);
        anyhow::Ok(())
    };
    for server in [postgres, tenon] {
        pgbench::fill(server, sizes.scale)?;
        trivial::fill(server)?;
        writes::fill(server)?;
        listings::fill(server)?;
        orders::fill(server)?;
        fetch::fill(server, sizes.rows)?;
    }
    for mode in ["simple", "extended", "prepared"] {
        for &clients in &sizes.clients {
            let name = format!("pgbench -S, {mode}, {clients} clients");
            measure(name, &|server| pgbench::select(server, mode, clients, sizes.seconds))?;
        }
    }
    for case in trivial::CASES {
        let name = format!("one connection, {case}");
        measure(name, &|server| trivial::rate(server, case, sizes.statements))?;
    }
    for script in ["tpcb-like", "simple-update"] {
        for clients in [1, 8] {
            let name = format!("pgbench {script}, {clients} clients");
            measure(name, &|server| pgbench::write(server, script, clients, sizes.seconds))?;
        }
    }
    for case in writes::cases().into_iter().chain(orders::cases()) {
        for clients in [1, 8] {
            let name = format!("{}, {clients} clients", case.name);
            measure(name, &|server| writes::rate(server, &case, clients, sizes.seconds))?;
        }
    }
    for case in listings::cases() {
        for clients in [1, 8] {
            let name = format!("{}, {clients} clients", case.name);
            measure(name, &|server| listings::rate(server, &case, clients, sizes.seconds))?;
        }
    }
    for client in fetch::CLIENTS {
        let name = format!("rows, {client}");
        measure(name, &|server| fetch::rate(server, client, sizes.rows))?;
    }
    Ok(lines)
}
