//! Strings as numbers: each distinct string, or string of bytes, of a group key column gets the next id.
//!
//! Strings are found by their view in a small direct-mapped cache: short ones (at most 12 bytes) are in their view, and of
//! long ones equal views are equal strings as long as arrays list the same buffers. The rest go through a hash table of the
//! bytes. The strings lie in the blocks of an array under construction, so that the key column at the end refers to them
//! instead of copying them.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, GenericByteViewArray, UInt32Array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::Result;
use hashbrown::HashTable;

use crate::gather::pick;

const CACHE: usize = 1024;
const INLINE_BYTES: u32 = 12;

pub struct TextPool {
    data_type: DataType,
    values: BinaryViewBuilder,
    table: HashTable<Entry>,
    hasher: foldhash::fast::FixedState,
    /// View and id plus one.
    cache: Vec<(u128, u32)>,
    /// What the long views of the cache name; held, so that no other bytes come to lie there.
    buffers: Vec<Buffer>,
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

/// Whether values of a type have ids here.
pub fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::Binary)
}

impl TextPool {
    /// One of strings of a type that [`is_text`].
    pub fn new(data_type: &DataType) -> Self {
        Self {
            data_type: data_type.clone(),
            values: BinaryViewBuilder::with_capacity(0),
            table: HashTable::new(),
            hasher: foldhash::fast::FixedState::with_seed(11),
            cache: vec![(0, 0); CACHE],
            buffers: vec![],
        }
    }

    /// Appends the ids of the rows of `array`; those of null rows are 0. `known`: the rows' hashes, from another pool.
    pub fn ids(&mut self, array: &dyn Array, known: Option<&[u32]>, out: &mut Vec<i64>) {
        match array.as_string_view_opt() {
            Some(array) => self.ids_of(array, known, out),
            None => self.ids_of(&BinaryViewArray::from(array.as_binary::<i32>()), known, out),
        }
    }

    fn ids_of<T: ByteViewType>(&mut self, array: &GenericByteViewArray<T>, known: Option<&[u32]>, out: &mut Vec<i64>) {
        let nulls = array.nulls().filter(|n| n.null_count() > 0);
        self.list(array.data_buffers());
        for (row, &view) in array.views().iter().enumerate() {
            if nulls.is_some_and(|n| n.is_null(row)) {
                out.push(0);
                continue;
            }
            let folded = (view as u64 ^ (view >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let slot = (folded >> 54) as usize % CACHE;
            let (before, id) = self.cache[slot];
            if before == view && id != 0 {
                out.push(i64::from(id - 1));
                continue;
            }
            let text: &[u8] = array.value(row).as_ref();
            let hash = known.map_or_else(|| self.hash(text), |known| known[row]);
            let id = self.id(text, hash);
            self.cache[slot] = (view, id + 1);
            out.push(i64::from(id));
        }
    }

    /// Long views are those of these buffers from now on.
    fn list(&mut self, buffers: &[Buffer]) {
        let pairs = self.buffers.iter().zip(buffers);
        if self.buffers.len() == buffers.len() && pairs.into_iter().all(|(own, other)| own.ptr_eq(other)) {
            return;
        }
        let long = self.cache.iter_mut().filter(|(view, _)| *view as u32 > INLINE_BYTES);
        long.for_each(|entry| *entry = (0, 0));
        self.buffers = buffers.to_vec();
    }

    fn hash(&self, text: &[u8]) -> u32 {
        (self.hasher.hash_one(text) >> 32) as u32
    }

    fn id(&mut self, text: &[u8], hash: u32) -> u32 {
        let values = &self.values;
        let is_text = |known: &Entry| known.hash == hash && values.get_value(known.id as usize) == text;
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

    /// The hash of each string, by its id: the same in every pool.
    pub fn hashes(&self) -> Vec<u32> {
        let mut hashes = vec![0; self.table.len()];
        self.table
            .iter()
            .for_each(|entry| hashes[entry.id as usize] = entry.hash);
        hashes
    }

    /// The strings of `ids`, null where one is not valid. They are no longer here then.
    pub fn strings(&mut self, ids: Vec<u32>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let values = self.values.finish();
        let are_all = nulls.is_none() && ids.len() == values.len();
        let values: ArrayRef = match self.data_type {
            // SAFETY: all of them were strings.
            DataType::Utf8View => Arc::new(unsafe { values.to_string_view_unchecked() }),
            _ => Arc::new(values),
        };
        self.clear();
        let values = match are_all && ids.iter().enumerate().all(|(at, &id)| at == id as usize) {
            true => values,
            false => pick(&values, &UInt32Array::new(ids.into(), nulls))?,
        };
        match *values.data_type() == self.data_type {
            true => Ok(values),
            false => Ok(cast(&values, &self.data_type)?),
        }
    }

    /// Forgets all strings, and keeps the table's memory.
    pub fn clear(&mut self) {
        self.values = BinaryViewBuilder::with_capacity(0);
        self.table.clear();
        self.cache.fill((0, 0));
        self.buffers.clear();
    }

    /// Makes room for so many strings.
    pub fn reserve(&mut self, strings: usize) {
        self.table.reserve(strings, |known| placed(known.hash));
    }

    /// Whether `strings` gives views of what lies here, and no copies.
    pub fn has_views(&self) -> bool {
        self.data_type == DataType::Utf8View
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
