//! EXPLAIN as a client sees it.

use crate::common::Client;

fn tables() -> Client {
    let mut c = Client::new();
    c.run("CREATE TABLE fact (id int PRIMARY KEY, dim_id int, amount numeric(10,2), note text)");
    c.run("CREATE TABLE dim (id int PRIMARY KEY, name text)");
    c.run("INSERT INTO fact SELECT v, v % 100, v * 0.5, 'note ' || v FROM generate_series(1, 10000) AS g(v)");
    c.run("INSERT INTO dim SELECT v, 'name ' || v FROM generate_series(0, 99) AS g(v)");
    c
}

const QUERY: &str = "SELECT name, sum(amount) AS total FROM fact JOIN dim ON dim_id = dim.id \
                     WHERE fact.id <= 2000 AND note LIKE 'note%' GROUP BY name ORDER BY total DESC LIMIT 3";

#[test]
fn text_is_laid_out_as_postgresql_does() {
    let mut c = tables();
    let lines = c.run(&format!("EXPLAIN (COSTS OFF) {QUERY}"));
    println!("{}", lines.join("\n"));
    let lines = c.run(&format!("EXPLAIN {QUERY}"));
    println!("{}", lines.join("\n"));
    let lines = c.run(&format!("EXPLAIN (ANALYZE, VERBOSE) {QUERY}"));
    println!("{}", lines.join("\n"));
    let lines = c.run(&format!("EXPLAIN (ANALYZE, FORMAT JSON) {QUERY}"));
    println!("{}", lines.join("\n"));
    for sql in [
        "EXPLAIN INSERT INTO dim SELECT id, note FROM fact",
        "EXPLAIN UPDATE dim SET name = 'x' WHERE id = 3",
        "EXPLAIN DELETE FROM dim USING fact WHERE dim.id = fact.dim_id",
        "EXPLAIN SELECT * FROM dim WHERE id > (SELECT avg(id) FROM fact) OR name = (SELECT max(note) FROM fact)",
        "EXPLAIN SELECT * FROM dim a LEFT JOIN dim b ON a.id < b.id",
        "EXPLAIN SELECT count(DISTINCT name), row_number() OVER (ORDER BY count(*)) FROM dim GROUP BY id % 3",
        "EXPLAIN VALUES (1), (2)",
        "EXPLAIN SELECT 1",
        "EXPLAIN SELECT id FROM dim UNION SELECT id FROM fact",
        "EXPLAIN SELECT * FROM dim WHERE EXISTS (SELECT 1 FROM fact WHERE dim_id = dim.id) AND id NOT IN (SELECT id FROM fact WHERE amount > 10)",
    ] {
        println!("-- {sql}\n{}", c.run(sql).join("\n"));
    }
}
