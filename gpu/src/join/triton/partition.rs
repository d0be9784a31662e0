//! Partitioners over an interconnect (Lutz 2022, section 4, table 1 and figure 18): kernels that read columns of keys
//! and values and write tuples in order of partition, each in host or device memory. The join itself orders chunks
//! within device memory; these are what it is measured against.

use rayon::prelude::*;

use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut, PinnedBuffer};
use crate::stream::Stream;
use crate::tuning::{TRITON_PARTITION_ITEMS, TRITON_PARTITION_THREADS};
use crate::{kernel_params, source};

kernel_params! {
    /// Keys to count by partition.
    struct CountParams { keys: DevicePtr<u64>, items: u64, counts: DevicePtrMut<u64>, partitions: u32, unused: u32 }
}
kernel_params! {
    /// Columns to partition.
    struct PartitionParams {
        keys: DevicePtr<u64>,
        values: DevicePtr<u64>,
        items: u64,
        output: DevicePtrMut<u64>,
        fronts: DevicePtrMut<u64>,
        backs: DevicePtrMut<u64>,
        second: DevicePtrMut<u64>,
        partitions: u32,
        size: u32,
        second_size: u32,
        unused: u32,
    }
}

static SOURCE: Source = source!("triton_partition.cu", CountParams, PartitionParams);

/// How tuples are gathered before they are written. The numbers are those of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioner {
    /// They are not.
    Standard = 0,
    /// Tiles are ordered in shared memory (linear allocator).
    Linear = 1,
    /// Write-combining buffers that a block shares (section 4.2).
    Shared = 2,
    /// The same with a second level of buffers in device memory (section 4.3).
    Hierarchical = 3,
}

impl Partitioner {
    pub const ALL: [Partitioner; 4] = [
        Partitioner::Standard,
        Partitioner::Linear,
        Partitioner::Shared,
        Partitioner::Hierarchical,
    ];
}

/// Which processor counts the partitions (section 6.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixSum {
    Cpu,
    Gpu,
}

/// Keys and values of the same length.
#[derive(Clone, Copy)]
pub enum PartitionInput<'a> {
    Host(&'a PinnedBuffer<u64>, &'a PinnedBuffer<u64>),
    Device(DeviceView<'a, u64>, DeviceView<'a, u64>),
}

/// Room for tuples: key and value, side by side.
pub enum Tuples<'a> {
    Host(&'a mut PinnedBuffer<u64>),
    Device(DeviceViewMut<'a, u64>),
}

/// Partitions begin at multiples of so many tuples: 128 bytes, a transaction over the bus (section 3.4.1).
const ALIGN_TUPLES: u64 = 8;
const TUPLE_BYTES: u32 = 16;
/// Shared memory for write-combining buffers.
const BUFFER_BYTES: u32 = 128 << 10;
/// Tuples of a buffer in device memory: 4 KiB, from where random writes over the bus are nearly as fast as others.
const SECOND_TUPLES: u32 = 256;

/// Where partitions lie among the tuples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// First tuple of each partition.
    pub starts: Vec<u64>,
    /// Tuples of each partition.
    pub counts: Vec<u64>,
}

impl Places {
    fn new(counts: Vec<u64>) -> Places {
        let mut next = 0;
        let place = |&count: &u64| {
            let start: u64 = next;
            next = (start + count).next_multiple_of(ALIGN_TUPLES);
            start
        };
        let starts = counts.iter().map(place).collect();
        Places { starts, counts }
    }

    /// Tuples that there must be room for.
    pub fn room(items: u64, fan_out: u32) -> u64 {
        items + fan_out as u64 * ALIGN_TUPLES
    }
}

impl PartitionInput<'_> {
    fn len(&self) -> u64 {
        match self {
            PartitionInput::Host(keys, _) => keys.len() as u64,
            PartitionInput::Device(keys, _) => keys.len(),
        }
    }

    fn addresses(&self) -> Result<(u64, u64)> {
        let (lengths, addresses) = match self {
            PartitionInput::Host(keys, values) => (
                (keys.len() as u64, values.len() as u64),
                (keys.address() as u64, values.address() as u64),
            ),
            PartitionInput::Device(keys, values) => ((keys.len(), values.len()), (keys.ptr().0, values.ptr().0)),
        };
        if lengths.0 == lengths.1 {
            return Ok(addresses);
        }
        Err(GpuError::Invalid(format!(
            "{} keys with {} values",
            lengths.0, lengths.1
        )))
    }
}

/// The partition of a key: the low bits of the hash, as in the kernels.
pub fn partition_of(key: u64, fan_out: u32) -> u32 {
    hash_of(key) as u32 & (fan_out - 1)
}

