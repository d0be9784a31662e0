//! Low-cardinality strings as codes into one dictionary per column of a table, which only grows.

use crate::memory::{MemoryBudget, Reservation};
use crate::statistics::sketch::{hash_bytes, hash_u64};
use arrow::array::*;
use hashbrown::HashTable;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most values of a dictionary; codes have 16 bits.
pub const DICTIONARY_VALUES_MAX: usize = 1 << 14;
/// A segment is coded where its values repeat at least so often on average; those that the dictionary knows do not count:
/// a last segment of few rows has the codes of those before.
const REPEATS_MIN: usize = 8;
/// Longer strings are not put in dictionaries.
const STRING_BYTES_MAX: usize = 1 << 10;

/// The dictionary of one string column, shared by all versions of the table. Codes never change their meaning.
#[derive(Debug)]
pub struct Dictionary {
    /// Unique in the process: equal ids, equal meaning of codes.
    id: u64,
    inner: RwLock<Inner>,
}

impl Default for Dictionary {
    fn default() -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            inner: RwLock::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    codes: HashTable<u16>,
    values: Vec<Box<str>>,
    /// `values` as an array, made anew when it has grown.
    snapshot: Option<Arc<StringViewArray>>,
    reservation: Option<Reservation>,
}

impl Dictionary {
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Most different values of a segment of so many rows that get codes.
    fn values_max(&self, rows: usize) -> usize {
        let repeated = match self.inner.read().values.is_empty() {
            true => rows / REPEATS_MIN,
            false => rows,
        };
        repeated.min(DICTIONARY_VALUES_MAX)
    }

    /// Codes of the values of a segment of so many rows, added where they are new, with the dictionary they index. None:
    /// it would grow too large, or memory is short.
    pub fn encode(
        &self,
        values: &[&str],
        rows: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Option<(Vec<u16>, Arc<StringViewArray>)> {
        let mut inner = self.inner.write();
        let Inner {
            codes,
            values: own,
            snapshot,
            reservation,
        } = &mut *inner;
        let room = (own.len() + rows / REPEATS_MIN).min(DICTIONARY_VALUES_MAX);
        let mut result = Vec::with_capacity(values.len());
        let mut added: Vec<&str> = Vec::new();
        for value in values {
            let hash = hash_bytes(value.as_bytes());
            let code = match codes.find(hash, |code| own[usize::from(*code)].as_ref() == *value) {
                Some(code) => usize::from(*code),
                None if own.len() + added.len() < room => {
                    added.push(value);
                    own.len() + added.len() - 1
                }
                None => return None,
            };
            result.push(u16::try_from(code).ok()?);
        }
        if !added.is_empty() {
            // Once in `values`, once in the snapshot, and the table of codes.
            let bytes = added.iter().map(|value| 2 * value.len() + 40).sum();
            match reservation {
                Some(reservation) => reservation.grow(bytes).ok()?,
                None => *reservation = Some(budget.reserve(bytes).ok()?),
            }
            for value in added {
                let code = own.len() as u16;
                own.push(value.into());
                let hash_of = |code: &u16| hash_bytes(own[usize::from(*code)].as_bytes());
                codes.insert_unique(hash_bytes(value.as_bytes()), code, hash_of);
            }
            *snapshot = None;
        }
        let snapshot = snapshot.get_or_insert_with(|| Arc::new(StringViewArray::from_iter_values(own.iter()).gc()));
        Some((result, snapshot.clone()))
    }
}

/// A column of strings as local codes, numbered by first appearance.
pub struct Coded<'a> {
    /// 0 where NULL.
    pub codes: Vec<u16>,
    pub values: Vec<&'a str>,
}

/// Codes the strings of a segment for a dictionary; None where there are too many different ones, or too long ones.
pub fn code_strings<'a>(arrays: &[&'a StringViewArray], rows: usize, dictionary: &Dictionary) -> Option<Coded<'a>> {
    let values_max = dictionary.values_max(rows);
    if values_max == 0 {
        return None;
    }
    let mut table: HashTable<(u64, u16)> = HashTable::new();
    let mut coded = Coded {
        codes: Vec::with_capacity(rows),
        values: Vec::new(),
    };
    let mut last: Option<(u128, u16)> = None;
    for array in arrays {
        for (row, view) in array.views().iter().enumerate() {
            if array.is_null(row) {
                coded.codes.push(0);
                continue;
            }
            let short = *view as u32 <= 12;
            if let Some((before, code)) = last
                && short
                && before == *view
            {
                coded.codes.push(code);
                continue;
            }
            // SAFETY: `row` is within the array.
            let value = unsafe { array.value_unchecked(row) };
            if value.len() > STRING_BYTES_MAX {
                return None;
            }
            let hash = match short {
                true => hash_u64(*view as u64 ^ hash_u64((*view >> 64) as u64)),
                false => hash_bytes(value.as_bytes()),
            };
            let found = table.find(hash, |(held, code)| {
                *held == hash && coded.values[usize::from(*code)] == value
            });
            let code = match found {
                Some((_, code)) => *code,
                None => {
                    if coded.values.len() == values_max {
                        return None;
                    }
                    let code = coded.values.len() as u16;
                    coded.values.push(value);
                    table.insert_unique(hash, (hash, code), |(hash, _)| *hash);
                    code
                }
            };
            coded.codes.push(code);
            last = short.then_some((*view, code));
        }
    }
    (!coded.values.is_empty()).then_some(coded)
}
