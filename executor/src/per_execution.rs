//! State that the partitions of one running plan share.
//!
//! A plan node may be executed many times (prepared statements keep their plan), and its partitions find each other
//! only through the task context, of which DataFusion makes one per execution. The state lives as long as that
//! context is the latest one.

use std::sync::{Arc, Weak};

use datafusion::execution::TaskContext;
use parking_lot::Mutex;

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
