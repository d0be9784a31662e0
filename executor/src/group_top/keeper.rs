//! The rows of one partition that may still be among the first of their groups.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::TryStreamExt;

use super::codes::append_codes;
use super::exec::GroupTop;
use crate::aggregate::GroupKeys;
use crate::gather;
use crate::memory_size::batch_bytes;

/// Most rows that are kept of a group: their codes are searched one by one.
pub(super) const ROWS_MAX: usize = 128;
/// Rows that wait for the end, at most, bytes: beyond it they go on. In this crate's own trials so few that it happens.
const HELD_BYTES_MAX: usize = if cfg!(test) { 4096 } else { 32 << 20 };
/// Rows after which it is asked whether enough of them are dropped; and again whenever they have doubled.
const LOOK_ROWS: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// An input on its way past the bounds of its groups.
pub(super) struct Keeper {
    input: Option<SendableRecordBatchStream>,
    top: Arc<GroupTop>,
    /// None: all rows go on.
    bounds: Option<Bounds>,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    batch_rows: usize,
    held: Vec<Held>,
    held_bytes: usize,
    /// Since the last look: rows seen, and those of them that were kept.
    seen: usize,
    kept: usize,
    look_at: usize,
    ready: VecDeque<RecordBatch>,
}

/// Rows that were among the first when they came.
struct Held {
    batch: RecordBatch,
    groups: Vec<u32>,
    codes: Vec<u64>,
}

impl Held {
    fn bytes(&self) -> usize {
        batch_bytes(&self.batch) + self.groups.len() * (size_of::<u32>() + size_of::<u64>())
    }
}

impl Keeper {
    pub fn new(
        input: SendableRecordBatchStream,
        top: Arc<GroupTop>,
        reservation: MemoryReservation,
        metrics: BaselineMetrics,
        batch_rows: usize,
    ) -> Result<Self> {
        let bounds = Bounds::new(&top, &input.schema())?;
        Ok(Self {
            input: Some(input),
            top,
            bounds: Some(bounds),
            reservation,
            metrics,
            batch_rows: batch_rows.max(1),
            held: vec![],
            held_bytes: 0,
            seen: 0,
            kept: 0,
            look_at: LOOK_ROWS,
            ready: VecDeque::new(),
        })
    }

    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            let Some(input) = &mut self.input else { return Ok(None) };
            let next = input.try_next().await?;
            let elapsed = self.metrics.elapsed_compute().clone();
            let _timer = elapsed.timer();
            match next {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => self.take(batch)?,
                None => {
                    self.input = None;
                    self.let_go()?;
                    self.bounds = None;
                    self.reservation.free();
                }
            }
        }
    }

    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        let held = match &mut self.bounds {
            None => None,
            Some(bounds) => bounds.first_of(&self.top, &batch, &self.reservation)?,
        };
        let Some(held) = held else {
            self.hand_on()?;
            self.ready.push_back(batch);
            return Ok(());
        };
        self.seen += batch.num_rows();
        self.kept += held.groups.len();
        self.held_bytes += held.bytes();
        if !held.groups.is_empty() {
            self.held.push(held);
        }
        if self.seen >= self.look_at {
            if self.kept * 4 > self.seen * 3 {
                return self.hand_on();
            }
            (self.look_at, self.seen, self.kept) = (self.look_at * 2, 0, 0);
        }
        let fits = match &self.bounds {
            Some(bounds) => self.reservation.try_resize(bounds.bytes() + self.held_bytes).is_ok(),
            None => true,
        };
        if self.held_bytes > HELD_BYTES_MAX || !fits {
            self.let_go()?;
        }
        Ok(())
    }

    /// Stops looking: rows go on as they come.
    fn hand_on(&mut self) -> Result<()> {
        if self.bounds.is_some() {
            self.let_go()?;
            self.bounds = None;
            self.reservation.free();
        }
        Ok(())
    }

    /// Those of the held rows go on that are still among the first.
    fn let_go(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        let (mut batches, mut rows) = (vec![], 0);
        for Held { batch, groups, codes } in held {
            let batch = match &self.bounds {
                Some(bounds) => filter_record_batch(&batch, &bounds.among_first(&groups, &codes))?,
                None => batch,
            };
            rows += batch.num_rows();
            batches.push(batch);
            if rows >= self.batch_rows {
                self.ready.extend(gather::concat_batches(&batches)?);
                (batches, rows) = (vec![], 0);
            }
        }
        if rows > 0 {
            self.ready.extend(gather::concat_batches(&batches)?);
        }
        Ok(())
    }
}

