//! State that the partitions of one running plan share.
//!
//! A plan node may be executed many times (prepared statements keep their plan), and its partitions find each other
//! only through the task context, of which DataFusion makes one per execution. The state lives as long as that
//! context is the latest one.

use std::sync::{Arc, Weak};
use std::task::Poll;

use datafusion::common::{DataFusionError, Result, SharedResult};
use datafusion::execution::TaskContext;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// One `T` an execution, made by whichever partition comes first.
pub struct PerExecution<T> {
    current: Mutex<Option<(Weak<TaskContext>, Arc<T>)>>,
}

impl<T> Default for PerExecution<T> {
    fn default() -> Self {
        Self {
            current: Mutex::new(None),
        }
    }
}

impl<T> std::fmt::Debug for PerExecution<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PerExecution")
    }
}

impl<T> PerExecution<T> {
    /// The state of the execution that `context` belongs to. The weak reference keeps the address from being reused.
    pub fn get_or_make(&self, context: &Arc<TaskContext>, make: impl FnOnce() -> T) -> Arc<T> {
        let mut current = self.current.lock();
        if let Some((owner, state)) = current.as_ref()
            && Weak::as_ptr(owner) == Arc::as_ptr(context)
        {
            return Arc::clone(state);
        }
        let state = Arc::new(make());
        *current = Some((Arc::downgrade(context), Arc::clone(&state)));
        state
    }
}

/// A value that all partitions wait for, made by the first that asks. Its failure is the failure of them all: to make it
/// again would run the inputs a second time, which DataFusion's operators do not stand.
pub struct MadeOnce<T> {
    made: OnceCell<SharedResult<T>>,
}

impl<T> Default for MadeOnce<T> {
    fn default() -> Self {
        Self { made: OnceCell::new() }
    }
}

impl<T> MadeOnce<T> {
    /// The value, if it has been made.
    pub fn get(&self) -> Option<&T> {
        self.made.get()?.as_ref().ok()
    }

    pub async fn get_or_make(&self, make: impl Future<Output = Result<T>>) -> Result<&T> {
        let mut own = false;
        let made = self.made.get_or_init(|| {
            own = true;
            async { make.await.map_err(Arc::new) }
        });
        let made = made.await;
        if own {
            step_back().await;
        }
        made.as_ref()
            .map_err(|error| DataFusionError::Shared(Arc::clone(error)))
    }
}

/// Lets the partition that was woken last run. It waits in the slot of this thread that no other thread takes tasks from,
/// for as long as this task goes on, while this task is one that an idle thread can take. (`yield_now` would not do: it
/// brings the task back only when this thread is idle.)
async fn step_back() {
    let mut back = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut back, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    /// Partitions that all work without a pause after the value is made do so at the same time.
    #[test]
    fn partitions_go_on_side_by_side() {
        for workers in [2, 3] {
            let builder = &mut tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(workers).enable_all().build().unwrap();
            let (shared, arrived) = (Arc::new(MadeOnce::default()), Arc::new(AtomicUsize::new(0)));
            let partition = |shared: Arc<MadeOnce<()>>, arrived: Arc<AtomicUsize>| async move {
                let make = async {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Ok(())
                };
                shared.get_or_make(make).await.unwrap();
                arrived.fetch_add(1, Ordering::SeqCst);
                let begin = Instant::now();
                while arrived.load(Ordering::SeqCst) < workers && begin.elapsed() < Duration::from_secs(10) {
                    std::hint::spin_loop();
                }
                arrived.load(Ordering::SeqCst)
            };
            let tasks: Vec<_> = (0..workers)
                .map(|_| runtime.spawn(partition(Arc::clone(&shared), Arc::clone(&arrived))))
                .collect();
            for task in tasks {
                assert_eq!(runtime.block_on(task).unwrap(), workers);
            }
        }
    }
}
