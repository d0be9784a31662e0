//! Joins of two inputs that are both in memory, by any operator and any condition.
//!
//! ```text
//! both sides -> keys or ranges as words (keys, range, codes), a task -> an operator on the CPU (twins), or the same on the device (on_device, device_join, triton, condition) -> candidate pairs -> compared where words are not the whole truth, and tested by the filter (residual)
//!   -> flags of matched rows, and pairs -> output columns taken by row number in bounded batches (sink)
//!   -> when all partitions are done: rows by their flags (alone)
//! ```
//! The partitions of the output draw ranges of the operator's positions from one counter, each on a thread of its own
//! that stops at the next piece once nobody waits for its batches (work). The device has a thread, too (start), whose
//! pairs they draw while it goes on (pieces); should it fail in the middle, the CPU's operator finds all pairs and those
//! that have been sent are left out (sent, checks). Inner joins without output columns ask it for the number of pairs only.

mod alone;
mod checks;
pub mod codes;
mod condition;
mod device_join;
mod join;
mod keys;
mod on_device;
mod operators;
mod pieces;
mod range;
mod residual;
mod sent;
mod sink;
mod start;
mod task;
mod triton;
mod twins;
mod work;

pub use condition::CompiledFilter;
pub use join::{CollectedJoin, Setting};
pub use on_device::Outcome;
pub use pieces::Streaming;
pub use residual::tested;
pub use start::start;
pub use work::{Worker, spawn};
