//! What a join operator does on the CPU, after its build side is done.

use std::ops::{ControlFlow, Range};

/// Pairs handed over at a time, at most: row numbers of both sides stay in the cache.
pub const PAIRS_MAX: usize = 8192;

/// Takes pairs of build and probe rows, of equal length; says whether to go on.
pub type Emit<'a> = dyn FnMut(&[u32], &[u32]) -> ControlFlow<()> + 'a;

/// An operator whose build side stands. Probe keys are addressed by position, in an order of the operator's choice;
/// threads work on different ranges of positions at once.
///
/// Rows with a null key are not among the positions, and the caller tests conditions beyond the keys on the pairs.
pub trait Matcher: Send + Sync {
    /// Probe keys.
    fn positions(&self) -> usize;

    /// Hands over every pair of these positions, at most [`PAIRS_MAX`] at a time, until told to stop.
    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()>;
}
