//! Queries over a table with indexes give what they give over the same rows without.

use crate::common::Client;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

/// `TENON_SEED`, or a fresh seed; printed.
fn seeded() -> (u64, StdRng) {
    let given = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("TENON_SEED={seed}");
    (seed, StdRng::seed_from_u64(seed))
}

const INDEXES: [(&str, &str); 4] = [
    ("by_k", "k"),
    ("by_s_k", "s, k"),
    ("by_d_n", "d DESC, n"),
    ("by_n", "n"),
];

/// Runs the same statement on both tables.
fn on_both(c: &mut Client, statement: &str) {
    for table in ["plain", "indexed"] {
        c.run(&statement.replace("TABLE", table));
    }
}

fn tables() -> Client {
    let mut c = Client::new();
    c.run("CREATE TABLE plain (id int, k int, s text, d date, n numeric(10, 2))");
    c.run("CREATE TABLE indexed (id int PRIMARY KEY, k int, s text, d date, n numeric(10, 2))");
    for (name, columns) in INDEXES {
        c.run(&format!("CREATE INDEX {name} ON indexed ({columns})"));
    }
    let rows = "SELECT g, CASE WHEN g % 17 = 0 THEN NULL ELSE g * 7919 % 3001 END, CASE WHEN g % 23 = 0 THEN NULL ELSE \
                'name ' || g % 701 END, DATE '2020-01-01' + g % 900, g % 5000 * 0.25 FROM generate_series(1, 20000) AS q (g)";
    on_both(&mut c, &format!("INSERT INTO TABLE {rows}"));
    c.run("CREATE TABLE few (a int, b int, c text, e date, lo numeric(10, 2), hi numeric(10, 2))");
    c.run(
        "INSERT INTO few VALUES (5, 44, 'name 5', '2020-05-05', 1, 2), (NULL, 3, NULL, NULL, NULL, NULL), \
         (2999, 20000, 'name 700', '2021-01-01', 1249, 1300), (5, 5, 'none', '2030-01-01', 8, 7), \
         (-1, -1, 'name 5', '2020-01-01', 0, 0.5)",
    );
    c
}

fn condition(rng: &mut StdRng, table: &str) -> String {
    let number = rng.random_range(-5..3010);
    let text = rng.random_range(0..720);
    let cents = rng.random_range(0..5100);
    let width = rng.random_range(0..30);
    match rng.random_range(0..11) {
        0 => format!("{table}.id = {}", number * 6),
        1 => format!("{table}.id BETWEEN {} AND {}", number * 6, number * 6 + width),
        2 => format!("{table}.k = {number}"),
        3 => format!("{table}.k IN ({number}, {}, {text})", number + 1),
        4 => format!("{table}.s = 'name {text}'"),
        5 => format!("{table}.s = 'name {text}' AND {table}.k > {number}"),
        6 => format!(
            "{table}.s IN ('name {text}', 'name {}', 'x', 'y') AND {table}.k <= {number}",
            text + 1
        ),
        7 => format!("{table}.d = DATE '2020-01-01' + {text}"),
        8 => format!("{table}.d = DATE '2020-01-01' + {text} AND {table}.n < {cents}.5"),
        9 => format!("{table}.n > {cents}.25 AND {table}.n <= {}.75", cents + width / 10),
        _ => format!("({table}.k = {number} OR {table}.k = {text})"),
    }
}

fn join(rng: &mut StdRng) -> String {
    let on = *[
        "t.k = few.a",
        "t.id = few.b",
        "t.s = few.c",
        "t.s = few.c AND t.k = few.a",
        "t.s = few.c AND t.k > few.a",
        "t.d = few.e AND t.n BETWEEN few.lo AND few.hi",
        "t.n BETWEEN few.lo AND few.hi",
        "t.n >= few.lo AND t.n < few.hi AND t.id % 3 = 0",
        "few.a + 1 = t.k AND t.id <> few.b",
    ]
    .choose(rng)
    .unwrap();
    let more = if rng.random_bool(0.3) {
        format!(" AND {}", condition(rng, "t"))
    } else {
        String::new()
    };
    match rng.random_range(0..5) {
        0 => format!("SELECT * FROM few JOIN TABLE t ON {on}{more}"),
        1 => format!("SELECT * FROM few LEFT JOIN TABLE t ON {on}{more}"),
        2 => format!("SELECT * FROM TABLE t RIGHT JOIN few ON {on}{more}"),
        3 => format!("SELECT * FROM few WHERE EXISTS (SELECT 1 FROM TABLE t WHERE {on}{more})"),
        _ => format!("SELECT * FROM few WHERE NOT EXISTS (SELECT 1 FROM TABLE t WHERE {on}{more})"),
    }
}

