//! Seconds that a way of joining takes on a machine.
//!
//! What all ways share (the build side's scan, the rows that come out) is left out. On the GPU an operator costs so many
//! passes over its words (key and row number) in device memory, as measured on an H100 at 16 M rows a side: HJ 1.0 ms,
//! SMJ 1.6, of sorted sides 0.6, INLJ 1.7 (`bench/results/joins-h100.txt`); what launches cost shows at 1 M rows.

use datafusion::common::JoinSide;

use super::choice::{Facts, Operator, Predicate, SideFacts, Way};
use super::machine::{Hashing, Machine};
use super::table::{SHARED_ROWS_MIN, is_direct};
use crate::scan::MORSEL_ROWS;

/// Threads that start, and the work that is handed to them, where both sides are collected.
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

/// The sizes in a way's own terms.
struct Sizes {
    own: SideFacts,
    other: SideFacts,
    /// Rows.
    built: f64,
    probed: f64,
    cores: f64,
}

impl Sizes {
    fn of(facts: &Facts, build: JoinSide) -> Option<Self> {
        let (own, other) = match build {
            JoinSide::Right => (facts.probe, facts.build),
            _ => (facts.build, facts.probe),
        };
        Some(Self {
            built: own.rows? as f64,
            probed: other.rows? as f64,
            cores: facts.cores.max(1) as f64,
            own,
            other,
        })
    }
}

impl Machine {
    /// None where a size is not known.
    pub fn seconds(&self, facts: &Facts, way: Way) -> Option<f64> {
        let sizes = Sizes::of(facts, way.build)?;
        let seconds = match (way.indexed, way.on_gpu, way.streamed) {
            (true, ..) => self.by_index(facts, &sizes),
            (_, _, true) => self.streamed(facts, way.operator, &sizes) + self.index_scan(facts, &sizes),
            (_, true, _) => self.on_gpu(facts, way.operator, &sizes) + self.index_scan(facts, &sizes),
            _ => self.collected(facts, way.operator, &sizes) + self.index_scan(facts, &sizes),
        };
        Some(seconds)
    }

    /// Each row of the other side is looked up.
    fn by_index(&self, facts: &Facts, sizes: &Sizes) -> f64 {
        // As many partitions have work as the outer side has morsels.
        let cores = (sizes.probed / MORSEL_ROWS as f64).ceil().clamp(1.0, sizes.cores);
        let found = facts.pairs_expected() as f64 / self.cpu.index_rows_per_s / cores;
        let looked_up = match facts.predicate {
            // One after the other, under counters that all partitions share.
            Predicate::Range { .. } => sizes.probed / self.cpu.index_ranges_per_s,
            _ => sizes.probed / self.cpu.index_lookups_per_s / cores,
        };
        looked_up + found
    }

    /// Reading the table that an index would have spared.
    fn index_scan(&self, facts: &Facts, sizes: &Sizes) -> f64 {
        facts.index.map_or(0.0, |index| {
            index.table_rows as f64 / self.cpu.scanned_rows_per_s / sizes.cores
        })
    }

    /// The probe side flows past a table of the build side.
    fn streamed(&self, facts: &Facts, operator: Operator, sizes: &Sizes) -> f64 {
        if operator == Operator::Ninlj {
            return STREAMED_PAIRS * sizes.built * sizes.probed / self.cpu.tested_pairs_per_s / sizes.cores;
        }
        let direct = is_direct(sizes.own.rows.unwrap_or(0), sizes.own.key_span);
        let table = if direct { self.cpu.array } else { self.cpu.table };
        // Ascending keys touch an array from end to end.
        let [build, probe] = seconds(table, sizes, direct);
        let lanes = match facts.predicate {
            Predicate::Equality => sizes.built / self.cpu.coded_rows_per_s,
            _ => 0.0,
        };
        let builders = if sizes.built < SHARED_ROWS_MIN as f64 {
            1.0
        } else {
            sizes.cores
        };
        (lanes + sizes.built * build) / builders + sizes.probed * probe / sizes.cores
    }

    /// Both sides at hand, in words, and workers on them.
    fn collected(&self, facts: &Facts, operator: Operator, sizes: &Sizes) -> f64 {
        let cpu = &self.cpu;
        let sort = |side: &SideFacts, rows: f64| match side.ascending {
            true => 0.0,
            false if facts.key_bytes <= 4 => rows / cpu.sorted_u32_per_s,
            false => rows / cpu.sorted_u64_per_s,
        };
        let search = sizes.probed * cpu.searches.seconds(sizes.own.rows.unwrap_or(0));
        let work = match (operator, facts.predicate) {
            (Operator::Ninlj, Predicate::Equality) => sizes.built * sizes.probed / cpu.compared_pairs_per_s,
            (Operator::Ninlj, _) => sizes.built * sizes.probed / cpu.tested_pairs_per_s,
            (_, Predicate::Range { .. }) => sort(&sizes.own, sizes.built) + 2.0 * search,
            (Operator::Hj | Operator::Triton, _) => {
                let rows = sizes.own.rows.unwrap_or(0) as u64;
                let dense = sizes.own.key_span.is_some_and(|span| span / DENSE_RATIO <= rows);
                let table = if dense { cpu.shared_array } else { cpu.shared_table };
                let [build, probe] = seconds(table, sizes, dense);
                sizes.built * build + sizes.probed * probe
            }
            (Operator::Inlj, _) => sort(&sizes.own, sizes.built) + search,
            (Operator::Smj, _) => {
                let sorts = sort(&sizes.own, sizes.built) + sort(&sizes.other, sizes.probed);
                sorts + (sizes.built + sizes.probed) / cpu.merged_rows_per_s
            }
        };
        self.at_hand(facts, operator, sizes) + work / sizes.cores
    }

