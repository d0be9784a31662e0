//! Joins of two inputs that are both materialized, by any operator and any condition.
//!
//! ```text
//! start     both sides -> normalized keys of equality or of a range (keys, range): a task
//! find      the task -> an operator on the device (on_device, attempt, device_join, triton)
//!                    -> or on the CPU (pass, cpu_operators)
//! sink      candidate pairs -> compared where normalized keys do not decide, and tested by the filter (checks, residual)
//!                    -> marks of matched rows, and pairs -> output columns by row number, in bounded batches
//! combine   each partition's last batch
//! finalize  the partition that comes last: rows by their marks
//! ```
//! The partitions of the output draw ranges of the operator's positions from one counter, each on a thread of its own
//! that stops at the next range once nobody waits for its batches (worker). The device has a thread, too (start), whose
//! pairs they draw while it goes on (chunks); should it fail in the middle, the CPU's operator finds all pairs, and those
//! that have been emitted are left out (emitted, checks). Inner joins without output columns ask it for the number of
//! pairs only. What the device did is told by account.
//!
//! An operator builds on one side and probes with the other. Where it builds on the join's probe side its task is
//! `swapped`: `build` and `probe` are the operator's sides up to `Checks::pairs`, and the join's from there on.

mod account;
mod attempt;
mod checks;
mod chunks;
#[cfg(test)]
mod condition_tests;
mod cpu_operators;
mod device_join;
mod emitted;
mod finalize;
mod find;
mod join;
mod keys;
mod on_device;
mod pass;
mod range;
mod residual;
mod sink;
mod start;
mod task;
mod triton;
mod worker;

pub use account::Account;
pub use chunks::ChunkLimits;
pub use join::{MaterializedJoin, Setting};
pub use residual::tested;
pub use start::start;
pub use worker::{Worker, spawn};
