//! What ran where since the process began: for whoever watches a server.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often, or how much.
#[derive(Debug)]
pub struct Count(AtomicU64);

impl Count {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of the process.
#[derive(Debug)]
pub struct Counts {
    /// Parts of queries that ran on the device as one, and those that could have and were left to the CPU: they would not have
    /// paid, or their code or columns were not there yet.
    pub fragments_on_device: Count,
    pub fragments_on_cpu: Count,
    /// Single joins that ran on the device, and those that began there and that the CPU had to do.
    pub joins_on_device: Count,
    pub joins_fallen_back: Count,
    /// Bytes of single joins' sides and of columns that went to the device, and of pairs that came back.
    pub bytes_to_device: Count,
    pub bytes_from_device: Count,
    /// Bytes of tables' columns that went to the device to stay, and the nanoseconds that these copies took.
    pub column_bytes: Count,
    pub column_ns: Count,
}

pub static COUNTS: Counts = Counts {
    fragments_on_device: Count::new(),
    fragments_on_cpu: Count::new(),
    joins_on_device: Count::new(),
    joins_fallen_back: Count::new(),
    bytes_to_device: Count::new(),
    bytes_from_device: Count::new(),
    column_bytes: Count::new(),
    column_ns: Count::new(),
};
