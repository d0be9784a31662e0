//! An index's data: runs over the segments that some version of its table has or had.
//!
//! Segments never change, so neither do runs: a version of the table is read through those that cover its whole segments,
//! and what a run knows of other segments, and of rows that are gone, is passed over. Segments that no run covers get one when the index is next used,
//! or, where rows change between lookups, once reading those segments has cost as much as sorting them.
//! Runs whose rows are mostly gone, and small ones of a size where there are many, are built anew into that one.

use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use datafusion::common::Result;
use foldhash::HashSet;
use parking_lot::Mutex;
use tenon_storage::{MemoryBudget, Reclaim, Segment, TableVersion};

use super::declared::Declared;
use super::encoding::KeyEncoding;
use super::reader::IndexReader;
use super::run::{SEGMENTS_MAX, SortedRun};

/// More runs are merged: each lookup searches all of them.
const RUNS_MAX: usize = 16;
/// Runs of fewer rows than so many times those of the smaller ones together become one with these.
const TOGETHER_FACTOR: usize = 4;
/// What sorting a row's key into a run costs, in rows read one after the other.
const BUILD_COST: usize = 16;

/// What `IndexSlot` holds. Its memory goes to whoever needs some for rows.
#[derive(Default)]
pub struct IndexData {
    state: Mutex<IndexState>,
    /// Whether the budget knows of it.
    known: OnceLock<()>,
}

impl Reclaim for IndexData {
    fn reclaim(&self) {
        // One that is being built or searched is left alone.
        if let Some(mut state) = self.state.try_lock() {
            *state = IndexState::default();
        }
    }
}

#[derive(Default)]
struct IndexState {
    runs: Vec<Arc<SortedRun>>,
    /// The segments that some run has.
    covered: HashSet<u64>,
    /// The reader asked for last, and the version of the table that it reads.
    latest: Option<(u64, Arc<IndexReader>)>,
    /// Rows that scans have read since the last build because runs were missing.
    rows_read: usize,
}

impl IndexData {
    fn of(index: &Declared<'_>, budget: &Arc<MemoryBudget>) -> Option<Arc<IndexData>> {
        let data = index.slot.get_or_make::<IndexData>()?;
        data.known.get_or_init(|| {
            let holder: Weak<IndexData> = Arc::downgrade(&data);
            budget.may_reclaim(holder);
        });
        Some(data)
    }

    /// The index as of a version of its table, whose missing runs are built. None where its key cannot be searched.
    pub fn reader(
        table: &TableVersion,
        index: &Declared<'_>,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Option<Arc<IndexReader>>> {
        match Self::of(index, budget) {
            Some(data) => data.state.lock().reader(table, index, budget),
            None => Ok(None),
        }
    }

    /// The same in place of reading `scanned_rows` rows one after the other. None, too, where building what rows changed
    /// since the last lookup would cost more than what has been read for want of it: tables that change all the time do
    /// not sort their new rows for each lookup.
    pub fn reader_for(
        table: &TableVersion,
        index: &Declared<'_>,
        scanned_rows: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Option<Arc<IndexReader>>> {
        let Some(data) = Self::of(index, budget) else {
            return Ok(None);
        };
        let mut state = data.state.lock();
        let current = state
            .latest
            .as_ref()
            .is_some_and(|(version, _)| *version == table.version());
        if !current && !state.runs.is_empty() {
            let missing: usize = state
                .missing(table.segments())
                .iter()
                .map(|segment| segment.rows())
                .sum();
            state.rows_read = state.rows_read.saturating_add(scanned_rows);
            if state.rows_read < missing.saturating_mul(BUILD_COST) {
                return Ok(None);
            }
        }
        state.reader(table, index, budget)
    }

    /// Whether reading rows for want of it, `scanned_rows` of the table's now, has come to cost as much as building it.
    pub fn pays(table: &TableVersion, index: &Declared<'_>, scanned_rows: usize) -> bool {
        let Some(data) = index.slot.get_or_make::<IndexData>() else {
            return false;
        };
        let rows = usize::try_from(table.rows()).unwrap_or(usize::MAX);
        let mut state = data.state.lock();
        state.rows_read = state.rows_read.saturating_add(scanned_rows);
        state.rows_read >= rows.saturating_mul(BUILD_COST)
    }

    /// Whether it has been searched before, in any version of the table.
    pub fn is_in_use(index: &Declared<'_>) -> bool {
        let data = index.slot.get_or_make::<IndexData>();
        data.is_some_and(|data| data.state.lock().latest.is_some())
    }

    /// The reader, if it is there already.
    pub fn ready(table: &TableVersion, index: &Declared<'_>) -> Option<Arc<IndexReader>> {
        let data = index.slot.get_or_make::<IndexData>()?;
        let state = data.state.lock();
        let (version, reader) = state.latest.as_ref()?;
        (*version == table.version()).then(|| Arc::clone(reader))
    }
}

impl IndexState {
    fn reader(
        &mut self,
        table: &TableVersion,
        index: &Declared<'_>,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Option<Arc<IndexReader>>> {
        if let Some((version, reader)) = &self.latest
            && *version == table.version()
        {
            return Ok(Some(Arc::clone(reader)));
        }
        let Some(encoding) = KeyEncoding::of(index.types(table)) else {
            return Ok(None);
        };
        self.cover(table.segments(), index, &encoding, budget)?;
        self.rows_read = 0;
        let reader = Arc::new(IndexReader::new(&self.runs, table.segments(), encoding));
        self.latest = Some((table.version(), Arc::clone(&reader)));
        Ok(Some(reader))
    }

