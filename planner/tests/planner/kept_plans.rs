//! Plans that prepared statements keep give what a new plan would, whatever happens in between.

use crate::common::{Client, rows};
use datafusion::common::ScalarValue;
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
fn parameters_and_moments_are_not_kept() {
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
