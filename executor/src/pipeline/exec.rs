//! A part of a plan that may run on the device as one fragment, and else as it is.
//!
//! Stands above groupings and topmost joins.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::ChildStats;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr, PlanProperties,
    SendableRecordBatchStream, StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

use super::attempt::{Ran, Report, rows};
use super::counted::NodeRan;
use super::kept::{Again, Kept};
use super::top::Top;
use crate::per_execution::{MadeOnce, PerExecution};

/// Rows are given in batches of so many times the usual number.
const BATCHES_AT_ONCE: usize = 8;

/// A copy of a plan that has nothing of earlier runs.
pub type MakeCopy = fn(&Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>;

#[derive(Debug)]
pub struct OffloadExec {
    input: Arc<dyn ExecutionPlan>,
    /// Where the input may be in other runs, too: what the CPU runs instead, once it is to.
    copied: Option<Arc<Copied>>,
    /// Where only the first rows of an order are wanted: others may be missing.
    top: Option<Top>,
    /// Whether the session asks that the device runs it: no short plan takes its place.
    is_asked_for: bool,
    compiled: Compilation,
    found: PerExecution<MadeOnce<Option<Found>>>,
    device: PerExecution<Timed>,
    host: PerExecution<Timed>,
    ran: Arc<Mutex<Option<Ran>>>,
    nodes: Arc<Mutex<Vec<NodeRan>>>,
    metrics: ExecutionPlanMetricsSet,
}

#[derive(Debug)]
struct Copied {
    make: MakeCopy,
    made: OnceLock<Arc<dyn ExecutionPlan>>,
}

impl Copied {
    fn get(&self, input: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(made) = self.made.get() {
            return Ok(Arc::clone(made));
        }
        let made = (self.make)(input)?;
        // Who comes later takes the first one's: all partitions run one plan.
        Ok(Arc::clone(self.made.get_or_init(|| made)))
    }
}

/// The input as a fragment, once it was one.
#[derive(Default)]
struct Compilation(Arc<Kept>);

impl fmt::Debug for Compilation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Compilation")
    }
}

/// Which of so many rows a partition gives: the first has all of few, whose nodes above are mostly a sort of them.
fn share(rows: usize, batch_rows: usize, partition: usize, partitions: usize) -> Range<usize> {
    let sharing = partitions.min(rows.div_ceil(batch_rows)).max(1);
    match partition {
        partition if partition >= sharing => rows..rows,
        partition => rows * partition / sharing..rows * (partition + 1) / sharing,
    }
}

/// How long a run takes until all rows are taken, on the device or on the CPU.
#[derive(Default)]
struct Timed {
    begun: OnceLock<Instant>,
    ended: AtomicUsize,
    failed: AtomicBool,
}

impl Timed {
    /// The run begins, if it has not.
    fn begin(&self) -> Instant {
        *self.begun.get_or_init(Instant::now)
    }

    /// The rows of one of so many partitions. Once all have ended the time is noted: what is given up tells nothing.
    fn timed(
        self: Arc<Self>,
        rows: SendableRecordBatchStream,
        partitions: usize,
        note: impl Fn(Duration) + Send + 'static,
    ) -> SendableRecordBatchStream {
        let begun = self.begin();
        let (schema, own) = (rows.schema(), Arc::clone(&self));
        let rows = rows.inspect_err(move |_| own.failed.store(true, Ordering::Relaxed));
        let end = futures::stream::poll_fn(move |_| {
            let last = self.ended.fetch_add(1, Ordering::Relaxed) + 1 == partitions;
            if last && !self.failed.load(Ordering::Relaxed) {
                note(begun.elapsed());
            }
            Poll::Ready(None)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows.chain(end)))
    }
}

/// The rows that came from the device.
#[derive(Debug)]
struct Found {
    batch: RecordBatch,
    _reservation: MemoryReservation,
    /// Whether the same takes as long again.
    again: Option<Again>,
}

impl OffloadExec {
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            copied: None,
            top: None,
            is_asked_for: false,
            compiled: Compilation::default(),
            found: PerExecution::default(),
            device: PerExecution::default(),
            host: PerExecution::default(),
            ran: Arc::default(),
            nodes: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The node for another run, with the code that was or will be made for this one. The device only reads what the plan
    /// says, so the input is not copied before the CPU is to run it.
    pub fn for_another_run(&self, make: MakeCopy) -> Self {
        Self {
            copied: Some(Arc::new(Copied {
                make,
                made: OnceLock::new(),
            })),
            top: self.top.clone(),
            is_asked_for: self.is_asked_for,
            compiled: Compilation(Arc::clone(&self.compiled.0)),
            ..Self::new(Arc::clone(self.input()))
        }
    }

