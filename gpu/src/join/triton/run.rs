//! The join from end to end.

use super::TritonOptions;
use super::arena::Arena;
use super::caller::Caller;
use super::chunk::{ChunkWork, Sink};
use super::feed::Feed;
use super::output::{TritonOutput, Wanted, marks, rows_where};
use super::phases::{Phases, PhasesRun};
use super::plan::{Facts, MemoryPlan};
use super::programs::{ProbeMode, TableKind, Types};
use super::side::{HostSide, HostValues};
use super::spill::{SpillSpace, SpilledRows};
use crate::device::Device;
use crate::error::{GpuError, Result};
use crate::join::{JoinKind, Residual};
use crate::memory::device_to_host;
use crate::stream::Stream;

/// What a join did.
#[derive(Clone, Debug)]
pub struct TritonResult {
    /// Pairs found. Not known for kinds without pairs.
    pub count: u64,
    /// Sum of products, for [`Wanted::Aggregate`].
    pub sum: u64,
    pub table: TableKind,
    pub partitions: u32,
    /// The share of the build rows that was to be cached.
    pub cached_share: f64,
    pub chunk_rows: u64,
    /// Spilled rows of both sides.
    pub spilled_rows: u64,
    pub spilled_bytes: u64,
    /// Bytes over the bus, to the device and back.
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Device memory taken.
    pub memory_bytes: u64,
    pub phases: Phases,
}

/// Waits for its streams when dropped: before that, nothing that they use may go.
struct Joined<'a>(&'a [Stream]);

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        for stream in self.0 {
            if let Err(error) = stream.synchronize() {
                tracing::error!(%error, "waiting for a join's streams");
            }
        }
    }
}

