use crate::common::Client;

#[test]
fn create_insert_select() {
    let mut c = Client::new();
    assert_eq!(
        c.run("CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(10,2) DEFAULT 1.5)"),
        ["CREATE TABLE"]
    );
    assert_eq!(c.run("INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL)"), ["INSERT 0 2"]);
    assert_eq!(c.run("SELECT * FROM t ORDER BY a"), ["1|x|1.50", "2|NULL|1.50"]);
    assert_eq!(c.run("SELECT count(*), sum(a) FROM t WHERE b IS NULL"), ["1|2"]);
    assert_eq!(c.run("INSERT INTO t VALUES (3, 'y', 7) RETURNING a + 1, c"), ["4|7.00"]);
    assert_eq!(
        c.run("CREATE VIEW v AS SELECT a, b FROM t WHERE a > 1"),
        ["CREATE VIEW"]
    );
    assert_eq!(c.run("SELECT * FROM v ORDER BY a"), ["2|NULL", "3|y"]);
    assert_eq!(c.fails("DROP TABLE t"), "2BP01");
    assert_eq!(c.run("DROP TABLE t CASCADE"), ["DROP TABLE"]);
    assert_eq!(c.fails("SELECT * FROM v"), "42P01");
    assert_eq!(
        c.run("CREATE TABLE u AS SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y'"),
        ["SELECT 2"]
    );
    assert_eq!(c.run("SELECT a FROM u ORDER BY a DESC"), ["2", "1"]);
    assert_eq!(c.run("DROP TABLE IF EXISTS u, nothing"), ["DROP TABLE"]);
}

#[test]
fn errors_have_states_and_places() {
    let mut c = Client::new();
    c.run("CREATE TABLE t (alpha int, beta text)");
    let error = c.error("SELECT alfa FROM t");
    assert_eq!((error.state.0, error.position), ("42703", Some(8)));
    assert!(error.hint.unwrap().contains("alpha"));
    let error = c.error("SELECT 1 FROM nowhere");
    assert_eq!((error.state.0, error.position), ("42P01", Some(15)));
    assert_eq!(error.message, "relation \"nowhere\" does not exist");
    let error = c.error("SELEC 1");
    assert_eq!(
        (error.state.0, error.position, error.message.as_str()),
        ("42601", Some(1), "syntax error at or near \"SELEC\"")
    );
    assert_eq!(c.fails("SELECT nofunc(1)"), "42883");
    assert_eq!(c.fails("SELECT alpha FROM t GROUP BY beta"), "42803");
    assert_eq!(
        c.fails("SELECT a.alpha, b.alpha FROM t a, t b WHERE alpha = 1"),
        "42702"
    );
    assert_eq!(c.fails("SELECT 1 / 0"), "22012");
}

#[test]
fn transactions() {
    let mut c = Client::new();
    let mut other = c.another();
    c.run("CREATE TABLE t (a int)");
    c.run("BEGIN");
    c.run("INSERT INTO t VALUES (1)");
    assert_eq!(c.run("SELECT count(*) FROM t"), ["1"]);
    assert_eq!(other.run("SELECT count(*) FROM t"), ["0"]);
    c.run("SAVEPOINT s");
    c.run("INSERT INTO t VALUES (2)");
    assert_eq!(c.fails("SELECT nothing"), "42703");
    assert_eq!(c.fails("SELECT 1"), "25P02");
    c.run("ROLLBACK TO s");
    assert_eq!(c.run("SELECT count(*) FROM t"), ["1"]);
    assert_eq!(c.run("COMMIT"), ["COMMIT"]);
    assert_eq!(other.run("SELECT count(*) FROM t"), ["1"]);
    assert_eq!(c.fails("INSERT INTO t VALUES (5); SELECT 1/0"), "22012");
    assert_eq!(c.run("SELECT count(*) FROM t"), ["1"]);
    c.run("BEGIN READ ONLY");
    assert_eq!(c.fails("INSERT INTO t VALUES (5)"), "25006");
    assert_eq!(c.run("COMMIT"), ["ROLLBACK"]);
}

#[test]
fn what_drivers_send_first() {
    let mut c = Client::new();
    for sql in [
        "SET extra_float_digits = 3",
        "SHOW TRANSACTION ISOLATION LEVEL",
        "select pg_catalog.version()",
        "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;",
        "DISCARD ALL",
        "SELECT current_setting('server_version_num')",
        "BEGIN READ ONLY",
        "ROLLBACK",
        "/* hello */ SET application_name = 'x'",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SELECT current_schema(), current_database(), current_user, session_user",
        "SET TIME ZONE 'UTC'",
        "SET NAMES 'utf8'",
        "SET client_encoding TO 'UNICODE'",
        "SET DateStyle = ISO",
        "vacuum analyze",
        "SET standard_conforming_strings = on",
        "DEALLOCATE ALL",
    ] {
        c.run(sql);
    }
    assert!(c.run("SELECT version()")[0].starts_with("PostgreSQL 15."));
    assert_eq!(c.run("SHOW transaction_isolation"), ["read committed"]);
    assert_eq!(c.run("SHOW server_version"), ["15.12"]);
}