    /// The same, of which a sort above takes these.
    pub fn with_top(self, top: Top) -> Self {
        Self { top: Some(top), ..self }
    }

    /// The same, where the session may ask that the device runs it.
    pub fn asked_for(self, is_asked_for: bool) -> Self {
        Self { is_asked_for, ..self }
    }

    pub fn is_asked_for(&self) -> bool {
        self.is_asked_for
    }

    /// What runs, or ran, on the CPU; before that what it is a copy of.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        let copied = self.copied.as_ref().and_then(|copied| copied.made.get());
        copied.unwrap_or(&self.input)
    }

    /// Where only the first rows of an order are wanted.
    pub fn top(&self) -> Option<&Top> {
        self.top.as_ref()
    }

    /// Where it last ran.
    pub fn ran(&self) -> Option<Ran> {
        self.ran.lock().clone()
    }

    /// What its nodes did on the device, where that was asked for.
    pub fn nodes(&self) -> Vec<NodeRan> {
        self.nodes.lock().clone()
    }
}

impl DisplayAs for OffloadExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "OffloadExec")
    }
}

impl ExecutionPlan for OffloadExec {
    fn name(&self) -> &str {
        "OffloadExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.input()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("OffloadExec has one input");
        };
        let copied = self.copied.as_ref().filter(|copied| copied.made.get().is_none());
        let copied = copied.map(|copied| Copied {
            make: copied.make,
            made: OnceLock::new(),
        });
        Ok(Arc::new(Self {
            copied: copied.map(Arc::new),
            top: self.top.clone(),
            is_asked_for: self.is_asked_for,
            ..Self::new(input)
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let shared = self.found.get_or_make(&context, MadeOnce::default);
        let device = self.device.get_or_make(&context, Timed::default);
        let host = self.host.get_or_make(&context, Timed::default);
        let (input, top, kept) = (Arc::clone(&self.input), self.top.clone(), Arc::clone(&self.compiled.0));
        let copied = self.copied.clone();
        let report = Report {
            ran: Arc::clone(&self.ran),
            nodes: Arc::clone(&self.nodes),
            metrics: self.metrics.clone(),
            partition,
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        // Larger than other batches: a sort of one batch merges nothing.
        let batch_rows = context.session_config().batch_size().max(1) * BATCHES_AT_ONCE;
        let own_partitions = self.properties().output_partitioning().partition_count();
        // Rows of equal keys stay together where they are promised to.
        let partitions = match self.properties().output_partitioning() {
            Partitioning::Hash(..) => 1,
            other => other.partition_count(),
        };
        let output = async move {
            let found = shared
                .get_or_make(async {
                    device.begin();
                    let found = rows(&input, top.as_ref(), &kept, &context, &report).await?;
                    Ok(found.map(|((batch, _reservation), again)| Found {
                        batch,
                        _reservation,
                        again,
                    }))
                })
                .await?;
            let Some(found) = found else {
                let input = match copied {
                    Some(copied) => copied.get(&input)?,
                    None => input,
                };
                let rows = input.execute(partition, context)?;
                let partitions = input.output_partitioning().partition_count();
                return Ok::<_, DataFusionError>(host.timed(rows, partitions, move |took| kept.note_host(took)));
            };
            let own = share(found.batch.num_rows(), batch_rows, partition, partitions);
            let batch = found.batch.slice(own.start, own.len());
            metrics.record_output(batch.num_rows());
            metrics.done();
            let starts = (0..batch.num_rows()).step_by(batch_rows);
            let slices: Vec<_> = starts
                .map(|start| Ok(batch.slice(start, batch_rows.min(batch.num_rows() - start))))
                .collect();
            let slices = futures::stream::iter(slices);
            let rows = Box::pin(RecordBatchStreamAdapter::new(batch.schema(), slices));
            let all = own_partitions;
            let again = found.again;
            Ok(device.timed(rows, all, move |took| {
                if let Some(again) = again {
                    kept.note_device(again, took);
                }
            }))
        };
        let output = futures::stream::once(output).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), output)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("OffloadExec has one input"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn each_row_is_given_once() {
        for (rows, batch_rows, partitions) in [(0, 8, 4), (5, 8, 4), (9, 8, 4), (100, 8, 4), (100, 8, 1), (7, 1, 16)] {
            let shares = (0..partitions).map(|partition| share(rows, batch_rows, partition, partitions));
            let given: Vec<usize> = shares.flatten().collect();
            assert_eq!(given, (0..rows).collect::<Vec<_>>(), "{rows} rows of {partitions}");
        }
        assert_eq!(share(5, 8, 0, 4), 0..5, "few rows stay together");
        assert_eq!(share(32, 8, 3, 4), 24..32);
    }
}
