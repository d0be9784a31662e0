//! The extended protocol: named statements and portals, typed parameters, rows in portions.

mod moving;

use super::aside::LONG_BYTES;
use super::connection::Connection;
use super::failure::Step;
use super::message::{Formats, Message, Parameter, Target, violation};
use super::results::{ResultStream, answered, counted, rows_of, run, tag_of};
use crate::encode::Format;
use crate::encode::row::RowEncoder;
use crate::params;
use datafusion::scalar::ScalarValue;
use std::collections::HashMap;
use std::sync::Arc;
use tenon_planner::error::{Result, SqlError, state};
use tenon_planner::outcome::{Outcome, RowsTag};
use tenon_planner::session::{Execution, Prepared, Sent, TransactionStatus};
use tenon_planner::statement::Statement;

/// Portals of a connection, by name; `""` is the unnamed one.
pub type Portals = HashMap<String, Portal>;

/// A statement with its parameters, before, while or after it gives rows.
pub struct Portal {
    statement: Arc<Prepared>,
    /// The statement's name.
    name: String,
    results: Formats,
    state: PortalState,
}

enum PortalState {
    New(Vec<ScalarValue>),
    Running(Box<ResultStream>, Execution),
    /// All rows were sent: running it again sends none.
    Ended(RowsTag),
    Done,
}

impl Connection {
    /// Whether a message, or the statement that it names, is long.
    pub(super) fn is_long(&self, message: &Message) -> bool {
        let text = |statement: Option<&Arc<Prepared>>| statement.map_or(0, |statement| statement.sql().len());
        let statement = |name: &str| text(self.session.prepared.get(name));
        let portal = |name: &str| text(self.portals.get(name).map(|portal| &portal.statement));
        let bytes = match message {
            // The statement that had the name goes.
            Message::Parse { name, sql, .. } => sql.len().max(statement(name)),
            Message::Bind {
                portal: name,
                statement: of,
                parameters,
                ..
            } => {
                let values = parameters.iter().filter_map(|parameter| parameter.value.as_ref());
                let values: usize = values.map(|value| value.len()).sum();
                values.max(statement(of)).max(portal(name))
            }
            Message::Describe(Target::Statement(name)) | Message::Close(Target::Statement(name)) => statement(name),
            Message::Describe(Target::Portal(name)) | Message::Close(Target::Portal(name)) => portal(name),
            Message::Execute { portal: name, .. } => portal(name),
            _ => 0,
        };
        bytes >= LONG_BYTES
    }

    /// Answers a message of the extended protocol other than Sync and Flush. Nothing is flushed: the client asks for
    /// that.
    pub(super) async fn extended(&mut self, message: Message) -> Step<()> {
        match message {
            Message::Parse { name, sql, types } => self.parse(name, &sql, &types).await,
            Message::Bind {
                portal,
                statement,
                parameters,
                results,
            } => self.bind(portal, &statement, parameters, results).await,
            Message::Describe(Target::Statement(name)) => Ok(self.describe_statement(&name)?),
            Message::Describe(Target::Portal(name)) => Ok(self.describe_portal(&name)?),
            Message::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Message::Close(Target::Statement(name)) => {
                self.session.prepared.remove(&name);
                self.output.close_complete();
                Ok(())
            }
            Message::Close(Target::Portal(name)) => {
                self.portals.remove(&name);
                self.session.close_cursor(&name);
                self.output.close_complete();
                Ok(())
            }
            other => Err(violation(format!("unexpected message {other:?}")).into()),
        }
    }

    /// The end of a run of messages: of its implicit transaction, and outside of a transaction block of the portals.
    pub(super) async fn sync(&mut self, ok: bool) -> Step<()> {
        if let Err(error) = self.session.finish_implicit(ok).await {
            self.fail(error)?;
        }
        if self.session.transaction_status() == TransactionStatus::Idle {
            self.portals.clear();
        }
        Ok(())
    }

