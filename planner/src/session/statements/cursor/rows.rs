//! The rows of a cursor, and its place among them: before the first (0), on a row (from 1), or after the last.

use crate::pg::error::{Result, SqlError, state};
use crate::pg::errors::{from_arrow, from_datafusion};
use crate::pg::outcome::BatchStream;
use crate::pg::parse::cursor::Direction;
use crate::session::run::{self, ExecutionContext};
use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::LogicalPlan;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Bytes of rows that a cursor keeps for going backwards although it was not declared with SCROLL.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Whether a cursor goes backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scroll {
    Never,
    /// While the rows that it has passed are few: SCROLL was not asked for.
    WhileSmall,
    Always,
}

pub(crate) struct CursorRows {
    /// In a lock because a session is shared between threads while a statement runs, and streams are not.
    stream: Mutex<BatchStream>,
    scroll: Scroll,
    /// Rows read from the stream and kept, the first of them row number `first`.
    kept: Vec<RecordBatch>,
    first: u64,
    /// Counts what is kept.
    memory: MemoryReservation,
    /// Rows read from the stream.
    read: u64,
    is_at_end: bool,
    position: u64,
    /// It cannot be read any more.
    failed: bool,
    /// How to begin again, row by row.
    carefully: Option<Carefully>,
}

/// What a cursor reads. Many rows are computed at a time, and one that cannot be fails its neighbours, for which nobody may ask
/// together with it.
pub(super) struct Carefully {
    pub run: ExecutionContext,
    pub plan: LogicalPlan,
}

impl CursorRows {
    pub(super) fn new(
        stream: BatchStream,
        scroll: Scroll,
        memory: MemoryReservation,
        carefully: Option<Carefully>,
    ) -> Self {
        Self {
            failed: false,
            carefully,
            stream: Mutex::new(stream),
            scroll,
            kept: Vec::new(),
            first: 1,
            memory,
            read: 0,
            is_at_end: false,
            position: 0,
        }
    }

    /// Whether it can go backwards.
    pub(crate) fn goes_back(&self) -> bool {
        self.scroll != Scroll::Never
    }

    /// Moves, and gives the rows met.
    pub(super) async fn go(
        &mut self,
        name: &str,
        direction: Direction,
        cancel: &CancellationToken,
    ) -> Result<Vec<RecordBatch>> {
        if self.failed {
            let message = format!("portal \"{name}\" cannot be run");
            return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let met = self.met(direction, cancel).await;
        self.failed = met.is_err();
        met
    }

    async fn met(&mut self, direction: Direction, cancel: &CancellationToken) -> Result<Vec<RecordBatch>> {
        match direction {
            Direction::Forward(Some(0)) | Direction::Backward(Some(0)) | Direction::Relative(0) => self.again(),
            Direction::Forward(Some(count)) if count < 0 => self.backward(Some(count.unsigned_abs())),
            Direction::Backward(Some(count)) if count < 0 => self.forward(Some(count.unsigned_abs()), cancel).await,
            Direction::Forward(count) => self.forward(count.map(i64::unsigned_abs), cancel).await,
            Direction::Backward(count) => self.backward(count.map(i64::unsigned_abs)),
            Direction::Absolute(0) => {
                self.rewind()?;
                Ok(Vec::new())
            }
            Direction::Absolute(at) if at > 0 => {
                let at = at.unsigned_abs();
                if at <= self.position {
                    self.check_backward()?;
                    self.position = at - 1;
                } else {
                    self.forward(Some(at - 1 - self.position), cancel).await?;
                }
                self.forward(Some(1), cancel).await
            }
            Direction::Absolute(at) => {
                self.forward(None, cancel).await?;
                if at < -1 {
                    self.backward(Some(at.unsigned_abs() - 1))?;
                }
                self.backward(Some(1))
            }
            Direction::Relative(by) if by > 0 => {
                if by > 1 {
                    self.forward(Some(by.unsigned_abs() - 1), cancel).await?;
                }
                self.forward(Some(1), cancel).await
            }
            Direction::Relative(by) => {
                if by < -1 {
                    self.backward(Some(by.unsigned_abs() - 1))?;
                }
                self.backward(Some(1))
            }
        }
    }

    fn rewind(&mut self) -> Result<()> {
        if self.position > 0 {
            self.check_backward()?;
        }
        self.position = 0;
        Ok(())
    }

    /// The row that the cursor is on.
    fn again(&mut self) -> Result<Vec<RecordBatch>> {
        if self.position == 0 || self.is_after_last() {
            return Ok(Vec::new());
        }
        self.check_backward()?;
        self.slices(self.position, self.position)
    }

    fn is_after_last(&self) -> bool {
        self.is_at_end && self.position > self.read
    }

    async fn forward(&mut self, count: Option<u64>, cancel: &CancellationToken) -> Result<Vec<RecordBatch>> {
        if count == Some(0) || self.is_after_last() {
            return Ok(Vec::new());
        }
        let from = self.position + 1;
        let wanted = count.map_or(u64::MAX, |count| self.position.saturating_add(count));
        let mut passed = Vec::new();
        let mut next = from;
        loop {
            let until = wanted.min(self.read);
            if next <= until {
                passed.extend(self.slices(next, until)?);
                next = until + 1;
                self.forget(until);
            }
            if next > wanted || !self.read_more(cancel).await? {
                break;
            }
        }
        // Asked for more than there is: after the last row.
        self.position = if next > wanted { wanted } else { self.read + 1 };
        Ok(passed)
    }

    fn backward(&mut self, count: Option<u64>) -> Result<Vec<RecordBatch>> {
        self.check_backward()?;
        let last = self.position.saturating_sub(1).min(self.read);
        let until = count.map_or(1, |count| self.position.saturating_sub(count).max(1));
        let reached = count.is_some_and(|count| self.position > count);
        let rows = if until <= last {
            self.slices(until, last)?
        } else {
            Vec::new()
        };
        self.position = match count {
            Some(count) if reached => self.position - count,
            _ => 0,
        };
        let backwards = rows.into_iter().rev().map(|batch| {
            let order: UInt32Array = (0..batch.num_rows() as u32).rev().collect();
            take_record_batch(&batch, &order).map_err(|error| from_arrow(&error))
        });
        backwards.collect()
    }

    fn check_backward(&self) -> Result<()> {
        if self.scroll != Scroll::Never && self.first == 1 {
            return Ok(());
        }
        let message = "cursor can only scan forward";
        Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .hint("Declare it with SCROLL option to enable backward scan."))
    }

