//! Runtime filters: what a join's finished build side tells the scan below its probe side.
//!
//! Form: the range of the keys, and with it either a bitmap over that range (exact) or a blocked Bloom filter of
//! 16 bits a key, two probes within one 64-bit word (Putze et al. 2007). Scans skip segments by the range and rows by
//! the set; a filter that keeps nearly everything switches itself off (`scan`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::execution::TaskContext;
use rayon::prelude::*;

use crate::per_execution::PerExecution;

/// One join key's filter, shared by the join that fills it and the scan that reads it.
#[derive(Debug, Default)]
pub struct RuntimeFilter {
    set: PerExecution<OnceLock<KeySet>>,
}

impl RuntimeFilter {
    /// The cell of this execution. Empty until the build side is finished: then everything passes.
    pub fn cell(&self, context: &Arc<TaskContext>) -> Arc<OnceLock<KeySet>> {
        self.set.get_or_make(context, OnceLock::new)
    }
}

/// A set of integer keys that may hold a few too many.
#[derive(Debug)]
pub struct KeySet {
    /// Range of the keys; `min > max` when there are none.
    pub min: i64,
    pub max: i64,
    members: Members,
}

#[derive(Debug)]
enum Members {
    Bitmap(Vec<u64>),
    /// `keys`: the integer keys themselves, in any order, where they are few.
    Bloom {
        words: Vec<u64>,
        shift: u32,
        keys: Option<Vec<i64>>,
    },
}

/// Most keys that are kept, or counted out of a bitmap, to be looked up in an index.
pub const LISTED_KEYS_MAX: usize = 1 << 16;
/// Bits of a bitmap allowed whatever the number of keys (128 KiB), and for each key.
const BITMAP_ALWAYS: u64 = 1 << 20;
const BITMAP_PER_KEY: u64 = 256;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl KeySet {
    /// The set of the valid integer keys, whose range is `range`.
    pub fn build(integers: &[i64], valid: Option<&NullBuffer>, range: Option<(i64, i64)>) -> Self {
        let Some((min, max)) = range else {
            return Self {
                min: 0,
                max: -1,
                members: Members::Bitmap(vec![]),
            };
        };
        let span = max.wrapping_sub(min) as u64;
        let is_valid = |row: usize| valid.is_none_or(|v| v.is_valid(row));
        if span < BITMAP_ALWAYS.max(integers.len() as u64 * BITMAP_PER_KEY) {
            let position = |integer: i64| {
                let bit = integer.wrapping_sub(min) as u64 as usize;
                (bit / 64, 1 << (bit % 64))
            };
            let bits = words(span as usize / 64 + 1, integers, is_valid, position);
            return Self {
                min,
                max,
                members: Members::Bitmap(bits),
            };
        }
        let count = (integers.len() / 4).next_power_of_two().max(16);
        let shift = 64 - count.trailing_zeros();
        let words = words(count, integers, is_valid, |integer| bloom_position(integer, shift));
        let listed = || {
            (0..integers.len())
                .filter(|&row| is_valid(row))
                .map(|row| integers[row])
        };
        let keys = (integers.len() <= LISTED_KEYS_MAX).then(|| listed().collect());
        Self {
            min,
            max,
            members: Members::Bloom { words, shift, keys },
        }
    }

    /// All keys ascending, each once; None where they are more than `keys_max`, or than `LISTED_KEYS_MAX`.
    pub fn keys(&self, keys_max: usize) -> Option<Vec<i64>> {
        match &self.members {
            _ if self.min > self.max => Some(vec![]),
            Members::Bitmap(bits) => {
                let count = bits.iter().map(|word| word.count_ones() as usize).sum();
                if count > keys_max.min(LISTED_KEYS_MAX) {
                    return None;
                }
                let mut keys = Vec::with_capacity(count);
                for (at, &word) in bits.iter().enumerate() {
                    let mut rest = word;
                    while rest != 0 {
                        keys.push(
                            self.min
                                .wrapping_add((at * 64) as i64 + i64::from(rest.trailing_zeros())),
                        );
                        rest &= rest - 1;
                    }
                }
                Some(keys)
            }
            Members::Bloom { keys, .. } => {
                let mut keys = keys.clone()?;
                keys.sort_unstable();
                keys.dedup();
                (keys.len() <= keys_max).then_some(keys)
            }
        }
    }

    /// A bit for each of so many integer keys: whether it may be a member.
    pub fn passing(&self, integers: usize, integer: impl Fn(usize) -> i64) -> BooleanBuffer {
        let span = self.max.wrapping_sub(self.min) as u64;
        match &self.members {
            _ if self.min > self.max => BooleanBuffer::new_unset(integers),
            Members::Bitmap(bits) => BooleanBuffer::collect_bool(integers, |at| {
                let bit = integer(at).wrapping_sub(self.min) as u64;
                let word = bits[(bit.min(span) / 64) as usize];
                (bit <= span) & (word >> (bit % 64) & 1 == 1)
            }),
            Members::Bloom { words, shift, .. } => BooleanBuffer::collect_bool(integers, |at| {
                let integer = integer(at);
                let (word, mask) = bloom_position(integer, *shift);
                (integer.wrapping_sub(self.min) as u64 <= span) & (words[word] & mask == mask)
            }),
        }
    }

    /// Keeps in `rows` (positions in `integers`) those whose integer key may be a member.
    pub fn retain(&self, integers: impl Fn(u32) -> i64, rows: &mut Vec<u32>) {
        let mut kept = 0;
        let span = self.max.wrapping_sub(self.min) as u64;
        match &self.members {
            _ if self.min > self.max => {}
            Members::Bitmap(bits) => {
                for i in 0..rows.len() {
                    let row = rows[i];
                    let bit = integers(row).wrapping_sub(self.min) as u64;
                    let word = bits[(bit.min(span) / 64) as usize];
                    let pass = bit <= span && word >> (bit % 64) & 1 == 1;
                    rows[kept] = row;
                    kept += usize::from(pass);
                }
            }
            Members::Bloom { words, shift, .. } => {
                for i in 0..rows.len() {
                    let row = rows[i];
                    let integer = integers(row);
                    let (word, mask) = bloom_position(integer, *shift);
                    let pass = integer.wrapping_sub(self.min) as u64 <= span && words[word] & mask == mask;
                    rows[kept] = row;
                    kept += usize::from(pass);
                }
            }
        }
        rows.truncate(kept);
    }

    pub fn bytes(&self) -> usize {
        match &self.members {
            Members::Bitmap(words) => words.len() * 8,
            Members::Bloom { words, keys, .. } => (words.len() + keys.as_ref().map_or(0, Vec::len)) * 8,
        }
    }
}