    async fn parse(&mut self, name: String, sql: &str, types: &[u32]) -> Step<()> {
        if !name.is_empty() && self.session.has_statement(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_PREPARED_STATEMENT, message).into());
        }
        self.session.prepared.remove(&name);
        if let Some(prepared) = self.session.known_statement(sql, types) {
            self.session.keep_prepared(name, prepared);
            self.output.parse_complete();
            return Ok(());
        }
        self.session.receives(sql);
        let mut statements = self.session.parse(sql)?;
        if statements.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(state::SYNTAX_ERROR, message).into());
        }
        let statement = statements.pop().unwrap_or_else(Statement::empty);
        let (running, _entered) = self.begin_statement();
        let prepared = run(&running, &mut self.input, self.session.prepare(statement, types)).await?;
        let prepared = Arc::new(prepared);
        self.session.remember_statement(sql, types, &prepared);
        self.session.keep_prepared(name, prepared);
        self.output.parse_complete();
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<&Arc<Prepared>> {
        self.session.prepared.get(name).ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                _ => format!("prepared statement \"{name}\" does not exist"),
            };
            SqlError::new(state::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    async fn bind(
        &mut self,
        portal: String,
        statement: &str,
        parameters: Vec<Parameter>,
        results: Formats,
    ) -> Step<()> {
        let mut prepared = self.statement(statement)?.clone();
        if parameters.len() != prepared.params.len() {
            return Err(violation(format!(
                "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {}",
                parameters.len(),
                prepared.params.len()
            ))
            .into());
        }
        if !portal.is_empty() && (self.portals.contains_key(&portal) || self.session.cursor(&portal).is_some()) {
            let message = format!("cursor \"{portal}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_CURSOR, message).into());
        }
        results
            .expand(prepared.columns.as_ref().map_or(0, Vec::len))
            .or_else(|error| {
                // A statement without rows takes any formats.
                if prepared.columns.is_none() {
                    Ok(Vec::new())
                } else {
                    Err(error)
                }
            })?;
        if self.session.is_outdated(&prepared)? {
            let (running, _entered) = self.begin_statement();
            let Self { session, input, .. } = self;
            prepared = Arc::new(run(&running, input, session.prepare_anew(&prepared)).await?);
            session.prepared.insert(statement.to_owned(), prepared.clone());
        }
        let (conventions, charset) = (self.session.conventions(), self.input.charset);
        let planned = &prepared.param_data_types;
        if let Some(dimensions) = params::other_dimensions(&parameters, &prepared.params, planned, charset)? {
            let (running, _entered) = self.begin_statement();
            let Self { session, input, .. } = self;
            let again = run(&running, input, session.prepare_for(&prepared, dimensions)).await?;
            prepared = Arc::new(again);
        }
        let types = prepared.params.iter().zip(&prepared.param_data_types);
        let values = parameters.iter().zip(types).enumerate();
        let values = values
            .map(|(i, (parameter, (pg, arrow)))| params::decode(parameter, *pg, arrow, i + 1, (&conventions, charset)));
        let state = PortalState::New(values.collect::<Result<_>>()?);
        self.portals.insert(
            portal,
            Portal {
                statement: prepared,
                name: statement.to_owned(),
                results,
                state,
            },
        );
        self.output.bind_complete();
        Ok(())
    }

    fn describe_statement(&mut self, name: &str) -> Result<()> {
        let prepared = self.statement(name)?.clone();
        self.output.parameter_description(prepared.params.iter().map(|p| p.oid));
        match &prepared.columns {
            Some(columns) => self.output.row_description(columns, &[]),
            None => self.output.no_data(),
        }
        Ok(())
    }

    fn describe_portal(&mut self, name: &str) -> Result<()> {
        // What DECLARE made is a portal too.
        if !self.portals.contains_key(name)
            && let Some((columns, binary)) = self.session.cursor(name)
        {
            let format = if binary { Format::Binary } else { Format::Text };
            self.output.row_description(columns, &vec![format; columns.len()]);
            return Ok(());
        }
        let portal = Self::portal(&mut self.portals, name)?;
        match &portal.statement.columns {
            Some(columns) => {
                let formats = portal.results.expand(columns.len())?;
                self.output.row_description(columns, &formats);
            }
            None => self.output.no_data(),
        }
        Ok(())
    }

    async fn execute(&mut self, name: &str, rows_max: usize) -> Step<()> {
        // Messages up to Sync are one transaction. With Sync next, as nearly always, the statement is that by itself.
        if !self.input.sync_is_next() {
            self.session.begin_implicit();
        }
        let Self { portals, session, .. } = self;
        let portal = Self::portal(portals, name)?;
        let mut execution = match &portal.state {
            PortalState::New(values) => {
                session.receives(portal.statement.sql());
                Some(session.opened(&portal.statement, None, values))
            }
            PortalState::Running(..) => {
                session.receives(portal.statement.sql());
                None
            }
            _ => None,
        };
        if rows_max == 0 && self.answer(name, &mut execution).await? {
            return Ok(());
        }
        let (running, _entered) = self.begin_statement();
        let style = self.style();
        let portal = Self::portal(&mut self.portals, name)?;
        let rows = match std::mem::replace(&mut portal.state, PortalState::Done) {
            PortalState::Done if self.session.transaction_status() == TransactionStatus::Failed => {
                let message = "current transaction is aborted, commands ignored until end of transaction block";
                return Err(SqlError::new(state::IN_FAILED_SQL_TRANSACTION, message).into());
            }
            PortalState::Done => {
                let message = format!("portal \"{name}\" cannot be run");
                return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message).into());
            }
            PortalState::Ended(tag) => {
                self.output.command_complete(&tag_of(&tag, 0));
                portal.state = PortalState::Ended(tag);
                return Ok(());
            }
            PortalState::Running(..) if self.session.transaction_status() == TransactionStatus::Failed => {
                let message = "current transaction is aborted, commands ignored until end of transaction block";
                return Err(SqlError::new(state::IN_FAILED_SQL_TRANSACTION, message).into());
            }
            PortalState::Running(rows, mut execution) => {
                execution.resume();
                (*rows, Some(execution))
            }
            PortalState::New(values) => {
                let statement = portal.statement.clone();
                let results = portal.results.clone();
                let Self { session, input, .. } = self;
                let outcome = run(&running, input, session.execute(&statement, values)).await?;
                let tag = match outcome {
                    Outcome::Rows { columns, stream, tag } => {
                        let account = self.session.account().clone();
                        let encoder = RowEncoder::new(&columns, &results.expand(columns.len())?, style);
                        return self
                            .send_portion(
                                name,
                                ResultStream {
                                    stream,
                                    account,
                                    encoder,
                                    tag,
                                    pending: None,
                                },
                                execution,
                                rows_max,
                                &running,
                            )
                            .await;
                    }
                    Outcome::Command(tag) => tag,
                    Outcome::CopyIn(copy) => self.copy_in(copy, &running).await?,
                    Outcome::CopyOut(copy) => self.copy_out(copy, &running).await?,
                    Outcome::Empty => {
                        self.output.empty_query();
                        return Ok(());
                    }
                };
                self.tell();
                self.output.command_complete(&tag);
                self.close(execution, name, rows_of(&tag));
                return Ok(());
            }
        };
        let (rows, execution) = rows;
        self.send_portion(name, rows, execution, rows_max, &running).await
    }

    /// Tells of a portal's execution, which has ended well.
    fn close(&mut self, execution: Option<Execution>, name: &str, rows: u64) {
        let Some(execution) = execution else { return };
        let statement = self.portals.get(name).map_or("", |portal| &portal.name);
        self.session.closed(execution, Sent::Prepared(statement), rows);
    }

    /// Sends all rows of a portal that has not run, where they can be had at once.
    async fn answer(&mut self, name: &str, execution: &mut Option<Execution>) -> Step<bool> {
        let Self { portals, session, .. } = self;
        let portal = Self::portal(portals, name)?;
        let PortalState::New(values) = &portal.state else {
            return Ok(false);
        };
        let statement = portal.statement.clone();
        let Some(answer) = answered(|| session.answer(&statement, values)) else {
            return Ok(false);
        };
        portal.state = PortalState::Done;
        let columns = statement.columns.as_deref().unwrap_or_default();
        let formats = portal.results.expand(columns.len())?;
        let (tag, rows) = self.send_answer(columns, &formats, answer?).await?;
        self.close(execution.take(), name, rows);
        if let Some(portal) = self.portals.get_mut(name) {
            portal.state = PortalState::Ended(tag);
        }
        Ok(true)
    }

    /// Sends up to `rows_max` rows (0: all), keeping the rest in the portal.
    async fn send_portion(
        &mut self,
        name: &str,
        mut rows: ResultStream,
        mut execution: Option<Execution>,
        rows_max: usize,
        running: &super::cancel::Running,
    ) -> Step<()> {
        let limit = if rows_max == 0 { usize::MAX } else { rows_max };
        let (sent, end) = rows.send(limit, running, &mut self.input, &mut self.output).await?;
        self.tell();
        let rows_sent = counted(&rows.tag, sent);
        let after = match execution {
            _ if end => {
                self.output.command_complete(&tag_of(&rows.tag, sent));
                self.close(execution.take(), name, rows_sent);
                PortalState::Ended(rows.tag)
            }
            Some(mut execution) => {
                self.output.portal_suspended();
                execution.pause(rows_sent);
                PortalState::Running(Box::new(rows), execution)
            }
            // A portal that runs has one.
            None => PortalState::Done,
        };
        if let Some(portal) = self.portals.get_mut(name) {
            portal.state = after;
        }
        Ok(())
    }
}
