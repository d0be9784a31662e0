//! The CUDA driver as a device: the library is found at run time, and everything that can be missing is an error
//! that says what.

mod backend;
mod driver;
mod probe;

pub use backend::CudaBackend;
pub use driver::DRIVER_LIBRARY;
