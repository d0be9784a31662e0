//! A session without a socket, and its results as text.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use std::sync::Arc;
use tenon_planner::error::SqlError;
use tenon_planner::outcome::Outcome;
use tenon_planner::{Engine, EngineOptions, Session, SessionInfo};

pub struct Client {
    pub engine: Arc<Engine>,
    pub session: Session,
    runtime: Arc<tokio::runtime::Runtime>,
}

impl Client {
    pub fn new() -> Self {
        Self::with(EngineOptions {
            target_partitions: 2,
            query_threads: 2,
            ..EngineOptions::default()
        })
    }

    pub fn with(options: EngineOptions) -> Self {
        let engine = Engine::new(options).expect("an engine starts");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self {
            session: Self::connect(&engine),
            engine,
            runtime: Arc::new(runtime),
        }
    }

    fn connect(engine: &Arc<Engine>) -> Session {
        engine.session(SessionInfo {
            user: "ann".into(),
            database: "tenon".into(),
            application_name: "test".into(),
            process_id: 42,
            ends: None,
        })
    }

    /// A second connection to the same server.
    pub fn another(&self) -> Client {
        Client {
            engine: self.engine.clone(),
            session: Self::connect(&self.engine),
            runtime: self.runtime.clone(),
        }
    }

    /// Runs each statement of a query string as the simple protocol does; the last one's rows, or its tag.
    pub fn try_run(&mut self, sql: &str) -> Result<Vec<String>, SqlError> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.run_async(sql))
    }

    async fn run_async(&mut self, sql: &str) -> Result<Vec<String>, SqlError> {
        let statements = self.session.parse(sql)?;
        let mut last = Vec::new();
        let several = statements.len() > 1;
        for statement in statements {
            if several {
                self.session.begin_implicit();
            }
            let prepared = self.session.prepare(statement, &[]).await?;
            let outcome = self.session.execute(&prepared, Vec::new()).await?;
            last = match rows(outcome).await {
                Ok(rows) => rows,
                Err(error) => {
                    self.session.fail_transaction();
                    self.session.finish_implicit(false).await?;
                    return Err(error);
                }
            };
        }
        self.session.finish_implicit(true).await?;
        Ok(last)
    }

    pub fn run(&mut self, sql: &str) -> Vec<String> {
        match self.try_run(sql) {
            Ok(rows) => rows,
            Err(error) => panic!("{sql}\n{error} {:?} {:?}", error.detail, error.hint),
        }
    }

    /// The statement's error state.
    pub fn fails(&mut self, sql: &str) -> String {
        self.error(sql).state.0.to_string()
    }

    pub fn error(&mut self, sql: &str) -> SqlError {
        match self.try_run(sql) {
            Ok(rows) => panic!("{sql}\nsucceeded with {rows:?}"),
            Err(error) => {
                let runtime = self.runtime.clone();
                let _ = runtime.block_on(self.session.finish_implicit(false));
                error
            }
        }
    }

    pub fn block_on<T>(&mut self, work: impl AsyncFnOnce(&mut Session) -> T) -> T {
        let runtime = self.runtime.clone();
        runtime.block_on(work(&mut self.session))
    }
}

/// Rows as text with `|` between values; a command's tag alone.
pub async fn rows(outcome: Outcome) -> Result<Vec<String>, SqlError> {
    let mut out = Vec::new();
    match outcome {
        Outcome::Rows { mut stream, .. } => {
            while let Some(batch) = stream.next().await {
                let batch = batch?;
                let options = FormatOptions::default().with_null("NULL");
                let formatters: Vec<_> = batch
                    .columns()
                    .iter()
                    .map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap())
                    .collect();
                for row in 0..batch.num_rows() {
                    let values: Vec<String> = formatters.iter().map(|f| f.value(row).to_string()).collect();
                    out.push(values.join("|"));
                }
            }
        }
        Outcome::Command(tag) => out.push(tag),
        Outcome::Empty => {}
        Outcome::CopyIn(_) | Outcome::CopyOut(_) => panic!("a COPY"),
    }
    Ok(out)
}
