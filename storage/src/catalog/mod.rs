//! What exists: schemas, tables, views, and the transactions that change them.

pub mod database;
pub mod declaration;
pub mod foreign_key;
pub mod index;
mod index_names;
pub mod kept_settings;
pub mod locks;
mod moves;
pub mod objects;
pub mod partition;
pub mod privilege;
pub mod rights;
pub mod roles;
mod row_set;
mod rows;
mod schema;
pub mod sequence;
pub mod state;
pub mod table;
pub mod transaction;
mod unique;
mod usage;

pub use database::Database;
pub use declaration::{Check, ColumnDef, DeviceResidence, Generated, OnCommit, TableDef};
pub use foreign_key::{FOREIGN_KEY_COLUMNS_MAX, ForeignKey, ReferentialAction};
pub use index::{ColumnOrder, Deferral, ExpressionIndex, Index, IndexDef, IndexKind, IndexShown, IndexSlot, OnlyIndex};
pub use index_names::default_name;
pub use kept_settings::KeptSettings;
pub use objects::{
    Composite, Domain, Function, FunctionArgument, FunctionOptions, FunctionParameter, FunctionResult, Object,
    ObjectKey, Objects,
};
pub use partition::{
    Partition, PartitionBound, PartitionIndex, PartitionKey, PartitionStrategy, Partitioning, RangeValue,
};
pub use rights::{DefaultGrants, Grant, Rights, Secured};
pub use roles::{Membership, Role};
pub use row_set::{RowSet, TableRows};
pub(crate) use schema::Difference;
pub use schema::SchemaEntry;
pub use sequence::{Sequence, SequenceDef, SequenceOwner};
pub use state::{CheckOption, DatabaseState, Relation, View};
pub use table::{RowLocation, TableDefinition, TableVersion};
pub use transaction::{Claimed, Keys, Locked, PendingKeys, Reads, Transaction};
pub use unique::{ComputedKey, ComputedSlot, KeyRows, KeyValues};
pub use usage::{TableUsage, TableUses};
