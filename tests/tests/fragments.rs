//! Random queries over random tables, on the device and on the CPU: the same rows in the same order, or the same error.
//!
//! All tables have the same columns, of few values, with nulls and extremes; some have no row or one. Prints its seed;
//! `TENON_SEED` repeats one. `TENON_DEVICE=cuda` tries a GPU instead of the simulator, `TENON_FRAGMENTS_SECONDS` takes longer.
//!
//! More than 400 lines because the grammar of queries is one thing.

mod given;
mod numerics;
mod sets;
mod shapes;
mod texts;
mod windows;

use crate::process::{Server, rows, sql_state};
use crate::trial;
use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rand::prelude::*;
use std::fmt::Write;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("fragments::random", || random(&["2GiB"])),
        trial("fragments::random_within_little_memory", || {
            random(&["30kB", "80kB", "160kB", "400kB", "1MB", "4MB"])
        }),
        trial("fragments::rows_of_the_cpu", given::rows_of_the_cpu),
        trial("fragments::groups_of_partners", given::groups_of_partners),
        trial("fragments::text_keys", texts::text_keys),
        trial("fragments::numerics", numerics::numerics),
        trial("fragments::grouping_sets", sets::grouping_sets),
        trial("fragments::shapes", shapes::shapes),
    ]
}

const TABLES: [(&str, usize); 6] = [
    ("t0", 0),
    ("t1", 1),
    ("t2", 40),
    ("t3", 900),
    ("t4", 6000),
    ("t5", 9000),
];
/// Numbers, by whose comparisons tables are joined too.
const NUMBERS: [&str; 4] = ["a", "b", "n", "m"];
/// What tables are joined by.
const KEYS: [&str; 6] = ["a", "b", "n", "s", "d", "w"];
const COLUMNS: [&str; 9] = ["a", "b", "n", "m", "f", "d", "s", "w", "x"];
const TEXTS: [&str; 7] = [
    "",
    "a",
    "ab",
    "abc",
    "zebra",
    "a text that is longer than others",
    "ABC",
];

struct Fuzzer {
    random: StdRng,
    /// Whether `b` ascends in all tables, by such a step, which has other values between.
    ascends: bool,
}

const STEP: i64 = 1_000_003;

