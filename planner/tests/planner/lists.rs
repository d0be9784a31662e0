//! Columns of strings list few buffers, however many batches and segments their rows came from, whatever operators they went
//! through; and each string is still its row's.

use crate::common::Client;
use arrow::array::{Array, AsArray};
use arrow::datatypes::Int32Type;
use futures::StreamExt;
use tenon_executor::gather::{LISTS_MAX, listed_buffers};
use tenon_planner::outcome::Outcome;

/// Each INSERT makes a segment, whose strings are in a buffer of its own; some become one.
const SEGMENTS: usize = 50;
const SEGMENT_ROWS: usize = 1200;

/// A number and the string that belongs to it, which is too long for a view, and null for some; a long one of few.
fn text(i: i32) -> Option<String> {
    (i % 11 != 3).then(|| format!("the text that belongs to row {i:07}"))
}

fn kind(i: i32) -> String {
    format!("one of the few kinds, number {}", i % 7)
}

fn table() -> Client {
    let mut client = Client::new();
    client.run("CREATE TABLE t (i int, s text, k text)");
    let statement = |segment: usize| {
        let (from, until) = (segment * SEGMENT_ROWS, (segment + 1) * SEGMENT_ROWS - 1);
        format!(
            "INSERT INTO t SELECT i, CASE WHEN i % 11 <> 3 THEN 'the text that belongs to row ' || lpad(i::text, 7, '0') END,
             'one of the few kinds, number ' || i % 7 FROM generate_series({from}, {until}) g(i)"
        )
    };
    (0..SEGMENTS).for_each(|segment| drop(client.run(&statement(segment))));
    client.run("CREATE TABLE few AS SELECT * FROM t WHERE i % 3 = 1");
    client
}

/// The rows of a query of a number, its text and its kind, all of which are checked.
fn check(client: &mut Client, sql: &str) -> usize {
    client.block_on(async |session| {
        let statement = session.parse(sql).unwrap().remove(0);
        let prepared = session.prepare(statement, &[]).await.unwrap();
        let Outcome::Rows { mut stream, .. } = session.execute(&prepared, Vec::new()).await.unwrap() else {
            panic!("{sql} gives no rows");
        };
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch.unwrap();
            for column in batch.columns() {
                let listed = listed_buffers(column);
                assert!(listed <= LISTS_MAX, "{sql}: a column lists {listed} buffers");
            }
            let numbers = batch.column(0).as_primitive::<Int32Type>();
            let (texts, kinds) = (batch.column(1).as_string_view(), batch.column(2).as_string_view());
            for row in 0..batch.num_rows() {
                let i = numbers.value(row);
                let found = texts.is_valid(row).then(|| texts.value(row));
                assert_eq!(found, text(i).as_deref(), "{sql}");
                assert_eq!(kinds.value(row), kind(i), "{sql}");
            }
            rows += batch.num_rows();
        }
        rows
    })
}

