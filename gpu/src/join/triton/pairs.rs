//! Pairs of spilled partitions (Lutz 2022, section 5.1, its second stage): the build rows of a partition come back into
//! a chained table, then its probe rows come back chunk by chunk. While one table is probed, the rows of the next come
//! in. A partition larger than a table is joined table by table, whatever its keys: skew costs time, not memory.

use super::arena::Arena;
use super::chunk::{ChunkWork, Sink, fill, zero};
use super::feed::Feed;
use super::plan::{PAIR_TABLES, Plan, chained_heads};
use super::programs::{LinkParams, Mode, Table, TableKind};
use super::side::{Runs, Widths};
use super::spill::SpilledRows;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Event;
use crate::tuning::{TRITON_ITEMS, TRITON_THREADS};

/// A table, used again and again.
struct PairTable {
    table: Table,
    /// After this, its rows may be replaced.
    free: Option<Event>,
}

pub(super) struct PairTables {
    tables: Vec<PairTable>,
    next: usize,
    rows: u64,
    chunk_rows: u64,
    grouped: bool,
}

impl PairTables {
    pub fn new(arena: &mut Arena, plan: &Plan, widths: Widths, grouped: bool) -> Result<PairTables> {
        let rows = plan.pair_rows;
        let part = |arena: &mut Arena, wanted: bool, bytes: u64| if wanted { arena.cut(bytes) } else { Ok(0) };
        let tables = (0..PAIR_TABLES)
            .map(|_| {
                let table = Table {
                    keys: arena.cut(rows * widths.key)?,
                    values: arena.cut(rows * widths.value)?,
                    heads: arena.cut(chained_heads(rows) * 4)?,
                    links: part(arena, !grouped, rows * 4)?,
                    groups: part(arena, grouped, rows * 4)?,
                    sums: part(arena, grouped, rows * 8)?,
                    partitions: plan.partitions,
                    ..Table::default()
                };
                Ok(PairTable { table, free: None })
            })
            .collect::<Result<_>>()?;
        Ok(PairTables {
            tables,
            next: 0,
            rows,
            chunk_rows: plan.chunk_rows,
            grouped,
        })
    }

    /// Joins all pairs of partitions. `check` is asked before each step.
    pub fn join(
        &mut self,
        work: &mut ChunkWork<'_>,
        feed: &mut Feed,
        sides: (&SpilledRows, &SpilledRows),
        check: &dyn Fn() -> Result<()>,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let (build, probe) = sides;
        for partition in 0..build.rows.len() {
            if build.rows[partition] == 0 || probe.rows[partition] == 0 {
                continue;
            }
            let mut rows = Runs::new(build.runs(partition), build.widths);
            while rows.rows_left > 0 {
                let index = self.next % self.tables.len();
                self.next += 1;
                if work.mode == Mode::Pairs {
                    // Pairs that did not fit are looked up again, so the table's last user must be done with.
                    work.retire_all_but(1, sink)?;
                }
                let table = self.fill(index, work, feed, &mut rows, build.widths, check)?;
                let mut probes = Runs::new(probe.runs(partition), probe.widths);
                while let Some(chunk) = feed.next(&work.compute, &mut probes, probe.widths)? {
                    check()?;
                    work.probe(feed, chunk, (TableKind::Chained, table), false, sink)?;
                }
                self.tables[index].free = Some(work.compute.record()?);
            }
        }
        work.retire_all_but(0, sink)
    }

    /// Copies as many rows as the table takes, and links each chunk of them while the next one comes.
    fn fill(
        &mut self,
        index: usize,
        work: &ChunkWork<'_>,
        feed: &mut Feed,
        rows: &mut Runs,
        widths: Widths,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Table> {
        let pair = &mut self.tables[index];
        let total = rows.rows_left.min(self.rows);
        let heads = chained_heads(total);
        let table = Table {
            size: total,
            head_count: heads,
            ..pair.table
        };
        fill(&work.compute, table.heads, heads * 4, 0xff)?;
        if self.grouped {
            zero(&work.compute, table.groups, total * 4)?;
            zero(&work.compute, table.sums, total * 8)?;
        }
        let kernel = work.kernel::<LinkParams>(TableKind::Chained, "link")?;
        let mut from = 0;
        while from < total {
            check()?;
            let chunk = rows.take(self.chunk_rows.min(total - from));
            let to = from + chunk.iter().map(|run| run.rows).sum::<u64>();
            let targets = (table.keys + from * widths.key, table.values + from * widths.value);
            feed.copy_to(pair.free.take().as_ref(), &work.compute, &chunk, targets, widths)?;
            let config = LaunchConfig::cover(to - from, (TRITON_THREADS * TRITON_ITEMS) as u64, TRITON_THREADS)?;
            // SAFETY: rows up to `to` lie in the table, which has a head for each and more.
            unsafe { kernel.launch(&work.compute, &config, &LinkParams { from, to, table })? };
            from = to;
        }
        Ok(table)
    }
}
