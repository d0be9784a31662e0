//! Hash joins of one key and one payload column a side, without row numbers.
//!
//! ```sql
//! SELECT key, build.value, probe.value FROM build JOIN probe USING (key)
//! ```
//!
//! Payloads travel with their keys through the partitioning: a payload of 4 or 8 bytes moved along costs less than a
//! row number moved along and a gather at random afterwards.

use super::partition::{Layout, Partitioned, partition_tuples};
use super::shape::{HashOptions, JoinShape, usual_passes};
use super::work::{JoinParams, Mode, PartitionPair};
use crate::error::{GpuError, Result};
use crate::join::{Keys, Residual};
use crate::memory::DeviceBuffer;
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

/// Both sides partitioned alike.
pub(super) struct Sides {
    pub build: Partitioned,
    probe: Partitioned,
    layout: Layout,
    pub shape: JoinShape,
    values: (&'static str, &'static str),
    residual: Residual,
}

impl Sides {
    pub fn new(
        stream: &Stream,
        build: (Column<'_>, Column<'_>),
        probe: (Column<'_>, Column<'_>),
        options: &HashOptions,
    ) -> Result<Sides> {
        for (keys, values) in [build, probe] {
            if keys.len() != values.len() || keys.width() != build.0.width() {
                return Err(GpuError::Invalid(format!(
                    "a join of {} keys of {} bytes with {} values",
                    keys.len(),
                    keys.width(),
                    values.len()
                )));
            }
        }
        let layout = Layout {
            key: build.0.c_name(),
            wide: [build.0, build.1, probe.1].iter().any(|column| column.width() == 8),
            equal_hashes: options.equal_hashes,
        };
        let shape = options.join.unwrap_or(JoinShape::USUAL);
        let bits = shape.partition_bits(build.0.len());
        let usual = || usual_passes(bits, layout.tuple_bytes());
        let passes = options.passes.clone().unwrap_or_else(usual);
        Ok(Sides {
            build: partition_tuples(stream, layout, build.0, Some(build.1), &passes)?,
            probe: partition_tuples(stream, layout, probe.0, Some(probe.1), &passes)?,
            layout,
            shape,
            values: (build.1.c_name(), probe.1.c_name()),
            residual: Residual::none(),
        })
    }

    pub fn pair(&self) -> PartitionPair<'_> {
        PartitionPair {
            build: &self.build,
            probe: &self.probe,
            layout: self.layout,
            shape: self.shape,
            values: self.values,
            residual: &self.residual,
        }
    }
}

/// Joins and writes key and payloads of every pair. `rows_expected` sizes the output (none: the probe rows); if more
/// come out, the join of partitions runs again.
pub fn join_materialised(
    stream: &Stream,
    build: (Column<'_>, Column<'_>),
    probe: (Column<'_>, Column<'_>),
    rows_expected: Option<u64>,
    options: &HashOptions,
) -> Result<Materialised> {
    let sides = Sides::new(stream, build, probe, options)?;
    let mut capacity = rows_expected.unwrap_or(probe.0.len()).max(1);
    loop {
        let mut keys = stream.alloc::<u8>(capacity * build.0.width())?;
        let mut build_values = stream.alloc::<u8>(capacity * build.1.width())?;
        let mut probe_values = stream.alloc::<u8>(capacity * probe.1.width())?;
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
        unsafe { sides.pair().run(stream, Mode::WriteAtOnce, 0..probe.0.len(), params)? };
        let rows = stream.download(count.view())?[0];
        if rows > capacity {
            capacity = rows;
            continue;
        }
        keys.truncate(rows * build.0.width());
        build_values.truncate(rows * build.1.width());
        probe_values.truncate(rows * probe.1.width());
        return Ok(Materialised {
            keys,
            build_values,
            probe_values,
            rows,
        });
    }
}
