//! Who asks for a join.

use crate::error::Result;

/// May stop the join, and answers for the host memory that it takes. A closure only says whether to stop.
pub trait Caller {
    /// Asked before each step of at most a chunk.
    fn is_cancelled(&self) -> bool;

    /// Asked before the join takes pinned host memory for spilled rows or for pairs on their way. An error ends the
    /// join. The join gives all of it back to the device's pool before it returns.
    fn reserve_host(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }
}

impl<F: Fn() -> bool> Caller for F {
    fn is_cancelled(&self) -> bool {
        self()
    }
}
