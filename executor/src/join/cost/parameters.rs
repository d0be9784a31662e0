//! What a machine can do, as far as the choice of an operator needs it. The defaults are of an H100 and of one core of
//! the server processor beside it; [`crate::calibrate`] puts what it measures in their place.

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

/// Measured, or assumed until then.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CostParameters {
    pub cpu: Cpu,
    pub gpu: Gpu,
}

/// Rows a second of one core, by the rows of the structure that is built or looked into.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// It stays within a core's caches.
    pub near: f64,
    /// It is far beyond them.
    pub far: f64,
}

/// Building a table of keys, and looking keys up in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hashing {
    pub build: Rate,
    pub probe: Rate,
}

/// One core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Batches put together into one.
    pub copied_bytes_per_s: f64,
    /// A table's rows read one after the other, beside what is done with them.
    pub scanned_rows_per_s: f64,
    /// Keys turned into words.
    pub coded_rows_per_s: f64,
    /// The streamed join's table: hashed, and an array indexed by the key. One core builds a small one.
    pub table: Hashing,
    pub array: Hashing,
    /// The table of a join with both sides at hand: hashed, and an array. All cores build it.
    pub shared_table: Hashing,
    pub shared_array: Hashing,
    pub sorted_u32_per_s: f64,
    pub sorted_u64_per_s: f64,
    /// Rows of both sides, ascending.
    pub merged_rows_per_s: f64,
    /// Lookups in sorted keys by a CSS-tree.
    pub searches: Rate,
    /// Keys compared by a nested loop.
    pub compared_pairs_per_s: f64,
    /// Pairs of rows that any other condition is evaluated for.
    pub tested_pairs_per_s: f64,
    /// Keys looked up together in a table's index, ranges looked up one after the other, and rows found there and
    /// gathered.
    pub index_lookups_per_s: f64,
    pub index_ranges_per_s: f64,
    pub index_rows_per_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Read and written, together.
    pub memory_bytes_per_s: f64,
    /// From and to ordinary memory.
    pub to_device_bytes_per_s: f64,
    pub from_device_bytes_per_s: f64,
    /// From memory that is pinned or registered, as tables' columns are.
    pub pinned_to_device_bytes_per_s: f64,
    pub launch_s: f64,
    /// Keys of four bytes compared by a nested loop.
    pub compared_pairs_per_s: f64,
    /// Pairs that a compiled condition is evaluated for.
    pub tested_pairs_per_s: f64,
}

/// Rows of a structure up to which [`Rate::near`] holds, and from which on [`Rate::far`] does.
pub const NEAR_ROWS: usize = 1 << 14;
pub const FAR_ROWS: usize = 1 << 20;

impl Rate {
    pub const fn new(near: f64, far: f64) -> Self {
        Self { near, far }
    }

    /// Seconds a row, at a structure of so many.
    pub fn seconds(&self, structure_rows: usize) -> f64 {
        let way = |rows: usize| (rows.max(1) as f64).log2();
        let far = (way(structure_rows) - way(NEAR_ROWS)) / (way(FAR_ROWS) - way(NEAR_ROWS));
        (self.near / self.far).powf(far.clamp(0.0, 1.0)) / self.near
    }
}

impl Default for Cpu {
    fn default() -> Self {
        let hashing = |build, probe| Hashing { build, probe };
        Self {
            copied_bytes_per_s: 5.0e9,
            scanned_rows_per_s: 500.0e6,
            coded_rows_per_s: 850.0e6,
            table: hashing(Rate::new(46.0e6, 17.0e6), Rate::new(48.0e6, 25.0e6)),
            array: hashing(Rate::new(300.0e6, 35.0e6), Rate::new(700.0e6, 450.0e6)),
            // Small tables are slow because all cores build them.
            shared_table: hashing(Rate::new(3.8e6, 31.0e6), Rate::new(42.0e6, 20.0e6)),
            shared_array: hashing(Rate::new(2.8e6, 43.0e6), Rate::new(86.0e6, 100.0e6)),
            sorted_u32_per_s: 11.0e6,
            sorted_u64_per_s: 6.0e6,
            merged_rows_per_s: 110.0e6,
            searches: Rate::new(45.0e6, 33.0e6),
            compared_pairs_per_s: 14.0e9,
            tested_pairs_per_s: 140.0e6,
            index_lookups_per_s: 40.0e6,
            index_ranges_per_s: 2.0e6,
            index_rows_per_s: 10.0e6,
        }
    }
}

impl Default for Gpu {
    fn default() -> Self {
        Self {
            memory_bytes_per_s: 2.3e12,
            // From and to memory that is not pinned.
            to_device_bytes_per_s: 18.0e9,
            from_device_bytes_per_s: 20.0e9,
            pinned_to_device_bytes_per_s: 24.0e9,
            launch_s: 5.0e-6,
            compared_pairs_per_s: 1.3e13,
            tested_pairs_per_s: 1.0e12,
        }
    }
}

static CURRENT: RwLock<Option<CostParameters>> = RwLock::new(None);

impl CostParameters {
    /// This process's: as measured, or the defaults.
    pub fn current() -> Self {
        CURRENT.read().unwrap_or_default()
    }

    /// From now on, this is what choices go by.
    pub fn set_current(self) {
        *CURRENT.write() = Some(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_lies_between_its_ends() {
        let rate = Rate::new(100.0, 10.0);
        assert_eq!(rate.seconds(0), 0.01);
        assert_eq!(rate.seconds(NEAR_ROWS), 0.01);
        assert!((rate.seconds(FAR_ROWS) - 0.1).abs() < 1e-9);
        assert!((rate.seconds(FAR_ROWS << 5) - 0.1).abs() < 1e-9);
        let middle = rate.seconds(1 << 17);
        assert!(middle > 0.01 && middle < 0.1, "{middle}");
    }
}
