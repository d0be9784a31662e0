//! Hash joins (He 2008, section 4.3).
//!
//! ```sql
//! SELECT ... FROM build JOIN probe ON build.key = probe.key [AND residual]
//! ```
//!
//! | operator | build side |
//! | --- | --- |
//! | [`TableJoin`] over [`HashTable`] | one table in device memory: while it fits the L2 cache, or where keys are dense |
//! | [`PartitionedJoin`] | radix-partitioned by hash, tables in shared memory |
//! | [`join_materialised`], [`join_aggregated`] | the same over key and payload columns, without row numbers |
//! | [`join_wide`] | the same with any number of payload columns |
//!
//! The first two are [`Matcher`](super::Matcher)s and take any duplicates and any skew; [`hash_join`] chooses.

mod aggregated;
mod choice;
mod materialised;
mod partition;
mod partitioned;
mod shape;
mod table;
mod table_join;
mod wide;
mod work;

pub use aggregated::join_aggregated;
pub use choice::hash_join;
pub use materialised::{BuildColumns, Column, Materialised, join_materialised};
pub use partition::{PartitionShape, Partitioned, partition};
pub use partitioned::PartitionedJoin;
pub use shape::{HashOptions, JoinShape};
pub use table::HashTable;
pub use table_join::TableJoin;
pub use wide::{Materialise, WideColumn, WideRows, WideSide, join_wide};

use super::residual::Residual;
use crate::compile::Program;

/// Specialisations that the tests compile.
pub fn programs() -> Vec<Program> {
    [
        partition::programs(),
        work::programs(),
        table::programs(),
        table_join::programs(),
    ]
    .concat()
}

/// Those that test this condition.
pub(super) fn with_condition(residual: &Residual) -> Vec<Program> {
    [work::with_condition(residual), table_join::with_condition(residual)].concat()
}
