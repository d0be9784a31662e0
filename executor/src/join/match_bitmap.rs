//! Which build rows have met a partner: one bit a row, set by all probe partitions at once.

use std::sync::atomic::{AtomicU64, Ordering};

pub struct MatchBitmap {
    words: Vec<AtomicU64>,
}

impl MatchBitmap {
    pub fn new(rows: usize) -> Self {
        Self {
            words: (0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn set(&self, row: usize) {
        let (word, bit) = (&self.words[row / 64], 1 << (row % 64));
        // Most rows are met again and again: reading first keeps the cache line shared.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub fn is_set(&self, row: usize) -> bool {
        self.words[row / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }
}
