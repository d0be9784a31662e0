//! Pairs found on the device: normalized keys go in, row numbers come out, and the join's condition is compiled in
//! where it can be.
//!
//! Pairs go to the partitions' threads as they come. Any failure (out of memory, a fault, a lost device) leaves the task
//! as it was, for the CPU to do without the pairs that are gone.

use std::ops::Bound;

use tenon_cpu::Stop;
use tenon_gpu::join::hash::{HashOptions, hash_join};
use tenon_gpu::join::nested_loop::{NestedLoopMatcher, UnkeyedSide};
use tenon_gpu::join::probe::Probe;
use tenon_gpu::join::ranges::RangeMatcher;
use tenon_gpu::join::sort_merge::sort_merge;
use tenon_gpu::join::sorted::SortedSide;
use tenon_gpu::join::{JoinKind, JoinOutput, JoinRun, Keys, Matcher, Residual, RunLimits, Side, count_pairs};
use tenon_gpu::memory::{DeviceBuffer, DeviceView};
use tenon_gpu::{Device, DeviceKind, GpuError, Result, Stream};

use super::attempt::{Bounds, Found, Wanted};
use super::keys::KeyedRows;
use super::task::{Condition, Task};
use super::triton;
use crate::gpu_error::reserve_host;
use crate::join::condition::CompiledFilter;
use crate::join::normalized_keys::NormalizedKeys;
use crate::join::path::Operator;

/// Comparisons of one step of a nested loop: some 10 ms of a GPU, a tenth of a second of the simulator.
const COMPARISONS: u64 = 1 << 36;
const COMPARISONS_SIMULATED: u64 = 1 << 21;

/// Runs the task by `operator`. `filter` is tested on the device.
pub fn find(
    device: &Device,
    task: &Task,
    operator: Operator,
    filter: Option<&CompiledFilter>,
    wanted: Wanted,
    bounds: Bounds<'_>,
) -> Result<Found> {
    let needed = task.device_bytes() + filter.map_or(0, CompiledFilter::bytes);
    let limit = bounds.memory_bytes.filter(|_| operator != Operator::Triton);
    if let Some(limit) = limit.filter(|&limit| needed > limit) {
        let pool = device.pool();
        return Err(GpuError::OutOfMemory {
            requested_bytes: needed,
            in_use_bytes: pool.in_use(),
            reserved_bytes: pool.reserved(),
            budget_bytes: limit,
            detail: "; this is the statement's limit".into(),
        });
    }
    DeviceJoin {
        device,
        task,
        operator,
        filter,
        wanted,
    }
    .find(&bounds)
}

struct DeviceJoin<'a> {
    device: &'a Device,
    task: &'a Task,
    operator: Operator,
    filter: Option<&'a CompiledFilter>,
    wanted: Wanted,
}

