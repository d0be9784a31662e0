//! The simulator: a device that runs the same kernel sources on the CPU, for correctness.
//!
//! Kernels are compiled by the host's C++ compiler against `kernels/sim.cuh`. Each thread of a block is a fiber; a
//! window of blocks is resident at once. Checked: accesses outside of buffers and of shared memory, misaligned
//! accesses, barriers and warp collectives that not all threads reach, deadlocks, traps, stack overflow. Fresh
//! memory is poisoned. A launch has run when the call returns.
//!
//! Settings: `TENON_SIM_WINDOW` (resident blocks, 8), `TENON_SIM_THREADS` (OS threads of a launch, 1),
//! `TENON_SIM_TIMEOUT_S` (seconds without a finished block until a spinning launch is an error, 30),
//! `TENON_SIM_SEED` (threads run in an order drawn from it, which shows more races; 0, the plain order). They are
//! also fields of [`SimConfig`]. With `TENON_SIM_NVRTC=1` NVRTC must compile each program, too, for all supported
//! architectures.
//! A loop that never calls a barrier, a collective, an ordered load or `tenon_spin_pause` cannot be interrupted.

mod abi;
mod backend;
mod block;
mod fault;
mod fiber;
mod guarded;
mod memory;
mod module;
mod shared;
mod vtable;
mod warp;
mod worker;

pub use backend::{SimBackend, SimConfig};
