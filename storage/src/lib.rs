//! Tables in memory: immutable segments of columns, the catalog of tables with its transactions, and loaders.
//!
//! | question | place |
//! | --- | --- |
//! | what a SQL type is in Arrow | `types` |
//! | what a query sees, what a commit merges | `catalog::state`, `catalog::transaction` |
//! | what outlives the process, and how it is found again | `store` |
//! | how PRIMARY KEY and unique indexes are enforced | `catalog::unique` |
//! | what an index is declared to be | `catalog::index` |
//! | how rows become a segment | `writer`, then `segment::build` |
//! | how strings become codes, and rows that repeat runs | `segment::dictionary`, `segment::run_length` |
//! | where the bytes are, and who is told of them | `arena` |
//! | what the memory limit counts | `memory` |
//! | what running statements hold, and who is stopped where that is too much | `heap` |
//! | which threads let others pass | `threads` |
//! | minimum, maximum, distinct count, order; common values and histograms | `statistics` |
//! | `numeric` of any precision: its arithmetic, its bytes in columns | `numeric` |
//! | text and binary input of each type | `parse` |
//! | dates, times, intervals and zones: input, output, parts, arithmetic, patterns | `datetime` |
//! | enum types: their versions, their values | `enum_type` |
//! | composite types as columns have them: their attributes, what ALTER TYPE makes of values | `composite_type` |
//! | bit strings: their text, their bytes on the wire, their lengths | `bits` |
//! | network addresses, and those of interfaces: their text, their bytes and the order of these | `network` |
//! | addresses of rows: their text, their bytes | `tid` |
//! | ranges and multiranges: their bytes and the order of these, their texts, what operators make of them | `range` |
//! | JSON values, their parts and their order | `json` |
//! | COPY FROM | `load::CopyLoader`: `load::cut`, `load::csv` or `load::text`, `load::piece` |
//! | Parquet, Arrow and CSV files | `load::load_file` |

pub mod arena;
mod array_type;
pub mod bits;
pub mod catalog;
pub mod composite_type;
pub mod datetime;
mod enum_type;
pub mod error;
pub mod float_text;
pub mod heap;
pub mod json;
mod latest;
pub mod load;
pub mod memory;
pub mod network;
pub mod numeric;
pub mod parse;
pub mod quote;
pub mod range;
pub mod segment;
pub mod statistics;
pub mod store;
pub mod threads;
pub mod tid;
pub mod types;
pub mod writer;

pub use arena::RegionObserver;
pub use array_type::ArrayType;
pub use catalog::database::Published;
pub use catalog::locks::{LockMode, LockedTable, TableLock, Wait};
pub use catalog::{
    Check, CheckOption, Claimed, ColumnDef, ColumnOrder, Composite, ComputedKey, ComputedSlot, Database, DatabaseState,
    DefaultGrants, Deferral, DeviceResidence, Domain, ExpressionIndex, FOREIGN_KEY_COLUMNS_MAX, ForeignKey, Function,
    FunctionArgument, FunctionOptions, FunctionParameter, FunctionResult, Generated, Grant, Index, IndexDef, IndexKind,
    IndexShown, IndexSlot, KeyRows, KeyValues, Keys, Locked, Membership, Object, ObjectKey, Objects, OnCommit,
    OnlyIndex, Partition, PartitionBound, PartitionIndex, PartitionKey, PartitionStrategy, Partitioning, PendingKeys,
    RangeValue, Reads, ReferentialAction, Relation, Rights, Role, RowLocation, RowSet, SchemaEntry, Secured, Sequence,
    SequenceDef, SequenceOwner, TableDef, TableDefinition, TableRows, TableUsage, TableUses, TableVersion, Transaction,
    View, default_name,
};
pub use catalog::{kept_settings, privilege, rights, roles};
pub use composite_type::{Attribute, CompositeType};
pub use enum_type::{EnumLabel, EnumType};
pub use error::{ErrorKind, Result, StorageError, Subject};
pub use latest::Latest;
pub use memory::{MemoryBudget, Reclaim, Reservation};
pub use segment::{
    Codes, DictionaryColumn, Differences, Expanded, Form, Live, NarrowColumn, RunLengthColumn, Runs, SEGMENT_ROWS_MAX,
    Segment, SegmentColumn, TextColumn,
};
pub use statistics::{Bound, ColumnStatistics, Distribution, Sketch, TableStatistics, analyze_count};
pub use store::{RealDisk, Recovered, Store};
pub use types::SqlType;
pub use writer::{TableWriter, table_of_rows};
