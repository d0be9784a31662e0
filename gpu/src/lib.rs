//! Device memory, kernels and a simulator: everything of Tenon that runs on a GPU, or could.
//!
//! The crate knows no SQL: buffers, types, kernels.
//!
//! # Map
//!
//! | what | where |
//! | --- | --- |
//! | open a device, or learn why there is none | [`Device::open`], [`detect`], [`info_report`] |
//! | streams, events, timing | [`Stream`], [`Event`] |
//! | memory: pool, buffers, views, copies | [`memory`] |
//! | compile and cache kernel sources | [`compile`] |
//! | launch a kernel | [`kernel_params!`], [`Kernel::launch`], [`LaunchConfig`] |
//! | the simulator | `sim`, `kernels/sim.cuh` |
//! | tuning numbers shared with kernels | [`tuning`] |
//! | every program that tests compile | [`registry`] |
//! | primitives | [`primitives`] |
//! | fused pipelines of generated code | [`pipeline`] |
//! | joins | [`join`] |
//!
//! # How to add a primitive
//!
//! 1. `kernels/NAME.cu`: `#include "tenon.cuh"` (and `warp.cuh`, `block.cuh`), declare the parameter struct, write
//!    the kernels with `TENON_KERNEL(name, Params) { ... p.field ... }` or
//!    `TENON_KERNEL_BOUNDS(name, Params, max_threads, min_blocks)`. Shared memory: `TENON_SHARED(Type, name)`,
//!    `TENON_SHARED_ARRAY(Type, name, count)`, `TENON_DYNAMIC_SHARED(Type, name)`. Fixed-width types `u8` to `u128`
//!    only, no standard headers. Specialise by macros, such as `-D T=u64`. Loops that wait for another block call
//!    `tenon_spin_pause()` and read with `ld_acquire`. New headers go into `sources.rs`.
//! 2. `src/primitives/NAME.rs`: the same struct in [`kernel_params!`], a `static` [`compile::Source`] by [`source!`],
//!    a [`compile::Program`] for each specialisation, a safe function that checks lengths and launches. Its doc
//!    comment names paper and section, shapes, and what it allocates.
//! 3. List the specialisations in [`registry`]: a test compiles each for every supported architecture.
//! 4. Tests run on the simulator with a printed random seed (see `testing`), at sizes 0, 1, odd, and above one block.
//!
//! [`primitives::fill`] and [`primitives::map`] are the models.

pub mod compile;
pub mod detect;
pub mod error;
pub mod join;
pub mod memory;
pub mod number;
pub mod pipeline;
pub mod primitives;
pub mod registry;
pub mod testing;
pub mod tuning;

mod backend;
mod cuda;
mod device;
mod element;
mod enqueue;
mod event_pool;
mod info;
mod kernel;
mod launch;
mod modules;
mod pool;
mod queue;
mod seeds;
mod sim;
mod sources;
mod stop;
mod stream;

pub use detect::info_report;
pub use device::{Device, DeviceConfig};
pub use error::{GpuError, Result};
pub use info::{DeviceInfo, DeviceKind};
pub use kernel::{Kernel, Module};
pub use launch::{KernelParams, LaunchConfig};
pub use sim::SimConfig;
pub use stop::Stop;
pub use stream::{Event, Stream};
