//! Plans that prepared statements keep give what a new plan would, whatever happens in between.

use crate::common::{Client, rows};
use datafusion::common::ScalarValue;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenon_planner::Prepared;

fn tables() -> Client {
    let mut c = Client::new();
    c.run("CREATE TABLE t (id int PRIMARY KEY, kind int, name text)");
    c.run("INSERT INTO t SELECT v, v % 10, 'name ' || v FROM generate_series(1, 1000) AS g(v)");
    c.run("CREATE TABLE u (kind int, label text)");
    c.run("INSERT INTO u SELECT v, 'label ' || v FROM generate_series(0, 9) AS g(v)");
    c
}

fn prepare(c: &mut Client, sql: &str) -> Prepared {
    c.block_on(async |session| {
        let statement = session.parse(sql).unwrap().remove(0);
        session.prepare(statement, &[]).await.unwrap()
    })
}

fn execute(c: &mut Client, prepared: &Prepared, params: Vec<ScalarValue>) -> Vec<String> {
    c.block_on(async |session| rows(session.execute(prepared, params).await.unwrap()).await.unwrap())
}

#[test]
fn repeated_runs_agree() {
    let mut c = tables();
    for sql in [
        "SELECT count(*), sum(id) FROM t JOIN u ON t.kind = u.kind WHERE label = 'label 3'",
        "SELECT kind, count(*) FROM t GROUP BY kind ORDER BY kind",
        "SELECT * FROM t ORDER BY name DESC LIMIT 5",
        "SELECT count(*) FROM t WHERE kind = (SELECT max(kind) FROM u)",
        "SELECT label FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.kind = u.kind AND t.id < 5) ORDER BY 1",
        "SELECT a.id, b.id FROM t a JOIN t b ON a.id < b.id AND b.id < 5 ORDER BY 1, 2",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r ORDER BY n",
        "SELECT id, row_number() OVER (ORDER BY id DESC) FROM t WHERE id < 4 UNION ALL SELECT kind, 0 FROM u ORDER BY 1, 2",
    ] {
        let expected = c.run(sql);
        let prepared = prepare(&mut c, sql);
        for run in 0..5 {
            assert_eq!(execute(&mut c, &prepared, vec![]), expected, "run {run}: {sql}");
        }
    }
}

#[test]
fn changes_are_seen() {
    let mut c = tables();
    let prepared = prepare(&mut c, "SELECT count(*) FROM t JOIN u ON t.kind = u.kind");
    let count = |c: &mut Client, prepared: &Prepared| execute(c, prepared, vec![]);
    for _ in 0..3 {
        assert_eq!(count(&mut c, &prepared), ["1000"]);
    }
    let mut other = c.another();
    other.run("INSERT INTO t VALUES (2000, 3, 'new')");
    assert_eq!(count(&mut c, &prepared), ["1001"]);
    assert_eq!(count(&mut c, &prepared), ["1001"]);
    // Another table's change leaves the plan right.
    other.run("CREATE TABLE v (x int)");
    assert_eq!(count(&mut c, &prepared), ["1001"]);
    other.run("DELETE FROM u WHERE kind = 3");
    assert_eq!(count(&mut c, &prepared), ["900"]);
    // What a block has changed and not committed is its own.
    c.run("BEGIN");
    c.run("DELETE FROM t WHERE kind = 4");
    assert_eq!(count(&mut c, &prepared), ["800"]);
    assert_eq!(count(&mut c, &prepared), ["800"]);
    c.run("ROLLBACK");
    assert_eq!(count(&mut c, &prepared), ["900"]);
    // An emptied table, whose scan the plan may not even have.
    let all = prepare(&mut c, "SELECT count(*) FROM t");
    for _ in 0..3 {
        assert_eq!(count(&mut c, &all), ["1001"]);
    }
    other.run("TRUNCATE t");
    assert_eq!(count(&mut c, &all), ["0"]);
    assert_eq!(count(&mut c, &prepared), ["0"]);
    other.run("ANALYZE");
    assert_eq!(count(&mut c, &prepared), ["0"]);
}

