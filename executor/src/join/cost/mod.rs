//! Seconds that a join path takes: from what is known of the inputs (`inputs`) and what this machine can do
//! (`parameters`).
//!
//! What all paths share (the build side's scan, the rows that come out) is left out. On the GPU an operator costs so many
//! passes over its words (key and row number) in device memory, as measured on an H100 at 16 M rows a side: HJ 1.0 ms,
//! SMJ 1.6, of sorted sides 0.6, INLJ 1.7 (`bench/results/joins-h100.txt`); what launches cost shows at 1 M rows.

mod inputs;
mod parameters;

use datafusion::common::JoinSide;

pub use inputs::{CostInputs, IndexInputs, Predicate, SideInputs};
pub use parameters::{CostParameters, Cpu, FAR_ROWS, Gpu, Hashing, NEAR_ROWS, Rate};

use super::path::{JoinPath, Operator};
use super::table::{SHARED_ROWS_MIN, is_direct};
use crate::scan::MORSEL_ROWS;

/// Threads that start, and the work that is handed to them, where both sides are materialized.
const COLLECTED_S: f64 = 60.0e-6;
/// New memory of a row that is kept, and a pair's way through row numbers, beside what a streamed row costs.
const COLLECTED_ROW_S: f64 = 10.0e-9;
/// More for each pair in an order that is neither side's, as HJ and SMJ put pairs out on the GPU: both sides' columns are
/// gathered from all over memory.
const SCATTERED_ROW_S: f64 = 13.0e-9;
/// Pairs of a small build side cost more where each batch has its own, in those of a nested loop.
const STREAMED_PAIRS: f64 = 2.0;
/// Allocations, small copies and waits of one join on the GPU.
const GPU_CALLS_S: f64 = 300.0e-6;
/// Kernels of a join, about: sorts and partitions in passes, counts, sums and writes.
const LAUNCHES: f64 = 50.0;
/// Passes over words in device memory.
const HASH_PASSES: f64 = 11.0;
/// For each four bytes of a key.
const SORT_PASSES: f64 = 11.5;
const MERGE_PASSES: f64 = 6.6;
/// Of the searching side.
const SEARCH_PASSES: f64 = 37.0;
/// Keys of a range this many times the rows make an array of the shared table.
const DENSE_RATIO: u64 = 4;
/// Device memory of a build row that the Triton join caches: two words in a table that is half full.
const TRITON_TABLE_BYTES: f64 = 32.0;
/// Spilled rows lie in pinned memory, whose copies are only bound by the bus.
const PINNED_BYTES_PER_S: f64 = 50.0e9;
/// Making a range of a row's bounds, in keys turned into words.
const BOUND_CODES: f64 = 3.0;
/// Cores that copy faster than fewer do.
const COPYING_CORES: f64 = 6.0;

/// The sizes of the sides that a path builds and probes.
struct Sizes {
    build: SideInputs,
    probe: SideInputs,
    build_rows: f64,
    probe_rows: f64,
    cores: f64,
}

impl Sizes {
    fn of(inputs: &CostInputs, build: JoinSide) -> Option<Self> {
        let (build, probe) = match build {
            JoinSide::Right => (inputs.probe, inputs.build),
            _ => (inputs.build, inputs.probe),
        };
        Some(Self {
            build_rows: build.rows? as f64,
            probe_rows: probe.rows? as f64,
            cores: inputs.cores.max(1) as f64,
            build,
            probe,
        })
    }
}

impl CostParameters {
    /// None where a size is not known.
    pub fn seconds(&self, inputs: &CostInputs, path: JoinPath) -> Option<f64> {
        let sizes = Sizes::of(inputs, path.build)?;
        let seconds = match (path.indexed, path.on_gpu, path.pipelined) {
            (true, ..) => self.by_index(inputs, &sizes),
            (_, _, true) => self.pipelined(inputs, path.operator, &sizes) + self.index_scan(inputs, &sizes),
            (_, true, _) => self.on_gpu(inputs, path.operator, &sizes) + self.index_scan(inputs, &sizes),
            _ => self.materialized(inputs, path.operator, &sizes) + self.index_scan(inputs, &sizes),
        };
        Some(seconds)
    }

