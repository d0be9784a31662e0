//! Events of the device, reused: making one is a call to the driver.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::{Backend, EventHandle};
use crate::error::Result;

/// Events that nobody holds.
pub(crate) struct EventPool {
    backend: Arc<dyn Backend>,
    idle: Mutex<Vec<EventHandle>>,
}

/// An event, given back when dropped.
pub(crate) struct PooledEvent {
    pub handle: EventHandle,
    pool: Arc<EventPool>,
}

impl EventPool {
    pub fn new(backend: Arc<dyn Backend>) -> Arc<EventPool> {
        Arc::new(EventPool {
            backend,
            idle: Mutex::default(),
        })
    }

    /// An idle event, or a new one.
    pub fn take(self: &Arc<Self>) -> Result<PooledEvent> {
        let idle = self.idle.lock().pop();
        Ok(PooledEvent {
            handle: idle.map_or_else(|| self.backend.event_create(), Ok)?,
            pool: self.clone(),
        })
    }
}

impl Drop for PooledEvent {
    fn drop(&mut self) {
        self.pool.idle.lock().push(self.handle);
    }
}

impl Drop for EventPool {
    fn drop(&mut self) {
        for event in self.idle.get_mut().drain(..) {
            self.backend.event_destroy(event);
        }
    }
}
