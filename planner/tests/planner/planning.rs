//! How long planning takes: the 22 TPC-H queries over tables of a few rows, and statements that keep their plan.

use crate::common::Client;
use std::time::Instant;

const TABLES: &str = "
CREATE TABLE region (r_regionkey int PRIMARY KEY, r_name text NOT NULL, r_comment text NOT NULL);
CREATE TABLE nation (n_nationkey int PRIMARY KEY, n_name text NOT NULL, n_regionkey int NOT NULL, n_comment text NOT NULL);
CREATE TABLE supplier (s_suppkey int PRIMARY KEY, s_name text NOT NULL, s_address text NOT NULL, s_nationkey int NOT NULL,
    s_phone text NOT NULL, s_acctbal numeric(15,2) NOT NULL, s_comment text NOT NULL);
CREATE TABLE part (p_partkey int PRIMARY KEY, p_name text NOT NULL, p_mfgr text NOT NULL, p_brand text NOT NULL,
    p_type text NOT NULL, p_size int NOT NULL, p_container text NOT NULL, p_retailprice numeric(15,2) NOT NULL,
    p_comment text NOT NULL);
CREATE TABLE partsupp (ps_partkey int NOT NULL, ps_suppkey int NOT NULL, ps_availqty int NOT NULL,
    ps_supplycost numeric(15,2) NOT NULL, ps_comment text NOT NULL);
CREATE TABLE customer (c_custkey int PRIMARY KEY, c_name text NOT NULL, c_address text NOT NULL, c_nationkey int NOT NULL,
    c_phone text NOT NULL, c_acctbal numeric(15,2) NOT NULL, c_mktsegment text NOT NULL, c_comment text NOT NULL);
CREATE TABLE orders (o_orderkey int PRIMARY KEY, o_custkey int NOT NULL, o_orderstatus text NOT NULL,
    o_totalprice numeric(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority text NOT NULL, o_clerk text NOT NULL,
    o_shippriority int NOT NULL, o_comment text NOT NULL);
CREATE TABLE lineitem (l_orderkey int NOT NULL, l_partkey int NOT NULL, l_suppkey int NOT NULL, l_linenumber int NOT NULL,
    l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL, l_discount numeric(15,2) NOT NULL,
    l_tax numeric(15,2) NOT NULL, l_returnflag text NOT NULL, l_linestatus text NOT NULL, l_shipdate date NOT NULL,
    l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct text NOT NULL, l_shipmode text NOT NULL,
    l_comment text NOT NULL);
INSERT INTO region SELECT v, 'name ' || v, 'x' FROM generate_series(0, 4) AS g(v);
INSERT INTO nation SELECT v, 'name ' || v, v % 5, 'x' FROM generate_series(0, 24) AS g(v);
INSERT INTO supplier SELECT v, 'name ' || v, 'x', v % 25, '10-123', v % 90, 'x' FROM generate_series(1, 100) AS g(v);
INSERT INTO part SELECT v, 'name ' || v, 'x', 'Brand#' || v % 40, 'type ' || v % 30, v % 50, 'LG BOX', v, 'x'
    FROM generate_series(1, 2000) AS g(v);
INSERT INTO partsupp SELECT v % 2000 + 1, v % 100 + 1, v, v, 'x' FROM generate_series(1, 8000) AS g(v);
INSERT INTO customer SELECT v, 'name ' || v, 'x', v % 25, '10-' || v, v, 'BUILDING', 'x' FROM generate_series(1, 1500) AS g(v);
INSERT INTO orders SELECT v, v % 1500 + 1, 'F', v, date '1992-01-01' + v % 2400, '1-URGENT', 'x', 0, 'x'
    FROM generate_series(1, 15000) AS g(v);
INSERT INTO lineitem SELECT v % 15000 + 1, v % 2000 + 1, v % 100 + 1, v % 7, v % 50, v, 0.05, 0.02, 'A', 'F',
    date '1992-01-01' + v % 2400, date '1992-02-01' + v % 2400, date '1992-02-11' + v % 2400, 'NONE', 'AIR', 'x'
    FROM generate_series(1, 60000) AS g(v);
";

fn query(number: usize) -> String {
    let path = format!("{}/../tests/tpch/q{number:02}.sql", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn planning_ms(c: &mut Client, sql: &str) -> f64 {
    let lines = c.run(&format!("EXPLAIN (SUMMARY) {sql}"));
    let line = lines
        .iter()
        .find_map(|line| line.strip_prefix("Planning Time: "))
        .unwrap();
    line.strip_suffix(" ms").unwrap().parse().unwrap()
}

/// Prints the times. The bound is far above what a release build takes (2 ms in the median): tests are built without
/// optimization and run beside others.
#[test]
fn tpch_is_planned_quickly() {
    let mut c = Client::new();
    c.run(TABLES);
    let mut medians = vec![];
    for number in 1..=22 {
        let sql = query(number);
        let times = (0..7).map(|_| planning_ms(&mut c, &sql)).collect();
        let time = median(times);
        println!("q{number:02} planned in {time:.2} ms");
        medians.push(time);
    }
    let all = median(medians);
    println!("median {all:.2} ms");
    assert!(all < 100.0, "{all} ms");
}

#[test]
fn a_kept_plan_starts_at_once() {
    let mut c = Client::new();
    c.run(TABLES);
    let sql = query(5);
    let once = |c: &mut Client, sql: &str| {
        let begun = Instant::now();
        c.run(sql);
        begun.elapsed().as_secs_f64() * 1e3
    };
    let fresh = median((0..7).map(|_| once(&mut c, &sql)).collect());
    c.run(&format!("PREPARE q AS {sql}"));
    let kept = median((0..7).map(|_| once(&mut c, "EXECUTE q")).collect());
    println!("query 5: {fresh:.2} ms as text, {kept:.2} ms with a kept plan");
}
