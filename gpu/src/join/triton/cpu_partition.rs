//! The CPU-partitioned strategy (Lutz 2022, section 3.1; Sioulas 2019): the processor partitions both inputs in host
//! memory, and the device joins the pairs. The bus is crossed once, by work that the processor must keep up with.

use super::partition::hash_of;
use super::programs::Partitioning;
use super::side::{HostKeys, HostSide, HostValues};
use super::spill::SpilledRows;
use crate::cpu::partition::partition;
use crate::device::Device;
use crate::error::Result;
use crate::memory::{Element, PinnedBuffer};

/// One side in order of partition.
pub(super) struct CpuPartitioned {
    /// Hold the rows' memory.
    _columns: (Box<dyn Send>, Box<dyn Send>),
    pub rows: SpilledRows,
}

impl Partitioning {
    /// The partition of a key, as in the kernels.
    fn of(&self, key: u64, equal_hashes: bool) -> usize {
        match (self.ranges, equal_hashes) {
            (0, true) => 0,
            (0, false) => (hash_of(key) as u32 & (self.count - 1)) as usize,
            _ => (key.wrapping_sub(self.key_min) >> self.shift).min(self.count as u64 - 1) as usize,
        }
    }
}

impl CpuPartitioned {
    pub fn new(
        device: &Device,
        side: &HostSide<'_>,
        partitions: Partitioning,
        equal_hashes: bool,
    ) -> Result<CpuPartitioned> {
        let numbers: Vec<u32>;
        let (narrow, wide): (&[u32], &[u64]) = match side.values {
            HostValues::Rows => {
                numbers = (0..side.len() as u32).collect();
                (&numbers, &[])
            }
            HostValues::U32(values) => (values, &[]),
            HostValues::U64(values) => (&[], values),
        };
        let is_wide = matches!(side.values, HostValues::U64(_));
        let of = |key: u64| partitions.of(key, equal_hashes);
        let bins = partitions.count as usize;
        let (keys_out, values_out, offsets) = match (side.keys, is_wide) {
            (HostKeys::U32(keys), false) => columns(device, keys, narrow, bins, |key| of(key as u64))?,
            (HostKeys::U32(keys), true) => columns(device, keys, wide, bins, |key| of(key as u64))?,
            (HostKeys::U64(keys), false) => columns(device, keys, narrow, bins, of)?,
            (HostKeys::U64(keys), true) => columns(device, keys, wide, bins, of)?,
        };
        let mut rows = SpilledRows::new(side.widths(), partitions.count);
        rows.add(
            keys_out.0,
            values_out.0,
            offsets.into_iter().map(|at| at as u32).collect(),
        );
        Ok(CpuPartitioned {
            _columns: (keys_out.1, values_out.1),
            rows,
        })
    }
}

/// A column's address, and what holds it.
type Column = (usize, Box<dyn Send>);

fn columns<K: Element, V: Element>(
    device: &Device,
    keys: &[K],
    values: &[V],
    bins: usize,
    of: impl Fn(K) -> usize + Sync,
) -> Result<(Column, Column, Vec<usize>)> {
    let mut keys_out: PinnedBuffer<K> = device.pinned(keys.len() as u64)?;
    let mut values_out: PinnedBuffer<V> = device.pinned(values.len() as u64)?;
    let offsets = partition(keys, values, &mut keys_out, &mut values_out, bins, of);
    let (keys_at, values_at) = (keys_out.address() as usize, values_out.address() as usize);
    Ok((
        (keys_at, Box::new(keys_out)),
        (values_at, Box::new(values_out)),
        offsets,
    ))
}
