//! The current state, replaced whole by each commit.

use super::locks::{Holder, LockedTable, Locks};
use super::moves::{Move, Moves};
use super::sequence::SequenceLog;
use super::state::DatabaseState;
use super::transaction::{Transaction, settle};
use crate::error::{Result, StorageError};
use crate::memory::MemoryBudget;
use crate::store::{Backup, Disk, Inline, Position, Recovered, Store, Then, is_kept};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::BTreeSet;
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
    /// Transactions that are committed together, with the next sync.
    waiting: Arc<Mutex<Vec<Waiting>>>,
}

/// A small transaction, and who waits for its commit.
#[derive(Debug)]
struct Waiting {
    transaction: Transaction,
    tell: oneshot::Sender<Result<()>>,
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
    /// Whose rows stay locked until all see what became of them: who waits for one would change what is there no more.
    holder: Option<Arc<Holder>>,
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
        let shown = self.database.show(self.state, self.number);
        drop(self.holder);
        shown
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
            waiting: Arc::default(),
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
            waiting: Arc::default(),
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

    /// Begins a transaction that sees what another saw.
    pub fn begin_at(self: &Arc<Self>, state: Arc<DatabaseState>) -> Transaction {
        Transaction::new(self.clone(), state)
    }

    /// The tables that are locked, and those that are waited for.
    pub fn locked_tables(&self) -> Vec<LockedTable> {
        self.locks.of_tables()
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
    /// `prepared`: rows for the store; `holder`: what the transaction has locked.
    pub(crate) fn publish(
        self: &Arc<Self>,
        prepared: Inline,
        holder: Option<Arc<Holder>>,
        next: impl FnOnce(&Arc<DatabaseState>) -> Result<(Arc<DatabaseState>, Vec<Move>)>,
    ) -> Result<Published> {
        let mut tip = self.tip.lock();
        let (state, moves) = next(&tip.state)?;
        self.advance(&mut tip, state.clone(), moves, prepared)?;
        Ok(Published {
            database: self.clone(),
            state,
            number: tip.number,
            position: tip.position,
            holder,
        })
    }

    /// The next state after the newest one, to which rows have moved as it says.
    fn advance(&self, tip: &mut Tip, state: Arc<DatabaseState>, moves: Vec<Move>, prepared: Inline) -> Result<()> {
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
        tip.state = state;
        tip.number += 1;
        Ok(())
    }

    /// Commits a small transaction together with others, whether or not somebody waits for the future: those who come while
    /// the store syncs are merged one after the other before the next sync, settled together and written in one record.
    pub(crate) fn commit_together(
        self: &Arc<Self>,
        store: &Store,
        transaction: Transaction,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let (tell, told) = oneshot::channel();
        self.waiting.lock().push(Waiting { transaction, tell });
        // Who comes after the last that waits must not hold the database: it may have been closed by then.
        let waiting = self.waiting.clone();
        store.when_next(move || {
            let waiting = std::mem::take(&mut *waiting.lock());
            let database = waiting.first()?.transaction.database().clone();
            database.publish_waiting(waiting)
        });
        async {
            told.await
                .unwrap_or_else(|_| Err(StorageError::internal("nobody commits")))
        }
    }

    /// Publishes the transactions that wait, and gives up to where the store must be durable for them, and what is to be done
    /// then. None: there are none left. Who is told may close the database: nothing holds it here any more by then.
    fn publish_waiting(self: Arc<Self>, waiting: Vec<Waiting>) -> Option<(Position, Then)> {
        let mut tip = self.tip.lock();
        let (mut state, mut tables) = (tip.state.clone(), BTreeSet::new());
        let (mut merged, mut refused) = (Vec::new(), Vec::new());
        for Waiting { transaction, tell } in waiting {
            match transaction.onto(&state) {
                Ok(next) => {
                    state = next;
                    tables.extend(transaction.changed());
                    merged.push((tell, transaction));
                }
                Err(error) => refused.push((tell, error)),
            }
        }
        let mut advanced = Ok(());
        if !merged.is_empty() {
            let moves = tables
                .into_iter()
                .filter_map(|oid| settle(&mut state, oid, &self.budget));
            let moves = moves.flatten().collect();
            advanced = self.advance(&mut tip, state.clone(), moves, Inline::default());
            if advanced.is_ok() {
                merged.iter().for_each(|(_, transaction)| transaction.keep_counters());
            }
        }
        let (number, position) = (tip.number, tip.position.filter(|_| !merged.is_empty()));
        drop(tip);
        let then = move |synced: Result<()>| {
            // Nothing to see where none was merged.
            let shown = (synced.is_ok() && !merged.is_empty()).then(|| self.show(state, number));
            // Their rows are free for others.
            let tells: Vec<_> = merged.into_iter().map(|(tell, _)| tell).collect();
            drop(self);
            for tell in tells {
                drop(tell.send(synced.clone()));
            }
            // Which may free much: nobody waits for that but those who commit next.
            drop(shown);
        };
        let due: Option<(Position, Then)> = match (advanced, position) {
            (Ok(()), Some(position)) => Some((position, Box::new(then))),
            (advanced, _) => {
                then(advanced);
                None
            }
        };
        for (tell, error) in refused {
            drop(tell.send(Err(error)));
        }
        due
    }

    /// Lets all see a state that is durable, the one of this commit. Gives what was seen before.
    fn show(self: &Arc<Self>, state: Arc<DatabaseState>, number: u64) -> Visible {
        let mut shown = Visible { state, number };
        {
            let mut current = self.current.write();
            // Each commit's state has those before it.
            if current.number < number {
                std::mem::swap(&mut *current, &mut shown);
            }
        }
        self.checkpoint_if_due();
        shown
    }

    fn checkpoint_if_due(self: &Arc<Self>) {
        if self.store.as_ref().is_some_and(|store| store.take_due()) {
            let database = self.clone();
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
