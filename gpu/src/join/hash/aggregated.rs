//! Aggregates over a hash join, without its rows.
//!
//! ```sql
//! SELECT count(*), sum(build.value * probe.value) FROM build JOIN probe USING (key)
//! ```

use super::choice::CHUNKS_MAX;
use super::materialised::{Column, Sides};
use super::shape::HashOptions;
use super::work::{JoinParams, Mode};
use crate::error::Result;
use crate::join::Keys;
use crate::memory::{DeviceBuffer, DevicePtrMut, DeviceView};
use crate::number::{Reduction, Widen};
use crate::primitives::fill::fill;
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
    let sides = Sides::new(stream, build, probe, options)?;
    if sides.build.largest(stream)? <= CHUNKS_MAX * sides.shape.capacity as u64 {
        return aggregate(stream, &sides, probe.0.len());
    }
    drop(sides);
    match build {
        (Keys::U32(keys), Keys::U32(values)) => by_groups(stream, keys, values, probe, options),
        (Keys::U32(keys), Keys::U64(values)) => by_groups(stream, keys, values, probe, options),
        (Keys::U64(keys), Keys::U32(values)) => by_groups(stream, keys, values, probe, options),
        (Keys::U64(keys), Keys::U64(values)) => by_groups(stream, keys, values, probe, options),
    }
}

fn aggregate(stream: &Stream, sides: &Sides, probe_rows: u64) -> Result<(u64, u64)> {
    let mut results = stream.alloc_zeroed::<u64>(2)?;
    let address = results.ptr_mut().0;
    let params = JoinParams {
        count_out: DevicePtrMut::new(address),
        sum_out: DevicePtrMut::new(address + 8),
        ..JoinParams::none()
    };
    // SAFETY: two results.
    unsafe { sides.pair().run(stream, Mode::Aggregate, 0..probe_rows, params)? };
    let results = stream.download(results.view())?;
    Ok((results[0], results[1]))
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
        let sides = Sides::new(stream, build, (probe.0, probe_values), options)?;
        Ok(aggregate(stream, &sides, probe.0.len())?.1)
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
