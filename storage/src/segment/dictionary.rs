//! Strings that repeat as codes into one dictionary per column of a table, which only grows.
//!
//! A column's segment gets codes where these and the values that it adds take less memory than its texts would. Values are
//! kept once: those that somebody has asked for as an array, those added since one by one until somebody asks.

use crate::memory::{MemoryBudget, Reservation};
use crate::statistics::sketch::{hash_bytes, hash_u64};
use arrow::array::*;
use hashbrown::HashTable;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most values of a dictionary.
pub const DICTIONARY_VALUES_MAX: usize = 1 << 20;
/// Where values repeat at least so often in a segment on average, it is coded without a look at bytes; those that the
/// dictionary knows do not count: a last segment of few rows has the codes of those before.
const REPEATS_MIN: usize = 8;
/// Values that repeat less often than this in the first segment of a column are not looked at any further.
const REPEATS_TRIED: usize = 2;
/// After such a part of the rows that are nearly all different, and mostly unknown to the dictionary, no more are looked at:
/// where values repeat as often as they are to, some have by then.
const TRIAL_PART: usize = 4;
/// Bytes of a dictionary for a value, besides its text: a view and its place among the codes, twice as large in part.
const VALUE_BYTES: usize = 40;
/// Longer strings are not put in dictionaries.
const STRING_BYTES_MAX: usize = 1 << 10;
const OFFSET_BYTES: usize = size_of::<u32>();

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

#[derive(Debug)]
struct Inner {
    codes: HashTable<u32>,
    values: Arc<StringViewArray>,
    /// Those that follow `values`.
    added: Vec<Box<str>>,
    reservation: Option<Reservation>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            codes: HashTable::new(),
            values: Arc::new(StringViewArray::new_null(0)),
            added: vec![],
            reservation: None,
        }
    }
}

impl Inner {
    fn len(&self) -> usize {
        self.values.len() + self.added.len()
    }

    fn value(&self, code: u32) -> &str {
        let code = code as usize;
        match code.checked_sub(self.values.len()) {
            None => self.values.value(code),
            Some(at) => &self.added[at],
        }
    }

    fn code(&self, value: &str, hash: u64) -> Option<u32> {
        let equal = |code: &u32| self.value(*code) == value;
        self.codes.find(hash, equal).copied()
    }

    /// The codes that values have, or get when `extend` adds those that are new, which are given with their hashes. None:
    /// there would be too many.
    fn lookup<'a>(&self, values: &[&'a str]) -> Option<(Encoded, Vec<(&'a str, u64)>)> {
        let mut codes = Vec::with_capacity(values.len());
        let mut added = Vec::new();
        for value in values {
            let hash = hash_bytes(value.as_bytes());
            codes.push(self.code(value, hash).unwrap_or_else(|| {
                added.push((*value, hash));
                (self.len() + added.len() - 1) as u32
            }));
        }
        let len = self.len() + added.len();
        (len <= DICTIONARY_VALUES_MAX).then_some((Encoded { codes, len }, added))
    }

    /// Adds values that it does not have. None: memory is short, and nothing is added.
    fn extend(&mut self, added: Vec<(&str, u64)>, budget: &Arc<MemoryBudget>) -> Option<()> {
        if added.is_empty() {
            return Some(());
        }
        let bytes = bytes_of(&added);
        match &mut self.reservation {
            Some(reservation) => reservation.grow(bytes).ok()?,
            None => self.reservation = Some(budget.reserve(bytes).ok()?),
        }
        self.added.reserve(added.len());
        added.into_iter().for_each(|(value, hash)| self.add(value, hash));
        Some(())
    }

    fn add(&mut self, value: &str, hash: u64) {
        let code = self.len() as u32;
        self.added.push(value.into());
        let (values, added) = (&self.values, &self.added);
        let hash_of = |code: &u32| {
            let code = *code as usize;
            hash_bytes(match code.checked_sub(values.len()) {
                None => values.value(code).as_bytes(),
                Some(at) => added[at].as_bytes(),
            })
        };
        self.codes.insert_unique(hash, code, hash_of);
    }
}

/// What a segment's strings are in a dictionary.
pub struct Encoded {
    /// The dictionary's code of each of the segment's values.
    pub codes: Vec<u32>,
    /// So many values has the dictionary at least.
    pub len: usize,
}

impl Dictionary {
    pub fn id(&self) -> u64 {
        self.id
    }

    /// All values that there are, in the order of their codes, in one buffer.
    pub fn values(&self) -> Arc<StringViewArray> {
        {
            let inner = self.inner.read();
            if inner.added.is_empty() {
                return Arc::clone(&inner.values);
            }
        }
        let mut inner = self.inner.write();
        let added = std::mem::take(&mut inner.added);
        if !added.is_empty() {
            let old = inner.values.iter().flatten();
            let all = old.chain(added.iter().map(AsRef::as_ref));
            inner.values = Arc::new(StringViewArray::from_iter_values(all).gc());
        }
        Arc::clone(&inner.values)
    }

