use crate::common::Client;

#[test]
fn integers_do_not_wrap() {
    let mut c = Client::new();
    assert_eq!(c.fails("SELECT 2147483647 + 1"), "22003");
    assert_eq!(c.fails("SELECT 9223372036854775807 + 1"), "22003");
    assert_eq!(c.fails("SELECT 32767::int2 * 2::int2"), "22003");
    assert_eq!(c.run("SELECT 2147483647::int8 + 1"), ["2147483648"]);
    c.run("CREATE TABLE t (a int8, b int)");
    c.run("INSERT INTO t VALUES (9223372036854775807, 2000000000), (1, 2000000000)");
    assert_eq!(c.run("SELECT sum(a) FROM t"), ["9223372036854775808"]);
    assert_eq!(c.run("SELECT sum(b) FROM t"), ["4000000000"]);
    assert_eq!(c.fails("SELECT a - (-1) FROM t"), "22003");
    assert_eq!(c.fails("SELECT b * 2 FROM t"), "22003");
    assert_eq!(c.run("SELECT count(*) FROM t WHERE b + 1 > 5"), ["2"]);
    assert_eq!(c.fails("INSERT INTO t VALUES (1, 3000000000)"), "22003");
    assert_eq!(c.run("SELECT 7 / 2, 7 % 3, -7 / 2"), ["3|1|-3"]);
    assert_eq!(c.fails("SELECT 1.0::float8 / 0"), "22012");
    assert_eq!(c.fails("SELECT 5 % 0"), "22012");
}

#[test]
fn casts() {
    let mut c = Client::new();
    assert_eq!(
        c.run("SELECT '42'::int + 1, '1.50'::numeric(10,2), 't'::bool"),
        ["43|1.50|true"]
    );
    assert_eq!(c.fails("SELECT 'abc'::int"), "22P02");
    assert_eq!(
        c.error("SELECT 'abc'::int").message,
        "invalid input syntax for type integer: \"abc\""
    );
    assert_eq!(c.fails("SELECT 'x'::uuid"), "22P02");
    assert_eq!(c.fails("SELECT '2020-13-01'::date"), "22008");
    assert_eq!(c.fails("SELECT 'soon'::date"), "22007");
    assert_eq!(
        c.run("SELECT 2.5::numeric(3,1)::int, -2.5::numeric(3,1)::int, 2.5::float8::int"),
        ["3|-3|2"]
    );
    assert_eq!(
        c.run("SELECT 1.0::float8::text, timestamp '2020-01-02 03:04:05'::text, 'abcdef'::varchar(3)"),
        ["1|2020-01-02 03:04:05|abc"]
    );
    assert_eq!(c.run("SELECT interval '1 day 2 hours'::text"), ["1 day 02:00:00"]);
    c.run("CREATE TABLE t (v varchar(3), c char(5), d date, u uuid, j json, i interval, b bytea, ts timestamptz)");
    c.run("INSERT INTO t VALUES ('abc', 'x', '2020-01-31', '00000000-0000-0000-0000-00000000002a', '{\"a\": 1}', '1 day', '\\x01ff', '2020-01-01 00:00:00+02')");
    assert_eq!(c.fails("INSERT INTO t (v) VALUES ('abcd')"), "22001");
    assert_eq!(c.fails("INSERT INTO t (j) VALUES ('{')"), "22P02");
    assert_eq!(
        c.run("SELECT v, c, d, u::text, j, b::text, ts::text FROM t"),
        ["abc|x|2020-01-31|00000000-0000-0000-0000-00000000002a|{\"a\": 1}|\\x01ff|2019-12-31 22:00:00+00"]
    );
    assert_eq!(
        c.run("SELECT count(*) FROM t WHERE d >= '2020-01-01' AND ts < now()"),
        ["1"]
    );
    assert_eq!(c.run("SELECT d + interval '1 month' FROM t"), ["2020-02-29T00:00:00"]);
    assert_eq!(c.fails("SELECT * FROM t WHERE d = 'never'"), "22007");
}

