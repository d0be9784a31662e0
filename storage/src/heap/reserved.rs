//! What operators have reserved: those of a statement, or of a group of statements.

use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub struct Reserved(AtomicUsize);

impl Reserved {
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether there was room for so much more; then it is reserved.
    pub(super) fn try_grow(&self, bytes: usize, limit: usize) -> bool {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= limit;
        if !fits {
            self.shrink(bytes);
        }
        fits
    }

    /// The same, room or not.
    pub(super) fn grow(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn shrink(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}
