//! Device memory in the order of streams: typed buffers from the pool, views, and copies.

mod buffer;
mod copy;
mod raw;
mod staging;
mod together;
mod transfer;
mod view;

pub use buffer::DeviceBuffer;
pub(crate) use raw::{device_to_host, host_to_device, set_device_bytes};
pub use together::Together;
pub use transfer::Download;
pub(crate) use transfer::Joined;
pub use view::{DeviceView, DeviceViewMut};

pub use crate::element::{DevicePtr, DevicePtrMut, Element};
pub use crate::pool::{Allocation, PinnedBuffer, Pool, Reservation};