    /// Most different values of a segment of so many rows that may get codes.
    fn values_max(&self, rows: usize) -> usize {
        let repeated = match self.inner.read().len() {
            0 => rows / REPEATS_TRIED,
            _ => rows,
        };
        repeated.min(DICTIONARY_VALUES_MAX)
    }

    /// Whether most of these values have codes.
    fn knows_most_of(&self, values: &[&str]) -> bool {
        let inner = self.inner.read();
        inner.len() >= values.len() / 2 && {
            let known = values
                .iter()
                .filter(|value| inner.code(value, hash_bytes(value.as_bytes())).is_some());
            known.count() >= values.len() / 4 * 3
        }
    }

    /// Codes of the values of a segment of so many rows, added where they are new. None: that would take more memory than
    /// the texts, the dictionary would grow too large, or memory is short.
    pub fn encode(&self, coded: &Coded<'_>, rows: usize, budget: &Arc<MemoryBudget>) -> Option<Encoded> {
        let mut inner = self.inner.write();
        let first = inner.len() == 0;
        let (encoded, added) = inner.lookup(&coded.values)?;
        let (len, bytes) = (encoded.len, bytes_of(&added));
        if added.len() > rows / REPEATS_MIN {
            let with_codes = coded.codes.len() * code_bytes(len) + bytes;
            let as_texts = coded.codes.len() * OFFSET_BYTES + coded.text_bytes;
            // The next segments have most of the first one's values.
            let allowed = if first { 2 * as_texts } else { as_texts };
            if with_codes > allowed {
                return None;
            }
        }
        inner.extend(added, budget)?;
        Some(encoded)
    }

    /// Codes of values, of which none is there twice, of a segment that had codes when it was written. None: the dictionary
    /// would grow too large, or memory is short.
    pub(super) fn keep(&self, values: &[&str], budget: &Arc<MemoryBudget>) -> Option<Encoded> {
        // Most segments have what others had before them, and look for it beside each other.
        let (encoded, added) = self.inner.read().lookup(values)?;
        if added.is_empty() {
            return Some(encoded);
        }
        let mut inner = self.inner.write();
        let (encoded, added) = inner.lookup(values)?;
        inner.extend(added, budget)?;
        Some(encoded)
    }
}

/// Bytes of a dictionary for values that it gets.
fn bytes_of(added: &[(&str, u64)]) -> usize {
    added.iter().map(|(value, _)| value.len() + VALUE_BYTES).sum()
}

/// Bytes of a code into so many values.
pub fn code_bytes(values: usize) -> usize {
    match values {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}

/// A column of strings as local codes, numbered by first appearance.
pub struct Coded<'a> {
    /// 0 where NULL.
    pub codes: Vec<u32>,
    pub values: Vec<&'a str>,
    /// Of all rows.
    text_bytes: usize,
}

/// Codes the strings of a segment of `rows` rows for a dictionary; None where there are too many different ones, or too long
/// ones. `arrays` may have fewer rows: one for each that repeats.
pub fn code_strings<'a>(arrays: &[&'a StringViewArray], rows: usize, dictionary: &Dictionary) -> Option<Coded<'a>> {
    let values_max = dictionary.values_max(rows);
    if values_max == 0 {
        return None;
    }
    let trial_rows = rows / TRIAL_PART;
    let mut table: HashTable<(u64, u32)> = HashTable::new();
    let mut coded = Coded {
        codes: Vec::with_capacity(arrays.iter().map(|array| array.len()).sum()),
        values: Vec::new(),
        text_bytes: 0,
    };
    let mut last: Option<(u128, u32)> = None;
    for array in arrays {
        for (row, view) in array.views().iter().enumerate() {
            if array.is_null(row) {
                coded.codes.push(0);
                continue;
            }
            let short = *view as u32 <= MAX_INLINE_VIEW_LEN;
            coded.text_bytes += *view as u32 as usize;
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
                *held == hash && coded.values[*code as usize] == value
            });
            let code = match found {
                Some((_, code)) => *code,
                None => {
                    if coded.values.len() == values_max {
                        return None;
                    }
                    let code = coded.values.len() as u32;
                    coded.values.push(value);
                    table.insert_unique(hash, (hash, code), |(hash, _)| *hash);
                    code
                }
            };
            coded.codes.push(code);
            last = short.then_some((*view, code));
            let tried = coded.codes.len() == trial_rows && coded.values.len() > trial_rows - trial_rows / 16;
            if tried && !dictionary.knows_most_of(&coded.values) {
                return None;
            }
        }
    }
    (!coded.values.is_empty()).then_some(coded)
}
