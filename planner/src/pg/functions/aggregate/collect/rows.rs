//! Rows kept until their groups are complete: for aggregates whose result is all of their input.
//!
//! Layout: the batches as they came (a column for the value and one for each sort key), compacted so that they own what
//! they hold, and beside each batch the pairs (group, row) of the rows that count. At the end a counting sort brings the
//! pairs into the order of groups, and each group's rows into theirs. Strings stay where they are: only their views move.
//! Rows that DISTINCT drops are dropped whenever the rows have doubled, by a sort.

use super::codes::codes;
use super::sort::sort_by;
use crate::pg::bounds;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, LargeBinaryArray, UInt32Array, new_empty_array,
};
use datafusion::arrow::compute::{LexicographicalComparator, SortColumn, SortOptions, interleave, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use std::cmp::Ordering;
use std::sync::Arc;
use tenon_executor::memory_size::{array_bytes, compacted};
use tenon_storage::numeric::compare_key;
use tenon_storage::types::NUMERIC;

/// Where a row lies: the number of its batch, and the row there.
type Place = (usize, usize);

/// Rows below which it is not worth looking for repeated ones.
const DISTINCT_ROWS_MIN: usize = 64 * 1024;

/// A row with its code, and once more while two sorted parts are merged.
const CODED_BYTES: usize = size_of::<(u64, u32)>() * 3 / 2;

#[derive(Debug)]
pub(in crate::pg::functions::aggregate) struct GroupedRows {
    order: Order,
    /// Of the value and the sort keys.
    types: Vec<DataType>,
    batches: Vec<Batch>,
    rows: usize,
    groups: usize,
    /// What `batches` hold.
    bytes: usize,
    /// What their columns take once more where they are gathered.
    copied_bytes: usize,
    /// The values alone.
    value_bytes: usize,
    /// Look for repeated rows at so many.
    distinct_at: usize,
}

#[derive(Debug, Clone, Default)]
pub(in crate::pg::functions::aggregate) struct Order {
    /// Of each sort key. With DISTINCT, of the value itself.
    pub keys: Vec<SortOptions>,
    pub distinct: bool,
}

#[derive(Debug)]
struct Batch {
    columns: Vec<ArrayRef>,
    /// (group, row).
    entries: Vec<(u32, u32)>,
    column_bytes: usize,
}

impl Batch {
    /// Of columns that own what they refer to.
    fn compacted(columns: &[ArrayRef], entries: Vec<(u32, u32)>) -> Result<Self> {
        let columns = columns.iter().map(compacted).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            column_bytes: columns.iter().map(|column| column.get_array_memory_size()).sum(),
            columns,
            entries,
        })
    }

    /// Of the rows that `entries` name, and no more.
    fn picked(columns: &[ArrayRef], entries: Vec<(u32, u32)>) -> Result<Self> {
        let rows = UInt32Array::from_iter_values(entries.iter().map(|(_, row)| *row));
        let columns = columns.iter().map(|column| Ok(take(column, &rows, None)?));
        let entries = entries.iter().zip(0..).map(|((group, _), row)| (*group, row));
        Self::compacted(&columns.collect::<Result<Vec<_>>>()?, entries.collect())
    }

    /// (group, row) of the rows of the first `groups` groups.
    fn before(&self, groups: usize) -> impl Iterator<Item = (usize, usize)> {
        let entries = self.entries.iter().map(|(group, row)| (*group as usize, *row as usize));
        entries.filter(move |(group, _)| *group < groups)
    }

    fn held_bytes(&self) -> usize {
        self.column_bytes + self.entries.capacity() * size_of::<(u32, u32)>()
    }
}

/// Bytes of what `interleave` makes of a column: of views only the views.
fn gathered_bytes(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8View | DataType::BinaryView => column.len() * (size_of::<u128>() + 1),
        _ => array_bytes(column),
    }
}

/// All rows of some groups, group by group.
pub(in crate::pg::functions::aggregate) struct Gathered {
    /// The value and, if asked for, the sort keys.
    pub columns: Vec<ArrayRef>,
    /// Where each group begins, and where the last one ends.
    pub offsets: Vec<usize>,
}

impl GroupedRows {
    pub fn new(types: Vec<DataType>, order: Order) -> Self {
        Self {
            order,
            types,
            batches: vec![],
            rows: 0,
            groups: 0,
            bytes: 0,
            copied_bytes: 0,
            value_bytes: 0,
            distinct_at: DISTINCT_ROWS_MIN,
        }
    }

    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Keeps the rows of new input that `keeps` says; `groups[row]` is the group of a row.
    pub fn add(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        keeps: impl Fn(usize) -> bool,
        total: usize,
    ) -> Result<()> {
        let pairs = groups.iter().enumerate().filter(|(row, _)| keeps(*row));
        let mut entries = Vec::with_capacity(groups.len());
        entries.extend(pairs.map(|(row, group)| (*group as u32, row as u32)));
        let batch = match entries.len() * 2 < groups.len() {
            true => Batch::picked(columns, entries)?,
            false => Batch::compacted(columns, entries)?,
        };
        self.push(batch, total)
    }

