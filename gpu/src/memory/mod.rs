//! Device memory: a budgeted pool, typed buffers, views, and copies.

mod buffer;
mod copy;
mod element;
mod host;
mod pool;
mod raw;
mod registered;
mod slabs;
mod staging;
mod together;
mod transfer;
mod view;

pub use buffer::DeviceBuffer;
pub use element::{DevicePtr, DevicePtrMut, Element};
pub(crate) use host::HostPool;
pub use host::PinnedBuffer;
pub use pool::{Allocation, Pool, Reservation};
pub(crate) use raw::{device_to_host, host_to_device, set_device_bytes};
pub(crate) use registered::Registered;
pub use together::Together;
pub use transfer::Download;
pub(crate) use transfer::Joined;
pub use view::{DeviceView, DeviceViewMut};
