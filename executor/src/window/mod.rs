//! Window functions that look at whole partitions, a partition at a time.
//!
//! DataFusion's operator gathers all of its input first, in memory that nobody has reserved. This one keeps the rows of the
//! partition that is not complete yet (`partitions`). Where these do not fit and the query goes through files, they wait in
//! a file, if each function gives its partition one value: an aggregate over all rows (`constant`). Where frames move along the
//! partition, rows whose values are known go on, and those behind all frames go (`sliding`).

mod constant;
mod exec;
mod partitions;
mod sliding;

pub use exec::{WindowExec, is_one_value};
pub use sliding::Extents;
