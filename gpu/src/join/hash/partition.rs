//! Radix partitioning by hash, unstable (He 2008, section 4.3; Lutz 2022, section 4).
//!
//! Bytes of one pass over `n` tuples of `t` bytes: `2 n t`, and for the histogram, once, the keys. Memory: the output,
//! and as much again between two passes.

use super::materialised::Column;
use super::shape::HashOptions;
use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::kernel::Kernel;
use crate::launch::{KernelParams, LaunchConfig};
use crate::memory::{DeviceBuffer, DevicePtr, DevicePtrMut};
use crate::number::Reduction;
use crate::primitives::read::read;
use crate::primitives::scan::exclusive_scan;
use crate::stream::Stream;
use crate::{kernel_params, source};

kernel_params! {
    /// Counts of `2^bits` partitions.
    struct HistogramParams { keys: DevicePtr<u8>, items: u64, counts: DevicePtrMut<u32>, bits: u32, shared_bits: u32 }
}
kernel_params! {
    /// Cursors from first places; `first` is null if there is one pass.
    struct CursorsParams {
        offsets: DevicePtr<u32>,
        cursors: DevicePtrMut<u32>,
        first: DevicePtrMut<u32>,
        partitions: u32,
        second_bits: u32,
    }
}
kernel_params! {
    /// Tiles of the second pass.
    struct PiecesParams {
        offsets: DevicePtr<u32>,
        pieces: DevicePtrMut<[u32; 4]>,
        count: DevicePtrMut<u32>,
        partitions: u32,
        second_bits: u32,
        tile: u32,
        unused: u32,
    }
}
kernel_params! {
    /// One pass: over columns, or over the pieces of tuples.
    struct PassParams {
        keys: DevicePtr<u8>,
        values: DevicePtr<u8>,
        tuples: DevicePtr<u64>,
        pieces: DevicePtr<[u32; 4]>,
        piece_count: DevicePtr<u32>,
        output: DevicePtrMut<u64>,
        cursors: DevicePtrMut<u32>,
        items: u64,
        shift: u32,
        unused: u32,
    }
}

kernel_params! {
    /// Tuples that get their places as values, and where the values go.
    struct NumberParams { tuples: DevicePtrMut<u64>, values: DevicePtrMut<u32>, items: u64 }
}

static SOURCE: Source = source!(
    "join_hash_partition.cu",
    HistogramParams,
    CursorsParams,
    PiecesParams,
    PassParams,
    NumberParams
);

/// Partitions at most, as a power of two.
const BITS_MAX: u32 = 17;
/// Partitions whose counters fit shared memory, as a power of two.
const SHARED_BITS: u32 = 15;
/// Tuples at most: their numbers, and those of a tile beyond, take 32 bits.
const ITEMS_MAX: u64 = u32::MAX as u64 - (1 << 20);

/// Shape of a pass of partitioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionShape {
    /// Makes `2^bits` partitions of each of the pass before.
    pub bits: u32,
    pub threads: u32,
    /// Tuples of a thread, held in registers.
    pub items: u32,
    /// Blocks that registers must allow on a multiprocessor.
    pub blocks: u32,
}

impl PartitionShape {
    fn tile(&self) -> u32 {
        self.threads * self.items
    }

    /// Tuples of a tile, and of each bin a counter and a place.
    fn shared_bytes(&self, tuple_bytes: u64) -> u64 {
        self.tile() as u64 * tuple_bytes + (6 << self.bits)
    }
}

/// Types of a partitioning: of both sides' keys, and whether tuples have 16 bytes instead of 8.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub key: &'static str,
    pub wide: bool,
    pub equal_hashes: bool,
}

impl Layout {
    pub fn tuple_bytes(&self) -> u64 {
        if self.wide { 16 } else { 8 }
    }

    pub fn define(&self, program: Program) -> Program {
        program
            .define("KEY", self.key)
            .define("WORD", if self.wide { "u64" } else { "u32" })
            .define("HASH_EQUAL", u8::from(self.equal_hashes))
    }
}

/// Tuples in order of partition.
pub struct Partitioned {
    /// Of 8 or 16 bytes: key and value, of half that each.
    pub(super) tuples: DeviceBuffer<u64>,
    /// First tuple of each partition, and the end.
    pub(super) offsets: DeviceBuffer<u32>,
    pub(super) items: u64,
    pub(super) bits: u32,
}

