//! The current state, replaced whole by each commit.

use super::locks::Locks;
use super::moves::{Move, Moves};
use super::sequence::SequenceLog;
use super::state::DatabaseState;
use super::transaction::Transaction;
use crate::error::{Result, StorageError};
use crate::memory::MemoryBudget;
use crate::store::{Backup, Disk, Inline, Position, Recovered, Store, is_kept};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::oneshot;

/// First oid of user objects, as in PostgreSQL.
pub(crate) const OID_FIRST: u32 = 16_384;

/// All data of a server.
#[derive(Debug)]
pub struct Database {
    /// What everybody sees.
    current: RwLock<Visible>,
    /// The newest commit, which may not be durable yet; held by the one committing transaction. Readers of `current` never wait
    /// for a merge.
    tip: Mutex<Tip>,
    /// To where commits moved rows. Noted before others see the state in which they lie there.
    moves: Mutex<Moves>,
    locks: Arc<Locks>,
    next_oid: AtomicU32,
    budget: Arc<MemoryBudget>,
    store: Option<Arc<Store>>,
}

#[derive(Debug, Default)]
struct Visible {
    state: Arc<DatabaseState>,
    /// Of the last commit in it.
    number: u64,
}

#[derive(Debug, Default)]
struct Tip {
    state: Arc<DatabaseState>,
    number: u64,
    /// Up to where the store must be durable for it.
    position: Option<Position>,
}

/// A commit that may not be durable yet. Nobody sees it before it is.
#[must_use = "nobody sees the commit before `wait`"]
pub struct Published {
    database: Arc<Database>,
    state: Arc<DatabaseState>,
    number: u64,
    position: Option<Position>,
}

impl Published {
    /// Returns when the commit is durable and all see it.
    pub fn wait(self) -> Result<()> {
        if let (Some(store), Some(position)) = (&self.database.store, self.position) {
            store.sync(position)?;
        }
        drop(self.show());
        Ok(())
    }

    /// Has the commit made durable and shown to all, whether or not somebody waits for the future, which ends when that is done.
    pub fn finish(self) -> impl Future<Output = Result<()>> + Send + use<> {
        let (tell, told) = oneshot::channel();
        match (self.database.store.clone(), self.position) {
            (Some(store), Some(position)) if !store.is_durable(position) => {
                store.when_durable(position, move |synced| drop(tell.send(synced.map(|()| self.show()))));
            }
            _ => drop(tell.send(Ok(self.show()))),
        }
        async {
            match told.await {
                Ok(shown) => shown.map(drop),
                Err(_) => Err(StorageError::internal("nobody makes commits durable")),
            }
        }
    }

    /// Lets all see the commit, which is durable. Gives what was seen before: the last that holds it may free much.
    fn show(self) -> Visible {
        let mut shown = Visible {
            state: self.state.clone(),
            number: self.number,
        };
        {
            let mut current = self.database.current.write();
            // Each commit's state has those before it.
            if current.number < self.number {
                std::mem::swap(&mut *current, &mut shown);
            }
        }
        self.checkpoint_if_due();
        shown
    }

    fn checkpoint_if_due(&self) {
        let due = self.database.store.as_ref().is_some_and(|store| store.take_due());
        if due {
            let database = self.database.clone();
            let checkpoint = move || {
                if let Err(error) = database.checkpoint() {
                    tracing::error!("checkpoint: {error}");
                }
            };
            let started = std::thread::Builder::new().name("checkpoint".into()).spawn(checkpoint);
            if let Err(error) = started {
                tracing::error!("checkpoint: {error}");
            }
        }
    }
}

impl Database {
    pub fn new(budget: Arc<MemoryBudget>) -> Arc<Database> {
        Arc::new(Database {
            current: RwLock::default(),
            tip: Mutex::default(),
            moves: Mutex::default(),
            locks: Arc::default(),
            next_oid: AtomicU32::new(OID_FIRST),
            budget,
            store: None,
        })
    }

