//! Tests of the storage crate from outside, in one binary.

mod copy;
mod distribution;
mod encodings;
mod files;
mod foreign_keys;
mod indexes;
mod parse;
mod row_conflicts;
mod segments;
mod store;
mod transactions;
