//! Hash joins (He 2008, section 4.3).
//!
//! ```sql
//! SELECT ... FROM build JOIN probe ON build.key = probe.key [AND residual]
//! ```
//!
//! | operator | build side |
//! | --- | --- |
//! | [`TableJoin`] | one table in device memory: while it fits the L2 cache, or where keys are dense |
//! | [`PartitionedJoin`] | radix-partitioned by hash, tables in shared memory |
//! | [`join_materialised`], [`join_aggregated`] | the same over key and payload columns, without row numbers |
//!
//! Both are [`Matcher`](super::Matcher)s and take any duplicates and any skew.

mod materialised;
mod partition;
mod partitioned;
mod shape;
mod work;

pub use materialised::{Column, Materialised, join_aggregated, join_materialised};
pub use partition::{PartitionShape, Partitioned, partition};
pub use partitioned::PartitionedJoin;
pub use shape::{HashOptions, JoinShape};

use crate::compile::Program;

/// Specialisations that the tests compile.
pub fn programs() -> Vec<Program> {
    [partition::programs(), work::programs()].concat()
}
