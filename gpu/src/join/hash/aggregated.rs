//! Aggregates over a hash join, without its rows.
//!
//! ```sql
//! SELECT count(*), sum(build.value * probe.value) FROM build JOIN probe USING (key)
//! ```

use super::materialised::{BuildColumns, Column};
use super::shape::HashOptions;
use super::work::{JoinParams, PartitionJoinMode, PartitionPair};
use crate::error::Result;
use crate::join::Keys;
use crate::memory::{DeviceBuffer, DevicePtrMut, DeviceView};
use crate::number::{Reduction, Widen};
use crate::primitives::fill::fill;
use crate::primitives::read::read;
use crate::primitives::segmented::reduce_by_key;
use crate::primitives::sort::{Payload, SortKey, SortOptions, sort_pairs};
use crate::stream::Stream;

/// Number of pairs, and the sum of `build value * probe value` over them, modulo 2^64. Nothing is written.
///
/// A build side with so many rows of one key that they do not fit a partition is summed up by key first.
pub fn join_aggregated(
    stream: &Stream,
    build: (Column<'_>, Column<'_>),
    probe: (Column<'_>, Column<'_>),
    options: &HashOptions,
) -> Result<(u64, u64)> {
    let columns = BuildColumns::new(stream, build, probe.1.width() == 8, options)?;
    if let Some(found) = aggregate(stream, &columns, probe, true)? {
        return Ok(found);
    }
    drop(columns);
    match build {
        (Keys::U32(keys), Keys::U32(values)) => by_groups(stream, keys, values, probe, options),
        (Keys::U32(keys), Keys::U64(values)) => by_groups(stream, keys, values, probe, options),
        (Keys::U64(keys), Keys::U32(values)) => by_groups(stream, keys, values, probe, options),
        (Keys::U64(keys), Keys::U64(values)) => by_groups(stream, keys, values, probe, options),
    }
}

/// Count and sum; none if the build side turns out to be skewed and that matters. Waits for the device once.
fn aggregate(
    stream: &Stream,
    columns: &BuildColumns,
    probe: (Column<'_>, Column<'_>),
    stop_at_skew: bool,
) -> Result<Option<(u64, u64)>> {
    let partitioned = columns.partition(stream, probe)?;
    let mut results = stream.alloc_zeroed::<u64>(3)?;
    let address = results.ptr_mut().0;
    let params = JoinParams {
        count_out: DevicePtrMut::new(address),
        sum_out: DevicePtrMut::new(address + 8),
        ..JoinParams::none()
    };
    let pair = PartitionPair {
        skewed: stop_at_skew.then(|| DevicePtrMut::new(address + 16)),
        ..columns.pair(&partitioned)
    };
    // SAFETY: three results.
    unsafe { pair.run(stream, PartitionJoinMode::Aggregate, 0..probe.0.len(), params)? };
    let results = read(stream, results.view())?;
    Ok((results[2] == 0).then_some((results[0], results[1])))
}

/// The same with a build side of one row a key: the sum of its values, and the number of its rows.
fn by_groups<K: SortKey, V: Payload + Widen<u64>>(
    stream: &Stream,
    keys: DeviceView<'_, K>,
    values: DeviceView<'_, V>,
    probe: (Column<'_>, Column<'_>),
    options: &HashOptions,
) -> Result<(u64, u64)>
where
    for<'a> Keys<'a>: From<DeviceView<'a, K>>,
{
    let rows = keys.len();
    let (mut sorted, mut sorted_values) = (stream.alloc::<K>(rows)?, stream.alloc::<V>(rows)?);
    let outputs = (sorted.view_mut(), sorted_values.view_mut());
    sort_pairs(stream, keys, values, outputs.0, outputs.1, &SortOptions::default())?;
    let mut distinct = stream.alloc::<K>(rows)?;
    let mut reduced = stream.alloc::<u64>(rows)?;
    let outputs = (distinct.view_mut(), reduced.view_mut());
    let sum = Reduction::Sum;
    let groups = reduce_by_key(stream, sorted.view(), sorted_values.view(), outputs.0, outputs.1, sum)?;
    let joined = |values: &DeviceBuffer<u64>, probe_values: Column<'_>| -> Result<u64> {
        let build = (distinct.slice(..groups)?.into(), values.slice(..groups)?.into());
        let columns = BuildColumns::new(stream, build, probe_values.width() == 8, options)?;
        Ok(aggregate(stream, &columns, (probe.0, probe_values), false)?.map_or(0, |found| found.1))
    };
    let products = joined(&reduced, probe.1)?;
    let mut ones = stream.alloc::<u64>(rows.max(probe.0.len()))?;
    fill(stream, ones.view_mut(), 1)?;
    let (ones, mut again) = (ones, stream.alloc::<K>(rows)?);
    let outputs = (again.view_mut(), reduced.view_mut());
    reduce_by_key(stream, sorted.view(), ones.slice(..rows)?, outputs.0, outputs.1, sum)?;
    let count = joined(&reduced, ones.slice(..probe.0.len())?.into())?;
    Ok((count, products))
}
