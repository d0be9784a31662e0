//! The hash table of a join's build side: from an integer key to the rows that carry it.
//!
//! Layout: where the keys are dense, an array indexed by `key - min` (a perfect hash); else open addressing with
//! linear probing over 16-byte slots. Both hold the first row of a key plus one (0: none); further rows of the same key
//! hang on it through `next`, in row order. `next` exists only if some key repeats.
//! A large table consists of regions, each of which one core fills with the rows that belong there, within its cache;
//! a key's probing stays within its region.
//! Limits: 2^32 - 2 rows; the direct form is taken while its array stays within a few times the rows.

mod regions;

use arrow::buffer::NullBuffer;
use datafusion::common::Result;
use tenon_cpu::{Stop, filled, prefetch};

use crate::offload::{PIECE_ROWS, check};

/// First row plus one of a key; 0 where the key is absent.
pub type Head = u32;

pub struct KeyTable {
    form: Form,
    next: Option<Vec<Head>>,
}

enum Form {
    Direct { min: i64, heads: Vec<Head> },
    Hashed(Slots),
}

/// Slots by hash.
struct Slots {
    shift: u32,
    /// Slots of a region less one: where probing begins anew.
    mask: usize,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    key: i64,
    head: Head,
}

/// Entries of the direct form allowed whatever the number of rows.
const DIRECT_ALWAYS: u64 = 1 << 16;
/// Entries of the direct form allowed for each row.
const DIRECT_PER_ROW: u64 = 32;
/// Fibonacci hashing: 2^64 / golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Rows from which on all cores build the table.
pub const SHARED_ROWS_MIN: usize = 1 << 16;
/// Slots up to which a look-up need not be told to the caches beforehand: they lie there.
const CACHED_SLOTS: usize = 1 << 14;
/// Keys whose slots are fetched together, so that their cache misses overlap.
const FETCHED_TOGETHER: usize = 32;

/// Bytes that `build` will allocate at most, for the reservation made before it.
pub fn estimated_bytes(rows: usize, range: Option<(i64, i64)>) -> usize {
    let table = match direct_entries(rows, range) {
        Some(entries) => entries * size_of::<Head>(),
        None => slot_count(rows) * size_of::<Slot>(),
    };
    // Rows and keys in the order of regions, while all cores build.
    let sorted = if rows < SHARED_ROWS_MIN {
        0
    } else {
        rows * (size_of::<i64>() + 2 * size_of::<Head>())
    };
    table + rows * size_of::<Head>() + sorted
}

fn direct_entries(rows: usize, range: Option<(i64, i64)>) -> Option<usize> {
    let (min, max) = range?;
    let span = max.wrapping_sub(min) as u64;
    is_direct(rows, Some(span)).then(|| span as usize + 1)
}

/// Whether the table of so many rows, whose keys lie within `span` of each other, is an array.
pub fn is_direct(rows: usize, span: Option<u64>) -> bool {
    span.is_some_and(|span| span < DIRECT_ALWAYS.max(rows as u64 * DIRECT_PER_ROW))
}

fn slot_count(rows: usize) -> usize {
    (rows * 2).next_power_of_two().max(16)
}

impl KeyTable {
    /// Builds the table over `keys`, if it is wanted to the end; rows that are not valid are left out. `range` holds all
    /// valid keys.
    pub fn build(keys: &[i64], valid: Option<&NullBuffer>, range: Option<(i64, i64)>, stop: Stop<'_>) -> Result<Self> {
        if keys.len() >= SHARED_ROWS_MIN
            && rayon::current_num_threads() > 1
            && let Some(table) = Self::build_by_all(keys, valid, range, stop)?
        {
            return Ok(table);
        }
        Self::build_alone(keys, valid, range, stop)
    }

