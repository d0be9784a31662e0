//! Changes of rows by plans that are kept, against the same changes of like tables by plans made anew: every answer and, after
//! some, every row must be the same.
//!
//! More than 400 lines because each kind of change is written out.

use super::{TABLES, answer, fill, query};
use crate::process::{Server, sql_state};
use crate::seed;
use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, SimpleQueryMessage};

/// The answer of a statement, or of several, with the numbers of rows that were changed.
pub(super) async fn told(client: &Client, sql: &str) -> Vec<String> {
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(error) => return vec![sql_state(&error)],
    };
    let mut told: Vec<String> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                let cells = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                Some(cells.collect::<Vec<_>>().join("|"))
            }
            SimpleQueryMessage::CommandComplete(rows) => Some(format!("{rows} rows")),
            _ => None,
        })
        .collect();
    told.sort();
    told
}

/// A client whose tables are those of a schema.
async fn client_of(server: &Server, schema: &str) -> Result<Client> {
    let client = server.connect().await?;
    client.batch_execute(&format!("SET search_path = {schema}")).await?;
    Ok(client)
}

/// Kinds of changes.
const WRITES: usize = 44;

/// A change of rows of a kind.
fn write(random: &mut StdRng, (kind, table): (usize, usize)) -> String {
    let (table, _) = TABLES[table];
    let number: i32 = random.random_range(-5..45);
    let key: i32 = random.random_range(-2..60);
    let other = [
        "3",
        "-7",
        "2147483647",
        "-2147483648",
        "3000000000",
        "1.5",
        "'8'",
        "NULL",
    ][random.random_range(0..8)];
    let day = format!("'2024-01-0{}'", random.random_range(1..10));
    let mut sql = match kind {
        0 => format!("UPDATE {table} SET g = g + {number} WHERE k = {key}"),
        1 => format!("UPDATE {table} SET g = {other}, v = 'v{number}' WHERE k = {key}"),
        2 => format!(
            "UPDATE {table} SET s = s + {}, g = k - {number} WHERE k = {key}",
            number * 900
        ),
        3 => format!("UPDATE {table} SET n = {number}.25, f = f - {number} WHERE k IN ({key}, {number}, 7)"),
        4 => format!(
            "UPDATE {table} SET d = {day}, n = n + {number} WHERE k BETWEEN {} AND {key}",
            key - 3
        ),
        5 => format!("UPDATE {table} SET k = k + {} WHERE k = {key}", number % 3),
        6 => format!("UPDATE {table} AS t SET g = (SELECT max(k) FROM small WHERE k < {number}) WHERE t.k = {key}"),
        7 => format!("UPDATE {table} SET v = v || 'x', s = {number} WHERE k = {key} AND g / (s - 1) < {number}"),
        8 => format!("UPDATE {table} SET v = NULL, g = -{key} WHERE k > {}", 5990 + number),
        9 => format!(
            "UPDATE {table} SET g = small.g + {number} FROM small WHERE small.k = {table}.k AND small.k = {key}"
        ),
        10 => format!("DELETE FROM {table} WHERE k = {key}"),
        11 => format!(
            "DELETE FROM {table} WHERE k > {} AND v <> 'v{number}'",
            5995 + number % 4
        ),
        12 => format!(
            "DELETE FROM {table} USING small WHERE small.k = {table}.k AND small.g = {number} AND small.k = {key}"
        ),
        13 => format!("INSERT INTO {table} (k, g, v) VALUES ({key}, {other}, 'v{number}')"),
        14 => format!(
            "INSERT INTO {table} VALUES ({key}, {number}, 'it''s', {number}.5, -1.255, {day}, {})",
            number % 4
        ),
        15 => format!("INSERT INTO {table} (s, k) VALUES ({}, {key})", number * 900),
        16 => format!("INSERT INTO {table} (k, v) VALUES ({key}, 5) ON CONFLICT DO NOTHING"),
        17 => format!(
            "INSERT INTO {table} (k, v) VALUES ({key}, 'a'), ({number}, 'b') ON CONFLICT (k) DO UPDATE SET g = {number}"
        ),
        18 => format!("INSERT INTO {table} (k, g) SELECT k + 7000, {number} FROM {table} WHERE k = {key}"),
        19 => format!("INSERT INTO {table} (k, v, g) VALUES ({key}, upper('a') || 'b', 5 + {number})"),
        21 => format!("INSERT INTO {table} (k, v, d) VALUES ({key}, 'a', CURRENT_DATE)"),
        22 => format!("UPDATE {table} SET d = now()::date - {number}, g = g + 1 WHERE k = {key}"),
        20 => format!("INSERT INTO {table} (k, f, d) VALUES ({key}, {other}, {day})"),
        24 => format!("INSERT INTO {table} (k, g) VALUES ({key}, nextval('{table}_s'))"),
        25 => format!(
            "INSERT INTO {table} (k, g, n) VALUES ({key}, {number}, {number}.5) ON CONFLICT (k) DO UPDATE SET g = {table}.g + excluded.g, n = {number} - excluded.n WHERE {table}.g <> {number}"
        ),
        26 => format!(
            "INSERT INTO {table} (k, v) VALUES ({key}, 'v{number}'), ({}, 'w') ON CONFLICT (k) DO UPDATE SET d = CURRENT_DATE, v = excluded.v, s = {table}.s + {}",
            key + 1,
            number * 900
        ),
        27 => format!(
            "INSERT INTO {table} (k, g) VALUES ({key}, nextval('{table}_s')) ON CONFLICT (k) DO UPDATE SET f = {number}, k = {table}.k + {}",
            number % 2
        ),
        30 => format!(
            "INSERT INTO {table} (k, c, ts, u, r, x, n, f) VALUES ({key}, 'c{number}', '2024-01-0{} 10:00'::timestamp, '{}', {other}, {number}.250, '{number}.5', {number}.125)",
            number.rem_euclid(11),
            ["98f13708-2101-94c4-7568-7be6106a3b84", "no"][usize::from(number % 7 == 0)]
        ),
        31 => format!(
            "UPDATE {table} SET c = 'c{number} ', ts = timestamp {day}, x = x + {number}.50, n = n - 0.25 WHERE k = '{key}'"
        ),
        32 => format!(
            "UPDATE {table} SET r = {number}.1, u = NULL, f = f + 0.1, g = g + 0.5 WHERE k IN ({key}, {number}, 5, 7, 9) AND d = {day}"
        ),
        34 => format!(
            "INSERT INTO {table} (k, g, v, n, d) VALUES ({key}, {number}, 'it''s', {number}.125, {day}), ({}, {other}, NULL, -2, NULL)",
            key + 100 * number
        ),
        35 => format!(
            "INSERT INTO {table} (k, g, v) VALUES ({key}, nextval('{table}_s'), 'a'), ({}, {number}, DEFAULT), ({number}, 5 + {number}, 'c') ON CONFLICT DO NOTHING",
            key + 7
        ),
        36 => format!(
            "/* {key} */ INSERT INTO {table} (c, k, s) VALUES ('c{number}', {}, {}), ('long {number}', {key}, 3), ('', {number}, -1) ON CONFLICT (k) DO UPDATE SET c = excluded.c, s = {number}",
            key + 9000,
            number * 900
        ),
        37 => format!(
            "UPDATE {table} SET g = {number}, v = v || 'q' WHERE k = (SELECT k FROM {table} WHERE k > {key} ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED)"
        ),
        38 => format!(
            "UPDATE {table} t SET v = u.v || 'q', n = u.n FROM (SELECT k, v, n, g FROM small WHERE k < {number} ORDER BY k DESC LIMIT 2 FOR UPDATE SKIP LOCKED) AS u(k, v) WHERE t.k = u.k"
        ),
        39 => format!(
            "WITH n AS (SELECT k, g FROM {table} WHERE g = {} ORDER BY k LIMIT 3 FOR UPDATE SKIP LOCKED) DELETE FROM small USING n WHERE small.k = n.k",
            number % 8
        ),
        40 => format!(
            "MERGE INTO {table} t USING (VALUES ({key}, {number}), ({}, 7)) AS s(k, g) ON t.k = s.k WHEN MATCHED AND t.g > s.g THEN DELETE WHEN MATCHED THEN UPDATE SET g = s.g, v = v || 'm' WHEN NOT MATCHED THEN INSERT (k, g) VALUES (s.k, s.g)",
            key + 1
        ),
        41 => format!(
            "INSERT INTO {table} (k, v) SELECT k + 9400, current_user || v FROM small WHERE k IN ({key}, {number}) AND current_schema <> 'x'"
        ),
        42 => format!(
            "UPDATE {table} SET v = u.v, g = g + {number} FROM unnest(ARRAY[{key}, {number}, 7], ARRAY['a', 'b', NULL]) AS u(k, v) WHERE {table}.k = u.k"
        ),
        43 => format!(
            "DELETE FROM {table} WHERE k IN (SELECT k FROM {table} WHERE k % 50 = {} ORDER BY g, k LIMIT 2 OFFSET 1 FOR UPDATE SKIP LOCKED) AND k > 9",
            number.rem_euclid(50)
        ),
        33 => format!(
            "DELETE FROM {table} WHERE c = 'c{}' AND v LIKE 'v{number}%' AND ts < {day}::date + interval '1 day'",
            number.rem_euclid(6)
        ),
        _ => {
            format!("WITH gone AS (DELETE FROM small WHERE k = {key}) UPDATE {table} SET g = {number} WHERE k = {key}")
        }
    };
    if kind == 28 {
        return format!("SELECT k, g FROM {table} WHERE k = {key} OR k = {number} FOR UPDATE");
    }
    let beside = match kind {
        38 => Some(["t.k, u.*", "t.*, u.g + t.g AS both", "u.k / (t.k - 3), t.v"]),
        39 => Some(["*", "small.k, n.g", "upper(small.v), n.k + 1"]),
        42 => Some(["u.*", "u.v, u.k", "n, u.v || 'x'"]),
        _ => None,
    };
    if let Some(items) = beside {
        return format!("{sql} RETURNING {}", items[random.random_range(0..3)]);
    }
    // MERGE gives none.
    if kind % 3 == 0 {
        sql += [
            " RETURNING *",
            " RETURNING k",
            " RETURNING k, g + 1",
            " RETURNING upper(v) AS k, k - 1 AS k, c, now() > ts",
            " RETURNING k / (g - 3), (SELECT count(*) FROM single)",
        ][random.random_range(0..5)];
    }
    sql
}