    /// The database in a directory, which is made if it is not there.
    pub fn open(
        directory: &Path,
        disk: Arc<dyn Disk>,
        budget: Arc<MemoryBudget>,
    ) -> Result<(Arc<Database>, Recovered)> {
        let (store, state, next_oid, recovered) = Store::open(directory, disk, &budget)?;
        let (state, store) = (Arc::new(state), Arc::new(store));
        store.sequences.belongs_to(&store);
        let database = Database {
            current: RwLock::new(Visible {
                state: state.clone(),
                number: 0,
            }),
            tip: Mutex::new(Tip {
                state,
                number: 0,
                position: None,
            }),
            moves: Mutex::default(),
            locks: Arc::default(),
            next_oid: AtomicU32::new(next_oid),
            budget,
            store: Some(store),
        };
        Ok((Arc::new(database), recovered))
    }

    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Where the database outlives the process.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// Where the values of a schema's sequences are written; None: nowhere.
    pub(crate) fn sequence_log(&self, schema: &str) -> Option<Arc<SequenceLog>> {
        let store = self.store.as_ref().filter(|_| is_kept(schema));
        store.map(|store| store.sequences.clone())
    }

    /// What is committed now.
    pub fn snapshot(&self) -> Arc<DatabaseState> {
        self.current.read().state.clone()
    }

    pub fn begin(self: &Arc<Self>) -> Transaction {
        Transaction::new(self.clone(), self.snapshot())
    }

    pub(crate) fn new_oid(&self) -> u32 {
        self.next_oid.fetch_add(1, Ordering::Relaxed)
    }

    /// The first of two that follow each other.
    pub(crate) fn new_oids(&self) -> u32 {
        self.next_oid.fetch_add(2, Ordering::Relaxed)
    }

    pub(crate) fn locks(&self) -> &Arc<Locks> {
        &self.locks
    }

    /// The latest moves of rows.
    pub(crate) fn moves(&self) -> MutexGuard<'_, Moves> {
        self.moves.lock()
    }

    /// Replaces the newest state by what `next` makes of it, beside which it gives the rows that it moves; one caller at a time.
    /// `prepared`: rows for the store.
    pub(crate) fn publish(
        self: &Arc<Self>,
        prepared: Inline,
        next: impl FnOnce(&Arc<DatabaseState>) -> Result<(Arc<DatabaseState>, Vec<Move>)>,
    ) -> Result<Published> {
        let mut tip = self.tip.lock();
        let (state, moves) = next(&tip.state)?;
        if let Some(store) = &self.store {
            let next_oid = self.next_oid.load(Ordering::Relaxed);
            // One of which the store keeps nothing is seen with those before it.
            tip.position = store.commit(&tip.state, &state, next_oid, prepared)?.or(tip.position);
        }
        if !moves.is_empty() {
            let mut known = self.moves.lock();
            self.locks.follow(&moves);
            known.add(moves);
        }
        tip.state = state.clone();
        tip.number += 1;
        Ok(Published {
            database: self.clone(),
            state,
            number: tip.number,
            position: tip.position,
        })
    }

    /// Writes a checkpoint: a start after it reads no log before it. Nothing where there is no store.
    pub fn checkpoint(&self) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        self.checkpoint_of(store, &mut store.checkpointing())
    }

    /// `last`: the number of the newest checkpoint, held so that there is one at a time.
    fn checkpoint_of(&self, store: &Store, last: &mut u64) -> Result<()> {
        let (state, number) = {
            let tip = self.tip.lock();
            (tip.state.clone(), store.rotate()?)
        };
        store.checkpoint(last, number, &state, self.next_oid.load(Ordering::Relaxed))
    }

    /// A copy of all that is committed, with a checkpoint made for it. None where there is no store.
    pub fn backup(&self) -> Result<Option<Backup>> {
        let Some(store) = &self.store else { return Ok(None) };
        let mut last = store.checkpointing();
        self.checkpoint_of(store, &mut last)?;
        store.backup(*last).map(Some)
    }
}
