//! Runs of equal rows: where each ends, and one row for each in whatever form those get. A row's run is found by bisection.

use super::column::{ColumnData, Form};
use super::rows::RowSelection;
use arrow::array::*;
use arrow::buffer::ScalarBuffer;
use arrow::compute::take;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use std::ops::Range;
use std::sync::Arc;

/// A column as runs.
#[derive(Clone, Debug)]
pub struct RunLengthColumn {
    /// The row behind each run's last.
    ends: ScalarBuffer<u32>,
    /// A row for each run.
    values: Arc<ColumnData>,
}

/// What a column in runs is without them.
pub struct Expanded(ColumnData);

impl Expanded {
    pub fn form(&self) -> Form<'_> {
        self.0.form()
    }

    pub(super) fn data(&self) -> &ColumnData {
        &self.0
    }
}

impl RunLengthColumn {
    pub(super) fn new(ends: ScalarBuffer<u32>, values: ColumnData) -> Self {
        Self {
            ends,
            values: Arc::new(values),
        }
    }

    pub fn runs(&self) -> usize {
        self.ends.len()
    }

    fn rows(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    pub(super) fn values(&self) -> &ColumnData {
        &self.values
    }

    /// The form of one row for each run.
    pub fn values_form(&self) -> Form<'_> {
        self.values.form()
    }

    fn run_of(&self, row: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= row)
    }

    /// The runs that rows are in, and one row for each of them.
    pub fn within(&self, offset: usize, rows: usize) -> (Range<usize>, ArrayRef) {
        let runs = match rows {
            0 => 0..0,
            _ => self.run_of(offset)..self.run_of(offset + rows - 1) + 1,
        };
        let values = self.values.slice(runs.start, runs.len());
        (runs, values)
    }

    /// How many of the `rows` rows from `offset` are in each of `runs`.
    pub fn lengths(&self, runs: Range<usize>, offset: usize, rows: usize) -> impl Iterator<Item = usize> {
        let mut from = offset;
        self.ends[runs].iter().map(move |end| {
            let until = (*end as usize).min(offset + rows);
            let length = until - from;
            from = until;
            length
        })
    }

    /// Calls `each` with the run of each of `rows`, which it finds fast where rows ascend.
    pub fn each_run(&self, rows: impl Iterator<Item = u32>, mut each: impl FnMut(usize)) {
        let (mut run, mut of) = (0, 0..0);
        for row in rows {
            if !of.contains(&row) {
                let next = run + usize::from(!of.is_empty());
                let is_next = |run: usize| row >= of.end && self.ends.get(run).is_some_and(|end| row < *end);
                run = match is_next(next) {
                    true => next,
                    false => self.run_of(row as usize),
                };
                let start = run.checked_sub(1).map_or(0, |before| self.ends[before]);
                of = start..self.ends[run];
            }
            each(run);
        }
    }

    pub(super) fn decode(&self, rows: RowSelection<'_>) -> ArrayRef {
        let (values, index) = match rows {
            RowSelection::Run { offset, rows } => {
                let (runs, values) = self.within(offset, rows);
                let mut index = Vec::with_capacity(rows);
                for (at, length) in self.lengths(runs, offset, rows).enumerate() {
                    index.resize(index.len() + length, at as u32);
                }
                (values, index)
            }
            RowSelection::Picked(picked) => self.picked(picked.iter().copied(), picked.len()),
            RowSelection::Runs(runs) => {
                let rows = runs.iter().flat_map(|run| run.start as u32..run.end as u32);
                self.picked(rows, runs.rows())
            }
        };
        of_index(&values, index)
    }

    /// The values of the runs that rows are in, and which of them is each row's.
    fn picked(&self, rows: impl Iterator<Item = u32>, count: usize) -> (ArrayRef, Vec<u32>) {
        let (mut runs, mut index) = (Vec::<u32>::new(), Vec::with_capacity(count));
        self.each_run(rows, |run| {
            if runs.last() != Some(&(run as u32)) {
                runs.push(run as u32);
            }
            index.push(runs.len() as u32 - 1);
        });
        let values = self.values.take(&runs.into()).expect("runs are within the column");
        (values, index)
    }

    /// The column in the form of its values, a row for each row: in memory of its own.
    pub fn expanded(&self) -> Expanded {
        let mut index = Vec::with_capacity(self.rows());
        for (run, length) in self.lengths(0..self.runs(), 0, self.rows()).enumerate() {
            index.resize(index.len() + length, run as u32);
        }
        Expanded(match self.values.as_ref() {
            ColumnData::Narrow(values) => ColumnData::Narrow(values.picked(&index)),
            ColumnData::Dictionary(values) => ColumnData::Dictionary(values.picked(&index)),
            values => ColumnData::Plain(of_index(&values.slice(0, self.runs()), index)),
        })
    }

    /// Bytes that the column would take if it were kept as its arrays are, without its validity.
    pub(super) fn plain_bytes(&self) -> usize {
        let rows = self.rows();
        let views = rows * size_of::<u128>();
        let long = |values: &[u32]| {
            let lengths = values.windows(2).map(|ends| (ends[1] - ends[0]) as usize);
            let long = lengths.map(|length| {
                if length > MAX_INLINE_VIEW_LEN as usize {
                    length
                } else {
                    0
                }
            });
            let of_runs = self.lengths(0..self.runs(), 0, rows);
            long.zip(of_runs).map(|(length, rows)| length * rows).sum::<usize>()
        };
        match (self.values.as_ref(), self.values.data_type()) {
            (ColumnData::Text(values), _) => views + long(values.offsets()),
            (_, DataType::Boolean) => rows.div_ceil(8),
            (_, DataType::FixedSizeBinary(width)) => rows * *width as usize,
            (_, data_type) => rows * data_type.primitive_width().unwrap_or(size_of::<u128>()),
        }
    }
}

