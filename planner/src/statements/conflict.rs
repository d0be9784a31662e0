//! ON CONFLICT DO NOTHING: rows whose key is there already, or came earlier in the statement, are left out.

use crate::error::{Result, SqlError, state};
use crate::errors::from_arrow;
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use std::collections::HashSet;
use tenon_storage::{TableDefinition, TableVersion};

/// The keys seen so far, over a table with a primary key.
pub(super) struct Keys {
    columns: Vec<usize>,
    converter: RowConverter,
    seen: HashSet<OwnedRow>,
}

/// The conflict target must be the primary key, or absent.
pub(super) fn check_target(definition: &TableDefinition, names: &[String]) -> Result<()> {
    let key: Vec<&str> = definition
        .primary_key
        .iter()
        .flat_map(|key| &key.columns)
        .map(|at| definition.columns[*at].name.as_str())
        .collect();
    let same = names.len() == key.len() && names.iter().all(|name| key.contains(&name.as_str()));
    if names.is_empty() || same {
        return Ok(());
    }
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message))
}

impl Keys {
    /// The keys of the table's rows; None where it has no key, so that nothing conflicts.
    pub(super) fn of(table: &TableVersion) -> Result<Option<Keys>> {
        let Some(key) = &table.definition().primary_key else {
            return Ok(None);
        };
        let fields = key
            .columns
            .iter()
            .map(|at| SortField::new(table.schema().field(*at).data_type().clone()));
        let converter = RowConverter::new(fields.collect()).map_err(|error| from_arrow(&error))?;
        let mut keys = Keys {
            columns: key.columns.clone(),
            converter,
            seen: HashSet::new(),
        };
        for segment in table.segments().iter() {
            let columns: Vec<ArrayRef> = keys.columns.iter().map(|at| segment.column(*at)).collect();
            keys.new_rows(&columns)?;
        }
        Ok(Some(keys))
    }

    fn new_rows(&mut self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        let rows = self
            .converter
            .convert_columns(columns)
            .map_err(|error| from_arrow(&error))?;
        Ok(rows.iter().map(|row| Some(self.seen.insert(row.owned()))).collect())
    }

    /// The rows of a batch (in the table's types) whose key is new.
    pub(super) fn keep_new(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = self.columns.iter().map(|at| batch.column(*at).clone()).collect();
        let new = self.new_rows(&columns)?;
        filter_record_batch(batch, &new).map_err(|error| from_arrow(&error))
    }
}
