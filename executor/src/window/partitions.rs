//! The rows of the partition at hand, in memory or in a file.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{SortColumn, concat};
use arrow::datatypes::SchemaRef;
use datafusion::common::utils::evaluate_partition_ranges;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::spill::spill_pool::{SpillPoolSink, spsc_channel};
use datafusion::physical_plan::{SendableRecordBatchStream, SpillManager, WindowExpr};
use futures::TryStreamExt;

use super::constant::{Gathered, repeated};
use super::sliding::{Extents, Slide};
use crate::gather;
use crate::memory_size::{batch_bytes, compacted};
use crate::test_hooks;

/// A file's bytes, from which on there is another: read files go.
const FILE_BYTES: usize = 64 << 20;

/// What a row's value of a function takes while it is computed, bytes.
const VALUE_BYTES: usize = size_of::<ScalarValue>();

/// An input in the order of its partitions, on its way through window functions.
pub(super) struct Windows {
    /// None at its end.
    input: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    exprs: Vec<Arc<dyn WindowExpr>>,
    keys: Vec<PhysicalSortExpr>,
    /// For the rows that are held.
    reservation: MemoryReservation,
    /// Where rows wait that do not fit.
    files: Option<Arc<SpillManager>>,
    /// Where frames move: on which rows the functions depend.
    extents: Option<Vec<Arc<dyn Extents>>>,
    metrics: BaselineMetrics,
    batch_rows: usize,
    /// Whether each function gives its partition one value; and what they have seen of the partition at hand.
    is_constant: bool,
    gathered: Option<Gathered>,
    /// Rows of the partition that may go on, those in files first.
    waiting: Option<(SpillPoolSink, SendableRecordBatchStream)>,
    held: Vec<RecordBatch>,
    /// The first rows of these, which have gone on and are needed for others.
    given: usize,
    /// The keys of the last row seen.
    last: Option<Vec<ArrayRef>>,
    /// What is computed: rows with their partition's values, and batches.
    reread: Option<(SendableRecordBatchStream, Vec<ScalarValue>)>,
    ready: VecDeque<RecordBatch>,
    /// For what is ready.
    kept: Vec<MemoryReservation>,
}

impl Windows {
    pub fn new(
        (input, schema): (SendableRecordBatchStream, SchemaRef),
        (exprs, keys, is_constant): (Vec<Arc<dyn WindowExpr>>, Vec<PhysicalSortExpr>, bool),
        (reservation, files): (MemoryReservation, Option<Arc<SpillManager>>),
        metrics: BaselineMetrics,
        batch_rows: usize,
    ) -> Self {
        Self {
            input: Some(input),
            schema,
            exprs,
            keys,
            kept: Vec::new(),
            reservation,
            files,
            extents: None,
            metrics,
            batch_rows: batch_rows.max(1),
            is_constant,
            gathered: None,
            waiting: None,
            held: Vec::new(),
            given: 0,
            last: None,
            reread: None,
            ready: VecDeque::new(),
        }
    }

    /// The same, where each function's values depend on these rows.
    pub fn sliding(mut self, extents: Option<Vec<Arc<dyn Extents>>>) -> Self {
        self.extents = extents;
        self
    }

