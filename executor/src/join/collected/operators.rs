//! From a choice and two inputs to the pairs' finders: the device if the choice says so and nothing fails there, else
//! the CPU's operators.

use datafusion::common::{JoinType, Result};
use tenon_gpu::cpu::Stop;
use tenon_gpu::cpu::join::Matcher;

use super::keys::Verify;
use super::on_device::{self, Gpu, Outcome};
use super::task::{Task, null_rows};
use super::twins::{Rows, cross};
use crate::join::build::tracks_build;
use crate::join::choice::{Choice, Operator};
use crate::join::side::SideData;
use crate::join::spec::JoinSpec;
use crate::keys::all_valid;

/// One run over candidates.
pub struct Pass {
    pub matcher: Box<dyn Matcher>,
    /// Whether the operator's build rows are the join's probe rows.
    pub swapped: bool,
    /// Compares keys where the operator's words do not decide.
    pub verify: Option<Verify>,
    /// Whether the join's filter must still be tested.
    pub filtered: bool,
    /// Positions of one piece of work: also what runs on after a cancel.
    pub step: usize,
}

/// What finds a join's pairs.
pub struct Finders {
    pub passes: Vec<Pass>,
    /// Rows found to have a partner, a byte each, and whether they are of the build side.
    pub marks: Option<(Vec<u8>, bool)>,
    /// What the device did, where it was asked.
    pub device: Option<Outcome>,
}

/// Positions of a piece of work, at most.
const STEP_MAX: usize = 16 * 1024;
/// Comparisons of a piece of work of a nested loop: some 20 ms.
const COMPARISONS: usize = 1 << 25;
/// Pieces of found pairs in a piece of work.
const FOUND_STEP: usize = 4;

impl Finders {
    pub fn of(
        spec: &JoinSpec,
        choice: &Choice,
        (build, probe): (&SideData, &SideData),
        gpu: Option<Gpu<'_>>,
        stop: Stop<'_>,
    ) -> Result<Self> {
        let task = Task::of(spec, choice, (build, probe), stop)?;
        let mut finders = Self {
            passes: vec![],
            marks: None,
            device: None,
        };
        if let Some(gpu) = gpu {
            let (found, outcome) = on_device::run(spec, choice.operator, &task, (build, probe), &gpu)?;
            if let Some(found) = found {
                let of_build = tracks_build(spec.join_type);
                finders.marks = (!found.marks.is_empty()).then_some((found.marks, of_build));
                finders.passes.push(Pass {
                    matcher: Box::new(found.pairs),
                    swapped: task.swapped,
                    verify: None,
                    filtered: found.filtered,
                    step: FOUND_STEP,
                });
            }
            finders.device = Some(outcome);
        }
        if finders.passes.is_empty() {
            finders.passes.push(on_cpu(task, choice.operator, stop)?);
        } else {
            finders.passes[0].verify = task.verify;
        }
        if spec.null_aware {
            finders.passes.extend(null_passes(build, probe, spec.filter.is_some())?);
        }
        Ok(finders)
    }
}

fn on_cpu(task: Task, operator: Operator, stop: Stop<'_>) -> Result<Pass> {
    let loops = operator == Operator::Ninlj;
    Ok(Pass {
        step: if loops { nested_step(task.rows.0) } else { STEP_MAX },
        swapped: task.swapped,
        verify: task.verify,
        filtered: task.filtered,
        matcher: Task::matcher(task.condition, task.rows, operator, stop)?,
    })
}

fn nested_step(build_rows: usize) -> usize {
    (COMPARISONS / build_rows.max(1)).clamp(1, STEP_MAX)
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
        step: nested_step(build.len()),
        matcher: cross(build, probe)?,
        swapped: false,
        verify: None,
        filtered,
    })
}

/// Whether the join kind must know which probe rows met a partner.
pub fn tracks_probe(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Right | Full | RightSemi | RightAnti | RightMark)
}
