//! Statements that share a limit: those of one role.

use super::Reserved;
use std::sync::atomic::{AtomicIsize, Ordering};

/// What all of them hold and have reserved. How much that may be is said by each.
#[derive(Debug, Default)]
pub struct Group {
    bytes: AtomicIsize,
    reserved: Reserved,
}

impl Group {
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed).max(0) as usize
    }

    pub fn reserved(&self) -> &Reserved {
        &self.reserved
    }

    /// Called by the allocator: must not allocate.
    pub(super) fn add(&self, bytes: isize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
