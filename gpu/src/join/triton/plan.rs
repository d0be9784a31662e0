//! What the join does with its memory: sizes of chunks, the first pass's fan-out, the share of build rows that is cached.

use super::arena::ALIGN_BYTES;
use super::programs::{Partitioning, ProbeMode, TableKind, Types};
use super::{KeyRange, TritonOptions};

/// Buffers that chunks rotate among on their way in, and those for spilled rows and pairs on their way out.
pub(super) const CHUNKS_IN: u64 = 3;
pub(super) const CHUNKS_OUT: u64 = 3;
/// A chunk that copies at full speed, with the runs of its partitions.
const CHUNK_BYTES: u64 = 64 << 20;
/// Partitions that fit the table of pairs together, so that a group of them fills it well.
const PARTITIONS_OF_GROUP: u64 = 8;
/// A partition's parts that are cached or not.
const PARTITION_SHARES: u64 = 256;
/// The widest fan-out of the first pass (Lutz 2022, section 6.2.7).
pub const PARTITIONS_MAX: u32 = 2048;
/// Pairs of one output at most.
const PAIRS_MAX: u64 = 4 << 20;
/// What a chained table takes beside its rows.
const CHAINED_FIXED_BYTES: u64 = 8 + 6 * ALIGN_BYTES;
/// Heads of a chained table for two rows.
const HEADS_PER_TWO_ROWS: u64 = 3;

/// Sizes of a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemoryPlan {
    pub table: TableKind,
    pub chunk_rows: u64,
    pub partitions: Partitioning,
    /// 256ths of partitions that are cached.
    pub cached: u32,
    /// Slots of the table of cached rows, or places of its array.
    pub table_size: u64,
    /// Rows of the table of pairs of partitions.
    pub pair_rows: u64,
    /// Whether all build rows fit a chained table, which takes any number of equal keys.
    pub chained_fits: bool,
    /// Pairs of one output buffer; 0 if none come out.
    pub pairs_out: u64,
    /// Device memory of all that the join takes.
    pub total_bytes: u64,
    /// Bytes of spilled rows that are foreseen.
    pub spill_bytes: u64,
}

/// What a plan is made for.
pub(super) struct Facts<'a> {
    pub types: Types,
    pub build_rows: u64,
    pub probe_rows: u64,
    pub mode: ProbeMode,
    pub grouped: bool,
    /// Bytes of the flags.
    pub flag_bytes: u64,
    pub memory_bytes: u64,
    pub options: &'a TritonOptions,
}

/// Bytes of a chained table's row.
fn chained_row_bytes(types: Types, grouped: bool) -> u64 {
    types.build.row() + HEADS_PER_TWO_ROWS * 2 + if grouped { 12 } else { 4 }
}

/// Heads of a chained table of so many rows.
pub(super) fn chained_heads(rows: u64) -> u64 {
    rows * HEADS_PER_TWO_ROWS / 2 + 1
}

/// Bytes of a chained table: arrays of keys, values, heads, and links or groups and sums, each aligned.
fn chained_bytes(types: Types, grouped: bool, rows: u64) -> u64 {
    rows * chained_row_bytes(types, grouped) + CHAINED_FIXED_BYTES
}

/// Rows of a chained table in so many bytes.
fn chained_rows(types: Types, grouped: bool, bytes: u64) -> Option<u64> {
    Some(bytes.checked_sub(CHAINED_FIXED_BYTES)? / chained_row_bytes(types, grouped))
}

fn power_of_two_below(value: u64) -> u64 {
    if value == 0 { 1 } else { 1 << value.ilog2() }
}

impl MemoryPlan {
    /// Parts of all partitions.
    pub fn shares(&self) -> u64 {
        self.partitions.count as u64 * PARTITION_SHARES
    }

    /// Bytes of the table of cached rows, if it is not a chained one.
    pub fn table_bytes(&self, types: Types) -> u64 {
        let words = if self.table == TableKind::Linear { 2 } else { 1 };
        self.table_size * words * types.word()
    }

