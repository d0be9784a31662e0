//! What a join's device did, told to its metrics and to the choice that EXPLAIN shows.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use parking_lot::Mutex;

use super::on_device::Outcome;
use crate::counts::COUNTS;
use crate::join::choice::Choice;

pub struct Account {
    pub metrics: ExecutionPlanMetricsSet,
    pub partition: usize,
    /// As the join began.
    pub choice: Choice,
    /// Whether the choice was free.
    pub free: bool,
    /// What EXPLAIN shows.
    pub chosen: Arc<Mutex<Option<Choice>>>,
}

impl Account {
    /// Says what came of the choice. A free one that fell back to the CPU is that of its counterpart there.
    pub fn note(self, outcome: &Outcome) {
        let mut choice = self.choice;
        let metrics = || MetricBuilder::new(&self.metrics);
        let gauge = |name, value: u64| metrics().gauge(name, self.partition).set(value as usize);
        let failures: Vec<_> = outcome
            .failures
            .iter()
            .map(|(operator, why)| format!("{operator}: {why}"))
            .collect();
        match &outcome.found {
            Some((operator, found)) => {
                COUNTS.joins_on_device.add(1);
                COUNTS.bytes_to_device.add(found.bytes_in);
                COUNTS.bytes_from_device.add(found.bytes_out);
                gauge("gpu_passes", found.passes);
                gauge("bytes_to_gpu", found.bytes_in);
                gauge("bytes_from_gpu", found.bytes_out);
                gauge("gpu_memory_peak", found.peak_bytes);
                if found.spilled_bytes > 0 {
                    gauge("spilled_bytes", found.spilled_bytes);
                }
                for (name, ms) in &found.phases {
                    let time = metrics().subset_time(*name, self.partition);
                    time.add_duration(Duration::from_secs_f32(ms / 1e3));
                }
                operator.count(true);
                choice.path.operator = *operator;
                if let Some(why) = &found.condition_on_host {
                    choice.leave_condition_to_host(why);
                }
                if !failures.is_empty() {
                    choice.reason += &format!("; instead of {}", failures.join("; "));
                }
            }
            None => {
                let why = failures.join("; ");
                COUNTS.joins_fallen_back.add(1);
                gauge("gpu_fallbacks", 1);
                tracing::warn!("a join fell back to the CPU: {why}");
                if let Some(why) = outcome.fallback {
                    COUNTS.fallbacks(why).add(1);
                }
                choice.path.operator = choice.operator_on_cpu(self.free);
                choice.path.operator.count(false);
                choice.leave_gpu(&why);
            }
        }
        *self.chosen.lock() = Some(choice);
    }
}
