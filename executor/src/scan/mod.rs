//! Reading tables: the `TableProvider` over one version of a table, and the scan node that it gives.

mod exec;
mod few;
mod filter;
mod first;
mod in_order;
#[cfg(test)]
mod index_tests;
mod lookup;
mod provider;
mod ranges;
mod reads;
mod selection;
mod statistics;
mod top;
mod version;

pub use exec::{MORSEL_ROWS, ScanExec, ScanOptions};
pub use first::First;
pub use provider::{ADDRESS_FIELD, POSITION_FIELDS, SegmentTable, is_place};
pub use reads::ReadLog;
pub(crate) use selection::{Selector, take_column};
pub use top::TopFilter;
pub use version::ascends_like;

#[cfg(test)]
mod tests;
