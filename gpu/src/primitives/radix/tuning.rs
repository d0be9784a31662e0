//! Shapes of the radix pass by element sizes. They pass through macros, not through the shared tuning header, because
//! they depend on the specialisation.

/// Shape of a radix pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadixTuning {
    /// Threads of a block: at least the bins.
    pub threads: u32,
    /// Items of a thread, held in registers.
    pub items: u32,
    /// Blocks that registers must allow on a multiprocessor.
    pub blocks: u32,
}

impl RadixTuning {
    /// The shape for keys and payload of these sizes. Large tiles make long runs a bin, but registers (keys and
    /// payload of a thread) and shared memory (keys and payload of a tile) must leave room for two blocks and more.
    pub fn of(key_bytes: u32, payload_bytes: u32) -> RadixTuning {
        let (threads, items) = match (key_bytes, key_bytes.max(4) + payload_bytes) {
            (_, ..=4) => (512, 24),
            (..=4, ..=8) => (384, 24),
            (_, ..=8) => (384, 20),
            (_, ..=12) => (384, 16),
            (_, ..=16) => (384, 14),
            (_, ..=20) => (384, 10),
            (_, ..=24) => (384, 9),
            _ => (384, 6),
        };
        RadixTuning {
            threads,
            items,
            blocks: 2,
        }
    }

    /// Items of a tile.
    pub fn tile(&self) -> u64 {
        self.threads as u64 * self.items as u64
    }
}

/// Items of one tile for keys and payload of these sizes: where sizes become interesting to tests.
pub fn tile_items(key_bytes: u32, payload_bytes: u32) -> u64 {
    RadixTuning::of(key_bytes, payload_bytes).tile()
}
