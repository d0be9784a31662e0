//! Strings as numbers: each distinct string of a group key column gets the next id.
//!
//! Short strings (at most 12 bytes, which a view holds inline) are found by their view in a small direct-mapped cache;
//! the rest go through a hash table of the bytes.

use std::hash::BuildHasher;

use arrow::array::{Array, StringViewArray, StringViewBuilder};
use hashbrown::HashTable;

const CACHE: usize = 1024;
const INLINE_BYTES: u32 = 12;

pub struct TextPool {
    values: Vec<Box<str>>,
    table: HashTable<u32>,
    hasher: foldhash::fast::FixedState,
    /// View and id plus one.
    cache: Vec<(u128, u32)>,
    bytes: usize,
}

impl Default for TextPool {
    fn default() -> Self {
        Self {
            values: vec![],
            table: HashTable::new(),
            hasher: foldhash::fast::FixedState::with_seed(11),
            cache: vec![(0, 0); CACHE],
            bytes: 0,
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
        let hash = self.hasher.hash_one(text);
        let (values, hasher) = (&self.values, &self.hasher);
        let found = self.table.find(hash, |&id| &*values[id as usize] == text);
        if let Some(&id) = found {
            return id;
        }
        let id = self.values.len() as u32;
        self.table
            .insert_unique(hash, id, |&id| hasher.hash_one(&*values[id as usize]));
        self.values.push(text.into());
        self.bytes += text.len() + 32;
        id
    }

    /// The strings of `ids`, null where `is_null` says so.
    pub fn strings(&self, ids: impl Iterator<Item = Option<i64>>) -> StringViewArray {
        let mut builder = StringViewBuilder::new();
        for id in ids {
            builder.append_option(id.and_then(|id| self.values.get(id as usize)));
        }
        builder.finish()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
