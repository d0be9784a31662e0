//! Hash joins of one key and one payload column a side, without row numbers.
//!
//! ```sql
//! SELECT key, build.value, probe.value FROM build JOIN probe USING (key)
//! ```
//!
//! Payloads travel with their keys through the partitioning: a payload of 4 or 8 bytes moved along costs less than a
//! row number moved along and a gather at random afterwards.

use super::partition::PartitionShape;
use super::partition::{Layout, Partitioned, partition_tuples};
use super::shape::{HashOptions, JoinShape};
use super::work::{JoinParams, PartitionJoinMode, PartitionPair};
use crate::error::{GpuError, Result};
use crate::join::{Keys, Residual};
use crate::memory::DeviceBuffer;
use crate::primitives::read::read;
use crate::stream::Stream;

/// A column of 4 or 8 bytes.
pub type Column<'a> = Keys<'a>;

/// Rows of a join in no order: each buffer has the bytes of its column.
pub struct Materialised {
    pub keys: DeviceBuffer<u8>,
    pub build_values: DeviceBuffer<u8>,
    pub probe_values: DeviceBuffer<u8>,
    pub rows: u64,
}

/// The build side of joins of columns, partitioned; any number of probe sides join it, such as chunks of one.
pub struct BuildColumns {
    build: Partitioned,
    layout: Layout,
    shape: JoinShape,
    passes: Vec<PartitionShape>,
    values: (&'static str, &'static str),
    residual: Residual,
}

impl BuildColumns {
    /// Partitions key and payload. `probe_wide`: the probe sides' payloads have 8 bytes.
    pub fn new(
        stream: &Stream,
        build: (Column<'_>, Column<'_>),
        probe_wide: bool,
        options: &HashOptions,
    ) -> Result<BuildColumns> {
        check_lens(build)?;
        let wide = build.1.width() == 8 || probe_wide;
        let (layout, shape, passes) = options.plan(build.0, wide);
        Ok(BuildColumns {
            build: partition_tuples(stream, layout, build.0, Some(build.1), &passes)?,
            layout,
            shape,
            passes,
            values: (build.1.c_name(), if probe_wide { "u64" } else { "u32" }),
            residual: Residual::none(),
        })
    }

    /// Partitions a probe side alike.
    pub(super) fn partition(&self, stream: &Stream, probe: (Column<'_>, Column<'_>)) -> Result<Partitioned> {
        check_lens(probe)?;
        if (probe.0.c_name(), probe.1.c_name()) != (self.layout.key, self.values.1) {
            return Err(GpuError::Invalid(format!(
                "probe columns {} and {} of a join of {} and {}",
                probe.0.c_name(),
                probe.1.c_name(),
                self.layout.key,
                self.values.1
            )));
        }
        partition_tuples(stream, self.layout, probe.0, Some(probe.1), &self.passes)
    }

    pub(super) fn pair<'a>(&'a self, probe: &'a Partitioned) -> PartitionPair<'a> {
        PartitionPair {
            build: &self.build,
            probe,
            layout: self.layout,
            shape: self.shape,
            values: self.values,
            residual: &self.residual,
            skewed: None,
        }
    }

    /// Joins and writes key and payloads of every pair. `rows_expected` sizes the output (none: the probe rows); if
    /// more come out, the join of partitions runs again.
    pub fn join(
        &self,
        stream: &Stream,
        probe: (Column<'_>, Column<'_>),
        rows_expected: Option<u64>,
    ) -> Result<Materialised> {
        let partitioned = self.partition(stream, probe)?;
        let widths = [probe.0.width(), width(self.values.0), probe.1.width()];
        let mut capacity = rows_expected.unwrap_or(probe.0.len()).max(1);
        loop {
            let [mut keys, mut build_values, mut probe_values] = [
                stream.alloc::<u8>(capacity * widths[0])?,
                stream.alloc::<u8>(capacity * widths[1])?,
                stream.alloc::<u8>(capacity * widths[2])?,
            ];
            let mut count = stream.alloc_zeroed::<u64>(1)?;
            let params = JoinParams {
                keys_out: keys.ptr_mut(),
                build_out: build_values.ptr_mut(),
                probe_out: probe_values.ptr_mut(),
                capacity_out: capacity,
                count_out: count.ptr_mut(),
                ..JoinParams::none()
            };
            // SAFETY: outputs of `capacity_out` elements of their types.
            unsafe {
                self.pair(&partitioned)
                    .run(stream, PartitionJoinMode::WriteAtOnce, 0..probe.0.len(), params)?
            };
            let rows = read(stream, count.view())?[0];
            if rows > capacity {
                capacity = rows;
                continue;
            }
            keys.truncate(rows * widths[0]);
            build_values.truncate(rows * widths[1]);
            probe_values.truncate(rows * widths[2]);
            return Ok(Materialised {
                keys,
                build_values,
                probe_values,
                rows,
            });
        }
    }
}

fn check_lens((keys, values): (Column<'_>, Column<'_>)) -> Result<()> {
    if keys.len() == values.len() {
        return Ok(());
    }
    Err(GpuError::Invalid(format!(
        "a join of {} keys of {} bytes with {} values",
        keys.len(),
        keys.width(),
        values.len()
    )))
}

/// Bytes of a column's type.
fn width(c_name: &str) -> u64 {
    if c_name == "u32" { 4 } else { 8 }
}

/// Joins and writes key and payloads of every pair: see [`BuildColumns::join`].
pub fn join_materialised(
    stream: &Stream,
    build: (Column<'_>, Column<'_>),
    probe: (Column<'_>, Column<'_>),
    rows_expected: Option<u64>,
    options: &HashOptions,
) -> Result<Materialised> {
    BuildColumns::new(stream, build, probe.1.width() == 8, options)?.join(stream, probe, rows_expected)
}
