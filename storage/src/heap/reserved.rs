//! What the operators of one statement have reserved, and may.

use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub struct Reserved {
    bytes: AtomicUsize,
    limit_bytes: AtomicUsize,
}

impl Default for Reserved {
    fn default() -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            limit_bytes: AtomicUsize::new(usize::MAX),
        }
    }
}

impl Reserved {
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self, bytes: usize) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn free(&self) -> usize {
        self.limit_bytes().saturating_sub(self.bytes())
    }

    /// Whether there was room for so much more; then it is reserved.
    pub fn try_grow(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.limit_bytes();
        if !fits {
            self.shrink(bytes);
        }
        fits
    }

    /// The same, room or not.
    pub fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn shrink(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
