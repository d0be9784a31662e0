//! A range condition's words: the sorted side's keys, and the bounds of each row of the probing side.

use arrow::array::{Array, ArrayRef};
use datafusion::common::{Result, internal_err};
use rayon::prelude::*;
use tenon_gpu::cpu::Stop;
use tenon_storage::heap;

use super::codes::{PIECE, Words, order_codes};
use super::keys::KeyedRows;
use crate::join::ranges::{End, RangeCondition};
use crate::keys::all_valid;

pub struct RangeWords {
    pub sorted: KeyedRows,
    /// Of each probe that may meet anything: both ends, included, in the words' width, and its row.
    pub lows: Words,
    pub highs: Words,
    pub probe_rows: Vec<u32>,
    /// Whether these pairs are exactly what the condition accepts.
    pub exact: bool,
}

impl RangeWords {
    /// `key` is the sorted side's; `ends` are the probing side's lows, then its highs.
    pub fn of(condition: &RangeCondition, key: &ArrayRef, ends: &[ArrayRef], stop: Stop<'_>) -> Result<Self> {
        let keys = order_codes(key, stop)?;
        let mut exact = keys.exact;
        let mut codes = vec![];
        for end in ends {
            let code = order_codes(end, stop)?;
            exact &= code.exact;
            codes.push(code.words);
        }
        let sorted = KeyedRows::of(keys.words, all_valid(std::slice::from_ref(key)));
        // An end that is null bounds nothing: no pair fulfils the condition.
        let valid = all_valid(ends);
        let rows = ends.first().map_or(0, |end| end.len());
        let is_valid = |row| valid.as_ref().is_none_or(|valid| valid.is_valid(row));
        let (lows, highs, probe_rows) = match &sorted.words {
            Words::U32(_) => {
                let (lows, highs, rows) = bounds(condition, picked(codes)?, exact, rows, is_valid);
                (Words::U32(lows), Words::U32(highs), rows)
            }
            Words::U64(_) => {
                let (lows, highs, rows) = bounds(condition, picked(codes)?, exact, rows, is_valid);
                (Words::U64(lows), Words::U64(highs), rows)
            }
        };
        Ok(Self {
            sorted,
            lows,
            highs,
            probe_rows,
            exact,
        })
    }
}

/// The range of words of each of so many rows; rows that meet nothing are left out. Where words are the values, the ends
/// of strict comparisons are left out too.
fn bounds<K: Word>(
    condition: &RangeCondition,
    ends: Vec<Vec<K>>,
    exact: bool,
    rows: usize,
    is_valid: impl Fn(usize) -> bool + Sync,
) -> (Vec<K>, Vec<K>, Vec<u32>) {
    let (lows, highs) = ends.split_at(condition.lows.len());
    let inner = |end: &End, word: K, step: fn(K) -> Option<K>| {
        if exact && end.strict { step(word) } else { Some(word) }
    };
    let bound = |row: usize| {
        let (mut low, mut high) = (K::MIN, K::MAX);
        for (end, words) in condition.lows.iter().zip(lows) {
            low = low.max(inner(end, words[row], K::next)?);
        }
        for (end, words) in condition.highs.iter().zip(highs) {
            high = high.min(inner(end, words[row], K::prior)?);
        }
        (low <= high).then_some((low, high, row as u32))
    };
    let found = |start: usize| -> Vec<(K, K, u32)> {
        let rows = start..rows.min(start + PIECE);
        rows.filter(|row| is_valid(*row)).filter_map(bound).collect()
    };
    let pieces = (0..rows).into_par_iter().step_by(PIECE).map(heap::each(found));
    let found = pieces.collect::<Vec<_>>().concat();
    let low = found.par_iter().map(|(low, ..)| *low).collect();
    let high = found.par_iter().map(|(_, high, _)| *high).collect();
    let probe_rows = found.par_iter().map(|(.., row)| *row).collect();
    (low, high, probe_rows)
}

/// A word of a sorted side.
trait Word: Copy + Ord + Send + Sync {
    const MIN: Self;
    const MAX: Self;
    fn next(self) -> Option<Self>;
    fn prior(self) -> Option<Self>;
    fn of(words: Words) -> Option<Vec<Self>>;
}

macro_rules! word {
    ($t:ty, $form:ident) => {
        impl Word for $t {
            const MIN: Self = <$t>::MIN;
            const MAX: Self = <$t>::MAX;

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn prior(self) -> Option<Self> {
                self.checked_sub(1)
            }

            fn of(words: Words) -> Option<Vec<Self>> {
                match words {
                    Words::$form(words) => Some(words),
                    _ => None,
                }
            }
        }
    };
}
word!(u32, U32);
word!(u64, U64);

fn picked<K: Word>(codes: Vec<Words>) -> Result<Vec<Vec<K>>> {
    let words: Option<Vec<_>> = codes.into_iter().map(K::of).collect();
    match words {
        Some(words) => Ok(words),
        None => internal_err!("the ends of a range are of another type than its key"),
    }
}
