//! What an execution has taken, told when it is over: to the counters of its statement, and to the log where it was slow.

use crate::pg::settings::Watching;
use crate::session::explain::{self, Shown, Summary};
use crate::session::run::Watch;
use crate::session::tracked::{self, Entry};
use crate::session::{Prepared, Session};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tenon_storage::datetime::shown;

/// How the client sent a statement, for the log.
#[derive(Clone, Copy, Debug)]
pub enum Sent<'s> {
    /// As this text.
    Text(&'s str),
    /// As a prepared statement of this name.
    Prepared(&'s str),
}

/// A statement that runs.
pub struct Execution {
    prepared: Arc<Prepared>,
    /// What counts it; None: nothing does.
    entry: Option<Arc<Entry>>,
    /// When the client had asked for it, and when it began to run.
    asked: Instant,
    begun: Instant,
    /// The time and the rows of earlier portions of it.
    before: Duration,
    rows: u64,
    /// Its parameters' values, where the log may want them.
    values: Option<Vec<ScalarValue>>,
    watching: Watching,
}

impl Execution {
    /// So many rows were sent, and the client asks for more when it likes.
    pub fn pause(&mut self, rows: u64) {
        self.before += self.begun.elapsed();
        self.rows += rows;
    }

    /// It asks for more.
    pub fn resume(&mut self) {
        self.begun = Instant::now();
        self.asked = self.begun;
    }
}

impl Session {
    /// A statement is about to run. `asked`: when its client had sent it, where it was planned since.
    pub fn opened(&mut self, prepared: &Arc<Prepared>, asked: Option<Instant>, values: &[ScalarValue]) -> Execution {
        let watching = self.settings.watching();
        if watching.log_plan.is_some() {
            self.watch = Some(Arc::new(Watch::default()));
        }
        let entry = if watching.counts { self.entry_of(prepared) } else { None };
        if let Some(entry) = &entry {
            self.backend.runs(entry.id);
        }
        let begun = Instant::now();
        Execution {
            entry,
            asked: asked.unwrap_or(begun),
            begun,
            before: Duration::ZERO,
            rows: 0,
            values: watching.logs().then(|| values.to_vec()),
            prepared: prepared.clone(),
            watching,
        }
    }

    /// A statement has ended well, with so many rows sent or changed.
    pub fn closed(&mut self, execution: Execution, sent: Sent, rows: u64) {
        let Execution {
            prepared,
            entry,
            asked,
            begun,
            before,
            rows: rows_before,
            values,
            watching,
        } = execution;
        let now = Instant::now();
        let (ran, rows) = (before + (now - begun), rows_before + rows);
        if let Some(entry) = &entry
            && (watching.counts_utility || !tracked::is_utility(&prepared.statement))
        {
            let planning = (watching.counts_planning && begun > asked).then(|| begun - asked);
            self.engine.tracked.ran(entry, planning, ran, rows);
        }
        let id = entry.map_or(0, |entry| entry.id);
        let Some(values) = values else { return };
        let took = ran + (begun - asked);
        if watching.log_statement.is_some_and(|limit| took >= limit) {
            self.log_statement(id, took, rows, sent, &prepared, &values, watching.parameter_bytes);
        }
        let watch = self.watch.take();
        if watching.log_plan.is_some_and(|limit| ran >= limit)
            && let Some((plan, _)) = watch.as_deref().and_then(Watch::seen)
        {
            let node = explain::describe(plan, watching.log_analyze);
            let shown = Shown {
                verbose: false,
                costs: true,
                timing: watching.log_analyze,
            };
            let plan = explain::text::lines(&node, &shown, &Summary::default()).join("\n");
            let text = text_of(sent, &prepared);
            tracing::info!(
                target: "tenon::statements",
                pid = self.info.process_id,
                query_id = id,
                "duration: {:.3} ms  plan:\nQuery Text: {text}\n{plan}",
                milliseconds(ran)
            );
        }
    }

    #[allow(clippy::too_many_arguments, reason = "all that one line says")]
    fn log_statement(
        &self,
        id: i64,
        took: Duration,
        rows: u64,
        sent: Sent,
        prepared: &Prepared,
        values: &[ScalarValue],
        bytes_max: Option<usize>,
    ) {
        let text = text_of(sent, prepared);
        let what = match sent {
            Sent::Text(_) => "statement".to_owned(),
            Sent::Prepared("") => "execute <unnamed>".to_owned(),
            Sent::Prepared(name) => format!("execute {name}"),
        };
        let told = match sent {
            // Its literals stand in the text.
            Sent::Text(_) => None,
            Sent::Prepared(_) => parameters(values, bytes_max),
        };
        tracing::info!(
            target: "tenon::statements",
            pid = self.info.process_id,
            query_id = id,
            user = %self.info.user,
            database = %self.info.database,
            rows,
            parameters = told,
            "duration: {:.3} ms  {what}: {text}",
            milliseconds(took)
        );
    }

    /// The entry that an execution counts for.
    fn entry_of(&self, prepared: &Prepared) -> Option<Arc<Entry>> {
        let tracked = &self.engine.tracked;
        if let Some(ast::Statement::Execute { name: Some(name), .. }) = prepared.tree() {
            let named = self
                .named
                .get(&crate::catalog::bind::fold(name.0.last()?.as_ident()?))?;
            return Some(tracked.entry(&named.entry, &named.statement).clone());
        }
        tracked::is_counted(prepared).then(|| tracked.entry(&prepared.entry, &prepared.statement).clone())
    }

    /// The number of the statement that runs, for lines of the log; 0: there is none.
    pub fn running_query_id(&self) -> i64 {
        self.backend.query_id()
    }

    /// A message has come: others see what it is.
    pub fn receives(&mut self, text: &str) {
        let block_us = self.block().map(|block| block.start_us);
        self.received_us = Some(self.backend.receives(text, block_us));
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn text_of<'s>(sent: Sent<'s>, prepared: &'s Prepared) -> &'s str {
    match sent {
        Sent::Text(text) => text.trim(),
        Sent::Prepared(_) => prepared.sql(),
    }
}

/// `$1 = '5', $2 = NULL`, each value cut where it is longer than it may be; None where there are none to show.
fn parameters(values: &[ScalarValue], bytes_max: Option<usize>) -> Option<String> {
    if values.is_empty() || bytes_max == Some(0) {
        return None;
    }
    let mut told = String::new();
    for (at, value) in values.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        // A String takes all that is written.
        let _ = write!(told, "{comma}${} = ", at + 1);
        match value.to_array() {
            Ok(array) if array.is_null(0) => told.push_str("NULL"),
            Ok(array) => {
                let text = shown(&array, 0).replace('\'', "''");
                let mut end = text.len().min(bytes_max.unwrap_or(usize::MAX));
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                let dots = if end < text.len() { "..." } else { "" };
                let _ = write!(told, "'{}{dots}'", &text[..end]);
            }
            Err(_) => told.push('?'),
        }
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_told_as_postgresql_does() {
        let values = [
            ScalarValue::Int64(Some(5)),
            ScalarValue::Utf8View(None),
            ScalarValue::Utf8View(Some("it's lönger".into())),
        ];
        let told = |max| parameters(&values, max);
        assert_eq!(told(None).as_deref(), Some("$1 = '5', $2 = NULL, $3 = 'it''s lönger'"));
        assert_eq!(told(Some(8)).as_deref(), Some("$1 = '5', $2 = NULL, $3 = 'it''s l...'"));
        assert_eq!(told(Some(0)), None);
        assert_eq!(parameters(&[], None), None);
    }
}