#[test]
fn lists_of_buffers_do_not_grow() {
    let mut client = table();
    let all = SEGMENTS * SEGMENT_ROWS;
    let third = (0..all).filter(|i| i % 3 == 1).count();
    let with_text = (0..all).filter(|i| i % 11 != 3).count();
    let queries: &[(&str, usize)] = &[
        ("SELECT i, s, k FROM t", all),
        ("SELECT i, s, k FROM t WHERE s LIKE '%row%' AND k <> ''", with_text),
        // Joins: the strings of the build side, of the probe side, of rows without a partner.
        ("SELECT a.i, a.s, b.k FROM t a JOIN few b ON a.i = b.i", third),
        (
            "SELECT b.i, b.s, a.k FROM t a JOIN few b ON a.i = b.i AND a.k >= b.k",
            third,
        ),
        ("SELECT a.i, a.s, a.k FROM t a LEFT JOIN few b ON a.i = b.i", all),
        (
            "SELECT a.i, a.s, a.k FROM few b RIGHT JOIN t a ON a.s = b.s AND a.i = b.i",
            all,
        ),
        (
            "SELECT coalesce(a.i, b.i), coalesce(a.s, b.s), coalesce(b.k, a.k) FROM t a FULL JOIN few b ON a.i = b.i",
            all,
        ),
        ("SELECT i, s, k FROM t WHERE i IN (SELECT i FROM few)", third),
        (
            "SELECT i, s, k FROM t WHERE NOT EXISTS (SELECT 1 FROM few WHERE few.i = t.i)",
            all - third,
        ),
        (
            "SELECT i, s, k FROM t WHERE i NOT IN (SELECT i FROM few WHERE i IS NOT NULL)",
            all - third,
        ),
        (
            "SELECT a.i, a.s, a.k FROM t a, (SELECT i FROM few ORDER BY i LIMIT 3) b WHERE a.i < b.i",
            1 + 4 + 7,
        ),
        (
            "SELECT a.i, b.s, c.k FROM t a JOIN t b ON a.i = b.i JOIN few c ON c.i = b.i",
            third,
        ),
        (
            "SELECT a.i, a.s, a.k FROM (SELECT * FROM t WHERE i < 500) a CROSS JOIN (VALUES (1), (2)) v(x)",
            1000,
        ),
        (
            "SELECT a.i, x.s, x.k FROM few a, LATERAL (SELECT s, k FROM t WHERE t.i = a.i LIMIT 1) x",
            third,
        ),
        // Aggregation.
        ("SELECT i, s, k FROM t GROUP BY i, s, k", all),
        (
            "SELECT min(i), s, min(k) FROM t WHERE s IS NOT NULL GROUP BY s",
            with_text,
        ),
        ("SELECT i, max(s), min(k) FROM t GROUP BY i", all),
        ("SELECT DISTINCT i, s, k FROM t", all),
        ("SELECT DISTINCT ON (k) i, s, k FROM t ORDER BY k, i", 7),
        (
            "SELECT i, s, k FROM t GROUP BY GROUPING SETS ((i, s, k), (i, s, k))",
            2 * all,
        ),
        // Sorts.
        ("SELECT i, s, k FROM t ORDER BY s, i", all),
        ("SELECT i, s, k FROM t ORDER BY k DESC, s LIMIT 5000", 5000),
        ("SELECT i, s, k FROM t ORDER BY s DESC LIMIT 20 OFFSET 9000", 20),
        // Windows.
        (
            "SELECT i, s, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY s, i) n FROM t) x WHERE n > 0",
            all,
        ),
        (
            "SELECT i, s, k FROM (SELECT *, count(*) OVER (ORDER BY i) n FROM t) x WHERE n > 0",
            all,
        ),
        (
            "SELECT i, first_value(s) OVER (PARTITION BY i ORDER BY k), max(k) OVER (PARTITION BY i) FROM t",
            all,
        ),
        (
            "SELECT i + 11, lead(s, 11) OVER (ORDER BY i), lead(k, 11) OVER (ORDER BY i) FROM t ORDER BY i LIMIT 9000",
            9000,
        ),
        // Sets.
        ("SELECT i, s, k FROM t UNION ALL SELECT i, s, k FROM few", all + third),
        ("SELECT i, s, k FROM t UNION SELECT i, s, k FROM few", all),
        ("SELECT i, s, k FROM t EXCEPT SELECT i, s, k FROM few", all - third),
        ("SELECT i, s, k FROM t INTERSECT ALL SELECT i, s, k FROM few", third),
        (
            "SELECT * FROM (SELECT i, s, k FROM t UNION ALL SELECT i, s, k FROM few) x ORDER BY s, i",
            all + third,
        ),
        // WITH: once, for several readers, and recursive.
        (
            "WITH c AS MATERIALIZED (SELECT i, s, k FROM t ORDER BY k) SELECT a.i, a.s, b.k FROM c a JOIN c b USING (i)",
            all,
        ),
        (
            "WITH RECURSIVE r AS (SELECT i, s, k FROM t WHERE i = 5 UNION ALL
             SELECT t.i, t.s, t.k FROM t JOIN r ON t.i = r.i + 500 WHERE t.i < 20000) SELECT i, s, k FROM r",
            40,
        ),
    ];
    for (sql, rows) in queries {
        assert_eq!(check(&mut client, sql), *rows, "{sql}");
    }
}
