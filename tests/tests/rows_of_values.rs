//! Rows that one INSERT gives as literals, as parameters and as parameters with casts are those that come one by one.

use crate::process::Server;
use crate::{seed, trial};
use anyhow::{Context, Result, ensure};
use chrono::{DateTime, NaiveDate, Utc};
use libtest_mimic::Trial;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

pub fn trials() -> Vec<Trial> {
    vec![trial("rows_of_values::given", given)]
}

async fn given() -> Result<()> {
    const TYPES: [&str; 9] = [
        "int4",
        "int8",
        "int2",
        "float8",
        "text",
        "boolean",
        "date",
        "timestamptz",
        "uuid",
    ];
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let server = Server::start(&[])?;
    let client = server.connect().await?;
    for round in 0..12 {
        let width = random.random_range(1..6);
        let types: Vec<&str> = (0..width).map(|_| TYPES[random.random_range(0..TYPES.len())]).collect();
        let columns: Vec<String> = types.iter().enumerate().map(|(at, of)| format!("c{at} {of}")).collect();
        let columns = columns.join(", ");
        for table in ["literals", "params", "casts", "single"] {
            client
                .batch_execute(&format!(
                    "DROP TABLE IF EXISTS {table}; CREATE TABLE {table} ({columns})"
                ))
                .await?;
        }
        let rows = random.random_range(2..60);
        let mut texts = vec![];
        let mut values: Vec<Box<dyn ToSql + Sync>> = vec![];
        for _ in 0..rows * width {
            let (text, value) = value_of(types[texts.len() % width], &mut random);
            texts.push(text);
            values.push(value);
        }
        let listed = |cell: &dyn Fn(usize) -> String, rows: std::ops::Range<usize>| {
            let row = |row| {
                (0..width)
                    .map(|at| cell(row * width + at))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            rows.map(|own| format!("({})", row(own))).collect::<Vec<_>>().join(", ")
        };
        let literal = |at: usize| texts[at].clone();
        let literals = format!("INSERT INTO literals VALUES {}", listed(&literal, 0..rows));
        client.batch_execute(&literals).await?;
        for row in 0..rows {
            let single = format!("INSERT INTO single VALUES {}", listed(&literal, row..row + 1));
            client.batch_execute(&single).await?;
        }
        let all: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value.as_ref()).collect();
        let param = |at: usize| format!("${}", at + 1);
        let params = format!("INSERT INTO params VALUES {}", listed(&param, 0..rows));
        client.execute(&params, &all).await.context("by parameters")?;
        let cast = |at: usize| format!("${}::{}", at + 1, types[at % width]);
        let casts = format!("INSERT INTO casts VALUES {}", listed(&cast, 0..rows));
        client.execute(&casts, &all).await.context("by casts")?;
        for table in ["literals", "params", "casts"] {
            let differ = format!(
                "SELECT count(*) FROM ((TABLE {table} EXCEPT ALL TABLE single) UNION ALL (TABLE single EXCEPT ALL TABLE {table})) d"
            );
            let differ: i64 = client.query_one(&differ, &[]).await?.get(0);
            ensure!(
                differ == 0,
                "{differ} rows differ in {table}, round {round}, seed {seed}: {literals}"
            );
            let count: i64 = client
                .query_one(&format!("SELECT count(*) FROM {table}"), &[])
                .await?
                .get(0);
            ensure!(count == rows as i64, "{count} rows instead of {rows}, seed {seed}");
        }
    }
    Ok(())
}

/// A literal of a type, and its value as a parameter.
fn value_of(of: &str, random: &mut StdRng) -> (String, Box<dyn ToSql + Sync>) {
    fn of_option<T: ToSql + Sync + 'static>(
        value: Option<T>,
        text: impl Fn(&T) -> String,
    ) -> (String, Box<dyn ToSql + Sync>) {
        (value.as_ref().map_or_else(|| "NULL".into(), text), Box::new(value))
    }
    let number: Option<i64> = random.random_ratio(5, 6).then(|| match random.random_range(0..3) {
        0 => random.random_range(-2..3),
        1 => random.random_range(-30_000..30_000),
        _ => random.random_range(0..200),
    });
    let quoted = random.random::<bool>();
    let written = move |number: &dyn std::fmt::Display| match quoted {
        true => format!("'{number}'"),
        false => number.to_string(),
    };
    let day = |days: i64| NaiveDate::from_ymd_opt(2024, 1, 1).unwrap_or_default() + chrono::TimeDelta::days(days);
    match of {
        "int2" => of_option(number.map(|own| own as i16), |own| written(own)),
        "int4" => of_option(number.map(|own| own as i32), |own| written(own)),
        "int8" => of_option(number.map(|own| own << 30), |own| written(own)),
        "float8" => of_option(number.map(|own| own as f64 / 8.0), |own| written(own)),
        "boolean" => of_option(number.map(|own| own % 2 == 0), |own| own.to_string()),
        "date" => of_option(number.map(day), |own| format!("'{own}'")),
        "timestamptz" => of_option(
            number.map(|own| DateTime::<Utc>::from_timestamp(own * 1000, 500_000_000).unwrap_or_default()),
            |own| format!("'{}'", own.to_rfc3339()),
        ),
        "uuid" => of_option(number.map(|own| Uuid::from_u128(own as u128)), |own| format!("'{own}'")),
        _ => of_option(number.map(|own| format!("it's {own}")), |own| {
            format!("'{}'", own.replace('\'', "''"))
        }),
    }
}
