//! From a choice and two inputs to the pairs: the device if the choice says so and nothing fails there, else the CPU's
//! operators.

use std::sync::Arc;

use datafusion::common::{JoinType, Result};
use tenon_gpu::cpu::Stop;
use tenon_gpu::cpu::join::Matcher;

use super::checks::Checks;
use super::join::CollectedJoin;
use super::on_device::{self, Gpu, Outcome};
use super::sent::Sent;
use super::task::{Task, null_rows};
use super::twins::{Rows, cross};
use crate::join::choice::{Choice, Operator};
use crate::join::side::SideData;
use crate::keys::all_valid;

/// One run over candidates on the CPU.
pub struct Pass {
    pub matcher: Box<dyn Matcher>,
    pub checks: Checks,
    /// Positions of one piece of work: also what runs on after a cancel.
    pub step: usize,
}

/// Positions of a piece of work, at most.
const STEP_MAX: usize = 16 * 1024;
/// Pieces of a nested loop at least, so that all cores have some however few the rows.
const NESTED_PIECES: usize = 64;
/// Comparisons of a piece of work of a nested loop: some 20 ms.
const COMPARISONS: usize = 1 << 25;

impl CollectedJoin {
    /// Has the device find the pairs, or sorts and builds tables for the passes that are to find them. Says what the
    /// device did, where it was asked.
    pub fn find(&self, choice: &Choice, gpu: Option<Gpu<'_>>, stop: Stop<'_>) -> Result<Option<Outcome>> {
        let (spec, sides) = (&self.spec, (&self.build, &self.probe));
        let task = Task::of(spec, choice, sides, stop)?;
        let on_cpu_by = choice.operator_on_cpu(gpu.as_ref().is_some_and(|gpu| gpu.may_spill));
        let outcome = match gpu {
            Some(gpu) => Some(on_device::run(self, choice.operator, &task, &gpu)?),
            None => None,
        };
        let mut passes = vec![];
        if outcome.as_ref().is_none_or(|outcome| outcome.found.is_none()) {
            let sent = outcome.as_ref().and_then(|outcome| outcome.sent.clone());
            passes.push(on_cpu(task, on_cpu_by, sent, stop)?);
        }
        if spec.null_aware {
            passes.extend(null_passes(sides.0, sides.1, spec.filter.is_some())?);
        }
        // Nobody else sets them.
        let _ = self.passes.set(passes);
        Ok(outcome)
    }
}

fn on_cpu(task: Task, operator: Operator, sent: Option<Arc<Sent>>, stop: Stop<'_>) -> Result<Pass> {
    let loops = operator == Operator::Ninlj;
    Ok(Pass {
        step: if loops {
            nested_step(task.rows.0, task.rows.1)
        } else {
            STEP_MAX
        },
        checks: Checks {
            swapped: task.swapped,
            verify: task.verify,
            filtered: task.filtered,
            sent,
        },
        matcher: Task::matcher(task.condition, task.rows, operator, stop)?,
    })
}

/// Of so many positions.
fn nested_step(build_rows: usize, positions: usize) -> usize {
    let step = (COMPARISONS / build_rows.max(1)).clamp(1, STEP_MAX);
    step.min(positions.div_ceil(NESTED_PIECES)).max(1)
}

/// `x NOT IN (...)`: a null on either side is a partner of everything that the filter lets it meet.
fn null_passes(build: &SideData, probe: &SideData, filtered: bool) -> Result<Vec<Pass>> {
    let nulls = |side: &SideData| all_valid(&side.keys).map(|valid| null_rows(&valid));
    let mut passes = vec![];
    if let Some(rows) = nulls(build) {
        // Without a filter one partner does what all of them do.
        let probes = if filtered { probe.rows } else { probe.rows.min(1) };
        passes.push(cross_pass(Rows::Picked(rows), Rows::First(probes), filtered)?);
    }
    if let Some(mut rows) = nulls(probe) {
        rows.truncate(if filtered { rows.len() } else { 1 });
        passes.push(cross_pass(Rows::First(build.rows), Rows::Picked(rows), filtered)?);
    }
    Ok(passes)
}

fn cross_pass(build: Rows, probe: Rows, filtered: bool) -> Result<Pass> {
    Ok(Pass {
        step: nested_step(build.len(), probe.len()),
        matcher: cross(build, probe)?,
        checks: Checks {
            filtered,
            ..Checks::default()
        },
    })
}

/// Whether the join kind must know which probe rows met a partner.
pub fn tracks_probe(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Right | Full | RightSemi | RightAnti | RightMark)
}
