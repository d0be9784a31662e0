//! Plans that are kept and evaluated at once, against plans made anew: random statements over tables that change meanwhile.

mod parsed;
mod writes;

use crate::process::{Server, sql_state};
use crate::{seed, trial};
use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Rows of the tables: one that is read by its index, small ones, one of no row.
const TABLES: [(&str, usize); 4] = [("big", 6000), ("small", 40), ("single", 1), ("empty", 0)];

pub fn trials() -> Vec<Trial> {
    vec![
        trial("kept::texts", || texts(1)),
        trial("kept::texts_by_two", || texts(2)),
        trial("kept::prepared", prepared),
        trial("kept::shared", shared),
        trial("kept::writes", || writes::texts(1)),
        trial("kept::writes_by_two", || writes::texts(2)),
        trial("kept::prepared_writes", writes::prepared),
        trial("kept::moved", writes::moved),
        trial("kept::time", parsed::time),
        trial("kept::parsed", parsed::parsed),
        trial("kept::altered_types", parsed::altered_types),
    ]
}

async fn fill(client: &Client) -> Result<()> {
    for (name, rows) in TABLES {
        let sql = format!(
            "CREATE TABLE {name} (k int PRIMARY KEY, g bigint, v text, f double precision, n numeric(10,2), d date, s smallint,
             c char(5), ts timestamp, u uuid, r real, x numeric);
             INSERT INTO {name} SELECT g, CASE WHEN g % 5 > 0 THEN g % 7 END, 'v' || g % 11, g / 4.0, g / 8.0,
             date '2024-01-01' + g % 9, g % 3, 'c' || g % 5, timestamp '2024-01-01' + g % 50 * interval '5 hours',
             md5((g % 20)::text)::uuid, g / 10.0, g / 20.0 FROM generate_series(1, {rows}) AS g;
             CREATE INDEX ON {name} (g, k); CREATE INDEX ON {name} (v); CREATE SEQUENCE {name}_s"
        );
        client.batch_execute(&sql).await?;
    }
    Ok(())
}

/// One condition.
fn condition(random: &mut StdRng) -> String {
    let number: i32 = random.random_range(-2..45);
    let day = random.random_range(1..12);
    match random.random_range(0..32) {
        16 => format!(
            "c {} 'c{}{}'",
            ["=", "<", "<>"][random.random_range(0..3)],
            number.rem_euclid(6),
            ["", "  "][random.random_range(0..2)]
        ),
        17 => format!("ts >= '2024-01-{day:02} 03:00' AND ts < '2024-01-{day:02}'::timestamp + interval '1 day'"),
        18 => format!("d = date '2024-01-{day:02}' OR d > '2024-01-{day:02}'::date + 3"),
        19 => format!(
            "u = '{}'",
            [
                "98f13708-2101-94c4-7568-7be6106a3b84",
                "no",
                "{98F1370821019-4c4-7568-7be6106a3b84}"
            ][random.random_range(0..3)]
        ),
        20 => format!("r = {}.{}", number / 10, number.rem_euclid(10)),
        21 => format!(
            "x = {}.{} OR x > {}",
            number / 20,
            [0, 5, 25, 250][random.random_range(0..4)],
            number + 200
        ),
        22 => {
            let items: Vec<String> = (0..random.random_range(1..7))
                .map(|at| (number + at * 3).to_string())
                .collect();
            let name = ["k", "g", "s", "n", "k % 7"][random.random_range(0..5)];
            format!(
                "{name} {} ({})",
                ["IN", "NOT IN"][random.random_range(0..2)],
                items.join(", ")
            )
        }
        23 => format!(
            "v {} '{}'",
            ["LIKE", "NOT LIKE", "ILIKE"][random.random_range(0..3)],
            ["v1%", "%1", "V_", "v10"][random.random_range(0..4)]
        ),
        24 => format!("lower(v) = 'v{}' AND length(v) > {}", number.rem_euclid(12), number % 3),
        25 => format!(
            "v IN ('v1', 'v{}', 'it''s', 'v{}', 'x')",
            number.rem_euclid(9),
            number.rem_euclid(11)
        ),
        31 => format!(
            "{} = (SELECT max(s) + k FROM small WHERE k {} {number} GROUP BY k)",
            ["k", "g", "k + 1"][random.random_range(0..3)],
            ["=", "=", "<"][random.random_range(0..3)]
        ),
        28 => format!(
            "k = ANY ('{{{number},7,{}}}'{})",
            day * 3,
            ["", "::int[]", "::int2[]", "::bigint[]"][random.random_range(0..4)]
        ),
        29 => format!(
            "(g, k) {} ({}, {number})",
            [">", "<="][random.random_range(0..2)],
            number % 5
        ),
        30 => format!(
            "v = ANY ('{{v1,\"v{}\",NULL}}'::text[]) AND k < {number}",
            number.rem_euclid(11)
        ),
        26 => format!("ts > now() - interval '{} days' AND k < {number}", 300 * day),
        27 => format!("k = '{number}' AND d < CURRENT_DATE AND f > '{}.5'", number - 8),
        0..4 => format!("k = {number}"),
        4 => format!("k BETWEEN {} AND {number}", number - 5),
        5 => format!("k > {}", 5990 + number),
        6 => format!("g = {}", number % 8),
        7 => format!("v = 'v{}'", number.rem_euclid(13)),
        8 => format!("v <> 'it''s {number}' AND k < {number}"),
        9 => format!("f = {}.{}", number, [0, 25, 5, 3][random.random_range(0..4)]),
        10 => format!("n = {}.{}", number, [0, 125, 5, 12][random.random_range(0..4)]),
        11 => format!("d = '2024-01-0{}' AND k < 60", random.random_range(1..10)),
        12 => format!("k IN ({number}, 7) OR g IS NULL AND k <= {number}"),
        13 => format!("s = {} AND k < {number}", [0, 1, 70_000][random.random_range(0..3)]),
        14 => format!("k = {number} AND k / (g - 3) >= {}", random.random_range(-1..2)),
        _ => format!(
            "NOT (k >= {number}) AND g < {}",
            [3, 3_000_000_000_i64][random.random_range(0..2)]
        ),
    }
}

