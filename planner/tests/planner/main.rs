//! Tests of a session from outside, without a socket, in one binary.

mod basic;
mod change;
mod common;
mod explain;
mod hard_queries;
mod indexes;
mod kept_plans;
mod lists;
mod planning;
mod semantics;