    /// The plan for this memory; none if it is too little for any.
    pub fn new(facts: &Facts<'_>) -> Option<MemoryPlan> {
        let (types, options, memory) = (facts.types, facts.options, facts.memory_bytes);
        let row_in = types.build.row().max(types.probe.row());
        // Chunks: an eighth of the memory at most, in whole words of their bits.
        let row_bytes = row_in * (CHUNKS_IN + CHUNKS_OUT) + 1;
        let rows = facts.build_rows.max(facts.probe_rows).max(1);
        let chunk_rows = options
            .chunk_rows
            .unwrap_or(CHUNK_BYTES / row_in)
            .min(memory / 8 / row_bytes)
            .min(rows)
            .next_multiple_of(32);
        let chunk_bytes = chunk_rows * row_bytes + (2 * (CHUNKS_IN + CHUNKS_OUT) + CHUNKS_OUT) * ALIGN_BYTES;
        let pairs_out = match facts.mode {
            ProbeMode::Pairs => (memory / 16 / (2 * types.out() * CHUNKS_OUT)).clamp(64, PAIRS_MAX),
            _ => 0,
        };
        let pairs_bytes = CHUNKS_OUT * 2 * (pairs_out * types.out() + ALIGN_BYTES);
        // Of each partition: a count, a cursor, an offset a chunk under way, two flags.
        let partition_bytes = 4 * (2 + CHUNKS_OUT) + 2;
        let partitions_max = power_of_two_below(memory / 16 / partition_bytes).clamp(2, PARTITIONS_MAX as u64);
        let fixed = chunk_bytes
            + pairs_bytes
            + facts.flag_bytes
            + partitions_max * partition_bytes
            + (8 + 2 * CHUNKS_OUT) * ALIGN_BYTES;
        let region = memory.checked_sub(fixed)?;

        let pair_rows_max = chained_rows(types, facts.grouped, region)?;
        if pair_rows_max < 32 {
            return None;
        }
        let needed = (facts.build_rows * PARTITIONS_OF_GROUP).div_ceil(pair_rows_max);
        let fan_out = options
            .partitions
            .map_or(needed.max(PARTITIONS_OF_GROUP), u64::from)
            .next_power_of_two()
            .clamp(2, partitions_max) as u32;

        let cached = Cached::new(facts, region, fan_out);
        let spilled_share = |rows: u64| {
            let shares = cached.partitions.count as u64 * PARTITION_SHARES;
            rows - rows * cached.count as u64 / shares
        };
        // Joins whose rows are all cached still need a table of pairs, for rows that find no place.
        let all_cached = cached.count as u64 == cached.partitions.count as u64 * PARTITION_SHARES;
        let pair_rows = match all_cached {
            true => facts.build_rows.div_ceil(fan_out as u64) * 5 / 4 + 64,
            false => facts.build_rows + 64,
        };
        let pair_rows = pair_rows.min(pair_rows_max);
        let chained_fits =
            all_cached && facts.build_rows <= pair_rows_max && matches!(options.table, None | Some(TableKind::Chained));
        let chained = options.table == Some(TableKind::Chained) && chained_fits;
        let table_bytes = match chained {
            true => 0,
            false => cached.size * cached.place_bytes,
        };
        let chained_bytes = match chained_fits {
            true => chained_bytes(types, facts.grouped, facts.build_rows),
            false => chained_bytes(types, facts.grouped, pair_rows),
        };
        let region_bytes = chained_bytes.max(table_bytes).min(region);
        Some(MemoryPlan {
            table: if chained { TableKind::Chained } else { cached.table },
            chunk_rows,
            partitions: cached.partitions,
            cached: cached.count,
            table_size: cached.size,
            pair_rows,
            chained_fits,
            pairs_out,
            total_bytes: memory.min(fixed + region_bytes + ALIGN_BYTES),
            spill_bytes: spilled_share(facts.build_rows) * types.build.row()
                + spilled_share(facts.probe_rows) * types.probe.row(),
        })
    }
}

/// The table of cached rows.
struct Cached {
    table: TableKind,
    partitions: Partitioning,
    count: u32,
    size: u64,
    place_bytes: u64,
}