/// A query of two tables, or one that groups rows.
fn wide_query(random: &mut StdRng) -> String {
    let mut table = || TABLES[random.random_range(0..TABLES.len())].0;
    let (one, other) = (table(), table());
    let some = format!("(SELECT * FROM {one} WHERE {})", condition(random));
    let rows = random.random_range(0..9);
    let limit = match random.random_range(0..4) {
        0 => format!(" LIMIT {rows}"),
        1 => format!(" LIMIT {rows} OFFSET {}", 9 * rows),
        _ => String::new(),
    };
    match random.random_range(0..17) {
        15 => format!(
            "SELECT g, k FROM {one} WHERE (g, k) > ({rows}, {}) ORDER BY g, k{limit}",
            40 * rows
        ),
        16 => format!(
            "SELECT count(*) FILTER (WHERE s > {}), sum(CASE WHEN g > 3 THEN n ELSE 0 END) FROM {some} a",
            rows % 3
        ),
        0..3 => {
            let kind = ["JOIN", "LEFT JOIN", "RIGHT JOIN"][random.random_range(0..3)];
            let narrowed = ["", " AND b.n > 1", " AND upper(b.v) < 'V5'"][random.random_range(0..3)];
            format!("SELECT a.k, b.v, b.k, a.g FROM {some} a {kind} {other} b ON b.k = a.g{narrowed}")
        }
        3 => format!("SELECT b.k, a.k FROM {some} a JOIN {other} b ON b.g = a.k ORDER BY b.k, a.k{limit}"),
        4 => format!("SELECT a.k, b.k FROM {some} a JOIN {other} b ON b.k = a.g ORDER BY a.k DESC, b.k{limit}"),
        5 => format!("SELECT a.k FROM {some} a WHERE EXISTS (SELECT 1 FROM {other} b WHERE b.k = a.g AND b.s > 0)"),
        6 => format!("SELECT k FROM {some} a WHERE g NOT IN (SELECT k FROM {other} WHERE k < 4)"),
        7 => format!(
            "SELECT g, count(*), max(v), sum(n), avg(f), count(*) FILTER (WHERE s > 0) FROM {some} a GROUP BY g"
        ),
        12 => format!(
            "SELECT c, d, count(DISTINCT g), min(x), sum(s) FROM {some} a GROUP BY c, d HAVING count(*) > 1 ORDER BY c, d"
        ),
        13 => format!(
            "SELECT v, k FROM {one} WHERE {} UNION ALL SELECT c, k FROM {other} WHERE {}",
            condition(random),
            condition(random)
        ),
        14 => format!("SELECT DISTINCT g FROM {some} a"),
        8 => format!("SELECT DISTINCT v, s FROM {some} a ORDER BY v, s{limit}"),
        9 => format!("SELECT count(*), min(b.v) FROM {some} a JOIN {other} b ON b.k = a.g"),
        10 => format!("SELECT k, v || '!' FROM {one} WHERE v LIKE 'v1%' AND lower(v) <> 'v10' ORDER BY v, k{limit}"),
        _ => format!("SELECT k, g FROM {one} WHERE g > 2 ORDER BY g, k{limit}"),
    }
}