/// Joins two inputs of host memory. Pieces of the result go to `sink` as they come, in no order; `caller` is asked before
/// each step of at most a chunk whether to go on.
///
/// Out of device memory, or of pinned memory, is an error at the start, where the need is foreseen; more spilled rows
/// than foreseen may run out of pinned memory later. Nothing is held after an error.
#[allow(clippy::too_many_arguments)]
pub fn triton_join(
    device: &Device,
    build: HostSide<'_>,
    probe: HostSide<'_>,
    wanted: Wanted,
    residual: &Residual,
    options: &TritonOptions,
    caller: &dyn Caller,
    sink: &mut dyn FnMut(TritonOutput<'_>) -> Result<()>,
) -> Result<TritonResult> {
    let types = types_of(&build, &probe, wanted, residual, options)?;
    let mode = match wanted {
        Wanted::Aggregate => ProbeMode::Aggregate,
        Wanted::Join(kind) if kind.has_pairs() => ProbeMode::Pairs,
        Wanted::Join(_) => ProbeMode::Mark,
    };
    let flags = |wanted: bool, side: &HostSide<'_>| if wanted { side.row_count.div_ceil(32) * 4 } else { 0 };
    let (build_flags, probe_flags) = match wanted {
        Wanted::Aggregate => (0, 0),
        Wanted::Join(kind) => (flags(kind.flags_build(), &build), flags(kind.flags_probe(), &probe)),
    };
    let grouped = mode == ProbeMode::Aggregate && residual.is_none();
    let memory_bytes = options.memory_bytes.unwrap_or_else(|| device.pool().available());
    let facts = Facts {
        types,
        build_rows: build.len(),
        probe_rows: probe.len(),
        mode,
        grouped,
        flag_bytes: build_flags + probe_flags,
        memory_bytes,
        options,
    };
    let plan = MemoryPlan::new(&facts).ok_or_else(|| GpuError::OutOfMemory {
        requested_bytes: memory_bytes + 1,
        in_use_bytes: device.pool().in_use(),
        reserved_bytes: device.pool().reserved(),
        budget_bytes: memory_bytes,
        detail: "; too little for any join".into(),
    })?;

    let check = || {
        if caller.is_cancelled() {
            Err(GpuError::Cancelled)
        } else {
            Ok(())
        }
    };
    let streams = [device.stream()?, device.stream()?, device.stream()?, device.stream()?];
    let mut arena = Arena::new(&streams[0], plan.total_bytes)?;
    let row_bytes = types.build.row().max(types.probe.row());
    let spill = SpillSpace::new(device, caller, plan.spill_bytes, plan.chunk_rows * row_bytes)?;
    let [compute, enter, enter_too, leave] = streams.clone();
    let mut feed = Feed::new(
        [enter, enter_too],
        &mut arena,
        &plan,
        &[types.build, types.probe],
        options.gather_below_bytes,
    )?;
    let sides = [
        SpilledRows::new(types.build, plan.partitions.count),
        SpilledRows::new(types.probe, plan.partitions.count),
    ];
    let mut work = ChunkWork::new(
        (compute, leave),
        &mut arena,
        &plan,
        types,
        (mode, residual),
        (build_flags, probe_flags),
        (spill, sides),
    )?;
    // Dropped first, so that everything above outlives the work of the streams.
    let joined = Joined(&streams);
    // What was zeroed and filled comes before the copies.
    feed.wait_for(&streams[0])?;
    let mut phases = PhasesRun {
        work: &mut work,
        feed: &mut feed,
        arena: &mut arena,
        plan: &plan,
        check: &check,
        sink: &mut *sink,
    };
    let table = match build.is_empty() || probe.is_empty() {
        true => plan.table,
        false => phases.join(&build, &probe)?,
    };
    let results = words_at(&streams[0], work.shared.results, 16)?;
    if let Wanted::Join(kind) = wanted {
        let bits = |address: u64, bytes: u64| words_at(&streams[0], address, bytes);
        let build_bits = bits(work.shared.build_flags, build_flags)?;
        let probe_bits = bits(work.shared.probe_flags, probe_flags)?;
        rows_of_flags(
            kind,
            (&build_bits, build.row_count),
            (&probe_bits, probe.row_count),
            &check,
            sink,
        )?;
    }
    drop(joined);
    let number = |low: usize| results[low] as u64 | (results[low + 1] as u64) << 32;
    Ok(TritonResult {
        count: if mode == ProbeMode::Pairs {
            work.pairs
        } else {
            number(0)
        },
        sum: number(2),
        table,
        partitions: plan.partitions.count,
        cached_share: plan.cached as f64 / plan.shares() as f64,
        chunk_rows: plan.chunk_rows,
        spilled_rows: work.spilled_rows,
        spilled_bytes: work.spilled_bytes,
        bytes_in: feed.bytes,
        bytes_out: work.bytes,
        memory_bytes: plan.total_bytes,
        phases: work.phases,
    })
}

fn types_of(
    build: &HostSide<'_>,
    probe: &HostSide<'_>,
    wanted: Wanted,
    residual: &Residual,
    options: &TritonOptions,
) -> Result<Types> {
    let types = Types {
        build: build.widths(),
        probe: probe.widths(),
        equal_hashes: options.equal_hashes,
    };
    if types.build.key != types.probe.key {
        return Err(GpuError::Invalid("join keys of different widths".into()));
    }
    let has_payloads = [build, probe]
        .iter()
        .any(|side| matches!(side.values, HostValues::U64(_)));
    let wants_rows = !residual.is_none() || matches!(wanted, Wanted::Join(kind) if kind != JoinKind::Inner);
    if has_payloads && wants_rows {
        return Err(GpuError::Invalid(
            "a join of this kind, or with a condition, takes row numbers, not payloads".into(),
        ));
    }
    Ok(types)
}

/// Words of the arena. Waits for the stream.
fn words_at(stream: &Stream, address: u64, bytes: u64) -> Result<Vec<u32>> {
    let mut words = vec![0u32; (bytes / 4) as usize];
    if bytes > 0 {
        // SAFETY: the vector has room, and is read after the wait.
        unsafe { device_to_host(stream, words.as_mut_ptr().cast(), address, bytes as usize)? };
    }
    stream.synchronize()?;
    Ok(words)
}

/// What comes out of the flags.
fn rows_of_flags(
    kind: JoinKind,
    build: (&[u32], u64),
    probe: (&[u32], u64),
    check: &dyn Fn() -> Result<()>,
    sink: &mut Sink<'_>,
) -> Result<()> {
    use JoinKind::*;
    let wanted = matches!(kind, BuildSemi | ProbeSemi);
    let checked_marks = |piece: &[u8], sink: &mut Sink<'_>| {
        check()?;
        sink(TritonOutput::Marks(piece))
    };
    match kind {
        BuildMark => marks(build.0, build.1, |piece| checked_marks(piece, sink)),
        ProbeMark => marks(probe.0, probe.1, |piece| checked_marks(piece, sink)),
        _ => {
            if kind.flags_build() {
                rows_where(build.0, build.1, wanted, |piece| {
                    check()?;
                    sink(TritonOutput::BuildRows(piece))
                })?;
            }
            if kind.flags_probe() {
                rows_where(probe.0, probe.1, wanted, |piece| {
                    check()?;
                    sink(TritonOutput::ProbeRows(piece))
                })?;
            }
            Ok(())
        }
    }
}
