//! Kernels on a chunk, and what leaves the device after them: spilled rows and pairs.

use std::collections::VecDeque;
use std::ops::Range;

use super::arena::Arena;
use super::feed::{Chunk, Feed};
use super::output::TritonOutput;
use super::phases::Phases;
use super::plan::{CHUNKS_OUT, MemoryPlan};
use super::programs::{BuildParams, ProbeMode, ProbeParams, Table, TableKind, Types, join_program};
use super::spill::{SpillSpace, SpilledRows};
use crate::error::Result;
use crate::join::Residual;
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, PinnedBuffer, device_to_host};
use crate::stream::{Event, Stream};
use crate::tuning::{TRITON_ITEMS, TRITON_THREADS};

/// Takes the pieces of the result, one after the other.
pub(super) type Sink<'a> = dyn FnMut(TritonOutput<'_>) -> Result<()> + 'a;

/// Buffers for what leaves the device after a chunk.
pub(super) struct Leaving {
    /// A bit a row of the chunk: whether it is spilled.
    pub spilled: u64,
    pub keys: u64,
    pub values: u64,
    pub offsets: u64,
    pub build_out: u64,
    pub probe_out: u64,
    pub pair_count: u64,
    /// After this, the spilled rows have left.
    pub free: Option<Event>,
}

/// A chunk whose kernels are under way.
pub(super) struct Pending {
    pub leaving: usize,
    done: Event,
    pub chunk: Chunk,
    pub table: Table,
    pub kind: TableKind,
    /// The side whose rows are spilled, if any are.
    spills: Option<Side>,
}

/// A side of the join.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Build,
    Probe,
}

/// Where things lie that all chunks share.
pub(super) struct Shared {
    pub counts: u64,
    pub cursors: u64,
    pub mixed: u64,
    pub duplicates: u64,
    /// Number of pairs and sum of products.
    pub results: u64,
    pub build_flags: u64,
    pub probe_flags: u64,
}

/// Runs the kernels of chunks, and keeps a few chunks under way.
pub(super) struct ChunkWork<'a> {
    pub compute: Stream,
    /// Only copies to the host.
    pub(super) leave: Stream,
    pub(super) types: Types,
    pub mode: ProbeMode,
    pub(super) residual: &'a Residual,
    pub(super) partitions: u32,
    pub shared: Shared,
    pub(super) ring: Vec<Leaving>,
    next: usize,
    /// The offsets and the number of pairs of each of the ring, for the processor.
    pub(super) host: PinnedBuffer<u32>,
    pending: VecDeque<Pending>,
    pub(super) pairs_out: u64,
    /// Pairs for the processor: build values, then probe values.
    pub(super) pairs_host: Option<PinnedBuffer<u8>>,
    pub(super) spill: SpillSpace<'a>,
    /// Spilled rows of build and probe side.
    pub(super) spilled: [SpilledRows; 2],
    pub spilled_rows: u64,
    pub spilled_bytes: u64,
    pub phases: Phases,
    pub pairs: u64,
    /// Bytes copied to the host.
    pub bytes: u64,
}

/// Elements at the end of the offsets on the host that hold the number of pairs.
const COUNT_WORDS: u64 = 2;

pub(super) fn at<T>(address: u64) -> DevicePtr<T> {
    DevicePtr::new(address)
}

pub(super) fn at_mut<T>(address: u64) -> DevicePtrMut<T> {
    DevicePtrMut::new(address)
}

