use crate::common::Client;

#[test]
fn update_and_delete() {
    let mut c = Client::new();
    c.run("CREATE TABLE t (a int PRIMARY KEY, b text, n numeric(10,2))");
    c.run("INSERT INTO t VALUES (1,'x',1), (2,'y',2), (3,'z',3), (4,NULL,4)");
    assert_eq!(c.run("UPDATE t SET b = upper(b), n = n * 2 WHERE a > 1"), ["UPDATE 3"]);
    assert_eq!(
        c.run("SELECT * FROM t ORDER BY a"),
        ["1|x|1.00", "2|Y|4.00", "3|Z|6.00", "4|NULL|8.00"]
    );
    assert_eq!(
        c.run("DELETE FROM t WHERE a IN (SELECT a + 1 FROM t WHERE b = 'x') RETURNING a, b"),
        ["2|Y"]
    );
    assert_eq!(c.run("SELECT count(*) FROM t"), ["3"]);
    c.run("CREATE TABLE s (a int, v int)");
    c.run("INSERT INTO s VALUES (1, 10), (1, 10), (3, 30)");
    assert_eq!(c.run("UPDATE t SET n = s.v FROM s WHERE s.a = t.a"), ["UPDATE 2"]);
    assert_eq!(c.run("SELECT a, n FROM t ORDER BY a"), ["1|10.00", "3|30.00", "4|8.00"]);
    assert_eq!(
        c.run("UPDATE t AS x SET b = DEFAULT, n = (SELECT max(v) FROM s) WHERE x.a = 4 RETURNING x.a, n"),
        ["4|30.00"]
    );
    assert_eq!(
        c.run("DELETE FROM t USING s WHERE s.a = t.a AND s.v = 30"),
        ["DELETE 1"]
    );
    assert_eq!(
        c.run("DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = t.a)"),
        ["DELETE 1"]
    );
    assert_eq!(c.run("SELECT a FROM t"), ["1"]);
    assert_eq!(c.fails("UPDATE t SET nothing = 1"), "42703");
    assert_eq!(c.fails("INSERT INTO t VALUES (1, 'again', 0)"), "23505");
    assert_eq!(c.fails("UPDATE t SET a = NULL"), "23502");
    assert_eq!(c.run("DELETE FROM t"), ["DELETE 1"]);
    assert_eq!(c.run("TRUNCATE s"), ["TRUNCATE TABLE"]);
}

#[test]
fn alter() {
    let mut c = Client::new();
    c.run("CREATE TABLE t (a int)");
    c.run("INSERT INTO t VALUES (1), (2)");
    c.run("ALTER TABLE t ADD COLUMN b int DEFAULT 7");
    c.run("ALTER TABLE t RENAME COLUMN a TO id");
    assert_eq!(c.run("SELECT id, b FROM t ORDER BY 1"), ["1|7", "2|7"]);
    c.run("ALTER TABLE t RENAME TO u");
    c.run("ALTER TABLE u DROP COLUMN b");
    assert_eq!(c.run("SELECT * FROM u ORDER BY 1"), ["1", "2"]);
    assert_eq!(c.fails("ALTER TABLE gone RENAME TO x"), "42P01");
    c.run("ALTER TABLE IF EXISTS gone RENAME TO x");
}

#[test]
fn cursors_and_names() {
    let mut c = Client::new();
    c.run("BEGIN");
    c.run("DECLARE c CURSOR FOR SELECT x FROM (VALUES (1), (2), (3)) v(x) ORDER BY x");
    assert_eq!(c.run("FETCH 2 FROM c"), ["1", "2"]);
    assert_eq!(c.run("FETCH ALL FROM c"), ["3"]);
    c.run("CLOSE c");
    assert_eq!(c.fails("FETCH 1 FROM c"), "34000");
    c.run("ROLLBACK");
    c.run("PREPARE p (int) AS SELECT $1 + 1");
    assert_eq!(c.run("EXECUTE p(41)"), ["42"]);
    c.run("DEALLOCATE p");
    assert_eq!(c.fails("EXECUTE p(1)"), "26000");
    let plan = c.run("EXPLAIN SELECT 1");
    assert!(!plan.is_empty());
}

#[test]
fn aggregates_of_nothing_are_null() {
    let mut c = Client::new();
    c.run("CREATE TABLE e (x int, y int8, f float8, n numeric(10, 2), u uuid)");
    let sql = "SELECT sum(x), max(x), min(f), sum(y), sum(n), avg(f), count(*), count(x) FROM e WHERE x > 5";
    let nothing = "NULL|NULL|NULL|NULL|NULL|NULL|0|0";
    assert_eq!(c.run(sql), [nothing]);
    c.run("INSERT INTO e VALUES (1, 1, 1, 1, '00000000-0000-0000-0000-00000000002a')");
    assert_eq!(c.run(sql), [nothing]);
    assert_eq!(
        c.run("SELECT count(*) FROM e WHERE u = '00000000-0000-0000-0000-00000000002A'"),
        ["1"]
    );
    c.run("BEGIN; DECLARE c CURSOR FOR SELECT x FROM e; FETCH 5 FROM c");
    assert_eq!(c.run("FETCH 5 FROM c"), Vec::<String>::new());
    assert_eq!(c.run("FETCH 5 FROM c"), Vec::<String>::new());
}
