//! Tables in memory: immutable segments of columns, the catalog of tables with its transactions, and loaders.
//!
//! | question | place |
//! | --- | --- |
//! | what a SQL type is in Arrow | `types` |
//! | what a query sees, what a commit merges | `catalog::state`, `catalog::transaction` |
//! | how PRIMARY KEY and unique indexes are enforced | `catalog::unique` |
//! | what an index is declared to be | `catalog::index` |
//! | how rows become a segment | `writer`, then `segment::build` |
//! | how strings become codes | `segment::dictionary` |
//! | where the bytes are, and who is told of them | `arena` |
//! | what the memory limit counts | `memory` |
//! | what running statements hold, and who is stopped where that is too much | `heap` |
//! | minimum, maximum, distinct count, order; common values and histograms | `statistics` |
//! | what is shown of a numeric; quotients | `numeric` |
//! | text and binary input of each type | `parse` |
//! | COPY FROM | `load::CopyLoader`: `load::cut`, `load::csv` or `load::text`, `load::piece` |
//! | Parquet, Arrow and CSV files | `load::load_file` |

pub mod arena;
pub mod catalog;
pub mod error;
pub mod heap;
pub mod load;
pub mod memory;
pub mod numeric;
pub mod parse;
pub mod segment;
pub mod statistics;
pub mod types;
pub mod writer;

pub use arena::RegionObserver;
pub use catalog::{
    Check, ColumnDef, ColumnOrder, Database, Index, IndexDef, IndexKind, IndexSlot, Relation, RowLocation, SchemaEntry,
    State, TableDef, TableDefinition, TableVersion, Transaction, View, quote_identifier,
};
pub use error::{ErrorKind, Result, StorageError};
pub use memory::{MemoryBudget, Reclaim, Reservation};
pub use segment::{DictionaryColumn, SEGMENT_ROWS_MAX, Segment, SegmentColumn};
pub use statistics::{Bound, ColumnStatistics, Distribution, Sketch, TableStatistics, analyze_count};
pub use types::SqlType;
pub use writer::TableWriter;
