//! Sequences. Their counters stand outside of transactions: a value taken stays taken when its statement is rolled back.

mod log;
mod standing;

pub(crate) use log::{CounterId, SequenceLog, SequencesWritten};
pub use standing::Counter;
pub(super) use standing::Succession;

use crate::error::{ErrorKind, Result, StorageError};
use crate::types::SqlType;
use arrow::datatypes::{Schema, SchemaRef};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use standing::{Heir, OPEN, Standing};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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

#[derive(Clone, Debug)]
pub struct Sequence {
    pub oid: u32,
    pub schema_name: String,
    pub name: String,
    pub def: SequenceDef,
    pub owner: Option<SequenceOwner>,
    /// Shared with the versions of the sequence before and after, unless ALTER SEQUENCE changed what it counts.
    pub(super) counter: Arc<Mutex<Standing>>,
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
            counter: Standing::shared(Counter {
                last_value: def.start,
                log_count: 0,
                is_called: false,
                covered: None,
                generation: 0,
            }),
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
        let mut standing = self.counter.lock();
        standing.counter.covered = None;
        standing.counter
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
            counter: Standing::shared(counter),
            ..self
        }
    }

    /// The same with a counter of its own, which goes on from where the sequence stands or, with `restart`, has that value as the
    /// next to be given. It takes the place of the one there for good where the transaction, which holds what is given beside
    /// it, commits.
    pub(super) fn succeeded(self, restart: Option<i64>) -> (Self, Succession) {
        let generation = |log: &Arc<SequenceLog>| log.generations.fetch_add(1, Ordering::Relaxed) + 1;
        let mut before = self.counter.lock();
        let counter = Counter {
            last_value: restart.unwrap_or(before.counter.last_value),
            // By another definition other values are logged ahead.
            log_count: 0,
            is_called: restart.is_none() && before.counter.is_called,
            covered: None,
            generation: self.log.as_ref().map_or(0, generation),
        };
        let standing = Standing::shared(counter);
        let end = Arc::new(AtomicU8::new(OPEN));
        before.heir = Some(Heir {
            standing: standing.clone(),
            end: end.clone(),
            apart: restart.is_some(),
        });
        drop(before);
        let next = Self {
            counter: standing,
            ..self
        };
        (next, Succession(end))
    }

    /// Whether both count by the same counter: values taken from one of them ahead are no other's.
    pub fn counts_with(&self, other: &Sequence) -> bool {
        Arc::ptr_eq(&self.counter, &other.counter)
    }

    pub fn counter(&self) -> Counter {
        let mut current = self.counter.clone();
        loop {
            let mut standing = current.lock();
            let Some((heir, true)) = standing.heir() else {
                return standing.counter;
            };
            drop(standing);
            current = heir;
        }
    }

    /// Changes the counter by which the sequence goes on. One that a transaction which has not committed has put in its place
    /// changes with it: neither it nor others give values then that the other has given.
    fn change<T>(
        &self,
        standing: &Mutex<Standing>,
        change: &mut dyn FnMut(&mut Counter) -> Result<T>,
    ) -> Result<(T, Counter)> {
        let mut own = standing.lock();
        let Some((heir, is_kept)) = own.heir() else {
            let done = change(&mut own.counter)?;
            return Ok((done, own.counter));
        };
        let (done, stands) = self.change(&heir, change)?;
        if !is_kept {
            let counter = &mut own.counter;
            (counter.last_value, counter.is_called) = (stands.last_value, stands.is_called);
            (counter.log_count, counter.covered) = (0, None);
            if let Some(log) = &self.log {
                log.note((self.oid, counter.generation), counter.last_value, counter.is_called);
            }
        }
        Ok((done, stands))
    }

    /// The next value, which nobody else gets.
    pub fn next(&self) -> Result<i64> {
        self.take(1).map(|(first, _)| first)
    }

    /// Values that nobody else gets, the first and the last: so many, or those up to the limit where the sequence ends, or goes
    /// round, before.
    pub fn take(&self, count: i64) -> Result<(i64, i64)> {
        let mut taken = |counter: &mut Counter| self.take_of(counter, count);
        self.change(&self.counter, &mut taken).map(|(taken, _)| taken)
    }

    fn take_of(&self, counter: &mut Counter, count: i64) -> Result<(i64, i64)> {
        let first = match counter.is_called {
            true => self.after(counter.last_value)?,
            false => counter.last_value,
        };
        let more = (count - 1).min(self.values_after(first)).max(0);
        let value = first.saturating_add(self.def.increment.saturating_mul(more));
        counter.log_count = match counter.is_called && counter.log_count >= count {
            true => counter.log_count - (more + 1),
            // What comes behind the limit, where the sequence goes round, is not logged before.
            false => self.values_after(value).min(LOGGED_AHEAD),
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
        Ok((first, value))
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
    fn values_after(&self, value: i64) -> i64 {
        let SequenceDef {
            increment, min, max, ..
        } = self.def;
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
        let mut set = |counter: &mut Counter| {
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
        };
        self.change(&self.counter, &mut set).map(drop)
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
    fn goes_on_as_it_was_without_a_commit() {
        let own = sequence(1, 1, 1000, false);
        assert_eq!(own.next().unwrap(), 1);
        let def = SequenceDef {
            increment: 10,
            ..own.def.clone()
        };
        let changed = |own: &Sequence| {
            let next = Sequence {
                def: def.clone(),
                ..own.clone()
            };
            next.succeeded(None)
        };
        let (next, succession) = changed(&own);
        assert_eq!((next.next().unwrap(), next.next().unwrap()), (11, 21));
        next.set(100, true).unwrap();
        drop(succession);
        assert_eq!(own.next().unwrap(), 2);
        // What others take meanwhile is no value of the new one, and it stays taken.
        let (next, succession) = changed(&own);
        assert_eq!(
            (next.next().unwrap(), own.next().unwrap(), next.next().unwrap()),
            (12, 13, 23)
        );
        drop(succession);
        assert_eq!(own.next().unwrap(), 14);
        let (next, succession) = changed(&own);
        succession.keep();
        drop(succession);
        assert_eq!(
            (next.next().unwrap(), own.next().unwrap(), next.next().unwrap()),
            (24, 25, 35)
        );
        assert_eq!(own.counter().last_value, 35);
        let (next, succession) = next.succeeded(Some(5));
        assert_eq!((own.next().unwrap(), next.next().unwrap()), (36, 5));
        drop(succession);
        assert_eq!(own.next().unwrap(), 37);
    }

    #[test]
    fn takes_several_up_to_its_limit() {
        let around = sequence(2, 1, 8, true);
        assert_eq!(around.take(3).unwrap(), (1, 5));
        assert_eq!(around.take(3).unwrap(), (7, 7));
        assert_eq!(around.take(3).unwrap(), (1, 5));
        let down = sequence(-2, 1, 8, false);
        assert_eq!(down.take(3).unwrap(), (8, 4));
        assert_eq!(down.take(3).unwrap(), (2, 2));
        assert!(down.take(3).is_err());
    }

    #[test]
    fn goes_round() {
        let around = sequence(1, 1, 2, true);
        let values: Vec<i64> = (0..5).map(|_| around.next().unwrap()).collect();
        assert_eq!(values, [1, 2, 1, 2, 1]);
    }
}
