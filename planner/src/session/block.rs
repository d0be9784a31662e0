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
use super::snapshot::commit;
use super::statements::references::{End, at_end};
use crate::pg::error::{Result, SqlError, SqlState, state};
use crate::pg::settings::Settings;
use parking_lot::Mutex;
use std::sync::Arc;
use tenon_executor::scan::ReadLog;
use tenon_storage::{OnCommit, Transaction};

/// When a statement of the block sees what others commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// At each statement.
    ReadCommitted,
    /// Never: one snapshot.
    Snapshot,
    /// The same, and it commits only if others have left alone what it has read.
    Serializable,
}

impl Isolation {
    pub(crate) fn named(level: &str) -> Self {
        match level {
            "repeatable read" => Isolation::Snapshot,
            "serializable" => Isolation::Serializable,
            _ => Isolation::ReadCommitted,
        }
    }
}

impl Block {
    /// Whether all statements from here on see one snapshot.
    pub fn keeps_snapshot(&self) -> bool {
        self.isolation != Isolation::ReadCommitted
    }
}

pub(crate) struct Block {
    /// Shared with a running COPY FROM STDIN.
    pub transaction: Arc<Mutex<Transaction>>,
    /// Opened for a query string of several statements: no BEGIN was given.
    pub implicit: bool,
    pub failed: bool,
    pub isolation: Isolation,
    /// Of a serializable one.
    pub reads: Option<Arc<ReadLog>>,
    /// Whether a statement has used the snapshot yet: then it stays, under `Isolation::Snapshot`.
    pub used: bool,
    /// No statement had before the one that runs.
    pub is_new: bool,
    /// Settings as they were when the block began.
    pub settings: Settings,
    /// SET LOCAL: names with the values to go back to at the end.
    pub locals: Vec<(String, Option<String>)>,
    pub savepoints: Vec<Savepoint>,
    pub start_us: i64,
}

/// What ROLLBACK TO goes back to.
pub(crate) struct Savepoint {
    name: String,
    transaction: Transaction,
    settings: Settings,
    locals: usize,
    /// The cursors that were open.
    cursors: Vec<String>,
    /// How much was asked of notifications, and how many advisory locks were taken.
    notifications: usize,
    advisory: usize,
}

