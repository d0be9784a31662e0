//! What exists: schemas, tables, views, and the transactions that change them.

pub mod database;
pub mod index;
pub mod state;
pub mod table;
pub mod transaction;
mod unique;

pub use database::Database;
pub use index::{ColumnOrder, Index, IndexDef, IndexKind, IndexSlot, quote_identifier};
pub use state::{Relation, SchemaEntry, State, View};
pub use table::{Check, ColumnDef, RowLocation, TableDef, TableDefinition, TableVersion};
pub use transaction::Transaction;
