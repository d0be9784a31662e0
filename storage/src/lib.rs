//! Tables in memory: immutable segments of columns, the catalog of tables with its transactions, and loaders.

pub mod arena;
pub mod catalog;
pub mod error;
pub mod load;
pub mod memory;
pub mod parse;
pub mod segment;
pub mod statistics;
pub mod types;
pub mod writer;

pub use arena::RegionObserver;
pub use catalog::{
    ColumnDef, Database, PrimaryKey, Relation, RowLocation, SchemaEntry, State, TableDef, TableDefinition,
    TableVersion, Transaction, View,
};
pub use error::{ErrorKind, Result, StorageError};
pub use memory::{MemoryBudget, Reservation};
pub use segment::{DictionaryColumn, SEGMENT_ROWS_MAX, Segment, SegmentColumn};
pub use statistics::{Bound, ColumnStatistics, Sketch, TableStatistics};
pub use types::SqlType;
pub use writer::TableWriter;
