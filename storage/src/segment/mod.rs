//! An immutable run of rows, column by column.

mod addresses;
mod altered;
mod build;
mod column;
pub mod dictionary;
mod live;
mod narrow;
mod nested;
mod restore;
mod rows;
mod run_length;
mod text;
mod views;

pub(crate) use build::is_encoded;
pub use column::{Codes, DictionaryColumn, Form, SegmentColumn};
pub use live::Live;
pub use narrow::{Differences, NarrowColumn};
pub(crate) use restore::{StoredColumn, StoredForm};
pub use rows::Runs;
pub use run_length::{Expanded, RunLengthColumn};
pub use text::TextColumn;

use crate::catalog::TableDefinition;
use crate::error::Result;
use crate::heap;
use crate::memory::MemoryBudget;
use crate::statistics::ColumnStatistics;
use addresses::Addresses;
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::{DataType, SchemaRef};
use column::ColumnData;
use dictionary::Dictionary;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Most rows that a segment holds. Larger ones would make loads keep more parsed rows aside, changes copy more rows and
/// minima and maxima exclude less; smaller ones make the buffers too short for fast copies to a device.
pub const SEGMENT_ROWS_MAX: usize = 1 << 17;

/// A segment is built before it has its full number of rows where they take more than this, bytes.
const SEGMENT_BYTES_MAX: usize = 256 << 20;
/// And before that where it is more than such a part of what statements may hold: they hold the rows until then. It is never
/// built of less than so many bytes.
const SEGMENT_PART: usize = 16;
const SEGMENT_BYTES_MIN: usize = 4 << 20;