    /// Putting the probe side together and turning keys into words: memory lets no more than a few cores be of use.
    fn at_hand(&self, facts: &Facts, operator: Operator, sizes: &Sizes) -> f64 {
        let probe = facts.probe;
        let copied = probe.rows.unwrap_or(0) as f64 * probe.row_bytes as f64 / self.cpu.copied_bytes_per_s;
        let code = 1.0 / self.cpu.coded_rows_per_s;
        let hands = sizes.cores.min(COPYING_CORES);
        let codes = match (facts.predicate, operator) {
            (Predicate::Equality, _) => sizes.built + sizes.probed,
            (Predicate::Range { .. }, Operator::Ninlj) | (Predicate::Other, _) => 0.0,
            (Predicate::Range { .. }, _) => sizes.built + (2.0 + BOUND_CODES) * sizes.probed,
        };
        let kept = COLLECTED_ROW_S * probe.rows.unwrap_or(0) as f64;
        let gathered = COLLECTED_ROW_S * facts.pairs_expected() as f64 / sizes.cores;
        COLLECTED_S + (copied + kept + codes * code) / hands + gathered
    }

    /// From host memory to row numbers there.
    fn on_gpu(&self, facts: &Facts, operator: Operator, sizes: &Sizes) -> f64 {
        let gpu = &self.gpu;
        let word = facts.key_bytes as f64;
        let words_in = match facts.predicate {
            Predicate::Equality => sizes.built + sizes.probed,
            Predicate::Range { .. } => sizes.built + 2.0 * sizes.probed,
            // The condition's columns.
            Predicate::Other => sizes.built + sizes.probed,
        };
        let found = facts.pairs_expected() as f64;
        let transfer = words_in * word / gpu.to_device_bytes_per_s + found * 8.0 / gpu.from_device_bytes_per_s;
        let pass = |rows: f64| rows * (word + 4.0) / gpu.memory_bytes_per_s;
        let sort = |side: &SideFacts, rows: f64| match side.ascending {
            true => 0.0,
            false => SORT_PASSES * (word / 4.0) * pass(rows),
        };
        let searched = SEARCH_PASSES * pass(sizes.probed);
        let inside = match (operator, facts.predicate) {
            (Operator::Ninlj, Predicate::Equality) => {
                sizes.built * sizes.probed * (word / 4.0) / gpu.compared_pairs_per_s
            }
            (Operator::Ninlj, _) => sizes.built * sizes.probed / gpu.tested_pairs_per_s,
            (_, Predicate::Range { .. }) => sort(&sizes.own, sizes.built) + 2.0 * searched,
            (Operator::Hj, _) => HASH_PASSES * pass(sizes.built + sizes.probed),
            (Operator::Triton, _) => HASH_PASSES * pass(sizes.built + sizes.probed) + self.spilling(facts, sizes),
            (Operator::Inlj, _) => sort(&sizes.own, sizes.built) + searched,
            (Operator::Smj, _) => {
                let sorts = sort(&sizes.own, sizes.built) + sort(&sizes.other, sizes.probed);
                sorts + MERGE_PASSES * pass(sizes.built + sizes.probed)
            }
        };
        let written = found * 8.0 / gpu.memory_bytes_per_s;
        let scattered = match operator {
            Operator::Hj | Operator::Smj if facts.predicate == Predicate::Equality => {
                SCATTERED_ROW_S * found / sizes.cores
            }
            _ => 0.0,
        };
        let calls = GPU_CALLS_S + LAUNCHES * gpu.launch_s;
        facts.device.queued_s() + calls + self.at_hand(facts, operator, sizes) + transfer + inside + written + scattered
    }
}

impl Machine {
    /// What the Triton join finds no room for goes to the host and comes back once more.
    fn spilling(&self, facts: &Facts, sizes: &Sizes) -> f64 {
        let table_bytes = sizes.built * TRITON_TABLE_BYTES;
        let spilled = (1.0 - facts.device.free_bytes() as f64 / table_bytes.max(1.0)).clamp(0.0, 1.0);
        let bytes = spilled * (sizes.built + sizes.probed) * (facts.key_bytes + 4) as f64;
        2.0 * bytes / PINNED_BYTES_PER_S
    }
}

/// Device memory: keys and row numbers, the same again sorted or partitioned, and pairs.
pub fn gpu_bytes(facts: &Facts) -> Option<u64> {
    let rows = facts.build.rows? + facts.probe.rows?;
    Some((rows * (3 * (facts.key_bytes + 4) + 12)) as u64)
}

/// Seconds a row of building and of probing. Keys in the order of an array stay in the caches.
fn seconds(table: Hashing, sizes: &Sizes, in_order: bool) -> [f64; 2] {
    let rows = sizes.own.rows.unwrap_or(0);
    let at = |side: &SideFacts| if in_order && side.ascending { 0 } else { rows };
    [
        table.build.seconds(at(&sizes.own)),
        table.probe.seconds(at(&sizes.other)),
    ]
}
