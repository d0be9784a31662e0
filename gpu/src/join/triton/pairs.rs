//! Pairs of spilled partitions (Lutz 2022, section 5.1, its second stage): the build rows of a few neighbouring
//! partitions come back into a chained table, then their probe rows come back and meet it. Neighbours lie side by side in
//! each spilled chunk, so that as many are taken together as a table holds: runs are long however small the partitions.
//! Rows of either kind come through the same ring of buffers, so that the bus is busy while a table changes its rows.
//! A partition larger than a table is joined table by table, whatever its keys: skew costs time, not memory.
//!
//! The paper partitions a second time, down to tables in shared memory. Here rows come back at 50 GB/s and meet a table
//! in device memory, which takes random accesses several times faster than that; a second pass would need both sides of
//! a pair in memory at once, and so smaller pairs and shorter runs.

use std::ops::Range;

use super::arena::Arena;
use super::chunk::{ChunkWork, Sink, at, at_mut, fill, zero};
use super::feed::{Chunk, Feed};
use super::plan::chained_heads;
use super::programs::{LinkParams, Partitioning, ProbeMode, StoreParams, Table, TableKind};
use super::side::{Runs, Widths};
use super::spill::SpilledRows;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Stream;
use crate::tuning::{TRITON_ITEMS, TRITON_THREADS};

/// A chained table, used again and again.
pub(super) struct PairTable {
    table: Table,
    rows: u64,
    grouped: bool,
}

impl PairTable {
    /// A table for `rows` rows.
    pub fn new(
        arena: &mut Arena,
        rows: u64,
        widths: Widths,
        partitions: Partitioning,
        grouped: bool,
    ) -> Result<PairTable> {
        let part = |arena: &mut Arena, wanted: bool, bytes: u64| if wanted { arena.cut(bytes) } else { Ok(0) };
        let table = Table {
            keys: arena.cut(rows * widths.key)?,
            values: arena.cut(rows * widths.value)?,
            heads: arena.cut(chained_heads(rows) * 4)?,
            links: part(arena, !grouped, rows * 4)?,
            groups: part(arena, grouped, rows * 4)?,
            sums: part(arena, grouped, rows * 8)?,
            partitions,
            ..Table::default()
        };
        Ok(PairTable { table, rows, grouped })
    }

    /// Joins all pairs of partitions. `check` is asked before each step.
    pub fn join(
        &self,
        work: &mut ChunkWork<'_>,
        feed: &mut Feed,
        (build, probe): (&SpilledRows, &SpilledRows),
        check: &dyn Fn() -> Result<()>,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        for group in groups(&build.rows, &probe.rows, self.rows) {
            let mut rows = build.runs(group.clone());
            while rows.rows_left > 0 {
                let table = self.fill(work, feed, &mut rows, check, sink)?;
                let mut probes = probe.runs(group.clone());
                while let Some(chunk) = feed.next(&work.compute, &mut probes, u64::MAX)? {
                    check()?;
                    work.probe(feed, chunk, (TableKind::Chained, table), false, sink)?;
                }
            }
        }
        work.retire_all_but(0, sink)
    }

    /// Takes as many rows as there is room for, and links each chunk of them while the next one comes.
    pub fn fill(
        &self,
        work: &mut ChunkWork<'_>,
        feed: &mut Feed,
        rows: &mut Runs,
        check: &dyn Fn() -> Result<()>,
        sink: &mut Sink<'_>,
    ) -> Result<Table> {
        let total = rows.rows_left.min(self.rows);
        let mut chunk = feed.next(&work.compute, rows, total)?;
        if work.mode == ProbeMode::Pairs {
            // Pairs that did not fit their buffer are looked up again: the table's last users must be done.
            work.retire_all_but(0, sink)?;
        }
        let table = self.empty(&work.compute, total)?;
        let mut from = 0;
        while let Some(rows_in) = chunk {
            check()?;
            link(work, rows_in, &table, from)?;
            feed.release(&work.compute, &rows_in)?;
            from += rows_in.rows;
            chunk = feed.next(&work.compute, rows, total - from)?;
        }
        Ok(table)
    }

    /// The table for `rows` rows, none of which is linked yet.
    fn empty(&self, compute: &Stream, rows: u64) -> Result<Table> {
        let table = Table {
            size: rows,
            head_count: chained_heads(rows),
            ..self.table
        };
        fill(compute, table.heads, table.head_count * 4, 0xff)?;
        if self.grouped {
            zero(compute, table.groups, rows * 4)?;
            zero(compute, table.sums, rows * 8)?;
        }
        Ok(table)
    }
}

/// Puts a chunk's rows at `from` and on, and links them.
fn link(work: &ChunkWork<'_>, chunk: Chunk, table: &Table, from: u64) -> Result<()> {
    let widths = work.types.build;
    let store = StoreParams {
        keys: at(chunk.keys),
        values: at(chunk.values),
        items: chunk.rows,
        first_row: chunk.first_row,
        keys_out: at_mut(table.keys + from * widths.key),
        values_out: at_mut(table.values + from * widths.value),
    };
    let link = LinkParams {
        from,
        to: from + chunk.rows,
        table: *table,
    };
    let config = LaunchConfig::cover(chunk.rows, (TRITON_THREADS * TRITON_ITEMS) as u64, TRITON_THREADS)?;
    let store_kernel = work.kernel::<StoreParams>(TableKind::Chained, "store")?;
    let link_kernel = work.kernel::<LinkParams>(TableKind::Chained, "link")?;
    // SAFETY: the table has room for the rows, and more heads than rows.
    unsafe {
        store_kernel.launch(&work.compute, &config, &store)?;
        link_kernel.launch(&work.compute, &config, &link)
    }
}

/// Neighbouring partitions with rows on both sides, as many together as have `rows_max` build rows.
fn groups(build: &[u64], probe: &[u64], rows_max: u64) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut rows = 0;
    for partition in (0..build.len()).filter(|&i| build[i] > 0 && probe[i] > 0) {
        match groups.last_mut() {
            Some(group) if group.end == partition && rows + build[partition] <= rows_max => {
                group.end += 1;
                rows += build[partition];
            }
            _ => {
                groups.push(partition..partition + 1);
                rows = build[partition];
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn groups_fill_a_table_and_skip_what_has_no_partner() {
        let build = [3, 4, 5, 0, 2, 2, 2, 20, 1];
        let probe = [1, 1, 1, 1, 1, 0, 1, 1, 1];
        assert_eq!(groups(&build, &probe, 8), [0..2, 2..3, 4..5, 6..7, 7..8, 8..9]);
        assert_eq!(groups(&build, &probe, 100), [0..3, 4..5, 6..9]);
        assert!(groups(&[], &[], 8).is_empty());
    }
}