fn query(random: &mut StdRng) -> String {
    if random.random_bool(0.4) {
        return wide_query(random);
    }
    let columns = [
        "*",
        "k",
        "g, k, g",
        "v, d",
        "k + g",
        "g * 2 AS twice, n",
        "CASE WHEN g > 3 THEN k ELSE -k END, f",
        "g IS NULL, k = 5",
        "upper(v), k",
        "count(*)",
        "sum(g), min(v)",
        "avg(f), max(n), count(g) FILTER (WHERE k > 3), bool_or(g > k), min(d)",
        "sum(n) + 1, sum(s), avg(k), count(DISTINCT g)",
        "7, 'x', k",
        "upper(v) || c || '!', substr(v, 2), length(v)",
        "coalesce(v, 'none'), CASE WHEN k > 3 THEN v ELSE c END, nullif(g, 2)",
        "date_trunc('day', ts), extract(day from ts), to_char(d, 'YYYY-MM'), ts + interval '1 hour'",
        "x, r, round(n, 1), greatest(k, s), u::text, k::text",
        "v LIKE 'v1%', v ILIKE '%1', c = 'c1', now() > ts",
    ];
    let columns = columns[random.random_range(0..columns.len())];
    let (table, _) = TABLES[random.random_range(0..TABLES.len())];
    let mut sql = format!("SELECT {columns} FROM {table} WHERE {}", condition(random));
    if random.random_bool(0.2) {
        sql += &format!(" AND {}", condition(random));
    }
    let grouped = ["count(", "sum(", "avg("].iter().any(|call| columns.starts_with(call));
    if !grouped && random.random_bool(0.5) {
        let (rows, skipped) = (random.random_range(0..70), random.random_range(0..9));
        sql += &[
            " ORDER BY k".to_owned(),
            format!(" ORDER BY k DESC LIMIT {rows}"),
            format!(" ORDER BY k LIMIT {rows} OFFSET {skipped}"),
            format!(" ORDER BY g, k DESC OFFSET {} LIMIT {skipped}", rows * skipped),
        ][random.random_range(0..4)];
    }
    match random.random_range(0..6) {
        0 => format!("{sql} -- {}", random.random_range(0..9)),
        1 => format!("/* request '{}' */ {sql}", random.random_range(0..9)),
        _ => sql,
    }
}

/// The names of columns and the rows, in any order where the statement leaves it open; or the error's SQLSTATE.
async fn answer(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(error) => return vec![vec![sql_state(&error)]],
    };
    let mut rows = vec![];
    let mut names = vec![];
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                names = columns.iter().map(|column| column.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                let value = |at| row.get(at).unwrap_or("NULL").to_owned();
                rows.push((0..row.len()).map(value).collect());
            }
            _ => {}
        }
    }
    if !sql.contains("ORDER BY") {
        rows.sort();
    }
    rows.insert(0, names);
    rows
}

/// The same texts again and again, and with other literals, beside texts that nobody has sent before.
async fn texts(clients: usize) -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let mut random = StdRng::seed_from_u64(seed());
    let fresh = server.connect().await?;
    fresh.batch_execute("SET tenon.shared_plans = off").await?;
    fill(&fresh).await?;
    let mut others = vec![];
    for _ in 0..clients {
        others.push(server.connect().await?);
    }
    let mut asked: Vec<String> = (0..40).map(|_| query(&mut random)).collect();
    for _ in 0..500 {
        let at = random.random_range(0..asked.len());
        if random.random_bool(0.3) {
            asked[at] = query(&mut random);
        }
        let sql = &asked[at];
        let expected = answer(&fresh, sql).await;
        for _ in 0..2 {
            let client = &others[random.random_range(0..clients)];
            let found = answer(client, sql).await;
            ensure!(found == expected, "{sql}\nfound {found:?}\nexpected {expected:?}");
        }
        if random.random_bool(0.25) {
            change(&fresh, &mut random).await?;
        }
    }
    Ok(())
}

/// Changes rows, or what names mean.
async fn change(client: &Client, random: &mut StdRng) -> Result<()> {
    let (table, _) = TABLES[random.random_range(0..TABLES.len())];
    let number: i32 = random.random_range(-2..45);
    let sql = match random.random_range(0..10) {
        0 | 6 | 7 => format!("INSERT INTO {table} (k, g) VALUES ({number}, 1) ON CONFLICT DO NOTHING"),
        1 => format!("DELETE FROM {table} WHERE k = {number}"),
        8 => format!("UPDATE {table} SET g = k % 50, v = 'V' || k % 13 WHERE k % 60 = {number}"),
        2 | 9 => format!("UPDATE {table} SET g = g + 1, v = 'v1' WHERE k < {number}"),
        3 => format!("ALTER TABLE {table} ALTER COLUMN s TYPE int"),
        4 => format!(
            "ALTER TABLE {table} ALTER COLUMN g TYPE {}",
            ["int", "bigint", "numeric"][number as usize % 3]
        ),
        _ => format!("ALTER TABLE {table} RENAME TO other; ALTER TABLE other RENAME TO {table}"),
    };
    Ok(client.batch_execute(&sql).await?)
}

