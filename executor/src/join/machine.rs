//! What a machine can do, as far as the choice of an operator needs it: rates of the GPU as measured on an H100, and
//! of one core of a server processor.

use std::sync::OnceLock;

use super::choice::Operator;

/// Bytes and rows a second, and seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    pub cores: usize,
    pub hbm_bytes_per_s: f64,
    pub pcie_bytes_per_s: f64,
    pub launch_s: f64,
    /// One core, inputs beyond its caches.
    pub cpu_hash_rows_per_s: f64,
    pub cpu_sort_rows_per_s: f64,
    pub cpu_pairs_per_s: f64,
    /// Copying rows together and turning keys into words.
    pub cpu_word_rows_per_s: f64,
    pub gpu_pairs_per_s: f64,
}

/// Asked for once: the answer comes from files, which takes longer than choosing.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()))
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            cores: cores(),
            hbm_bytes_per_s: 3.0e12,
            pcie_bytes_per_s: 52.0e9,
            launch_s: 5.0e-6,
            cpu_hash_rows_per_s: 25.0e6,
            cpu_sort_rows_per_s: 12.0e6,
            cpu_pairs_per_s: 300.0e6,
            cpu_word_rows_per_s: 200.0e6,
            gpu_pairs_per_s: 1.0e12,
        }
    }
}

/// Kernels of a join, about: sorts and partitions in passes, counts, sums and writes.
const LAUNCHES: f64 = 40.0;
/// Passes over keys and row numbers in device memory.
const PASSES: f64 = 8.0;

/// Device memory of a build row that the Triton join caches: two words in a table that is half full.
const TRITON_TABLE_BYTES: f64 = 32.0;

impl Machine {
    /// The CPU's whole job.
    pub fn cpu_seconds(&self, operator: Operator, build: usize, probe: usize) -> f64 {
        let rows = (build + probe) as f64;
        let seconds = match operator {
            Operator::Hj | Operator::Triton => rows / self.cpu_hash_rows_per_s,
            Operator::Smj | Operator::Inlj => rows / self.cpu_sort_rows_per_s,
            Operator::Ninlj => build as f64 * probe as f64 / self.cpu_pairs_per_s,
        };
        seconds / self.cores as f64
    }

    /// The GPU's, from host memory to row numbers there, as many as the larger side has.
    pub fn gpu_seconds(&self, operator: Operator, build: usize, probe: usize, key_bytes: usize) -> f64 {
        let rows = (build + probe) as f64;
        let words = rows / self.cpu_word_rows_per_s / self.cores as f64;
        let transfer = (rows * key_bytes as f64 + build.max(probe) as f64 * 8.0) / self.pcie_bytes_per_s;
        let inside = rows * (key_bytes + 4) as f64 * PASSES / self.hbm_bytes_per_s;
        let pairs = match operator {
            Operator::Ninlj => build as f64 * probe as f64 / self.gpu_pairs_per_s,
            _ => 0.0,
        };
        LAUNCHES * self.launch_s + words + transfer + inside + pairs
    }

    /// The Triton join's on the GPU: what finds no room in `free_bytes` goes to the host and comes back once more.
    pub fn triton_seconds(&self, build: usize, probe: usize, key_bytes: usize, free_bytes: u64) -> f64 {
        let rows = (build + probe) as f64;
        let row_bytes = (key_bytes + 4) as f64;
        let table_bytes = build as f64 * TRITON_TABLE_BYTES;
        let spilled = (1.0 - free_bytes as f64 / table_bytes.max(1.0)).clamp(0.0, 1.0);
        let again = 2.0 * spilled * rows * row_bytes / self.pcie_bytes_per_s;
        self.gpu_seconds(Operator::Triton, build, probe, key_bytes) + again
    }

    /// Device memory: keys and row numbers, the same again sorted or partitioned, and pairs.
    pub fn gpu_bytes(&self, build: usize, probe: usize, key_bytes: usize) -> u64 {
        ((build + probe) * (3 * (key_bytes + 4) + 12)) as u64
    }
}
