//! A join's pairs from the device, as they are found, or the reasons why not all of them came and the CPU has to find
//! the rest.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::common::{JoinSide, Result};
use tenon_gpu::{Device, GpuError};

use super::attempt::{Bounds, Found, Wanted, device_bytes};
use super::checks::Checks;
use super::chunks::PairSender;
use super::device_join::find;
use super::emitted::EmittedPairs;
use super::join::MaterializedJoin;
use super::task::{Condition, Task};
use crate::counts::Fallback;
use crate::device;
use crate::gpu_error::{reserve_host, to_datafusion};
use crate::join::condition::CompiledFilter;
use crate::join::kind::{has_pairs, tracks_build};
use crate::join::path::Operator;

/// The device, for the joins that are to run there.
pub struct Gpu<'a> {
    pub device: &'a Device,
    pub memory_bytes: Option<u64>,
    /// Whether a join of equal keys that runs out of device memory may go on as the Triton join.
    pub may_spill: bool,
    /// What the join takes by the model.
    pub seconds: Option<f64>,
    pub cancelled: &'a AtomicBool,
}

/// What happened on the device.
#[derive(Default)]
pub struct Outcome {
    /// The operator that found the pairs, and what it took; none: the CPU has to find them.
    pub found: Option<(Operator, Found)>,
    /// Operators that failed, and why.
    pub failures: Vec<(Operator, String)>,
    /// The kind of the last of these.
    pub fallback: Option<Fallback>,
    /// What of their pairs is on its way to the client all the same.
    pub emitted: Option<Arc<EmittedPairs>>,
}

/// Asks the device; pairs go to the partitions' threads as they come. Only a cancelled attempt is an error.
pub fn run(join: &MaterializedJoin, operator: Operator, task: &Task, gpu: &Gpu<'_>) -> Result<Outcome> {
    let _queued = device::Queued::enter(gpu.seconds);
    let mut outcome = Outcome::default();
    let may_spill = gpu.may_spill && operator != Operator::Triton && matches!(task.condition, Condition::Equal { .. });
    for operator in [operator].into_iter().chain(may_spill.then_some(Operator::Triton)) {
        match attempt(join, operator, task, gpu, outcome.emitted.clone()) {
            Ok(found) => {
                join.chunks.forget_taken();
                outcome.found = Some((operator, found));
                return Ok(outcome);
            }
            // Nobody waits for the CPU's work either.
            Err(GpuError::Cancelled) => return Err(to_datafusion(GpuError::Cancelled)),
            Err(error) => {
                device::failed(&error);
                outcome.emitted = join.chunks.roll_back(outcome.emitted.take());
                outcome.failures.push((operator, error.to_string()));
                outcome.fallback = Some(Fallback::of(&error));
                if !matches!(error, GpuError::OutOfMemory { .. }) {
                    break;
                }
            }
        }
    }
    Ok(outcome)
}

/// What one operator finds, without what has been emitted.
fn attempt(
    join: &MaterializedJoin,
    operator: Operator,
    task: &Task,
    gpu: &Gpu<'_>,
    emitted: Option<Arc<EmittedPairs>>,
) -> Result<Found, GpuError> {
    let (spec, build, probe) = (&join.spec, &join.build, &join.probe);
    let built = if task.swapped { JoinSide::Right } else { JoinSide::Left };
    let column = |side: JoinSide, index: usize| match side {
        JoinSide::Left => build.columns.get(index)?.as_ref(),
        JoinSide::Right => probe.columns.get(index)?.as_ref(),
        JoinSide::None => None,
    };
    let spilling = operator == Operator::Triton;
    let results = build.reservation.new_empty();
    let free_bytes = device_bytes(gpu.device, gpu.memory_bytes);
    let filter = spec.filter.as_ref().filter(|_| task.filtered);
    let compiled = filter
        .map(|filter| CompiledFilter::of(filter, built, column))
        .transpose();
    let (compiled, on_host) = match (compiled, &task.condition) {
        (Ok(None), Condition::Any) => return Err(GpuError::Invalid("a cross join only copies rows".into())),
        // All pairs would have to come to the host.
        (Err(why), Condition::Any) => return Err(GpuError::Invalid(why)),
        (Err(why), _) => (None, Some(why)),
        // The filter's columns would leave the join's own state too little room.
        (Ok(Some(filter)), _) if spilling && filter.bytes() > free_bytes / 4 => {
            (None, Some("its columns need too much device memory".into()))
        }
        (Ok(compiled), _) => (compiled, None),
    };
    // What was made for the device, as long as it is there.
    reserve_host(&results, compiled.as_ref().map_or(0, CompiledFilter::made_bytes))?;
    let decided = on_host.is_none() && task.verify.is_none();
    let wanted = if decided && spec.wants_count() && emitted.is_none() {
        Wanted::Count
    } else if !decided || has_pairs(spec.join_type) {
        Wanted::Pairs
    } else if tracks_build(spec.join_type) != task.swapped {
        Wanted::BuildMarks
    } else {
        Wanted::ProbeMarks
    };
    let checks = Checks {
        swapped: task.swapped,
        verify: task.verify.clone(),
        filtered: on_host.is_some(),
        emitted,
    };
    let out = PairSender {
        chunks: &join.chunks,
        checks: Arc::new(checks),
        memory: &results,
        cancelled: gpu.cancelled,
    };
    let bounds = Bounds {
        cancelled: gpu.cancelled,
        memory_bytes: gpu.memory_bytes,
        results: &results,
        out: &out,
    };
    let mut found = find(gpu.device, task, operator, compiled.as_ref(), wanted, bounds)?;
    join.count(found.count);
    join.mark(&found.marks);
    found.marks = vec![];
    found.condition_on_host = on_host;
    Ok(found)
}
