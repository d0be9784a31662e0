//! How the rows of one version of a table become those of the next: rows go, segments are added, and those that are worn or
//! small are built anew.

use super::index::Index;
use super::moves::{Move, Removed};
use super::table::{TableDefinition, TableVersion};
use super::unique;
use crate::error::Result;
use crate::memory::MemoryBudget;
use crate::segment::{Live, Segment};
use crate::statistics::TableStatistics;
use arrow::array::ArrayRef;
use rayon::prelude::*;
use std::sync::Arc;

/// Segments up to this size are merged with their neighbours.
const COMPACT_ROWS_MAX: usize = 1 << 16;
/// So many small segments, none of which is this times as large as the last, become one: each row is copied once for each power of this that
/// the segments grow by, and less than so many are left of each size.
const COMPACT_TOGETHER: usize = 4;
/// A segment of whose rows more than such a part is gone is built anew.
const WORN_PART: usize = 4;
/// Statistics are taken anew once as many rows are gone as such a part of those left.
const STALE_PART: u64 = 4;

impl TableVersion {
    /// The next version, without rows, and with segments added behind those that are left. Checks the unique indexes, unless
    /// `keys_kept`: the added rows have the keys of the removed. Gives the indexes, of those of which `waits` is true, in which a
    /// key stands twice.
    pub(crate) fn changed(
        &self,
        removed: &Removed,
        added: &[Arc<Segment>],
        keys_kept: bool,
        budget: &Arc<MemoryBudget>,
        waits: impl Fn(&Index) -> bool,
    ) -> Result<(Arc<TableVersion>, Vec<u32>)> {
        let mut statistics = (*self.statistics).clone();
        let mut segments = Vec::with_capacity(self.segments.len() + added.len());
        for segment in self.segments.iter() {
            let Some(live) = removed.left_of(segment)? else {
                segments.push(segment.clone());
                continue;
            };
            remove_rows(&mut statistics, segment, &live);
            if live.rows() > 0 {
                segments.push(Segment::left(segment.whole(), Arc::new(live)));
            }
        }
        let waiting = match keys_kept {
            true => Vec::new(),
            false => unique::check(&self.definition, &segments, added, budget, waits)?,
        };
        for segment in added {
            add_segment(&mut statistics, segment);
            segments.push(segment.clone());
        }
        let removed = statistics.removed - self.statistics.removed;
        let mut next =
            Self::with_statistics(self.definition.clone(), segments, statistics).knowing(&self.lazy, removed);
        if removed == 0 {
            Arc::make_mut(&mut next).rows_since = self.rows_since;
        }
        Ok((next, waiting))
    }

    /// The same rows in segments that are worth keeping, those of the first `from` left alone: segments of which much was
    /// removed are built anew, and small ones merged. Gives the moves of rows, too.
    pub(crate) fn settled(self: Arc<Self>, from: usize, budget: &Arc<MemoryBudget>) -> (Arc<TableVersion>, Vec<Move>) {
        let (alone, others) = self.segments.split_at(from);
        let worn = |segment: &Arc<Segment>| segment.live().is_some_and(|live| is_worn(live));
        let rebuilt = |segment: &Arc<Segment>| worn(segment).then(|| self.rebuilt(segment, budget)).flatten();
        // Waking other threads takes longer than most commits.
        let rebuilt: Vec<Option<Arc<Segment>>> = match others.iter().filter(|segment| worn(segment)).count() {
            0 | 1 => others.iter().map(rebuilt).collect(),
            _ => others.par_iter().map(rebuilt).collect(),
        };
        let mut moves = Vec::new();
        let mut segments = alone.to_vec();
        for (at, (segment, rebuilt)) in others.iter().zip(rebuilt).enumerate() {
            moves.extend(rebuilt.as_ref().map(|rebuilt| Move::of(segment, rebuilt, 0)));
            segments.push(rebuilt.unwrap_or_else(|| segment.clone()));
            // Single rows of those who committed together become one segment at once.
            let is_single = |at: usize| others.get(at).is_some_and(|segment| segment.rows() == 1);
            if !(is_single(at) && is_single(at + 1)) {
                compact(&mut segments, from, &self.definition, budget, &mut moves);
            }
        }
        let is_stale = self.statistics.removed * STALE_PART > self.statistics.rows;
        if moves.is_empty() && !is_stale {
            return (self, moves);
        }
        let statistics = match is_stale {
            false => (*self.statistics).clone(),
            true => statistics_of(&self.definition, &segments),
        };
        let mut next = Self::with_statistics(self.definition.clone(), segments, statistics).knowing(&self.lazy, 0);
        Arc::make_mut(&mut next).rows_since = self.rows_since;
        (next, moves)
    }

