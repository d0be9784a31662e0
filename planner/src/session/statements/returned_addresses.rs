//! `ctid` in RETURNING: the addresses that new rows have got, and those that removed ones had.

use super::returning::ReturningColumns;
use crate::catalog::bind::system_columns;
use crate::pg::error::Result;
use crate::pg::errors::from_arrow;
use datafusion::arrow::array::{ArrayRef, FixedSizeBinaryBuilder, RecordBatch};
use datafusion::arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::sql::sqlparser::ast::SelectItem;
use std::sync::Arc;
use tenon_executor::scan::ADDRESS_FIELD;
use tenon_storage::tid::{self, TID, TID_BYTES};
use tenon_storage::{Segment, StorageError, TableVersion};

/// Whether the items of a RETURNING ask for addresses. The table's rows keep theirs from here on.
pub(super) fn asked(table: &TableVersion, returning: Option<&[SelectItem]>) -> bool {
    let asked = returning.is_some_and(system_columns::names_addresses);
    if asked {
        table.definition().usage.ask_addresses();
    }
    asked
}

/// The addresses of all rows of segments, in their order.
pub(super) fn of_segments(segments: &[Arc<Segment>]) -> Vec<u64> {
    let rows = segments
        .iter()
        .flat_map(|segment| (0..segment.rows()).map(|row| segment.address(row)));
    rows.collect()
}

/// The addresses of rows of a table, each of which a segment's number and its own say.
pub(super) fn of_places(table: &TableVersion, places: &[(u32, u32)]) -> Vec<u64> {
    let address = |(segment, row): &(u32, u32)| table.segments()[*segment as usize].address(*row as usize);
    places.iter().map(address).collect()
}

impl ReturningColumns {
    /// With the column that carries addresses.
    pub(super) fn with_addresses(mut self) -> ReturningColumns {
        let alias = self.alias();
        self.fields.push((alias, field()));
        self
    }
}

fn field() -> FieldRef {
    Arc::new(Field::new(ADDRESS_FIELD, TID, true))
}

/// The rows with that column: an address each.
pub(super) fn beside(rows: Vec<RecordBatch>, addresses: &[u64]) -> Result<Vec<RecordBatch>> {
    let mut addresses = addresses.iter();
    let beside = rows.into_iter().map(|batch| {
        let mut built = FixedSizeBinaryBuilder::with_capacity(batch.num_rows(), TID_BYTES as i32);
        for address in addresses.by_ref().take(batch.num_rows()) {
            built
                .append_value(tid::of_address(*address)?)
                .map_err(|error| from_arrow(&error))?;
        }
        let built: ArrayRef = Arc::new(built.finish());
        if built.len() != batch.num_rows() {
            return Err(StorageError::internal("rows are returned that have no addresses").into());
        }
        let mut columns = batch.columns().to_vec();
        columns.push(built);
        let mut fields = batch.schema().fields().to_vec();
        fields.push(field());
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| from_arrow(&error))
    });
    beside.collect()
}
