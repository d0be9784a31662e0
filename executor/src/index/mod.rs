//! Indexes: sorted keys of a table's rows under CSS-trees, kept beside its segments.
//!
//! `encoding` makes keys of columns; `run` sorts those of some segments; `data` keeps an index's runs right as segments
//! come and go; `reader` is an index over one version of its table; `predicate` and `choice` say what a scan asks of
//! which index.

mod choice;
mod data;
mod encoding;
mod predicate;
mod reader;
mod run;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use choice::{IndexScan, JoinIndex, choose, for_join, is_worth_lookups, rows_of_key, semi_join};
pub use data::IndexData;
pub use encoding::{EncodedKeys, KeyEncoding, KeyRange};
pub(crate) use predicate::{Constraint, constraints};
pub use reader::IndexReader;
