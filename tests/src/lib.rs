//! What the tests and the benchmarks share: TPC-H's queries with their known answers, shapes of joins, histograms.

pub mod histogram;
pub mod planning;
pub mod tpch;