/// Prepared statements with plans for any values, beside the same values in a text.
async fn prepared() -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let mut random = StdRng::seed_from_u64(seed());
    let (client, fresh) = (server.connect().await?, server.connect().await?);
    fresh.batch_execute("SET tenon.shared_plans = off").await?;
    fill(&fresh).await?;
    for (table, _) in TABLES {
        for text in [
            "SELECT k::text, v FROM $t WHERE k = $1 AND g < $2",
            "SELECT (k + $1)::text, v FROM $t WHERE k < $2 ORDER BY k DESC LIMIT 4",
            "SELECT k::text, CASE WHEN g = $2 THEN 'yes' ELSE v END FROM $t WHERE k BETWEEN $1 AND $2 ORDER BY k",
            "SELECT k::text, v FROM $t WHERE k / ($1 - 3) = $2 AND k < 50 ORDER BY k",
            "SELECT k::text, v FROM $t ORDER BY k LIMIT $1 OFFSET $2",
            "SELECT k::text, v FROM $t WHERE g > $1 ORDER BY k DESC LIMIT $2",
            "SELECT (100 / (k - 40))::text, v FROM $t WHERE v > 'v2' ORDER BY g, k OFFSET $2 LIMIT $1",
            "SELECT t.k::text, t.v FROM $t t JOIN (VALUES ($1, 'a'), ($2, NULL)) u(k, w) ON u.k = t.k ORDER BY t.k, u.w",
            "SELECT t.k::text, t.v FROM $t t WHERE (g, k) > ($1, $2) ORDER BY g, k LIMIT 7",
            "SELECT t.k::text, u.v FROM (SELECT * FROM $t ORDER BY k LIMIT $2) t JOIN small u ON u.k = t.g ORDER BY t.k LIMIT $1",
        ] {
            let sql = text.replace("$t", table);
            client.batch_execute(&format!("PREPARE p(int, int) AS {sql}")).await?;
            for mode in ["auto", "force_generic_plan", "force_custom_plan"] {
                client.batch_execute(&format!("SET plan_cache_mode = {mode}")).await?;
                for _ in 0..9 {
                    let values = [random.random_range(-2..9), random.random_range(-2..60)];
                    let [first, second] = values.map(|value: i32| format!("({value})"));
                    let text = sql.replace("$1", &first).replace("$2", &second);
                    let expected = answer(&fresh, &text).await;
                    // The name of a column may follow from the text.
                    let found = answer(
                        &client,
                        &format!(
                            "EXECUTE p{} -- ORDER BY",
                            format!("{values:?}").replace('[', "(").replace(']', ")")
                        ),
                    )
                    .await;
                    let rows = |mut answer: Vec<Vec<String>>| {
                        answer.sort();
                        answer.retain(|row| !row.iter().any(|cell| cell == "v"));
                        answer
                    };
                    let (found, expected) = (rows(found), rows(expected));
                    ensure!(
                        found == expected,
                        "{text}\n{mode}: found {found:?}\nexpected {expected:?}"
                    );
                }
            }
            client.batch_execute("DEALLOCATE p").await?;
            change(&fresh, &mut random).await?;
        }
    }
    Ok(())
}

/// Texts that differ in literals share a plan, among sessions too, and it is seen to serve; without the setting there is none.
async fn shared() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    fill(&one).await?;
    let uses = async |statement: &str| -> Result<Vec<Vec<String>>> {
        let sql = format!("SELECT parameters, uses, generic FROM tenon_statements WHERE statement = '{statement}'");
        let mut rows = answer(&one, &sql).await;
        rows.remove(0);
        Ok(rows)
    };
    let statement = "SELECT g, v FROM big WHERE k = $1";
    for key in 0..20 {
        let client = if key % 2 == 0 { &one } else { &two };
        let found = answer(client, &statement.replace("$1", &(key + 1).to_string())).await;
        ensure!(found[1][1] == format!("v{}", (key + 1) % 11), "{key}: {found:?}");
    }
    let found = uses(statement).await?;
    ensure!(found == [["1", "18", "t"]], "{found:?}");
    // As many digits as the column has, and no more: the others stay in the text.
    for number in ["1.5", "2.25", "0.125", "0.126"] {
        answer(&one, &format!("SELECT k FROM small WHERE n = {number}")).await;
    }
    let found = uses("SELECT k FROM small WHERE n = $1").await?;
    ensure!(found.len() <= 1, "{found:?}");
    two.batch_execute("SET tenon.shared_plans = off").await?;
    for key in 0..5 {
        answer(&two, &format!("SELECT v FROM big WHERE k = {key}")).await;
    }
    ensure!(uses("SELECT v FROM big WHERE k = $1").await?.is_empty());
    Ok(())
}
