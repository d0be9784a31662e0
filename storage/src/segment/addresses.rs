//! The addresses of rows: numbers that rows keep where others are removed, and, of a table that was ever asked for them, where
//! segments are merged.

use super::dictionary::Dictionary;
use super::{Segment, build, new_id};
use crate::error::Result;
use crate::memory::{MemoryBudget, Reservation};
use arrow::array::ArrayRef;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The address of the next row that any table gets.
static NEXT_ADDRESS: AtomicU64 = AtomicU64::new(0);

/// The addresses of a whole segment's rows.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    /// Of the first row, where each has the next one.
    first: u64,
    /// Of each, where the rows have come from other segments.
    kept: Option<Arc<KeptAddresses>>,
}

#[derive(Debug)]
struct KeptAddresses {
    all: Vec<u64>,
    ascending: bool,
    _held: Reservation,
}

impl Addresses {
    pub(super) fn new(rows: usize) -> Addresses {
        let first = NEXT_ADDRESS.fetch_add(rows as u64, Ordering::Relaxed);
        Addresses { first, kept: None }
    }
}

impl Segment {
    /// `build` of the rows of other segments, which keep their addresses.
    pub(crate) fn build_moved(
        columns: &[Vec<&ArrayRef>],
        dictionaries: &[Option<Arc<Dictionary>>],
        of: &[Arc<Segment>],
        budget: &Arc<MemoryBudget>,
    ) -> Result<Arc<Segment>> {
        let rows = of.iter().map(|segment| segment.rows).sum();
        let held = budget.reserve(rows * size_of::<u64>())?;
        let all = of
            .iter()
            .flat_map(|segment| (0..segment.rows).map(|row| segment.address(row)));
        let all: Vec<u64> = all.collect();
        let ascending = all.is_sorted();
        let columns = build::build(columns, dictionaries, rows, budget)?;
        let mut segment = Segment::of(new_id(), rows, columns);
        if let Some(segment) = Arc::get_mut(&mut segment) {
            segment.addresses.kept = Some(Arc::new(KeptAddresses {
                all,
                ascending,
                _held: held,
            }));
        }
        Ok(segment)
    }

    /// Where a row is: a number that no other row of a table has, and that stays its own for as long as it is not changed
    /// (of a table of which `TableUsage` knows that it was asked for such).
    pub fn address(&self, row: usize) -> u64 {
        let row = self.live().map_or(row, |live| live.select(row));
        match &self.addresses.kept {
            Some(kept) => kept.all.get(row).copied().unwrap_or(u64::MAX),
            None => self.addresses.first + row as u64,
        }
    }

    /// The row that has an address, where it is here.
    pub fn row_at(&self, address: u64) -> Option<usize> {
        let row = match &self.addresses.kept {
            Some(kept) if kept.ascending => kept.all.binary_search(&address).ok()?,
            Some(kept) => kept.all.iter().position(|own| *own == address)?,
            None => usize::try_from(address.checked_sub(self.addresses.first)?).ok()?,
        };
        let all = self.live().map_or(self.rows, |live| live.all_rows());
        match self.live() {
            _ if row >= all => None,
            Some(live) => live.rank(row),
            None => Some(row),
        }
    }
}
