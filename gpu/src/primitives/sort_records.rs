//! Sort of wide records (Patidar & Narayanan 2009, section 5): the keys are sorted with their indices, then each record
//! moves once, by a gather in which several threads move one record.

use crate::error::Result;
use crate::memory::{DeviceView, DeviceViewMut, Element};
use crate::primitives::gather::gather;
use crate::primitives::sort::{SortKey, SortOptions, same_len, sort_indices};
use crate::primitives::split::{Partition, SplitOptions, split_indices};
use crate::stream::Stream;

/// Sorts records (arrays of numbers, such as `[u8; 128]`) by keys of their own; fewer than 2^32 of them. Stable.
/// Allocates what [`sort_indices`] does, and 4 bytes a record.
pub fn sort_records<K: SortKey, R: Element>(
    stream: &Stream,
    keys: DeviceView<'_, K>,
    records: DeviceView<'_, R>,
    output: DeviceViewMut<'_, R>,
    options: &SortOptions,
) -> Result<()> {
    same_len("records", keys.len(), records.len())?;
    let mut indices = stream.alloc::<u32>(keys.len())?;
    sort_indices(stream, keys, indices.view_mut(), options)?;
    gather(stream, records, indices.view(), output)
}

/// Splits records by keys of their own; fewer than 2^32 of them. `offsets` as in
/// [`split_keys`](crate::primitives::split::split_keys).
pub fn split_records<K: SortKey, R: Element>(
    stream: &Stream,
    partition: &Partition<'_>,
    keys: DeviceView<'_, K>,
    records: DeviceView<'_, R>,
    output: DeviceViewMut<'_, R>,
    offsets: Option<DeviceViewMut<'_, u64>>,
    options: &SplitOptions,
) -> Result<()> {
    same_len("records", keys.len(), records.len())?;
    let mut indices = stream.alloc::<u32>(keys.len())?;
    split_indices(stream, partition, keys, indices.view_mut(), offsets, options)?;
    gather(stream, records, indices.view(), output)
}
