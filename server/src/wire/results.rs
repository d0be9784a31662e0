//! A statement's outcome to the client: rows in flushes of 64 KiB, never more than one batch at a time in memory here.

use super::aside::aside;
use super::cancel::Running;
use super::connection::Connection;
use super::failure::Step;
use super::input::Input;
use super::output::{FLUSH_BYTES, Output};
use crate::encode::Format;
use crate::encode::row::RowEncoder;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use futures::{FutureExt, StreamExt};
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tenon_planner::error::out_of_memory;
use tenon_planner::error::{Result, SqlError};
use tenon_planner::outcome::{BatchStream, ColumnDesc, RowsTag};
use tenon_storage::heap::{self, Account};
use tokio::io::{AsyncRead, AsyncWrite};

/// Rows of a result that are looked at as a whole.
const SHORT_ROWS: usize = 256;
/// A row that is longer takes a while to write, bytes.
const LONG_ROW_BYTES: usize = 1 << 20;

/// Rows on their way: a running query with what was made and not yet sent.
pub struct ResultStream {
    pub stream: BatchStream,
    /// What the query and its rows take.
    pub account: Arc<Account>,
    pub encoder: RowEncoder,
    pub tag: RowsTag,
    /// A batch and the first of its rows that was not sent.
    pub pending: Option<(RecordBatch, usize)>,
}

impl ResultStream {
    /// Sends rows until the end or until `limit` of them. Gives how many were sent and whether that was the end.
    pub async fn send<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        &mut self,
        limit: usize,
        running: &Running,
        input: &mut Input<R>,
        output: &mut Output<W>,
    ) -> Step<(usize, bool)> {
        let account = Some(self.account.clone());
        heap::within(account, false, self.send_rows(limit, running, input, output)).await
    }

    /// Passes over rows until the end or `limit` of them. Gives how many they were and whether that was the end.
    pub async fn skip<R: AsyncRead + Unpin>(
        &mut self,
        limit: usize,
        running: &Running,
        input: &mut Input<R>,
    ) -> Step<(usize, bool)> {
        let account = Some(self.account.clone());
        let skipped = async {
            let mut skipped = 0;
            while skipped < limit {
                running.check()?;
                let (batch, row) = match self.pending.take() {
                    Some(pending) => pending,
                    None => match next_batch(&mut self.stream, running, input).await? {
                        Some(batch) => (batch, 0),
                        None => return Ok((skipped, true)),
                    },
                };
                let next = batch.num_rows().min(row.saturating_add(limit - skipped));
                skipped += next - row;
                if next < batch.num_rows() {
                    self.pending = Some((batch, next));
                }
            }
            Ok((skipped, false))
        };
        heap::within(account, false, skipped).await
    }

    async fn send_rows<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        &mut self,
        limit: usize,
        running: &Running,
        input: &mut Input<R>,
        output: &mut Output<W>,
    ) -> Step<(usize, bool)> {
        let mut sent = 0;
        loop {
            running.check()?;
            let (batch, mut row) = match self.pending.take() {
                Some(pending) => pending,
                None => match next_batch(&mut self.stream, running, input).await? {
                    Some(batch) => (batch, 0),
                    None => return Ok((sent, true)),
                },
            };
            let is_long = check_room(&batch)?;
            let rows = self.encoder.bind(&batch)?;
            while row < batch.num_rows() && sent < limit {
                let end = batch.num_rows().min(row.saturating_add(limit - sent));
                let next = aside(is_long, || rows.write(row, end, FLUSH_BYTES, &mut output.buffer))?;
                sent += next - row;
                row = next;
                if output.is_full() {
                    running.check()?;
                    running.drive_until_stopped(input, output.flush()).await??;
                }
            }
            if sent == limit {
                drop(rows);
                if row < batch.num_rows() {
                    self.pending = Some((batch, row));
                }
                return Ok((sent, false));
            }
        }
    }
}

/// A row is written whole: there must be memory for it where its values are large. Says whether it may take long.
fn check_room(batch: &RecordBatch) -> Result<bool> {
    let bytes = batch.get_array_memory_size() / batch.num_rows().max(1);
    if bytes > FLUSH_BYTES && !heap::ask(2 * bytes) {
        return Err(out_of_memory());
    }
    Ok(bytes > LONG_ROW_BYTES)
}

