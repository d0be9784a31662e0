//! The rows that a sort wants first, where an index has them in its order: `WHERE tenant = 5 AND id > 100 ORDER BY id LIMIT 20`
//! looks at twenty rows, however many pass.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use datafusion::common::{Result, ScalarValue};

use super::exec::ScanExec;
use super::selection::Selector;
use crate::index::{
    Constraint, Declared, InOrder, IndexData, IndexReader, KeyRange, Searches, rows_worth, scanned_rows_for,
};

/// Rows looked at before it is asked whether they are enough, at least.
pub(super) const STEP: usize = 32;
/// Where another index finds at most so many times what is wanted, those are read and sorted.
const FOUND_MAX: usize = 4;

/// How often so many rows are looked at as are wanted, where nothing is known.
const STEPS_EXPECTED: usize = 4;

/// What a sort that keeps its first rows wants of a scan.
#[derive(Clone, Copy, Debug)]
pub struct First {
    /// The table's column that is the first key.
    pub column: usize,
    pub options: SortOptions,
    pub rows: usize,
}

/// Rows of an index in a sort's order.
pub(super) struct Ordered {
    reader: Arc<IndexReader>,
    range: KeyRange,
    /// The values of the columns before the sort's.
    prefix: Vec<ArrayRef>,
    first: First,
    /// Whether the table has rows that the index does not have, since they are NULL. They come behind the others.
    pub lacks_nulls: bool,
    /// More rows are not worth it.
    pub looked_at_max: usize,
}

impl Ordered {
    pub fn rows(&self) -> InOrder {
        InOrder::new(&self.reader, &self.range, self.first.options.descending)
    }
}

/// An index that has rows in a sort's order: among those that have one value in each column before the sort's.
struct Candidate<'a> {
    index: &'a Declared<'a>,
    prefix: Vec<&'a ScalarValue>,
}

impl ScanExec {
    /// What the sort above keeps, and the index that may have it in its order.
    pub(super) fn first_by_index(&self) -> Option<(First, String)> {
        let (column, top) = self.top.as_ref().filter(|(_, top)| !top.in_order)?;
        let searches = self.searches();
        let Candidate { index, .. } = candidate(&searches, *column)?;
        let first = First {
            column: *column,
            options: top.options,
            rows: top.rows,
        };
        Some((first, index.name.to_owned()))
    }

    /// Whether an index is expected to give the rows that the sort above wants for much less than reading the table.
    pub fn expects_first_by_index(&self) -> bool {
        let passing = self.statistics.num_rows.get_value().copied();
        let passing = passing.unwrap_or(usize::MAX);
        self.first_by_index()
            .is_some_and(|(first, _)| passing >= scanned_rows_for(first.rows))
    }

    /// Rows that the CPU reads one after the other in the time that it takes for the rows that it looks at.
    pub fn rows_worth(&self) -> u64 {
        let rows = self.table.rows();
        let found = match (self.first_by_index(), &self.index, &self.addressed) {
            (Some((first, _)), _, _) => STEPS_EXPECTED * first.rows.max(STEP),
            (_, Some(index), _) => index.rows,
            (_, _, Some(addressed)) => addressed.len(),
            _ => return rows,
        };
        rows.min(scanned_rows_for(found) as u64)
    }

    fn searches(&self) -> Searches<'_> {
        Searches::of(&self.table, self.full_schema(), self.given())
    }

    /// The rows that pass its filters, and others, in a sort's order, by an index. None where reading the table is expected to
    /// cost less. `builds`: an index that is not there yet is built.
    pub(super) fn ordered(&self, first: First, builds: bool) -> Result<Option<Ordered>> {
        let Some(budget) = &self.index_budget else {
            return Ok(None);
        };
        let scanned_rows = usize::try_from(self.table.rows()).unwrap_or(usize::MAX);
        let looked_at_max = rows_worth(scanned_rows);
        let found_max = FOUND_MAX * first.rows.max(STEP);
        let is_found = self.index.as_ref().is_some_and(|index| index.rows <= found_max);
        if self.limit.is_some() || self.addressed.is_some() || is_found || first.rows > looked_at_max {
            return Ok(None);
        }
        let searches = self.searches();
        let Some(Candidate { index, prefix }) = candidate(&searches, first.column) else {
            return Ok(None);
        };
        let own = searches.found.get(&first.column);
        // A column's NULLs are in the index only behind another column, and there as the largest.
        let mut segments = self.table.segments().iter();
        let has_nulls = own.is_none() && segments.any(|segment| segment.statistics(first.column).null_count > 0);
        let nulls_are_last = !first.options.nulls_first;
        let nulls_are_behind = match prefix.is_empty() {
            true => nulls_are_last,
            false => nulls_are_last != first.options.descending,
        };
        if has_nulls && !nulls_are_behind {
            return Ok(None);
        }
        // Where memory is short the scan does without.
        let reader = match IndexData::ready(&self.table, index) {
            Some(ready) => Ok(Some(ready)),
            None if builds || IndexData::is_in_use(index) => {
                IndexData::reader_for(&self.table, index, scanned_rows, budget)
            }
            None => return Ok(None),
        };
        let Ok(Some(reader)) = reader else {
            return Ok(None);
        };
        let prefix = prefix
            .into_iter()
            .map(ScalarValue::to_array)
            .collect::<Result<Vec<_>>>()?;
        let bound = |value: Option<ScalarValue>| value.as_ref().map(ScalarValue::to_array).transpose();
        let (low, high) = own.and_then(|own| own.covering()).unwrap_or_default();
        let (low, high) = (bound(low)?, bound(high)?);
        let range = reader.encoding().range(&prefix, low.as_ref(), high.as_ref())?;
        // As many as are expected to be looked at before enough pass.
        let expected = match self.statistics.num_rows.get_value() {
            Some(passing) if !self.filters().is_empty() => {
                first.rows.saturating_mul(reader.count(std::slice::from_ref(&range))) / passing.max(&1)
            }
            _ => first.rows,
        };
        Ok((expected <= looked_at_max).then(|| Ordered {
            reader,
            range,
            lacks_nulls: has_nulls && prefix.is_empty(),
            prefix,
            first,
            looked_at_max,
        }))
    }

    /// Rows among which are those that a sort wants whose rows are all the scan's, as segment and row number, in the table's
    /// order. None where an index does not have them among the first `looked_at_max` rows. `ties`: rows whose first key is the
    /// same may be told apart by other keys.
    pub(super) fn first_rows(&self, first: First, ties: bool, looked_at_max: usize) -> Result<Option<Vec<(u32, u32)>>> {
        let ordered = match self.runtime().is_empty() {
            true => self.ordered(first, false)?,
            false => None,
        };
        let Some(mut ordered) = ordered else {
            return Ok(None);
        };
        ordered.looked_at_max = ordered.looked_at_max.min(looked_at_max);
        let search = Search {
            scan: self,
            ordered,
            ties,
        };
        let rows = search.run()?;
        if let Some(found) = &rows {
            // Those that it does not have may be wanted, too.
            if search.ordered.lacks_nulls && found.len() < first.rows {
                return Ok(None);
            }
            self.table.definition().usage.looked_up(1, found.len());
        }
        Ok(rows)
    }
}

