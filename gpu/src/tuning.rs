//! Tuning numbers, in one place for host and kernels: each is a Rust constant here and `tuning::NAME` in kernels.

macro_rules! tuning {
    ($($(#[$meta:meta])* $name:ident : u32 = $value:expr;)*) => {
        $($(#[$meta])* pub const $name: u32 = $value;)*

        /// The numbers as the header `tuning.cuh`, which `tenon.cuh` includes.
        pub fn header() -> String {
            let mut text = String::from("#pragma once\nnamespace tuning {\n");
            $(text.push_str(&format!("constexpr unsigned {} = {};\n", stringify!($name), $name));)*
            text.push_str("}\n");
            text
        }
    };
}

tuning! {
    /// Threads of a block in elementwise kernels.
    MAP_THREADS: u32 = 256;
    /// Items of one thread in elementwise kernels: enough loads in flight to fill the memory pipeline.
    MAP_ITEMS: u32 = 8;
    /// Packs of 16 bytes that a thread of a map holds.
    MAP_PACKS: u32 = 4;
    /// Threads of a block that copies pieces of host memory, and the 16-byte words that each holds at once.
    PIECES_THREADS: u32 = 256;
    PIECES_WORDS: u32 = 4;
    /// Threads of a block in generated pipelines.
    PIPELINE_THREADS: u32 = 256;
    /// Rows that a block of a pipeline takes at once.
    PIPELINE_TILE: u32 = 2048;
    /// Blocks of a pipeline that a multiprocessor shall hold at once.
    PIPELINE_BLOCKS: u32 = 4;
    /// Tiles that do without a list of the rows that pass the first conditions, after one where most did.
    PIPELINE_DIRECT: u32 = 16;
    /// Threads of a block in reductions and histograms.
    REDUCE_THREADS: u32 = 512;
    /// Threads of a block in the single-pass scans: a block is a tile.
    SCAN_THREADS: u32 = 512;
    /// Packs of 16 bytes that a thread of a scan holds: tiles must be large, or look-back becomes the limit.
    SCAN_PACKS: u32 = 7;
    /// Blocks of a scan that a multiprocessor shall hold at once.
    SCAN_BLOCKS: u32 = 2;
    /// Threads of a block in gather and scatter.
    GATHER_THREADS: u32 = 256;
    /// Elements that a thread moves in gather and scatter, all in flight at once.
    GATHER_ITEMS: u32 = 8;
    /// Threads of a block in gather and scatter of wide records.
    WIDE_THREADS: u32 = 256;
    /// Pieces of wide records that a thread moves, all in flight at once.
    WIDE_PIECES: u32 = 4;
    /// Threads of a block that counts digits.
    RADIX_HISTOGRAM_THREADS: u32 = 256;
    /// Items of one thread and round when counting digits.
    RADIX_HISTOGRAM_ITEMS: u32 = 16;
    /// Copies of a block's digit counters, by lane: bounds the collisions that equal keys cause.
    RADIX_HISTOGRAM_COPIES: u32 = 4;
    /// Tiles whose descriptors one step of the radix look-back reads together.
    RADIX_LOOK_BACK: u32 = 4;
    /// Threads of a block in selections: a block is a tile.
    SELECT_THREADS: u32 = 512;
    /// Blocks of a selection that a multiprocessor shall hold at once.
    SELECT_BLOCKS: u32 = 3;
    /// Threads of a block in segmented reductions.
    SEGMENT_THREADS: u32 = 256;
    /// Bytes of shared memory for the counts of a histogram.
    HISTOGRAM_BYTES: u32 = 49152;
    /// Threads of a block in searches.
    SEARCH_THREADS: u32 = 512;
    /// Probes that a thread searches at once, step by step.
    SEARCH_PROBES: u32 = 4;
    /// Groups into which the shared table of a search divides the sorted array.
    SEARCH_GROUPS: u32 = 4096;
    /// Threads of a block that sorts a tile by bitonic steps.
    BITONIC_THREADS: u32 = 512;
    /// Items of such a tile: 16-byte keys fit static shared memory.
    BITONIC_TILE: u32 = 2048;
    /// Threads of a block that merges.
    MERGE_THREADS: u32 = 256;
    /// Items that one of them merges: odd, so that neighbours read from different banks.
    MERGE_ITEMS: u32 = 9;
    /// Threads of a block that probes a CSS-tree.
    CSS_THREADS: u32 = 512;
    /// Probes that one of its threads takes down at once.
    CSS_PROBES: u32 = 2;
    /// Keys of a node: a sector of 32-bit keys, two of 64-bit ones.
    CSS_NODE_KEYS: u32 = 8;
    /// Keys of upper levels that a block keeps in shared memory: four levels of nodes of 8.
    CSS_SHARED_KEYS: u32 = 4680;
    /// Threads of a block that merges probes with build keys.
    JOIN_MERGE_THREADS: u32 = 256;
    /// Keys that one of them merges: odd, so that neighbours read from different banks.
    JOIN_MERGE_ITEMS: u32 = 9;
    /// Threads of a block that expands spans to pairs.
    EXPAND_THREADS: u32 = 256;
    /// Pairs and ends of spans of one of them.
    EXPAND_STEPS: u32 = 8;
    /// Threads of a block of nested loops.
    NESTED_THREADS: u32 = 256;
    /// Build rows that such a block takes at a time.
    NESTED_TILE: u32 = 1024;
    /// Blocks of nested loops to cut for a multiprocessor, most of which wait for their turn.
    NESTED_BLOCKS: u32 = 32;
    /// Pairs that a warp of nested loops gathers before it takes places for them.
    NESTED_STAGE: u32 = 128;
    /// Threads of a block that inserts or looks up rows of a chunk.
    TRITON_THREADS: u32 = 256;
    /// Rows of one of them: their loads are in flight at once.
    TRITON_ITEMS: u32 = 4;
    /// Threads of a block that orders spilled rows by partition.
    TRITON_SPILL_THREADS: u32 = 512;
    /// Rows of one of them, held in registers.
    TRITON_SPILL_ITEMS: u32 = 8;
    /// Threads of a block that gathers runs over the bus: one block a multiprocessor, which leaves room for others.
    TRITON_GATHER_THREADS: u32 = 256;
    /// Rows of one of them, in flight at once.
    TRITON_GATHER_ITEMS: u32 = 8;
    /// Threads of a block that partitions over the bus: one block a multiprocessor.
    TRITON_PARTITION_THREADS: u32 = 512;
    /// Tuples of one of them, in flight at once.
    TRITON_PARTITION_ITEMS: u32 = 4;
}
