//! Segments with a column more or less than others.

use super::{Segment, SegmentColumn, build, new_id};
use crate::error::Result;
use crate::memory::MemoryBudget;
use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use std::sync::Arc;

impl Segment {
    /// This segment with one column more, of one value for all rows, sharing the others.
    pub(crate) fn with_column(&self, value: &ArrayRef, budget: &Arc<MemoryBudget>) -> Result<Arc<Segment>> {
        if let Some(without) = &self.without {
            return Ok(Segment::left(
                &without.whole.with_column(value, budget)?,
                without.live.clone(),
            ));
        }
        let array = take(value, &UInt32Array::from(vec![0; self.rows]), None)?;
        let (added, bytes) = build::build(&[vec![&array]], &[None], self.rows, budget)?;
        let mut columns = self.columns.clone();
        columns.extend(added);
        Ok(self.of_columns(columns, self.bytes + bytes))
    }

    /// This segment without one column, sharing the others. The memory stays until the others go too.
    pub(crate) fn without_column(&self, column: usize) -> Arc<Segment> {
        if let Some(without) = &self.without {
            return Segment::left(&without.whole.without_column(column), without.live.clone());
        }
        let mut columns = self.columns.clone();
        columns.remove(column);
        self.of_columns(columns, self.bytes)
    }

    /// The same rows with other columns.
    fn of_columns(&self, columns: Vec<SegmentColumn>, bytes: usize) -> Arc<Segment> {
        Arc::new(Segment {
            id: new_id(),
            rows: self.rows,
            columns,
            bytes,
            without: None,
            addresses: self.addresses.clone(),
        })
    }
}
