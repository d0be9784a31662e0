//! The hash join on the CPU: one table over all build rows, shared by all threads.
//!
//! ```text
//! dense keys, all different:  row[key - lowest]
//! dense keys:  first[key - lowest]              -> rows[first..next first]
//! others:      part of the hash -> slots of the part (linear probing, at most half taken)
//!                               -> group -> rows[first..first + count]
//! ```
//!
//! Rows of equal keys lie side by side, so that neither many rows of one key nor one key in all rows makes long ways.
//! Parts are built by a thread each, without atomics. Memory: 4 bytes a row and key of the range where keys
//! are dense; else up to 36 bytes a row.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::matcher::{Emit, Matcher, PAIRS_MAX};
use crate::partition::partition_unless;
use crate::scan::exclusive_scan;
use crate::{Stop, filled, piece_items, prefetch};
use tenon_gpu::Result;
use tenon_gpu::number::Reduction;

/// A key that can be hashed: an unsigned number of 4 or 8 bytes.
pub trait HashKey: Copy + Eq + Ord + Default + Send + Sync + 'static {
    /// 64 bits, the upper ones well mixed.
    fn hash(self) -> u64;
    fn to_u64(self) -> u64;
}
macro_rules! hash_key {
    ($($key:ty),*) => {$(
        impl HashKey for $key {
            #[inline(always)]
            fn hash(self) -> u64 {
                let key = self as u64;
                (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                self as u64
            }
        }
    )*};
}
hash_key!(u32, u64);

/// A range of so many keys a row is dense, as on the device.
const DENSE_RATIO: u64 = 4;
/// Parts of a table, by the upper bits of the hash.
const PART_BITS: u32 = 8;
/// Probes whose slots are fetched together, so that their cache misses overlap.
const BATCH: usize = 16;
/// No group in a slot, no row of a key.
const NONE: u32 = u32::MAX;

/// Rows of one key: `rows[first..first + count]`.
#[derive(Clone, Copy)]
struct Group<K> {
    key: K,
    first: u32,
    count: u32,
}

/// What the rows of one part of the hashes make.
struct Part<K> {
    /// Numbers of groups; a power of two of them.
    slots: Vec<u32>,
    groups: Vec<Group<K>>,
}

enum Lookup<K> {
    /// The row of each key, or [`NONE`], from the lowest key on.
    Unique {
        low: u64,
        row: Vec<u32>,
    },
    /// First of each key's rows, from the lowest key on.
    Dense {
        low: u64,
        first: Vec<u32>,
    },
    Parts(Vec<Part<K>>),
}

/// Build rows by key.
pub struct HashTable<K> {
    lookup: Lookup<K>,
    rows: Vec<u32>,
}

/// Slot of a hash within its part.
#[inline(always)]
fn slot_of(hash: u64, slots: usize) -> usize {
    (hash << PART_BITS >> 32) as usize & (slots - 1)
}

#[inline(always)]
fn part_of(hash: u64) -> usize {
    (hash >> (64 - PART_BITS)) as usize
}

impl<K: HashKey> HashTable<K> {
    /// Key `i` is row `rows[i]`'s. Panics if the lengths differ or there are 2^32 - 1 rows or more.
    pub fn new(keys: &[K], rows: &[u32]) -> HashTable<K> {
        HashTable::build(keys, rows, Stop::never())
    }

    /// The same, if the work is wanted to its end.
    pub fn new_unless(stop: Stop<'_>, keys: &[K], rows: &[u32]) -> Result<HashTable<K>> {
        let table = HashTable::build(keys, rows, stop);
        stop.check()?;
        Ok(table)
    }

    /// Once the work is no longer wanted, what comes out is no table.
    fn build(keys: &[K], rows: &[u32], stop: Stop<'_>) -> HashTable<K> {
        assert!(keys.len() == rows.len() && keys.len() < NONE as usize, "keys and rows");
        let (low, high) = keys
            .par_iter()
            .map(|key| (key.to_u64(), key.to_u64()))
            .reduce(|| (u64::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        let range = high.wrapping_sub(low).saturating_add(1);
        if !keys.is_empty() && range / DENSE_RATIO <= keys.len() as u64 {
            return HashTable::dense(keys, rows, low, range as usize, stop);
        }
        let (mut keys_out, mut rows_out) = (filled(K::default(), keys.len()), filled(0, keys.len()));
        let part = |key: K| part_of(key.hash());
        let offsets = partition_unless(stop, keys, rows, &mut keys_out, &mut rows_out, 1 << PART_BITS, part);
        let mut rest = rows_out.as_mut_slice();
        let mut slices = Vec::new();
        for range in offsets.windows(2) {
            let (rows, after) = rest.split_at_mut(range[1] - range[0]);
            let keys = &keys_out[range[0]..range[1]];
            slices.push((Part::room(keys.len()), keys, rows, range[0] as u32));
            rest = after;
        }
        let parts = slices
            .into_par_iter()
            .map(|(room, keys, rows, start)| Part::new(room, if stop.is_set() { &[] } else { keys }, rows, start))
            .collect();
        HashTable {
            lookup: Lookup::Parts(parts),
            rows: rows_out,
        }
    }

    fn dense(keys: &[K], rows: &[u32], low: u64, range: usize, stop: Stop<'_>) -> HashTable<K> {
        const BINS_MAX: usize = 1 << 12;
        let at = |key: K| (key.to_u64() - low) as usize;
        if let Some(row) = unique_rows(keys, rows, range, at, stop) {
            return HashTable {
                lookup: Lookup::Unique { low, row },
                rows: Vec::new(),
            };
        }
        let mut rows_out = filled(0, rows.len());
        // Few keys: counters of their own for each piece, as many rows of one key must not meet at one counter.
        if range <= BINS_MAX {
            let mut keys_out = filled(K::default(), keys.len());
            let first = partition_unless(stop, keys, rows, &mut keys_out, &mut rows_out, range, at);
            return HashTable {
                lookup: Lookup::Dense {
                    low,
                    first: first.into_iter().map(|first| first as u32).collect(),
                },
                rows: rows_out,
            };
        }
        let counts: Vec<AtomicU32> = (0..range + 1).into_par_iter().map(|_| AtomicU32::new(0)).collect();
        let piece = piece_items(keys.len());
        keys.par_chunks(piece).filter(|_| !stop.is_set()).for_each(|keys| {
            for &key in keys {
                counts[at(key)].fetch_add(1, Ordering::Relaxed);
            }
        });
        let counts: Vec<u32> = counts.into_par_iter().map(AtomicU32::into_inner).collect();
        let mut first = filled(0u32, range + 1);
        exclusive_scan(&counts, &mut first, Reduction::Sum);
        let next: Vec<AtomicU32> = first.par_iter().map(|&first| AtomicU32::new(first)).collect();
        let places: Vec<AtomicU32> = (0..rows.len()).into_par_iter().map(|_| AtomicU32::new(0)).collect();
        // What was not counted has no place: it is not placed either, as the flag stays set.
        let pieces = keys.par_chunks(piece).zip(rows.par_chunks(piece));
        pieces.filter(|_| !stop.is_set()).for_each(|(keys, rows)| {
            for (&key, &row) in keys.iter().zip(rows) {
                let place = next[at(key)].fetch_add(1, Ordering::Relaxed);
                places[place as usize].store(row, Ordering::Relaxed);
            }
        });
        rows_out = places.into_par_iter().map(AtomicU32::into_inner).collect();
        HashTable {
            lookup: Lookup::Dense { low, first },
            rows: rows_out,
        }
    }

    /// Where the slot of a key lies, for the cache to fetch it.
    #[inline(always)]
    fn prefetch(&self, key: K) {
        match &self.lookup {
            Lookup::Unique { low, row: first } | Lookup::Dense { low, first } => {
                let at = key.to_u64().wrapping_sub(*low) as usize;
                if at < first.len() {
                    prefetch(&first[at]);
                }
            }
            Lookup::Parts(parts) => {
                let slots = &parts[part_of(key.hash())].slots;
                if !slots.is_empty() {
                    prefetch(&slots[slot_of(key.hash(), slots.len())]);
                }
            }
        }
    }

    /// The rows of a key.
    #[inline(always)]
    pub fn rows_of(&self, key: K) -> &[u32] {
        match &self.lookup {
            Lookup::Unique { low, row } => match row.get(key.to_u64().wrapping_sub(*low) as usize) {
                Some(row) if *row != NONE => std::slice::from_ref(row),
                _ => &[],
            },
            Lookup::Dense { low, first } => {
                let at = key.to_u64().wrapping_sub(*low);
                if at >= first.len() as u64 - 1 {
                    return &[];
                }
                &self.rows[first[at as usize] as usize..first[at as usize + 1] as usize]
            }
            Lookup::Parts(parts) => match parts[part_of(key.hash())].find(key) {
                Some(group) => &self.rows[group.first as usize..(group.first + group.count) as usize],
                None => &[],
            },
        }
    }
}

/// The row of each key of a range, if none comes twice and the work is wanted to its end.
fn unique_rows<K: HashKey>(
    keys: &[K],
    rows: &[u32],
    range: usize,
    at: impl Fn(K) -> usize + Sync,
    stop: Stop<'_>,
) -> Option<Vec<u32>> {
    if keys.len() > range {
        return None;
    }
    let found: Vec<AtomicU32> = (0..range).into_par_iter().map(|_| AtomicU32::new(NONE)).collect();
    let piece = piece_items(keys.len());
    let pieces = keys.par_chunks(piece).zip(rows.par_chunks(piece));
    let is_first = |(&key, &row): (&K, &u32)| {
        let none = found[at(key)].compare_exchange(NONE, row, Ordering::Relaxed, Ordering::Relaxed);
        none.is_ok()
    };
    let is_unique = pieces.all(|(keys, rows)| !stop.is_set() && keys.iter().zip(rows).all(is_first));
    is_unique.then(|| found.into_par_iter().map(AtomicU32::into_inner).collect())
}

impl<K: HashKey> Part<K> {
    /// Room for the slots and groups of so many rows. Taken by whoever builds the table: what a worker takes is on no query's
    /// account.
    fn room(rows: usize) -> Part<K> {
        let slots = if rows == 0 { 0 } else { (rows * 2).next_power_of_two() };
        Part {
            slots: Vec::with_capacity(slots),
            groups: Vec::with_capacity(rows),
        }
    }

    /// Groups these rows in place; the first has place `start` in the table.
    fn new(room: Part<K>, keys: &[K], rows: &mut [u32], start: u32) -> Part<K> {
        if keys.is_empty() {
            return room;
        }
        let Part { mut slots, mut groups } = room;
        slots.resize((keys.len() * 2).next_power_of_two(), NONE);
        // The group of each row, then the place behind the group's rows so far.
        let of_row: Vec<u32> = keys
            .iter()
            .map(|&key| {
                let mut at = slot_of(key.hash(), slots.len());
                loop {
                    match slots[at] {
                        NONE => {
                            slots[at] = groups.len() as u32;
                            groups.push(Group {
                                key,
                                first: 0,
                                count: 1,
                            });
                            return slots[at];
                        }
                        group if groups[group as usize].key == key => {
                            groups[group as usize].count += 1;
                            return group;
                        }
                        _ => at = (at + 1) & (slots.len() - 1),
                    }
                }
            })
            .collect();
        if groups.len() == keys.len() {
            for (i, group) in groups.iter_mut().enumerate() {
                group.first = start + i as u32;
            }
            return Part { slots, groups };
        }
        let mut next = start;
        for group in &mut groups {
            group.first = next;
            next += group.count;
        }
        let mut places: Vec<u32> = groups.iter().map(|group| group.first - start).collect();
        let before = rows.to_vec();
        for (row, group) in before.into_iter().zip(of_row) {
            rows[places[group as usize] as usize] = row;
            places[group as usize] += 1;
        }
        Part { slots, groups }
    }

    #[inline(always)]
    fn find(&self, key: K) -> Option<&Group<K>> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = slot_of(key.hash(), self.slots.len());
        loop {
            match self.slots[at] {
                NONE => return None,
                group if self.groups[group as usize].key == key => return Some(&self.groups[group as usize]),
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }
}

/// Probe rows over a table; positions are their keys in order.
pub struct HashMatcher<'a, K> {
    pub table: &'a HashTable<K>,
    pub keys: &'a [K],
    /// The row of each key; `None`: key `i` is row `i`'s.
    pub rows: Option<&'a [u32]>,
}

impl<K: HashKey> Matcher for HashMatcher<'_, K> {
    fn positions(&self) -> usize {
        self.keys.len()
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let (mut build, mut probe) = (Vec::with_capacity(PAIRS_MAX), Vec::with_capacity(PAIRS_MAX));
        let mut start = positions.start;
        while start < positions.end {
            let batch = start..positions.end.min(start + BATCH);
            start = batch.end;
            batch.clone().for_each(|at| self.table.prefetch(self.keys[at]));
            for at in batch {
                let row = self.rows.map_or(at as u32, |rows| rows[at]);
                let mut partners = self.table.rows_of(self.keys[at]);
                while !partners.is_empty() {
                    let (now, later) = partners.split_at(partners.len().min(PAIRS_MAX - build.len()));
                    build.extend_from_slice(now);
                    probe.resize(build.len(), row);
                    partners = later;
                    if build.len() == PAIRS_MAX {
                        emit(&build, &probe)?;
                        build.clear();
                        probe.clear();
                    }
                }
            }
        }
        if build.is_empty() {
            return ControlFlow::Continue(());
        }
        emit(&build, &probe)
    }
}
