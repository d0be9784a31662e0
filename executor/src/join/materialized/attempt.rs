//! An attempt to find pairs on the device: what is wanted of it, within which bounds, and what came of it.

use std::sync::atomic::AtomicBool;

use datafusion::execution::memory_pool::MemoryReservation;
use tenon_gpu::Device;

use super::chunks::PairSender;

/// What is wanted of the pairs.
#[derive(Clone, Copy, PartialEq)]
pub enum Wanted {
    Pairs,
    /// Only how many pairs there are.
    Count,
    /// Only which rows of the operator's build side have a partner.
    BuildMarks,
    /// Only which rows of the probe side have one.
    ProbeMarks,
}

#[derive(Default)]
pub struct Found {
    /// Pairs, if only their number was wanted.
    pub count: u64,
    /// A byte a row, if marks were wanted.
    pub marks: Vec<u8>,
    /// Passes over the probe keys.
    pub passes: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Rows that found no room on the device went to the host and came back.
    pub spilled_bytes: u64,
    /// Milliseconds of phases, by the name of their metric.
    pub phases: Vec<(&'static str, f32)>,
    /// Device memory at its peak, of all queries.
    pub peak_bytes: u64,
    /// Why the condition beyond the keys is left to the host.
    pub condition_on_host: Option<String>,
}

/// Limits of one run, from outside.
pub struct Bounds<'a> {
    pub cancelled: &'a AtomicBool,
    /// Device memory that the statement may take; none: what is free.
    pub memory_bytes: Option<u64>,
    /// Host memory of the results, and of what is made for the device.
    pub results: &'a MemoryReservation,
    /// Where pairs go.
    pub out: &'a PairSender<'a>,
}

/// Device memory for a join that makes do with any, of a statement that may take so much. An eighth of what is free is
/// left to others, so that joins which would each take all do not turn the next ones away.
pub fn device_bytes(device: &Device, memory_bytes: Option<u64>) -> u64 {
    let free = device.pool().available();
    memory_bytes.unwrap_or(u64::MAX).min(free - free / 8)
}
