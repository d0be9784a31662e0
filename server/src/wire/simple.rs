//! The simple protocol: a string of statements, each answered in full, all of them one transaction unless they say
//! otherwise.

use super::cancel::Running;
use super::connection::{Connection, Failure, Step};
use super::results::{ResultStream, answered, run};
use crate::encode::Format;
use crate::encode::row::RowEncoder;
use std::sync::Arc;
use tenon_planner::outcome::Outcome;
use tenon_planner::session::{Known, TransactionStatus};
use tenon_planner::statement::Statement;

impl Connection {
    /// Answers one Query message but for ReadyForQuery.
    pub(super) async fn simple_query(&mut self, sql: &str) -> Step<()> {
        // As in PostgreSQL, a simple query ends the unnamed statement and portal.
        self.session.prepared.remove("");
        self.portals.remove("");
        if let Some(known) = self.session.known(sql) {
            match self.simple_known(&known).await {
                // Its tables have changed since they were looked at: nothing is sent yet.
                Err(Failure::Sql(error))
                    if error.is_changed_result() && self.session.transaction_status() == TransactionStatus::Idle => {}
                Err(Failure::Sql(error)) => return self.fail(error),
                result => return result,
            }
        }
        let statements = match self.session.parse(sql) {
            Ok(statements) => statements,
            Err(error) => return self.fail(error),
        };
        if statements.is_empty() {
            self.output.empty_query();
            return Ok(());
        }
        let several = statements.len() > 1;
        for statement in statements {
            // After a COMMIT among them the rest is a transaction again.
            if several {
                self.session.begin_implicit();
            }
            let text = (!several).then_some(sql);
            match self.simple_statement(statement, text).await {
                Ok(()) => {}
                Err(Failure::Sql(error)) => {
                    self.fail(error)?;
                    // Rolled back: nothing can go wrong that the client does not know already.
                    let _ = self.session.finish_implicit(false);
                    return Ok(());
                }
                Err(failure) => return Err(failure),
            }
        }
        match self.session.finish_implicit(true) {
            Ok(()) => Ok(()),
            Err(error) => self.fail(error),
        }
    }

    /// Answers one statement. `text`: all that the client has sent.
    async fn simple_statement(&mut self, statement: Statement, text: Option<&str>) -> Step<()> {
        let (running, _entered) = self.begin_statement();
        let fetched = statement.fetched_cursor().and_then(|name| self.session.cursor(&name));
        let format = match fetched {
            Some((_, true)) => Format::Binary,
            _ => Format::Text,
        };
        let Self { session, input, .. } = self;
        let prepared = Arc::new(run(&running, input, session.prepare(statement, &[])).await?);
        if let Some(sql) = text {
            let remember = async {
                session.remember(sql, &prepared).await;
                Ok(())
            };
            run(&running, input, remember).await?;
        }
        let outcome = run(&running, input, session.execute(&prepared, Vec::new())).await?;
        self.simple_outcome(outcome, format, &running).await
    }

    /// Answers a statement that was prepared before.
    async fn simple_known(&mut self, known: &Known) -> Step<()> {
        if let Some(answer) = answered(|| self.session.answer_known(known)) {
            let batches = answer?;
            let columns = known.prepared().columns.as_deref().unwrap_or_default();
            let formats = vec![Format::Text; columns.len()];
            self.output.row_description(columns, &formats);
            return self.send_answer(columns, &formats, batches).await.map(drop);
        }
        let (running, _entered) = self.begin_statement();
        let Self { session, input, .. } = self;
        let outcome = run(&running, input, session.execute_known(known)).await?;
        self.simple_outcome(outcome, Format::Text, &running).await
    }

    async fn simple_outcome(&mut self, outcome: Outcome, format: Format, running: &Running) -> Step<()> {
        let tag = match outcome {
            Outcome::Rows { columns, stream, tag } => {
                let formats = vec![format; columns.len()];
                self.output.row_description(&columns, &formats);
                let account = self.session.account().clone();
                let encoder = RowEncoder::new(&columns, &formats, self.style());
                return self
                    .send_all(
                        ResultStream {
                            stream,
                            account,
                            encoder,
                            tag,
                            pending: None,
                        },
                        running,
                    )
                    .await;
            }
            Outcome::Command(tag) => tag,
            Outcome::CopyIn(copy) => self.copy_in(copy, running).await?,
            Outcome::CopyOut(copy) => self.copy_out(copy, running).await?,
            Outcome::Empty => {
                self.output.empty_query();
                return Ok(());
            }
        };
        self.tell();
        self.output.command_complete(&tag);
        Ok(())
    }
}
