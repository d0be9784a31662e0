use super::*;

fn parts(sql: &str) -> (String, Vec<Literal>) {
    let cut = cut(sql, &[]).unwrap();
    (cut.text, cut.literals)
}

#[test]
fn literals_beside_columns_are_taken_out() {
    use Literal::*;
    let (text, literals) = parts("select a from t where t.k=5 and (v <> 'it''s') or \"d\" >= 1.50 order by 1 limit 5");
    assert_eq!(
        text,
        "select a from t where t.k=$1 and (v <> $2) or \"d\" >= $3 order by 1 limit $4"
    );
    assert_eq!(
        literals,
        [
            Integer("5".into()),
            Text("it's".into()),
            Decimal("1.50".into()),
            Integer("5".into())
        ]
    );
    let (text, literals) = parts("SELECT 1 FROM t WHERE k BETWEEN 3 AND 7 AND 5 = k;");
    assert_eq!(text, "SELECT 1 FROM t WHERE k BETWEEN $1 AND $2 AND 5 = k;");
    assert_eq!(literals, [Integer("3".into()), Integer("7".into())]);
    let (text, literals) = parts("with r as (select a from t where k = 5) select 1 from r where v = 'x'");
    assert_eq!(
        text,
        "with r as (select a from t where k = $1) select 1 from r where v = $2"
    );
    assert_eq!(literals, [Integer("5".into()), Text("x".into())]);
    let pinned = cut("SELECT 1 FROM t WHERE k = 3 AND v = 'x'", &[0]).unwrap();
    assert_eq!(
        (pinned.text.as_str(), pinned.key.as_str()),
        (
            "SELECT 1 FROM t WHERE k = 3 AND v = $1",
            "SELECT 1 FROM t WHERE k = 3 AND v = $t"
        )
    );
    assert_ne!(
        cut("SELECT 1 FROM t WHERE v = 3", &[]).unwrap().key,
        cut("SELECT 1 FROM t WHERE v = '3'", &[]).unwrap().key
    );
}

