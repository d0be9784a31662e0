//! A run: the keys of some segments, sorted, under a CSS-tree, each with the place of its row.
//!
//! ```text
//! tree        words ascending: the keys, or the first 8 bytes of keys that are bytes
//! bytes       the whole keys in the same order, where they are bytes
//! locations   segment of the run << 17 | row of the segment, in the same order
//! ```
//!
//! Rows with a NULL in the first column are left out: no comparison finds them. A run holds its segments weakly: it
//! outlives them until the next run is built, and its places in them are passed over.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::row::Rows;
use datafusion::common::{DataFusionError, Result};
use rayon::prelude::*;
use tenon_cpu::join::CssTree;
use tenon_storage::{MemoryBudget, Reservation, SEGMENT_ROWS_MAX, Segment};

use super::declared::Declared;
use super::encoding::{EncodedKeys, KeyEncoding, KeyRange};

/// Bits of a row number in a location.
pub const ROW_BITS: u32 = SEGMENT_ROWS_MAX.trailing_zeros();
/// Most segments of a run.
pub const SEGMENTS_MAX: usize = 1 << (u32::BITS - ROW_BITS);
/// Fewer rows are sorted by one thread: waking others takes longer.
const PARALLEL_ROWS_MIN: usize = 1 << 14;
/// What a row costs while a run is built: its entry, and the tree beside it.
const BUILD_BYTES_PER_ROW: usize = 32;

/// A sorted key with the place of its row.
type Entry = (u64, u32);

pub struct SortedRun {
    segments: Vec<(u64, Weak<Segment>)>,
    tree: CssTree<u64>,
    bytes: Option<ByteKeys>,
    locations: Vec<u32>,
    /// Rows of the segments, those left out included.
    rows: usize,
    _memory: Reservation,
}

/// Keys one after the other.
struct ByteKeys {
    data: Vec<u8>,
    ends: Ends,
}

enum Ends {
    /// All keys have this length.
    Every(usize),
    Each(Vec<u64>),
}

impl ByteKeys {
    fn get(&self, place: usize) -> &[u8] {
        match &self.ends {
            Ends::Every(length) => &self.data[place * length..(place + 1) * length],
            Ends::Each(ends) => {
                let start = place.checked_sub(1).map_or(0, |before| ends[before]);
                &self.data[start as usize..ends[place] as usize]
            }
        }
    }

    fn held_bytes(&self) -> usize {
        let ends = match &self.ends {
            Ends::Every(_) => 0,
            Ends::Each(ends) => ends.len() * size_of::<u64>(),
        };
        self.data.len() + ends
    }
}

impl fmt::Debug for SortedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run of {} segments, {} rows", self.segments.len(), self.rows)
    }
}

impl SortedRun {
    /// Sorts the keys of segments, which are at most `SEGMENTS_MAX`. On all cores.
    pub fn build(
        segments: &[Arc<Segment>],
        index: &Declared<'_>,
        encoding: &KeyEncoding,
        budget: &Arc<MemoryBudget>,
    ) -> Result<SortedRun> {
        let rows: usize = segments.iter().map(|segment| segment.rows()).sum();
        let told = |error: tenon_storage::StorageError| DataFusionError::External(Box::new(error));
        let mut memory = budget.reserve_spare(rows * BUILD_BYTES_PER_ROW).map_err(told)?;
        let of_segment = |(number, segment): (usize, &Arc<Segment>)| {
            let (keys, held) = index.keys(segment)?;
            part(&keys, held.as_ref(), number, encoding)
        };
        let few = rows < PARALLEL_ROWS_MIN;
        let parts = match few {
            true => segments.iter().enumerate().map(of_segment).collect::<Result<_>>(),
            false => segments.par_iter().enumerate().map(of_segment).collect(),
        };
        let parts: Vec<(Vec<Entry>, Option<Rows>)> = parts?;
        let key_bytes = parts.iter().flat_map(|(_, rows)| rows).map(Rows::size).sum::<usize>();
        memory.grow_spare(2 * key_bytes).map_err(told)?;
        let (entries, keys): (Vec<Vec<Entry>>, Vec<Option<Rows>>) = parts.into_iter().unzip();
        let mut entries = entries.concat();
        let key = |location: u32| {
            let rows = keys[(location >> ROW_BITS) as usize].as_ref();
            rows.map(|rows| rows.row(row_of(location)))
        };
        let order = |a: &Entry, b: &Entry| {
            let bytes = || key(a.1).cmp(&key(b.1));
            a.0.cmp(&b.0).then_with(bytes).then(a.1.cmp(&b.1))
        };
        match (encoding.is_word(), few) {
            (true, true) => entries.sort_unstable(),
            (true, false) => entries.par_sort_unstable(),
            (false, true) => entries.sort_unstable_by(order),
            (false, false) => entries.par_sort_unstable_by(order),
        }
        let words: Vec<u64> = entries.iter().map(|entry| entry.0).collect();
        let locations: Vec<u32> = entries.iter().map(|entry| entry.1).collect();
        drop(entries);
        let tree = CssTree::build(&words);
        let bytes = (!encoding.is_word()).then(|| {
            let mut data = Vec::with_capacity(key_bytes);
            let mut ends = Vec::with_capacity(locations.len());
            for row in locations.iter().filter_map(|location| key(*location)) {
                data.extend_from_slice(row.data());
                ends.push(data.len() as u64);
            }
            let length = ends.first().copied().unwrap_or(0);
            let even = ends.iter().zip(1..).all(|(end, count)| *end == length * count);
            let ends = if even {
                Ends::Every(length as usize)
            } else {
                Ends::Each(ends)
            };
            data.shrink_to_fit();
            ByteKeys { data, ends }
        });
        let held = tree.bytes() + locations.len() * size_of::<u32>() + bytes.as_ref().map_or(0, ByteKeys::held_bytes);
        memory.grow_spare(held.saturating_sub(memory.bytes())).map_err(told)?;
        memory.shrink(memory.bytes() - held);
        Ok(SortedRun {
            segments: segments
                .iter()
                .map(|segment| (segment.id(), Arc::downgrade(segment)))
                .collect(),
            tree,
            bytes,
            locations,
            rows,
            _memory: memory,
        })
    }

