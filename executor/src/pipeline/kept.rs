//! What is kept of a plan for its further executions: its forms as a fragment, and what the CPU took for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use super::compiled::Compiled;
use super::fragment::Sizes;
use super::top::Top;
use crate::codegen::Translated;

/// A plan's form as a fragment, or why it has none.
type Form = Translated<Arc<Compiled>>;

#[derive(Default)]
pub struct Kept {
    /// With room for all rows that there may be, or were seen; and for those that are expected, or were seen.
    forms: Mutex<[Option<Form>; 2]>,
    /// The shortest time that the CPU has taken, in nanoseconds; 0: none was seen.
    host_ns: AtomicU64,
}

impl Kept {
    /// A form of the plan, `sparing` with memory or not: what earlier runs have told of its sizes counts.
    pub fn form(&self, plan: &Arc<dyn ExecutionPlan>, top: Option<&Top>, sparing: bool) -> Form {
        let form = &mut self.forms.lock()[usize::from(sparing)];
        let sizes = match form {
            None => Sizes {
                sparing,
                ..Sizes::default()
            },
            Some(Err(why)) => return Err(why.clone()),
            Some(Ok(compiled)) => match compiled.better_sizes() {
                None => return Ok(Arc::clone(compiled)),
                Some(sizes) => sizes,
            },
        };
        let made = Compiled::of(plan, top, &sizes).map(Arc::new);
        *form = match &made {
            // The next execution has other values.
            Ok(compiled) if compiled.fragment.once => None,
            other => Some(other.clone()),
        };
        made
    }

    /// The CPU has done the same in this time.
    pub fn note_host(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let least = |seen: u64| Some(if seen == 0 { took } else { seen.min(took) });
        // The closure always gives a value.
        let _ = self.host_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, least);
    }

    /// What it took, in seconds.
    pub fn host_s(&self) -> Option<f64> {
        match self.host_ns.load(Ordering::Relaxed) {
            0 => None,
            ns => Some(ns as f64 / 1e9),
        }
    }
}
