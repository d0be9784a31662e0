//! State that the partitions of one running plan share.
//!
//! A plan node may be executed many times (prepared statements keep their plan), and its partitions find each other
//! only through the task context, of which DataFusion makes one per execution. The state lives as long as that
//! context is the latest one.

use std::sync::{Arc, Weak};

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
        let made = self.made.get_or_init(|| async { make.await.map_err(Arc::new) });
        made.await
            .as_ref()
            .map_err(|error| DataFusionError::Shared(Arc::clone(error)))
    }
}