#[test]
fn literals_of_lists_rows_and_assignments_are_taken_out() {
    use Literal::*;
    let integer = |text: &str| Integer(text.into());
    for (sql, text, literals) in [
        (
            "SELECT 1 FROM t WHERE k IN (1, -2,'x' ) AND g NOT IN (3) AND h = - 4",
            "SELECT 1 FROM t WHERE k IN ($1, $2,$3 ) AND g NOT IN ($4) AND h = $5",
            vec![
                integer("1"),
                integer("-2"),
                Text("x".into()),
                integer("3"),
                integer("-4"),
            ],
        ),
        (
            "select 1 from t where k between -3 and -1.5 or v in (f(1), 2)",
            "select 1 from t where k between $1 and $2 or v in (f(1), 2)",
            vec![integer("-3"), Decimal("-1.5".into())],
        ),
        (
            "INSERT INTO t (a, b) VALUES (5, -1.50, 'it''s', NULL, now(), DEFAULT, 7) ON CONFLICT (a) DO NOTHING",
            "INSERT INTO t (a, b) VALUES ($1, $2, $3, NULL, now(), DEFAULT, $4) ON CONFLICT (a) DO NOTHING",
            vec![integer("5"), Decimal("-1.50".into()), Text("it's".into()), integer("7")],
        ),
        (
            "update t as u set a = a + -5, b = 'x', c=c-1 ,d = 7 where k = 3 and g = 4 returning k, 5 = k",
            "update t as u set a = a + $1, b = $2, c=c-$3 ,d = $4 where k = $5 and g = $6 returning k, 5 = k",
            vec![
                Summand("-5".into()),
                Text("x".into()),
                Summand("1".into()),
                integer("7"),
                integer("3"),
                integer("4"),
            ],
        ),
        (
            "SELECT 1 FROM t WHERE d = '2024-01-01'::date AND e >= Timestamp  '2024-01-01' AND d BETWEEN 'a'::date AND date 'b'",
            "SELECT 1 FROM t WHERE d = $1::date AND e >= CAST($2 AS Timestamp) AND d BETWEEN $3::date AND CAST($4 AS date)",
            ["2024-01-01", "2024-01-01", "a", "b"]
                .map(|text| Text(text.into()))
                .to_vec(),
        ),
        (
            "UPDATE t SET a = a - 1.5 WHERE d > 'a'::date - 1 AND e < date 'b' + interval '1 day' AND f = 'x' + 1",
            "UPDATE t SET a = a - $1 WHERE d > $2::date - 1 AND e < CAST($3 AS date) + interval '1 day' AND f = 'x' + 1",
            vec![Summand("1.5".into()), Text("a".into()), Text("b".into())],
        ),
        (
            "INSERT INTO t VALUES ('x'::date, uuid 'y', 5)",
            "INSERT INTO t VALUES ($1::date, CAST($2 AS uuid), $3)",
            vec![Text("x".into()), Text("y".into()), integer("5")],
        ),
        (
            "UPDATE t SET a = 'x'::date, b = date 'y' WHERE lower(v) = 'z' AND v NOT LIKE 'a%' OR f(5) IN (2, 3) AND v ilike '%'",
            "UPDATE t SET a = $1::date, b = CAST($2 AS date) WHERE lower(v) = $3 AND v NOT LIKE $4 OR f(5) IN ($5, $6) AND v ilike $7",
            vec![
                Text("x".into()),
                Text("y".into()),
                Text("z".into()),
                Text("a%".into()),
                integer("2"),
                integer("3"),
                Text("%".into()),
            ],
        ),
        (
            "SELECT 1 FROM t WHERE k IN (1,-2, 3,4) AND v not in ('a', 'b','c' ,'d') AND k IN (1,2,3,'4') ORDER BY 1",
            "SELECT 1 FROM t WHERE k = ANY ($1) AND v <> ALL ($2) AND k IN ($3,$4,$5,$6) ORDER BY 1",
            vec![
                List(["1", "-2", "3", "4"].map(integer).to_vec()),
                List(["a", "b", "c", "d"].map(|text| Text(text.into())).to_vec()),
                integer("1"),
                integer("2"),
                integer("3"),
                Text("4".into()),
            ],
        ),
        (
            "SELECT sum(a) FILTER (WHERE k > 5), 1 FROM t WHERE k = ANY ('{1,2}') AND v = any('{a}'::text[]) AND k < 3",
            "SELECT sum(a) FILTER (WHERE k > 5), 1 FROM t WHERE k = ANY ($1) AND v = any($2::text[]) AND k < $3",
            vec![Text("{1,2}".into()), Text("{a}".into()), integer("3")],
        ),
        ("UPDATE t SET a = 1;", "UPDATE t SET a = $1;", vec![integer("1")]),
        (
            "DELETE FROM t WHERE k = 5 RETURNING *",
            "DELETE FROM t WHERE k = $1 RETURNING *",
            vec![integer("5")],
        ),
        (
            "INSERT INTO t SELECT a, 5 FROM u WHERE k = 7",
            "INSERT INTO t SELECT a, 5 FROM u WHERE k = $1",
            vec![integer("7")],
        ),
    ] {
        assert_eq!(parts(sql), (text.to_owned(), literals));
    }
    // A list is not cut where it is pinned, and the next literal has the next number.
    let pinned = cut("SELECT 1 FROM t WHERE k IN (1, 2, 3, 4) AND g = 5", &[0]).unwrap();
    assert_eq!(pinned.text, "SELECT 1 FROM t WHERE k IN (1, 2, 3, 4) AND g = $1");
    // A number that is added is no number that is compared.
    let key = |sql| cut(sql, &[]).unwrap().key;
    assert_ne!(key("UPDATE t SET a = a + 5"), key("UPDATE t SET a = 5"));
    assert_eq!(key("UPDATE t SET a = a + 5"), key("UPDATE t SET a = a + -7"));
    let many = format!("INSERT INTO t VALUES ({}5)", "1, ".repeat(200));
    assert_eq!(parts(&many).1.len(), LITERALS_MAX);
}

