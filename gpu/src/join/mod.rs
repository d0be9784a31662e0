//! Joins over device buffers (He 2008, section 4): every operator finds pairs of row numbers; which rows come out of them
//! is the same for all (`run`).
//!
//! | what | where |
//! | --- | --- |
//! | which rows come out | [`JoinKind`] |
//! | keys of one side | [`Side`], [`Keys`] |
//! | a condition beyond the keys, compiled in | [`Residual`] |
//! | what an operator does | [`Matcher`] |
//! | kinds, passes, output of bounded size | [`JoinRun`] |
//! | the number of pairs alone | [`count_pairs`] |
//! | NINLJ: any condition, cross join | [`nested_loop`] |
//! | HJ: a shared table, or radix-partitioned | [`hash`] |
//! | INLJ, SMJ: spans of a sorted build side | [`ranges`], [`css_tree`], [`sort_merge`] |
//! | band joins and inequalities | [`band`], [`probe`] |
//! | inputs of host memory, by any operator | [`from_host`] |
//! | inputs of host memory, state larger than the device | [`triton`] |
//!
//! Keys are unsigned words of 32 or 64 bits. A key of one column of at most 8 bytes is its order-preserving bits. Any
//! other key (several columns, strings, 128 bits) is a hash, and the residual compares the columns. Rows whose key is
//! null are not among the keys at all: they match nothing, and the run knows of them by the side's row count.

pub mod band;
mod count;
pub mod css_tree;
pub(crate) mod expand;
pub mod from_host;
pub mod hash;
mod kind;
mod matcher;
pub mod nested_loop;
pub mod probe;
pub mod ranges;
mod residual;
mod run;
mod side;
pub mod sort_merge;
pub mod sorted;
pub(crate) mod spans;
mod step;
pub mod triton;

pub use count::count_pairs;
pub use kind::JoinKind;
pub use matcher::{Flags, Matcher, PairsMut};
pub use residual::{RESIDUAL_BUFFERS_MAX, RESIDUAL_LITERALS_MAX, Residual, ResidualParams};
pub use run::{JoinOutput, JoinRun, Pairs, RunLimits};
pub use side::{Keys, Side};

use crate::compile::Program;

/// Every program that tests a pair's condition, with this one. For tests of generated conditions.
pub fn programs_with(condition: &Residual) -> Vec<Program> {
    [
        nested_loop::with_condition(condition),
        expand::with_condition(condition),
        hash::with_condition(condition),
        triton::with_condition(condition),
    ]
    .concat()
}