#[test]
fn names_are_looked_up_anew() {
    let mut c = tables();
    let prepared = prepare(&mut c, "SELECT count(*) FROM u");
    for _ in 0..3 {
        assert_eq!(execute(&mut c, &prepared, vec![]), ["10"]);
    }
    c.run("CREATE SCHEMA s");
    c.run("CREATE TABLE s.u AS SELECT 1 AS kind");
    assert_eq!(execute(&mut c, &prepared, vec![]), ["10"]);
    c.run("SET search_path = s, public");
    assert_eq!(execute(&mut c, &prepared, vec![]), ["1"]);
    c.run("SET search_path = public");
    assert_eq!(execute(&mut c, &prepared, vec![]), ["10"]);
    c.run("CREATE VIEW w AS SELECT * FROM u WHERE kind < 5");
    let view = prepare(&mut c, "SELECT count(*) FROM w");
    for _ in 0..3 {
        assert_eq!(execute(&mut c, &view, vec![]), ["5"]);
    }
    c.run("CREATE OR REPLACE VIEW w AS SELECT * FROM u WHERE kind < 7");
    assert_eq!(execute(&mut c, &view, vec![]), ["7"]);
    c.run("CREATE TEMP TABLE u AS SELECT 1 AS kind UNION ALL SELECT 2");
    assert_eq!(execute(&mut c, &prepared, vec![]), ["2"]);
}

#[test]
fn values_and_moments_are_heeded() {
    let mut c = tables();
    let prepared = prepare(&mut c, "SELECT count(*) FROM t WHERE kind = $1");
    for kind in [3, 3, 3, 11, 3, 4] {
        let expected = if kind < 10 { "100" } else { "0" };
        let params = vec![ScalarValue::Int32(Some(kind))];
        assert_eq!(execute(&mut c, &prepared, params), [expected], "{kind}");
    }
    let now = prepare(&mut c, "SELECT now()");
    let first = execute(&mut c, &now, vec![]);
    execute(&mut c, &now, vec![]);
    assert_ne!(execute(&mut c, &now, vec![]), first);
    let random = prepare(&mut c, "SELECT random() FROM u ORDER BY 1");
    let first = execute(&mut c, &random, vec![]);
    execute(&mut c, &random, vec![]);
    assert_ne!(execute(&mut c, &random, vec![]), first);
    c.run("PREPARE p AS SELECT count(*) FROM t WHERE kind = $1");
    for _ in 0..3 {
        assert_eq!(c.run("EXECUTE p (3)"), ["100"]);
        assert_eq!(c.run("EXECUTE p (4)"), ["100"]);
        assert_eq!(c.run("EXECUTE p (40)"), ["0"]);
    }
    c.run("INSERT INTO t VALUES (5000, 40, 'x')");
    assert_eq!(c.run("EXECUTE p (40)"), ["1"]);
}

/// A drawn value of a parameter, as the wire would give it and as SQL.
enum Drawn {
    Int(i32),
    Text(String),
    Null,
}

impl Drawn {
    fn scalar(&self, text: bool) -> ScalarValue {
        match self {
            Drawn::Int(value) => ScalarValue::Int32(Some(*value)),
            Drawn::Text(value) => ScalarValue::Utf8View(Some(value.clone())),
            Drawn::Null if text => ScalarValue::Utf8View(None),
            Drawn::Null => ScalarValue::Int32(None),
        }
    }

    fn sql(&self) -> String {
        match self {
            Drawn::Int(value) => value.to_string(),
            Drawn::Text(value) => format!("'{value}'"),
            Drawn::Null => "NULL".into(),
        }
    }
}