async fn compare_tables(one: &Client, other: &Client) -> Result<()> {
    for (table, _) in TABLES {
        let sql = format!("SELECT * FROM {table} /* all */");
        let (found, expected) = (answer(one, &sql).await, answer(other, &sql).await);
        if found != expected {
            let differs = found.iter().find(|row| !expected.contains(row));
            let misses = expected.iter().find(|row| !found.contains(row));
            anyhow::bail!("{table}: found {differs:?}, expected {misses:?}");
        }
    }
    Ok(())
}

/// Statements of few shapes with many values, in blocks with savepoints and by themselves, some of them with changes of
/// definitions between.
pub(super) async fn texts(clients: usize) -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let mut random = StdRng::seed_from_u64(seed());
    let setup = server.connect().await?;
    setup.batch_execute("CREATE SCHEMA kept; CREATE SCHEMA anew").await?;
    let anew = client_of(&server, "anew").await?;
    anew.batch_execute("SET tenon.shared_plans = off").await?;
    let mut kept = vec![];
    for _ in 0..clients {
        kept.push(client_of(&server, "kept").await?);
    }
    fill(&kept[0]).await?;
    fill(&anew).await?;
    // Who has a block open.
    let mut open: Option<usize> = None;
    // Kinds of changes and their tables: few at a time, so that they come often enough for plans to be kept.
    let mut kinds = vec![];
    let mut served = std::collections::BTreeSet::new();
    for round in 0..900 {
        if round % 90 == 0 {
            let kind = |_| (random.random_range(0..WRITES), random.random_range(0..TABLES.len()));
            kinds = (0..6).map(kind).collect();
            // Deletes by key are few among the kinds.
            kinds.extend((round % 270 == 0).then_some((10, 0)));
            for client in kept.iter().filter(|_| open.is_none()) {
                let mode = ["auto", "force_generic_plan"][round / 90 % 2];
                client.batch_execute(&format!("SET plan_cache_mode = {mode}")).await?;
            }
        }
        let at = open.unwrap_or_else(|| random.random_range(0..clients));
        let sql = match random.random_range(0..60) {
            0..2 if open.is_none() => {
                ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"][random.random_range(0..2)].to_owned()
            }
            2..6 if open.is_some() => ["COMMIT", "ROLLBACK", "COMMIT"][random.random_range(0..3)].to_owned(),
            6 if open.is_some() => "SAVEPOINT a".to_owned(),
            7 if open.is_some() => "ROLLBACK TO a".to_owned(),
            _ if round % 45 == 44 => {
                let (table, _) = TABLES[random.random_range(0..TABLES.len())];
                match random.random_range(0..4) {
                    0 => format!(
                        "ALTER TABLE {table} ALTER COLUMN s TYPE {}",
                        ["int", "smallint"][round % 2]
                    ),
                    1 => format!("ALTER TABLE {table} ALTER COLUMN g SET DEFAULT {round}"),
                    2 => format!("ALTER TABLE {table} RENAME TO other; ALTER TABLE other RENAME TO {table}"),
                    _ => format!("CREATE INDEX ON {table} (g)"),
                }
            }
            8..14 => query(&mut random),
            _ => {
                let kind = kinds[random.random_range(0..kinds.len())];
                write(&mut random, kind)
            }
        };
        let found = told(&kept[at], &sql).await;
        let expected = told(&anew, &sql).await;
        ensure!(
            found == expected,
            "{round}: {sql}\nfound {found:?}\nexpected {expected:?}"
        );
        let failed = found.len() == 1 && found[0].len() == 5 && !found[0].contains(' ');
        open = match sql.as_str() {
            "COMMIT" | "ROLLBACK" => None,
            _ if sql.starts_with("BEGIN") => Some(at),
            _ => open,
        };
        if failed && open.is_some() {
            for client in [&kept[at], &anew] {
                client.batch_execute("ROLLBACK").await?;
            }
            open = None;
        }
        if round % 30 == 29 {
            let compared = compare_tables(&kept[at], &anew).await;
            compared.map_err(|error| anyhow::anyhow!("{round}: {error}"))?;
            let shown = answer(&kept[at], "SELECT statement FROM tenon_statements WHERE uses > 2").await;
            served.extend(shown.into_iter().flatten().map(|sql| sql[..6].to_owned()));
        }
    }
    for what in ["UPDATE", "INSERT", "DELETE"] {
        ensure!(served.contains(what), "no plan serves an {what}: {served:?}");
    }
    Ok(())
}

