//! Indexes: sorted keys of a table's rows under CSS-trees, kept beside its segments.
//!
//! `declared` is an index to be searched, over columns or what is `computed` of them; `implied` says whether it has the rows that
//! a scan wants. `encoding` makes keys of columns; `run` sorts those of some segments; `data` keeps an index's runs right as segments
//! come and go; `reader` is an index over one version of its table, `in_order` its rows in the order of their keys;
//! `predicate` and `choice` say what a scan asks of which index.

mod choice;
mod computed;
mod data;
mod declared;
mod encoding;
mod implied;
mod in_order;
mod predicate;
mod reader;
mod run;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use choice::Searches;
pub use choice::{
    IndexScan, JoinIndex, choose, for_join, is_worth_lookups, rows_of_key, rows_worth, scanned_rows_for, semi_join,
};
pub use computed::ComputedKeys;
pub use data::IndexData;
pub use declared::Declared;
pub use encoding::{EncodedKeys, KeyEncoding, KeyRange};
pub use implied::implies;
pub(crate) use in_order::InOrder;
pub(crate) use predicate::{Constraint, constraints};
pub use reader::IndexReader;
