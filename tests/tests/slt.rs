//! The SQL logic tests: every `slt/**/*.slt` under every configuration in `slt/configs`, each on a server of its own.
//!
//! A result is compared as the text that PostgreSQL sends: NULL is written `NULL`, an empty string `(empty)`, a line
//! feed `\n`, a space at the end `·`. Under the extended protocol values come in binary format and `pgtext` writes them, so that both encoders
//! are held to the same expectations.
//!
//! More than 400 lines because the ways to run a file are in one place.

use crate::pgtext::{Value, pg_text};
use crate::process::{Server, connect, root, rows};
use crate::trial;
use anyhow::Result;
use async_trait::async_trait;
use figment::Figment;
use figment::providers::{Format, Toml};
use libtest_mimic::Trial;
use serde::Deserialize;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};
use std::path::{Path, PathBuf};
use tokio_postgres::{Client, SimpleQueryMessage, types::Type};

/// One way to run the whole suite: `slt/configs/NAME.toml`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Statements by the simple protocol (text results) or the extended one (binary results).
    protocol: Protocol,
    /// Arguments of the server.
    #[serde(default)]
    args: Vec<String>,
    /// Environment variables of the server.
    #[serde(default)]
    env: std::collections::BTreeMap<String, String>,
    /// Statements that every connection begins with.
    #[serde(default)]
    set: Vec<String>,
    /// Beginnings of the paths of the files that run; none: all.
    #[serde(default)]
    only: Vec<String>,
    /// Whether the server has a store: it is killed in the end, and all is to be there when it starts again.
    #[serde(default)]
    stored: bool,
    /// What an error of state 0A000 says where this configuration cannot run a statement at all.
    refuses: Option<String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Simple,
    Extended,
}

fn suite() -> PathBuf {
    root().join("tests/slt")
}

pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for path in files(&suite().join("configs"), "toml") {
        let config: Config = match Figment::new().merge(Toml::file(&path)).extract() {
            Ok(config) => config,
            Err(error) => panic!("{}: {error}", path.display()),
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let wanted =
            |file: &PathBuf| config.only.is_empty() || config.only.iter().any(|only| short(file).starts_with(only));
        for file in files(&suite(), "slt").into_iter().filter(wanted) {
            let config = config.clone();
            trials.push(trial(&format!("slt::{name}::{}", short(&file)), move || {
                on_server(file, config)
            }));
        }
    }
    trials
}

/// The same files against a PostgreSQL, each in a database of its own.
pub fn postgres_trials(url: &str) -> Vec<Trial> {
    let files = files(&suite(), "slt").into_iter();
    files
        .map(|file| {
            let url = url.to_string();
            trial(&format!("slt::postgres::{}", short(&file)), move || {
                on_postgres(file, url)
            })
        })
        .collect()
}

/// A file's path below the suite without its extension.
fn short(file: &Path) -> String {
    file.strip_prefix(suite())
        .unwrap_or(file)
        .with_extension("")
        .display()
        .to_string()
}

/// All files with this extension below a directory, in order.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

async fn on_server(file: PathBuf, config: Config) -> Result<()> {
    let mut args: Vec<&str> = config.args.iter().map(String::as_str).collect();
    let store = tempfile::tempdir()?;
    let directory = store.path().display().to_string();
    if config.stored {
        args.extend(["--store", &directory]);
    }
    let env: Vec<(&str, &str)> = config.env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut server = Server::start_with(&args, &env)?;
    let dsn = server.dsn();
    let mut runner = Runner::new(|| Connection::new(dsn.clone(), config.protocol, config.set.clone(), "tenon"));
    if config.protocol == Protocol::Extended {
        runner.add_label("extended");
    }
    if config.env.contains_key("TENON_TEST_THROUGH_FILES") {
        runner.add_label("through_files");
    }
    if config.env.contains_key("TENON_DEVICE") {
        runner.add_label("gpu");
    }
    let result = every_record(&mut runner, &file, config.refuses.as_deref()).await;
    anyhow::ensure!(server.is_alive()?, "the server died; its log:\n{}", server.log());
    if config.stored {
        let before = contents(&server).await?;
        drop(server);
        let again = Server::start_with(&args, &env)?;
        let after = contents(&again).await?;
        anyhow::ensure!(
            before == after,
            "after a restart there is {after:?} where there was {before:?}"
        );
    }
    result
}

