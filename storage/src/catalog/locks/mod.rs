//! Locks: held until the transaction ends, so that who wants to change the same row waits, and then sees what became of it. So
//! it is with whole tables (`tables`), and with keys of unique indexes that are to be added (`keys`).
//!
//! A row is named by its segment and its number there (`moves`), and its lock goes where the row goes. A transaction takes the
//! rows of one statement all together or none, and waits for one holder at a time; a cycle of waits is a deadlock, which ends
//! the statement that closes it. Many rows of one segment are locked as the whole segment. Locks that are shared hold off those
//! that are not.

mod keys;
mod tables;

pub use keys::OfAnother;
pub use tables::{LockedTable, TableLock};

use super::moves::{Move, RowsOf};
use crate::error::{ErrorKind, Result, StorageError};
use keys::Added;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use tables::OfTable;

/// More rows of a segment are locked as all of it.
const ROWS_MAX: usize = 1 << 10;

/// All locks of a database.
#[derive(Debug, Default)]
pub(crate) struct Locks(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    segments: HashMap<u64, OfSegment>,
    tables: HashMap<u32, OfTable>,
    /// Rows with new keys, by their table.
    added: HashMap<u32, Vec<Added>>,
    /// For whom a transaction waits.
    waits: HashMap<u64, u64>,
}

/// Who holds what of a segment.
#[derive(Debug, Default)]
struct OfSegment {
    all: Option<Lock>,
    rows: HashMap<u32, Lock>,
}

/// Whether others may hold the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    Shared,
    Exclusive,
    /// Exclusive, by who is going to change the row.
    Change,
}

/// Several owners where it is shared.
#[derive(Debug)]
struct Lock {
    mode: LockMode,
    owners: Vec<Arc<Owner>>,
}

impl Lock {
    fn add(slot: &mut Option<Lock>, own: &Arc<Owner>, mode: LockMode) {
        let lock = slot.get_or_insert_with(|| Lock {
            mode,
            owners: Vec::new(),
        });
        if !lock.owners.iter().any(|owner| Arc::ptr_eq(owner, own)) {
            lock.owners.push(own.clone());
        }
        lock.mode = lock.mode.max(mode);
    }

    /// Somebody else who must end before this may be taken.
    fn blocker(&self, own: &Arc<Owner>, mode: LockMode) -> Option<&Arc<Owner>> {
        if (self.mode, mode) == (LockMode::Shared, LockMode::Shared) {
            return None;
        }
        self.owners.iter().find(|owner| !Arc::ptr_eq(owner, own))
    }

    /// False: nobody holds it any more.
    fn without(&mut self, own: &Arc<Owner>) -> bool {
        self.owners.retain(|owner| !Arc::ptr_eq(owner, own));
        !self.owners.is_empty()
    }
}

/// A transaction that holds locks. They go when its last clone goes.
#[derive(Debug)]
pub(crate) struct Holder {
    owner: Arc<Owner>,
    locks: Arc<Locks>,
}

#[derive(Debug)]
struct Owner {
    id: u64,
    /// Of the session.
    process: i32,
    /// The segments in which it holds some.
    segments: Mutex<HashSet<u64>>,
    /// The tables that it has locked, waits for, or has added new keys to.
    tables: Mutex<HashSet<u32>>,
    /// Who waits for its end; None: it has ended.
    waiting: Mutex<Option<Vec<Waker>>>,
}