    /// Each row of the other side is looked up.
    fn by_index(&self, inputs: &CostInputs, sizes: &Sizes) -> f64 {
        // As many partitions have work as the outer side has morsels.
        let cores = (sizes.probe_rows / MORSEL_ROWS as f64).ceil().clamp(1.0, sizes.cores);
        let found = inputs.pairs_expected() as f64 / self.cpu.index_rows_per_s / cores;
        let looked_up = match inputs.predicate {
            // One after the other, under counters that all partitions share.
            Predicate::Range { .. } => sizes.probe_rows / self.cpu.index_ranges_per_s,
            _ => sizes.probe_rows / self.cpu.index_lookups_per_s / cores,
        };
        looked_up + found
    }

    /// Reading the table that an index would have spared.
    fn index_scan(&self, inputs: &CostInputs, sizes: &Sizes) -> f64 {
        inputs.index.map_or(0.0, |index| {
            index.table_rows as f64 / self.cpu.scanned_rows_per_s / sizes.cores
        })
    }

    /// The probe side flows past a table of the build side.
    fn pipelined(&self, inputs: &CostInputs, operator: Operator, sizes: &Sizes) -> f64 {
        if operator == Operator::Ninlj {
            return STREAMED_PAIRS * sizes.build_rows * sizes.probe_rows / self.cpu.tested_pairs_per_s / sizes.cores;
        }
        let direct = is_direct(sizes.build.rows.unwrap_or(0), sizes.build.key_span);
        let table = if direct { self.cpu.array } else { self.cpu.table };
        // Ascending keys touch an array from end to end.
        let [build, probe] = seconds(table, sizes, direct);
        let integers = match inputs.predicate {
            Predicate::Equality => sizes.build_rows / self.cpu.coded_rows_per_s,
            _ => 0.0,
        };
        let builders = if sizes.build_rows < SHARED_ROWS_MIN as f64 {
            1.0
        } else {
            sizes.cores
        };
        (integers + sizes.build_rows * build) / builders + sizes.probe_rows * probe / sizes.cores
    }

    /// Both sides at hand, in words, and workers on them.
    fn materialized(&self, inputs: &CostInputs, operator: Operator, sizes: &Sizes) -> f64 {
        let cpu = &self.cpu;
        let sort = |side: &SideInputs, rows: f64| match side.ascending {
            true => 0.0,
            false if inputs.key_bytes <= 4 => rows / cpu.sorted_u32_per_s,
            false => rows / cpu.sorted_u64_per_s,
        };
        let search = sizes.probe_rows * cpu.searches.seconds(sizes.build.rows.unwrap_or(0));
        let work = match (operator, inputs.predicate) {
            (Operator::Ninlj, Predicate::Equality) => sizes.build_rows * sizes.probe_rows / cpu.compared_pairs_per_s,
            (Operator::Ninlj, _) => sizes.build_rows * sizes.probe_rows / cpu.tested_pairs_per_s,
            (_, Predicate::Range { .. }) => sort(&sizes.build, sizes.build_rows) + 2.0 * search,
            (Operator::Hj | Operator::Triton, _) => {
                let rows = sizes.build.rows.unwrap_or(0) as u64;
                let dense = sizes.build.key_span.is_some_and(|span| span / DENSE_RATIO <= rows);
                let table = if dense { cpu.shared_array } else { cpu.shared_table };
                let [build, probe] = seconds(table, sizes, dense);
                sizes.build_rows * build + sizes.probe_rows * probe
            }
            (Operator::Inlj, _) => sort(&sizes.build, sizes.build_rows) + search,
            (Operator::Smj, _) => {
                let sorts = sort(&sizes.build, sizes.build_rows) + sort(&sizes.probe, sizes.probe_rows);
                sorts + (sizes.build_rows + sizes.probe_rows) / cpu.merged_rows_per_s
            }
        };
        self.at_hand(inputs, operator, sizes) + work / sizes.cores
    }

    /// Putting the probe side together and turning keys into words: memory lets no more than a few cores be of use.
    fn at_hand(&self, inputs: &CostInputs, operator: Operator, sizes: &Sizes) -> f64 {
        let probe = inputs.probe;
        let copied = probe.rows.unwrap_or(0) as f64 * probe.row_bytes as f64 / self.cpu.copied_bytes_per_s;
        let code = 1.0 / self.cpu.coded_rows_per_s;
        let hands = sizes.cores.min(COPYING_CORES);
        let codes = match (inputs.predicate, operator) {
            (Predicate::Equality, _) => sizes.build_rows + sizes.probe_rows,
            (Predicate::Range { .. }, Operator::Ninlj) | (Predicate::Other, _) => 0.0,
            (Predicate::Range { .. }, _) => sizes.build_rows + (2.0 + BOUND_CODES) * sizes.probe_rows,
        };
        let kept = COLLECTED_ROW_S * probe.rows.unwrap_or(0) as f64;
        let gathered = COLLECTED_ROW_S * inputs.pairs_expected() as f64 / sizes.cores;
        COLLECTED_S + (copied + kept + codes * code) / hands + gathered
    }

