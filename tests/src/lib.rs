//! What the tests and the benchmarks share: TPC-H's queries with their known answers.

pub mod planning;
pub mod tpch;
