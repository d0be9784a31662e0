//! A scan's rows as batches, and all of them at once where they are few: no stream, no metrics, no other partition.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::Buffer;
use datafusion::common::{DataFusionError, Result};
use tenon_storage::tid::{self, TID_BYTES};
use tenon_storage::{Runs, Segment, TableVersion};

use super::exec::{ScanExec, SegmentRange};
use super::selection::{Dense, Selector, take_column};

impl ScanExec {
    /// How many rows it looks at, at most; None where that depends on what a join finds.
    pub fn rows_read_max(&self) -> Option<usize> {
        if !self.runtime().is_empty() {
            return None;
        }
        if let Some(addressed) = &self.addressed {
            return Some(addressed.len());
        }
        if let Some(index) = &self.index {
            return Some(index.rows);
        }
        let rows = usize::try_from(self.table.rows()).unwrap_or(usize::MAX);
        Some(match self.limit {
            Some(limit) if self.filters.is_empty() => rows.min(limit),
            _ => rows,
        })
    }

    /// Its rows, in the table's order.
    pub fn read_few(&self) -> Result<Vec<RecordBatch>> {
        let mut batches = vec![];
        let mut left = self.limit.unwrap_or(usize::MAX);
        let mut selector = Selector::new(Arc::clone(&self.filters), vec![]);
        let mut take = |scan: &Self, segment: usize, mut rows: Vec<u32>| {
            rows.truncate(left);
            left -= rows.len();
            if !rows.is_empty() {
                batches.push(scan.gather(&scan.table, segment, rows)?);
            }
            Ok::<_, datafusion::common::DataFusionError>(left > 0)
        };
        let segments = self.table.segments();
        let by_index = || self.index.as_ref().map(|index| index.reader.rows(&index.ranges));
        if let Some(found) = self.addressed.as_ref().map(|found| found.to_vec()).or_else(by_index) {
            self.table.definition().usage.looked_up(1, found.len());
            for of_segment in found.chunk_by(|(segment, _), (next, _)| segment == next) {
                let number = of_segment[0].0 as usize;
                if selector.enter(&segments[number]) {
                    let (among, mut rows) = (of_segment.iter().map(|(_, row)| *row).collect(), vec![]);
                    selector.select_among(&segments[number], among, &mut rows)?;
                    if !take(self, number, rows)? {
                        break;
                    }
                }
            }
            return Ok(batches);
        }
        let usage = &self.table.definition().usage;
        usage.scan();
        for (number, segment) in segments.iter().enumerate() {
            if !selector.enter(segment) {
                continue;
            }
            usage.scanned(segment.rows());
            let mut rows = vec![];
            match selector.passes_all(segment) {
                true => rows.extend(0..segment.rows().min(u32::MAX as usize) as u32),
                false => selector.select(segment, 0, segment.rows(), &mut rows)?,
            }
            if !take(self, number, rows)? {
                break;
            }
        }
        Ok(batches)
    }

    pub(super) fn slice(&self, run: SegmentRange) -> Result<RecordBatch> {
        let segment = &self.table.segments()[run.segment];
        let own = self.table.schema().fields().len();
        let all = run.offset..run.offset + run.rows;
        let arrays = self.columns.iter().map(|&column| -> Result<ArrayRef> {
            Ok(match column.checked_sub(own) {
                None => segment.column_slice(column, run.offset, run.rows),
                Some(0) => Arc::new(UInt32Array::from_value(run.segment as u32, run.rows)),
                Some(1) => Arc::new(UInt32Array::from_iter_values(all.clone().map(|row| row as u32))),
                Some(_) => addresses(segment, all.clone())?,
            })
        });
        self.batch(arrays.collect::<Result<_>>()?, run.rows)
    }

    /// Rows of a segment of a version of its table, by their numbers.
    pub(super) fn gather(&self, table: &TableVersion, segment: usize, rows: Vec<u32>) -> Result<RecordBatch> {
        let own = table.schema().fields().len();
        let read = &table.segments()[segment];
        let mut columns = self.columns.iter();
        let copied = columns.any(|&column| column < own && read.is_plain(column));
        let dense = copied.then(|| Dense::of(&rows)).flatten();
        let runs = Runs::of(&rows);
        let rows = UInt32Array::from(rows);
        let arrays = self.columns.iter().map(|&column| -> Result<ArrayRef> {
            Ok(if column < own {
                match (runs.as_ref().and_then(|runs| read.runs(column, runs)), &dense) {
                    (Some(array), _) => array,
                    (None, Some(dense)) if read.is_plain(column) => dense.pick(read, column)?,
                    _ => take_column(read, column, &rows)?,
                }
            } else if column == own {
                Arc::new(UInt32Array::from_value(segment as u32, rows.len()))
            } else if column == own + 1 {
                Arc::new(rows.clone())
            } else {
                addresses(read, rows.values().iter().map(|row| *row as usize))?
            })
        });
        self.batch(arrays.collect::<Result<_>>()?, rows.len())
    }

    fn batch(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            arrays,
            &options,
        )?)
    }
}

/// The addresses of rows of a segment.
fn addresses(segment: &Segment, rows: impl Iterator<Item = usize>) -> Result<ArrayRef> {
    let mut bytes = Vec::with_capacity(TID_BYTES * rows.size_hint().0);
    for row in rows {
        let own = tid::of_address(segment.address(row)).map_err(|error| DataFusionError::External(Box::new(error)))?;
        bytes.extend(own);
    }
    let array = FixedSizeBinaryArray::try_new(TID_BYTES as i32, Buffer::from_vec(bytes), None)?;
    Ok(Arc::new(array))
}