impl DeviceJoin<'_> {
    fn find(&self, bounds: &Bounds<'_>) -> Result<Found> {
        let stream = &self.device.stream()?;
        let mut found = Found::default();
        let (mut inputs, mut residual) = (None, Residual::none());
        if let Some(filter) = self.filter {
            let inputs = inputs.insert(filter.upload(stream, &mut found.bytes_in)?);
            // SAFETY: the inputs are kept until the flag has been read behind all kernels, or, after an error, go back to the
            // pool in the order of the stream.
            residual = unsafe { filter.residual(inputs) };
        }
        let found = self.by_operator(stream, residual, bounds, found)?;
        match inputs {
            Some(inputs) if inputs.has_failed(stream)? => {
                Err(GpuError::Invalid("the condition has no value on some pair".into()))
            }
            _ => Ok(found),
        }
    }

    fn by_operator(&self, stream: &Stream, residual: Residual, bounds: &Bounds<'_>, mut found: Found) -> Result<Found> {
        let (build_rows, probe_rows) = (self.task.rows.0 as u64, self.task.rows.1 as u64);
        match &self.task.condition {
            Condition::Equal { build, probe, .. } if self.operator == Operator::Triton => {
                let sides = ((build, self.task.rows.0), (probe, self.task.rows.1));
                let filter_bytes = self.filter.map_or(0, CompiledFilter::bytes);
                let bounds = Bounds {
                    memory_bytes: bounds.memory_bytes.map(|bytes| bytes.saturating_sub(filter_bytes)),
                    ..*bounds
                };
                let mut joined = triton::find(self.device, sides.0, sides.1, &residual, self.wanted, &bounds)?;
                joined.bytes_in += found.bytes_in;
                joined.peak_bytes = self.device.pool().peak();
                Ok(joined)
            }
            Condition::Equal {
                build,
                probe,
                ascending,
            } => {
                let build = OnDevice::upload(stream, build, build_rows, &mut found.bytes_in)?;
                let probe = OnDevice::upload(stream, probe, probe_rows, &mut found.bytes_in)?;
                let (build, probe) = (build.side()?, probe.side()?);
                let matcher: Box<dyn Matcher + '_> = match self.operator {
                    Operator::Smj => Box::new(sort_merge(stream, build, probe, *ascending, residual)?),
                    Operator::Inlj => {
                        let sorted = sorted(stream, build, ascending.build)?;
                        Box::new(RangeMatcher::new(stream, sorted, None, Probe::equal(probe), residual)?)
                    }
                    Operator::Ninlj => Box::new(NestedLoopMatcher::equal(build, probe, residual)?),
                    _ => hash_join(stream, build, probe, residual, &HashOptions::default())?,
                };
                self.run(stream, matcher.as_ref(), bounds, found)
            }
            Condition::Range(range, ascending) => {
                let keys = OnDevice::upload(stream, &range.build, build_rows, &mut found.bytes_in)?;
                let lows = Uploaded::of(stream, &range.lows, &mut found.bytes_in)?;
                let highs = Uploaded::of(stream, &range.highs, &mut found.bytes_in)?;
                let rows = upload(stream, &range.probe_rows, &mut found.bytes_in)?;
                let (low, high) = (Bound::Included(lows.keys()), Bound::Included(highs.keys()));
                let probe = Probe::between(range.probe_rows.len() as u64, Some(rows.view()), low, high)?;
                let sorted = sorted(stream, keys.side()?, *ascending)?;
                let matcher = RangeMatcher::new(stream, sorted, None, probe, residual)?;
                self.run(stream, &matcher, bounds, found)
            }
            Condition::Any => {
                let rows = |len| UnkeyedSide { rows: None, len };
                let matcher = NestedLoopMatcher::condition(rows(build_rows), rows(probe_rows), residual)?;
                self.run(stream, &matcher, bounds, found)
            }
        }
    }

    fn run(&self, stream: &Stream, matcher: &dyn Matcher, bounds: &Bounds<'_>, mut found: Found) -> Result<Found> {
        let kind = match self.wanted {
            Wanted::Pairs | Wanted::Count => JoinKind::Inner,
            Wanted::BuildMarks => JoinKind::BuildMark,
            Wanted::ProbeMarks => JoinKind::ProbeMark,
        };
        let usual = RunLimits::default();
        let simulated = self.device.info().kind == DeviceKind::Sim;
        let comparisons = if simulated { COMPARISONS_SIMULATED } else { COMPARISONS };
        let mut limits = match self.operator {
            Operator::Ninlj => RunLimits {
                positions_max: (comparisons / (self.task.rows.0 as u64).max(1)).clamp(1, usual.positions_max),
                ..usual
            },
            _ => usual,
        };
        if self.wanted == Wanted::Pairs {
            let chunk = bounds.out.chunks.chunk_pairs() as u64;
            limits.pairs_max = limits.pairs_max.min(chunk);
            limits.positions_max = limits.positions_max.min(chunk);
        }
        let stop = Stop::when(bounds.cancelled);
        if self.wanted == Wanted::Count {
            (found.count, found.passes) = count_pairs(stream, matcher, limits, stop)?;
            found.bytes_out += 8 * found.passes;
            found.peak_bytes = self.device.pool().peak();
            return Ok(found);
        }
        let (build_rows, probe_rows) = (self.task.rows.0 as u64, self.task.rows.1 as u64);
        let run = JoinRun::new(stream, matcher, kind, build_rows, probe_rows, limits)?;
        let mut run = run.unless(stop);
        while let Some(output) = run.next_output()? {
            match output {
                JoinOutput::Pairs(pairs) => {
                    let count = pairs.build_rows.len();
                    let room = bounds.out.reserve(count as usize)?;
                    found.bytes_out += count * 8;
                    let build_rows = stream.download(pairs.build_rows.view())?;
                    let probe_rows = stream.download(pairs.probe_rows.view())?;
                    bounds.out.push(build_rows, probe_rows, room)?;
                }
                JoinOutput::Marks(marks) => {
                    reserve_host(bounds.results, marks.len() as usize)?;
                    found.bytes_out += marks.len();
                    found.marks = stream.download(marks.view())?;
                }
                JoinOutput::BuildRows(_) | JoinOutput::ProbeRows(_) => {
                    return Err(GpuError::Invalid("rows from a join of pairs or marks".into()));
                }
            }
        }
        found.passes = run.passes;
        found.peak_bytes = self.device.pool().peak();
        Ok(found)
    }
}

