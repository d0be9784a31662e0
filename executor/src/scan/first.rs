//! The rows that a sort wants first, where an index has them in its order: `WHERE tenant = 5 AND id > 100 ORDER BY id LIMIT 20`
//! looks at twenty rows, however many pass.

use arrow::compute::SortOptions;
use datafusion::common::{Result, ScalarValue};
use std::sync::Arc;

use super::exec::ScanExec;
use super::selection::Selector;
use crate::index::{Constraint, Declared, IndexData, IndexReader, KeyRange, Searches, rows_worth};

/// Rows looked at between two looks at how many pass, at least.
const STEP: usize = 32;
/// Where another index finds at most so many times what is wanted, those are read and sorted.
const FOUND_MAX: usize = 4;

/// What a sort that keeps its first rows wants of a scan, each row of which is a row of the sort.
#[derive(Clone, Copy, Debug)]
pub struct First {
    /// The table's column that is the first key.
    pub column: usize,
    pub options: SortOptions,
    pub rows: usize,
    /// Whether rows whose first key is the same may be told apart by other keys.
    pub ties: bool,
}

/// An index that has rows in a sort's order: among those that have one value in each column before the sort's.
struct Ordered<'a> {
    index: &'a Declared<'a>,
    prefix: Vec<&'a ScalarValue>,
}

impl ScanExec {
    /// What the sort above keeps, and the index that may have it, where each row of the scan is a row of the sort.
    pub(super) fn first_by_index(&self) -> Option<(First, String)> {
        let (column, top) = self.top.as_ref().filter(|(_, top)| top.is_direct)?;
        let searches = self.searches();
        let Ordered { index, .. } = ordered(&searches, *column)?;
        let first = First {
            column: *column,
            options: top.options,
            rows: top.rows,
            ties: top.ties,
        };
        Some((first, index.name.to_owned()))
    }

    fn searches(&self) -> Searches<'_> {
        Searches::of(&self.table, self.full_schema(), self.given())
    }

    /// Rows among which are those that the sort wants, as segment and row number, in the table's order: found by an index, at
    /// most `looked_at_max` of whose rows are looked at. None where that is not to be had for less than reading the table.
    /// `builds`: an index that is not there yet is built.
    pub(super) fn first_rows(
        &self,
        first: First,
        looked_at_max: usize,
        builds: bool,
    ) -> Result<Option<Vec<(u32, u32)>>> {
        let Some(budget) = &self.index_budget else {
            return Ok(None);
        };
        let plain = self.limit.is_none() && self.addressed.is_none() && self.runtime().is_empty();
        let scanned_rows = usize::try_from(self.table.rows()).unwrap_or(usize::MAX);
        let looked_at_max = looked_at_max.min(rows_worth(scanned_rows));
        let found_max = FOUND_MAX * first.rows.max(STEP);
        let is_found = self.index.as_ref().is_some_and(|index| index.rows <= found_max);
        if !plain || is_found || first.rows > looked_at_max {
            return Ok(None);
        }
        let searches = self.searches();
        let Some(Ordered { index, prefix }) = ordered(&searches, first.column) else {
            return Ok(None);
        };
        let own = searches.found.get(&first.column);
        // A column's NULLs are in the index only behind another column, and there as the largest.
        let has_nulls = own.is_none()
            && self
                .table
                .segments()
                .iter()
                .any(|segment| segment.statistics(first.column).null_count > 0);
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
        let bound = |value: &Option<ScalarValue>| value.as_ref().map(ScalarValue::to_array).transpose();
        let range = match own {
            Some(Constraint::Range(low, high)) => {
                reader
                    .encoding()
                    .range(&prefix, bound(low)?.as_ref(), bound(high)?.as_ref())?
            }
            _ => reader.encoding().range(&prefix, None, None)?,
        };
        // As many as are expected to be looked at before enough pass.
        let expected = match self.statistics.num_rows.get_value() {
            Some(passing) if !self.filters().is_empty() => {
                first.rows.saturating_mul(reader.count(std::slice::from_ref(&range))) / passing.max(&1)
            }
            _ => first.rows,
        };
        if expected > looked_at_max {
            return Ok(None);
        }
        let search = Search {
            scan: self,
            reader: &reader,
            prefix,
            first,
            looked_at_max,
        };
        let rows = search.run(&range)?;
        if let Some(found) = &rows {
            // Those that it does not have may be wanted, too.
            if has_nulls && search.prefix.is_empty() && found.len() < first.rows {
                return Ok(None);
            }
            self.table.definition().usage.looked_up(1, found.len());
        }
        Ok(rows)
    }
}

/// The index with the longest prefix of parts that have one value each before the sort's.
fn ordered<'a>(searches: &'a Searches<'_>, column: usize) -> Option<Ordered<'a>> {
    let point = |part: &usize| match searches.found.get(part)? {
        Constraint::Points(values) => match &values[..] {
            [value] => Some(value),
            _ => None,
        },
        Constraint::Range(..) => None,
    };
    let of = |(index, parts): &'a (Declared<'_>, Vec<usize>)| {
        let at = parts.iter().position(|own| *own == column)?;
        let prefix = parts[..at].iter().map(point).collect::<Option<Vec<_>>>()?;
        Some(Ordered { index, prefix })
    };
    searches
        .indexes
        .iter()
        .filter_map(of)
        .max_by_key(|ordered| ordered.prefix.len())
}

struct Search<'a> {
    scan: &'a ScanExec,
    reader: &'a Arc<IndexReader>,
    prefix: Vec<arrow::array::ArrayRef>,
    first: First,
    looked_at_max: usize,
}

impl Search<'_> {
    fn run(&self, range: &KeyRange) -> Result<Option<Vec<(u32, u32)>>> {
        let mut selector = Selector::new(Arc::clone(self.scan.filters()), vec![]);
        let mut rows = self.reader.in_order(range, self.first.options.descending);
        // In the index's order.
        let mut passing: Vec<(u32, u32)> = vec![];
        let mut looked_at = 0;
        let mut step = self.first.rows.max(STEP);
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
            if looked_at >= self.looked_at_max {
                return Ok(None);
            }
            step = (2 * step).min(self.looked_at_max - looked_at);
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
        let Some(at) = self.first.rows.checked_sub(1) else {
            return Ok(true);
        };
        let Some(worst) = passing.get(at) else {
            return Ok(false);
        };
        Ok(!self.first.ties || self.key(*worst)? != self.key(last)?)
    }

    /// What the index has of a row's first key, and of the columns before it.
    fn key(&self, (segment, row): (u32, u32)) -> Result<KeyRange> {
        let segment = &self.scan.table().segments()[segment as usize];
        let mut key = self.prefix.clone();
        key.push(segment.column_slice(self.first.column, row as usize, 1));
        self.reader.encoding().range(&key, None, None)
    }
}