/// What there is of tables, views, columns, constraints, types and functions, and how many rows of which contents each table has.
async fn contents(server: &Server) -> Result<Vec<Vec<Vec<Option<String>>>>> {
    let client = server.connect().await?;
    let own = "nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'";
    let mut found = vec![];
    for sql in [
        format!(
            "SELECT nspname, relname, relkind, relchecks, attname, format_type(atttypid, atttypmod), attnotnull, atthasdef \
             FROM pg_namespace n JOIN pg_class c ON relnamespace = n.oid LEFT JOIN pg_attribute ON attrelid = c.oid \
             WHERE {own} ORDER BY nspname, relname, attnum"
        ),
        format!(
            "SELECT nspname, conname, contype, pg_get_constraintdef(c.oid) \
             FROM pg_namespace n JOIN pg_constraint c ON connamespace = n.oid WHERE {own} ORDER BY 1, 2, 3, 4"
        ),
        format!(
            "SELECT nspname, typname, typtype FROM pg_namespace n JOIN pg_type ON typnamespace = n.oid \
             WHERE {own} ORDER BY 1, 2"
        ),
        format!(
            "SELECT nspname, proname, prosrc FROM pg_namespace n JOIN pg_proc ON pronamespace = n.oid \
             WHERE {own} ORDER BY 1, 2, 3"
        ),
    ] {
        found.push(rows(&client, &sql).await?);
    }
    let tables = format!(
        "SELECT format('%I.%I', nspname, relname) FROM pg_namespace n JOIN pg_class ON relnamespace = n.oid \
         WHERE relkind = 'r' AND {own} ORDER BY 1"
    );
    for table in rows(&client, &tables).await?.into_iter().flatten().flatten() {
        let sql = format!("SELECT '{table}', count(*), md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM {table} t");
        found.push(rows(&client, &sql).await?);
    }
    Ok(found)
}

/// Runs a file's records, past those that fail, and reports every failure.
async fn every_record<M>(runner: &mut Runner<Connection, M>, file: &Path, refuses: Option<&str>) -> Result<()>
where
    M: sqllogictest::MakeConnection<Conn = Connection>,
{
    let mut failures = Vec::new();
    let (mut not_run, mut refused) = (0, 0);
    for record in sqllogictest::parse_file(file)? {
        match &record {
            sqllogictest::Record::Halt { .. } => break,
            sqllogictest::Record::Statement { conditions, .. } | sqllogictest::Record::Query { conditions, .. } => {
                not_run += usize::from(!conditions.is_empty());
            }
            _ => {}
        }
        if let Err(error) = runner.run_async(record).await {
            let error = error.to_string();
            match refuses {
                Some(text) if error.contains(text) && error.contains("(0A000)") => refused += 1,
                _ => failures.push(error),
            }
        }
    }
    if refused > 0 {
        println!(
            "{}: {refused} records cannot be run under this configuration",
            short(file)
        );
    }
    if not_run > 0 {
        println!(
            "{}: {not_run} records are for another engine or wait for a feature (skipif)",
            short(file)
        );
    }
    anyhow::ensure!(
        failures.is_empty(),
        "{} records failed\n\n{}",
        failures.len(),
        failures.join("\n")
    );
    Ok(())
}

async fn on_postgres(file: PathBuf, url: String) -> Result<()> {
    let admin = connect(&format!("{url} dbname=postgres")).await?;
    let database = format!("slt_{}", short(&file).replace(['/', '-'], "_"));
    admin
        .batch_execute(&format!("DROP DATABASE IF EXISTS {database}"))
        .await?;
    admin.batch_execute(&format!("CREATE DATABASE {database}")).await?;
    let dsn = format!("{url} dbname={database}");
    let set = vec!["SET TimeZone = 'UTC'".into()];
    let mut runner = Runner::new(|| Connection::new(dsn.clone(), Protocol::Simple, set.clone(), "postgres"));
    if std::env::var_os("TENON_SLT_UPDATE").is_some() {
        let (validator, normalizer) = (sqllogictest::default_validator, sqllogictest::default_normalizer);
        let columns = sqllogictest::default_column_validator;
        runner
            .update_test_file(&file, " ", validator, normalizer, columns)
            .await
            .map_err(|e| anyhow::anyhow!("{e}"))
    } else {
        every_record(&mut runner, &file, None).await
    }
}

