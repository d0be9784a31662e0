//! A range condition's normalized keys: the build side's keys, and the bounds of each row of the probe side.

use arrow::array::{Array, ArrayRef};
use datafusion::common::{Result, internal_err};
use rayon::prelude::*;
use tenon_cpu::Stop;
use tenon_storage::heap;

use super::keys::KeyedRows;
use crate::join::normalized_keys::{NormalizedKeys, PIECE, normalize};
use crate::join::ranges::{End, RangeCondition};
use crate::keys::all_valid;

pub struct RangeKeys {
    pub build: KeyedRows,
    /// Of each probe that may meet anything: both ends, included, in the normalized keys' width, and its row.
    pub lows: NormalizedKeys,
    pub highs: NormalizedKeys,
    pub probe_rows: Vec<u32>,
    /// Whether these pairs are exactly what the condition accepts.
    pub exact: bool,
}

impl RangeKeys {
    /// `key` is the build side's; `ends` are the probe side's lows, then its highs.
    pub fn of(condition: &RangeCondition, key: &ArrayRef, ends: &[ArrayRef], stop: Stop<'_>) -> Result<Self> {
        let keys = normalize(key, stop)?;
        let mut exact = keys.exact;
        let mut bounding = vec![];
        for end in ends {
            let normalized = normalize(end, stop)?;
            exact &= normalized.exact;
            bounding.push(normalized.keys);
        }
        let build = KeyedRows::of(keys.keys, all_valid(std::slice::from_ref(key)));
        // An end that is null bounds nothing: no pair fulfils the condition.
        let valid = all_valid(ends);
        let rows = ends.first().map_or(0, |end| end.len());
        let is_valid = |row| valid.as_ref().is_none_or(|valid| valid.is_valid(row));
        let (lows, highs, probe_rows) = match &build.keys {
            NormalizedKeys::U32(_) => {
                let (lows, highs, rows) = bounds(condition, picked(bounding)?, exact, rows, is_valid);
                (NormalizedKeys::U32(lows), NormalizedKeys::U32(highs), rows)
            }
            NormalizedKeys::U64(_) => {
                let (lows, highs, rows) = bounds(condition, picked(bounding)?, exact, rows, is_valid);
                (NormalizedKeys::U64(lows), NormalizedKeys::U64(highs), rows)
            }
        };
        Ok(Self {
            build,
            lows,
            highs,
            probe_rows,
            exact,
        })
    }
}

/// The range of normalized keys of each of so many rows; rows that meet nothing are left out. Where keys are the values, the ends
/// of strict comparisons are left out too.
fn bounds<K: NormalizedKey>(
    condition: &RangeCondition,
    ends: Vec<Vec<K>>,
    exact: bool,
    rows: usize,
    is_valid: impl Fn(usize) -> bool + Sync,
) -> (Vec<K>, Vec<K>, Vec<u32>) {
    let (lows, highs) = ends.split_at(condition.lows.len());
    let inner = |end: &End, key: K, step: fn(K) -> Option<K>| {
        if exact && end.strict { step(key) } else { Some(key) }
    };
    let bound = |row: usize| {
        let (mut low, mut high) = (K::MIN, K::MAX);
        for (end, keys) in condition.lows.iter().zip(lows) {
            low = low.max(inner(end, keys[row], K::next)?);
        }
        for (end, keys) in condition.highs.iter().zip(highs) {
            high = high.min(inner(end, keys[row], K::prior)?);
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

/// A normalized key of a sorted side.
trait NormalizedKey: Copy + Ord + Send + Sync {
    const MIN: Self;
    const MAX: Self;
    fn next(self) -> Option<Self>;
    fn prior(self) -> Option<Self>;
    fn of(keys: NormalizedKeys) -> Option<Vec<Self>>;
}

macro_rules! key {
    ($t:ty, $form:ident) => {
        impl NormalizedKey for $t {
            const MIN: Self = <$t>::MIN;
            const MAX: Self = <$t>::MAX;

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            fn prior(self) -> Option<Self> {
                self.checked_sub(1)
            }

            fn of(keys: NormalizedKeys) -> Option<Vec<Self>> {
                match keys {
                    NormalizedKeys::$form(keys) => Some(keys),
                    _ => None,
                }
            }
        }
    };
}
key!(u32, U32);
key!(u64, U64);

fn picked<K: NormalizedKey>(normalized: Vec<NormalizedKeys>) -> Result<Vec<Vec<K>>> {
    let keys: Option<Vec<_>> = normalized.into_iter().map(K::of).collect();
    match keys {
        Some(keys) => Ok(keys),
        None => internal_err!("the ends of a range are of another type than its key"),
    }
}
