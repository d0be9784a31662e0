//! The order of a table's rows by a column that an index begins with: the column's values as words, ascending, and the row that
//! each is of. The first query that searches them puts them in order, and they stay in device memory as columns do, for as long
//! as the table's rows are the same. What `CREATE INDEX` makes for the CPU is another structure with the same use (He 2008,
//! section 4.2: an indexed nested-loop join finds its index there).

use std::sync::Arc;

use arrow::datatypes::DataType;
use tenon_gpu::memory::DeviceBuffer;
use tenon_storage::TableVersion;

use super::columns::{is_order_there, keep_order, kept_order};
use super::fragment::Fragment;
use super::passes::ScanColumn;
use crate::codegen::Range;

/// An order in device memory.
pub struct TableOrder {
    pub words: DeviceBuffer<u8>,
    pub rows: DeviceBuffer<u8>,
    /// How many there are.
    pub count: DeviceBuffer<u8>,
}

impl TableOrder {
    pub fn bytes(&self) -> u64 {
        self.words.bytes() + self.rows.bytes()
    }
}

/// By which scan's column an order is, and the value from which its words count.
pub struct OrderOf {
    scan: usize,
    column: usize,
    low: i128,
}

/// Whether all rows of a table have a word in the order of the column's values.
pub fn has_words(table: &TableVersion, column: usize) -> bool {
    // Texts have codes, which are in no order.
    let is_text = *table.schema().field(column).data_type() == DataType::Utf8View;
    !is_text && table.statistics().columns[column].null_count == 0
}

impl OrderOf {
    /// Where an index of the table begins with this column, which has words that all its rows have, and memory may be taken for
    /// its order.
    pub fn fit(fragment: &Fragment, (scan, column): ScanColumn, range: Range) -> Option<Self> {
        let table = &fragment.scans[scan].table;
        let mut indexes = table.definition().all_indexes();
        let is_indexed = indexes.any(|index| index.columns.first() == Some(&column));
        let may = is_indexed && has_words(table, column) && fragment.passes().is_none() && !fragment.is_sparing();
        may.then_some(Self {
            scan,
            column,
            low: range.0,
        })
    }

    pub fn is_there(&self, fragment: &Fragment) -> bool {
        is_order_there(&fragment.scans[self.scan].table, self.column, self.low)
    }

    /// The order, if it is in device memory.
    pub fn get(&self, fragment: &Fragment) -> Option<Arc<TableOrder>> {
        kept_order(&fragment.scans[self.scan].table, self.column, self.low)
    }

    /// Keeps it, which is all there.
    pub fn keep(&self, fragment: &Fragment, order: &Arc<TableOrder>) {
        keep_order(&fragment.scans[self.scan].table, self.column, self.low, order);
    }
}