/// The index with the longest prefix of parts that have one value each before the sort's.
fn candidate<'a>(searches: &'a Searches<'_>, column: usize) -> Option<Candidate<'a>> {
    let point = |part: &usize| match searches.found.get(part)? {
        Constraint::Points(values) => match &values[..] {
            [value] => Some(value),
            _ => None,
        },
        Constraint::Range(..) | Constraint::Ranges(_) => None,
    };
    let of = |(index, parts): &'a (Declared<'_>, Vec<usize>)| {
        let at = parts.iter().position(|own| *own == column)?;
        let prefix = parts[..at].iter().map(point).collect::<Option<Vec<_>>>()?;
        Some(Candidate { index, prefix })
    };
    let candidates = searches.indexes.iter().filter_map(of);
    candidates.max_by_key(|candidate| candidate.prefix.len())
}

struct Search<'a> {
    scan: &'a ScanExec,
    ordered: Ordered,
    ties: bool,
}

impl Search<'_> {
    fn run(&self) -> Result<Option<Vec<(u32, u32)>>> {
        let mut selector = Selector::new(Arc::clone(self.scan.filters()), vec![]);
        let mut rows = self.ordered.rows();
        // In the index's order.
        let mut passing: Vec<(u32, u32)> = vec![];
        let mut looked_at = 0;
        let mut step = self.ordered.first.rows.max(STEP);
        loop {
            let next: Vec<_> = rows.by_ref().take(step).collect();
            let Some(last) = next.last().copied() else {
                break;
            };
            looked_at += next.len();
            self.select(&mut selector, next, &mut passing)?;
            if self.is_enough(&passing, last)? {
                break;
            }
            if looked_at >= self.ordered.looked_at_max {
                return Ok(None);
            }
            step = (2 * step).min(self.ordered.looked_at_max - looked_at);
        }
        passing.sort_unstable();
        Ok(Some(passing))
    }

    /// Appends those of `rows` that pass the scan's filters, in the order that they have.
    fn select(&self, selector: &mut Selector, rows: Vec<(u32, u32)>, passing: &mut Vec<(u32, u32)>) -> Result<()> {
        if self.scan.filters().is_empty() {
            passing.extend(rows);
            return Ok(());
        }
        let segments = self.scan.table().segments();
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        let mut passed = vec![];
        for of_segment in sorted.chunk_by(|(segment, _), (next, _)| segment == next) {
            let number = of_segment[0].0;
            let segment = &segments[number as usize];
            if selector.enter(segment) {
                let (among, mut selected) = (of_segment.iter().map(|(_, row)| *row).collect(), vec![]);
                selector.select_among(segment, among, &mut selected)?;
                passed.extend(selected.into_iter().map(|row| (number, row)));
            }
        }
        passing.extend(rows.into_iter().filter(|row| passed.binary_search(row).is_ok()));
        Ok(())
    }

    /// Whether no row behind `last` can be among the first.
    fn is_enough(&self, passing: &[(u32, u32)], last: (u32, u32)) -> Result<bool> {
        let Some(at) = self.ordered.first.rows.checked_sub(1) else {
            return Ok(true);
        };
        let Some(worst) = passing.get(at) else {
            return Ok(false);
        };
        Ok(!self.ties || self.key(*worst)? != self.key(last)?)
    }

    /// What the index has of a row's first key, and of the columns before it.
    fn key(&self, (segment, row): (u32, u32)) -> Result<KeyRange> {
        let Ordered {
            reader, prefix, first, ..
        } = &self.ordered;
        let segment = &self.scan.table().segments()[segment as usize];
        let mut key = prefix.clone();
        key.push(segment.column_slice(first.column, row as usize, 1));
        reader.encoding().range(&key, None, None)
    }
}