    /// The whole segments that are in no run.
    fn missing(&self, segments: &[Arc<Segment>]) -> Vec<Arc<Segment>> {
        let missing = segments.iter().map(Segment::whole);
        missing
            .filter(|segment| !self.covered.contains(&segment.id()))
            .cloned()
            .collect()
    }

    /// Sees to it that each of the segments is in a run.
    fn cover(
        &mut self,
        segments: &[Arc<Segment>],
        index: &Declared<'_>,
        encoding: &KeyEncoding,
        budget: &Arc<MemoryBudget>,
    ) -> Result<()> {
        let mut missing = self.missing(segments);
        let mut kept = self.keep_worthwhile(&mut missing);
        if missing.is_empty() && kept.len() == self.runs.len() {
            return Ok(());
        }
        missing.sort_by_key(|segment| segment.id());
        for part in missing.chunks(SEGMENTS_MAX) {
            kept.push(Arc::new(SortedRun::build(part, index, encoding, budget)?));
        }
        self.covered = kept.iter().flat_map(|run| run.segments()).map(|(id, _)| *id).collect();
        self.runs = kept;
        Ok(())
    }

    /// The runs to keep; the living segments of the others are added to `missing`.
    fn keep_worthwhile(&self, missing: &mut Vec<Arc<Segment>>) -> Vec<Arc<SortedRun>> {
        let mut kept = Vec::new();
        let mut dissolve = |run: &SortedRun| missing.extend(run.living());
        for run in &self.runs {
            let living: usize = run.living().map(|segment| segment.rows()).sum();
            if 2 * living > run.rows() {
                kept.push(Arc::clone(run));
            } else {
                dissolve(run);
            }
        }
        if kept.len() >= RUNS_MAX {
            kept.sort_by_key(|run| run.rows());
            let rows: Vec<usize> = kept.iter().map(|run| run.rows()).collect();
            kept.drain(together(&rows)).for_each(|run| dissolve(&run));
        }
        kept
    }
}

/// Which of many runs are to be one, by the rows of each, ascending: the smallest that are of a size, so that a row is sorted anew
/// only into runs that are larger by a factor.
fn together(rows: &[usize]) -> Range<usize> {
    for start in 0..rows.len() {
        let (mut end, mut all) = (start, 0_usize);
        while end < rows.len() && (end == start || rows[end] < TOGETHER_FACTOR * all) {
            all += rows[end];
            end += 1;
        }
        if end - start > 1 {
            return start..end;
        }
    }
    0..rows.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_into_larger_runs_only() {
        let (mut runs, mut sorted) = (vec![500_000], 0);
        let versions = 20_000;
        for _ in 0..versions {
            if runs.len() >= RUNS_MAX {
                runs.sort_unstable();
                let all = runs.drain(together(&runs)).sum::<usize>();
                sorted += all;
                runs.push(all);
            }
            runs.push(1);
            assert!(runs.len() <= RUNS_MAX);
        }
        assert!(sorted < 16 * versions, "{sorted} rows were sorted for {versions}");
    }
}