    /// Whether no large segment is worn.
    pub(crate) fn is_settled_at_once(&self) -> bool {
        let mut live = self.segments.iter().filter_map(|segment| segment.live());
        live.all(|live| live.all_rows() <= COMPACT_ROWS_MAX || !is_worn(live))
    }

    fn rebuilt(&self, segment: &Arc<Segment>, budget: &Arc<MemoryBudget>) -> Option<Arc<Segment>> {
        let columns: Vec<ArrayRef> = (0..segment.columns()).map(|column| segment.column(column)).collect();
        let columns: Vec<Vec<&ArrayRef>> = columns.iter().map(|column| vec![column]).collect();
        // Where memory is short the segment stays as it is.
        let of = std::slice::from_ref(segment);
        moved(&columns, &self.definition, of, budget).ok()
    }
}

/// Merges small segments at the end, those after the first `from` alone, so that many small inserts leave few segments, each
/// row copied a few times.
fn compact(
    segments: &mut Vec<Arc<Segment>>,
    from: usize,
    definition: &TableDefinition,
    budget: &Arc<MemoryBudget>,
    moves: &mut Vec<Move>,
) {
    while let Some(first) = small_from(&segments[from..]).map(|first| from + first) {
        let small = &segments[first..];
        let columns = |column: usize| small.iter().map(|segment| segment.column(column)).collect();
        let columns: Vec<Vec<ArrayRef>> = (0..definition.columns.len()).map(columns).collect();
        let columns: Vec<Vec<_>> = columns.iter().map(|arrays| arrays.iter().collect()).collect();
        // Where memory is short the segments stay as they are.
        let Ok(merged) = moved(&columns, definition, small, budget) else {
            return;
        };
        let mut offset = 0;
        for segment in small {
            moves.push(Move::of(segment, &merged, offset));
            offset += segment.rows();
        }
        segments.truncate(first);
        segments.push(merged);
    }
}

/// One segment of the rows of others, of which these are the columns.
fn moved(
    columns: &[Vec<&ArrayRef>],
    definition: &TableDefinition,
    of: &[Arc<Segment>],
    budget: &Arc<MemoryBudget>,
) -> Result<Arc<Segment>> {
    if definition.usage.is_addressed() {
        return Segment::build_moved(columns, &definition.dictionaries, of, budget);
    }
    let rows = of.iter().map(|segment| segment.rows()).sum();
    Segment::build(columns, &definition.dictionaries, rows, budget)
}

/// The first of the segments at the end that are to be one: so many of a size, or as many rows as one should have.
fn small_from(segments: &[Arc<Segment>]) -> Option<usize> {
    let size = |segment: &Arc<Segment>| segment.rows().max(1).ilog(COMPACT_TOGETHER);
    let largest = size(segments.last()?);
    let mut rows = 0;
    let small = segments.iter().rev().take_while(|segment| {
        let fits = size(segment) <= largest && rows + segment.rows() <= COMPACT_ROWS_MAX;
        rows += if fits { segment.rows() } else { 0 };
        fits
    });
    let small = small.count();
    let enough = small >= COMPACT_TOGETHER || (small > 1 && 2 * rows > COMPACT_ROWS_MAX);
    enough.then(|| segments.len() - small)
}

/// Whether so much of a segment is gone that it is built anew.
fn is_worn(live: &Live) -> bool {
    (live.all_rows() - live.rows()) * WORN_PART > live.all_rows()
}

pub(super) fn statistics_of(definition: &TableDefinition, segments: &[Arc<Segment>]) -> TableStatistics {
    let mut statistics = TableStatistics::empty(definition.columns.len());
    segments
        .iter()
        .for_each(|segment| add_segment(&mut statistics, segment));
    statistics
}

/// Takes out what a segment loses where `live` is left of it.
fn remove_rows(statistics: &mut TableStatistics, segment: &Segment, live: &Live) {
    let gone = (segment.rows() - live.rows()) as u64;
    for (column, own) in statistics.columns.iter_mut().enumerate() {
        let nulls = match own.null_count {
            0 => 0,
            _ => {
                let rows = live.gone_since(segment.live().map(AsRef::as_ref));
                segment.whole_nulls(column, rows)
            }
        };
        own.remove(gone, nulls);
    }
    statistics.rows -= gone;
    statistics.removed += gone;
}

fn add_segment(statistics: &mut TableStatistics, segment: &Segment) {
    statistics.rows += segment.rows() as u64;
    for (column, own) in statistics.columns.iter_mut().enumerate() {
        own.append(segment.statistics(column));
    }
}
