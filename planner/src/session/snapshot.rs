//! The transaction of one statement, and what the statement binds its names with.

use super::{Block, Session, reads};
use crate::catalog::bind::{self, Binder};
use crate::catalog::rights::Rights;
use crate::pg::error::{Result, SqlError, state};
use crate::pg::functions::exported::Exporter;
use crate::pg::functions::session::Facts;
use crate::pg::identity::Acting;
use crate::session::plan_cache::Purpose;
use crate::session::role_turns::RoleLimit;
use crate::session::run::ExecutionContext;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use tenon_storage::{DatabaseState, Transaction, privilege};

impl Session {
    /// Begins the statement's part of the transaction: the block's, on a new snapshot where its isolation says so, or
    /// one of the statement's own. A statement that reads no rows leaves the block's snapshot and isolation open.
    pub(super) fn begin_statement(&mut self, reads_rows: bool) -> Result<()> {
        let refreshed = std::mem::take(&mut self.refreshed);
        match &mut self.block {
            Some(block) => {
                let keep = block.keeps_snapshot() && block.used;
                block.is_new = !block.used;
                block.used |= reads_rows;
                if !keep && !refreshed {
                    block.transaction.lock().refresh()?;
                }
            }
            None => self.single = Some(Arc::new(Mutex::new(self.new_transaction()))),
        }
        self.note_reads()?;
        let is_replica = self.settings.is_replica();
        self.transaction()?.lock().set_replica(is_replica);
        Ok(())
    }

    pub(super) fn new_transaction(&self) -> Transaction {
        self.engine.database().begin().acts_for(self.info.process_id)
    }

    /// Sees what the next statement of the block is going to see, where it is not one snapshot for all of them.
    pub(crate) fn look_anew(&mut self) -> Result<()> {
        match &mut self.block {
            Some(block) if !(block.failed || block.keeps_snapshot() && block.used) => {
                Ok(block.transaction.lock().refresh()?)
            }
            _ => Ok(()),
        }
    }

    /// Ends it: outside a block, commits what the statement changed.
    pub(super) async fn end_statement(&mut self, ok: bool) -> Result<()> {
        match self.changed_by_statement(ok)? {
            Some(transaction) => commit(transaction).await,
            None => Ok(()),
        }
    }

    /// The same of a statement that only reads: nothing but rows of temporary tables may go with it.
    pub(super) fn end_reading(&mut self, ok: bool) -> Result<()> {
        match self.changed_by_statement(ok)? {
            Some(transaction) => Ok(transaction.commit()?),
            None => Ok(()),
        }
    }

    /// What is to be committed at a statement's end.
    fn changed_by_statement(&mut self, ok: bool) -> Result<Option<Transaction>> {
        // An idle session holds no versions of tables.
        *self.analyzed.lock() = None;
        if !ok && self.block.is_none() {
            self.listening.pending.take();
        }
        if let Some(single) = self.single.take()
            && ok
        {
            // Most have only read.
            if !self.has_temporary && !single.lock().is_dirty() {
                return Ok(None);
            }
            let mut transaction = single.lock().clone();
            self.end_temporary_rows(&mut transaction)?;
            return Ok(Some(transaction));
        } else if !ok {
            self.fail_block();
        }
        Ok(None)
    }

    /// The transaction that the running statement reads and writes.
    pub(crate) fn transaction(&self) -> Result<Arc<Mutex<Transaction>>> {
        match (&self.block, &self.single) {
            (Some(block), _) => Ok(block.transaction.clone()),
            (None, Some(single)) => Ok(single.clone()),
            (None, None) => Err(SqlError::internal("no transaction is open")),
        }
    }

    /// Whether the statement runs outside a block, so that it may be run again on a conflict.
    pub(super) fn is_single(&self) -> bool {
        self.block.is_none()
    }

    /// Whether all statements of the transaction see one snapshot.
    pub(super) fn keeps_snapshot(&self) -> bool {
        let block = self.block.as_ref();
        block.is_some_and(Block::keeps_snapshot)
    }

    /// Whether all statements of the transaction see one snapshot, and the one that runs is the first.
    pub(super) fn has_new_snapshot(&self) -> bool {
        let block = self.block.as_ref();
        block.is_some_and(|block| block.keeps_snapshot() && block.is_new)
    }