/// Prepared changes with plans for any values, beside the same values in a text.
pub(super) async fn prepared() -> Result<()> {
    let server = Server::start(&["--threads=2"])?;
    let mut random = StdRng::seed_from_u64(seed());
    let setup = server.connect().await?;
    setup.batch_execute("CREATE SCHEMA kept; CREATE SCHEMA anew").await?;
    let (kept, anew) = (client_of(&server, "kept").await?, client_of(&server, "anew").await?);
    anew.batch_execute("SET tenon.shared_plans = off").await?;
    fill(&kept).await?;
    fill(&anew).await?;
    for (table, _) in TABLES {
        for text in [
            "UPDATE $t SET g = g + $1, v = v || $2 WHERE k = $2",
            "UPDATE $t SET g = $2 WHERE k BETWEEN $1 AND $2 RETURNING k, g",
            "UPDATE $t SET g = g + $2 WHERE k = $1 RETURNING g - $1, coalesce(v, 'none') AS v",
            "UPDATE $t SET f = $1, s = $2, n = n + $1 WHERE k = $2",
            "DELETE FROM $t WHERE k = $1 AND g < $2 RETURNING *",
            "DELETE FROM $t WHERE k / ($1 - 3) = $2 AND k < 50",
            "INSERT INTO $t (k, g, v) VALUES ($2, $1, 'v') ON CONFLICT DO NOTHING RETURNING k",
            "INSERT INTO $t VALUES ($2, $1, 'x', $1, $2, '2024-02-29', $1)",
            "INSERT INTO $t (k, g) SELECT k + 8000 + $1, $2 FROM $t WHERE k = $2",
            "INSERT INTO $t (k, f, g) VALUES ($2, $1, nextval('$t_s')) RETURNING g, k",
            "INSERT INTO $t (k, g) VALUES ($2, $1) ON CONFLICT (k) DO UPDATE SET g = $t.g + excluded.g - $1, f = $2 RETURNING *",
            "INSERT INTO $t (k, v) VALUES ($2, 'x') ON CONFLICT (k) DO UPDATE SET v = excluded.v || $t.k, n = $1 / ($1 - 3)",
            "INSERT INTO $t (k, g, v) VALUES ($2, $1, 'one'), ($1 + 9100, 7, NULL), (9200, $2, 'it''s') ON CONFLICT DO NOTHING RETURNING k, v || $1",
            "INSERT INTO $t (k, g, n, v) VALUES ($2, $1, 1.5, 'a'), ($1, 5, -2, 'b') ON CONFLICT (k) DO UPDATE SET n = excluded.n + $1",
            "INSERT INTO $t (k, g, x) VALUES (9300, 5, 1.50), ($1, nextval('$t_s'), $2) ON CONFLICT (k) DO UPDATE SET g = $t.g + $1 RETURNING *",
            "UPDATE $t t SET v = u.v || 'q' FROM (SELECT k, v FROM small WHERE k < $2 ORDER BY k DESC LIMIT $1 + 2 FOR UPDATE) u WHERE t.k = u.k RETURNING t.k, u.v, t.*",
            "WITH n AS (SELECT k, g, v FROM $t WHERE k > $2 ORDER BY g, k LIMIT 3 FOR UPDATE SKIP LOCKED) UPDATE $t SET g = n.g + $1, v = n.v FROM n WHERE $t.k = n.k RETURNING n.*",
            "UPDATE $t SET g = g + 1 WHERE k IN (SELECT k FROM $t WHERE k > $2 ORDER BY k LIMIT 3 OFFSET 1 FOR UPDATE SKIP LOCKED) RETURNING k, g",
            "DELETE FROM $t WHERE k = (SELECT max(k) FROM small WHERE k = (SELECT k FROM $t WHERE k > $2 AND g <> $1 ORDER BY k LIMIT 1 FOR SHARE))",
            "SELECT k, v, g + $1 FROM $t WHERE k > $2 ORDER BY 1 DESC LIMIT 4 OFFSET 2 FOR UPDATE SKIP LOCKED",
            "MERGE INTO $t t USING small s ON t.k = s.k + $1 AND s.k = $2 WHEN MATCHED THEN UPDATE SET g = s.g + $2, d = CURRENT_DATE",
            "MERGE INTO $t t USING (SELECT $2 AS k, $1 AS g) s ON t.k = s.k WHEN MATCHED AND t.g = $1 THEN DO NOTHING WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.g, 'm')",
            "DELETE FROM $t USING unnest(ARRAY[$1, $2, 7], ARRAY[$2, NULL]) AS u(k, g) WHERE $t.k = u.k AND $t.k > 5 RETURNING u.*, $t.v",
            "WITH n AS (INSERT INTO $t (k, g) VALUES ($2 + 9500, $1) ON CONFLICT DO NOTHING RETURNING k, g) SELECT k, g FROM n UNION ALL SELECT k, g FROM $t WHERE k = $2",
            "WITH d AS (DELETE FROM $t WHERE k = $2 RETURNING *), u AS (UPDATE small AS s SET g = s.g + $1 FROM d WHERE s.k = d.k RETURNING s.k, d.g AS old) INSERT INTO $t (k, g, v) SELECT k + 9600, old, 'w' FROM u ON CONFLICT DO NOTHING",
            "WITH u AS (UPDATE $t SET g = g + $1 WHERE k BETWEEN $2 AND $2 + 2 RETURNING k, g), w AS (SELECT max(g) AS most FROM $t) SELECT t.k, t.g, n.g, w.most FROM w, $t t JOIN u AS n ON n.k = t.k",
            "WITH u AS (UPDATE $t SET g = $1 WHERE k = $2) DELETE FROM small WHERE k = $2 AND EXISTS (SELECT 1 FROM $t t WHERE t.g = $1) RETURNING k, v",
            "WITH u(a, b) AS (UPDATE $t SET g = $1 WHERE k = $2 RETURNING k, v) SELECT a, b || $1 FROM u",
            "INSERT INTO $t (k, g) VALUES ($2, $1) ON CONFLICT (k) DO UPDATE SET g = excluded.g RETURNING (xmax = 0) AS new, k",
            "SELECT k, g FROM $t WHERE k = $2 AND g > $1 FOR UPDATE",
            "SELECT k, v FROM $t WHERE k BETWEEN $1 AND $2 FOR SHARE",
        ] {
            let sql = text.replace("$t", table);
            kept.batch_execute(&format!("PREPARE p(int, int) AS {sql}")).await?;
            for mode in ["auto", "force_generic_plan", "force_custom_plan"] {
                kept.batch_execute(&format!("SET plan_cache_mode = {mode}")).await?;
                for _ in 0..9 {
                    let values = [random.random_range(-2..9), random.random_range(-2..60)];
                    let [first, second] = values.map(|value: i32| format!("({value})::int"));
                    let text = sql.replace("$1", &first).replace("$2", &second);
                    let found = told(&kept, &format!("EXECUTE p({}, {})", values[0], values[1])).await;
                    let expected = told(&anew, &text).await;
                    ensure!(
                        found == expected,
                        "{text}\n{mode}: found {found:?}\nexpected {expected:?}"
                    );
                }
            }
            kept.batch_execute("DEALLOCATE p").await?;
            compare_tables(&kept, &anew).await?;
        }
    }
    Ok(())
}

