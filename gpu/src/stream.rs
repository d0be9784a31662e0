//! Streams and events: the order of work on a device, and the time it took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::StreamHandle;
use crate::device::{Device, DeviceInner};
use crate::error::Result;
use crate::event_pool::PooledEvent;

/// A queue of work: copies and launches run in the order they were put in. Cheap to clone.
#[derive(Clone)]
pub struct Stream {
    pub(crate) inner: Arc<StreamInner>,
}

pub(crate) struct StreamInner {
    pub(crate) handle: StreamHandle,
    /// Never given twice, unlike handles.
    id: u64,
    pub(crate) device: Arc<DeviceInner>,
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        self.device.idle_streams.lock().push(self.handle);
    }
}

impl Stream {
    pub(crate) fn new(device: &Arc<DeviceInner>) -> Result<Stream> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let idle = device.idle_streams.lock().pop();
        let handle = idle.map_or_else(|| device.backend.stream_create(), Ok)?;
        Ok(Stream {
            inner: Arc::new(StreamInner {
                handle,
                id: NEXT.fetch_add(1, Ordering::Relaxed),
                device: device.clone(),
            }),
        })
    }

    /// The stream's device.
    pub fn device(&self) -> Device {
        Device {
            inner: self.inner.device.clone(),
        }
    }

    pub(crate) fn handle(&self) -> StreamHandle {
        self.inner.handle
    }

    pub(crate) fn id(&self) -> u64 {
        self.inner.id
    }

    /// Waits until all work put in so far is done; reports what failed.
    pub fn synchronize(&self) -> Result<()> {
        self.inner.device.backend.stream_synchronize(self.handle())
    }

    /// Whether all work put in so far is done.
    pub fn is_idle(&self) -> Result<bool> {
        self.inner.device.backend.stream_is_idle(self.handle())
    }

    /// Marks this point of the stream.
    pub fn record(&self) -> Result<Event> {
        let event = Event::new(&self.inner.device)?;
        self.inner
            .device
            .backend
            .event_record(event.event.handle, self.handle())?;
        Ok(event)
    }

    /// Later work of this stream waits for the event.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.inner.device.backend.stream_wait(self.handle(), event.event.handle)
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