#[test]
fn select_shapes() {
    let mut c = Client::new();
    assert_eq!(c.run("SELECT 1, 1, 'a' AS x, 'b' AS x"), ["1|1|a|b"]);
    assert_eq!(c.run("SELECT * FROM generate_series(1, 3)"), ["1", "2", "3"]);
    assert_eq!(
        c.run("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r"),
        ["1", "2", "3"]
    );
    assert_eq!(
        c.run("SELECT coalesce(NULL, 'x'), nullif(1, 1), greatest(1, 2), CASE WHEN true THEN 1 ELSE 2 END"),
        ["x|NULL|2|1"]
    );
    assert_eq!(c.run("VALUES (1, 'a'), (2, 'b')"), ["1|a", "2|b"]);
    assert_eq!(
        c.run("SELECT x FROM (VALUES (3), (1), (2)) t(x) ORDER BY x DESC LIMIT 2 OFFSET 1"),
        ["2", "1"]
    );
    assert_eq!(
        c.run("SELECT 'abc' LIKE 'a%', 'ABC' ILIKE 'a%', 'abc' ~ '^a', 'a' || 'b' || 1::text"),
        ["true|true|true|ab1"]
    );
    assert_eq!(
        c.run("SELECT 2 = ANY (ARRAY[1, 2, 3]), 4 = ANY (ARRAY[1, 2])"),
        ["true|false"]
    );
    assert_eq!(
        c.run("SELECT extract(year FROM date '2020-05-06'), date_trunc('month', timestamp '2020-05-06 01:02:03')"),
        ["2020|2020-05-01T00:00:00"]
    );
    assert_eq!(
        c.run("SELECT substring('hello' FROM 2 FOR 3), position('l' IN 'hello'), trim(both 'x' FROM 'xax')"),
        ["ell|3|a"]
    );
    assert_eq!(c.fails("SELECT (SELECT x FROM (VALUES (1), (2)) t(x))"), "21000");
    assert_eq!(
        c.run("SELECT row_number() OVER (ORDER BY x), sum(x) OVER (ORDER BY x) FROM (VALUES (1), (2)) t(x)"),
        ["1|1", "2|3"]
    );
    assert_eq!(
        c.run("SELECT count(DISTINCT x), string_agg(x::text, ',' ORDER BY x) FROM (VALUES (1), (2), (2)) t(x)"),
        ["2|1,2,2"]
    );
}

#[test]
fn rows_and_quantifiers() {
    let mut c = Client::new();
    assert_eq!(
        c.run("SELECT (1, 2) = (1, 2), (1, 2) < (1, 3), (2, 1) > (1, 9), (1, NULL) = (2, NULL), (1, 2) <> (1, 3)"),
        ["true|true|true|false|true"]
    );
    c.run("CREATE TABLE e (id int, d int, pay int)");
    c.run("INSERT INTO e VALUES (1, 1, 30), (2, 1, 20), (3, 2, 10), (4, 3, 15)");
    let all = "SELECT id FROM e WHERE pay > ALL (SELECT pay FROM e WHERE d = 2) ORDER BY id";
    assert_eq!(c.run(all), ["1", "2", "4"]);
    let any = "SELECT id FROM e WHERE pay >= ANY (SELECT pay FROM e WHERE d = 1) ORDER BY id";
    assert_eq!(c.run(any), ["1", "2"]);
    assert_eq!(
        c.run("SELECT pay > ALL (SELECT 15) FROM e ORDER BY id"),
        ["true", "true", "false", "false"]
    );
    assert_eq!(
        c.run("SELECT id FROM e EXCEPT ALL SELECT 1 ORDER BY id"),
        ["2", "3", "4"]
    );
    assert_eq!(
        c.run("SELECT * FROM e a FULL JOIN e b USING (id) WHERE id = 1"),
        ["1|1|30|1|30"]
    );
}
