//! Executing a prepared statement inside the right transaction.

use super::{Prepared, Session};
use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::locate;
use crate::pg::outcome::Outcome;
use crate::pg::statement::{Kind, Utility};
use crate::session::moment_words::mentions_now;
use crate::session::statements;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast;
use tenon_storage::roles::{BOOTSTRAP, CHECKPOINT};

/// How often a statement outside a block runs again after a conflict with another transaction.
const ATTEMPTS_MAX: usize = 20;

impl Session {
    /// Runs a prepared statement with a value for each parameter.
    pub async fn execute(&mut self, prepared: &Prepared, params: Vec<ScalarValue>) -> Result<Outcome> {
        if params.len() != prepared.params.len() {
            let (given, wanted) = (params.len(), prepared.params.len());
            let message = format!("bind message supplies {given} parameters, but the statement requires {wanted}");
            return Err(SqlError::new(state::PROTOCOL_VIOLATION, message));
        }
        self.open_execution();
        self.mentions_now = mentions_now(&prepared.statement.text);
        let result = self.execute_inner(prepared, &params).await;
        self.close_execution(prepared, result)
    }

    /// What comes before each execution.
    pub(super) fn open_execution(&mut self) {
        self.apply_assignments();
        self.limit_account(&self.account);
        let received_us = self.received_us.take();
        self.statement_start_us = received_us.unwrap_or_else(crate::pg::functions::session::now_us);
    }

    /// What comes after it.
    pub(super) fn close_execution<T>(&self, prepared: &Prepared, result: Result<T>) -> Result<T> {
        self.engine.plans.forget_stale(&self.engine.database().snapshot());
        result.map_err(|error| locate(error, &prepared.statement))
    }

