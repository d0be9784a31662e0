//! Device memory: a budgeted pool, typed buffers, views, and copies.

mod buffer;
mod copy;
mod element;
mod pool;
mod slabs;
mod view;

pub use buffer::DeviceBuffer;
pub use element::{DevicePtr, DevicePtrMut, Element};
pub use pool::{Allocation, Pool, Reservation};
pub use view::{DeviceView, DeviceViewMut};
