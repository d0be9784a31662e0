//! The hash table of a join's build side: from an `i64` key lane to the rows that carry it.
//!
//! Layout: where the keys are dense, an array indexed by `key - min` (a perfect hash); else open addressing with
//! linear probing over 16-byte slots. Both hold the first row of a key plus one (0: none); further rows of the same key
//! hang on it through `next`, in row order. `next` exists only if some key repeats.
//! Limits: 2^32 - 2 rows; the direct form is taken while its array stays within a few times the rows.

use arrow::buffer::NullBuffer;
use datafusion::common::Result;
use tenon_gpu::cpu::Stop;

use crate::apart::{PIECE_ROWS, check};

/// First row plus one of a key; 0 where the key is absent.
pub type Head = u32;

pub struct KeyTable {
    form: Form,
    next: Option<Vec<Head>>,
}

enum Form {
    Direct { min: i64, heads: Vec<Head> },
    Hashed { shift: u32, slots: Vec<Slot> },
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

/// Bytes that `build` will allocate at most, for the reservation made before it.
pub fn estimated_bytes(rows: usize, range: Option<(i64, i64)>) -> usize {
    let table = match direct_entries(rows, range) {
        Some(entries) => entries * size_of::<Head>(),
        None => slot_count(rows) * size_of::<Slot>(),
    };
    table + rows * size_of::<Head>()
}

fn direct_entries(rows: usize, range: Option<(i64, i64)>) -> Option<usize> {
    let (min, max) = range?;
    let span = max.wrapping_sub(min) as u64;
    is_direct(rows, Some(span)).then_some(span as usize + 1)
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
                let mut slots = vec![Slot::default(); slot_count(keys.len())];
                let shift = 64 - slots.len().trailing_zeros();
                for row in rows {
                    if row % PIECE_ROWS == 0 {
                        check(stop)?;
                    }
                    let slot = find(&slots, shift, keys[row]);
                    slots[slot].key = keys[row];
                    link(&mut slots[slot].head, row);
                }
                Form::Hashed { shift, slots }
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
            Form::Hashed { .. } => "hash",
        }
    }

    pub fn bytes(&self) -> usize {
        let table = match &self.form {
            Form::Direct { heads, .. } => heads.len() * size_of::<Head>(),
            Form::Hashed { slots, .. } => slots.len() * size_of::<Slot>(),
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
            Form::Hashed { shift, slots } => {
                heads.extend(keys.iter().map(|&key| slots[find(slots, *shift, key)].head));
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

/// The slot that holds `key`, or the empty one where it belongs. The table is at most half full.
fn find(slots: &[Slot], shift: u32, key: i64) -> usize {
    let mut slot = ((key as u64).wrapping_mul(MULTIPLIER) >> shift) as usize;
    while slots[slot].head != 0 && slots[slot].key != key {
        slot = (slot + 1) & (slots.len() - 1);
    }
    slot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::lane_range;
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
            let table = KeyTable::build(&keys, Some(&valid), lane_range(&keys, Some(&valid)), Stop::never()).unwrap();
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
