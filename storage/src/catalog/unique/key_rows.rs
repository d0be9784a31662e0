//! Where an index's keys are: a hash table of the rows of each segment, so that few keys are looked for in a few steps a
//! segment.
//!
//! Segments never change, so neither do their tables, which are made of whole segments: who finds a row asks whether it is
//! still there. A slot is a row's number and a part of its hash (linear probing at most half full: Knuth, The Art of
//! Computer Programming 3, section 6.4).

use crate::error::Result;
use crate::memory::{MemoryBudget, Reclaim, Reservation};
use crate::segment::{SEGMENT_ROWS_MAX, Segment};
use hashbrown::HashMap;
use parking_lot::Mutex;
use rayon::prelude::*;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// Fewer rows are read one after the other.
const ROWS_MIN: usize = 1 << 9;
/// The table of a segment is made once its rows have been read so often for want of it.
const READ_BEFORE: usize = 2;
/// Rows are read one after the other for more keys than such a part of them.
const KEYS_PART: usize = 4;
/// Segments known before those that are gone are looked for.
const KNOWN_MIN: usize = 64;

const ROW_BITS: u32 = SEGMENT_ROWS_MAX.trailing_zeros();
const EMPTY: u32 = u32::MAX;

/// What an index keeps of its segments, for all versions of its table. Its memory goes to whoever needs some for rows.
#[derive(Default)]
pub struct KeyRows {
    known: Mutex<Known>,
    /// Whether the budget knows of it.
    is_reclaimed: OnceLock<()>,
}

#[derive(Default)]
struct Known {
    /// By the number of the whole segment.
    segments: HashMap<u64, OfSegment>,
    /// So many segments make it look for those that are gone.
    look_at: usize,
}

struct OfSegment {
    segment: Weak<Segment>,
    /// How often it was read for want of a table.
    read: usize,
    table: Option<Arc<RowTable>>,
}

/// The rows of a whole segment by the hashes of their keys.
pub(super) struct RowTable {
    slots: Box<[u32]>,
    _held: Reservation,
}

impl Reclaim for KeyRows {
    fn reclaim(&self) {
        // One that is being searched is left alone.
        if let Some(mut known) = self.known.try_lock() {
            *known = Known::default();
        }
    }
}

impl fmt::Debug for KeyRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyRows")
    }
}

impl KeyRows {
    /// The tables of some segments, one for each, to look for so many keys. None where rows are to be read instead.
    /// `hashes` gives those of the rows of a whole segment whose key may equal another.
    pub(super) fn tables(
        own: &Arc<KeyRows>,
        segments: &[&Arc<Segment>],
        keys: usize,
        budget: &Arc<MemoryBudget>,
        hashes: impl Fn(&Segment) -> Result<Vec<(u32, u64)>> + Sync,
    ) -> Result<Vec<Option<Arc<RowTable>>>> {
        let mut tables: Vec<Option<Arc<RowTable>>> = vec![None; segments.len()];
        let mut missing = Vec::new();
        {
            let mut known = own.known.lock();
            for (at, segment) in segments.iter().enumerate() {
                let whole = segment.whole();
                if whole.rows() < ROWS_MIN || keys > whole.rows() / KEYS_PART {
                    continue;
                }
                let of = known.segments.entry(whole.id()).or_insert_with(|| OfSegment {
                    segment: Arc::downgrade(whole),
                    read: 0,
                    table: None,
                });
                of.read += 1;
                tables[at] = of.table.clone();
                if of.table.is_none() && of.read >= READ_BEFORE {
                    missing.push((at, whole));
                }
            }
            known.forget_those_gone();
        }
        if missing.is_empty() {
            return Ok(tables);
        }
        own.is_reclaimed.get_or_init(|| {
            let holder: Weak<KeyRows> = Arc::downgrade(own);
            budget.may_reclaim(holder);
        });
        let made = missing
            .par_iter()
            .map(|(_, whole)| Ok(RowTable::of(whole.rows(), &hashes(whole)?, budget)));
        let made: Vec<Option<RowTable>> = made.collect::<Result<_>>()?;
        let mut known = own.known.lock();
        for ((at, whole), made) in missing.into_iter().zip(made) {
            tables[at] = made.map(Arc::new);
            if let Some(of) = known.segments.get_mut(&whole.id()) {
                of.table.clone_from(&tables[at]);
            }
        }
        Ok(tables)
    }
}

impl Known {
    fn forget_those_gone(&mut self) {
        if self.segments.len() > self.look_at.max(KNOWN_MIN) {
            self.segments.retain(|_, of| of.segment.strong_count() > 0);
            self.look_at = 2 * self.segments.len();
        }
    }
}

impl RowTable {
    /// None where memory is short.
    fn of(rows: usize, hashes: &[(u32, u64)], budget: &Arc<MemoryBudget>) -> Option<RowTable> {
        let size = (2 * rows).next_power_of_two();
        let held = budget.reserve_spare(size * size_of::<u32>()).ok()?;
        let mut slots = vec![EMPTY; size].into_boxed_slice();
        for (row, hash) in hashes {
            let mut at = place(*hash, size);
            while slots[at] != EMPTY {
                at = (at + 1) & (size - 1);
            }
            slots[at] = tag(*hash) | row;
        }
        Some(RowTable { slots, _held: held })
    }

    /// The rows of the whole segment that may have a key with this hash.
    pub(super) fn rows(&self, hash: u64) -> impl Iterator<Item = usize> {
        let size = self.slots.len();
        let first = place(hash, size);
        let slots = (0..size).map(move |step| self.slots[(first + step) & (size - 1)]);
        let met = slots.take_while(|slot| *slot != EMPTY);
        met.filter(move |slot| slot >> ROW_BITS == tag(hash) >> ROW_BITS)
            .map(|slot| (slot & ((1 << ROW_BITS) - 1)) as usize)
    }
}

fn place(hash: u64, size: usize) -> usize {
    (hash >> 32) as usize & (size - 1)
}

/// A part of the hash above a row's number. No slot is all ones.
fn tag(hash: u64) -> u32 {
    ((hash as u32) << ROW_BITS).min((u32::MAX - 1) << ROW_BITS)
}