/// IntegerKeys from which on all cores set bits.
const SHARED_LANES_MIN: usize = 1 << 17;

/// `count` words with the bits of all valid integer keys set, where `position` has them.
fn words(
    count: usize,
    integers: &[i64],
    is_valid: impl Fn(usize) -> bool + Sync,
    position: impl Fn(i64) -> (usize, u64) + Sync,
) -> Vec<u64> {
    match integers.len() < SHARED_LANES_MIN || rayon::current_num_threads() == 1 {
        true => words_alone(count, integers, is_valid, position),
        false => words_by_all(count, integers, is_valid, position),
    }
}

fn words_alone(
    count: usize,
    integers: &[i64],
    is_valid: impl Fn(usize) -> bool,
    position: impl Fn(i64) -> (usize, u64),
) -> Vec<u64> {
    let mut words = vec![0u64; count];
    for row in (0..integers.len()).filter(|&row| is_valid(row)) {
        let (word, mask) = position(integers[row]);
        words[word] |= mask;
    }
    words
}

fn words_by_all(
    count: usize,
    integers: &[i64],
    is_valid: impl Fn(usize) -> bool + Sync,
    position: impl Fn(i64) -> (usize, u64) + Sync,
) -> Vec<u64> {
    let words: Vec<AtomicU64> = (0..count).into_par_iter().map(|_| AtomicU64::new(0)).collect();
    let pieces = integers.par_chunks(PIECE_LANES).enumerate();
    pieces.for_each(|(piece, integers)| {
        for (at, &integer) in integers.iter().enumerate() {
            if is_valid(piece * PIECE_LANES + at) {
                let (word, mask) = position(integer);
                // Bits that are set already cost no exclusive access.
                if words[word].load(Ordering::Relaxed) & mask != mask {
                    words[word].fetch_or(mask, Ordering::Relaxed);
                }
            }
        }
    });
    words.into_par_iter().map(AtomicU64::into_inner).collect()
}

/// IntegerKeys of a piece of which one core sets the bits.
const PIECE_LANES: usize = 1 << 15;

fn bloom_position(integer: i64, shift: u32) -> (usize, u64) {
    let hash = (integer as u64).wrapping_mul(MULTIPLIER);
    let bits = (hash ^ hash >> 32).wrapping_mul(MULTIPLIER) >> 52;
    ((hash >> shift) as usize, 1 << (bits & 63) | 1 << (bits >> 6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::key_range;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    #[test]
    fn keeps_members_and_few_others() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for span in [1i64, 1000, 1 << 30, i64::MAX] {
            let keys: Vec<i64> = (0..1000).map(|_| rng.random_range(-span..span)).collect();
            let set = KeySet::build(&keys, None, key_range(&keys, None));
            let mut rows: Vec<u32> = (0..1000).collect();
            set.retain(|row| keys[row as usize], &mut rows);
            assert_eq!(rows.len(), 1000, "seed {seed}");
            let others: Vec<i64> = (0..10_000).map(|_| rng.random_range(-span..span)).collect();
            let wrong = others.iter().filter(|o| !keys.contains(o)).count();
            let mut rows: Vec<u32> = (0..others.len() as u32).collect();
            set.retain(|row| others[row as usize], &mut rows);
            let passing = set.passing(others.len(), |row| others[row]);
            assert!(
                passing.set_indices().eq(rows.iter().map(|row| *row as usize)),
                "seed {seed}"
            );
            let kept_wrong = rows.iter().filter(|&&r| !keys.contains(&others[r as usize])).count();
            assert!(kept_wrong * 20 <= wrong, "seed {seed}: {kept_wrong} of {wrong}");
            let listed: std::collections::BTreeSet<i64> = keys.iter().copied().collect();
            let count = listed.len();
            assert_eq!(set.keys(count), Some(listed.into_iter().collect()), "seed {seed}");
            assert!(count == 0 || set.keys(count - 1).is_none(), "seed {seed}");
        }
        let empty = KeySet::build(&[], None, None);
        let mut rows = vec![0];
        empty.retain(|_| 0, &mut rows);
        assert!(rows.is_empty());
        assert_eq!(empty.passing(3, |_| 0).count_set_bits(), 0);
    }

    #[test]
    fn all_cores_set_the_bits_that_one_does() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let integers: Vec<i64> = (0..3 * PIECE_LANES + 77).map(|_| rng.random()).collect();
        let valid: Vec<bool> = integers.iter().map(|_| rng.random_bool(0.5)).collect();
        for count in [16usize, 1 << 15] {
            let position = |integer: i64| bloom_position(integer, 64 - count.trailing_zeros());
            let alone = words_alone(count, &integers, |row| valid[row], position);
            let by_all = words_by_all(count, &integers, |row| valid[row], position);
            assert_eq!(alone, by_all, "seed {seed}");
        }
    }
}