impl Partitioned {
    /// Tuples of the largest partition. Waits for the device.
    pub(super) fn largest(&self, stream: &Stream) -> Result<u64> {
        let offsets = read(stream, self.offsets.view())?;
        Ok(offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0) as u64)
    }

    /// Gives the tuples their places as values; the row numbers that were their values come back. `pass` is one that
    /// made them.
    pub(super) fn number_by_place(
        &mut self,
        stream: &Stream,
        layout: Layout,
        pass: &PartitionShape,
    ) -> Result<DeviceBuffer<u32>> {
        let mut values = stream.alloc::<u32>(self.items)?;
        let params = NumberParams {
            tuples: self.tuples.ptr_mut(),
            values: values.ptr_mut(),
            items: self.items,
        };
        let module = stream.device().load(&program(layout, "u32", pass, true))?;
        let kernel = module.kernel::<NumberParams>("number_by_place")?;
        // SAFETY: `items` tuples and values.
        unsafe { launch_over(stream, &kernel, self.items, &params)? };
        Ok(values)
    }
}

fn program(layout: Layout, value: &str, shape: &PartitionShape, first: bool) -> Program {
    layout
        .define(Program::new(&SOURCE))
        .define("VALUE", value)
        .define("BITS", shape.bits)
        .define("FIRST", u8::from(first))
        .define("THREADS", shape.threads)
        .define("ITEMS", shape.items)
        .define("BLOCKS", shape.blocks)
}

/// Specialisations that the tests compile.
pub(super) fn programs() -> Vec<Program> {
    let mut programs = Vec::new();
    for (key, value, wide) in [("u32", "u32", false), ("u64", "u32", true), ("u64", "u64", true)] {
        let layout = Layout {
            key,
            wide,
            equal_hashes: false,
        };
        for bits in [4, 12, 15] {
            let passes = super::shape::usual_passes(bits, layout.tuple_bytes());
            for (i, shape) in passes.iter().enumerate() {
                programs.push(program(layout, value, shape, i == 0));
            }
        }
    }
    programs
}

/// Partitions keys with their values (none: the tuples' numbers) in one or two passes. Both sides of a join take the
/// same `layout` and the same bits in all.
pub(super) fn partition_tuples(
    stream: &Stream,
    layout: Layout,
    keys: Column<'_>,
    values: Option<Column<'_>>,
    passes: &[PartitionShape],
) -> Result<Partitioned> {
    let (items, bits) = (keys.len(), passes.iter().map(|pass| pass.bits).sum::<u32>());
    let (partitions, second_bits) = (1u32 << bits, if passes.len() == 2 { passes[1].bits } else { 0 });
    if items > ITEMS_MAX || bits > BITS_MAX || passes.is_empty() || passes.len() > 2 {
        return Err(GpuError::Invalid(format!(
            "partitioning {items} rows by passes {passes:?}"
        )));
    }
    let device = stream.device();
    let value = values.map_or("u32", |values| values.c_name());
    let words = items * layout.tuple_bytes() / 8;
    let first = device.load(&program(layout, value, &passes[0], true))?;

    let mut counts = stream.alloc_zeroed::<u32>(partitions as u64)?;
    let histogram = first.kernel::<HistogramParams>("partition_histogram")?;
    let (threads, shared) = (512, 4 << bits.min(SHARED_BITS));
    let fill = histogram.resident_blocks(threads, shared)?.max(1) * device.info().multiprocessors;
    let params = HistogramParams {
        keys: DevicePtr::new(keys.address()),
        items,
        counts: counts.ptr_mut(),
        bits,
        shared_bits: SHARED_BITS,
    };
    let blocks = items.div_ceil(threads as u64 * 16).min(fill as u64) as u32;
    let config = LaunchConfig {
        grid: (blocks, 1 << bits.saturating_sub(SHARED_BITS), 1),
        ..LaunchConfig::new(blocks, threads).shared(shared)
    };
    // SAFETY: `items` keys; a counter a partition, and as many in shared memory as a row of the grid counts.
    unsafe { histogram.launch(stream, &config, &params)? };

    let mut offsets = stream.alloc::<u32>(partitions as u64 + 1)?;
    exclusive_scan(stream, counts.view(), offsets.view_mut(), Reduction::Sum)?;
    // Counted: the counters serve as cursors.
    let mut cursors = counts;
    let mut first_cursors = stream.alloc::<u32>((partitions >> second_bits) as u64)?;
    let params = CursorsParams {
        offsets: offsets.ptr(),
        cursors: cursors.ptr_mut(),
        first: if second_bits > 0 {
            first_cursors.ptr_mut()
        } else {
            DevicePtrMut::null()
        },
        partitions,
        second_bits,
    };
    let plan = first.kernel::<CursorsParams>("partition_cursors")?;
    // SAFETY: lengths by partitions.
    unsafe { plan.launch(stream, &LaunchConfig::cover(partitions as u64, 256, 256)?, &params)? };

    let mut tuples = stream.alloc::<u64>(words)?;
    let params = PassParams {
        keys: DevicePtr::new(keys.address()),
        values: DevicePtr::new(values.map_or(0, |values| values.address())),
        tuples: DevicePtr::null(),
        pieces: DevicePtr::null(),
        piece_count: DevicePtr::null(),
        output: tuples.ptr_mut(),
        cursors: if second_bits > 0 {
            first_cursors.ptr_mut()
        } else {
            cursors.ptr_mut()
        },
        items,
        shift: 32 - passes[0].bits,
        unused: 0,
    };
    let pass = first.kernel::<PassParams>("partition_pass")?;
    let tiles = items.div_ceil(passes[0].tile() as u64);
    let config = pass_config(stream, &pass, &passes[0], layout, tiles)?;
    // SAFETY: columns of `items` elements; the cursors lead to places within the output, each once.
    unsafe { pass.launch(stream, &config, &params)? };
    if let [_, shape] = passes {
        let between = tuples;
        tuples = stream.alloc::<u64>(words)?;
        let input = (&between, offsets.ptr(), items);
        second_pass(stream, layout, *shape, bits, input, &mut cursors, &mut tuples)?;
    }
    Ok(Partitioned {
        tuples,
        offsets,
        items,
        bits,
    })
}

