//! Frames that move along their partition: rows behind all frames go while the partition is still read.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;

/// On which rows the values of a window function depend.
pub trait Extents: fmt::Debug + Send + Sync {
    /// Of rows that follow each other in a partition, for each the rows on which its value depends, itself among them; these
    /// never begin before those of the row before. Where they end with the last row, there may be more of them to come.
    fn of(&self, rows: &RecordBatch) -> Result<Vec<Range<usize>>>;
}

/// How far a partition that is not complete has come.
pub(super) struct Slide {
    /// The row that waits for others.
    pub waits: usize,
    /// The first row on which it depends, as do those after it.
    pub from: usize,
}

impl Slide {
    /// Of `rows`, the first `given` of which have their values.
    pub fn of(functions: &[Arc<dyn Extents>], rows: &RecordBatch, given: usize) -> Result<Option<Self>> {
        let last = rows.num_rows();
        let all = functions.iter().map(|function| function.of(rows));
        let all = all.collect::<Result<Vec<_>>>()?;
        let waits = (given..last).find(|&row| all.iter().any(|extents| extents[row].end >= last));
        let Some(waits) = waits.filter(|&waits| waits > given) else {
            return Ok(None);
        };
        let from = all.iter().map(|extents| extents[waits].start).min();
        Ok(from.map(|from| Self { waits, from }))
    }
}
