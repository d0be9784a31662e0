//! A join's pairs from the device, or the reasons why there are none and the CPU has to find them.

use std::sync::atomic::AtomicBool;

use datafusion::common::{JoinSide, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use tenon_gpu::{Device, GpuError};

use super::condition::CompiledFilter;
use super::device_join::{Bounds, Found, Wanted, find, host_memory};
use super::found::FoundPairs;
use super::sink::has_pairs;
use super::task::{Condition, Task};
use crate::device;
use crate::gpu_error::to_datafusion;
use crate::join::build::tracks_build;
use crate::join::choice::Operator;
use crate::join::side::SideData;
use crate::join::spec::JoinSpec;

/// The device, for the joins that are to run there.
pub struct Gpu<'a> {
    pub device: &'a Device,
    pub memory_bytes: Option<u64>,
    /// Whether a join of equal keys that runs out of device memory may go on as the Triton join.
    pub may_spill: bool,
    pub cancelled: &'a AtomicBool,
}

/// What happened on the device.
#[derive(Default)]
pub struct Outcome {
    /// The operator that found the pairs, and what it took; none: the CPU has to find them.
    pub found: Option<(Operator, Found)>,
    /// Operators that failed, and why.
    pub failures: Vec<(Operator, String)>,
}

/// What the device leaves for the host to do.
pub struct DevicePairs {
    pub pairs: FoundPairs,
    /// Rows found to have a partner, a byte each; empty unless only they were wanted.
    pub marks: Vec<u8>,
    /// Whether the join's filter must still be tested.
    pub filtered: bool,
}

/// Asks the device. Nothing of a failed attempt is left; only a cancelled one is an error.
pub fn run(
    spec: &JoinSpec,
    operator: Operator,
    task: &Task,
    (build, probe): (&SideData, &SideData),
    gpu: &Gpu<'_>,
) -> Result<(Option<DevicePairs>, Outcome)> {
    let mut outcome = Outcome::default();
    let may_spill = gpu.may_spill && operator != Operator::Triton && matches!(task.condition, Condition::Equal { .. });
    for operator in [operator].into_iter().chain(may_spill.then_some(Operator::Triton)) {
        let results = build.reservation.new_empty();
        match attempt(spec, operator, task, (build, probe), gpu, &results) {
            Ok(mut found) => {
                let pairs = DevicePairs {
                    marks: std::mem::take(&mut found.marks),
                    pairs: FoundPairs::new(std::mem::take(&mut found.pairs), results),
                    filtered: found.condition_on_host.is_some(),
                };
                outcome.found = Some((operator, found));
                return Ok((Some(pairs), outcome));
            }
            // Nobody waits for the CPU's work either.
            Err(GpuError::Cancelled) => return Err(to_datafusion(GpuError::Cancelled)),
            Err(error) => {
                device::failed(&error);
                outcome.failures.push((operator, error.to_string()));
                if !matches!(error, GpuError::OutOfMemory { .. }) {
                    break;
                }
            }
        }
    }
    Ok((None, outcome))
}

/// What one operator finds.
fn attempt(
    spec: &JoinSpec,
    operator: Operator,
    task: &Task,
    (build, probe): (&SideData, &SideData),
    gpu: &Gpu<'_>,
    results: &MemoryReservation,
) -> Result<Found, GpuError> {
    let own = if task.swapped { JoinSide::Right } else { JoinSide::Left };
    let column = |side: JoinSide, index: usize| match side {
        JoinSide::Left => build.columns.get(index)?.as_ref(),
        JoinSide::Right => probe.columns.get(index)?.as_ref(),
        JoinSide::None => None,
    };
    let spilling = operator == Operator::Triton;
    let bounds = Bounds {
        cancelled: gpu.cancelled,
        memory_bytes: gpu.memory_bytes,
        results,
    };
    let filter = spec.filter.as_ref().filter(|_| task.filtered);
    let compiled = filter.map(|filter| CompiledFilter::of(filter, own, column)).transpose();
    let (compiled, on_host) = match (compiled, &task.condition) {
        (Ok(None), Condition::Any) => return Err(GpuError::Invalid("a cross join only copies rows".into())),
        // All pairs would have to come to the host.
        (Err(why), Condition::Any) => return Err(GpuError::Invalid(why)),
        (Err(why), _) => (None, Some(why)),
        // The filter's columns would leave the join's own state too little room.
        (Ok(Some(filter)), _) if spilling && filter.bytes() > bounds.device_bytes(gpu.device) / 4 => {
            (None, Some("its columns need too much device memory".into()))
        }
        (Ok(compiled), _) => (compiled, None),
    };
    // What was made for the device, as long as it is there.
    let made = results.new_empty();
    host_memory(&made, compiled.as_ref().map_or(0, CompiledFilter::made_bytes))?;
    let wanted = if on_host.is_some() || task.verify.is_some() || has_pairs(spec.join_type) {
        Wanted::Pairs
    } else if tracks_build(spec.join_type) != task.swapped {
        Wanted::BuildMarks
    } else {
        Wanted::ProbeMarks
    };
    let mut found = find(gpu.device, task, operator, compiled.as_ref(), wanted, bounds)?;
    found.condition_on_host = on_host;
    Ok(found)
}