/// The pass over tuples in order of the partitions of the pass before: `input` is the tuples, the first places of the
/// final partitions, and the number of tuples.
fn second_pass(
    stream: &Stream,
    layout: Layout,
    shape: PartitionShape,
    bits: u32,
    (between, offsets, items): (&DeviceBuffer<u64>, DevicePtr<u32>, u64),
    cursors: &mut DeviceBuffer<u32>,
    output: &mut DeviceBuffer<u64>,
) -> Result<()> {
    let module = stream.device().load(&program(layout, "u32", &shape, false))?;
    let partitions = 1u32 << (bits - shape.bits);
    let pieces_max = items.div_ceil(shape.tile() as u64) + partitions as u64;
    let mut pieces = stream.alloc::<[u32; 4]>(pieces_max)?;
    let mut piece_count = stream.alloc_zeroed::<u32>(1)?;
    let params = PiecesParams {
        offsets,
        pieces: pieces.ptr_mut(),
        count: piece_count.ptr_mut(),
        partitions,
        second_bits: shape.bits,
        tile: shape.tile(),
        unused: 0,
    };
    let cut = module.kernel::<PiecesParams>("partition_pieces")?;
    // SAFETY: a tile more than whole ones for each partition at most.
    unsafe { cut.launch(stream, &LaunchConfig::cover(partitions as u64, 8, 256)?, &params)? };
    let params = PassParams {
        keys: DevicePtr::null(),
        values: DevicePtr::null(),
        tuples: between.ptr(),
        pieces: pieces.ptr(),
        piece_count: piece_count.ptr(),
        output: output.ptr_mut(),
        cursors: cursors.ptr_mut(),
        items,
        shift: 32 - bits,
        unused: 0,
    };
    let pass = module.kernel::<PassParams>("partition_pass")?;
    let config = pass_config(stream, &pass, &shape, layout, pieces_max)?;
    // SAFETY: pieces lie within the tuples; the cursors lead to places within the output, each once.
    unsafe { pass.launch(stream, &config, &params) }
}

/// Blocks that stay: as many as the device holds at once.
fn pass_config(
    stream: &Stream,
    pass: &Kernel<PassParams>,
    shape: &PartitionShape,
    layout: Layout,
    tiles: u64,
) -> Result<LaunchConfig> {
    let shared = shape.shared_bytes(layout.tuple_bytes()) as u32;
    let fill = pass.resident_blocks(shape.threads, shared)?.max(1) * stream.device().info().multiprocessors;
    Ok(LaunchConfig::new(tiles.min(fill as u64) as u32, shape.threads).shared(shared))
}

/// Launches a grid-stride kernel over so many items, with no more blocks than fill the device.
///
/// # Safety
/// As [`Kernel::launch`].
pub(super) unsafe fn launch_over<P: KernelParams>(
    stream: &Stream,
    kernel: &Kernel<P>,
    items: u64,
    params: &P,
) -> Result<()> {
    let threads = 256;
    let fill = kernel.resident_blocks(threads, 0)?.max(1) * stream.device().info().multiprocessors;
    let blocks = items.div_ceil(threads as u64).min(fill as u64) as u32;
    // SAFETY: the caller's promise.
    unsafe { kernel.launch(stream, &LaunchConfig::new(blocks, threads), params) }
}

/// Partitions a key and a value column, as a join does, to measure it alone.
pub fn partition(
    stream: &Stream,
    keys: Column<'_>,
    values: Column<'_>,
    bits: u32,
    options: &HashOptions,
) -> Result<Partitioned> {
    let layout = Layout {
        key: keys.c_name(),
        wide: keys.width() == 8 || values.width() == 8,
        equal_hashes: options.equal_hashes,
    };
    let usual = || super::shape::usual_passes(bits, layout.tuple_bytes());
    let passes = options.passes.clone().unwrap_or_else(usual);
    partition_tuples(stream, layout, keys, Some(values), &passes)
}