impl Fuzzer {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.random_range(0..of.len())]
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.random.random_ratio(1, many)
    }

    /// A table of so many rows.
    fn table(&mut self, name: &str, rows: usize) -> String {
        let mut sql = format!(
            "CREATE TABLE {name} (a int, b bigint NOT NULL, n numeric(12, 2), m numeric(30, 4), f float8, d date, s text, \
             w text, x bool, p numeric, g int[]);\n"
        );
        let nulls = if self.one_in(3) { 0.0 } else { 0.15 };
        // Some columns have the same value for long: those are kept as runs, or as one value.
        let mut stays: Vec<f64> = COLUMNS.map(|_| self.pick(&[0.0, 0.0, 0.0, 0.99, 1.0])).to_vec();
        // Of a large table no key has all rows: two such would meet in millions.
        if rows > 1000 {
            let keys = COLUMNS
                .iter()
                .zip(&mut stays)
                .filter(|(column, _)| KEYS.contains(column));
            keys.for_each(|(_, stays)| *stays = 0.0);
        }
        let mut before: Option<Vec<String>> = None;
        for start in (0..rows).step_by(1000) {
            let values: Vec<String> = (start..rows.min(start + 1000))
                .map(|row| {
                    let mut values = self.row(row, nulls);
                    for (at, stays) in stays.iter().enumerate() {
                        if let Some(before) = &before
                            && self.random.random_bool(*stays)
                        {
                            values[at].clone_from(&before[at]);
                        }
                    }
                    before = Some(values.clone());
                    // Of types that the device hands on: what they are is told by other columns, for rows to be in one order.
                    let list = match values[0].as_str() {
                        "NULL" => "NULL".into(),
                        a => format!("ARRAY[{a}]"),
                    };
                    values.extend([values[2].clone(), list]);
                    format!("({})", values.join(", "))
                })
                .collect();
            let _ = writeln!(sql, "INSERT INTO {name} VALUES {};", values.join(", "));
        }
        for column in ["b", "d"] {
            if self.one_in(3) {
                let _ = writeln!(sql, "CREATE INDEX ON {name} ({column});");
            }
        }
        sql
    }

    fn row(&mut self, row: usize, nulls: f64) -> Vec<String> {
        let skewed = |random: &mut StdRng, most: f64| (random.random::<f64>().powi(3) * most) as i64;
        let rng = &mut self.random;
        let ascends = self.ascends;
        let a = skewed(rng, 700.0) - 20;
        let extreme = rng.random_ratio(1, 500);
        let b = match row as i64 {
            row if ascends => row / 2 * STEP,
            row if extreme => i64::MAX - row,
            _ => rng.random_range(-50..5000),
        };
        let n: i32 = rng.random_range(-100_000..100_000);
        let m = match extreme {
            true => format!("{}.0001", "9".repeat(24)),
            false => format!("{}.{:04}", skewed(rng, 90.0) - 40, rng.random_range(0..9999)),
        };
        let f = ["0.5", "-1e300", "3.25", "0", "'infinity'", "17", "'nan'"][rng.random_range(0..7)];
        let d = rng.random_range(0..900);
        let s = TEXTS[rng.random_range(0..TEXTS.len())];
        let values = [
            a.to_string(),
            b.to_string(),
            format!("{}.{:02}", n / 100, (n % 100).abs()),
            m,
            f.to_string(),
            format!("date '1996-01-01' + {d}"),
            format!("'{s}'"),
            format!("'{s} and {}'", rng.random_range(0..3000)),
            rng.random_bool(0.5).to_string(),
        ];
        let values = values
            .into_iter()
            .enumerate()
            .map(|(at, value)| match at != 1 && rng.random_bool(nulls) {
                true => "NULL".to_string(),
                false => value,
            });
        values.collect()
    }

    /// A condition over a table.
    fn condition(&mut self, table: &str, depth: u32) -> String {
        if depth > 0 && self.one_in(2) {
            let (left, right) = (self.condition(table, depth - 1), self.condition(table, depth - 1));
            return format!("({left} {} {right})", self.pick(&["AND", "OR"]));
        }
        let op = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
        match self.random.random_range(0..10) {
            0 => format!("{table}.a {op} {}", self.random.random_range(-20..300)),
            1 => format!("{table}.b {op} {table}.a"),
            2 => format!("{table}.n {op} {}.5", self.random.random_range(-500..500)),
            3 => format!("{table}.d {op} date '1997-03-05'"),
            4 => format!("{table}.s {op} '{}'", self.pick(&TEXTS)),
            5 => format!(
                "{table}.w LIKE '%{}%'",
                self.pick(&["a", "and 1", "zebra", "longer%9", ""])
            ),
            6 => format!("{table}.{} IS {}NULL", self.pick(&COLUMNS), self.pick(&["", "NOT "])),
            7 => format!("{table}.a IN (1, 2, 3, 17, {})", self.random.random_range(0..100)),
            8 => format!("{table}.f {op} {}", self.pick(&["0", "3.25", "1e10"])),
            _ => format!("NOT ({table}.x)"),
        }
    }

    /// A value of a table's row, no float: sums of those depend on the order of rows.
    fn value(&mut self, table: &str) -> String {
        match self.random.random_range(0..11) {
            0 => format!("{table}.a + {}", self.random.random_range(0..9)),
            1 => format!("{table}.n * 2"),
            10 => match self.random.random_range(0..5) {
                0 => format!("{table}.n / 7"),
                1 => format!("coalesce({table}.n, 0.0)"),
                2 => format!("{table}.n - coalesce({table}.m, 0.000)"),
                3 => format!("{table}.m * {table}.n"),
                _ => format!("rtrim({table}.w, '0123')"),
            },
            2 => format!("CASE WHEN {} THEN {table}.a ELSE 0 END", self.condition(table, 0)),
            3 => format!("extract(year FROM {table}.d)"),
            4 => format!("coalesce({table}.a, -1)"),
            5 => format!("{table}.m"),
            6 if self.one_in(2) => format!("substr({table}.s, 1, {})", self.random.random_range(1..9)),
            6 => format!("{table}.d + {}", self.random.random_range(-9..9)),
            _ => format!("{table}.{}", self.pick(&["a", "n", "d", "s", "w", "w", "b", "x"])),
        }
    }

    fn aggregate(&mut self, table: &str) -> String {
        let number = format!("{table}.{}", self.pick(&NUMBERS));
        match self.random.random_range(0..14) {
            13 => {
                let of = ["N * 2.5", "N / 3", "-N", "N * M", "coalesce(N, 0.0)", "M + N"];
                let of = self.pick(&of);
                let of = of
                    .replace('N', &format!("{table}.n"))
                    .replace('M', &format!("{table}.m"));
                format!("{}({of})", self.pick(&["min", "max"]))
            }
            12 => format!(
                "{}({table}.n / {})",
                self.pick(&["sum", "avg"]),
                self.pick(&["4", "7", "0.3"])
            ),
            10 => format!(
                "{}({number})",
                self.pick(&["stddev", "stddev_pop", "variance", "var_pop"])
            ),
            11 => format!("var_pop(DISTINCT {number}) FILTER (WHERE {})", self.condition(table, 0)),
            9 => format!("bool_{}({table}.x)", self.pick(&["and", "or"])),
            0 => "count(*)".into(),
            1 => format!("count({table}.{})", self.pick(&COLUMNS)),
            2 => format!("sum({number})"),
            3 => format!("avg({number})"),
            4 => format!("min({table}.{})", self.pick(&["a", "b", "n", "d", "s", "f"])),
            5 => format!("max({table}.{})", self.pick(&["a", "b", "n", "d", "s", "w", "f"])),
            6 => format!(
                "{}(DISTINCT {})",
                self.pick(&["count", "sum", "avg"]),
                if self.one_in(3) {
                    format!("{table}.n + 1")
                } else {
                    number
                }
            ),
            7 => format!("sum({table}.n) FILTER (WHERE {})", self.condition(table, 0)),
            _ => format!("sum(CASE WHEN {} THEN 1 ELSE 0 END)", self.condition(table, 0)),
        }
    }

    /// Tables joined, their conditions, and the names under which rows of them are at hand.
    fn source(&mut self) -> (String, Vec<String>, Vec<&'static str>) {
        let (mut from, mut conditions) = (format!("{} AS l", self.rows()), vec![]);
        let mut names = vec!["l"];
        if self.one_in(6) {
            let other = self.table_name();
            let near = self.near(other);
            match self.random.random_range(0..4) {
                0 => conditions.push(format!("EXISTS (SELECT FROM {other} AS r WHERE {near})")),
                1 => conditions.push(format!("NOT EXISTS (SELECT FROM {other} AS r WHERE {near})")),
                kind => {
                    let join = if kind == 2 { "LEFT JOIN" } else { "JOIN" };
                    let _ = write!(from, " {join} {other} AS r ON {near}");
                    names.push("r");
                }
            }
        } else if !self.one_in(3) {
            let (other, key) = (self.table_name(), self.pick(&["a", "a", "b", "n", "s", "d"]));
            // Of the large tables few rows meet under a key.
            let key = if other == "t4" || other == "t5" { "b" } else { key };
            let more = if self.one_in(4) { " AND l.a <= r.a" } else { "" };
            match self.random.random_range(0..9) {
                6 => {
                    let _ = write!(from, " JOIN {other} AS r ON l.{key} IS NOT DISTINCT FROM r.{key}{more}");
                    names.push("r");
                }
                0 => conditions.push(format!(
                    "EXISTS (SELECT FROM {other} AS r WHERE l.{key} = r.{key}{more})"
                )),
                1 => conditions.push(format!(
                    "NOT EXISTS (SELECT FROM {other} AS r WHERE l.{key} = r.{key}{more})"
                )),
                2 => conditions.push(format!(
                    "l.{key} NOT IN (SELECT {key} FROM {other}{})",
                    self.pick(
                        &[
                            String::new(),
                            format!(" WHERE {key} IS NOT NULL"),
                            " WHERE a > 1000".into()
                        ]
                        .each_ref()
                    )
                )),
                3 | 7 => {
                    let _ = write!(from, " LEFT JOIN {other} AS r ON l.{key} = r.{key}{more}");
                    names.push("r");
                }
                4 | 8 => {
                    let _ = write!(from, " FULL JOIN {other} AS r ON l.{key} = r.{key}{more}");
                    names.push("r");
                }
                _ => {
                    let _ = write!(from, " JOIN {other} AS r ON l.{key} = r.{key}{more}");
                    names.push("r");
                }
            }
        }
        (from, conditions, names)
    }

    /// That a value of one side is within bounds that the other gives.
    fn near(&mut self, other: &str) -> String {
        let (key, most) = match other {
            "t4" | "t5" => ("b", 2),
            _ => self.pick(&[("a", 3), ("b", 40), ("n", 900), ("d", 5), ("f", 2)]),
        };
        let (of, by) = self.pick(&[("l", "r"), ("r", "l")]);
        let (less, more) = (self.random.random_range(0..most), self.random.random_range(0..most));
        match self.random.random_range(0..4) {
            0 => format!("{of}.{key} > {by}.{key} - {less} AND {of}.{key} < {by}.{key} + {more}"),
            1 => format!("{of}.{key} >= {by}.{key} AND {of}.{key} <= {by}.{key} + {more} AND l.x"),
            2 => format!("{of}.{key} <= {by}.{key} AND {of}.{key} >= {by}.{key} - {less} AND l.a <> r.a"),
            _ => format!("{of}.{key} BETWEEN {by}.{key} - {less} AND {by}.{key} + {more}"),
        }
    }

    /// A table, or rows of one or two.
    fn rows(&mut self) -> String {
        let (one, other) = (self.table_name(), self.table_name());
        match self.random.random_range(0..8) {
            0 => format!("(SELECT * FROM {one} UNION ALL SELECT * FROM {other} WHERE a > 5)"),
            1 => format!(
                "(SELECT * FROM {one} ORDER BY a, n DESC, b, m, f, d, s, x LIMIT {})",
                self.random.random_range(0..200)
            ),
            2 => format!(
                "(SELECT DISTINCT ON (a) * FROM {one} ORDER BY a{}, n, b DESC, m, f, d, s, x)",
                self.pick(&["", " DESC", " NULLS FIRST"])
            ),
            _ => one.into(),
        }
    }

    fn table_name(&mut self) -> &'static str {
        self.pick(&TABLES).0
    }

    fn query(&mut self) -> String {
        let (from, mut conditions, names) = self.source();
        for _ in 0..self.random.random_range(0..3) {
            let name = self.pick(&names);
            conditions.push(self.condition(name, 2));
        }
        let mut keys: Vec<String> = vec![];
        for _ in 0..self.random.random_range(0..4) {
            let name = self.pick(&names);
            keys.push(self.value(name));
        }
        let grouped = !self.one_in(4);
        let mut handed_on = vec![];
        if !grouped && self.one_in(2) {
            let name = self.pick(&names);
            let (own, told_by) = self.pick(&[
                ("T.p", "n"),
                ("T.g", "a"),
                ("T.s || ', ' || T.s", "s"),
                ("concat(coalesce(T.s, 'none'), upper(T.s))", "s"),
                ("coalesce(T.s, '') || T.w", "s, T.w"),
            ]);
            keys.extend(told_by.split(", T.").map(|own| format!("{name}.{own}")));
            handed_on.push(own.replace("T.", &format!("{name}.")));
        }
        let mut columns = keys.clone();
        if grouped || columns.is_empty() {
            for _ in 0..self.random.random_range(1..4) {
                let name = self.pick(&names);
                columns.push(self.aggregate(name));
            }
        }
        let ordered = columns.len();
        columns.extend(handed_on);
        let mut sql = format!("SELECT {}", columns.join(", "));
        let _ = write!(sql, " FROM {from}");
        if !conditions.is_empty() {
            let _ = write!(sql, " WHERE {}", conditions.join(" AND "));
        }
        if grouped && !keys.is_empty() {
            let keys = match self.one_in(6) {
                true => format!("ROLLUP ({})", keys.join(", ")),
                false => keys.join(", "),
            };
            let _ = write!(sql, " GROUP BY {keys}");
            if self.one_in(4) {
                let name = self.pick(&names);
                let _ = write!(
                    sql,
                    " HAVING {} {} 3",
                    self.aggregate_number(name),
                    self.pick(&["<", ">"])
                );
            }
        }
        // By all columns that are not told by others: the order of the rest is nobody's promise.
        let mut order: Vec<usize> = (1..=ordered).collect();
        order.shuffle(&mut self.random);
        let order = order.into_iter().map(|at| {
            let (way, nulls) = (
                self.pick(&["", " DESC"]),
                self.pick(&["", " NULLS FIRST", " NULLS LAST"]),
            );
            format!("{at}{way}{nulls}")
        });
        let _ = write!(sql, " ORDER BY {}", order.collect::<Vec<_>>().join(", "));
        if self.one_in(3) {
            let _ = write!(sql, " LIMIT {}", self.random.random_range(0..40));
        }
        sql
    }

    fn aggregate_number(&mut self, table: &str) -> String {
        match self.random.random_range(0..6) {
            0 => "count(*)".into(),
            1 => format!("avg({table}.a)"),
            2 => format!("stddev_samp({table}.n)"),
            3 => format!("var_pop({table}.a)"),
            4 => format!("max({table}.n * 1.5)"),
            _ => format!("sum({table}.n)"),
        }
    }
}

