//! One output partition of a join as it runs: from the preparation that all share to its last batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::{ExecutionPlanProperties, SendableRecordBatchStream};
use futures::TryStreamExt;

use super::listeners::Audience;
use super::materialized::{Worker, spawn};
use super::prepare::{Preparation, Prepared};
use super::probe::Prober;
use crate::per_execution::MadeOnce;

/// What the partitions of an execution share.
#[derive(Default)]
pub struct Shared {
    prepared: MadeOnce<Prepared>,
    pub audience: Audience,
}

/// One output partition under way.
///
/// ```text
/// Start --pipelined----> Probing --(last to end, and build rows are owed)--> Finishing --> End
///   |                       `--(others, or none are owed)---------------------------------> End
///   |--no probe row can come out---------------------------------------------------------> End
///   `--materialized---> Working (a worker's batches: sink, combine, finalize) -----------> End
/// ```
pub struct PartitionState {
    from: Preparation,
    shared: Arc<Shared>,
    metrics: BaselineMetrics,
    phase: Phase,
    ready: VecDeque<RecordBatch>,
}

enum Phase {
    Start,
    Probing(Prober, SendableRecordBatchStream),
    /// Build rows from this one on are still owed.
    Finishing(Prober, usize),
    Working(Worker),
    End,
}

impl PartitionState {
    pub fn new(from: Preparation, shared: Arc<Shared>, metrics: BaselineMetrics) -> Self {
        Self {
            from,
            shared,
            metrics,
            phase: Phase::Start,
            ready: VecDeque::new(),
        }
    }

    /// The next batch; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            match &mut self.phase {
                Phase::Start => self.start().await?,
                Phase::Probing(prober, _) if prober.is_under_way() => {
                    // Where it is cancelled, however many pairs a batch makes, and others get their turn.
                    tokio::task::yield_now().await;
                    let _timer = self.metrics.elapsed_compute().timer();
                    prober.go_on(&mut self.ready)?;
                }
                Phase::Probing(prober, input) => match input.try_next().await? {
                    Some(batch) => {
                        let _timer = self.metrics.elapsed_compute().timer();
                        prober.probe(&batch, &mut self.ready)?;
                    }
                    None => self.end_probing(),
                },
                Phase::Finishing(prober, from) if *from < prober.build.rows => {
                    let _timer = self.metrics.elapsed_compute().timer();
                    *from = prober.finish(*from, &mut self.ready)?;
                }
                Phase::Finishing(..) => self.phase = Phase::End,
                Phase::Working(worker) => match worker.next().await? {
                    Some(batch) => self.ready.push_back(batch),
                    None => self.phase = Phase::End,
                },
                Phase::End => return Ok(None),
            }
        }
    }

    async fn start(&mut self) -> Result<()> {
        let (from, shared) = (&self.from, Arc::clone(&self.shared));
        self.phase = match shared.prepared.get_or_make(from.prepare()).await? {
            Prepared::Materialized(join) => Phase::Working(spawn(Arc::clone(join), &from.metrics, from.partition)),
            Prepared::Pipelined(build, _) => {
                let none = build.rows == 0 && from.spec.drops_unmatched_probe_rows();
                if none || from.partition >= from.probe.output_partitioning().partition_count() {
                    Phase::End
                } else {
                    let prober = Prober::new(Arc::clone(&from.spec), Arc::clone(&from.schema), Arc::clone(build));
                    Phase::Probing(prober, from.probe.execute(from.partition, Arc::clone(&from.context))?)
                }
            }
        };
        Ok(())
    }

    /// The partition that comes last sees to the build rows: all the others' marks are set by then.
    fn end_probing(&mut self) {
        let last = match self.shared.prepared.get() {
            Some(Prepared::Pipelined(_, probing)) => probing.fetch_sub(1, Ordering::AcqRel) == 1,
            _ => false,
        };
        self.phase = match std::mem::replace(&mut self.phase, Phase::End) {
            Phase::Probing(prober, _) if last && prober.build.matches.is_some() => Phase::Finishing(prober, 0),
            _ => Phase::End,
        };
    }
}
