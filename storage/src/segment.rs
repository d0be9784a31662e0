//! An immutable run of rows, column by column.

use crate::error::Result;
use crate::memory::{MemoryBudget, Reservation};
use crate::statistics::ColumnStatistics;
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most rows that a segment holds.
pub const SEGMENT_ROWS_MAX: usize = 1 << 20;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Rows of one table, never changed. Its memory is accounted until the segment is dropped.
#[derive(Debug)]
pub struct Segment {
    id: u64,
    rows: usize,
    columns: Vec<SegmentColumn>,
    bytes: usize,
    _reservation: Vec<Arc<Reservation>>,
}

/// One column of a segment with its statistics.
#[derive(Clone, Debug)]
pub struct SegmentColumn {
    array: ArrayRef,
    statistics: Arc<ColumnStatistics>,
}

/// A low-cardinality string column as codes into the table's dictionary of that column.
#[derive(Clone, Debug)]
pub struct DictionaryColumn {
    /// UInt16, with the column's NULLs.
    pub codes: ArrayRef,
    /// Utf8View; codes index it. Grows between segments, codes stay what they are.
    pub values: ArrayRef,
}

impl Segment {
    /// Builds a segment of arrays that have the table's column types, `rows` long each.
    pub(crate) fn build(columns: Vec<ArrayRef>, rows: usize, budget: &Arc<MemoryBudget>) -> Result<Arc<Segment>> {
        let bytes = columns.iter().map(|column| column.get_array_memory_size()).sum();
        let reservation = Arc::new(budget.reserve(bytes)?);
        let columns = columns
            .into_iter()
            .map(|array| SegmentColumn {
                statistics: Arc::new(ColumnStatistics::of_array(&array)),
                array,
            })
            .collect();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Segment {
            id,
            rows,
            columns,
            bytes,
            _reservation: vec![reservation],
        }))
    }

    /// This segment with one column more, sharing the others.
    pub(crate) fn with_column(&self, array: ArrayRef, budget: &Arc<MemoryBudget>) -> Result<Arc<Segment>> {
        let bytes = array.get_array_memory_size();
        let mut reservation = self._reservation.clone();
        reservation.push(Arc::new(budget.reserve(bytes)?));
        let mut columns = self.columns.clone();
        columns.push(SegmentColumn {
            statistics: Arc::new(ColumnStatistics::of_array(&array)),
            array,
        });
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Segment {
            id,
            rows: self.rows,
            columns,
            bytes: self.bytes + bytes,
            _reservation: reservation,
        }))
    }

    /// This segment without one column, sharing the others.
    pub(crate) fn without_column(&self, column: usize) -> Arc<Segment> {
        let mut columns = self.columns.clone();
        columns.remove(column);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let _reservation = self._reservation.clone();
        Arc::new(Segment {
            id,
            rows: self.rows,
            columns,
            bytes: self.bytes,
            _reservation,
        })
    }

    /// Unique in the process: names the segment in caches.
    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of memory held, statistics excluded.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The whole column in its table type (strings as Utf8View).
    pub fn column(&self, column: usize) -> ArrayRef {
        self.columns[column].array.clone()
    }

    /// `rows` rows of the column from `offset`.
    pub fn column_slice(&self, column: usize, offset: usize, rows: usize) -> ArrayRef {
        self.columns[column].array.slice(offset, rows)
    }

    /// The column as dictionary codes, where storage keeps it so.
    pub fn dictionary(&self, _column: usize) -> Option<DictionaryColumn> {
        None
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
