//! Whether anybody still waits for a join: the streams of its partitions, whether they have been polled or not.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::offload::CancelOnDrop;

/// Held by every stream of an execution. The last one that is dropped ends the work whose guards are kept here.
#[derive(Default)]
pub struct Listeners(Mutex<Vec<CancelOnDrop>>);

impl Listeners {
    /// Keeps a guard as long as anybody listens.
    pub fn keep(&self, guard: CancelOnDrop) {
        self.0.lock().push(guard);
    }
}

/// Where the streams of an execution find each other.
#[derive(Default)]
pub struct Audience(Mutex<Weak<Listeners>>);

impl Audience {
    /// One more listener.
    pub fn join(&self) -> Arc<Listeners> {
        let mut current = self.0.lock();
        if let Some(listeners) = current.upgrade() {
            return listeners;
        }
        let listeners = Arc::default();
        *current = Arc::downgrade(&listeners);
        listeners
    }
}