/// Ends with the transaction that holds what is wanted.
#[derive(Debug)]
pub struct Wait {
    holder: Arc<Owner>,
    /// Who waits, and where that is noted.
    own: u64,
    locks: Arc<Locks>,
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut *self.holder.waiting.lock() {
            None => Poll::Ready(()),
            Some(waiting) => {
                waiting.push(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.locks.0.lock().waits.remove(&self.own);
    }
}

impl Locks {
    /// Locks go where their rows go.
    pub fn follow(&self, moves: &[Move]) {
        let mut held = self.0.lock();
        for one in moves {
            let Some(of) = held.segments.remove(&one.from) else {
                continue;
            };
            let to = held.segments.entry(one.to).or_default();
            let moved = of
                .rows
                .into_iter()
                .filter_map(|(row, lock)| Some((one.row(row)?, lock)));
            for (row, lock) in moved {
                for owner in &lock.owners {
                    owner.segments.lock().insert(one.to);
                }
                to.rows.insert(row, lock);
            }
            if let Some(lock) = of.all {
                // Those of other segments that went there, too, are its now: it waits for none of them.
                for owner in lock.owners {
                    owner.segments.lock().insert(one.to);
                    Lock::add(&mut to.all, &owner, lock.mode);
                }
            }
        }
    }
}

impl Held {
    /// Somebody else who holds one of these rows.
    fn blocker(&self, own: &Arc<Owner>, rows: &RowsOf, mode: LockMode) -> Option<Arc<Owner>> {
        self.found(rows, |lock| lock.blocker(own, mode).cloned())
    }

    /// Somebody else who changes one of these rows.
    fn changer(&self, own: &Arc<Owner>, rows: &RowsOf) -> Option<Arc<Owner>> {
        let changed = |lock: &Lock| (lock.mode == LockMode::Change).then(|| lock.blocker(own, lock.mode).cloned());
        self.found(rows, |lock| changed(lock).flatten())
    }

    /// What is said of the first lock on one of these rows of which anything is.
    fn found(&self, rows: &RowsOf, blocker: impl Fn(&Lock) -> Option<Arc<Owner>>) -> Option<Arc<Owner>> {
        let of = self.segments.get(&rows.segment)?;
        let of_rows = || match rows.rows.len() > ROWS_MAX {
            true => of.rows.values().find_map(&blocker),
            false => rows.rows.iter().filter_map(|row| of.rows.get(row)).find_map(&blocker),
        };
        of.all.as_ref().and_then(&blocker).or_else(of_rows)
    }

    fn take(&mut self, own: &Arc<Owner>, rows: &RowsOf, mode: LockMode) {
        own.segments.lock().insert(rows.segment);
        let of = self.segments.entry(rows.segment).or_default();
        if rows.rows.len() > ROWS_MAX {
            return Lock::add(&mut of.all, own, mode);
        }
        for row in &rows.rows {
            let mut lock = of.rows.remove(row);
            Lock::add(&mut lock, own, mode);
            of.rows.extend(lock.map(|lock| (*row, lock)));
        }
    }
}

static NEXT_OWNER: AtomicU64 = AtomicU64::new(1);

impl Holder {
    pub fn new(locks: &Arc<Locks>, process: i32) -> Arc<Holder> {
        Arc::new(Holder {
            owner: Arc::new(Owner {
                id: NEXT_OWNER.fetch_add(1, Ordering::Relaxed),
                process,
                segments: Mutex::default(),
                tables: Mutex::default(),
                waiting: Mutex::new(Some(Vec::new())),
            }),
            locks: locks.clone(),
        })
    }

    /// Locks rows, all or none. False: somebody else holds one.
    pub fn try_lock(&self, rows: &[RowsOf], mode: LockMode) -> bool {
        let mut held = self.locks.0.lock();
        let free = rows.iter().all(|rows| held.blocker(&self.owner, rows, mode).is_none());
        if free {
            rows.iter().for_each(|rows| held.take(&self.owner, rows, mode));
        }
        free
    }

    /// The same; gives whom to wait for first. An error: that would never end.
    pub fn lock(&self, rows: &[RowsOf], mode: LockMode) -> Result<Option<Wait>> {
        let mut held = self.locks.0.lock();
        let blocker = rows.iter().find_map(|rows| held.blocker(&self.owner, rows, mode));
        if let Some(holder) = blocker {
            return self.wait_for(&mut held, holder).map(Some);
        }
        rows.iter().for_each(|rows| held.take(&self.owner, rows, mode));
        Ok(None)
    }

    /// Whom to wait for who is changing one of these rows.
    pub fn wait_for_changes(&self, rows: &[RowsOf]) -> Result<Option<Wait>> {
        let mut held = self.locks.0.lock();
        match rows.iter().find_map(|rows| held.changer(&self.owner, rows)) {
            Some(owner) => self.wait_for(&mut held, owner).map(Some),
            None => Ok(None),
        }
    }

    /// Ends with another transaction. An error: that one waits for this one.
    fn wait_for(&self, held: &mut Held, other: Arc<Owner>) -> Result<Wait> {
        let mut next = Some(other.id);
        while let Some(id) = next {
            if id == self.owner.id {
                return Err(StorageError::new(ErrorKind::Deadlock, "deadlock detected"));
            }
            next = held.waits.get(&id).copied();
        }
        held.waits.insert(self.owner.id, other.id);
        Ok(Wait {
            holder: other,
            own: self.owner.id,
            locks: self.locks.clone(),
        })
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let mut held = self.locks.0.lock();
        for segment in self.owner.segments.lock().drain() {
            let Some(of) = held.segments.get_mut(&segment) else {
                continue;
            };
            of.all.take_if(|lock| !lock.without(&self.owner));
            of.rows.retain(|_, lock| lock.without(&self.owner));
            if of.all.is_none() && of.rows.is_empty() {
                held.segments.remove(&segment);
            }
        }
        for table in self.owner.tables.lock().drain() {
            if held.tables.get_mut(&table).is_some_and(|of| of.without(&self.owner)) {
                held.tables.remove(&table);
            }
            if let Some(added) = held.added.get_mut(&table) {
                added.retain(|added| !added.is_of(&self.owner));
                if added.is_empty() {
                    held.added.remove(&table);
                }
            }
        }
        drop(held);
        let waiting = self.owner.waiting.lock().take();
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}