/// The kernels' hash.
pub(super) fn hash_of(key: u64) -> u64 {
    let key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

fn check_fan_out(fan_out: u32) -> Result<()> {
    if fan_out.is_power_of_two() && (2..=super::PARTITIONS_MAX).contains(&fan_out) {
        return Ok(());
    }
    Err(GpuError::Invalid(format!("a fan-out of {fan_out}")))
}

fn program(algorithm: Partitioner) -> Program {
    Program::new(&SOURCE)
        .define("KEY", "u64")
        .define("ALGORITHM", algorithm as u8)
        .define("HASH_EQUAL", 0)
}

/// Specialisations that the tests compile.
pub(super) fn programs() -> Vec<Program> {
    Partitioner::ALL.map(program).into()
}

/// Where the partitions of these keys will lie. The CPU counts host columns only.
pub fn prefix_sum(stream: &Stream, columns: PartitionInput<'_>, fan_out: u32, on: PrefixSum) -> Result<Places> {
    check_fan_out(fan_out)?;
    let (keys, _) = columns.addresses()?;
    if let (PrefixSum::Cpu, PartitionInput::Host(keys, _)) = (on, columns) {
        let count = |keys: &[u64]| {
            let mut counts = vec![0u64; fan_out as usize];
            keys.iter()
                .for_each(|&key| counts[partition_of(key, fan_out) as usize] += 1);
            counts
        };
        let add = |a: Vec<u64>, b: Vec<u64>| a.iter().zip(&b).map(|(a, b)| a + b).collect();
        let counts = keys
            .par_chunks(1 << 20)
            .map(count)
            .reduce(|| vec![0; fan_out as usize], add);
        return Ok(Places::new(counts));
    }
    let device = stream.device();
    let mut counts = stream.alloc_zeroed::<u64>(fan_out as u64)?;
    let kernel = device
        .load(&program(Partitioner::Standard))?
        .kernel::<CountParams>("partition_count")?;
    let (threads, shared) = (512, fan_out * 4);
    let fill = kernel.resident_blocks(threads, shared)?.max(1) * device.info().multiprocessors;
    let params = CountParams {
        keys: DevicePtr::new(keys),
        items: columns.len(),
        counts: counts.ptr_mut(),
        partitions: fan_out,
        unused: 0,
    };
    // SAFETY: as many keys; a counter a partition, in shared memory, too.
    unsafe { kernel.launch(stream, &LaunchConfig::new(fill, threads).shared(shared), &params)? };
    Ok(Places::new(stream.download(counts.view())?))
}

/// Partitions columns by the low bits of the keys' hashes into tuples, whose `places` a prefix sum gave. Waits.
pub fn partition(
    stream: &Stream,
    algorithm: Partitioner,
    columns: PartitionInput<'_>,
    fan_out: u32,
    places: &Places,
    target: &mut Tuples<'_>,
) -> Result<()> {
    check_fan_out(fan_out)?;
    let (keys, values) = columns.addresses()?;
    let (output, room) = match target {
        Tuples::Host(buffer) => (buffer.address() as u64, buffer.len() as u64),
        Tuples::Device(view) => (view.ptr_mut().0, view.len()),
    };
    if room < 2 * Places::room(columns.len(), fan_out) || places.counts.iter().sum::<u64>() != columns.len() {
        return Err(GpuError::Invalid(format!(
            "partitioning {} tuples into {room} words",
            columns.len()
        )));
    }
    let device = stream.device();
    let mut fronts = stream.upload(&places.starts)?;
    let ends: Vec<u64> = places.starts.iter().zip(&places.counts).map(|(s, c)| s + c).collect();
    let mut backs = stream.upload(&ends)?;
    let size = (BUFFER_BYTES / TUPLE_BYTES / fan_out).clamp(1, 128);
    let second_size = SECOND_TUPLES.max(size);
    let threads = TRITON_PARTITION_THREADS;
    let tile_bytes = threads * TRITON_PARTITION_ITEMS * TUPLE_BYTES;
    let shared = match algorithm {
        Partitioner::Standard => fan_out * 16,
        Partitioner::Linear => tile_bytes + fan_out * 16,
        Partitioner::Shared => fan_out * (size * TUPLE_BYTES + 8),
        Partitioner::Hierarchical => fan_out * (size * TUPLE_BYTES + 16),
    };
    let kernel = device
        .load(&program(algorithm))?
        .kernel::<PartitionParams>("partition")?;
    // A block has buffers of its own: no more blocks than tiles.
    let tiles = columns.len().div_ceil((threads * TRITON_PARTITION_ITEMS) as u64);
    let fill = kernel.resident_blocks(threads, shared)?.max(1) * device.info().multiprocessors;
    let blocks = tiles.clamp(1, fill as u64) as u32;
    let seconds = match algorithm {
        Partitioner::Hierarchical => blocks as u64 * (fan_out + threads / 32) as u64 * second_size as u64,
        _ => 0,
    };
    let mut second = stream.alloc::<u64>(seconds * 2)?;
    let params = PartitionParams {
        keys: DevicePtr::new(keys),
        values: DevicePtr::new(values),
        items: columns.len(),
        output: DevicePtrMut::new(output),
        fronts: fronts.ptr_mut(),
        backs: backs.ptr_mut(),
        second: second.ptr_mut(),
        partitions: fan_out,
        size,
        second_size,
        unused: 0,
    };
    // SAFETY: as many keys and values, in memory that the device reaches; the places lead to each tuple's own, within
    // the room that was checked.
    unsafe { kernel.launch(stream, &LaunchConfig::new(blocks, threads).shared(shared), &params)? };
    stream.synchronize()
}