/// The first codes of each group.
struct Bounds {
    /// None: all rows are one group.
    keys: Option<GroupKeys>,
    rows: usize,
    /// So many for each group, of which the first `found` are there, in order.
    first: Vec<u64>,
    found: Vec<u32>,
    /// Of each group the code beyond which rows are not wanted.
    last: Vec<u64>,
    numbers: Vec<usize>,
    codes: Vec<u64>,
}

impl Bounds {
    fn new(top: &GroupTop, schema: &arrow::datatypes::Schema) -> Result<Self> {
        let types = top.keys.iter().map(|key| key.data_type(schema));
        let types = types.collect::<Result<Vec<_>>>()?;
        let mut nullable = false;
        for key in &top.keys {
            nullable |= key.nullable(schema)?;
        }
        Ok(Self {
            keys: (!types.is_empty()).then(|| GroupKeys::new(&types, nullable, false)),
            rows: top.rows,
            first: vec![],
            found: vec![],
            last: vec![],
            numbers: vec![],
            codes: vec![],
        })
    }

    fn bytes(&self) -> usize {
        self.keys.as_ref().map_or(0, GroupKeys::bytes)
            + self.first.capacity() * size_of::<u64>()
            + self.found.capacity() * size_of::<u32>()
            + self.last.capacity() * size_of::<u64>()
            + self.numbers.capacity() * size_of::<usize>()
            + self.codes.capacity() * size_of::<u64>()
    }

    /// The rows of a batch that are among the first of their groups up to its end; None where there is no memory to tell.
    fn first_of(
        &mut self,
        top: &GroupTop,
        batch: &RecordBatch,
        reservation: &MemoryReservation,
    ) -> Result<Option<Held>> {
        let rows = batch.num_rows();
        match &mut self.keys {
            None => {
                self.numbers.clear();
                self.numbers.resize(rows, 0);
            }
            Some(keys) => {
                let columns = top.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows));
                let columns = columns.collect::<Result<Vec<_>>>()?;
                if reservation.try_grow(keys.text_growth_bytes(rows)).is_err() {
                    return Ok(None);
                }
                keys.prepare(&columns, rows)?;
                if reservation.try_grow(keys.growth_bytes()).is_err() {
                    return Ok(None);
                }
                keys.assign(&mut self.numbers);
            }
        }
        let groups = self.keys.as_ref().map_or(1, GroupKeys::groups);
        // What doubles is there twice meanwhile.
        let more = groups.saturating_sub(self.found.len()) * (self.rows * size_of::<u64>() + 12);
        let doubling = if more > 0 {
            2 * (self.bytes_of_groups() + more)
        } else {
            0
        };
        if reservation.try_grow(doubling).is_err() {
            return Ok(None);
        }
        self.first.resize(groups * self.rows, 0);
        self.found.resize(groups, 0);
        self.last.resize(groups, u64::MAX);
        self.codes.clear();
        let order = top.order.expr.evaluate(batch)?.into_array(rows)?;
        append_codes(&order, top.order.options, &mut self.codes)?;
        for at in 0..rows {
            let (group, code) = (self.numbers[at], self.codes[at]);
            if code < self.last[group] || self.found[group] < self.rows as u32 {
                self.offer(group, code);
            }
        }
        let kept: BooleanArray = (0..rows)
            .map(|at| Some(self.codes[at] <= self.last[self.numbers[at]]))
            .collect();
        let wanted = |at: &usize| kept.value(*at);
        Ok(Some(Held {
            groups: (0..rows).filter(wanted).map(|at| self.numbers[at] as u32).collect(),
            codes: (0..rows).filter(wanted).map(|at| self.codes[at]).collect(),
            batch: filter_record_batch(batch, &kept)?,
        }))
    }

    fn bytes_of_groups(&self) -> usize {
        (self.first.capacity() + self.last.capacity()) * size_of::<u64>() + self.found.capacity() * size_of::<u32>()
    }

    /// Puts a code among the first of its group.
    fn offer(&mut self, group: usize, code: u64) {
        let found = &mut self.found[group];
        let first = &mut self.first[group * self.rows..][..self.rows];
        if (*found as usize) < first.len() {
            *found += 1;
        }
        // The last of them goes where there were enough.
        let mut at = *found as usize - 1;
        while at > 0 && first[at - 1] > code {
            first[at] = first[at - 1];
            at -= 1;
        }
        first[at] = code;
        if *found as usize == first.len() {
            self.last[group] = first[first.len() - 1];
        }
    }

    fn among_first(&self, groups: &[u32], codes: &[u64]) -> BooleanArray {
        let rows = groups.iter().zip(codes);
        rows.map(|(&group, &code)| Some(code <= self.last[group as usize]))
            .collect()
    }
}