type Answer = std::result::Result<Vec<Vec<Option<String>>>, String>;

async fn answer(client: &Client, device: &str, sql: &str) -> Result<Answer> {
    client.batch_execute(&format!("SET tenon.device = '{device}'")).await?;
    Ok(rows(client, sql).await.map_err(|error| match error.downcast_ref() {
        Some(error) => sql_state(error),
        None => error.to_string(),
    }))
}

/// A server whose device a trial asks, and random choices by a seed that is printed.
async fn begun(trial: &str) -> Result<(Server, Client, StdRng, u64)> {
    begun_with(trial, &[]).await
}

/// The same of a server in this environment.
async fn begun_with(trial: &str, env: &[(&str, &str)]) -> Result<(Server, Client, StdRng, u64)> {
    let seed = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| rand::rng().random());
    println!("{trial}: seed {seed}");
    let device = std::env::var("TENON_DEVICE").unwrap_or_else(|_| "sim".into());
    let env = [&[("TENON_DEVICE", device.as_str())], env].concat();
    let server = Server::start_with(&[], &env)?;
    let client = server.connect().await?;
    client.batch_execute("SET tenon.wait_for_compile = on").await?;
    Ok((server, client, StdRng::seed_from_u64(seed), seed))
}

/// Asks the same of the device, twice, and of the CPU. Whether the device has done all of it.
async fn alike(client: &Client, seed: u64, sql: &str) -> Result<bool> {
    let expected = answer(client, "cpu", sql).await?;
    for _ in 0..2 {
        let found = answer(client, "gpu", sql).await?;
        ensure!(
            found == expected,
            "seed {seed}: {sql}\ncpu {expected:.2000?}\ngpu {found:.2000?}"
        );
    }
    if expected.is_err() {
        return Ok(false);
    }
    let plan = rows(client, &format!("EXPLAIN ANALYZE {sql}")).await?;
    let plan: Vec<String> = plan.into_iter().flatten().flatten().collect();
    let whole = plan.iter().any(|line| line.contains("Device: gpu"))
        && !plan.iter().any(|line| line.contains("Fragment: none"));
    if !whole {
        let why = plan.iter().find(|line| line.contains("Fragment: none"));
        println!("not on the device: {sql}: {}", why.map_or("", |why| why.trim()));
    }
    Ok(whole)
}