    /// Segments by their numbers in locations.
    pub fn segments(&self) -> &[(u64, Weak<Segment>)] {
        &self.segments
    }

    /// The segments that some version of the table still has.
    pub fn living(&self) -> impl Iterator<Item = Arc<Segment>> {
        self.segments.iter().filter_map(|(_, segment)| segment.upgrade())
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn locations(&self) -> &[u32] {
        &self.locations
    }

    /// The places of the keys in a range.
    pub fn places(&self, range: &KeyRange) -> Range<usize> {
        match range {
            KeyRange::Words { low, high } => self.tree.range(*low..=*high),
            KeyRange::Bytes { low, high } => {
                let start = self.lower_bound(low);
                let end = high.as_ref().map_or(self.tree.len(), |high| self.lower_bound(high));
                start..end.max(start)
            }
        }
    }

    /// The first place of each word, for keys that are words.
    pub fn lower_bounds(&self, words: &[u64], places: &mut [u64]) {
        self.tree.lower_bounds_here(words, places);
    }

    /// The key of a place, in a form that compares as keys do.
    pub fn key(&self, place: usize) -> (u64, &[u8]) {
        let bytes = self.bytes.as_ref().map_or(&[][..], |bytes| bytes.get(place));
        (self.tree.keys()[place], bytes)
    }

    /// The words ascending.
    pub fn words(&self) -> &[u64] {
        self.tree.keys()
    }

    /// The first place whose key is not below `key`.
    fn lower_bound(&self, key: &[u8]) -> usize {
        let same = self.tree.equal_range(prefix(key));
        let Some(bytes) = &self.bytes else { return same.start };
        let (mut low, mut high) = (same.start, same.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if bytes.get(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The row number of a location.
pub fn row_of(location: u32) -> usize {
    (location & ((1 << ROW_BITS) - 1)) as usize
}

/// A segment's keys as entries, those of rows that are not `held` and those with a NULL in the first column left out.
fn part(
    columns: &[ArrayRef],
    held: Option<&BooleanBuffer>,
    number: usize,
    encoding: &KeyEncoding,
) -> Result<(Vec<Entry>, Option<Rows>)> {
    let base = (number as u32) << ROW_BITS;
    let nulls = columns[0].logical_nulls();
    let valid = |row: &usize| {
        nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row)) && held.is_none_or(|held| held.value(*row))
    };
    let rows = (0..columns[0].len()).filter(valid);
    Ok(match encoding.encode(columns)? {
        EncodedKeys::Words(words) => (rows.map(|row| (words[row], base | row as u32)).collect(), None),
        EncodedKeys::Rows(keys) => {
            let entries = rows
                .map(|row| (prefix(keys.row(row).data()), base | row as u32))
                .collect();
            (entries, Some(keys))
        }
    })
}

/// The first 8 bytes as a number of the same order.
fn prefix(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = key.len().min(8);
    first[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(first)
}
