//! What ran where since the process began: for whoever watches a server.

use std::sync::atomic::{AtomicU64, Ordering};
use tenon_gpu::GpuError;

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

/// The operators of joins, as labels name them, in the order of `join::Operator`.
pub const OPERATORS: [&str; 5] = ["ninlj", "inlj", "smj", "hj", "triton"];

/// Why the CPU had to do a join that the device had begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// There was too little memory, of the device or for what comes back from it.
    Memory,
    /// The device answers nothing any more.
    Lost,
    /// Its code did not compile.
    Code,
    Other,
}

impl Fallback {
    pub const ALL: [Self; 4] = [Self::Memory, Self::Lost, Self::Code, Self::Other];

    pub fn of(error: &GpuError) -> Self {
        match error {
            error if error.is_out_of_memory() => Self::Memory,
            error if error.is_lost() => Self::Lost,
            GpuError::Compile { .. } => Self::Code,
            _ => Self::Other,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Lost => "lost",
            Self::Code => "code",
            Self::Other => "other",
        }
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
    /// Those that the CPU had to do, by why.
    fallbacks: [Count; Fallback::ALL.len()],
    /// Joins by their operators, and whether the device ran them.
    joins: [[Count; 2]; OPERATORS.len()],
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
    fallbacks: [const { Count::new() }; Fallback::ALL.len()],
    joins: [const { [const { Count::new() }; 2] }; OPERATORS.len()],
    bytes_to_device: Count::new(),
    bytes_from_device: Count::new(),
    column_bytes: Count::new(),
    column_ns: Count::new(),
};

impl Counts {
    /// How many joins an operator has done, by its place in `OPERATORS`, on the device or the CPU.
    pub fn joins(&self, operator: usize, on_gpu: bool) -> &Count {
        &self.joins[operator][usize::from(on_gpu)]
    }

    pub fn fallbacks(&self, why: Fallback) -> &Count {
        &self.fallbacks[why as usize]
    }
}
