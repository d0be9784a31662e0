//! The crate's error: which of user, machine, resources or our own code is at fault stays distinct.

/// Codes of the CUDA driver after which a context is of no more use: devices that are gone or unavailable, and faults
/// that its documentation calls sticky (memory errors, illegal addresses and instructions, timeouts, failed launches).
const LOST_CODES: &[u32] = &[
    4, 46, 101, 201, 214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 999,
];

/// What can go wrong with a device.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// There is no usable device; the text says exactly why.
    #[error("no GPU: {0}")]
    NoDevice(String),
    /// The device budget does not hold the request. An ordinary result: plan smaller, or use the CPU.
    #[error(
        "out of GPU memory: {requested_bytes} bytes asked for, {in_use_bytes} of {budget_bytes} in use \
         ({reserved_bytes} reserved){detail}"
    )]
    OutOfMemory {
        requested_bytes: u64,
        in_use_bytes: u64,
        reserved_bytes: u64,
        budget_bytes: u64,
        detail: String,
    },
    /// The budget of pinned host memory does not hold the request. As ordinary as the device's.
    #[error("out of pinned memory: {requested_bytes} bytes asked for, {mapped_bytes} of {budget_bytes} in use")]
    OutOfPinnedMemory {
        requested_bytes: u64,
        mapped_bytes: u64,
        budget_bytes: u64,
    },
    /// A kernel source did not compile. The log shows the source lines.
    #[error("kernel source {program} does not compile:\n{log}")]
    Compile { program: String, log: String },
    /// A kernel failed while running: out of bounds, a trap, a deadlock.
    #[error("kernel {kernel} failed: {message}")]
    Kernel { kernel: String, message: String },
    /// The driver refused a call.
    #[error("{call} failed: {name} ({code}): {message}")]
    Driver {
        call: &'static str,
        code: u32,
        name: String,
        message: String,
    },
    /// A view of a buffer at an address that its element type does not allow.
    #[error("misaligned view: offset of {offset_bytes} bytes is no multiple of {align_bytes}")]
    Misaligned { offset_bytes: u64, align_bytes: u64 },
    /// A range outside of a buffer.
    #[error("range {start}..{end} is outside of a buffer of {len} elements")]
    OutOfRange { start: u64, end: u64, len: u64 },
    /// A request that makes no sense: lengths that differ, an empty block, a kernel that does not exist.
    #[error("{0}")]
    Invalid(String),
    /// A pipeline met a row of which it cannot tell a value: overflow, or more partners than are tried.
    #[error("a row has no value")]
    RowFailed,
    /// A pipeline made more rows than its table has room for.
    #[error("a table is full")]
    TableFull,
    /// Whoever asked for the work has no host memory for its results.
    #[error("{0}")]
    OutOfHostMemory(String),
    /// The device answers nothing any more.
    #[error("the GPU is lost: {0}")]
    Lost(String),
    /// Whoever asked for the work no longer wants it.
    #[error("cancelled")]
    Cancelled,
    /// The file system or the memory of the host.
    #[error("{context}: {source}")]
    Io { context: String, source: std::io::Error },
}

impl GpuError {
    /// Whether trying with less memory, or on the CPU, is the sensible answer.
    pub fn is_out_of_memory(&self) -> bool {
        use GpuError::*;
        matches!(self, OutOfMemory { .. } | OutOfPinnedMemory { .. } | OutOfHostMemory(_))
    }

    /// Whether every later call will fail, too: a fault in a kernel takes its whole context along.
    pub fn is_lost(&self) -> bool {
        match self {
            GpuError::Lost(_) => true,
            GpuError::Driver { code, .. } => LOST_CODES.contains(code),
            _ => false,
        }
    }

    pub(crate) fn io(context: impl Into<String>, source: std::io::Error) -> GpuError {
        GpuError::Io {
            context: context.into(),
            source,
        }
    }
}

/// Result with the crate's error.
pub type Result<T, E = GpuError> = std::result::Result<T, E>;