impl<'a> ChunkWork<'a> {
    /// Cuts what it needs from the arena; all of it is set to zero that must be.
    pub fn new(
        streams: (Stream, Stream),
        arena: &mut Arena,
        plan: &MemoryPlan,
        types: Types,
        (mode, residual): (ProbeMode, &'a Residual),
        flags: (u64, u64),
        (spill, spilled): (SpillSpace<'a>, [SpilledRows; 2]),
    ) -> Result<ChunkWork<'a>> {
        let (compute, leave) = streams;
        let device = compute.device();
        let partitions = plan.partitions.count as u64;
        let zeroed = |arena: &mut Arena, bytes: u64| -> Result<u64> {
            let address = arena.cut(bytes)?;
            zero(&compute, address, bytes)?;
            Ok(address)
        };
        let shared = Shared {
            counts: zeroed(arena, partitions * 4)?,
            cursors: arena.cut(partitions * 4)?,
            mixed: zeroed(arena, 2 * partitions)?,
            duplicates: zeroed(arena, 4)?,
            results: zeroed(arena, 16)?,
            build_flags: if flags.0 > 0 { zeroed(arena, flags.0)? } else { 0 },
            probe_flags: if flags.1 > 0 { zeroed(arena, flags.1)? } else { 0 },
        };
        let key = types.build.key;
        let value = types.build.value.max(types.probe.value);
        let ring = (0..CHUNKS_OUT)
            .map(|_| {
                Ok(Leaving {
                    spilled: arena.cut(plan.chunk_rows.div_ceil(32) * 4)?,
                    keys: arena.cut(plan.chunk_rows * key)?,
                    values: arena.cut(plan.chunk_rows * value)?,
                    offsets: arena.cut((partitions + 1) * 4)?,
                    build_out: arena.cut(plan.pairs_out * types.out())?,
                    probe_out: arena.cut(plan.pairs_out * types.out())?,
                    pair_count: arena.cut(8)?,
                    free: None,
                })
            })
            .collect::<Result<_>>()?;
        let pairs_bytes = 2 * plan.pairs_out * types.out();
        spill.reserve_host(pairs_bytes)?;
        let pairs_host = (pairs_bytes > 0).then(|| device.pinned(pairs_bytes)).transpose()?;
        Ok(ChunkWork {
            compute,
            leave,
            types,
            mode,
            residual,
            partitions: plan.partitions.count,
            shared,
            ring,
            next: 0,
            host: device.pinned(CHUNKS_OUT * (partitions + 1 + COUNT_WORDS))?,
            pending: VecDeque::new(),
            pairs_out: plan.pairs_out,
            pairs_host,
            spill,
            spilled,
            spilled_rows: 0,
            spilled_bytes: 0,
            phases: Phases::default(),
            pairs: 0,
            bytes: 0,
        })
    }

    pub fn kernel<P: crate::KernelParams>(&self, kind: TableKind, name: &str) -> Result<Kernel<P>> {
        let program = join_program(self.types, kind, self.mode, self.residual);
        self.compute.device().load(&program)?.kernel(name)
    }

    pub(super) fn config(&self, rows: u64) -> Result<LaunchConfig> {
        let tile = (TRITON_THREADS * TRITON_ITEMS) as u64;
        Ok(LaunchConfig::cover(rows, tile, TRITON_THREADS)?.shared(self.partitions * 4))
    }

    /// Puts a chunk of build rows into the table of cached rows.
    pub fn build(
        &mut self,
        feed: &mut Feed,
        chunk: Chunk,
        (kind, table): (TableKind, Table),
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let leaving = self.next % self.ring.len();
        let params = BuildParams {
            keys: at(chunk.keys),
            values: at(chunk.values),
            items: chunk.rows,
            first_row: chunk.first_row,
            spilled: at_mut(self.ring[leaving].spilled),
            counts: at_mut(self.shared.counts),
            mixed: at_mut(self.shared.mixed),
            duplicates: at_mut(self.shared.duplicates),
            table,
        };
        let kernel = self.kernel::<BuildParams>(kind, "build")?;
        // SAFETY: a chunk's rows and bits; counters and flags of all partitions.
        unsafe { kernel.launch(&self.compute, &self.config(chunk.rows)?, &params)? };
        self.finish_launches(feed, chunk, (kind, table), Some(Side::Build))?;
        self.retire_all_but(CHUNKS_OUT as usize - 1, sink)
    }

    /// Looks a chunk of probe rows up in a table; if it `spills`, rows of mixed partitions leave, too.
    pub fn probe(
        &mut self,
        feed: &mut Feed,
        chunk: Chunk,
        (kind, table): (TableKind, Table),
        spills: bool,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let leaving = self.next % self.ring.len();
        if self.mode == ProbeMode::Pairs {
            zero(&self.compute, self.ring[leaving].pair_count, 8)?;
        }
        let params = ProbeParams {
            spilled: if spills {
                at_mut(self.ring[leaving].spilled)
            } else {
                DevicePtrMut::null()
            },
            ..self.probe_params(leaving, &chunk, table)?
        };
        let kernel = self.kernel::<ProbeParams>(kind, "probe")?;
        // SAFETY: a chunk's rows and bits; counters and flags of all partitions; outputs of `pairs_out` pairs.
        unsafe { kernel.launch(&self.compute, &self.config(chunk.rows)?, &params)? };
        self.finish_launches(feed, chunk, (kind, table), spills.then_some(Side::Probe))?;
        self.retire_all_but(CHUNKS_OUT as usize - 1, sink)
    }

    pub(super) fn probe_params(&self, leaving: usize, chunk: &Chunk, table: Table) -> Result<ProbeParams> {
        let (leaving, shared) = (&self.ring[leaving], &self.shared);
        Ok(ProbeParams {
            keys: at(chunk.keys),
            values: at(chunk.values),
            from: 0,
            to: chunk.rows,
            first_row: chunk.first_row,
            spilled: DevicePtrMut::null(),
            counts: at_mut(shared.counts),
            mixed: at(shared.mixed),
            count: at_mut(match self.mode {
                ProbeMode::Pairs => leaving.pair_count,
                _ => shared.results,
            }),
            sum: at_mut(shared.results + 8),
            build_out: at_mut(leaving.build_out),
            probe_out: at_mut(leaving.probe_out),
            capacity: self.pairs_out,
            build_flags: at_mut(shared.build_flags),
            probe_flags: at_mut(shared.probe_flags),
            window_from: 0,
            window_to: 0,
            table,
            residual: self.residual.params()?,
        })
    }

    /// Orders the spilled rows of the chunk by partition, and notes what the processor must know of it.
    fn finish_launches(
        &mut self,
        feed: &mut Feed,
        chunk: Chunk,
        (kind, table): (TableKind, Table),
        spills: Option<Side>,
    ) -> Result<()> {
        let index = self.next % self.ring.len();
        self.next += 1;
        if let Some(side) = spills {
            self.order_spilled(index, &chunk, table, self.spilled[side as usize].widths)?;
        }
        if self.mode == ProbeMode::Pairs && spills != Some(Side::Build) {
            let count_at = self.host_words(index).start + self.partitions as usize + 1;
            let host = self.host.address().wrapping_add(count_at * 4);
            // SAFETY: the pinned memory has room for the number, and is read after the event only.
            unsafe { device_to_host(&self.compute, host, self.ring[index].pair_count, 8)? };
        }
        feed.release(&self.compute, &chunk)?;
        self.pending.push_back(Pending {
            leaving: index,
            done: self.compute.record()?,
            chunk,
            table,
            kind,
            spills,
        });
        Ok(())
    }

    /// Where a chunk's offsets and number of pairs are on the host.
    pub(super) fn host_words(&self, index: usize) -> Range<usize> {
        let words = self.partitions as usize + 1 + COUNT_WORDS as usize;
        index * words..(index + 1) * words
    }

    /// Waits for chunks until no more than `keep` are under way, and takes what leaves with them.
    pub fn retire_all_but(&mut self, keep: usize, sink: &mut Sink<'_>) -> Result<()> {
        while self.pending.len() > keep {
            let Some(pending) = self.pending.pop_front() else { break };
            pending.done.synchronize()?;
            if let Some(side) = pending.spills {
                self.take_spilled(pending.leaving, side)?;
            }
            if self.mode == ProbeMode::Pairs && pending.spills != Some(Side::Build) {
                self.take_pairs(&pending, sink)?;
            }
        }
        Ok(())
    }

    /// Forgets all spilled rows, whose chunks are waited for.
    pub fn forget_spilled(&mut self, sink: &mut Sink<'_>) -> Result<()> {
        self.retire_all_but(0, sink)?;
        self.take_spilled_rows();
        self.spill.clear();
        (self.spilled_rows, self.spilled_bytes) = (0, 0);
        Ok(())
    }
}

/// Sets bytes of the arena to zero.
pub(super) fn zero(stream: &Stream, address: u64, bytes: u64) -> Result<()> {
    fill(stream, address, bytes, 0)
}

/// Sets bytes of the arena.
pub(super) fn fill(stream: &Stream, address: u64, bytes: u64, byte: u8) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: a part of the arena, which belongs to this join.
    unsafe { crate::memory::set_device_bytes(stream, address, byte, bytes as usize) }
}