    /// The next rows with their functions' values.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((rows, values)) = &mut self.reread {
                if let Some(batch) = rows.try_next().await? {
                    let values = repeated(values, batch.num_rows())?;
                    self.metrics.record_output(batch.num_rows());
                    return self.with_values(&batch, values).map(Some);
                }
                self.reread = None;
            }
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            self.kept.clear();
            let Some(input) = &mut self.input else { return Ok(None) };
            let next = input.try_next().await?;
            let elapsed = self.metrics.elapsed_compute().clone();
            let _timer = elapsed.timer();
            match next {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => self.take(&batch)?,
                None => {
                    // What is below may give its memory back.
                    self.input = None;
                    self.complete()?;
                }
            }
        }
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = self.sort_keys(batch)?;
        let ranges = evaluate_partition_ranges(batch.num_rows(), &keys)?;
        let row = |at: usize| -> Vec<ArrayRef> { keys.iter().map(|key| key.values.slice(at, 1)).collect() };
        // All partitions but the last are complete.
        let rest = ranges.last().map_or(0, |range| range.start);
        let mut done = 0;
        match self.continues(&row(0))? {
            false => self.complete()?,
            true if rest > 0 => {
                done = ranges[0].end;
                self.hold(batch.slice(0, done))?;
                self.complete()?;
            }
            true => {}
        }
        if rest > done {
            self.evaluate(&batch.slice(done, rest - done), 0..rest - done)?;
        }
        self.last = Some(row(batch.num_rows() - 1));
        self.hold(batch.slice(rest, batch.num_rows() - rest))
    }

    fn sort_keys(&self, batch: &RecordBatch) -> Result<Vec<SortColumn>> {
        self.keys.iter().map(|key| key.evaluate_to_sort_column(batch)).collect()
    }

    /// Whether a row is of the partition at hand.
    fn continues(&self, row: &[ArrayRef]) -> Result<bool> {
        let Some(last) = &self.last else { return Ok(true) };
        let pairs = last.iter().zip(row).zip(&self.keys);
        let pairs = pairs.map(|((last, row), key)| {
            Ok(SortColumn {
                values: concat(&[last.as_ref(), row.as_ref()])?,
                options: Some(key.options),
            })
        });
        let ranges = evaluate_partition_ranges(2, &pairs.collect::<Result<Vec<_>>>()?)?;
        Ok(ranges.len() == 1)
    }

    /// Keeps rows of the partition at hand.
    fn hold(&mut self, rows: RecordBatch) -> Result<()> {
        if self.extents.is_some() && test_hooks::through_files() && rows.num_rows() > 1 {
            return (0..rows.num_rows()).try_for_each(|row| self.hold(rows.slice(row, 1)));
        }
        let mut bytes = self.cost(&rows);
        if self.is_constant {
            let gathered = match &mut self.gathered {
                Some(gathered) => gathered,
                none => none.insert(Gathered::new(&self.exprs)?),
            };
            let before = gathered.bytes();
            gathered.update(&rows)?;
            bytes += gathered.bytes().saturating_sub(before);
        }
        if self.waiting.is_none() {
            match self.reservation.try_grow(bytes) {
                Err(error) if self.extents.is_none() => self.let_wait(error)?,
                fits => {
                    self.held.push(rows);
                    let slid = (fits.is_err() || test_hooks::through_files()) && self.slide()?;
                    return if slid { Ok(()) } else { fits };
                }
            }
        }
        if let (Some((sink, _)), Some(gathered)) = (&self.waiting, &self.gathered) {
            self.reservation.try_resize(gathered.bytes())?;
            sink.push_batch(&rows)?;
        }
        Ok(())
    }

    /// What rows take while they are held.
    fn cost(&self, rows: &RecordBatch) -> usize {
        match self.is_constant {
            true => batch_bytes(rows),
            // They are put together, and each has its values.
            false => 2 * batch_bytes(rows) + rows.num_rows() * self.exprs.len() * VALUE_BYTES,
        }
    }

    /// Lets those of the held rows go on whose values are known, and keeps what others need. Says whether that helps.
    fn slide(&mut self) -> Result<bool> {
        let (Some(extents), Some(batch)) = (&self.extents, gather::concat_batches(&self.held)?) else {
            return Ok(false);
        };
        let slide = Slide::of(extents, &batch, self.given)?;
        self.held = vec![batch.clone()];
        let Some(Slide { waits, from }) = slide else {
            return Ok(false);
        };
        let rest = batch.slice(from, batch.num_rows() - from);
        let columns = rest.columns().iter().map(compacted).collect::<Result<_>>()?;
        let rest = RecordBatch::try_new(rest.schema(), columns)?;
        // Where frames are so long that little goes, rows would be worked on again and again.
        let (held, needed) = (self.reservation.size(), self.cost(&rest));
        if needed > held / 2 && !test_hooks::through_files() {
            return Ok(false);
        }
        self.held = vec![rest];
        self.evaluate(&batch, self.given..waits)?;
        self.kept.push(self.reservation.split(held.saturating_sub(needed)));
        self.given = waits - from;
        Ok(true)
    }

    /// Puts what is held into a file.
    fn let_wait(&mut self, error: DataFusionError) -> Result<()> {
        let Some(files) = &self.files else { return Err(error) };
        let (sink, rows) = spsc_channel(FILE_BYTES, Arc::clone(files));
        for batch in self.held.drain(..) {
            sink.push_batch(&batch)?;
        }
        self.reservation.free();
        self.waiting = Some((sink, rows));
        Ok(())
    }

    /// The partition at hand has come to its end.
    fn complete(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        self.kept.push(self.reservation.take());
        if let Some(gathered) = self.gathered.take() {
            let values = gathered.values()?;
            if let Some((sink, rows)) = self.waiting.take() {
                drop(sink);
                self.reread = Some((rows, values));
                return Ok(());
            }
            for batch in held {
                let values = repeated(&values, batch.num_rows())?;
                let given = self.with_values(&batch, values)?;
                self.ready.push_back(given);
            }
            return Ok(());
        }
        let Some(batch) = gather::concat_batches(&held)? else {
            return Ok(());
        };
        drop(held);
        let given = std::mem::take(&mut self.given);
        self.evaluate(&batch, given..batch.num_rows())
    }

    /// Computes the functions over whole partitions, and gives these of the rows.
    fn evaluate(&mut self, batch: &RecordBatch, wanted: Range<usize>) -> Result<()> {
        let ranges = evaluate_partition_ranges(batch.num_rows(), &self.sort_keys(batch)?)?;
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(ranges.len()); self.exprs.len()];
        for range in ranges {
            let partition = batch.slice(range.start, range.len());
            for (expr, column) in self.exprs.iter().zip(&mut columns) {
                column.push(expr.evaluate(&partition)?);
            }
        }
        let columns = columns.iter().zip(&self.exprs);
        let columns = columns.map(|(pieces, expr)| gather::concat(pieces, || Ok(expr.field()?.data_type().clone())));
        let given = self.with_values(batch, columns.collect::<Result<_>>()?)?;
        for start in wanted.clone().step_by(self.batch_rows) {
            let rows = self.batch_rows.min(wanted.end - start);
            self.ready.push_back(given.slice(start, rows));
        }
        Ok(())
    }

    /// Rows beside their functions' values.
    fn with_values(&self, batch: &RecordBatch, values: Vec<ArrayRef>) -> Result<RecordBatch> {
        let columns = batch.columns().iter().cloned().chain(values).collect();
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
