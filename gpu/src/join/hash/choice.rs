//! Which hash join: by the size of the build side and the skew of its keys.

use std::sync::Arc;

use super::partitioned::PartitionedJoin;
use super::shape::HashOptions;
use super::table::HashTable;
use super::table_join::TableJoin;
use crate::error::Result;
use crate::join::{Matcher, Residual, Side};
use crate::stream::Stream;

/// A build partition of so many tables' capacity makes each of its probe pieces build as many tables: from here on one
/// shared table, which groups equal keys, is better.
pub(super) const CHUNKS_MAX: u64 = 16;

/// A hash join: a shared table while its slots fit half of the L2 cache, else partitions, unless one key has so many
/// build rows that its partition does not get small.
pub fn hash_join<'a>(
    stream: &Stream,
    build: Side<'_>,
    probe: Side<'a>,
    residual: Residual,
    options: &HashOptions,
) -> Result<Box<dyn Matcher + 'a>> {
    let slot_bytes = (build.keys.len() * 2).next_power_of_two() * build.keys.width() * 2;
    if slot_bytes > stream.device().info().l2_bytes / 2 {
        let partitioned = PartitionedJoin::new(stream, build, probe, residual.clone(), options)?;
        if !partitioned.is_skewed(stream)? {
            return Ok(Box::new(partitioned));
        }
    }
    let table = Arc::new(HashTable::new(stream, build, options)?);
    Ok(Box::new(TableJoin::new(table, probe, residual)?))
}
