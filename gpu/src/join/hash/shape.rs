//! Shapes of the partitioned hash join's kernels, by size of input and tuples.

use super::partition::{Layout, PartitionShape};
use crate::join::Keys;

/// How a hash join works, beyond what follows from its input.
#[derive(Clone, Debug, Default)]
pub struct HashOptions {
    /// Gives all keys one hash, to test what depends on their spread.
    pub equal_hashes: bool,
    /// Passes of the partitioning, instead of the usual ones.
    pub passes: Option<Vec<PartitionShape>>,
    /// Shape of the join of partitions, instead of the usual one.
    pub join: Option<JoinShape>,
}

impl HashOptions {
    /// Tuples, join and passes for these build keys. `wide`: a value beside them, on either side, has 8 bytes.
    pub(super) fn plan(&self, build: Keys<'_>, wide: bool) -> (Layout, JoinShape, Vec<PartitionShape>) {
        let layout = Layout {
            key: build.c_name(),
            wide: wide || build.width() == 8,
            equal_hashes: self.equal_hashes,
        };
        let shape = self.join.unwrap_or(JoinShape::USUAL);
        let usual = || usual_passes(shape.partition_bits(build.len()), layout.tuple_bytes());
        let passes = self.passes.clone().unwrap_or_else(usual);
        (layout, shape, passes)
    }
}

/// Shape of the join of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinShape {
    pub threads: u32,
    /// Probe tuples of a thread, held in registers.
    pub items: u32,
    /// Blocks that registers must allow on a multiprocessor.
    pub blocks: u32,
    /// Build tuples that a table holds: at most 65534.
    pub capacity: u32,
    /// Tiles of probe tuples that share a table.
    pub tiles: u32,
}

impl JoinShape {
    /// The usual shape: two blocks share the 227 KiB of a multiprocessor, whatever the tuples' size.
    pub const USUAL: JoinShape = JoinShape {
        threads: 512,
        items: 8,
        blocks: 2,
        capacity: 4400,
        tiles: 16,
    };

    /// Probe tuples of a tile.
    pub fn tile(&self) -> u32 {
        self.threads * self.items
    }

    /// Slots of the table, as a power of two: twice the tuples of a well filled table.
    pub fn slots_log2(&self) -> u32 {
        (self.capacity as u64 * 3 / 2)
            .next_power_of_two()
            .trailing_zeros()
            .max(5)
    }

    /// Partitions that `rows` build rows need so that hardly any exceeds the table's capacity, as a power of two.
    pub fn partition_bits(&self, rows: u64) -> u32 {
        let usual = (self.capacity as u64 * 15 / 16).max(1);
        rows.div_ceil(usual).next_power_of_two().trailing_zeros()
    }
}

/// Bits of the passes that make at least `2^bits` partitions, from a short list, so that few programs are compiled.
pub(super) fn usual_passes(bits: u32, tuple_bytes: u64) -> Vec<PartitionShape> {
    let passes: &[u32] = match bits {
        ..=4 => &[4],
        5..=6 => &[6],
        7..=8 => &[8],
        9..=11 => &[11],
        12 => &[6, 6],
        13 => &[7, 6],
        14 => &[7, 7],
        // Measured on an H100 (`bench/results/joins-h100.txt`): narrow tuples gain from a smaller first pass.
        15 if tuple_bytes == 8 => &[6, 9],
        15 => &[8, 7],
        16 => &[8, 8],
        _ => &[9, 8],
    };
    let (threads, items) = if tuple_bytes == 8 { (1024, 16) } else { (1024, 8) };
    passes
        .iter()
        .map(|&bits| PartitionShape {
            bits,
            threads,
            items,
            blocks: 1,
        })
        .collect()
}
