//! The simple protocol: a string of statements, each answered in full, all of them one transaction unless they say
//! otherwise.

use super::cancel::Running;
use super::connection::Connection;
use super::failure::{Failure, Step};
use super::results::{ResultStream, answered, rows_of, run};
use crate::encode::Format;
use crate::encode::row::RowEncoder;
use std::sync::Arc;
use std::time::Instant;
use tenon_planner::outcome::Outcome;
use tenon_planner::session::{Known, Sent, TransactionStatus};
use tenon_planner::statement::Statement;

impl Connection {
    /// Answers one Query message but for ReadyForQuery.
    pub(super) async fn simple_query(&mut self, sql: &str) -> Step<()> {
        // As in PostgreSQL, a simple query ends the unnamed statement and portal.
        self.session.prepared.remove("");
        self.portals.remove("");
        self.session.receives(sql);
        if let Some(known) = self.session.known(sql) {
            match self.simple_known(&known, sql).await {
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
                    let _ = self.session.finish_implicit(false).await;
                    return Ok(());
                }
                Err(failure) => return Err(failure),
            }
        }
        match self.session.finish_implicit(true).await {
            Ok(()) => Ok(()),
            Err(error) => self.fail(error),
        }
    }

    /// Answers one statement. `text`: all that the client has sent.
    async fn simple_statement(&mut self, statement: Statement, text: Option<&str>) -> Step<()> {
        let asked = Instant::now();
        if let Some((name, limit)) = statement.moves_over()
            && self.is_portal(&name)
            && self.session.cursor(&name).is_none()
        {
            return self.move_over(&name, limit).await;
        }
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
        let execution = session.opened(&prepared, Some(asked), &[]);
        let outcome = run(&running, input, session.execute(&prepared, Vec::new())).await?;
        let rows = self.simple_outcome(outcome, format, &running).await?;
        self.session.closed(execution, Sent::Text(prepared.sql()), rows);
        Ok(())
    }

    /// Answers a statement that was prepared before.
    async fn simple_known(&mut self, known: &Known, sql: &str) -> Step<()> {
        let execution = self.session.opened(known.prepared(), None, &[]);
        if let Some(answer) = answered(|| self.session.answer_known(known)) {
            let batches = answer?;
            let columns = known.prepared().columns.as_deref().unwrap_or_default();
            let formats = vec![Format::Text; columns.len()];
            self.output.row_description(columns, &formats);
            let rows = self.send_answer(columns, &formats, batches).await?.1;
            self.session.closed(execution, Sent::Text(sql), rows);
            return Ok(());
        }
        let (running, _entered) = self.begin_statement();
        let Self { session, input, .. } = self;
        let outcome = run(&running, input, session.execute_known(known)).await?;
        let rows = self.simple_outcome(outcome, Format::Text, &running).await?;
        self.session.closed(execution, Sent::Text(sql), rows);
        Ok(())
    }

    /// Gives the rows that were sent or changed.
    async fn simple_outcome(&mut self, outcome: Outcome, format: Format, running: &Running) -> Step<u64> {
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
                return Ok(0);
            }
        };
        self.tell();
        self.output.command_complete(&tag);
        Ok(rows_of(&tag))
    }
}