    /// One core builds it, row after row.
    fn build_alone(
        keys: &[i64],
        valid: Option<&NullBuffer>,
        range: Option<(i64, i64)>,
        stop: Stop<'_>,
    ) -> Result<Self> {
        let mut next: Option<Vec<Head>> = None;
        // Backwards, so that each chain runs in row order.
        let rows = (0..keys.len())
            .rev()
            .filter(|&row| valid.is_none_or(|v| v.is_valid(row)));
        let mut link = |head: &mut Head, row: usize| {
            if *head != 0 {
                next.get_or_insert_with(|| vec![0; keys.len()])[row] = *head;
            }
            *head = row as Head + 1;
        };
        let form = match direct_entries(keys.len(), range) {
            Some(entries) => {
                let min = range.map_or(0, |(min, _)| min);
                let mut heads = vec![0; entries];
                for row in rows {
                    if row % PIECE_ROWS == 0 {
                        check(stop)?;
                    }
                    link(&mut heads[keys[row].wrapping_sub(min) as usize], row);
                }
                Form::Direct { min, heads }
            }
            None => {
                let count = slot_count(keys.len());
                let mut table = Slots::new(count, count);
                for row in rows {
                    if row % PIECE_ROWS == 0 {
                        check(stop)?;
                    }
                    let slot = table.find(keys[row]);
                    table.slots[slot].key = keys[row];
                    link(&mut table.slots[slot].head, row);
                }
                Form::Hashed(table)
            }
        };
        Ok(Self { form, next })
    }

    /// Whether no key has two rows.
    pub fn is_unique(&self) -> bool {
        self.next.is_none()
    }

    /// How keys are found, for EXPLAIN ANALYZE.
    pub fn kind(&self) -> &'static str {
        match self.form {
            Form::Direct { .. } => "array",
            Form::Hashed(_) => "hash",
        }
    }

    pub fn bytes(&self) -> usize {
        let table = match &self.form {
            Form::Direct { heads, .. } => heads.len() * size_of::<Head>(),
            Form::Hashed(table) => table.slots.len() * size_of::<Slot>(),
        };
        table + self.next.as_ref().map_or(0, |n| n.len() * size_of::<Head>())
    }

    /// The head of every key in `keys`; 0 for keys that are absent or not valid.
    pub fn probe(&self, keys: &[i64], valid: Option<&NullBuffer>, heads: &mut Vec<Head>) {
        heads.clear();
        match &self.form {
            Form::Direct { min, heads: table } => heads.extend(
                keys.iter()
                    .map(|&key| table.get(key.wrapping_sub(*min) as u64 as usize).copied().unwrap_or(0)),
            ),
            Form::Hashed(table) if table.slots.len() <= CACHED_SLOTS => {
                heads.extend(keys.iter().map(|&key| table.slots[table.find(key)].head));
            }
            Form::Hashed(table) => {
                for keys in keys.chunks(FETCHED_TOGETHER) {
                    keys.iter().for_each(|&key| prefetch(&table.slots[table.home(key)]));
                    heads.extend(keys.iter().map(|&key| table.slots[table.find(key)].head));
                }
            }
        }
        if let Some(valid) = valid {
            for (row, head) in heads.iter_mut().enumerate() {
                *head *= Head::from(valid.is_valid(row));
            }
        }
    }

    /// The head after `head` with the same key; 0 at the end.
    pub fn following(&self, head: Head) -> Head {
        self.next.as_ref().map_or(0, |next| next[head as usize - 1])
    }
}

impl Slots {
    /// Both powers of two.
    fn new(count: usize, of_region: usize) -> Self {
        Self {
            shift: 64 - count.trailing_zeros(),
            mask: of_region - 1,
            slots: filled(Slot::default(), count),
        }
    }

    /// Where the search for `key` begins.
    #[inline(always)]
    fn home(&self, key: i64) -> usize {
        home(key, self.shift)
    }

    /// The slot that holds `key`, or the empty one where it belongs: there is one in every region.
    #[inline(always)]
    fn find(&self, key: i64) -> usize {
        let mut slot = self.home(key);
        while self.slots[slot].head != 0 && self.slots[slot].key != key {
            slot = slot & !self.mask | (slot + 1) & self.mask;
        }
        slot
    }
}