/// One connection of a test file.
struct Connection {
    client: Client,
    protocol: Protocol,
    engine: &'static str,
}

impl Connection {
    async fn new(dsn: String, protocol: Protocol, set: Vec<String>, engine: &'static str) -> Result<Self, Failure> {
        let client = connect(&dsn).await.map_err(|error| Failure {
            state: None,
            message: format!("{error:#}"),
        })?;
        for statement in &set {
            client.batch_execute(statement).await.map_err(Failure::from)?;
        }
        Ok(Self {
            client,
            protocol,
            engine,
        })
    }

    async fn simple(&self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let mut types = None;
        let mut rows = Vec::new();
        let mut count = 0;
        for message in self.client.simple_query(sql).await? {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    types = Some(vec![DefaultColumnType::Any; columns.len()]);
                }
                SimpleQueryMessage::Row(row) => rows.push((0..row.len()).map(|i| shown(row.get(i))).collect()),
                SimpleQueryMessage::CommandComplete(n) => count = n,
                _ => {}
            }
        }
        Ok(match types {
            Some(types) => DBOutput::Rows { types, rows },
            None => DBOutput::StatementComplete(count),
        })
    }

    async fn extended(&self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let statement = self.client.prepare(sql).await?;
        if statement.columns().is_empty() {
            return Ok(DBOutput::StatementComplete(self.client.execute(&statement, &[]).await?));
        }
        let types = statement
            .columns()
            .iter()
            .map(|column| column_type(column.type_()))
            .collect();
        let mut rows = Vec::new();
        for row in self.client.query(&statement, &[]).await? {
            let mut shown_row = Vec::with_capacity(row.len());
            for (i, column) in statement.columns().iter().enumerate() {
                let value: Option<Value> = row.try_get(i)?;
                let text = match &value {
                    None => None,
                    Some(value) => Some(pg_text(column.type_(), &value.0).map_err(|error| Failure {
                        state: None,
                        message: format!("column {}: {error:#}", column.name()),
                    })?),
                };
                shown_row.push(shown(text.as_deref()));
            }
            rows.push(shown_row);
        }
        Ok(DBOutput::Rows { types, rows })
    }
}

#[async_trait]
impl AsyncDB for Connection {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        match self.protocol {
            Protocol::Simple => self.simple(sql).await,
            Protocol::Extended => self.extended(sql).await,
        }
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        self.engine
    }

    async fn sleep(duration: std::time::Duration) {
        tokio::time::sleep(duration).await;
    }

    fn error_sql_state(error: &Failure) -> Option<String> {
        error.state.clone()
    }
}

fn shown(value: Option<&str>) -> String {
    match value {
        None => "NULL".into(),
        Some("") => "(empty)".into(),
        Some(text) => {
            let kept = text.trim_end_matches(' ');
            format!("{}{}", kept.replace('\n', "\\n"), "·".repeat(text.len() - kept.len()))
        }
    }
}

fn column_type(pg_type: &Type) -> DefaultColumnType {
    match *pg_type {
        Type::INT2 | Type::INT4 | Type::INT8 => DefaultColumnType::Integer,
        Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC => DefaultColumnType::FloatingPoint,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR => DefaultColumnType::Text,
        _ => DefaultColumnType::Any,
    }
}

/// A statement's error: `statement error (42P01)` matches the state, `statement error some text` the message.
#[derive(Debug)]
struct Failure {
    state: Option<String>,
    message: String,
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(db) => Failure {
                state: Some(db.code().code().into()),
                message: db.message().into(),
            },
            None => Failure {
                state: None,
                message: format!("{:#}", anyhow::Error::from(error)),
            },
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} ({})",
            self.message,
            self.state.as_deref().unwrap_or("no SQLSTATE")
        )
    }
}

impl std::error::Error for Failure {}