/// The rows of `values` whose numbers `index` has.
fn of_index(values: &ArrayRef, index: Vec<u32>) -> ArrayRef {
    let index = UInt32Array::from(index);
    take(values, &index, None).expect("the rows of runs are within them")
}

/// Where runs start. None: there are more than `most`, or the type has none.
pub(super) fn starts(arrays: &[ArrayRef], most: usize) -> Option<Vec<u32>> {
    let mut found = Starts {
        starts: vec![],
        most,
        row: 0,
    };
    let mut before: Option<&ArrayRef> = None;
    for array in arrays.iter().filter(|array| !array.is_empty()) {
        let joined = before.is_some_and(|before| before.slice(before.len() - 1, 1) == array.slice(0, 1));
        before = Some(array);
        found.add(array, joined)?;
    }
    Some(found.starts)
}

/// The first row of each run, as `starts` gives them, as one array.
pub(super) fn values(arrays: &[ArrayRef], starts: &[u32]) -> Result<Vec<ArrayRef>, arrow::error::ArrowError> {
    let (mut values, mut first, mut left) = (vec![], 0, starts);
    for array in arrays {
        let until = first + array.len() as u32;
        let (own, rest) = left.split_at(left.partition_point(|start| *start < until));
        if !own.is_empty() {
            let rows: UInt32Array = own.iter().map(|start| start - first).collect::<Vec<_>>().into();
            values.push(take(array, &rows, None)?);
        }
        (first, left) = (until, rest);
    }
    Ok(values)
}

struct Starts {
    starts: Vec<u32>,
    most: usize,
    row: u32,
}

impl Starts {
    /// Adds the rows of an array, the first of which goes on with the last run where it is `joined`. None: there are too
    /// many runs.
    fn add(&mut self, array: &ArrayRef, joined: bool) -> Option<()> {
        match array.data_type() {
            DataType::Boolean => {
                let values = array.as_boolean().values().clone();
                self.scan(array, joined, |a, b| values.value(a) == values.value(b))
            }
            DataType::Utf8View => self.views::<StringViewType>(array, joined),
            DataType::BinaryView => self.views::<BinaryViewType>(array, joined),
            DataType::FixedSizeBinary(16) => self.fixed::<16>(array, joined),
            other => match other.primitive_width()? {
                1 => self.fixed::<1>(array, joined),
                2 => self.fixed::<2>(array, joined),
                4 => self.fixed::<4>(array, joined),
                8 => self.fixed::<8>(array, joined),
                16 => self.fixed::<16>(array, joined),
                _ => None,
            },
        }
    }

    /// Values that are equal where their bytes are: floats that only compare as equal stay apart.
    fn fixed<const WIDTH: usize>(&mut self, array: &ArrayRef, joined: bool) -> Option<()> {
        let data = array.to_data();
        let bytes = &data.buffers()[0].as_slice()[data.offset() * WIDTH..];
        let values = bytes.as_chunks::<WIDTH>().0;
        self.scan(array, joined, |a, b| values[a] == values[b])
    }

    fn views<T: ByteViewType>(&mut self, array: &ArrayRef, joined: bool) -> Option<()> {
        let values = array.as_byte_view::<T>();
        let views = values.views();
        self.scan(array, joined, |a, b| {
            // Equal lengths and first bytes; equal views are equal texts, and short ones only then.
            views[a] == views[b]
                || views[a] as u64 == views[b] as u64
                    && views[a] as u32 > MAX_INLINE_VIEW_LEN
                    && AsRef::<[u8]>::as_ref(values.value(a)) == AsRef::<[u8]>::as_ref(values.value(b))
        })
    }

    fn scan(&mut self, array: &ArrayRef, joined: bool, same: impl Fn(usize, usize) -> bool) -> Option<()> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        for row in 0..array.len() {
            let goes_on = match (row.checked_sub(1), nulls) {
                (None, _) => joined,
                (Some(before), None) => same(before, row),
                (Some(before), Some(nulls)) => match (nulls.is_valid(before), nulls.is_valid(row)) {
                    (true, true) => same(before, row),
                    (before, row) => before == row,
                },
            };
            if !goes_on {
                if self.starts.len() == self.most {
                    return None;
                }
                self.starts.push(self.row + row as u32);
            }
        }
        self.row += array.len() as u32;
        Some(())
    }
}
