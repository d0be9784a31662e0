//! Joins by texts: of tables whose texts have codes on the device and of such that have none, whose hashes are compared first.

use super::{alike, begun};
use anyhow::{Result, ensure};
use rand::prelude::*;

/// Tables, their rows, and of how many different texts.
const TABLES: [(&str, usize, usize); 6] = [
    ("none", 0, 1),
    ("one", 1, 1),
    ("few", 50, 30),
    ("codes", 4500, 40),
    ("texts", 4500, 3000),
    ("others", 4800, 2500),
];
const QUERIES: [&str; 11] = [
    "SELECT count(*), sum(a.v), sum(b.v) FROM A a JOIN B b ON a.k = b.k",
    "SELECT a.g, count(*), count(b.k), sum(b.v) FROM A a LEFT JOIN B b ON a.k = b.k GROUP BY a.g ORDER BY 1",
    "SELECT count(*), count(a.k), count(b.k), sum(a.v), sum(b.v) FROM A a FULL JOIN B b ON a.k = b.k",
    "SELECT count(*), sum(a.v) FROM A a WHERE EXISTS (SELECT 1 FROM B b WHERE b.k = a.k AND b.v <> a.v)",
    "SELECT count(*), sum(a.v) FROM A a WHERE NOT EXISTS (SELECT 1 FROM B b WHERE b.k = a.k)",
    "SELECT count(*), sum(a.v) FROM A a WHERE a.k NOT IN (SELECT b.k FROM B b WHERE b.v < 20)",
    "SELECT count(*), sum(b.v) FROM A a JOIN B b ON a.k = b.k AND a.g = b.g",
    "SELECT count(*), sum(b.v) FROM A a JOIN B b ON a.k = b.k AND a.l = b.l",
    "SELECT count(*), sum(b.v) FROM (SELECT substr(k, 2, 250) AS k, v FROM A WHERE v < 40) a \
     JOIN (SELECT substr(k, 2, 250) AS k, v FROM B WHERE v > 60) b ON a.k = b.k",
    "SELECT count(*), sum(b.v) FROM A a JOIN B b ON a.k IS NOT DISTINCT FROM b.k",
    "SELECT b.k, count(*), sum(a.v) FROM A a JOIN B b ON a.k = b.k GROUP BY b.k ORDER BY 3, 2, 1",
];

/// Random texts: empty, of equal beginnings, short, long, of several bytes a character.
fn text(random: &mut StdRng, different: usize) -> String {
    let number = random.random_range(0..different);
    match number % 6 {
        0 if number == 0 => String::new(),
        0 => format!("{number}"),
        1 => format!(
            "{}{number}",
            "the same beginning of all, and then ".repeat(number % 8 + 1)
        ),
        2 => format!("{}{}", "x".repeat(number % 300), number % 2),
        3 => format!("ein äöü ☃ {number}"),
        4 => format!("{number} at the front of {}", "a long text ".repeat(number % 20)),
        _ => format!("k{:07}", number),
    }
}

/// The same answers on the device and on the CPU, for tables of all kinds.
pub(super) async fn text_keys() -> Result<()> {
    let (_server, client, mut random, seed) = begun("fragments::text_keys").await?;
    for (name, rows, different) in TABLES {
        client
            .batch_execute(&format!("CREATE TABLE {name} (k text, l text, g int, v int)"))
            .await?;
        let nulls = *[0.0, 0.02].choose(&mut random).unwrap_or(&0.0);
        let mut values = vec![];
        for _ in 0..rows {
            let mut one = || match random.random_bool(nulls) {
                true => "NULL".to_string(),
                false => format!("'{}'", text(&mut random, different)),
            };
            let (k, l) = (one(), one());
            let (g, v) = (random.random_range(0..4), random.random_range(0..100));
            values.push(format!("({k}, {l}, {g}, {v})"));
        }
        for values in values.chunks(1000) {
            let sql = format!("INSERT INTO {name} VALUES {}", values.join(", "));
            client.batch_execute(&sql).await?;
        }
    }
    let (mut asked, mut whole) = (0, 0);
    for at in 0..22 {
        let query = QUERIES[at % QUERIES.len()];
        let mut table = || TABLES.choose(&mut random).map_or("one", |(name, ..)| name);
        // Those of many rows more often.
        let (a, b) = match at / QUERIES.len() {
            0 => ("texts", "others"),
            _ => (table(), table()),
        };
        let sql = query
            .replace("A a", &format!("{a} a"))
            .replace("B b", &format!("{b} b"));
        let sql = sql
            .replace("FROM A", &format!("FROM {a}"))
            .replace("FROM B", &format!("FROM {b}"));
        asked += 1;
        whole += usize::from(alike(&client, seed, &sql).await?);
    }
    println!("fragments::text_keys: {whole} of {asked} on the device");
    ensure!(whole * 2 > asked, "{whole} of {asked} on the device");
    Ok(())
}