/// The side, sorted here unless it ascends.
fn sorted<'a>(stream: &Stream, side: Side<'a>, ascends: bool) -> Result<SortedSide<'a>> {
    match ascends {
        true => Ok(SortedSide::presorted(side)),
        false => SortedSide::sort(stream, side),
    }
}

/// NormalizedKeys in device memory.
enum Uploaded {
    U32(DeviceBuffer<u32>),
    U64(DeviceBuffer<u64>),
}

impl Uploaded {
    fn of(stream: &Stream, keys: &NormalizedKeys, bytes: &mut u64) -> Result<Self> {
        Ok(match keys {
            NormalizedKeys::U32(keys) => Uploaded::U32(upload(stream, keys, bytes)?),
            NormalizedKeys::U64(keys) => Uploaded::U64(upload(stream, keys, bytes)?),
        })
    }

    fn keys(&self) -> Keys<'_> {
        match self {
            Uploaded::U32(keys) => Keys::U32(keys.view()),
            Uploaded::U64(keys) => Keys::U64(keys.view()),
        }
    }
}

fn upload<T: tenon_gpu::memory::Element>(stream: &Stream, items: &[T], bytes: &mut u64) -> Result<DeviceBuffer<T>> {
    *bytes += size_of_val(items) as u64;
    stream.upload(items)
}

/// One side in device memory.
struct OnDevice {
    keys: Uploaded,
    rows: Option<DeviceBuffer<u32>>,
    row_count: u64,
}

impl OnDevice {
    fn upload(stream: &Stream, keyed: &KeyedRows, row_count: u64, bytes: &mut u64) -> Result<Self> {
        Ok(Self {
            keys: Uploaded::of(stream, &keyed.keys, bytes)?,
            rows: keyed
                .rows
                .as_ref()
                .map(|rows| upload(stream, rows, bytes))
                .transpose()?,
            row_count,
        })
    }

    fn side(&self) -> Result<Side<'_>> {
        let rows: Option<DeviceView<'_, u32>> = self.rows.as_ref().map(|rows| rows.view());
        Side::with_rows(self.keys.keys(), rows, self.row_count)
    }
}

impl Task {
    /// Device memory for the normalized keys of both sides, sorted or partitioned copies of them, and a step's counts.
    fn device_bytes(&self) -> u64 {
        let rows = self.rows.0 + self.rows.1;
        let width = match &self.condition {
            Condition::Any => 0,
            Condition::Equal { build, .. } => build.keys.width() + 4,
            Condition::Range(range, _) => 2 * range.build.keys.width() + 4,
        };
        (rows * (3 * width + 12)) as u64
    }
}