    /// From host memory to row numbers there.
    fn on_gpu(&self, inputs: &CostInputs, operator: Operator, sizes: &Sizes) -> f64 {
        let gpu = &self.gpu;
        let word = inputs.key_bytes as f64;
        let words_in = match inputs.predicate {
            Predicate::Equality => sizes.build_rows + sizes.probe_rows,
            Predicate::Range { .. } => sizes.build_rows + 2.0 * sizes.probe_rows,
            // The condition's columns.
            Predicate::Other => sizes.build_rows + sizes.probe_rows,
        };
        let found = inputs.pairs_expected() as f64;
        let transfer = words_in * word / gpu.to_device_bytes_per_s + found * 8.0 / gpu.from_device_bytes_per_s;
        let pass = |rows: f64| rows * (word + 4.0) / gpu.memory_bytes_per_s;
        let sort = |side: &SideInputs, rows: f64| match side.ascending {
            true => 0.0,
            false => SORT_PASSES * (word / 4.0) * pass(rows),
        };
        let searched = SEARCH_PASSES * pass(sizes.probe_rows);
        let inside = match (operator, inputs.predicate) {
            (Operator::Ninlj, Predicate::Equality) => {
                sizes.build_rows * sizes.probe_rows * (word / 4.0) / gpu.compared_pairs_per_s
            }
            (Operator::Ninlj, _) => sizes.build_rows * sizes.probe_rows / gpu.tested_pairs_per_s,
            (_, Predicate::Range { .. }) => sort(&sizes.build, sizes.build_rows) + 2.0 * searched,
            (Operator::Hj, _) => HASH_PASSES * pass(sizes.build_rows + sizes.probe_rows),
            (Operator::Triton, _) => {
                HASH_PASSES * pass(sizes.build_rows + sizes.probe_rows) + self.spilling(inputs, sizes)
            }
            (Operator::Inlj, _) => sort(&sizes.build, sizes.build_rows) + searched,
            (Operator::Smj, _) => {
                let sorts = sort(&sizes.build, sizes.build_rows) + sort(&sizes.probe, sizes.probe_rows);
                sorts + MERGE_PASSES * pass(sizes.build_rows + sizes.probe_rows)
            }
        };
        let written = found * 8.0 / gpu.memory_bytes_per_s;
        let scattered = match operator {
            Operator::Hj | Operator::Smj if inputs.predicate == Predicate::Equality => {
                SCATTERED_ROW_S * found / sizes.cores
            }
            _ => 0.0,
        };
        let calls = GPU_CALLS_S + LAUNCHES * gpu.launch_s;
        inputs.device.queued_s()
            + calls
            + self.at_hand(inputs, operator, sizes)
            + transfer
            + inside
            + written
            + scattered
    }
}

impl CostParameters {
    /// What the Triton join finds no room for goes to the host and comes back once more.
    fn spilling(&self, inputs: &CostInputs, sizes: &Sizes) -> f64 {
        let table_bytes = sizes.build_rows * TRITON_TABLE_BYTES;
        let spilled = (1.0 - inputs.device.free_bytes() as f64 / table_bytes.max(1.0)).clamp(0.0, 1.0);
        let bytes = spilled * (sizes.build_rows + sizes.probe_rows) * (inputs.key_bytes + 4) as f64;
        2.0 * bytes / PINNED_BYTES_PER_S
    }
}

/// Device memory: keys and row numbers, the same again sorted or partitioned, and pairs.
pub fn gpu_bytes(inputs: &CostInputs) -> Option<u64> {
    let rows = inputs.build.rows? + inputs.probe.rows?;
    Some((rows * (3 * (inputs.key_bytes + 4) + 12)) as u64)
}

/// Seconds a row of building and of probing. Keys in the order of an array stay in the caches.
fn seconds(table: Hashing, sizes: &Sizes, in_order: bool) -> [f64; 2] {
    let rows = sizes.build.rows.unwrap_or(0);
    let at = |side: &SideInputs| if in_order && side.ascending { 0 } else { rows };
    [
        table.build.seconds(at(&sizes.build)),
        table.probe.seconds(at(&sizes.probe)),
    ]
}
