//! A partition's thread: it sinks pairs that the device finds, then those of ranges of the CPU's work, until none is left
//! or nobody waits for its batches; then it gives the rest of its pairs (combine), and the last thread the rows that come
//! out by their marks (finalize).

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use tenon_cpu::join::PAIRS_MAX;
use tenon_storage::heap;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::checks::Checks;
use super::chunks::Next;
use super::join::MaterializedJoin;
use super::pass::Pass;
use super::sink::Sink;

/// Batches that may wait for the consumer.
const BATCHES_AHEAD: usize = 2;

/// The consumer's end of a working thread.
pub struct Worker {
    batches: Receiver<Result<RecordBatch>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// The next batch; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.batches.recv().await {
            return batch.map(Some);
        }
        match self.thread.take() {
            Some(thread) => match thread.await {
                Ok(()) => Ok(None),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(error) => exec_err!("a join was cut off: {error}"),
            },
            None => Ok(None),
        }
    }
}

/// What threads count and time.
#[derive(Clone)]
struct Metrics {
    match_time: Time,
    residual_time: Time,
    output_time: Time,
    candidates: Count,
}

impl Metrics {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let time = |name| MetricBuilder::new(metrics).subset_time(name, partition);
        Self {
            match_time: time("match_time"),
            residual_time: time("residual_time"),
            output_time: time("output_time"),
            candidates: MetricBuilder::new(metrics).counter("candidate_pairs", partition),
        }
    }
}

/// Starts a thread on the join. It ends soon after its worker is dropped.
pub fn spawn(join: Arc<MaterializedJoin>, metrics: &ExecutionPlanMetricsSet, partition: usize) -> Worker {
    let (sender, batches) = channel(BATCHES_AHEAD);
    let metrics = Metrics::new(metrics, partition);
    let thread = tokio::task::spawn_blocking(heap::carry(move || {
        if let Err(error) = work(&join, &sender, &metrics) {
            // Nobody listens: the query is over.
            let _ = sender.blocking_send(Err(error));
        }
    }));
    Worker {
        batches,
        thread: Some(thread),
    }
}

fn work(join: &MaterializedJoin, out: &Sender<Result<RecordBatch>>, metrics: &Metrics) -> Result<()> {
    let mut sink = Sink::new(join);
    let begin = Instant::now();
    let mut goes_on = from_device(join, &mut sink, out)?;
    while goes_on && let Some(batch) = join.take_counted()? {
        goes_on = send(out, batch, &mut sink);
    }
    while goes_on && let Some((pass, positions)) = join.take() {
        goes_on = range(pass, positions, &mut sink, out)?;
    }
    if goes_on && let Some(batch) = sink.combine()? {
        goes_on = send(out, batch, &mut sink);
    }
    let inside = sink.residual_time + sink.output_time + sink.waited;
    metrics.match_time.add_duration(begin.elapsed().saturating_sub(inside));
    metrics.residual_time.add_duration(sink.residual_time);
    metrics.candidates.add(sink.candidates);
    // Whoever comes last finalizes the join: all marks are set by then.
    let last = join.working.fetch_sub(1, Ordering::AcqRel) == 1;
    let begin = Instant::now();
    if goes_on && last {
        for (of_build, rows) in join.unmatched_ranges() {
            let sent = match join.finalize(of_build, rows)? {
                Some(batch) => out.blocking_send(Ok(batch)).is_ok(),
                None => !out.is_closed(),
            };
            if !sent {
                break;
            }
        }
        sink.output_time += begin.elapsed();
    }
    metrics.output_time.add_duration(sink.output_time);
    Ok(())
}

/// Hands a batch over, waiting for room; says whether anybody is there to take it.
fn send(out: &Sender<Result<RecordBatch>>, batch: RecordBatch, sink: &mut Sink<'_>) -> bool {
    let begin = Instant::now();
    let sent = out.blocking_send(Ok(batch)).is_ok();
    sink.waited += begin.elapsed();
    sent
}

/// Sinks the device's pairs to their end; says whether to go on.
fn from_device(join: &MaterializedJoin, sink: &mut Sink<'_>, out: &Sender<Result<RecordBatch>>) -> Result<bool> {
    loop {
        let begin = Instant::now();
        let next = join.chunks.next()?;
        sink.waited += begin.elapsed();
        let goes_on = match next {
            Next::End => return Ok(!out.is_closed()),
            Next::Pairs(chunk, pairs) => {
                let (build, probe) = (&chunk.build[pairs.clone()], &chunk.probe[pairs]);
                let mut goes_on = true;
                for (build, probe) in build.chunks(PAIRS_MAX).zip(probe.chunks(PAIRS_MAX)) {
                    goes_on = goes_on && sink_pairs(&chunk.checks, build, probe, sink, out)?;
                }
                goes_on
            }
            // What there is need not wait for what is to come.
            Next::Nothing => match sink.combine()? {
                Some(batch) => send(out, batch, sink),
                None => !out.is_closed(),
            },
        };
        if !goes_on {
            return Ok(false);
        }
    }
}

/// Sinks an operator's pairs; says whether to go on.
fn sink_pairs(
    checks: &Checks,
    build: &[u32],
    probe: &[u32],
    sink: &mut Sink<'_>,
    out: &Sender<Result<RecordBatch>>,
) -> Result<bool> {
    let (build, probe) = checks.pairs(build, probe);
    Ok(match sink.sink(checks, &build, &probe)? {
        Some(batch) => send(out, batch, sink),
        None => !out.is_closed(),
    })
}

/// Finds the pairs of some positions; says whether to go on.
fn range(pass: &Pass, positions: Range<usize>, sink: &mut Sink<'_>, out: &Sender<Result<RecordBatch>>) -> Result<bool> {
    let mut failed: Option<DataFusionError> = None;
    let flow = pass.matcher.pairs(
        positions,
        &mut |build, probe| match sink_pairs(&pass.checks, build, probe, sink, out) {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        },
    );
    match failed {
        Some(error) => Err(error),
        None => Ok(flow.is_continue() && !out.is_closed()),
    }
}