    /// Keeps the rows of new input that `entries` name with their groups.
    pub fn add_picked(&mut self, columns: &[ArrayRef], entries: Vec<(u32, u32)>, total: usize) -> Result<()> {
        self.push(Batch::picked(columns, entries)?, total)
    }

    /// Keeps rows that come as they are, of groups that `entries` tell: what other accumulators have gathered.
    pub fn add_gathered(&mut self, columns: Vec<ArrayRef>, entries: Vec<(u32, u32)>, total: usize) -> Result<()> {
        let batch = Batch {
            column_bytes: columns.iter().map(|column| array_bytes(column)).sum(),
            columns,
            entries,
        };
        self.push(batch, total)
    }

    fn push(&mut self, batch: Batch, total: usize) -> Result<()> {
        self.groups = self.groups.max(total);
        if batch.entries.is_empty() {
            return Ok(());
        }
        self.rows += batch.entries.len();
        self.bytes += batch.held_bytes();
        self.copied_bytes += batch.columns.iter().map(gathered_bytes).sum::<usize>();
        self.value_bytes += array_bytes(&batch.columns[0]);
        self.batches.push(batch);
        if self.order.distinct && self.rows >= self.distinct_at {
            self.drop_repeated()?;
        }
        Ok(())
    }

    fn drop_repeated(&mut self) -> Result<()> {
        let groups = self.groups;
        let gathered = self.gather(groups, false)?;
        let entries = gathered.offsets.windows(2).enumerate();
        let entries = entries.flat_map(|(group, ends)| (ends[0]..ends[1]).map(move |row| (group as u32, row as u32)));
        let batch = Batch::compacted(&gathered.columns, entries.collect())?;
        self.clear();
        self.distinct_at = usize::MAX;
        self.push(batch, groups)?;
        self.distinct_at = (2 * self.rows).max(DISTINCT_ROWS_MIN);
        Ok(())
    }

    /// The rows of the first `groups` groups: in the order in which they came, or in that of the sort keys if `sorted`.
    /// The keys themselves are given only if not. DISTINCT always sorts, to find what repeats.
    pub fn gather(&self, groups: usize, sorted: bool) -> Result<Gathered> {
        let (mut places, mut offsets) = self.places(groups)?;
        let columns = 0..self.types.len();
        let sorted = sorted && !self.order.keys.is_empty();
        if !sorted && !self.order.distinct {
            let columns = columns.map(|at| self.column(at, &places)).collect::<Result<_>>()?;
            return Ok(Gathered { columns, offsets });
        }
        let keys = match self.order.distinct {
            true => 0..1,
            false => 1..self.types.len(),
        };
        let keys = keys.zip(&self.order.keys).map(|(at, options)| {
            Ok(SortColumn {
                values: by_key(self.column(at, &places)?),
                options: Some(*options),
            })
        });
        let positions = sort_groups(&keys.collect::<Result<Vec<_>>>()?, &mut offsets, self.order.distinct)?;
        places = positions.iter().map(|at| places[*at as usize]).collect();
        Ok(Gathered {
            columns: vec![self.column(0, &places)?],
            offsets,
        })
    }

    /// Every row of the first `groups` groups, group by group, and where the groups begin.
    fn places(&self, groups: usize) -> Result<(Vec<Place>, Vec<usize>)> {
        let mut offsets = vec![0; groups + 1];
        for batch in &self.batches {
            bounds::look()?;
            for (group, _) in batch.before(groups) {
                offsets[group + 1] += 1;
            }
        }
        for group in 0..groups {
            offsets[group + 1] += offsets[group];
        }
        if offsets[groups] > i32::MAX as usize {
            return exec_err!(
                "an aggregate has gathered {} rows, at most {} are supported",
                offsets[groups],
                i32::MAX
            );
        }
        let mut next = offsets.clone();
        let mut places = vec![(0, 0); offsets[groups]];
        for (at, batch) in self.batches.iter().enumerate() {
            bounds::look()?;
            for (group, row) in batch.before(groups) {
                places[next[group]] = (at, row);
                next[group] += 1;
            }
        }
        Ok((places, offsets))
    }

