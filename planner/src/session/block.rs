//! Transaction blocks.
//!
//! ```text
//!            BEGIN / begin_implicit          error
//!   (none) ------------------------> open ----------> failed
//!     ^                               |  ^               |
//!     |        COMMIT, ROLLBACK       |  |  ROLLBACK TO  |
//!     +-------------------------------+  +---------------+
//!     +----------- COMMIT or ROLLBACK (both roll back) --+
//! ```

use super::Session;
use crate::error::{Result, SqlError, SqlState, state};
use crate::settings::Settings;
use parking_lot::Mutex;
use std::sync::Arc;
use tenon_storage::Transaction;

/// When a statement of the block sees what others commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// At each statement.
    ReadCommitted,
    /// Never: one snapshot. Also what SERIALIZABLE gets, see the documentation.
    Snapshot,
}

impl Isolation {
    pub(crate) fn named(level: &str) -> Self {
        match level {
            "repeatable read" | "serializable" => Isolation::Snapshot,
            _ => Isolation::ReadCommitted,
        }
    }
}

pub(crate) struct Block {
    /// Shared with a running COPY FROM STDIN.
    pub transaction: Arc<Mutex<Transaction>>,
    /// Opened for a query string of several statements: no BEGIN was given.
    pub implicit: bool,
    pub failed: bool,
    pub isolation: Isolation,
    /// Whether a statement has used the snapshot yet: then it stays, under `Isolation::Snapshot`.
    pub used: bool,
    /// Settings as they were when the block began.
    pub settings: Settings,
    /// SET LOCAL: names with the values to go back to at the end.
    pub locals: Vec<(String, Option<String>)>,
    pub savepoints: Vec<(String, Transaction)>,
    pub start_us: i64,
}

impl Session {
    pub(crate) fn block(&self) -> Option<&Block> {
        self.block.as_ref()
    }

    pub(crate) fn block_mut(&mut self) -> Option<&mut Block> {
        self.block.as_mut()
    }

    fn open_block(&mut self, implicit: bool) {
        let isolation = self.settings.get("default_transaction_isolation").unwrap_or_default();
        self.block = Some(Block {
            transaction: Arc::new(Mutex::new(self.engine.database().begin())),
            implicit,
            failed: false,
            isolation: Isolation::named(&isolation),
            used: false,
            settings: self.settings.clone(),
            locals: Vec::new(),
            savepoints: Vec::new(),
            start_us: self.statement_start_us,
        });
        let read_only = self.settings.get("default_transaction_read_only").unwrap_or_default();
        self.settings.put("transaction_isolation".into(), isolation);
        self.settings.put("transaction_read_only".into(), read_only);
    }

    /// Opens the implicit transaction of a query string with several statements. `finish_implicit` ends it.
    pub fn begin_implicit(&mut self) {
        if self.block.is_none() {
            self.statement_start_us = crate::functions::session::now_us();
            self.open_block(true);
        }
    }

    /// Ends an implicit transaction, if one is open: commits it, or with `ok` false rolls it back.
    pub fn finish_implicit(&mut self, ok: bool) -> Result<()> {
        match &self.block {
            Some(block) if block.implicit => {
                if ok && !block.failed {
                    self.commit_block()
                } else {
                    self.roll_back();
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }

    /// The wire saw an error outside `execute`: while rows were streamed, or in a COPY.
    pub fn fail_transaction(&mut self) {
        if let Some(block) = &mut self.block {
            block.failed = true;
        }
    }

    pub(crate) fn begin(&mut self) {
        match &mut self.block {
            Some(block) if block.implicit => block.implicit = false,
            Some(_) => self.warn(
                state::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            ),
            None => self.open_block(false),
        }
    }

    /// COMMIT's tag: a failed block is rolled back.
    pub(crate) fn commit(&mut self) -> Result<&'static str> {
        match &self.block {
            None => {
                self.warn(state::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
                Ok("COMMIT")
            }
            Some(block) if block.failed => {
                self.roll_back();
                Ok("ROLLBACK")
            }
            Some(block) => {
                if block.implicit {
                    self.warn(state::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
                }
                self.commit_block()?;
                Ok("COMMIT")
            }
        }
    }

    fn commit_block(&mut self) -> Result<()> {
        let Some(block) = self.block.take() else { return Ok(()) };
        let transaction = block.transaction.lock().clone();
        match transaction.commit() {
            Ok(()) => {
                for (name, value) in block.locals.into_iter().rev() {
                    match value {
                        Some(value) => self.settings.put(crate::settings::canonical(&name), value),
                        None => self.settings.reset(&name, &Settings::default()).unwrap_or(()),
                    }
                }
                self.cursors.retain(|_, cursor| cursor.hold);
                Ok(())
            }
            Err(error) => {
                self.settings = block.settings;
                self.cursors.clear();
                Err(error.into())
            }
        }
    }

    pub(crate) fn roll_back(&mut self) {
        if let Some(block) = self.block.take() {
            self.settings = block.settings;
        }
        self.cursors.clear();
    }

    /// ROLLBACK.
    pub(crate) fn roll_back_statement(&mut self) {
        if self.block.as_ref().is_none_or(|block| block.implicit) {
            self.warn(state::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        self.roll_back();
    }

    pub(crate) fn savepoint(&mut self, name: String) -> Result<()> {
        let block = self.explicit_block("SAVEPOINT")?;
        let copy = block.transaction.lock().clone();
        block.savepoints.push((name, copy));
        Ok(())
    }

    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint("RELEASE SAVEPOINT", name)?;
        if let Some(block) = &mut self.block {
            block.savepoints.truncate(at);
        }
        Ok(())
    }

    pub(crate) fn roll_back_to(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint("ROLLBACK TO SAVEPOINT", name)?;
        if let Some(block) = &mut self.block {
            block.savepoints.truncate(at + 1);
            *block.transaction.lock() = block.savepoints[at].1.clone();
            block.failed = false;
        }
        Ok(())
    }

    fn explicit_block(&mut self, what: &str) -> Result<&mut Block> {
        match &mut self.block {
            Some(block) if !block.implicit => Ok(block),
            _ => {
                let message = format!("{what} can only be used in transaction blocks");
                Err(SqlError::new(state::NO_ACTIVE_SQL_TRANSACTION, message))
            }
        }
    }

    fn find_savepoint(&mut self, what: &str, name: &str) -> Result<usize> {
        let block = self.explicit_block(what)?;
        block
            .savepoints
            .iter()
            .rposition(|(own, _)| own == name)
            .ok_or_else(|| SqlError::new(SqlState("3B001"), format!("savepoint \"{name}\" does not exist")))
    }
}
