//! Sequences. Their counters stand outside of transactions: a value taken stays taken when its statement is rolled back.

use crate::error::{ErrorKind, Result, StorageError};
use crate::store::{Position, Store};
use crate::types::SqlType;
use arrow::datatypes::{Schema, SchemaRef};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Values that PostgreSQL writes to its log ahead of their use: `log_cnt` counts those that are left.
const LOGGED_AHEAD: i64 = 32;

/// What CREATE SEQUENCE asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDef {
    /// `int2`, `int4` or `int8`.
    pub sql_type: SqlType,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cache: i64,
    pub cycle: bool,
}

impl SequenceDef {
    /// The least and the greatest value of a sequence's type.
    pub fn type_range(sql_type: SqlType) -> (i64, i64) {
        match sql_type {
            SqlType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            SqlType::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        }
    }
}

/// The column that a sequence belongs to: it goes with the column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceOwner {
    pub table_oid: u32,
    pub column: String,
    /// An identity column's, made and dropped with that property.
    pub identity: bool,
}

/// Where a sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    pub last_value: i64,
    pub log_count: i64,
    /// False: `last_value` is the next to be given.
    pub is_called: bool,
    /// A store knows values up to this one as given; None: it knows of those that the sequence was written with.
    pub(crate) covered: Option<i64>,
    /// Which of the sequence's counters it is: 0 until the process restarts the sequence.
    pub(crate) generation: u64,
}

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
    generations: AtomicU64,
    store: OnceLock<Weak<Store>>,
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
    fn note(&self, id: CounterId, value: i64, is_called: bool) {
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

#[derive(Clone, Debug)]
pub struct Sequence {
    pub oid: u32,
    pub schema_name: String,
    pub name: String,
    pub def: SequenceDef,
    pub owner: Option<SequenceOwner>,
    /// Shared with the versions of the sequence before and after, unless ALTER SEQUENCE restarted it.
    pub(super) counter: Arc<Mutex<Counter>>,
    /// Where the database has a store.
    pub(super) log: Option<Arc<SequenceLog>>,
    /// The columns that `SELECT * FROM sequence` shows.
    pub schema: SchemaRef,
}

impl Sequence {
    pub(crate) fn new(oid: u32, schema: &str, name: &str, def: SequenceDef, owner: Option<SequenceOwner>) -> Self {
        let fields = [
            SqlType::Int8.field("last_value", false),
            SqlType::Int8.field("log_cnt", false),
            SqlType::Bool.field("is_called", false),
        ];
        Self {
            oid,
            schema_name: schema.into(),
            name: name.into(),
            counter: Arc::new(Mutex::new(Counter {
                last_value: def.start,
                log_count: 0,
                is_called: false,
                covered: None,
                generation: 0,
            })),
            log: None,
            def,
            owner,
            schema: Arc::new(Schema::new(fields.to_vec())),
        }
    }

    pub(crate) fn with_log(self, log: Option<Arc<SequenceLog>>) -> Self {
        Self { log, ..self }
    }

    /// Makes the values durable that were taken: to be called before anybody is told of them.
    pub fn settle(&self) -> Result<()> {
        let store = self.log.as_ref().and_then(|log| log.store.get()?.upgrade());
        store.map_or(Ok(()), |store| store.settle())
    }

    /// Where the sequence stands, for who writes that: what a store knew before of values to come, and of a definition that may
    /// have been another, counts no more.
    pub(crate) fn written(&self) -> Counter {
        let mut counter = self.counter.lock();
        counter.covered = None;
        *counter
    }

    /// Goes on where an earlier process left it.
    pub(crate) fn resumed(self, (last_value, is_called): (i64, bool)) -> Self {
        let counter = Counter {
            last_value,
            log_count: 0,
            is_called,
            covered: None,
            generation: 0,
        };
        Self {
            counter: Arc::new(Mutex::new(counter)),
            ..self
        }
    }

    /// The same with a counter of its own, at a value that is the next to be given.
    pub(super) fn restarted(&self, at: i64) -> Self {
        let generation = |log: &Arc<SequenceLog>| log.generations.fetch_add(1, Ordering::Relaxed) + 1;
        let counter = Counter {
            last_value: at,
            log_count: 0,
            is_called: false,
            covered: None,
            generation: self.log.as_ref().map_or(0, generation),
        };
        Self {
            counter: Arc::new(Mutex::new(counter)),
            ..self.clone()
        }
    }

    /// By another definition other values are logged ahead.
    pub(super) fn redefined(self) -> Self {
        self.counter.lock().log_count = 0;
        self
    }

    pub fn counter(&self) -> Counter {
        *self.counter.lock()
    }

    /// The next value, which nobody else gets.
    pub fn next(&self) -> Result<i64> {
        let mut counter = self.counter.lock();
        let value = if counter.is_called {
            self.after(counter.last_value)?
        } else {
            counter.last_value
        };
        counter.log_count = match (counter.is_called, counter.log_count) {
            (true, left @ 1..) => left - 1,
            _ => self.left_after(value).min(LOGGED_AHEAD),
        };
        if let Some(log) = &self.log {
            let before = counter.last_value;
            let ahead = |covered: i64| match self.def.increment > 0 {
                true => (before..=covered).contains(&value),
                false => (covered..=before).contains(&value),
            };
            if !counter.covered.is_some_and(ahead) {
                let covered = value.saturating_add(LOGGED_AHEAD.saturating_mul(self.def.increment));
                let covered = covered.clamp(self.def.min.min(value), self.def.max.max(value));
                counter.covered = Some(covered);
                log.note((self.oid, counter.generation), covered, true);
            }
        }
        counter.is_called = true;
        counter.last_value = value;
        Ok(value)
    }

    fn after(&self, value: i64) -> Result<i64> {
        let SequenceDef {
            increment, min, max, ..
        } = self.def;
        match value.checked_add(increment) {
            Some(next) if (min..=max).contains(&next) => Ok(next),
            _ if self.def.cycle => Ok(if increment > 0 { min } else { max }),
            _ => {
                let (which, limit) = if increment > 0 {
                    ("maximum", max)
                } else {
                    ("minimum", min)
                };
                let message = format!("nextval: reached {which} value of sequence \"{}\" ({limit})", self.name);
                Err(StorageError::new(ErrorKind::SequenceLimit, message))
            }
        }
    }

    /// How many values there are before the limit.
    fn left_after(&self, value: i64) -> i64 {
        let SequenceDef {
            increment, min, max, ..
        } = self.def;
        if self.def.cycle {
            return LOGGED_AHEAD;
        }
        let limit = if increment > 0 { max } else { min };
        let left = (i128::from(limit) - i128::from(value)) / i128::from(increment);
        i64::try_from(left).unwrap_or(i64::MAX)
    }

    /// `setval`.
    pub fn set(&self, value: i64, is_called: bool) -> Result<()> {
        let SequenceDef { min, max, .. } = self.def;
        if !(min..=max).contains(&value) {
            let message = format!(
                "setval: value {value} is out of bounds for sequence \"{}\" ({min}..{max})",
                self.name
            );
            return Err(StorageError::new(ErrorKind::NumericOutOfRange, message));
        }
        let mut counter = self.counter.lock();
        *counter = Counter {
            last_value: value,
            log_count: 0,
            is_called,
            covered: None,
            generation: counter.generation,
        };
        if let Some(log) = &self.log {
            log.note((self.oid, counter.generation), value, is_called);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(increment: i64, min: i64, max: i64, cycle: bool) -> Sequence {
        let def = SequenceDef {
            sql_type: SqlType::Int8,
            start: if increment > 0 { min } else { max },
            increment,
            min,
            max,
            cache: 1,
            cycle,
        };
        Sequence::new(1, "public", "s", def, None)
    }

    #[test]
    fn ends_at_its_limit() {
        let up = sequence(2, 1, 4, false);
        assert_eq!((up.next().unwrap(), up.next().unwrap()), (1, 3));
        assert_eq!(up.next().unwrap_err().sqlstate(), "2200H");
        let down = sequence(-1, i64::MIN, i64::MIN, false);
        assert_eq!(down.next().unwrap(), i64::MIN);
        assert_eq!(down.next().unwrap_err().sqlstate(), "2200H");
    }

    #[test]
    fn goes_round() {
        let around = sequence(1, 1, 2, true);
        let values: Vec<i64> = (0..5).map(|_| around.next().unwrap()).collect();
        assert_eq!(values, [1, 2, 1, 2, 1]);
    }
}
