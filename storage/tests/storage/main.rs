//! Tests of the storage crate from outside, in one binary.

mod copy;
mod files;
mod parse;
mod segments;
mod transactions;
