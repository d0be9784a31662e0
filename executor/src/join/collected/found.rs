//! Pairs that the device has found, as one more operator: nothing is sent before the device is done, so that its
//! failure costs nothing but time.

use std::ops::{ControlFlow, Range};

use datafusion::execution::memory_pool::MemoryReservation;
use tenon_gpu::cpu::join::{Emit, Matcher, PAIRS_MAX};

/// Pairs in pieces of at most [`PAIRS_MAX`].
pub struct FoundPairs {
    /// Build and probe rows, of equal length.
    outputs: Vec<(Vec<u32>, Vec<u32>)>,
    /// Pieces before each output, and all of them at the end.
    starts: Vec<usize>,
    /// Held as long as the pairs are.
    _reservation: MemoryReservation,
}

impl FoundPairs {
    pub fn new(outputs: Vec<(Vec<u32>, Vec<u32>)>, reservation: MemoryReservation) -> Self {
        let mut starts = vec![0];
        for (build_rows, _) in &outputs {
            starts.push(starts[starts.len() - 1] + build_rows.len().div_ceil(PAIRS_MAX));
        }
        Self {
            outputs,
            starts,
            _reservation: reservation,
        }
    }
}

impl Matcher for FoundPairs {
    /// Pieces, not keys.
    fn positions(&self) -> usize {
        self.starts[self.outputs.len()]
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        for piece in positions {
            let at = self.starts.partition_point(|&start| start <= piece) - 1;
            let (build_rows, probe_rows) = &self.outputs[at];
            let from = (piece - self.starts[at]) * PAIRS_MAX;
            let to = build_rows.len().min(from + PAIRS_MAX);
            emit(&build_rows[from..to], &probe_rows[from..to])?;
        }
        ControlFlow::Continue(())
    }
}