/// What the rows of a segment may take before it is built.
pub(crate) fn segment_bytes_max() -> usize {
    (heap::limit_bytes() / SEGMENT_PART).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Rows of one table, never changed. The memory of its columns is accounted until the last array made of it is dropped.
#[derive(Debug)]
pub struct Segment {
    id: u64,
    rows: usize,
    /// None where it is a whole segment without some rows.
    columns: Vec<SegmentColumn>,
    bytes: usize,
    without: Option<Without>,
    addresses: Addresses,
}

/// A whole segment of which some rows are left.
#[derive(Debug)]
struct Without {
    whole: Arc<Segment>,
    live: Arc<Live>,
    /// One a column, made when they are asked for.
    statistics: Vec<OnceLock<ColumnStatistics>>,
    /// The rows left of a column as it would be if it had no others, made for who reads columns as they are kept.
    settled: Vec<OnceLock<SegmentColumn>>,
}

impl Segment {
    /// Builds a segment of `rows` rows: `columns` holds for each column of the table its arrays in order, which have
    /// the table's type, and `dictionaries` the dictionary of each column that may be coded.
    pub(crate) fn build(
        columns: &[Vec<&ArrayRef>],
        dictionaries: &[Option<Arc<Dictionary>>],
        rows: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Arc<Segment>> {
        let columns = build::build(columns, dictionaries, rows, budget)?;
        Ok(Segment::of(new_id(), rows, columns))
    }

    /// `build` of rows that a store has under this number, which becomes the segment's again.
    pub(crate) fn restore(
        id: u64,
        columns: &[Vec<&ArrayRef>],
        dictionaries: &[Option<Arc<Dictionary>>],
        rows: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Arc<Segment>> {
        let columns = build::build(columns, dictionaries, rows, budget)?;
        Ok(Segment::of(id, rows, columns))
    }

    fn of(id: u64, rows: usize, (columns, bytes): (Vec<SegmentColumn>, usize)) -> Arc<Segment> {
        Arc::new(Segment {
            id,
            rows,
            columns,
            bytes,
            without: None,
            addresses: Addresses::new(rows),
        })
    }

    /// `restore` of columns as a store has them, for a table with columns of these types.
    pub(crate) fn restore_stored(
        id: u64,
        columns: &[StoredColumn],
        data_types: &[DataType],
        dictionaries: &[Option<Arc<Dictionary>>],
        rows: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Arc<Segment>> {
        let columns = build::restore(columns, data_types, dictionaries, rows, budget)?;
        Ok(Segment::of(id, rows, columns))
    }

    /// The rows of a whole segment that are left, sharing its columns.
    pub(crate) fn left(whole: &Arc<Segment>, live: Arc<Live>) -> Arc<Segment> {
        debug_assert!(whole.without.is_none() && live.all_rows() == whole.rows);
        let each = whole.columns.len();
        Arc::new(Segment {
            id: new_id(),
            rows: live.rows(),
            columns: Vec::new(),
            bytes: whole.bytes + live.bytes(),
            without: Some(Without {
                whole: whole.clone(),
                live,
                statistics: (0..each).map(|_| OnceLock::new()).collect(),
                settled: (0..each).map(|_| OnceLock::new()).collect(),
            }),
            addresses: whole.addresses.clone(),
        })
    }

    /// The segment of which this one has some rows: itself where none was removed.
    pub fn whole(self: &Arc<Self>) -> &Arc<Segment> {
        self.without.as_ref().map_or(self, |without| &without.whole)
    }

    /// Names the whole segment.
    pub fn whole_id(&self) -> u64 {
        self.without.as_ref().map_or(self.id, |without| without.whole.id)
    }

    /// Which rows of the whole segment are left; None: all.
    pub fn live(&self) -> Option<&Arc<Live>> {
        self.without.as_ref().map(|without| &without.live)
    }

    /// A column as it is kept, in so many rows.
    fn kept(&self, column: usize) -> &SegmentColumn {
        match &self.without {
            None => &self.columns[column],
            Some(without) => without.settled[column].get_or_init(|| {
                let own = &without.whole.columns[column];
                SegmentColumn {
                    data: own.data.left(&without.live),
                    statistics: Arc::new(self.statistics(column).clone()),
                    bytes: own.bytes,
                }
            }),
        }
    }

    /// The same where it is there without any work.
    fn at_hand(&self, column: usize) -> Option<&SegmentColumn> {
        match &self.without {
            None => self.columns.get(column),
            Some(without) => without.settled[column].get(),
        }
    }

    /// Unique in the process: names the segment in caches.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of memory held, statistics and dictionaries excluded.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn own_or_whole(&self, column: usize) -> &SegmentColumn {
        let whole = self.without.as_ref().map_or(self, |without| &without.whole);
        &whole.columns[column]
    }

    /// Bytes of memory that one column holds, its statistics and dictionary excluded.
    pub fn column_bytes(&self, column: usize) -> usize {
        self.own_or_whole(column).bytes
    }

    /// Bytes that the column would take if it were kept as its arrays are.
    pub fn plain_bytes(&self, column: usize) -> usize {
        match self.at_hand(column) {
            Some(own) => own.plain_bytes(self.rows),
            None => self
                .own_or_whole(column)
                .plain_bytes(self.own_or_whole(column).statistics.rows as usize),
        }
    }

    /// The form that a column is kept in, in a word or two.
    pub fn encoding(&self, column: usize) -> &'static str {
        self.own_or_whole(column).encoding()
    }

    /// The type of a column.
    pub(crate) fn data_type(&self, column: usize) -> &DataType {
        self.own_or_whole(column).data.data_type()
    }

    pub fn columns(&self) -> usize {
        self.without
            .as_ref()
            .map_or(self.columns.len(), |without| without.whole.columns.len())
    }

    /// The whole column in its table type, made anew at every call where it is kept in another form.
    pub fn column(&self, column: usize) -> ArrayRef {
        self.column_slice(column, 0, self.rows)
    }

    /// `rows` rows of the column from `offset`, likewise.
    pub fn column_slice(&self, column: usize, offset: usize, rows: usize) -> ArrayRef {
        match (self.at_hand(column), &self.without) {
            (None, Some(without)) => {
                let stretches = without.live.stretches(offset, rows);
                without.whole.columns[column].data.of_stretches(&stretches)
            }
            _ => self.kept(column).data.slice(offset, rows),
        }
    }

    /// The rows of these numbers, of which none is null.
    pub fn take(&self, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
        match (self.at_hand(column), &self.without) {
            (None, Some(without)) => {
                let rows = rows
                    .values()
                    .iter()
                    .map(|row| without.live.select(*row as usize) as u32);
                without.whole.columns[column]
                    .data
                    .take(&UInt32Array::from_iter_values(rows))
            }
            _ => self.kept(column).data.take(rows),
        }
    }

    /// The rows of stretches; None where that is no faster than `take`.
    pub fn runs(&self, column: usize, runs: &Runs) -> Option<ArrayRef> {
        self.at_hand(column)?.runs(runs)
    }

    /// Whether the column is kept as its arrays are: reading runs of rows copies nothing.
    pub fn is_plain(&self, column: usize) -> bool {
        self.at_hand(column).is_some_and(SegmentColumn::is_plain)
    }

    /// The column as dictionary codes, where storage keeps it so and nothing has to be made for it.
    pub fn dictionary(&self, column: usize) -> Option<&DictionaryColumn> {
        match &self.at_hand(column)?.data {
            ColumnData::Dictionary(column) => Some(column),
            _ => None,
        }
    }

    /// The column as differences from its smallest value, likewise.
    pub fn narrow(&self, column: usize) -> Option<&NarrowColumn> {
        match &self.at_hand(column)?.data {
            ColumnData::Narrow(column) => Some(column),
            _ => None,
        }
    }

    /// The column as runs of equal rows, likewise.
    pub fn run_length(&self, column: usize) -> Option<&RunLengthColumn> {
        match &self.at_hand(column)?.data {
            ColumnData::RunLength(column) => Some(column),
            _ => None,
        }
    }

    /// The form that a column is kept in, to read it as it is. The rows left of a whole segment are put into one first.
    pub fn form(&self, column: usize) -> Form<'_> {
        self.kept(column).data.form()
    }

    /// Whether the rows can be a table's of this definition: it may have changed since they were written.
    pub(crate) fn fits(&self, definition: &TableDefinition) -> bool {
        let column_fits = |index: usize| {
            let column = &definition.columns[index];
            let null_fits = !column.not_null || self.statistics(index).null_count == 0;
            let dictionary = definition.dictionaries[index].as_ref();
            null_fits
                && self
                    .own_or_whole(index)
                    .data
                    .fits(&column.sql_type.data_type(), dictionary)
        };
        self.columns() == definition.columns.len() && (0..self.columns()).all(column_fits)
    }

    /// What is known of a column. Bounds of the rows left of a whole segment are those of the whole.
    pub fn statistics(&self, column: usize) -> &ColumnStatistics {
        let Some(without) = &self.without else {
            return &self.columns[column].statistics;
        };
        without.statistics[column].get_or_init(|| {
            let whole = &without.whole.columns[column];
            let gone = self.whole_nulls(column, without.live.gone());
            let mut left = (*whole.statistics).clone();
            left.remove((without.live.all_rows() - self.rows) as u64, gone);
            left
        })
    }

    /// How many of some rows of the whole segment are null in a column.
    pub(crate) fn whole_nulls(&self, column: usize, rows: impl Iterator<Item = u32>) -> u64 {
        let whole = self.own_or_whole(column);
        match whole.statistics.null_count {
            0 => 0,
            _ => {
                let taken = whole.data.take(&UInt32Array::from_iter_values(rows));
                // Rows that cannot be read are none that are known to be null.
                taken.map_or(0, |taken| taken.null_count() as u64)
            }
        }
    }

    /// Rows as a batch: `columns` lists the table's columns to take and `schema` describes exactly those.
    pub fn batch(&self, schema: &SchemaRef, columns: &[usize], offset: usize, rows: usize) -> Result<RecordBatch> {
        let arrays = columns
            .iter()
            .map(|column| self.column_slice(*column, offset, rows))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
    }
}

/// No new segment gets this number or a smaller one.
pub(crate) fn never_again(id: u64) {
    NEXT_ID.fetch_max(id.saturating_add(1), Ordering::Relaxed);
}

fn new_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}
