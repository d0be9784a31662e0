//! An index over one version of its table.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{Result, internal_err};
use foldhash::HashMap;
use tenon_storage::{Live, Segment};

use super::encoding::{EncodedKeys, KeyEncoding, KeyRange};
use super::run::{ROW_BITS, SortedRun, row_of};

/// Stands for a segment that the version does not have.
const ABSENT: u32 = u32::MAX;

/// Finds the rows of a version of a table by their keys.
#[derive(Debug)]
pub struct IndexReader {
    encoding: KeyEncoding,
    parts: Vec<Part>,
}

/// A run, as the version has its segments.
#[derive(Debug)]
pub(super) struct Part {
    run: Arc<SortedRun>,
    /// The table's number of each segment of the run, or `ABSENT`.
    segments: Vec<u32>,
    /// Which rows of each are left, where some are gone.
    live: Vec<Option<Arc<Live>>>,
}

impl Part {
    pub(super) fn run(&self) -> &SortedRun {
        &self.run
    }

    /// The row at a place; None where it is gone.
    pub(super) fn row(&self, place: usize) -> Option<(u32, u32)> {
        let location = self.run.locations()[place];
        let of_run = (location >> ROW_BITS) as usize;
        let (segment, row) = (self.segments[of_run], row_of(location));
        if segment == ABSENT {
            return None;
        }
        let row = match &self.live[of_run] {
            Some(live) => live.rank(row)?,
            None => row,
        };
        Some((segment, row as u32))
    }
}

impl IndexReader {
    /// `runs` cover all of the table's `segments`.
    pub(super) fn new(runs: &[Arc<SortedRun>], segments: &[Arc<Segment>], encoding: KeyEncoding) -> Self {
        let numbers: HashMap<u64, u32> = segments.iter().map(|segment| segment.whole_id()).zip(0..).collect();
        let part = |run: &Arc<SortedRun>| {
            let number = |(id, _): &(u64, _)| numbers.get(id).copied().unwrap_or(ABSENT);
            let of_run: Vec<u32> = run.segments().iter().map(number).collect();
            let live = of_run
                .iter()
                .map(|number| segments.get(*number as usize)?.live().cloned())
                .collect();
            let used = of_run.iter().any(|segment| *segment != ABSENT);
            used.then(|| Part {
                run: Arc::clone(run),
                live,
                segments: of_run,
            })
        };
        let parts = runs.iter().filter_map(part).collect();
        Self { encoding, parts }
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub fn encoding(&self) -> &KeyEncoding {
        &self.encoding
    }

    /// At least the number of rows whose keys are in the ranges; exact but for deleted rows and keys asked for twice.
    pub fn count(&self, ranges: &[KeyRange]) -> usize {
        let of_part = |part: &Part| ranges.iter().map(|range| part.run.places(range).len()).sum::<usize>();
        self.parts.iter().map(of_part).sum()
    }

    /// The rows whose keys are in the ranges, each once: segment and row number, in the table's order.
    pub fn rows(&self, ranges: &[KeyRange]) -> Vec<(u32, u32)> {
        let mut rows = Vec::new();
        for range in ranges {
            self.visit(range, |segment, row| rows.push((segment, row)));
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Gives each row whose key is in the range: segment and row number, in no order.
    pub fn visit(&self, range: &KeyRange, mut take: impl FnMut(u32, u32)) {
        for part in &self.parts {
            part.run
                .places(range)
                .filter_map(|place| part.row(place))
                .for_each(|(segment, row)| take(segment, row));
        }
    }

    /// Gives for each probe, by its number, the rows whose key begins with it. `probes` are the first columns of the key,
    /// or all; a probe with a NULL finds nothing. Words go down each tree together, so that their cache misses overlap.
    /// An error of `take` ends it.
    pub fn equal_rows(&self, probes: &[ArrayRef], mut take: impl FnMut(usize, u32, u32) -> Result<()>) -> Result<()> {
        let valid = crate::keys::all_valid(probes);
        let is_valid = |number: usize| valid.as_ref().is_none_or(|valid| valid.is_valid(number));
        if !self.encoding.is_word() {
            for (number, prefix) in self.encoding.prefixes(probes)?.into_iter().enumerate() {
                let range = KeyRange::beginning_with(prefix);
                for part in self.parts.iter().filter(|_| is_valid(number)) {
                    let mut rows = part.run.places(&range).filter_map(|place| part.row(place));
                    rows.try_for_each(|(segment, row)| take(number, segment, row))?;
                }
            }
            return Ok(());
        }
        let EncodedKeys::Words(probes) = self.encoding.encode(probes)? else {
            return internal_err!("an index of words encodes bytes");
        };
        let mut places = vec![0; probes.len()];
        for part in &self.parts {
            part.run.lower_bounds(&probes, &mut places);
            let words = part.run.words();
            for (number, (probe, place)) in probes.iter().zip(&places).enumerate() {
                let from = *place as usize;
                if !is_valid(number) {
                    continue;
                }
                let equal = words[from..].iter().take_while(|word| *word == probe).count();
                let mut rows = (from..from + equal).filter_map(|place| part.row(place));
                rows.try_for_each(|(segment, row)| take(number, segment, row))?;
            }
        }
        Ok(())
    }
}
