//! Queues of work of a device, reused: making one is a call to the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::backend::{Backend, StreamHandle};
use crate::error::Result;

/// Queues that nobody holds.
pub(crate) struct Queues {
    backend: Arc<dyn Backend>,
    idle: Mutex<Vec<StreamHandle>>,
}

/// A stream of the device, given back when dropped.
pub(crate) struct Queue {
    pub handle: StreamHandle,
    /// Never given twice, unlike handles.
    pub id: u64,
    queues: Arc<Queues>,
}

impl Queues {
    pub fn new(backend: Arc<dyn Backend>) -> Arc<Queues> {
        Arc::new(Queues {
            backend,
            idle: Mutex::default(),
        })
    }

    /// An idle queue, or a new one.
    pub fn take(self: &Arc<Self>) -> Result<Queue> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let idle = self.idle.lock().pop();
        Ok(Queue {
            handle: idle.map_or_else(|| self.backend.stream_create(), Ok)?,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            queues: self.clone(),
        })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.queues.idle.lock().push(self.handle);
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        for stream in self.idle.get_mut().drain(..) {
            self.backend.stream_destroy(stream);
        }
    }
}
