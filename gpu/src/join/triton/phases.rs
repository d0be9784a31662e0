//! The phases of a join: build rows come in, probe rows come in, pairs of spilled partitions come back.

use super::arena::Arena;
use super::chunk::{ChunkWork, Sink, fill};
use super::feed::Feed;
use super::pairs::PairTable;
use super::plan::MemoryPlan;
use super::programs::{ProbeMode, Table, TableKind};
use super::side::{HostSide, Runs};
use super::spill::SpilledRows;
use crate::error::Result;

/// Milliseconds of the phases, as the device saw them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    /// Build rows come in; those of cached partitions into the table.
    pub build_ms: f32,
    /// Probe rows come in and meet the table.
    pub probe_ms: f32,
    /// Pairs of spilled partitions.
    pub pairs_ms: f32,
}

/// What the phases work with.
pub(super) struct PhasesRun<'r, 'a> {
    pub work: &'r mut ChunkWork<'a>,
    pub feed: &'r mut Feed,
    pub arena: &'r mut Arena,
    pub plan: &'r MemoryPlan,
    /// Asked before each step.
    pub check: &'r dyn Fn() -> Result<()>,
    pub sink: &'r mut Sink<'r>,
}

impl PhasesRun<'_, '_> {
    /// All three; gives the kind of table that held the cached rows.
    pub fn join(&mut self, build: &HostSide<'_>, probe: &HostSide<'_>) -> Result<TableKind> {
        let compute = self.work.compute.clone();
        let start = compute.record()?;
        let mark = self.arena.mark();
        let (mut kind, mut table) = self.build(build)?;
        let built = compute.record()?;
        let mut runs = Runs::input(probe);
        let mut chunk = self.feed.next(&compute, &mut runs, u64::MAX)?;
        if kind != TableKind::Chained && self.plan.chained_fits {
            // While the first probe rows come in, what the last build rows did is known.
            self.work.retire_all_but(0, self.sink)?;
            if self.work.spilled_rows > 0 {
                if let Some(unread) = &chunk {
                    self.feed.release(&compute, unread)?;
                }
                (kind, table) = self.build_anew(build, mark)?;
                runs = Runs::input(probe);
                chunk = self.feed.next(&compute, &mut runs, u64::MAX)?;
            }
        }
        let spills = kind != TableKind::Chained;
        while let Some(rows) = chunk {
            (self.check)()?;
            self.work.probe(self.feed, rows, (kind, table), spills, self.sink)?;
            chunk = self.feed.next(&compute, &mut runs, u64::MAX)?;
        }
        let probed = compute.record()?;
        self.work.retire_all_but(0, self.sink)?;
        // The table makes room for that of pairs: only kernels write there, in the order of their stream.
        self.arena.reset(mark);
        let [build_spilled, probe_spilled] = self.work.take_spilled_rows();
        self.feed.wait_for(&self.work.leave)?;
        self.pairs((&build_spilled, &probe_spilled))?;
        let end = compute.record()?;
        end.synchronize()?;
        self.work.phases = Phases {
            build_ms: built.elapsed_ms_since(&start)?,
            probe_ms: probed.elapsed_ms_since(&built)?,
            pairs_ms: end.elapsed_ms_since(&probed)?,
        };
        Ok(kind)
    }

    /// Puts the build rows of cached partitions into a table, and spills the others.
    fn build(&mut self, side: &HostSide<'_>) -> Result<(TableKind, Table)> {
        let (plan, mark) = (self.plan, self.arena.mark());
        if plan.table == TableKind::Chained {
            return self.link_all(side);
        }
        let table = self.cached_table()?;
        let compute = self.work.compute.clone();
        let mut runs = Runs::input(side);
        while let Some(chunk) = self.feed.next(&compute, &mut runs, u64::MAX)? {
            (self.check)()?;
            self.work.build(self.feed, chunk, (plan.table, table), self.sink)?;
            if plan.chained_fits && self.work.spilled_rows > 0 {
                return self.build_anew(side, mark);
            }
        }
        Ok((plan.table, table))
    }

    /// Builds again after rows found no place although memory holds all of them: many have one key. `mark` is where the
    /// first table began.
    fn build_anew(&mut self, side: &HostSide<'_>, mark: u64) -> Result<(TableKind, Table)> {
        self.work.forget_spilled(self.sink)?;
        self.arena.reset(mark);
        self.link_all(side)
    }

    /// All build rows in a chained table.
    fn link_all(&mut self, side: &HostSide<'_>) -> Result<(TableKind, Table)> {
        let rows = self.pair_table(side.len())?;
        let mut runs = Runs::input(side);
        let table = rows.fill(self.work, self.feed, &mut runs, self.check, self.sink)?;
        Ok((TableKind::Chained, table))
    }

    fn pairs(&mut self, sides: (&SpilledRows, &SpilledRows)) -> Result<()> {
        if sides.0.bytes() == 0 || sides.1.bytes() == 0 {
            return self.work.retire_all_but(0, self.sink);
        }
        let table = self.pair_table(self.plan.pair_rows)?;
        table.join(self.work, self.feed, sides, self.check, self.sink)
    }

    fn pair_table(&mut self, rows: u64) -> Result<PairTable> {
        let work = &self.work;
        let grouped = work.mode == ProbeMode::Aggregate && work.residual.is_none();
        PairTable::new(self.arena, rows, work.types.build, self.plan.partitions, grouped)
    }

    /// The table of cached rows, with all bits set: an array or slots.
    fn cached_table(&mut self) -> Result<Table> {
        let plan = self.plan;
        let bytes = plan.table_bytes(self.work.types);
        let address = self.arena.cut(bytes)?;
        fill(&self.work.compute, address, bytes, 0xff)?;
        let (slots, array) = match plan.table {
            TableKind::Linear => (address, 0),
            _ => (0, address),
        };
        Ok(Table {
            slots,
            array,
            size: plan.table_size,
            partitions: plan.partitions,
            cached: plan.cached,
            duplicates: self.work.shared.duplicates,
            ..Table::default()
        })
    }
}