    /// Refuses a change in a read-only transaction (25006).
    pub(crate) fn check_writable(&self, what: &str) -> Result<()> {
        let read_only = match &self.block {
            Some(_) => self.settings.is_on("transaction_read_only"),
            None => self.settings.is_on("default_transaction_read_only"),
        };
        if read_only {
            let message = format!("cannot execute {what} in a read-only transaction");
            return Err(SqlError::new(state::READ_ONLY_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    /// The snapshot that a statement reads now.
    pub(crate) fn state(&self) -> Arc<DatabaseState> {
        match self.transaction() {
            Ok(transaction) => transaction.lock().state().clone(),
            Err(_) => self.engine.database().snapshot(),
        }
    }

    /// What the statement's plans run with.
    pub(crate) fn run(&self) -> ExecutionContext {
        // A state of its own is worth it only where the statement asks.
        let start_us = self
            .block
            .as_ref()
            .map_or(self.statement_start_us, |block| block.start_us);
        let now_us = self.mentions_now.then_some(start_us);
        let (options, conventions) = (self.settings.join_options(), self.settings.conventions(now_us));
        let mut running = self.running.lock();
        let known = running
            .as_ref()
            .filter(|known| known.0 == options && known.1 == conventions);
        let (state, task) = match known {
            Some((.., state, task)) => (state.clone(), task.clone()),
            None => {
                let (state, task) = self.engine.under(options, conventions.clone());
                *running = Some((options, conventions, state.clone(), task.clone()));
                (state, task)
            }
        };
        drop(running);
        let state = match &self.reads {
            Some(log) => reads::noting(&state, log),
            None => state,
        };
        ExecutionContext {
            engine: self.engine.clone(),
            state,
            task,
            cancel: self.cancel().clone(),
            account: self.account().clone(),
            standing: self.standing.clone(),
            role_limit: RoleLimit::of(&self.role_place, self.settings.limits().concurrency),
            watch: self.watch.clone(),
            analyzed: self.analyzed.lock().take(),
        }
    }

    /// What a plan made now would be made for.
    pub(crate) fn purpose(&self) -> Purpose {
        let state = self.state();
        if let Some(purpose) = self.last_purpose(&state)
            && purpose.seeded.is_some() == self.seed.is_called()
        {
            return purpose;
        }
        let purpose = Purpose {
            settings: self.settings.clone(),
            path: self.path(&state).into(),
            rights: self.acting_in(&state).rights(),
            seeded: self.seed.is_called().then_some(self.info.process_id),
        };
        // What the server does for itself says nothing of the session.
        if !self.trusted {
            *self.purpose.lock() = Some((state.meaning(), self.has_temporary, purpose.clone()));
        }
        purpose
    }

    /// That of before, where all but its random numbers is as it was.
    fn last_purpose(&self, snapshot: &DatabaseState) -> Option<Purpose> {
        let last = self.purpose.lock();
        let (of, temporary, purpose) = last.as_ref()?;
        let same = *of == snapshot.meaning()
            && *temporary == self.has_temporary
            && purpose.settings.is_same(&self.settings)
            && !self.trusted;
        same.then(|| purpose.clone())
    }

    /// Schemas in which names are looked up, those that exist.
    fn path(&self, snapshot: &DatabaseState) -> Vec<String> {
        let mut path = self.settings.search_path(&self.current_user());
        if self.has_temporary {
            match path.iter().position(|schema| schema == "pg_temp") {
                Some(at) => path[at] = self.temporary_schema(),
                None => path.insert(0, self.temporary_schema()),
            }
        }
        path.retain(|schema| snapshot.schema(schema).is_some());
        let acting = self.acting_in(snapshot);
        if !acting.superuser {
            let rights = Rights {
                state: snapshot,
                acting,
            };
            path.retain(|schema| rights.has_schema(schema, privilege::USAGE));
        }
        path
    }

    /// The state that the statement reads: its transaction's, or after the changes of a WITH that before them.
    pub(crate) fn read_state(&self) -> Arc<DatabaseState> {
        self.surroundings.snapshot.clone().unwrap_or_else(|| self.state())
    }

    /// What names mean in the current snapshot.
    pub(crate) fn binder(&self) -> Binder {
        self.binder_over(self.surroundings.snapshot.clone())
    }

    /// The same for what INSERT reads among the changes of a WITH: the data before any of them.
    pub(crate) fn source_binder(&self) -> Option<Binder> {
        let source = self.surroundings.source.clone();
        source.map(|source| self.binder_over(Some(source)))
    }

    fn binder_over(&self, snapshot: Option<Arc<DatabaseState>>) -> Binder {
        let snapshot = snapshot.unwrap_or_else(|| self.state());
        let mut binder = Binder::new(self.engine.services.clone(), snapshot.clone(), self.facts(&snapshot));
        binder.relations.clone_from(&self.surroundings.relations);
        binder.describes = self.describes;
        // Their rows are this statement's own.
        let used = !binder.relations.is_empty();
        binder.facts.used.fetch_or(used, std::sync::atomic::Ordering::Relaxed);
        binder
    }

    /// What functions of a statement know.
    pub(crate) fn facts(&self, snapshot: &Arc<DatabaseState>) -> Arc<Facts> {
        let last = self.last_purpose(snapshot);
        let path = last.map_or_else(|| self.path(snapshot).into(), |last| last.path);
        Arc::new(Facts {
            info: self.info.clone(),
            settings: self.settings.clone(),
            startup: self.startup().clone(),
            sources: self.sources.clone(),
            path,
            snapshot: snapshot.clone(),
            taken: self.taken.clone(),
            seed: self.seed.clone(),
            transaction_start_us: self
                .block
                .as_ref()
                .map_or(self.statement_start_us, |block: &Block| block.start_us),
            statement_start_us: self.statement_start_us,
            server_start_us: self.engine.start_us,
            assignments: self.assignments.clone(),
            listed: self.listed(),
            dimensions: self.dimensions.clone(),
            clients: self.engine.clients.get().and_then(Weak::upgrade),
            warnings: self.warnings.clone(),
            notifications: self.listening.pending.clone(),
            advisory: self.advisory.clone(),
            cancel: self.cancel().clone(),
            identity: self.identity.clone(),
            acting: self.acting_in(snapshot),
            planning: self.planning(),
            used: Default::default(),
            used_time: Default::default(),
            exporter: Exporter {
                exported: self.engine.exported.clone(),
                transaction: self
                    .transaction()
                    .map_or_else(|_| Weak::new(), |own| Arc::downgrade(&own)),
            },
            relation_named: bind::relation_named,
        })
    }

    /// Carries out the `set_config` calls of the last statement.
    pub(super) fn apply_assignments(&mut self) {
        let assignments = std::mem::take(&mut *self.assignments.lock());
        for (name, value, local) in assignments {
            // The transaction is the statement's own, and over.
            if local && self.block.is_none() {
                continue;
            }
            // Checked when it was called.
            let _ = self.assign(&name, &value, local);
        }
    }

    /// Who acts for the session's statements in a snapshot.
    pub(crate) fn acting_in(&self, snapshot: &DatabaseState) -> Acting {
        if self.trusted {
            return Acting::SYSTEM;
        }
        let mut last = self.acting.lock();
        if let Some((meaning, settings, acting)) = &*last
            && *meaning == snapshot.meaning()
            && settings.is_same(&self.settings)
        {
            return *acting;
        }
        let acting = self.identity.current(snapshot, &self.settings);
        *last = Some((snapshot.meaning(), self.settings.clone(), acting));
        acting
    }

    pub(crate) fn acting(&self) -> Acting {
        self.acting_in(&self.state())
    }

    /// What of a plan depends on who acts.
    pub(crate) fn plan_rights(&self) -> u32 {
        self.acting().rights()
    }

    /// The user who connected.
    pub(crate) fn user(&self) -> &str {
        &self.info.user
    }

    pub(crate) fn current_user(&self) -> String {
        self.settings.current_user(&self.info.user)
    }

    /// RESET: what the session began with.
    pub(crate) fn reset(&mut self, name: &str) -> Result<()> {
        self.identity.check_change(&self.state(), &self.settings, name)?;
        self.settings.reset(name, &self.startup)?;
        if self.block.is_none() {
            self.take_default_modes();
        }
        Ok(())
    }

    /// SET: the value until the session's end, or with `local` the block's.
    pub(crate) fn assign(&mut self, name: &str, value: &str, local: bool) -> Result<bool> {
        self.identity
            .check_setting(&self.state(), &self.settings, name, value)?;
        let before = self.settings.get(name);
        let known = self.settings.set(name, value)?;
        match &mut self.block {
            Some(block) if local => block.locals.push((name.to_string(), before)),
            None if local => {
                match before {
                    Some(before) => self.settings.put(crate::pg::settings::canonical(name), before),
                    None => self.settings.reset(name, &Default::default())?,
                }
                self.warn(
                    state::NO_ACTIVE_SQL_TRANSACTION,
                    "SET LOCAL can only be used in transaction blocks",
                );
            }
            None => self.take_default_modes(),
            Some(_) => {}
        }
        Ok(known)
    }
}

/// Commits. Those who commit at the same time share a sync, for which no thread waits.
pub(super) async fn commit(transaction: Transaction) -> Result<()> {
    Ok(transaction.finish().await?)
}
