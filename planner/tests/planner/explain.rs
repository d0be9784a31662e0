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

fn json(c: &mut Client, sql: &str) -> serde_json::Value {
    let document = c.run(&format!("EXPLAIN (ANALYZE, FORMAT JSON) {sql}")).join("\n");
    serde_json::from_str(&document).unwrap()
}

#[test]
fn documents_are_laid_out_as_postgresql_does() {
    let mut c = tables();
    let sql = "SELECT name FROM dim WHERE name < 'a&b' ORDER BY name";
    let mut shown = |format: &str| c.run(&format!("EXPLAIN (COSTS OFF, VERBOSE, SUMMARY, FORMAT {format}) {sql}"));
    let yaml = shown("YAML").join("\n");
    let begin = "- Plan: \n    Node Type: \"Sort\"\n    Parallel Aware: false\n";
    assert!(yaml.starts_with(begin), "{yaml}");
    let plans = "\n    Plans: \n      - Node Type: \"Seq Scan\"\n        Parent Relationship: \"Outer\"\n";
    assert!(yaml.contains(plans), "{yaml}");
    assert!(yaml.contains("\n    Output: \n      - \"name\"\n"), "{yaml}");
    assert!(yaml.contains("\n  Planning Time: "), "{yaml}");
    let xml = shown("XML").join("\n");
    let begin = "<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n  <Query>\n    <Plan>\n      <Node-Type>Sort</Node-Type>\n";
    assert!(xml.starts_with(begin), "{xml}");
    let plans = "\n      <Plans>\n        <Plan>\n          <Node-Type>Seq Scan</Node-Type>\n";
    assert!(xml.contains(plans), "{xml}");
    assert!(
        xml.contains("\n      <Output>\n        <Item>name</Item>\n      </Output>\n"),
        "{xml}"
    );
    assert!(xml.contains("a&amp;b"), "{xml}");
    assert!(xml.ends_with("</Planning-Time>\n  </Query>\n</explain>"), "{xml}");
}

#[test]
fn changes_are_carried_out_and_accounted_for() {
    let mut c = tables();
    for (sql, what, rows) in [
        (
            "INSERT INTO dim SELECT v, 'new' FROM generate_series(100, 109) AS g(v)",
            "Insert",
            10,
        ),
        (
            "INSERT INTO dim VALUES (110, DEFAULT), (111, 'x') RETURNING id",
            "Insert",
            2,
        ),
        (
            "INSERT INTO dim VALUES (110, 'y') ON CONFLICT (id) DO UPDATE SET name = excluded.name",
            "Insert",
            1,
        ),
        ("UPDATE dim SET name = 'z' WHERE id >= 100", "Update", 12),
        (
            "DELETE FROM dim USING fact WHERE dim.id = fact.id AND dim.id > 95",
            "Delete",
            16,
        ),
    ] {
        let document = json(&mut c, sql);
        let node = &document[0]["Plan"];
        assert_eq!(node["Node Type"], "ModifyTable", "{sql}");
        assert_eq!(
            (&node["Operation"], &node["Relation Name"]),
            (&what.into(), &"dim".into()),
            "{sql}"
        );
        assert_eq!(
            node["Actual Rows"],
            if sql.contains("RETURNING") { 2 } else { 0 },
            "{sql}"
        );
        assert_eq!(node["Plans"][0]["Actual Rows"], rows, "{sql}");
        assert!(document[0]["Execution Time"].is_number() && document[0]["Planning Time"].is_number());
    }
    assert_eq!(c.run("SELECT count(*) FROM dim"), ["96"]);
    let document = json(&mut c, "CREATE TABLE made AS SELECT id FROM dim WHERE id < 10");
    assert_eq!(document[0]["Plan"]["Actual Rows"], 10);
    assert_eq!(c.run("SELECT count(*) FROM made"), ["10"]);
    let lines = c.run("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) DELETE FROM made WHERE id = 3");
    assert_eq!(lines[0], "Delete on made  (actual rows=0 loops=1)");
    c.run("PREPARE more (int) AS INSERT INTO made VALUES ($1)");
    assert_eq!(json(&mut c, "EXECUTE more (7)")[0]["Plan"]["Operation"], "Insert");
    assert_eq!(c.run("SELECT count(*) FROM made"), ["10"]);
    // What fails leaves nothing behind; without ANALYZE nothing is done at all.
    assert_eq!(
        c.fails("EXPLAIN ANALYZE INSERT INTO dim SELECT id, name FROM dim"),
        "23505"
    );
    c.run("EXPLAIN DELETE FROM dim");
    c.run("EXPLAIN EXECUTE more (8)");
    assert_eq!(c.run("SELECT count(*) FROM dim"), ["96"]);
    assert_eq!(c.fails("EXPLAIN ANALYZE CREATE TABLE made AS SELECT 1"), "42P07");
}

/// Members that pev2 and explain.depesz.com read, with their types, on every node of a plan that has run.
fn check_node(node: &serde_json::Value, root: bool) {
    let text = ["Node Type"];
    let number = [
        "Startup Cost",
        "Total Cost",
        "Plan Rows",
        "Plan Width",
        "Actual Startup Time",
        "Actual Total Time",
        "Actual Rows",
        "Actual Loops",
    ];
    for name in text {
        assert!(node[name].is_string(), "{name} of {node:#}");
    }
    for name in number {
        assert!(node[name].is_number(), "{name} of {node:#}");
    }
    assert!(root || node["Parent Relationship"].is_string(), "{node:#}");
    match node["Node Type"].as_str().unwrap() {
        "Hash Join" | "Nested Loop" | "Merge Join" => assert!(node["Join Type"].is_string(), "{node:#}"),
        "Aggregate" => assert!(node["Strategy"].is_string(), "{node:#}"),
        "Seq Scan" => assert!(
            node["Relation Name"].is_string() && node["Alias"].is_string(),
            "{node:#}"
        ),
        "Index Scan" => assert!(
            node["Index Name"].is_string() && node["Relation Name"].is_string(),
            "{node:#}"
        ),
        "Sort" => assert!(node["Sort Key"].is_array(), "{node:#}"),
        _ => {}
    }
    for input in node["Plans"].as_array().into_iter().flatten() {
        check_node(input, false);
    }
}

#[test]
fn visualisers_find_what_they_look_for() {
    let mut c = tables();
    for sql in [
        QUERY,
        "SELECT * FROM dim WHERE id > (SELECT avg(id) FROM fact) OR name = (SELECT max(note) FROM fact)",
        "SELECT * FROM dim a LEFT JOIN dim b ON a.id < b.id AND b.id < a.id + 3",
        "SELECT fact.id FROM fact JOIN dim ON fact.id = dim.id AND dim.id < 5",
        "SELECT count(DISTINCT name), row_number() OVER (ORDER BY count(*)) FROM dim GROUP BY id % 3",
        "VALUES (1), (2)",
        "SELECT 1",
        "SELECT id FROM dim UNION SELECT id FROM fact",
        "SELECT v FROM generate_series(1, 3) AS g(v)",
        "SELECT note FROM fact WHERE id = 77",
        "UPDATE dim SET name = 'x' WHERE id = 3",
    ] {
        let document = json(&mut c, sql);
        let top = &document[0];
        for name in ["Planning Time", "Execution Time"] {
            assert!(top[name].is_number(), "{name}: {sql}");
        }
        assert!(top["Triggers"].is_array());
        println!("-- {sql}");
        check_node(&top["Plan"], true);
    }
}
