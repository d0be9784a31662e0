//! An immutable run of rows, column by column.

mod build;
mod column;
pub mod dictionary;
mod narrow;
mod nested;
mod rows;
mod run_length;
mod text;
mod views;

pub use column::{Codes, DictionaryColumn, Form, SegmentColumn};
pub use narrow::{Differences, NarrowColumn};
pub use rows::Runs;
pub use run_length::{Expanded, RunLengthColumn};
pub use text::TextColumn;

use crate::catalog::TableDefinition;
use crate::error::Result;
use crate::heap;
use crate::memory::MemoryBudget;
use crate::statistics::ColumnStatistics;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::SchemaRef;
use column::ColumnData;
use dictionary::Dictionary;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    columns: Vec<SegmentColumn>,
    bytes: usize,
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
        let (columns, bytes) = build::build(columns, dictionaries, rows, budget)?;
        Ok(Arc::new(Segment {
            id: new_id(),
            rows,
            columns,
            bytes,
        }))
    }

    /// `build` of rows that a store has under this number, which becomes the segment's again.
    pub(crate) fn restore(
        id: u64,
        columns: &[Vec<&ArrayRef>],
        dictionaries: &[Option<Arc<Dictionary>>],
        rows: usize,
        budget: &Arc<MemoryBudget>,
    ) -> Result<Arc<Segment>> {
        let (columns, bytes) = build::build(columns, dictionaries, rows, budget)?;
        Ok(Arc::new(Segment {
            id,
            rows,
            columns,
            bytes,
        }))
    }

    /// This segment with one column more, sharing the others.
    pub(crate) fn with_column(&self, array: &ArrayRef, budget: &Arc<MemoryBudget>) -> Result<Arc<Segment>> {
        let (added, bytes) = build::build(&[vec![array]], &[None], self.rows, budget)?;
        let mut columns = self.columns.clone();
        columns.extend(added);
        Ok(Arc::new(Segment {
            id: new_id(),
            rows: self.rows,
            columns,
            bytes: self.bytes + bytes,
        }))
    }

    /// This segment without one column, sharing the others. The memory stays until the others go too.
    pub(crate) fn without_column(&self, column: usize) -> Arc<Segment> {
        let mut columns = self.columns.clone();
        columns.remove(column);
        Arc::new(Segment {
            id: new_id(),
            rows: self.rows,
            columns,
            bytes: self.bytes,
        })
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

    /// Bytes of memory that one column holds, its statistics and dictionary excluded.
    pub fn column_bytes(&self, column: usize) -> usize {
        self.columns[column].bytes
    }

    /// Bytes that the column would take if it were kept as its arrays are.
    pub fn plain_bytes(&self, column: usize) -> usize {
        self.columns[column].plain_bytes(self.rows)
    }

    /// The form that a column is kept in, in a word or two.
    pub fn encoding(&self, column: usize) -> &'static str {
        self.columns[column].encoding()
    }

    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The whole column in its table type, made anew at every call where it is kept in another form.
    pub fn column(&self, column: usize) -> ArrayRef {
        self.column_slice(column, 0, self.rows)
    }

    /// `rows` rows of the column from `offset`, likewise.
    pub fn column_slice(&self, column: usize, offset: usize, rows: usize) -> ArrayRef {
        self.columns[column].data.slice(offset, rows)
    }

    /// The rows of these numbers, of which none is null.
    pub fn take(&self, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
        self.columns[column].data.take(rows)
    }

    /// The rows of stretches; None where the column is kept as its arrays are.
    pub fn runs(&self, column: usize, runs: &Runs) -> Option<ArrayRef> {
        self.columns[column].runs(runs)
    }

    /// Whether the column is kept as its arrays are: reading runs of rows copies nothing.
    pub fn is_plain(&self, column: usize) -> bool {
        self.columns[column].is_plain()
    }

    /// The column as dictionary codes, where storage keeps it so.
    pub fn dictionary(&self, column: usize) -> Option<&DictionaryColumn> {
        match &self.columns[column].data {
            ColumnData::Dictionary(column) => Some(column),
            _ => None,
        }
    }

    /// The column as differences from its smallest value, where storage keeps it so.
    pub fn narrow(&self, column: usize) -> Option<&NarrowColumn> {
        match &self.columns[column].data {
            ColumnData::Narrow(column) => Some(column),
            _ => None,
        }
    }

    /// The column as runs of equal rows, where storage keeps it so.
    pub fn run_length(&self, column: usize) -> Option<&RunLengthColumn> {
        match &self.columns[column].data {
            ColumnData::RunLength(column) => Some(column),
            _ => None,
        }
    }

    /// The form that a column is kept in, to read it as it is.
    pub fn form(&self, column: usize) -> Form<'_> {
        self.columns[column].data.form()
    }

    /// Whether the rows can be a table's of this definition: it may have changed since they were written.
    pub(crate) fn fits(&self, definition: &TableDefinition) -> bool {
        let column_fits = |(index, own): (usize, &SegmentColumn)| {
            let column = &definition.columns[index];
            let null_fits = !column.not_null || own.statistics.null_count == 0;
            let dictionary = definition.dictionaries[index].as_ref();
            null_fits && own.data.fits(&column.sql_type.data_type(), dictionary)
        };
        self.columns.len() == definition.columns.len() && self.columns.iter().enumerate().all(column_fits)
    }

    pub fn statistics(&self, column: usize) -> &ColumnStatistics {
        &self.columns[column].statistics
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