#[test]
fn others_stay() {
    for sql in [
        "SELECT 5, 'a' FROM t",
        "SELECT a FROM t WHERE k = 5::text",
        "SELECT a FROM t WHERE k = 5 + 1",
        "SELECT a FROM t WHERE k =- 5",
        "SELECT a FROM t WHERE k = - - 5",
        "SELECT a FROM t WHERE k = -x.y AND k = a - 5",
        "SELECT a FROM t WHERE d = interval '1 day'",
        "SELECT a FROM t WHERE v = 'a'::varchar(3) OR v = 'a'::s.t OR v = 'a'::text::date",
        "SELECT count(*) FILTER (WHERE (k) > 5 AND v = 'x') FROM t",
        "SELECT a FROM t WHERE k = ANY (ARRAY[5]) OR k = ANY ('{1}'::int[] || 2) OR k = ANY (5)",
        "SELECT a FROM t WHERE v LIKE 'a' ESCAPE 'x' OR v LIKE 5 OR v = 5 LIKE 'a'",
        "SELECT a FROM t WHERE k = 'a' 'b'",
        "SELECT a FROM t WHERE k = 'a' COLLATE \"C\"",
        "SELECT a FROM t WHERE d > now() - interval '1 day'",
        "SELECT a[5] FROM t WHERE k = a[5]",
        "SELECT a::numeric(5,2) FROM t GROUP BY 1 HAVING NULL = 5",
        "SELECT a FROM t WHERE k IN (SELECT b, 5 FROM u LIMIT 5) LIMIT 5 + 1",
        "SELECT a FROM t LIMIT 5 FOR UPDATE",
        "SELECT a FROM t WHERE (k, g) IN ((1, 2)) AND a[1] IN (2, 3)",
        "INSERT INTO t (a) VALUES (5 + 1, f(5), 'a' || 'b', 5::text, ARRAY[1, 2], interval '1 day')",
        "INSERT INTO t SELECT 5, 'a' FROM u RETURNING a = 5",
        "UPDATE t SET (a, b) = (1, 2), c = c * 2, d = 5 + 1, e = 2 + e, f = f + '0.5', g = g + 1 - 2",
        "UPDATE t SET a = a[5] + 1 RETURNING a + 1, a = 2",
        "DELETE FROM t RETURNING k = 5",
        "SELECT k = 5 AS five, CASE WHEN k = 5 THEN 1 END FROM t",
        "SELECT a FROM t WHERE k = 5. AND k = 1",
    ] {
        let found = cut(sql, &[]).unwrap();
        let expected = sql.replace("AND k = 1", "AND k = $1");
        assert_eq!(found.text, expected);
    }
    for sql in [
        "INSERT INTO t VALUES (5), (6)",
        "COPY t FROM stdin",
        "WITH a AS (DELETE FROM t RETURNING k) SELECT 1 FROM a WHERE k = 5",
        "WITH RECURSIVE a(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM a WHERE k < 5) SELECT 1 FROM a",
        "SELECT $1",
        "SELECT E'a\\'b' WHERE k = 5",
        "SELECT a FROM t WHERE k = 'a\\' AND v = 'b'",
        "SELECT a -- k = 5\n FROM t",
        "SELECT a /* 'x */ FROM t",
        "SELECT U&'x' FROM t",
        "SELECT a FROM t WHERE k = 5e3",
        "SELECT a FROM t WHERE k = 'a",
        "SELECT $$a$$",
        "SEL",
    ] {
        assert_eq!(cut(sql, &[]), None, "{sql}");
    }
}
