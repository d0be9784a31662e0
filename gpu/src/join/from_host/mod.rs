//! Joins of columns in host memory whose results go back to it, as fast as the bus allows.
//!
//! ```text
//! arrivals     build | chunk 0 | chunk 1 | chunk 2 | ...
//! kernels            | prepare | join 0  | join 1  | ...
//! departures                             | rows 0  | rows 1 | ...
//! ```
//!
//! The build side crosses the bus first and is made ready (sorted, partitioned, put into a table) while the first chunks
//! of the probe side arrive; from then on one chunk arrives, one is joined and the rows of one leave at the same time.
//! Copies are put into streams of their own ahead of time, so that the bus never waits for the host, and counts are read
//! by kernels instead of copies, which would queue behind results. Chunks are small at both ends, where nothing overlaps.
//!
//! Memory: the build side's columns until it is ready, its state, three chunks of the probe side, and the rows of four.
//! Copies run at the bus's full rate from and to pinned or registered memory.
//!
//! | what | where |
//! | --- | --- |
//! | pairs of rows, by any operator | [`pairs_from_host`] |
//! | a hash join's rows with a payload a side | [`materialised_from_host`] |

mod arrivals;
mod chunks;
mod columns;
mod departures;
mod materialised;
mod pairs;

pub use columns::{DeviceSide, HostColumn};
pub use materialised::{MaterialisedRows, materialised_from_host};
pub use pairs::{HostPairs, pairs_from_host};

/// How inputs are cut.
#[derive(Clone, Copy, Debug)]
pub struct FromHostOptions {
    /// Probe rows that are on one way at a time.
    pub chunk_rows: u64,
}

impl Default for FromHostOptions {
    /// Copies of 16 MiB run at the full rate of the bus.
    fn default() -> Self {
        FromHostOptions { chunk_rows: 4 << 20 }
    }
}
