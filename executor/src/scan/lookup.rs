//! Rows that an index alone decides. By one key, where a scan's conditions say nothing else than which values the columns of an
//! index have, neither the filters nor the zone maps are looked at.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{Result, ScalarValue};
use tenon_storage::{Index, TableVersion};

use super::exec::ScanExec;
use super::first::First;
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
        let wanted = &found[..found.len().min(self.limit.unwrap_or(usize::MAX))];
        self.gather_all(table, wanted).map(Some)
    }

    /// These rows, segment and row number in the table's order, of a version of its table.
    fn gather_all(&self, table: &TableVersion, rows: &[(u32, u32)]) -> Result<Vec<RecordBatch>> {
        let of_segments = rows.chunk_by(|(segment, _), (next, _)| segment == next);
        let batch = |of_segment: &[(u32, u32)]| {
            let rows = of_segment.iter().map(|(_, row)| *row).collect();
            self.gather(table, of_segment[0].0 as usize, rows)
        };
        of_segments.map(batch).collect()
    }

    /// The rows among which are those that a sort wants first; None where an index does not have them among `looked_at_max` rows
    /// ([`ScanExec::first_rows`]).
    pub fn read_first(&self, first: First, ties: bool, looked_at_max: usize) -> Result<Option<Vec<RecordBatch>>> {
        let found = self.first_rows(first, ties, looked_at_max)?;
        found.map(|found| self.gather_all(&self.table, &found)).transpose()
    }
}