/// The slot of a key in a table of `2^(64 - shift)` slots.
#[inline(always)]
fn home(key: i64, shift: u32) -> usize {
    ((key as u64).wrapping_mul(MULTIPLIER) >> shift) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::key_range;
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use std::collections::HashMap;

    fn rows_of(table: &KeyTable, mut head: Head) -> Vec<usize> {
        let mut rows = vec![];
        while head != 0 {
            rows.push(head as usize - 1);
            head = table.following(head);
        }
        rows
    }

    /// What the table built by all cores finds is what that of one core does, chain by chain.
    #[test]
    fn all_cores_build_what_one_does() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for span in [1i64, 50, 20_000, 1 << 21, 1 << 40, i64::MAX] {
            let rows = rng.random_range(1..120_000);
            let base = [0, -5, i64::MIN, 1 << 50][rng.random_range(0..4)];
            // Some keys that a multiplication leaves side by side, which fill a region beyond its measure.
            let step = [1i64, 1 << 13, 0x5851_f42d][rng.random_range(0..3)];
            let keys: Vec<i64> = (0..rows)
                .map(|_| rng.random_range(0..span).wrapping_mul(step).wrapping_add(base))
                .collect();
            let nulls: NullBuffer = (0..rows).map(|_| rng.random_bool(0.9)).collect();
            for valid in [None, Some(&nulls)] {
                let range = key_range(&keys, valid);
                let alone = KeyTable::build_alone(&keys, valid, range, Stop::never()).unwrap();
                let by_all = KeyTable::build_by_all(&keys, valid, range, Stop::never()).unwrap();
                let Some(by_all) = by_all else { continue };
                assert_eq!(by_all.is_unique(), alone.is_unique(), "seed {seed}");
                let (mut heads, mut same) = (vec![], vec![]);
                let probes: Vec<i64> = keys.iter().flat_map(|&key| [key, key.wrapping_add(1)]).collect();
                alone.probe(&probes, None, &mut heads);
                by_all.probe(&probes, None, &mut same);
                assert_eq!(heads, same, "seed {seed}, span {span}");
                let following = |table: &KeyTable| (1..=rows).map(|head| table.following(head)).collect::<Vec<_>>();
                assert_eq!(following(&alone), following(&by_all), "seed {seed}, span {span}");
            }
        }
    }

    #[test]
    fn a_region_that_overflows_is_left_to_one_core() {
        // All keys have their home in one region.
        let inverse = (0..6).fold(MULTIPLIER, |x, _| {
            x.wrapping_mul(2u64.wrapping_sub(MULTIPLIER.wrapping_mul(x)))
        });
        let keys: Vec<i64> = (0..200_000u64).map(|at| at.wrapping_mul(inverse) as i64).collect();
        let range = key_range(&keys, None);
        assert!(
            KeyTable::build_by_all(&keys, None, range, Stop::never())
                .unwrap()
                .is_none()
        );
        let mut heads = vec![];
        let few = &keys[..1000];
        let table = KeyTable::build(few, None, key_range(few, None), Stop::never()).unwrap();
        table.probe(few, None, &mut heads);
        assert_eq!(heads, (1..=1000).collect::<Vec<_>>());
    }

    #[test]
    fn agrees_with_a_map() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..200 {
            let rows = rng.random_range(0..300);
            let span = [1i64, 10, 1000, 1 << 40, i64::MAX][rng.random_range(0..5)];
            let base = [0, -5, i64::MIN, 1 << 50][rng.random_range(0..4)];
            let mut draw = |n| {
                (0..n)
                    .map(|_| rng.random_range(0..span).wrapping_add(base))
                    .collect::<Vec<i64>>()
            };
            let (keys, probes) = (draw(rows), draw(300));
            let valid: NullBuffer = (0..rows).map(|_| rng.random_bool(0.9)).collect();
            let table = KeyTable::build(&keys, Some(&valid), key_range(&keys, Some(&valid)), Stop::never()).unwrap();
            let mut reference: HashMap<i64, Vec<usize>> = HashMap::new();
            for row in valid.valid_indices() {
                reference.entry(keys[row]).or_default().push(row);
            }
            let mut heads = vec![];
            for probed in [&keys, &probes] {
                table.probe(probed, None, &mut heads);
                for (key, &head) in probed.iter().zip(&heads) {
                    assert_eq!(
                        rows_of(&table, head),
                        reference.get(key).cloned().unwrap_or_default(),
                        "seed {seed}"
                    );
                }
            }
            assert_eq!(
                table.is_unique(),
                reference.values().all(|rows| rows.len() == 1),
                "seed {seed}"
            );
        }
    }
}