    /// Rows by their numbers, all of which are kept.
    fn slices(&self, from: u64, until: u64) -> Result<Vec<RecordBatch>> {
        let mut out = Vec::new();
        let mut at = self.first;
        for batch in &self.kept {
            let end = at + batch.num_rows() as u64;
            let (first, last) = (from.max(at), (until + 1).min(end));
            if first < last {
                out.push(batch.slice((first - at) as usize, (last - first) as usize));
            }
            at = end;
        }
        Ok(out)
    }

    /// Takes a batch from the query; false at its end.
    async fn read_more(&mut self, cancel: &CancellationToken) -> Result<bool> {
        if self.is_at_end {
            return Ok(false);
        }
        let next = loop {
            let next = tokio::select! {
                next = self.stream.get_mut().next() => next,
                _ = cancel.cancelled() => return Err(crate::pg::error::canceled()),
            };
            match (next, self.carefully.take().filter(|_| self.read == 0)) {
                (Some(Err(error)), Some(again)) if is_of_values(&error) => {
                    self.stream = Mutex::new(run::start(&again.run.row_by_row(), again.plan).await?);
                }
                (next, _) => break next.transpose()?,
            }
        };
        let Some(batch) = next else {
            self.is_at_end = true;
            return Ok(false);
        };
        self.read += batch.num_rows() as u64;
        if self.scroll == Scroll::Always {
            self.memory
                .try_grow(batch.get_array_memory_size())
                .map_err(|error| from_datafusion(&error))?;
        }
        self.kept.push(batch);
        Ok(true)
    }

    /// Lets go of rows up to this one where nobody will ask for them again.
    fn forget(&mut self, until: u64) {
        let bytes = || self.kept.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        match self.scroll {
            Scroll::Always => return,
            Scroll::WhileSmall if self.first == 1 && bytes() <= KEPT_BYTES_MAX => return,
            Scroll::WhileSmall | Scroll::Never => {}
        }
        while let Some(batch) = self.kept.first() {
            let rows = batch.num_rows() as u64;
            if self.first + rows > until + 1 {
                break;
            }
            self.first += rows;
            self.kept.remove(0);
        }
    }
}

/// Whether an error is that of a row: a data exception, or that of a cast.
fn is_of_values(error: &SqlError) -> bool {
    error.state.0.starts_with("22")
}