fn change(rng: &mut StdRng, next_id: &mut i32) -> String {
    let condition = condition(rng, "TABLE");
    match rng.random_range(0..4) {
        0 => format!("DELETE FROM TABLE WHERE {condition}"),
        1 => format!("UPDATE TABLE SET k = k + 1, n = n / 2 WHERE {condition}"),
        2 => format!("UPDATE TABLE SET s = 'name ' || k % 701, d = d + 1 WHERE {condition}"),
        _ => {
            let first = *next_id;
            *next_id += 40;
            format!(
                "INSERT INTO TABLE SELECT g, g % 3001, 'name ' || g % 701, DATE '2020-02-02', g % 90 \
                 FROM generate_series({first}, {}) AS q (g)",
                *next_id - 1
            )
        }
    }
}

#[test]
fn indexes_change_no_answer() {
    let (seed, mut rng) = seeded();
    let mut c = tables();
    let (mut scans, mut joins, mut next_id) = (0, 0, 30_000);
    // Reads the rows that were there when its block began.
    let mut old = c.another();
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    old.run("SELECT count(*) FROM plain");
    for round in 0..120 {
        if round % 4 == 0 {
            on_both(&mut c, &change(&mut rng, &mut next_id));
            if rng.random_bool(0.7) {
                // After a change an index is not used before scans have cost as much as building it: this builds it.
                for (name, columns) in INDEXES {
                    c.run(&format!(
                        "DROP INDEX {name}; CREATE INDEX {name} ON indexed ({columns})"
                    ));
                }
            }
        }
        if round % 40 == 39 {
            old.run("COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ");
            old.run("SELECT count(*) FROM plain");
        }
        let query = match rng.random_bool(0.5) {
            true => join(&mut rng),
            false => format!("SELECT * FROM TABLE t WHERE {} ORDER BY 1", condition(&mut rng, "t")),
        };
        for client in [&mut c, &mut old] {
            let mut answers = ["plain", "indexed"].map(|table| client.run(&query.replace("TABLE", table)));
            answers.iter_mut().for_each(|rows| rows.sort());
            assert_eq!(answers[0], answers[1], "seed {seed}: {query}");
        }
        let plan = c
            .run(&format!("EXPLAIN {}", query.replace("TABLE", "indexed")))
            .join("\n");
        scans += usize::from(plan.contains("Index Scan using"));
        joins += usize::from(plan.contains("Index Lookup"));
    }
    assert!(
        scans > 20 && joins > 8,
        "seed {seed}: {scans} plans with an index, {joins} with an index join"
    );
}

#[test]
fn plans_say_which_index_they_read() {
    let mut c = tables();
    let plan = |c: &mut Client, query: &str| c.run(&format!("EXPLAIN {query}")).join("\n");
    let point = plan(&mut c, "SELECT s FROM indexed WHERE id = 77");
    assert!(point.contains("Index Scan using indexed_pkey"), "{point}");
    let both = plan(&mut c, "SELECT id FROM indexed WHERE s = 'name 3' AND k = 9");
    assert!(both.contains("Index Scan using by_s_k"), "{both}");
    let many = plan(&mut c, "SELECT id FROM indexed WHERE k > 5");
    assert!(!many.contains("Index Scan"), "{many}");
    let joined = plan(&mut c, "SELECT * FROM few JOIN indexed ON s = c AND k = a");
    let lookup = joined.contains("Index Lookup: = few.c, = few.a");
    assert!(lookup && joined.contains("Index Scan using by_s_k"), "{joined}");
    let band = plan(&mut c, "SELECT * FROM few JOIN indexed ON n BETWEEN lo AND hi");
    assert!(band.contains("Index Scan using by_n"), "{band}");
}

#[test]
fn a_scan_does_without_an_index_that_memory_does_not_allow() {
    let options = tenon_planner::EngineOptions {
        memory_limit_bytes: 6 << 20,
        ..tenon_planner::EngineOptions::default()
    };
    let mut c = Client::with(options);
    c.run("CREATE TABLE t (k int, v int)");
    c.run("CREATE INDEX ON t (k)");
    c.run("INSERT INTO t SELECT g, g FROM generate_series(1, 200000) AS q (g)");
    assert_eq!(c.run("SELECT v FROM t WHERE k = 500"), ["500"]);
    let plan = c.run("EXPLAIN SELECT v FROM t WHERE k = 500").join("\n");
    assert!(!plan.contains("index scan"), "{plan}");
    assert_eq!(c.fails("CREATE INDEX ON t (v)"), "53200");
    assert_eq!(c.run("SELECT count(*) FROM pg_indexes"), ["1"]);
}
