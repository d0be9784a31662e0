//! Passes: runs over candidate pairs on the CPU, by one operator each, in ranges that the partitions draw.

use std::sync::Arc;

use datafusion::common::Result;
use tenon_cpu::Stop;
use tenon_cpu::join::Matcher;

use super::checks::Checks;
use super::cpu_operators::{CrossSide, cross};
use super::emitted::EmittedPairs;
use super::task::{Task, null_rows};
use crate::join::path::Operator;
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

/// The pass of an operator over its task, without the pairs that have been emitted.
pub fn on_cpu(task: Task, operator: Operator, emitted: Option<Arc<EmittedPairs>>, stop: Stop<'_>) -> Result<Pass> {
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
            emitted,
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
pub fn null_passes(build: &SideData, probe: &SideData, filtered: bool) -> Result<Vec<Pass>> {
    let nulls = |side: &SideData| all_valid(&side.keys).map(|valid| null_rows(&valid));
    let mut passes = vec![];
    if let Some(rows) = nulls(build) {
        // Without a filter one partner does what all of them do.
        let probes = if filtered { probe.rows } else { probe.rows.min(1) };
        passes.push(cross_pass(CrossSide::Picked(rows), CrossSide::First(probes), filtered)?);
    }
    if let Some(mut rows) = nulls(probe) {
        rows.truncate(if filtered { rows.len() } else { 1 });
        passes.push(cross_pass(
            CrossSide::First(build.rows),
            CrossSide::Picked(rows),
            filtered,
        )?);
    }
    Ok(passes)
}

fn cross_pass(build: CrossSide, probe: CrossSide, filtered: bool) -> Result<Pass> {
    Ok(Pass {
        step: nested_step(build.len(), probe.len()),
        matcher: cross(build, probe)?,
        checks: Checks {
            filtered,
            ..Checks::default()
        },
    })
}