/// The characteristics of a transaction, each with its default.
const MODES: [(&str, &str); 3] = [
    ("transaction_isolation", "default_transaction_isolation"),
    ("transaction_read_only", "default_transaction_read_only"),
    ("transaction_deferrable", "default_transaction_deferrable"),
];

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
            transaction: Arc::new(Mutex::new(self.new_transaction())),
            implicit,
            failed: false,
            isolation: Isolation::named(&isolation),
            reads: None,
            used: false,
            is_new: true,
            settings: self.settings.clone(),
            locals: Vec::new(),
            savepoints: Vec::new(),
            start_us: self.statement_start_us,
        });
        self.take_default_modes();
    }

    /// What a transaction is like that says nothing of it, which is what statements by themselves are.
    pub(crate) fn take_default_modes(&mut self) {
        for (name, default) in MODES {
            let wanted = self.settings.get(default).unwrap_or_default();
            self.settings.put(name.into(), wanted);
        }
    }

    /// Opens the implicit transaction of a query string with several statements. `finish_implicit` ends it.
    pub fn begin_implicit(&mut self) {
        if self.block.is_none() {
            self.statement_start_us = crate::pg::functions::session::now_us();
            self.open_block(true);
        }
    }

    /// Ends an implicit transaction, if one is open: commits it, or with `ok` false rolls it back.
    pub async fn finish_implicit(&mut self, ok: bool) -> Result<()> {
        match &self.block {
            Some(block) if block.implicit => {
                if ok && !block.failed {
                    self.commit_block().await
                } else {
                    self.roll_back();
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }

    pub(super) fn failed_transaction() -> SqlError {
        SqlError::new(
            state::IN_FAILED_SQL_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        )
    }

    /// The wire saw an error outside `execute`: while rows were streamed, or in a COPY.
    pub fn fail_transaction(&mut self) {
        match &self.block {
            Some(_) => self.fail_block(),
            // A statement by itself: what it asked is not carried out.
            None => drop(self.listening.pending.take()),
        }
    }

    /// What the block has changed and locked goes at once, unless a savepoint is there to go back to.
    pub(super) fn fail_block(&mut self) {
        let fresh = self.new_transaction();
        let Some(block) = &mut self.block else { return };
        block.failed = true;
        if block.savepoints.is_empty() {
            *block.transaction.lock() = fresh;
            self.advisory.truncate(0);
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

    /// COMMIT's tag: a failed block is rolled back. With `chain` a block like it follows.
    pub(crate) async fn commit(&mut self, chain: bool) -> Result<&'static str> {
        if chain {
            self.explicit_block("COMMIT AND CHAIN")?;
        }
        let modes = self.modes();
        let tag = match &self.block {
            None => {
                self.warn(state::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
                "COMMIT"
            }
            Some(block) if block.failed => {
                self.roll_back();
                "ROLLBACK"
            }
            Some(block) => {
                if block.implicit {
                    self.warn(state::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
                }
                self.commit_block().await?;
                "COMMIT"
            }
        };
        if chain {
            self.chain(modes);
        }
        Ok(tag)
    }

    /// The characteristics of the block, which AND CHAIN hands on.
    fn modes(&self) -> [(&'static str, Option<String>); 3] {
        MODES.map(|(name, _)| (name, self.settings.get(name)))
    }

    fn chain(&mut self, modes: [(&'static str, Option<String>); 3]) {
        self.open_block(false);
        for (name, value) in modes {
            let Some(value) = value else { continue };
            if let Some(block) = &mut self.block
                && name == "transaction_isolation"
            {
                block.isolation = Isolation::named(&value);
            }
            self.settings.put(name.into(), value);
        }
    }

    async fn commit_block(&mut self) -> Result<()> {
        // Foreign keys that were deferred to here.
        let settled = match &self.block {
            Some(_) => at_end(self, End::Transaction).await,
            None => return Ok(()),
        };
        let Some(block) = self.block.take() else { return Ok(()) };
        let mut transaction = block.transaction.lock().clone();
        let settled = settled.and_then(|()| self.end_temporary_rows(&mut transaction));
        let committed = match settled {
            Ok(()) => commit(transaction).await,
            Err(error) => Err(error),
        };
        self.advisory.truncate(0);
        match committed {
            Ok(()) => {
                for (name, value) in block.locals.into_iter().rev() {
                    match value {
                        Some(value) => self.settings.put(crate::pg::settings::canonical(&name), value),
                        None => self.settings.reset(&name, &Settings::default()).unwrap_or(()),
                    }
                }
                self.take_default_modes();
                self.cursors.retain(|_, cursor| cursor.hold);
                self.cursors.values_mut().for_each(|cursor| cursor.is_held = true);
                self.settle_notifications();
                Ok(())
            }
            Err(error) => {
                self.settings = block.settings;
                self.listening.pending.take();
                self.cursors.retain(|_, cursor| cursor.is_held);
                Err(error)
            }
        }
    }

    pub(crate) fn roll_back(&mut self) {
        if let Some(block) = self.block.take() {
            self.settings = block.settings;
        }
        self.advisory.truncate(0);
        self.listening.pending.take();
        self.cursors.retain(|_, cursor| cursor.is_held);
    }

    /// ROLLBACK.
    pub(crate) fn roll_back_statement(&mut self, chain: bool) -> Result<()> {
        if chain {
            self.explicit_block("ROLLBACK AND CHAIN")?;
        }
        if self.block.as_ref().is_none_or(|block| block.implicit) {
            self.warn(state::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        let modes = self.modes();
        self.roll_back();
        if chain {
            self.chain(modes);
        }
        Ok(())
    }

    /// ON COMMIT of the session's temporary tables, at the end of each transaction.
    pub(super) fn end_temporary_rows(&self, transaction: &mut Transaction) -> Result<()> {
        if !self.has_temporary {
            return Ok(());
        }
        let schema = self.temporary_schema();
        let Some(entry) = transaction.state().schema(&schema).cloned() else {
            return Ok(());
        };
        for table in entry.relations().filter_map(|relation| relation.as_table()) {
            match table.definition().on_commit {
                OnCommit::PreserveRows => {}
                OnCommit::DeleteRows if table.rows() == 0 => {}
                OnCommit::DeleteRows => transaction.truncate(&schema, table.name())?,
                OnCommit::Drop => transaction.drop_relation(&schema, table.name())?,
            }
        }
        Ok(())
    }

    pub(crate) fn savepoint(&mut self, name: String) -> Result<()> {
        let (settings, cursors) = (self.settings.clone(), self.cursors.keys().cloned().collect());
        let (notifications, advisory) = (self.listening.pending.len(), self.advisory.of_transaction());
        let block = self.explicit_block("SAVEPOINT")?;
        let savepoint = Savepoint {
            name,
            transaction: block.transaction.lock().clone(),
            settings,
            locals: block.locals.len(),
            cursors,
            notifications,
            advisory,
        };
        block.savepoints.push(savepoint);
        Ok(())
    }

    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint("RELEASE SAVEPOINT", name)?;
        if let Some(block) = &mut self.block {
            // READ ONLY that was set since the savepoint ends with it, as PostgreSQL has it; other settings stay.
            let read_only = block.savepoints[at].settings.get("transaction_read_only");
            block.savepoints.truncate(at);
            self.settings
                .put("transaction_read_only".into(), read_only.unwrap_or_default());
        }
        Ok(())
    }

    pub(crate) fn roll_back_to(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint("ROLLBACK TO SAVEPOINT", name)?;
        if let Some(block) = &mut self.block {
            block.savepoints.truncate(at + 1);
            let savepoint = &block.savepoints[at];
            *block.transaction.lock() = savepoint.transaction.clone();
            savepoint.transaction.returned_to();
            block.locals.truncate(savepoint.locals);
            self.listening.pending.truncate(savepoint.notifications);
            self.advisory.truncate(savepoint.advisory);
            block.failed = false;
            self.settings = savepoint.settings.clone();
            self.cursors.retain(|name, _| savepoint.cursors.contains(name));
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
            .rposition(|savepoint| savepoint.name == name)
            .ok_or_else(|| SqlError::new(SqlState("3B001"), format!("savepoint \"{name}\" does not exist")))
    }
}