/// Parameters in WHERE, in HAVING, in a select list, beside joins, in LIKE, and where no plan can leave them open. `int`
/// or `text` says the type of each.
const OPEN: [(&str, &[&str]); 9] = [
    ("SELECT id, name FROM t WHERE id = $1", &["int"]),
    (
        "SELECT count(*), max(name) FROM t WHERE id > $1 AND id <= $2",
        &["int", "int"],
    ),
    (
        "SELECT count(*) FROM t JOIN u ON t.kind = u.kind WHERE label = $1 AND id < $2",
        &["text", "int"],
    ),
    ("SELECT id + $1, name FROM t WHERE id < $2 ORDER BY id", &["int", "int"]),
    (
        "SELECT kind, sum(id) FROM t GROUP BY kind HAVING sum(id) > $1 * 100 ORDER BY kind",
        &["int"],
    ),
    ("SELECT count(*) FROM t WHERE name LIKE $1 || '%'", &["text"]),
    (
        "SELECT id FROM t WHERE kind IN ($1, $2) ORDER BY id LIMIT 7",
        &["int", "int"],
    ),
    ("SELECT id FROM t ORDER BY id LIMIT $1", &["int"]),
    (
        "SELECT label FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.kind = u.kind AND id = $1) OR kind = $2",
        &["int", "int"],
    ),
];

fn draw(rng: &mut StdRng, kind: &str, limit: bool) -> Drawn {
    match (kind, rng.random_range(0..12)) {
        (_, 0) if !limit => Drawn::Null,
        ("text", 1..6) => Drawn::Text(format!("label {}", rng.random_range(0..12))),
        ("text", _) => Drawn::Text(format!("name {}", rng.random_range(0..12))),
        _ => Drawn::Int(rng.random_range(0..1100)),
    }
}

/// Plans that leave the values open give what a plan for each value does, whatever is forced and changed in between.
#[test]
fn plans_for_any_values_agree() {
    let seed = std::env::var("TENON_SEED").ok().and_then(|s| s.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut c = tables();
    for (sql, kinds) in OPEN {
        let prepared = prepare(&mut c, sql);
        for run in 0..24 {
            let mode = match run {
                0..14 => "auto",
                14..18 => "force_generic_plan",
                18..21 => "force_custom_plan",
                _ => "auto",
            };
            c.run(&format!("SET plan_cache_mode = {mode}"));
            match run {
                9 => drop(c.run("INSERT INTO t SELECT 10000 + count(*), 3, 'name 3' FROM t")),
                16 => drop(c.run("CREATE INDEX by_kind ON t (kind)")),
                17 => drop(c.run("DROP INDEX by_kind")),
                20 => drop(c.run("ANALYZE")),
                _ => {}
            }
            let values: Vec<Drawn> = kinds
                .iter()
                .map(|k| draw(&mut rng, k, sql.contains("LIMIT $")))
                .collect();
            let params = values
                .iter()
                .zip(kinds)
                .map(|(value, k)| value.scalar(*k == "text"))
                .collect();
            let mut literal = sql.to_string();
            for (at, (value, kind)) in values.iter().zip(kinds).enumerate() {
                literal = literal.replace(&format!("${}", at + 1), &format!("({}::{kind})", value.sql()));
            }
            let found = execute(&mut c, &prepared, params);
            assert_eq!(found, c.run(&literal), "seed {seed}, run {run}, {mode}: {literal}");
        }
    }
}

/// A statement of many values has a plan for all of them at last, and a value that fails does so when it is met.
#[test]
fn values_that_fail_fail_when_they_are_met() {
    let mut c = tables();
    c.run("SET plan_cache_mode = force_generic_plan");
    c.run("PREPARE q (int) AS SELECT count(*) FROM t WHERE kind = 10 / $1");
    for _ in 0..4 {
        assert_eq!(c.run("EXECUTE q (2)"), ["100"]);
        assert_eq!(c.fails("EXECUTE q (0)"), "22012");
    }
    // No row, no failure.
    c.run("TRUNCATE t");
    assert_eq!(c.run("EXECUTE q (2)"), ["0"]);
}
