//! What a node's metrics say after a run.

use super::{ExplainNode, Role, Value};
use chrono::{DateTime, Utc};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use tenon_executor::pipeline::NodeRan;

/// What a node did, over all partitions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Actual {
    pub rows: usize,
    /// From the node's start until its first row could come: when the input that it must read whole had ended.
    pub startup_ms: f64,
    /// From the node's start to its end.
    pub total_ms: f64,
    /// Whether it ran at all.
    pub ran: bool,
    /// Whether its time is one with that of other nodes, which it was fused with.
    pub fused: bool,
    /// Time on all cores together, by phase.
    pub phases: Vec<(String, f64)>,
    /// Every other count that the node keeps.
    pub counts: Vec<(String, Value)>,
}

/// The account of a node; `phase` names what its compute time is spent on.
pub(super) fn of(plan: &dyn ExecutionPlan, phase: &str) -> Option<Actual> {
    let metrics = plan.metrics()?;
    let (start, end) = interval(&metrics);
    let rows = metrics.output_rows();
    let mut actual = Actual {
        rows: rows.unwrap_or(0),
        ran: start.is_some() || rows.is_some_and(|rows| rows > 0),
        ..Actual::default()
    };
    if let (Some(start), Some(end)) = (start, end) {
        actual.total_ms = ((end - start).num_nanoseconds().unwrap_or(0) as f64 / 1e6).max(0.0);
    }
    for metric in metrics.aggregate_by_name().iter() {
        match metric.value() {
            MetricValue::Time { name, time } => {
                let name = name.strip_suffix("_time").unwrap_or(name).replace('_', " ");
                actual.phases.push((name, time.value() as f64 / 1e6));
            }
            MetricValue::ElapsedCompute(time) if time.value() > 0 => {
                actual.phases.push((phase.into(), time.value() as f64 / 1e6));
            }
            MetricValue::Count { name, count } if count.value() > 0 => {
                actual.counts.push((title(name), Value::Count(count.value() as u64)));
            }
            MetricValue::Gauge { name, gauge } if gauge.value() > 0 => {
                actual.counts.push((title(name), Value::Count(gauge.value() as u64)));
            }
            MetricValue::SpilledBytes(count) if count.value() > 0 => {
                let bytes = Value::Bytes(count.value() as u64);
                actual.counts.push(("Spilled".into(), bytes));
            }
            _ => {}
        }
    }
    // In the order in which they ran, where they are numbered.
    let number = |name: &str| name.split_once('.').and_then(|(number, _)| number.parse::<u32>().ok());
    actual
        .phases
        .sort_by(|(a, _), (b, _)| (number(a), a).cmp(&(number(b), b)));
    Some(actual)
}

/// The account of a node that gives the rows of its inputs one after the other, and keeps none of its own.
pub(super) fn of_members(inputs: &[(Role, ExplainNode)]) -> Option<Actual> {
    let members = inputs.iter().filter(|(role, _)| *role == Role::Member);
    let members = members.map(|(_, input)| input.actual.as_ref());
    members
        .collect::<Option<Vec<_>>>()
        .filter(|members| !members.is_empty())
        .map(|members| Actual {
            rows: members.iter().map(|member| member.rows).sum(),
            startup_ms: members.first().map_or(0.0, |first| first.startup_ms),
            total_ms: members.iter().map(|member| member.total_ms).fold(0.0, f64::max),
            ran: members.iter().any(|member| member.ran),
            ..Actual::default()
        })
}

/// The account of a node that ran on the device with others.
pub(super) fn fused(ran: &NodeRan) -> Actual {
    let mut counts = vec![];
    if let Some((rows, bytes)) = ran.scanned {
        if rows > ran.rows {
            counts.push(("Rows Removed by Filter".into(), Value::Count(rows - ran.rows)));
        }
        counts.push(("Bytes Read".into(), Value::Count(bytes)));
    }
    let pipeline = ran.pipeline.clone().map(Value::Text);
    counts.extend(pipeline.map(|name| ("Pipeline".into(), name)));
    Actual {
        rows: ran.rows as usize,
        ran: ran.ran,
        fused: true,
        counts,
        ..Actual::default()
    }
}

impl Actual {
    /// Takes a phase out by its name.
    pub(super) fn take_phase(&mut self, name: &str) -> Option<f64> {
        let at = self.phases.iter().position(|(own, _)| own == name)?;
        Some(self.phases.remove(at).1)
    }

    /// Takes a count out by its label.
    pub(super) fn take_count(&mut self, label: &str) -> Option<u64> {
        let at = self.counts.iter().position(|(own, _)| own == label)?;
        match self.counts.remove(at).1 {
            Value::Count(count) => Some(count),
            _ => None,
        }
    }
}

/// From the first partition's start to the last one's end.
fn interval(metrics: &MetricsSet) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
    let (mut start, mut end): (Option<DateTime<Utc>>, Option<DateTime<Utc>>) = (None, None);
    for metric in metrics.iter() {
        match metric.value() {
            MetricValue::StartTimestamp(time) => start = [start, time.value()].into_iter().flatten().min(),
            MetricValue::EndTimestamp(time) => end = [end, time.value()].into_iter().flatten().max(),
            _ => {}
        }
    }
    (start, end)
}

/// `rows_pruned` as PostgreSQL would label it: `Rows Pruned`.
fn title(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    });
    words.collect::<Vec<_>>().join(" ")
}
