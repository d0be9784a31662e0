//! The current state, replaced whole by each commit.

use super::state::State;
use super::transaction::Transaction;
use crate::error::Result;
use crate::memory::MemoryBudget;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// First oid of user objects, as in PostgreSQL.
const OID_FIRST: u32 = 16_384;

/// All data of a server.
#[derive(Debug)]
pub struct Database {
    current: RwLock<Arc<State>>,
    /// Held by the one committing transaction; readers of `current` never wait for a merge.
    commit: Mutex<()>,
    next_oid: AtomicU32,
    budget: Arc<MemoryBudget>,
}

impl Database {
    pub fn new(budget: Arc<MemoryBudget>) -> Arc<Database> {
        Arc::new(Database {
            current: RwLock::default(),
            commit: Mutex::new(()),
            next_oid: AtomicU32::new(OID_FIRST),
            budget,
        })
    }

    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// What is committed now.
    pub fn snapshot(&self) -> Arc<State> {
        self.current.read().clone()
    }

    pub fn begin(self: &Arc<Self>) -> Transaction {
        Transaction::new(self.clone(), self.snapshot())
    }

    pub(crate) fn new_oid(&self) -> u32 {
        self.next_oid.fetch_add(1, Ordering::Relaxed)
    }

    /// Replaces the current state by what `next` makes of it; one caller at a time.
    pub(crate) fn publish(&self, next: impl FnOnce(&Arc<State>) -> Result<Arc<State>>) -> Result<()> {
        let _guard = self.commit.lock();
        let state = next(&self.snapshot())?;
        *self.current.write() = state;
        Ok(())
    }
}
