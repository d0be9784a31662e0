//! Keys looked up by reading a table.

use super::keys::{Form, all_comparable};
use crate::pg::error::Result;
use crate::pg::errors::from_arrow;
use datafusion::arrow::row::{Row, RowConverter, Rows};
use std::collections::HashMap;
use tenon_storage::{ColumnStatistics, Segment};

/// Rows of a table that are compared at a time.
const BLOCK_ROWS: usize = 1 << 13;

/// The keys that are looked for.
pub(super) struct Scan<'a> {
    pub columns: &'a [usize],
    pub forms: &'a [Form],
    pub converter: &'a RowConverter,
    pub numbers: &'a HashMap<Row<'a>, u32>,
    /// Keys that were not met yet.
    pub left: usize,
}

impl Scan<'_> {
    /// Whether the least and greatest values of the columns do not exclude the keys.
    pub(super) fn may_have(&self, segment: &Segment, ranges: &[ColumnStatistics]) -> bool {
        self.columns
            .iter()
            .zip(self.forms)
            .zip(ranges)
            .all(|((column, form), range)| {
                let own = segment.statistics(*column);
                match (&own.min, &own.max, &range.min, &range.max) {
                    (Some(own_min), Some(own_max), Some(min), Some(max))
                        if matches!(form, Form::Same | Form::Integers) =>
                    {
                        own_min <= max && min <= own_max
                    }
                    _ => true,
                }
            })
    }

    pub(super) fn read(&mut self, segment: &Segment, is_there: &mut [bool]) -> Result<()> {
        for offset in (0..segment.rows()).step_by(BLOCK_ROWS) {
            let rows = BLOCK_ROWS.min(segment.rows() - offset);
            let columns = self
                .columns
                .iter()
                .map(|column| segment.column_slice(*column, offset, rows));
            let columns = all_comparable(&columns.collect::<Vec<_>>(), self.forms)?;
            let converted: Rows = self
                .converter
                .convert_columns(&columns)
                .map_err(|error| from_arrow(&error))?;
            for row in converted.iter() {
                if let Some(number) = self.numbers.get(&row)
                    && !std::mem::replace(&mut is_there[*number as usize], true)
                {
                    self.left -= 1;
                }
            }
            if self.left == 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}