/// The rows that a command tag tells of.
pub fn rows_of(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|last| last.parse().ok()).unwrap_or(0)
}

/// The rows of a result that count as such: those of EXPLAIN and SHOW are none.
pub fn counted(tag: &RowsTag, sent: usize) -> u64 {
    match tag {
        RowsTag::Counted(_) => sent as u64,
        RowsTag::Plain(_) => 0,
    }
}

/// The command tag after `sent` rows.
pub fn tag_of(tag: &RowsTag, sent: usize) -> String {
    match tag {
        RowsTag::Counted(word) => format!("{word} {sent}"),
        RowsTag::Plain(word) => (*word).to_owned(),
    }
}

/// The stream's next batch; a stop, an error or a panic ends it.
pub async fn next_batch<R: AsyncRead + Unpin>(
    stream: &mut BatchStream,
    running: &Running,
    input: &mut Input<R>,
) -> Result<Option<RecordBatch>> {
    let next = AssertUnwindSafe(stream.next()).catch_unwind();
    match running.drive_until_stopped(input, next).await? {
        Ok(batch) => batch.transpose().map_err(|e| running.explain(e)),
        Err(panic) => Err(panicked(&*panic)),
    }
}

/// Runs a session's work to its end: what the statement does to the session must not be cut off in the middle, so a
/// stop only asks it to hurry. A panic ends the statement alone.
pub async fn run<R: AsyncRead + Unpin, T>(
    running: &Running,
    input: &mut Input<R>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    match running.drive(input, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(result) => result.map_err(|e| running.explain(e)),
        Err(panic) => Err(panicked(&*panic)),
    }
}

/// Rows that a session has at once, in the client's buffer. None: the statement is to be executed. A panic ends the statement
/// alone.
pub fn answered<T>(work: impl FnOnce() -> Option<Result<T>>) -> Option<Result<T>> {
    match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(answer) => answer,
        Err(panic) => Some(Err(panicked(&*panic))),
    }
}

/// Whether rows are so few and short that they are encoded without a look at the client and the time.
fn are_short(batches: &[RecordBatch]) -> bool {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let columns = || batches.iter().flat_map(RecordBatch::columns);
    rows <= SHORT_ROWS && columns().map(varying_bytes).sum::<usize>() <= FLUSH_BYTES
}

/// What an array has beside values of a fixed width.
fn varying_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => array.as_binary_view().total_buffer_bytes_used(),
        DataType::Boolean => 0,
        other if other.primitive_width().is_some() => 0,
        _ => array.get_array_memory_size(),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> SqlError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    SqlError::internal("the statement failed by an internal error").detail(text)
}

impl Connection {
    /// Sends the rows that a session had at once, and their command tag. Gives that and how many they were.
    pub(super) async fn send_answer(
        &mut self,
        columns: &[ColumnDesc],
        formats: &[Format],
        batches: Vec<RecordBatch>,
    ) -> Step<(RowsTag, u64)> {
        let encoder = RowEncoder::new(columns, formats, self.style());
        let tag = RowsTag::Counted("SELECT");
        if !are_short(&batches) {
            let (running, _entered) = self.begin_statement();
            let rows = ResultStream {
                stream: futures::stream::iter(batches.into_iter().map(Ok)).boxed(),
                account: self.session.account().clone(),
                encoder,
                tag,
                pending: None,
            };
            let sent = self.send_all(rows, &running).await?;
            return Ok((tag, sent));
        }
        let mut sent = 0;
        for batch in &batches {
            let rows = encoder.bind(batch)?;
            sent += rows.write(0, batch.num_rows(), usize::MAX, &mut self.output.buffer)?;
        }
        self.tell();
        self.output.command_complete(&tag_of(&tag, sent));
        Ok((tag, sent as u64))
    }

    /// Sends all of a result's rows and its command tag. Gives how many they were.
    pub(super) async fn send_all(&mut self, mut rows: ResultStream, running: &Running) -> Step<u64> {
        let (sent, _) = rows
            .send(usize::MAX, running, &mut self.input, &mut self.output)
            .await?;
        self.tell();
        self.output.command_complete(&tag_of(&rows.tag, sent));
        Ok(counted(&rows.tag, sent))
    }
}
