//! Joins of two inputs that are both in memory, by any operator and any condition.
//!
//! ```text
//! both sides -> keys or ranges as words (keys, range, codes), a task -> an operator on the CPU (twins), or the same on the device (on_device, device_join, triton, condition; found) -> candidate pairs -> compared where words are not the whole truth, and tested by the filter (residual)
//!   -> flags of matched rows, and pairs -> output columns taken by row number in bounded batches (sink)
//!   -> when all partitions are done: rows by their flags (alone)
//! ```
//! The partitions of the output draw ranges of the operator's positions from one counter, each on a thread of its own
//! that stops at the next piece once nobody waits for its batches (work).

mod alone;
pub mod codes;
mod condition;
mod device_join;
mod found;
mod join;
mod keys;
mod on_device;
mod operators;
mod range;
mod residual;
mod sink;
mod task;
mod triton;
mod twins;
mod work;

pub use condition::CompiledFilter;
pub use join::{CollectedJoin, Setting};
pub use on_device::Outcome;
pub use residual::tested;
pub use work::{Worker, spawn};