/// Within device memory of these limits.
async fn random(limits: &[&str]) -> Result<()> {
    let seed = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| rand::rng().random());
    let seconds = std::env::var("TENON_FRAGMENTS_SECONDS").ok();
    let time = Duration::from_secs(seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(25));
    println!("fragments::random: seed {seed}");
    let device = std::env::var("TENON_DEVICE").unwrap_or_else(|_| "sim".into());
    let server = Server::start_with(&[], &[("TENON_DEVICE", &device)])?;
    let client = server.connect().await?;
    client.batch_execute("SET tenon.wait_for_compile = on").await?;
    let mut fuzzer = {
        let mut random = StdRng::seed_from_u64(seed);
        let ascends = random.random_ratio(1, 3);
        Fuzzer { random, ascends }
    };
    for (name, rows) in TABLES {
        let sql = fuzzer.table(name, rows);
        client.batch_execute(&sql).await?;
    }
    let (mut queries, mut on_device, mut in_passes) = (0, 0, 0);
    let begun = Instant::now();
    while begun.elapsed() < time {
        let sql = match fuzzer.one_in(3) {
            true => fuzzer.windows(),
            false => fuzzer.query(),
        };
        let limit = fuzzer.pick(limits);
        client
            .batch_execute(&format!("SET tenon.gpu_memory_limit = '{limit}'"))
            .await?;
        let expected = answer(&client, "cpu", &sql).await?;
        let found = answer(&client, "gpu", &sql).await?;
        ensure!(
            found == expected,
            "seed {seed}, {limit}: {sql}\ncpu {expected:.2000?}\ngpu {found:.2000?}"
        );
        queries += 1;
        if expected.is_ok() {
            let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
            let has = |part: &str| plan.iter().flatten().flatten().any(|line| line.contains(part));
            on_device += usize::from(has("Device: gpu"));
            in_passes += usize::from(has(" passes "));
        }
    }
    println!("fragments::random: {queries} queries, {on_device} on the device, {in_passes} in passes");
    let share = if limits.len() == 1 { 3 } else { 8 };
    let enough = queries < 8 || on_device * share > queries;
    ensure!(enough, "{on_device} of {queries} on the device");
    let passes = queries < 200 || limits.len() == 1 || in_passes > 0;
    ensure!(passes, "no passes in {queries} queries");
    Ok(())
}