/// A plan goes on over a table that has changed since: what was known of the rows when it was made does not hold any more.
pub(super) async fn moved() -> Result<()> {
    let server = Server::start(&[])?;
    let (one, two) = (server.connect().await?, server.connect().await?);
    one.batch_execute(
        "CREATE TABLE t (k int PRIMARY KEY, g int); INSERT INTO t SELECT g, g FROM generate_series(1, 20) AS g;
         CREATE TABLE e (k int, g int)",
    )
    .await?;
    let rows = async |client: &Client, sql: &str| -> Vec<String> {
        let mut found = answer(client, &format!("{sql} -- ORDER BY")).await;
        found.remove(0);
        found.into_iter().map(|row| row.join(" ")).collect()
    };
    one.batch_execute(
        "PREPARE ordered AS SELECT k FROM t WHERE k < 4 ORDER BY k;
         PREPARE first(int) AS SELECT g FROM t WHERE g > $1 ORDER BY g LIMIT 1;
         PREPARE empty AS SELECT g FROM e WHERE k = 1;
         PREPARE counted AS SELECT count(*), max(k) FROM t;
         PREPARE more(int) AS UPDATE t SET g = g + $1 WHERE k = 2 RETURNING g",
    )
    .await?;
    for _ in 0..8 {
        ensure!(rows(&one, "EXECUTE ordered").await == ["1", "2", "3"]);
        ensure!(rows(&one, "EXECUTE first(4)").await == ["5"]);
        ensure!(rows(&one, "EXECUTE empty").await.is_empty());
        ensure!(rows(&one, "EXECUTE counted").await == ["20 20"]);
        ensure!(rows(&one, "EXECUTE more(0)").await == ["2"]);
    }
    // Rows that ascended do so no more; a table without rows has one; another key is the greatest.
    two.batch_execute(
        "DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (1, 1), (40, 40); UPDATE t SET g = 30 WHERE k = 5;
         INSERT INTO e VALUES (1, 7)",
    )
    .await?;
    for _ in 0..3 {
        ensure!(rows(&one, "EXECUTE ordered").await == ["1", "2", "3"]);
        ensure!(rows(&one, "EXECUTE first(4)").await == ["6"]);
        ensure!(rows(&one, "EXECUTE empty").await == ["7"]);
        ensure!(rows(&one, "EXECUTE counted").await == ["21 40"]);
    }
    // A transaction sees its own rows, and after going back the others' again.
    one.batch_execute("BEGIN").await?;
    ensure!(rows(&one, "EXECUTE more(5)").await == ["7"]);
    ensure!(rows(&one, "EXECUTE more(5)").await == ["12"]);
    one.batch_execute("SAVEPOINT a; DELETE FROM t WHERE k <= 2").await?;
    ensure!(rows(&one, "EXECUTE ordered").await == ["3"]);
    ensure!(rows(&one, "EXECUTE more(5)").await.is_empty());
    one.batch_execute("ROLLBACK TO a").await?;
    ensure!(rows(&one, "EXECUTE more(5)").await == ["17"]);
    one.batch_execute("ROLLBACK").await?;
    ensure!(rows(&one, "EXECUTE more(5)").await == ["7"]);
    // What a WITH changes is not seen by the query after it.
    let sql = "WITH gone AS (DELETE FROM e) SELECT g FROM e WHERE k = 1";
    ensure!(rows(&one, sql).await == ["7"] && rows(&one, sql).await.is_empty());
    // A table that is not the one that was.
    two.batch_execute("DROP TABLE e; CREATE TABLE e (g int, k int); INSERT INTO e VALUES (1, 1)")
        .await?;
    ensure!(rows(&one, "EXECUTE empty").await == ["1"]);
    Ok(())
}
