//! Strings as numbers: each distinct string of a group key column gets the next id.
//!
//! Short strings (at most 12 bytes, which a view holds inline) are found by their view in a small direct-mapped cache;
//! the rest go through a hash table of the bytes. The strings lie in the blocks of an array under construction, so that
//! the key column at the end refers to them instead of copying them.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder, UInt32Array};
use arrow::compute::take;
use datafusion::common::Result;
use hashbrown::HashTable;

const CACHE: usize = 1024;
const INLINE_BYTES: u32 = 12;

pub struct TextPool {
    values: StringViewBuilder,
    table: HashTable<Entry>,
    hasher: foldhash::fast::FixedState,
    /// View and id plus one.
    cache: Vec<(u128, u32)>,
}

/// A string with its hash, for which the bytes of all strings would be read whenever the table doubles.
struct Entry {
    hash: u32,
    id: u32,
}

/// The hash by which the table places what it is told 32 bits of: those at both ends count there.
fn placed(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Default for TextPool {
    fn default() -> Self {
        Self {
            values: StringViewBuilder::with_capacity(0),
            table: HashTable::new(),
            hasher: foldhash::fast::FixedState::with_seed(11),
            cache: vec![(0, 0); CACHE],
        }
    }
}

impl TextPool {
    /// Appends the ids of the rows of `array`; those of null rows are 0.
    pub fn ids(&mut self, array: &StringViewArray, out: &mut Vec<i64>) {
        let nulls = array.nulls().filter(|n| n.null_count() > 0);
        for (row, &view) in array.views().iter().enumerate() {
            if nulls.is_some_and(|n| n.is_null(row)) {
                out.push(0);
                continue;
            }
            if view as u32 <= INLINE_BYTES {
                let folded = (view as u64 ^ (view >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let slot = (folded >> 54) as usize % CACHE;
                let (known, id) = self.cache[slot];
                if known == view && id != 0 {
                    out.push(i64::from(id - 1));
                    continue;
                }
                let id = self.id(array.value(row));
                self.cache[slot] = (view, id + 1);
                out.push(i64::from(id));
            } else {
                out.push(i64::from(self.id(array.value(row))));
            }
        }
    }

    fn id(&mut self, text: &str) -> u32 {
        let hash = (self.hasher.hash_one(text.as_bytes()) >> 32) as u32;
        let values = &self.values;
        let is_text = |known: &Entry| known.hash == hash && values.get_value(known.id as usize) == text.as_bytes();
        if let Some(known) = self.table.find(placed(hash), is_text) {
            return known.id;
        }
        let id = self.table.len() as u32;
        let entry = Entry { hash, id };
        self.table
            .insert_unique(placed(hash), entry, |known| placed(known.hash));
        self.values.append_value(text);
        id
    }

    /// The strings of `ids`, null where an id is.
    pub fn strings(&self, ids: impl Iterator<Item = Option<i64>>) -> Result<ArrayRef> {
        let values: ArrayRef = Arc::new(self.values.finish_cloned());
        let ids: UInt32Array = ids.map(|id| id.map(|id| id as u32)).collect();
        Ok(take(&values, &ids, None)?)
    }

    pub fn bytes(&self) -> usize {
        self.values.allocated_size() + self.table.allocation_size() + size_of_val(&self.cache[..])
    }

    /// Bytes that are allocated at once where `rows` more strings make the table and the views double.
    pub fn doubling_bytes(&self, rows: usize) -> usize {
        match self.table.len() + rows > self.table.capacity() {
            true => 2 * (self.table.allocation_size() + self.table.len() * size_of::<u128>()),
            false => 0,
        }
    }
}
