//! Streams and events: the order of work on a device, and the time it took.

use std::sync::Arc;

use crate::backend::StreamHandle;
use crate::device::{Device, DeviceInner};
use crate::error::Result;
use crate::event_pool::PooledEvent;
use crate::queue::Queue;

/// A queue of work: copies and launches run in the order they were put in. Cheap to clone.
#[derive(Clone)]
pub struct Stream {
    pub(crate) queue: Arc<Queue>,
    pub(crate) device: Arc<DeviceInner>,
}

impl Device {
    /// A new stream.
    pub fn stream(&self) -> Result<Stream> {
        Ok(Stream {
            queue: Arc::new(self.inner.queues.take()?),
            device: self.inner.clone(),
        })
    }
}

impl Stream {
    /// The stream's device.
    pub fn device(&self) -> Device {
        Device {
            inner: self.device.clone(),
        }
    }

    pub(crate) fn handle(&self) -> StreamHandle {
        self.queue.handle
    }

    /// Waits until all work put in so far is done; reports what failed.
    pub fn synchronize(&self) -> Result<()> {
        self.device.backend.stream_synchronize(self.handle())
    }

    /// Whether all work put in so far is done.
    pub fn is_idle(&self) -> Result<bool> {
        self.device.backend.stream_is_idle(self.handle())
    }

    /// Marks this point of the stream.
    pub fn record(&self) -> Result<Event> {
        let event = Event::new(&self.device)?;
        self.device.backend.event_record(event.event.handle, self.handle())?;
        Ok(event)
    }

    /// Later work of this stream waits for the event.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.device.backend.stream_wait(self.handle(), event.event.handle)
    }

    /// Later work of this stream waits for all work put into the other so far.
    pub fn wait_for_stream(&self, other: &Stream) -> Result<()> {
        if self.handle() == other.handle() {
            return Ok(());
        }
        self.wait_for(&other.record()?)
    }
}

/// A point in a stream.
pub struct Event {
    event: PooledEvent,
    device: Arc<DeviceInner>,
}

impl Event {
    pub(crate) fn new(device: &Arc<DeviceInner>) -> Result<Event> {
        Ok(Event {
            event: device.events.take()?,
            device: device.clone(),
        })
    }

    /// Waits until the stream has passed the event.
    pub fn synchronize(&self) -> Result<()> {
        self.device.backend.event_synchronize(self.event.handle)
    }

    /// Whether the stream has passed the event.
    pub fn is_done(&self) -> Result<bool> {
        self.device.backend.event_is_done(self.event.handle)
    }

    /// Milliseconds from `earlier` to this event, both passed.
    pub fn elapsed_ms_since(&self, earlier: &Event) -> Result<f32> {
        self.device
            .backend
            .event_elapsed_ms(earlier.event.handle, self.event.handle)
    }
}
