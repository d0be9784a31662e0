//! From a choice and two inputs to the pairs: the device if the choice says so and nothing fails there, else the CPU's
//! operators.

use datafusion::common::Result;
use tenon_cpu::Stop;

use super::join::MaterializedJoin;
use super::on_device::{self, Gpu, Outcome};
use super::pass::{null_passes, on_cpu};
use super::task::Task;
use crate::join::choice::Choice;

impl MaterializedJoin {
    /// Has the device find the pairs, or sorts and builds tables for the passes that are to find them. Says what the
    /// device did, where it was asked.
    pub fn find(&self, choice: &Choice, gpu: Option<Gpu<'_>>, stop: Stop<'_>) -> Result<Option<Outcome>> {
        let (spec, sides) = (&self.spec, (&self.build, &self.probe));
        let task = Task::of(spec, choice, sides, stop)?;
        let on_cpu_by = choice.operator_on_cpu(gpu.as_ref().is_some_and(|gpu| gpu.may_spill));
        let outcome = match gpu {
            Some(gpu) => Some(on_device::run(self, choice.path.operator, &task, &gpu)?),
            None => None,
        };
        let mut passes = vec![];
        if outcome.as_ref().is_none_or(|outcome| outcome.found.is_none()) {
            let emitted = outcome.as_ref().and_then(|outcome| outcome.emitted.clone());
            passes.push(on_cpu(task, on_cpu_by, emitted, stop)?);
        }
        if spec.null_aware {
            passes.extend(null_passes(sides.0, sides.1, spec.filter.is_some())?);
        }
        // Nobody else sets them.
        let _ = self.passes.set(passes);
        Ok(outcome)
    }
}
