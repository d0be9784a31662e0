//! Rows by one key, where a scan's conditions say nothing else than which values the columns of an index have: the index has the
//! last word then, and neither the filters nor the zone maps are looked at.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{Result, ScalarValue};
use tenon_storage::{Index, TableVersion};

use super::exec::ScanExec;
use crate::index::rows_of_key;

impl ScanExec {
    /// The rows of a version of its table in which each of these columns has the value beside it, in the table's order. None where
    /// no index finds just those, at most `rows_max`, for less than reading the table costs.
    ///
    /// The scan's own filters are taken to say the same. `equal`: columns of the table, each once.
    pub fn rows_of_key(
        &self,
        table: &Arc<TableVersion>,
        equal: &[(usize, ScalarValue)],
        rows_max: usize,
    ) -> Result<Option<Vec<RecordBatch>>> {
        let Some(budget) = &self.index_budget else {
            return Ok(None);
        };
        let decides = |index: &&Index| {
            index.columns.len() == equal.len() && equal.iter().all(|(column, _)| index.columns.contains(column))
        };
        // What is NULL equals nothing, and floats that are equal may differ in what a key is made of.
        let schema = table.schema();
        let is_exact = |(column, value): &(usize, ScalarValue)| {
            let of = schema.field(*column).data_type();
            value.data_type() == *of && !of.is_floating() && !value.is_null()
        };
        let Some(index) = table.definition().all_indexes().find(decides) else {
            return Ok(None);
        };
        if !equal.iter().all(is_exact) {
            return Ok(None);
        }
        // In the index's order.
        let value = |column: &usize| equal.iter().find(|(of, _)| of == column);
        let key = index
            .columns
            .iter()
            .filter_map(value)
            .map(|(_, value)| value.to_array());
        let key = key.collect::<Result<Vec<_>>>()?;
        let Some(found) = rows_of_key(table, index, &key, rows_max, budget)? else {
            return Ok(None);
        };
        table.definition().usage.looked_up(1, found.len());
        let mut batches = vec![];
        let mut left = self.limit.unwrap_or(usize::MAX);
        for of_segment in found.chunk_by(|(segment, _), (next, _)| segment == next) {
            let rows: Vec<u32> = of_segment.iter().take(left).map(|(_, row)| *row).collect();
            left -= rows.len();
            if !rows.is_empty() {
                batches.push(self.gather(table, of_segment[0].0 as usize, rows)?);
            }
        }
        Ok(Some(batches))
    }
}