impl Cached {
    /// Slots are seven eighths full at most, where a look-up that finds nothing passes 32 of them, and half full where
    /// memory allows; an array of dense keys is full. Where not all rows fit, as many partitions are cached as do (Lutz
    /// 2022, section 5.3, caches a share of each): their probe rows are joined as they come, so that the bus is never
    /// idle.
    fn new(facts: &Facts<'_>, region: u64, fan_out: u32) -> Cached {
        let word = facts.types.word();
        let slots_needed = facts.build_rows * 8 / 7 + 1;
        let dense = facts.options.key_range.filter(|range| {
            let affordable = range.count > 0 && range.count <= slots_needed.saturating_mul(2);
            affordable && facts.options.table != Some(TableKind::Linear)
        });
        match dense {
            Some(range) => Cached::perfect(range, region / word, fan_out, word),
            None => Cached::linear(facts.build_rows, region / (2 * word), fan_out, 2 * word),
        }
    }

    fn perfect(range: KeyRange, places_max: u64, fan_out: u32, place_bytes: u64) -> Cached {
        let shift = range.count.div_ceil(fan_out as u64).next_power_of_two().ilog2();
        let partitions = Partitioning {
            key_min: range.min,
            count: range.count.div_ceil(1 << shift) as u32,
            shift,
            ranges: 1,
            unused: 0,
        };
        let size = range.count.min(places_max);
        let shares = partitions.count as u128 * PARTITION_SHARES as u128;
        let count = (size as u128 * shares / range.count as u128) as u32;
        Cached {
            table: TableKind::Perfect,
            partitions,
            count,
            size,
            place_bytes,
        }
    }

    fn linear(rows: u64, slots_max: u64, fan_out: u32, place_bytes: u64) -> Cached {
        let partitions = Partitioning {
            count: fan_out,
            ..Partitioning::default()
        };
        let fitting = slots_max / 8 * 7;
        let shares = fan_out as u64 * PARTITION_SHARES;
        let (count, size) = if rows <= fitting {
            (shares as u32, slots_max.min(2 * rows + 1))
        } else {
            // A hundredth is left for partitions that are larger by chance.
            let share = fitting as u128 * shares as u128 * 99 / 100 / rows as u128;
            let count = share as u32;
            (count, if count == 0 { 0 } else { slots_max })
        };
        Cached {
            table: TableKind::Linear,
            partitions,
            count,
            size,
            place_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::programs::Types;
    use super::super::side::Widths;
    use super::*;

    fn plan(memory_bytes: u64, rows: u64, options: &TritonOptions) -> Option<MemoryPlan> {
        let widths = Widths { key: 8, value: 8 };
        MemoryPlan::new(&Facts {
            types: Types {
                build: widths,
                probe: widths,
                equal_hashes: false,
            },
            build_rows: rows,
            probe_rows: rows,
            mode: ProbeMode::Aggregate,
            grouped: true,
            flag_bytes: 0,
            memory_bytes,
            options,
        })
    }

    #[test]
    fn any_budget_has_a_plan_that_keeps_it() {
        let options = TritonOptions::default();
        for memory in [64 << 10, 1 << 20, 100 << 20, 8 << 30, 70 << 30] {
            for rows in [0, 1, 1000, 1 << 20, 128 << 20, 2 << 30] {
                let plan = plan(memory, rows, &options).unwrap_or_else(|| panic!("{rows} rows in {memory} bytes"));
                assert!(plan.total_bytes <= memory, "{plan:?}");
                assert!(plan.cached as u64 <= plan.shares(), "{plan:?}");
            }
        }
        assert_eq!(plan(2 << 10, 1000, &options), None);
    }

    #[test]
    fn the_cached_share_grows_with_the_budget() {
        let rows = 1u64 << 30;
        let dense = TritonOptions {
            key_range: Some(KeyRange { min: 1, count: rows }),
            ..TritonOptions::default()
        };
        let share = |memory: u64, options: &TritonOptions| {
            let plan = plan(memory, rows, options).unwrap();
            plan.cached as f64 / plan.shares() as f64
        };
        let state = rows * 32;
        let shares: Vec<f64> = [8, 4, 2, 1]
            .iter()
            .map(|d| share(state / d, &TritonOptions::default()))
            .collect();
        assert!(shares.is_sorted(), "{shares:?}");
        assert!(shares[0] > 0.1 && shares[2] > 0.7 && shares[3] == 1.0, "{shares:?}");
        assert!(share(state / 8, &dense) > 0.35);
        assert_eq!(share(state / 2, &dense), 1.0);
    }
}
