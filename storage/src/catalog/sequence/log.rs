//! What is written of sequences.

use crate::store::{Position, Store};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A counter of a sequence: the sequence's oid, and the counter's generation.
pub(crate) type CounterId = (u32, u64);

/// What a store has to write of sequences: for each counter that gave values which it does not know, the value from which the
/// sequence goes on, and whether that one is taken.
///
/// Locks are taken in the order `written`, a sequence's counter, `pending`.
#[derive(Debug, Default)]
pub(crate) struct SequenceLog {
    pending: Mutex<BTreeMap<CounterId, (i64, bool)>>,
    written: Mutex<SequencesWritten>,
    /// How many values were ever pending.
    noted: AtomicU64,
    /// How many of them are durable: who finds its own among them waits for nobody.
    settled: AtomicU64,
    pub(super) generations: AtomicU64,
    pub(super) store: OnceLock<Weak<Store>>,
}

/// What a store's log says of sequences.
#[derive(Debug, Default)]
pub(crate) struct SequencesWritten {
    /// Up to where the log must be durable for that.
    pub position: Option<Position>,
    /// The generation of the committed counter where a transaction restarted the sequence.
    restarted: BTreeMap<u32, u64>,
}

impl SequencesWritten {
    /// Whether a sequence goes on by this counter after a crash: not by one whose RESTART is not committed, nor by the one that a
    /// RESTART replaced.
    pub(crate) fn is_committed(&self, (oid, generation): CounterId) -> bool {
        self.restarted.get(&oid).copied().unwrap_or_default() == generation
    }

    /// A commit was written that has this counter.
    pub(crate) fn commit(&mut self, (oid, generation): CounterId) {
        match generation {
            0 => self.restarted.remove(&oid),
            generation => self.restarted.insert(oid, generation),
        };
    }

    pub(crate) fn forget(&mut self, oid: u32) {
        self.restarted.remove(&oid);
    }
}

impl SequenceLog {
    pub(super) fn note(&self, id: CounterId, value: i64, is_called: bool) {
        let mut pending = self.pending.lock();
        pending.insert(id, (value, is_called));
        self.noted.fetch_add(1, Ordering::Release);
    }

    /// How many values were pending until now where some of them may not be durable.
    pub(crate) fn unsettled(&self) -> Option<u64> {
        let noted = self.noted.load(Ordering::Acquire);
        (self.settled.load(Ordering::Acquire) < noted).then_some(noted)
    }

    /// The first `noted` values that were pending are durable.
    pub(crate) fn settle(&self, noted: u64) {
        self.settled.fetch_max(noted, Ordering::Release);
    }

    /// What is to be written.
    pub(crate) fn pending(&self) -> BTreeMap<CounterId, (i64, bool)> {
        self.pending.lock().clone()
    }

    /// These were written: what was noted of the same counters meanwhile is still to be.
    pub(crate) fn remove(&self, values: &BTreeMap<CounterId, (i64, bool)>) {
        self.pending.lock().retain(|id, value| values.get(id) != Some(value));
    }

    /// Held from where one reads how far sequences are to where that is written: of two records of a sequence the later one
    /// has the later value.
    pub(crate) fn writing(&self) -> MutexGuard<'_, SequencesWritten> {
        self.written.lock()
    }

    pub(crate) fn belongs_to(&self, store: &Arc<Store>) {
        let _ = self.store.set(Arc::downgrade(store));
    }
}
