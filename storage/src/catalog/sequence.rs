//! Sequences. Their counters stand outside of transactions: a value taken stays taken when its statement is rolled back.

use crate::error::{ErrorKind, Result, StorageError};
use crate::store::Store;
use crate::types::SqlType;
use arrow::datatypes::{Schema, SchemaRef};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
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
}

/// What a store has to write of sequences: for each that gave values which it does not know, the value from which the sequence
/// goes on, and whether that one is taken.
#[derive(Debug, Default)]
pub(crate) struct SequenceLog {
    pending: Mutex<BTreeMap<u32, (i64, bool)>>,
    is_pending: AtomicBool,
    store: OnceLock<Weak<Store>>,
}

impl SequenceLog {
    fn note(&self, oid: u32, value: i64, is_called: bool) {
        self.pending.lock().insert(oid, (value, is_called));
        self.is_pending.store(true, Ordering::Release);
    }

    /// Takes what is to be written.
    pub(crate) fn take(&self) -> BTreeMap<u32, (i64, bool)> {
        if !self.is_pending() {
            return BTreeMap::new();
        }
        let mut pending = self.pending.lock();
        self.is_pending.store(false, Ordering::Release);
        std::mem::take(&mut pending)
    }

    pub(crate) fn belongs_to(&self, store: &Arc<Store>) {
        let _ = self.store.set(Arc::downgrade(store));
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
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
        let Some(log) = self.log.as_ref().filter(|log| log.is_pending()) else {
            return Ok(());
        };
        match log.store.get().and_then(Weak::upgrade) {
            Some(store) => store.settle(),
            None => Ok(()),
        }
    }

    /// From where the sequence goes on if the process dies now and no more is written, and whether that value is taken.
    pub(crate) fn known(&self) -> (i64, bool) {
        let counter = self.counter.lock();
        match counter.covered {
            Some(value) => (value, true),
            None => (counter.last_value, counter.is_called),
        }
    }

    /// Goes on where an earlier process left it.
    pub(crate) fn resumed(self, (last_value, is_called): (i64, bool)) -> Self {
        let counter = Counter {
            last_value,
            log_count: 0,
            is_called,
            covered: None,
        };
        Self {
            counter: Arc::new(Mutex::new(counter)),
            ..self
        }
    }

    /// The same with a counter of its own, at a value that is the next to be given.
    pub(super) fn restarted(&self, at: i64) -> Self {
        let counter = Counter {
            last_value: at,
            log_count: 0,
            is_called: false,
            covered: None,
        };
        Self {
            counter: Arc::new(Mutex::new(counter)),
            ..self.clone()
        }
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
                log.note(self.oid, covered, true);
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
        *self.counter.lock() = Counter {
            last_value: value,
            log_count: 0,
            is_called,
            covered: None,
        };
        if let Some(log) = &self.log {
            log.note(self.oid, value, is_called);
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
