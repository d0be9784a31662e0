//! Orders and payments as TPC-C has them (revision 5.11, clauses 2.4 and 2.5), cut to five lines an order, no rollbacks and no
//! think times: transactions of many short statements over several tables, which harnesses put databases under.

use anyhow::Result;

use super::trivial;
use super::writes::Case;

const WAREHOUSES: usize = 4;
/// Of each warehouse.
const DISTRICTS: usize = 10;
/// Of each district.
const CUSTOMERS: usize = 3000;
const ITEMS: usize = 20_000;

pub fn fill(server: &str) -> Result<()> {
    trivial::with_client(server, async |client| {
        let tables = format!(
            "CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10), w_tax numeric(4,4), w_ytd numeric(12,2));
             CREATE TABLE district (d_w_id int, d_id int, d_name varchar(10), d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id int,
                 PRIMARY KEY (d_w_id, d_id));
             CREATE TABLE customer (c_w_id int, c_d_id int, c_id int, c_first varchar(16), c_middle char(2), c_last varchar(16),
                 c_credit char(2), c_discount numeric(4,4), c_balance numeric(12,2), c_payment_cnt int, c_data varchar(500),
                 PRIMARY KEY (c_w_id, c_d_id, c_id));
             CREATE INDEX ON customer (c_w_id, c_d_id, c_last, c_first);
             CREATE TABLE history (h_c_id int, h_d_id int, h_w_id int, h_date timestamp, h_amount numeric(6,2), h_data varchar(24));
             CREATE TABLE orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamp, o_ol_cnt int,
                 PRIMARY KEY (o_w_id, o_d_id, o_id));
             CREATE TABLE new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
             CREATE TABLE item (i_id int PRIMARY KEY, i_name varchar(24), i_price numeric(5,2), i_data varchar(50));
             CREATE TABLE stock (s_w_id int, s_i_id int, s_quantity int, s_dist char(24), s_ytd int, s_order_cnt int,
                 PRIMARY KEY (s_w_id, s_i_id));
             CREATE TABLE order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_quantity int,
                 ol_amount numeric(8,2), ol_dist char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
             INSERT INTO warehouse SELECT w, 'w' || w, 0.1, 0 FROM generate_series(1, {WAREHOUSES}) w;
             INSERT INTO district SELECT w, d, 'd' || d, 0.1, 0, 1 FROM generate_series(1, {WAREHOUSES}) w, generate_series(1, {DISTRICTS}) d;
             INSERT INTO customer SELECT w, d, c, 'first' || c, 'OE', 'last' || c % 1000, 'GC', 0.05, -10, 1, repeat('x', 300)
                 FROM generate_series(1, {WAREHOUSES}) w, generate_series(1, {DISTRICTS}) d, generate_series(1, {CUSTOMERS}) c;
             INSERT INTO item SELECT i, 'item ' || i, i % 9900 / 100.0 + 1, repeat('d', 30) FROM generate_series(1, {ITEMS}) i;
             INSERT INTO stock SELECT w, i, 10 + i % 91, repeat('s', 24), 0, 0 FROM generate_series(1, {WAREHOUSES}) w, generate_series(1, {ITEMS}) i"
        );
        client.batch_execute(&tables).await?;
        Ok(client.batch_execute("ANALYZE").await?)
    })
}

/// What they add up is as the tables agree on it, or nothing.
pub fn cases() -> Vec<Case> {
    let place =
        format!("\\set w random(1, {WAREHOUSES})\n\\set d random(1, {DISTRICTS})\n\\set c random(1, {CUSTOMERS})\n");
    let lines = (1..=5).map(|number| {
        format!(
            "\\set i random(1, {ITEMS})\n\\set q random(1, 10)\n\
             SELECT i_price AS p, i_name, i_data FROM item WHERE i_id = :i \\gset\n\
             SELECT s_quantity, s_dist FROM stock WHERE s_i_id = :i AND s_w_id = :w FOR UPDATE;\n\
             UPDATE stock SET s_quantity = CASE WHEN s_quantity - :q >= 10 THEN s_quantity - :q ELSE s_quantity - :q + 91 END, \
             s_ytd = s_ytd + :q, s_order_cnt = s_order_cnt + 1 WHERE s_i_id = :i AND s_w_id = :w;\n\
             INSERT INTO order_line VALUES (:w, :d, :o, {number}, :i, :q, :q::int * :p::numeric, 'abcdefghijklmnopqrstuvwx');\n"
        )
    });
    let order = format!(
        "{place}BEGIN;\n\
         SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse \
         WHERE w_id = :w AND c_w_id = w_id AND c_d_id = :d AND c_id = :c;\n\
         UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w AND d_id = :d RETURNING d_next_o_id - 1 AS o, d_tax \\gset\n\
         INSERT INTO orders VALUES (:w, :d, :o, :c, now(), 5);\n\
         INSERT INTO new_order VALUES (:w, :d, :o);\n{}COMMIT;\n",
        lines.collect::<String>()
    );
    let payment = format!(
        "{place}\\set n random(0, 999)\n\\set a random(1, 5000)\nBEGIN;\n\
         UPDATE warehouse SET w_ytd = w_ytd + :a WHERE w_id = :w;\n\
         SELECT w_name FROM warehouse WHERE w_id = :w;\n\
         UPDATE district SET d_ytd = d_ytd + :a WHERE d_w_id = :w AND d_id = :d;\n\
         SELECT d_name FROM district WHERE d_w_id = :w AND d_id = :d;\n\
         SELECT count(*) FROM customer WHERE c_last = 'last' || :n AND c_d_id = :d AND c_w_id = :w;\n\
         SELECT c_id AS c, c_first, c_credit, c_balance FROM customer \
         WHERE c_w_id = :w AND c_d_id = :d AND c_last = 'last' || :n ORDER BY c_first LIMIT 1 \\gset\n\
         UPDATE customer SET c_balance = c_balance - :a, c_payment_cnt = c_payment_cnt + 1 \
         WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;\n\
         INSERT INTO history VALUES (:c, :d, :w, now(), :a, 'payment');\nCOMMIT;\n"
    );
    vec![
        Case::new(
            "TPC-C new order",
            order,
            "SELECT CASE WHEN 5 * count(*) = (SELECT count(*) FROM order_line)
             AND count(*) = (SELECT sum(d_next_o_id - 1) FROM district) THEN count(*) END FROM orders",
        ),
        Case::new(
            "TPC-C payment",
            payment,
            "SELECT CASE WHEN coalesce(sum(h_amount), 0) = (SELECT sum(w_ytd) FROM warehouse)
             AND coalesce(sum(h_amount), 0) = (SELECT sum(d_ytd) FROM district) THEN count(*) END FROM history",
        ),
    ]
}
