//! State that the partitions of one running plan share.
//!
//! A plan node may be executed many times (prepared statements keep their plan), and its partitions find each other
//! only through the task context, of which there is one per execution. The state lives until the execution ends or
//! the plan is executed once more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;

use datafusion::common::{DataFusionError, Result, SharedResult};
use datafusion::execution::TaskContext;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// One `T` an execution, made by whichever partition comes first.
pub struct PerExecution<T> {
    current: Arc<Current<T>>,
}

type Current<T> = Mutex<Option<(Weak<TaskContext>, Arc<T>)>>;

impl<T> Default for PerExecution<T> {
    fn default() -> Self {
        Self {
            current: Arc::default(),
        }
    }
}

impl<T> std::fmt::Debug for PerExecution<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PerExecution")
    }
}

impl<T: Send + Sync + 'static> PerExecution<T> {
    /// The state of the execution that `context` belongs to. The weak reference keeps the address from being reused.
    pub fn get_or_make(&self, context: &Arc<TaskContext>, make: impl FnOnce() -> T) -> Arc<T> {
        let mut current = self.current.lock();
        if let Some((owner, state)) = current.as_ref()
            && Weak::as_ptr(owner) == Arc::as_ptr(context)
        {
            return Arc::clone(state);
        }
        let state = Arc::new(make());
        let before = current.replace((Arc::downgrade(context), Arc::clone(&state)));
        drop(current);
        drop(before);
        if let Some(execution) = context.session_config().get_extension::<Execution>() {
            execution.note(context, &self.current);
        }
        state
    }
}

/// What one execution of a plan leaves in the plan's nodes. A session keeps its plans: what is not taken out of them (a query
/// was cancelled, or its client has seen enough) would be held until they run again.
///
/// Carried as an extension of the execution's `SessionConfig`.
#[derive(Default)]
pub struct Execution {
    states: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Execution {
    fn note<T: Send + Sync + 'static>(&self, context: &Arc<TaskContext>, current: &Arc<Current<T>>) {
        let (owner, current) = (Arc::downgrade(context), Arc::downgrade(current));
        self.states.lock().push(Box::new(move || {
            let Some(current) = current.upgrade() else { return };
            let mut current = current.lock();
            let state = current.take_if(|(latest, _)| latest.ptr_eq(&owner));
            drop(current);
            drop(state);
        }));
    }

    /// The execution has ended: its partitions have the states that they still use.
    fn end(&self) {
        let states = std::mem::take(&mut *self.states.lock());
        for forget in states {
            forget();
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends an execution when dropped, while others may still hold its context.
pub struct Ending(Arc<Execution>);

/// A context for one execution, as the given one, which others may use at the same time.
pub fn begin(context: &TaskContext) -> (Arc<TaskContext>, Ending) {
    let execution = Arc::new(Execution::default());
    let config = context.session_config().clone().with_extension(Arc::clone(&execution));
    let context = TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    );
    (Arc::new(context), Ending(execution))
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A value that all partitions wait for, made by the first that asks. Its failure is the failure of them all: to make it
/// again would run the inputs a second time, which DataFusion's operators do not stand. So it is where that partition is dropped
/// before it has made it, which is how statements end that are cancelled or given up: tasks go one after the other.
pub struct MadeOnce<T> {
    begun: AtomicBool,
    made: OnceCell<SharedResult<T>>,
}

impl<T> Default for MadeOnce<T> {
    fn default() -> Self {
        Self {
            begun: AtomicBool::new(false),
            made: OnceCell::new(),
        }
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
            async {
                match self.begun.swap(true, Ordering::Relaxed) {
                    false => make.await.map_err(Arc::new),
                    true => Err(Arc::new(DataFusionError::Execution(
                        "the statement has ended".to_owned(),
                    ))),
                }
            }
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
    use std::sync::atomic::AtomicUsize;
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

    /// Where the partition that makes a value is dropped, the others fail; none of them makes it again.
    #[test]
    fn values_are_made_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let made = MadeOnce::<u32>::default();
            let mut first = Box::pin(made.get_or_make(std::future::pending()));
            let mut second = Box::pin(made.get_or_make(async { panic!("made again") }));
            assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
            drop(first);
            assert!(second.await.is_err());
            assert!(made.get_or_make(async { Ok(1) }).await.is_err());
        });
    }

    /// A plan that is kept holds nothing of the executions that have ended, whoever ended them.
    #[test]
    fn states_end_with_their_execution() {
        let kept = PerExecution::<u32>::default();
        let given = TaskContext::default();
        let ((first, ending), (second, other)) = (begin(&given), begin(&given));
        let (one, two) = (kept.get_or_make(&first, || 1), kept.get_or_make(&second, || 2));
        drop((first, ending));
        assert_eq!(Arc::strong_count(&one), 1);
        assert_eq!(*kept.get_or_make(&second, || 3), 2);
        drop(other);
        assert_eq!(Arc::strong_count(&two), 1);
        let third = kept.get_or_make(&second, || 3);
        drop(second);
        assert_eq!((*third, Arc::strong_count(&third)), (3, 1));
    }
}
