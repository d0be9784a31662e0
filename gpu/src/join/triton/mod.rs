//! The Triton join: a hash join whose state may be larger than device memory (Lutz 2022).
//!
//! ```sql
//! SELECT ... FROM build JOIN probe ON build.key = probe.key [AND residual]
//! SELECT count(*), sum(build.value * probe.value) FROM build JOIN probe USING (key)
//! ```
//!
//! Both inputs lie in host memory, as a key column and a value column (payloads or row numbers), and cross the bus in
//! chunks by the copy engine while kernels work on the chunk before:
//!
//! ```text
//!          chunk of build rows                     chunk of probe rows             pair of spilled partitions
//!   host ---------------------> device      host ------------------> device     host ---------> device
//!             | partition cached: insert into the table  | look up in the table       | build rows: link into a table
//!             | else: run of its partition               | partition has spilled      | probe rows: look up there
//!             v                                          v build rows: run            v
//!   host <--- runs, one copy a chunk        host <---- runs, and pairs          host <---- pairs
//! ```
//!
//! It is a hybrid hash join: partitions by the low bits of the hash (or by ranges of keys, where keys are dense), of
//! which as many as the budget allows are cached on the device. The paper caches a share of every partition and joins
//! after both sides are partitioned; here whole partitions are cached, in a table that probe rows meet as they come, so
//! that probe rows of cached partitions need no room and no second way over the bus, and all work hides behind the
//! copies of the inputs. No array lies partly here and partly there, so that the paper's virtual range of interleaved
//! pages of both memories has nothing to map; what is cached is as fine as a share of one partition. Spilled rows leave
//! as one run a partition and chunk, ordered within device memory, whose random writes are cheap where those over the
//! bus are not.
//!
//! The cached table takes 32 rows of a key, or one where it is an array. Once a row finds no place though memory holds
//! all build rows, the build begins anew with a chained table, which takes any number of equal keys. Where memory does
//! not hold them, such a row is spilled, too, and its partition is *mixed*: its probe rows meet the table, and are spilled
//! to meet the rest. So any skew gives right answers; a partition larger than a pair's table is joined part by part.
//!
//! Limits: 2^32 - 2 rows a side, as row numbers and places in tables have 32 bits; more are an error.
//!
//! Memory on the device: one allocation of at most the budget, taken before anything runs. On the host: pinned room for
//! the spilled rows, taken as far as it is foreseen, and bounded by the device's budget for pinned memory and by the
//! caller.
//!
//! | what | where |
//! | --- | --- |
//! | inputs | [`HostSide`] |
//! | results | [`Wanted`], [`TritonOutput`] |
//! | cancellation, host memory | [`Caller`] |
//! | sizes, fan-out, cached share | `plan` |
//! | chunks on their way in: by the copy engine, or gathered from short runs | `feed` |
//! | build, probe and pairs, one after the other | `phases` |
//! | kernels on a chunk; spilled rows that leave; pairs that leave | `chunk`; `spill_out`, `spill`; `emit` |
//! | pairs of spilled partitions | `pairs` |
//! | partitioners that write over the bus, to compare with | [`partition`] |
//! | all together | [`triton_join`] |

mod arena;
mod caller;
mod chunk;
mod emit;
mod feed;
mod output;
mod pairs;
pub mod partition;
mod phases;
mod plan;
mod programs;
mod run;
mod side;
mod spill;
mod spill_out;

pub use caller::Caller;
pub use output::{TritonOutput, Wanted, Words};
pub use phases::Phases;
pub use plan::PARTITIONS_MAX;
pub use programs::TableKind;
pub use run::{TritonResult, triton_join};
pub use side::{HostKeys, HostSide, HostValues};

/// Specialisations that the tests compile.
pub fn programs() -> Vec<crate::compile::Program> {
    [programs::programs(), partition::programs()].concat()
}

/// A range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub min: u64,
    /// Keys from `min` on.
    pub count: u64,
}

/// How a join works, beyond what follows from its inputs.
#[derive(Clone, Debug, Default)]
pub struct TritonOptions {
    /// Device memory that it may take; none: all that the pool has.
    pub memory_bytes: Option<u64>,
    /// Where all build keys lie, if that is known: where they are dense, the table is an array.
    pub key_range: Option<KeyRange>,
    /// Table of cached rows, instead of the one chosen. A chained one, if it holds all build rows.
    pub table: Option<TableKind>,
    /// Rows of a chunk, instead of as many as copy at full speed.
    pub chunk_rows: Option<u64>,
    /// Fan-out of the first pass, instead of the one chosen.
    pub partitions: Option<u32>,
    /// Columns of spilled runs below this length come back by a kernel instead of the copy engine, if it is not to be
    /// chosen; 0: none do.
    pub gather_below_bytes: Option<u64>,
    /// Gives all keys one hash, to test what depends on their spread.
    pub equal_hashes: bool,
}

/// Those that test this condition.
pub(super) fn with_condition(residual: &super::Residual) -> Vec<crate::compile::Program> {
    programs::with_condition(residual)
}