    async fn execute_inner(&mut self, prepared: &Prepared, params: &[ScalarValue]) -> Result<Outcome> {
        let failed = self.block().is_some_and(|block| block.failed);
        if failed && !prepared.statement.ends_transaction() && !matches!(prepared.statement.kind, Kind::Empty) {
            return Err(Self::failed_transaction());
        }
        match &prepared.statement.kind {
            Kind::Empty => return Ok(Outcome::Empty),
            Kind::Sql(statement) => match self.controlled(statement).await {
                Ok(None) => {}
                Ok(Some(outcome)) => return Ok(outcome),
                Err(error) => {
                    self.fail_transaction();
                    return Err(error);
                }
            },
            Kind::Utility(Utility::Nothing("VACUUM")) | Kind::Analyze(_)
                if prepared.statement.is_vacuum() && self.block().is_some() =>
            {
                self.fail_transaction();
                let message = "VACUUM cannot run inside a transaction block";
                return Err(SqlError::new(state::ACTIVE_SQL_TRANSACTION, message));
            }
            Kind::Utility(Utility::Checkpoint) => {
                self.check_in(
                    CHECKPOINT,
                    "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT",
                )?;
                if let Err(error) = tokio::task::block_in_place(|| self.engine.database().checkpoint()) {
                    self.fail_transaction();
                    return Err(error.into());
                }
                return Ok(Outcome::Command("CHECKPOINT".into()));
            }
            Kind::Utility(Utility::Backup) => {
                self.check_in(BOOTSTRAP, "must be superuser to do BACKUP")?;
                let copy = tokio::task::block_in_place(|| super::backup::start(self.engine.database()));
                return copy.map(Outcome::CopyOut).inspect_err(|_| self.fail_transaction());
            }
            Kind::Utility(Utility::Nothing(tag)) => return Ok(Outcome::Command((*tag).into())),
            Kind::Utility(Utility::Unsupported(what)) => {
                self.fail_transaction();
                return Err(SqlError::unsupported(what));
            }
            Kind::Copy(_)
            | Kind::Analyze(_)
            | Kind::Fetch(_)
            | Kind::Definition(_)
            | Kind::Schema(..)
            | Kind::Utility(Utility::Discard) => {}
        }
        let mut attempt = 1;
        loop {
            let result = match self.begin_statement(prepared.statement.reads_rows()) {
                Ok(()) => match Box::pin(statements::run(self, prepared, params)).await {
                    Ok(outcome) => match statements::promised::returned_as_promised(prepared, outcome) {
                        Ok(outcome) => statements::references::at_statement_end(self).await.map(|()| outcome),
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            let result = match result {
                Ok(outcome) => self.end_statement(true).await.map(|()| outcome),
                Err(error) => {
                    self.end_statement(false).await?;
                    Err(error)
                }
            };
            match result {
                Err(error) if error.state == state::SERIALIZATION_FAILURE => {
                    if !self.is_single() || attempt == ATTEMPTS_MAX {
                        self.fail_transaction();
                        return Err(error);
                    }
                    attempt += 1;
                }
                Err(error) => {
                    self.fail_transaction();
                    return Err(error);
                }
                Ok(outcome) => return Ok(outcome),
            }
        }
    }

    /// 42501 for who has not the rights of a role.
    fn check_in(&mut self, role: u32, message: &str) -> Result<()> {
        let state = self.state();
        if self.acting_in(&state).has_rights_of(&state, role) {
            return Ok(());
        }
        self.fail_transaction();
        Err(crate::catalog::rights::refused(message))
    }

    /// What concerns the session alone, and reads no tables.
    async fn controlled(&mut self, statement: &ast::Statement) -> Result<Option<Outcome>> {
        match self.transaction_control(statement).await? {
            None => self.notification_control(statement),
            done => Ok(done),
        }
    }

    /// BEGIN, COMMIT and the like.
    async fn transaction_control(&mut self, statement: &ast::Statement) -> Result<Option<Outcome>> {
        let tag = match statement {
            ast::Statement::StartTransaction {
                modes, begin, modifier, ..
            } => {
                self.begin();
                if let Some(modifier) = modifier {
                    let on = matches!(modifier, ast::TransactionModifier::Deferred);
                    self.settings
                        .set("transaction_deferrable", if on { "on" } else { "off" })?;
                }
                for mode in modes {
                    self.transaction_mode(mode)?;
                }
                if *begin { "BEGIN" } else { "START TRANSACTION" }
            }
            ast::Statement::Commit { chain, .. } => self.commit(*chain).await?,
            ast::Statement::Rollback { chain, savepoint: None } => {
                self.roll_back_statement(*chain)?;
                "ROLLBACK"
            }
            ast::Statement::Rollback {
                savepoint: Some(name), ..
            } => {
                self.roll_back_to(&crate::catalog::bind::fold(name))?;
                "ROLLBACK"
            }
            ast::Statement::Savepoint { name } => {
                self.savepoint(crate::catalog::bind::fold(name))?;
                "SAVEPOINT"
            }
            ast::Statement::ReleaseSavepoint { name } => {
                self.release(&crate::catalog::bind::fold(name))?;
                "RELEASE"
            }
            _ => return Ok(None),
        };
        Ok(Some(Outcome::Command(tag.into())))
    }

    /// SET TRANSACTION SNAPSHOT.
    pub(crate) fn import_snapshot(&mut self, name: &str) -> Result<()> {
        let refused = |message: &str| Err(SqlError::new(state::ACTIVE_SQL_TRANSACTION, message));
        match self.block() {
            Some(block) if block.used => {
                return refused("SET TRANSACTION SNAPSHOT must be called before any query");
            }
            Some(block) if !block.savepoints.is_empty() => {
                return refused("SET TRANSACTION SNAPSHOT must not be called in a subtransaction");
            }
            Some(block) if !block.keeps_snapshot() => {
                let message =
                    "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ";
                return Err(SqlError::unsupported_as(message));
            }
            _ => {}
        }
        let snapshot = self.engine.exported.find(name).ok_or_else(|| {
            let message = format!("invalid snapshot identifier: \"{name}\"");
            SqlError::new(state::INVALID_PARAMETER_VALUE, message)
        })?;
        let next = self.engine.database().begin_at(snapshot).acts_for(self.info.process_id);
        if let Some(block) = self.block_mut() {
            *block.transaction.lock() = next;
            block.used = true;
        }
        Ok(())
    }

    /// ISOLATION LEVEL or READ ONLY of the open block.
    pub(crate) fn transaction_mode(&mut self, mode: &ast::TransactionMode) -> Result<()> {
        let started = self.block().is_some_and(|block| block.used);
        match mode {
            ast::TransactionMode::AccessMode(access) => {
                let read_only = matches!(access, ast::TransactionAccessMode::ReadOnly);
                if !read_only && self.settings.is_on("transaction_read_only") {
                    let message = match self.block() {
                        Some(block) if !block.savepoints.is_empty() => {
                            Some("cannot set transaction read-write mode inside a read-only transaction")
                        }
                        Some(_) if started => Some("transaction read-write mode must be set before any query"),
                        _ => None,
                    };
                    if let Some(message) = message {
                        return Err(SqlError::new(state::ACTIVE_SQL_TRANSACTION, message));
                    }
                }
                self.settings
                    .set("transaction_read_only", if read_only { "on" } else { "off" })?;
            }
            ast::TransactionMode::IsolationLevel(level) => {
                let level = level.to_string().to_lowercase();
                let level = if level == "snapshot" {
                    "repeatable read".into()
                } else {
                    level
                };
                let changes = self.settings.get("transaction_isolation").as_deref() != Some(level.as_str());
                let message = match self.block() {
                    _ if started => Some("SET TRANSACTION ISOLATION LEVEL must be called before any query"),
                    Some(block) if !block.savepoints.is_empty() => {
                        Some("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
                    }
                    _ => None,
                };
                if let Some(message) = message.filter(|_| changes) {
                    return Err(SqlError::new(state::ACTIVE_SQL_TRANSACTION, message));
                }
                self.settings.set("transaction_isolation", &level)?;
                if let Some(block) = self.block_mut() {
                    block.isolation = super::Isolation::named(&level);
                }
            }
        }
        Ok(())
    }
}
