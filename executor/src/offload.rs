//! Work over all rows of an input on a thread of its own.
//!
//! A query is cancelled between two polls of its futures, so no poll may take long; and work that nobody waits for any
//! more must end soon after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, exec_err, internal_err};
use tenon_cpu::Stop;
use tokio::sync::oneshot;

use crate::gpu_error::to_datafusion;

/// Rows that are worked on within a poll: a millisecond or two.
const ROWS_AT_ONCE: usize = 1 << 16;

/// Rows between two looks at whether the work is still wanted.
pub const PIECE_ROWS: usize = 1 << 18;

/// Runs work over so many rows. Its flag is set when the future is dropped.
pub async fn offload<T: Send + 'static>(
    rows: usize,
    work: impl FnOnce(&AtomicBool) -> Result<T> + Send + 'static,
) -> Result<T> {
    if rows <= ROWS_AT_ONCE {
        return work(&AtomicBool::new(false));
    }
    on_a_thread(work).await
}

/// Runs work that may take long however few rows it has.
pub async fn on_a_thread<T: Send + 'static>(work: impl FnOnce(&AtomicBool) -> Result<T> + Send + 'static) -> Result<T> {
    let (_guard, cancelled) = CancelOnDrop::new();
    let (sender, result) = oneshot::channel();
    let task = SpawnedTask::spawn_blocking(move || {
        let _ = sender.send(work(&cancelled));
    });
    Task { result, task }.join().await
}

/// A task with a result that holds memory. It ends when this is dropped.
///
/// The result does not go through the runtime: where nobody waits for it any more, the runtime gives its memory back on behalf
/// of nobody, and the query's account would never hear of it.
pub struct Task<T> {
    result: oneshot::Receiver<Result<T>>,
    task: SpawnedTask<()>,
}

impl<T: Send + 'static> Task<T> {
    pub fn spawn(work: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        let (sender, result) = oneshot::channel();
        let task = SpawnedTask::spawn(async move {
            let _ = sender.send(work.await);
        });
        Self { result, task }
    }

    /// Panics if the task did.
    pub async fn join(self) -> Result<T> {
        match (self.result.await, self.task.join_unwind().await) {
            (Ok(result), Ok(())) => result,
            (_, Err(error)) => exec_err!("a task was cut off: {error}"),
            (Err(error), Ok(())) => internal_err!("a task told nothing: {error}"),
        }
    }
}

/// Tells the work on other threads that nobody waits for it.
pub struct CancelOnDrop(Arc<AtomicBool>);

impl CancelOnDrop {
    /// With the flag that it sets.
    pub fn new() -> (Self, Arc<AtomicBool>) {
        let flag = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&flag)), flag)
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An error if the work is no longer wanted.
pub fn check(stop: Stop<'_>) -> Result<()> {
    stop.check().map_err(to_datafusion)
}