    fn column(&self, at: usize, places: &[(usize, usize)]) -> Result<ArrayRef> {
        if places.is_empty() {
            return Ok(new_empty_array(&self.types[at]));
        }
        let sources: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.columns[at].as_ref()).collect();
        Ok(interleave(&sources, places)?)
    }

    pub fn groups(&self) -> usize {
        self.groups
    }

    pub fn clear(&mut self) {
        self.batches = vec![];
        (self.rows, self.groups) = (0, 0);
        (self.bytes, self.copied_bytes, self.value_bytes) = (0, 0, 0);
    }

    /// Forgets the first `groups` groups; those after them move up.
    pub fn forget(&mut self, groups: usize) -> Result<()> {
        let left = self.groups - groups;
        let batches = std::mem::take(&mut self.batches);
        self.clear();
        for batch in batches {
            let pairs = batch.entries.iter().filter(|(group, _)| *group as usize >= groups);
            let pairs = pairs.map(|(group, row)| (group - groups as u32, *row)).collect();
            self.push(Batch::picked(&batch.columns, pairs)?, left)?;
        }
        self.groups = left;
        Ok(())
    }

    /// Bytes held, and those that `gather` will take besides: (batch, row) twice where it sorts, codes with their rows, and the
    /// columns again.
    pub fn bytes(&self) -> usize {
        let places = match self.order.distinct || !self.order.keys.is_empty() {
            true => 2 * size_of::<(usize, usize)>() + 2 * size_of::<u32>() + size_of::<u64>() + CODED_BYTES,
            false => size_of::<(usize, usize)>(),
        };
        self.bytes
            + self.batches.capacity() * size_of::<Batch>()
            + self.rows * places
            + self.copied_bytes
            + self.groups * 2 * size_of::<usize>()
    }

    /// The number of values and the bytes that they hold.
    pub fn values(&self) -> (usize, usize) {
        (self.rows, self.value_bytes)
    }
}

/// Numerics as what tells which of them are equal.
fn by_key(values: ArrayRef) -> ArrayRef {
    if *values.data_type() != NUMERIC {
        return values;
    }
    let keys = values.as_binary::<i64>().iter().map(|value| value.map(compare_key));
    Arc::new(LargeBinaryArray::from_iter(keys))
}

/// Positions of the rows of each group in the order of `keys`, equal rows as they came or, if `distinct`, only the first
/// of them; `offsets` then become those of what is left.
fn sort_groups(keys: &[SortColumn], offsets: &mut [usize], distinct: bool) -> Result<Vec<u32>> {
    if let [key] = keys
        && let Some(codes) = codes(key)?
    {
        let mut coded: Vec<(u64, u32)> = Vec::new();
        let compare = |a: u32, b: u32| codes[a as usize].cmp(&codes[b as usize]);
        return sorted_groups(offsets, distinct, compare, |rows| {
            coded.clear();
            coded.extend(rows.iter().map(|row| (codes[*row as usize], *row)));
            sort_by(&mut coded, |a, b| a.0.cmp(&b.0))?;
            rows.iter_mut()
                .zip(&coded)
                .for_each(|(row, (_, sorted))| *row = *sorted);
            Ok(())
        });
    }
    let order = LexicographicalComparator::try_new(keys)?;
    let compare = |a: u32, b: u32| order.compare(a as usize, b as usize);
    sorted_groups(offsets, distinct, compare, |rows| sort_by(rows, compare))
}

/// As `sort_groups`, by what compares two rows and what sorts those of a group.
fn sorted_groups(
    offsets: &mut [usize],
    distinct: bool,
    compare: impl Fn(u32, u32) -> Ordering,
    mut sort: impl FnMut(&mut [u32]) -> Result<()>,
) -> Result<Vec<u32>> {
    let mut positions = Vec::with_capacity(offsets.last().copied().unwrap_or_default());
    let mut start = 0;
    for end in &mut offsets[1..] {
        let from = positions.len();
        positions.extend(start as u32..*end as u32);
        start = *end;
        sort(&mut positions[from..])?;
        if distinct {
            let mut kept = from;
            for at in from..positions.len() {
                let repeats = at > from && compare(positions[kept - 1], positions[at]).is_eq();
                if !repeats {
                    positions[kept] = positions[at];
                    kept += 1;
                }
            }
            positions.truncate(kept);
        }
        *end = positions.len();
    }
    Ok(positions)
}

/// Whether a row counts: FILTER admits it, and it is not one of the NULLs that are passed over.
pub(super) fn keeps<'a>(
    value: &ArrayRef,
    filter: Option<&'a BooleanArray>,
    ignore_nulls: bool,
) -> impl Fn(usize) -> bool + use<'a> {
    let nulls = ignore_nulls.then(|| value.logical_nulls()).flatten();
    move |row| {
        filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
            && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }
}
