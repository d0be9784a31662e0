//! The radix-partitioned hash join as a [`Matcher`]: both sides are partitioned by hash until a partition's build rows
//! fit a table in shared memory (He 2008, section 4.3).
//!
//! Memory: 8 bytes a row of both sides with 32-bit keys, 16 with 64-bit keys, and as much again of one side while it is
//! partitioned in two passes.

use std::ops::Range;

use super::choice::CHUNKS_MAX;
use super::materialised::Column;
use super::partition::{Layout, Partitioned, partition_tuples};
use super::shape::{HashOptions, JoinShape};
use super::table_join::{check_len, flag_pointer};
use super::work::{JoinParams, PartitionJoinMode, PartitionPair};
use crate::error::{GpuError, Result};
use crate::join::{Flags, Matcher, PairsMut, Residual, Side};
use crate::memory::{DevicePtrMut, DeviceView, DeviceViewMut};
use crate::stream::Stream;

/// Both sides partitioned; positions are the probe rows in order of partition.
pub struct PartitionedJoin {
    build: Partitioned,
    probe: Partitioned,
    layout: Layout,
    shape: JoinShape,
    residual: Residual,
    rows: (u64, u64),
}

impl PartitionedJoin {
    /// Partitions both sides.
    pub fn new(
        stream: &Stream,
        build: Side<'_>,
        probe: Side<'_>,
        residual: Residual,
        options: &HashOptions,
    ) -> Result<PartitionedJoin> {
        if build.keys.width() != probe.keys.width() {
            return Err(GpuError::Invalid("join keys of different widths".into()));
        }
        let (layout, shape, passes) = options.plan(build.keys, false);
        let partition = |side: Side<'_>| {
            let rows = side.rows.map(Column::U32);
            partition_tuples(stream, layout, side.keys, rows, &passes)
        };
        Ok(PartitionedJoin {
            build: partition(build)?,
            probe: partition(probe)?,
            layout,
            shape,
            residual,
            rows: (build.row_count, probe.row_count),
        })
    }

    /// Whether so many build rows fall into one partition that its tables would be built again and again. Waits for
    /// the device.
    pub fn is_skewed(&self, stream: &Stream) -> Result<bool> {
        Ok(self.build.largest(stream)? > CHUNKS_MAX * self.shape.capacity as u64)
    }

    fn run(
        &self,
        stream: &Stream,
        mode: PartitionJoinMode,
        positions: Range<u64>,
        mut flags: Flags<'_>,
        params: JoinParams,
    ) -> Result<()> {
        if positions.end > self.probe.items || positions.start > positions.end {
            return Err(GpuError::OutOfRange {
                start: positions.start,
                end: positions.end,
                len: self.probe.items,
            });
        }
        let params = JoinParams {
            build_flags: flag_pointer(&mut flags.build, self.rows.0)?,
            probe_flags: flag_pointer(&mut flags.probe, self.rows.1)?,
            ..params
        };
        let pair = PartitionPair {
            build: &self.build,
            probe: &self.probe,
            layout: self.layout,
            shape: self.shape,
            values: ("u32", "u32"),
            residual: &self.residual,
            skewed: None,
        };
        // SAFETY: the callers' checks of lengths; flags were checked above.
        unsafe { pair.run(stream, mode, positions, params) }
    }
}

impl Matcher for PartitionedJoin {
    fn positions(&self) -> u64 {
        self.probe.items
    }

    fn count(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        mut counts: DeviceViewMut<'_, u32>,
        flags: Flags<'_>,
    ) -> Result<()> {
        check_len("counts", counts.len(), positions.end.saturating_sub(positions.start))?;
        stream.set_bytes(counts.reborrow(), 0)?;
        let params = JoinParams {
            counts: counts.ptr_mut(),
            ..JoinParams::none()
        };
        self.run(stream, PartitionJoinMode::Count, positions, flags, params)
    }

    fn write(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        offsets: DeviceView<'_, u64>,
        window: Range<u64>,
        mut pairs: PairsMut<'_>,
    ) -> Result<()> {
        check_len(
            "offsets",
            offsets.len(),
            positions.end.saturating_sub(positions.start) + 1,
        )?;
        let len = window.end.saturating_sub(window.start);
        check_len("pairs", pairs.build_rows.len().min(pairs.probe_rows.len()), len)?;
        let params = JoinParams {
            offsets: offsets.ptr(),
            window_from: window.start,
            window_to: window.end,
            build_out: DevicePtrMut::new(pairs.build_rows.ptr_mut().0),
            probe_out: DevicePtrMut::new(pairs.probe_rows.ptr_mut().0),
            ..JoinParams::none()
        };
        self.run(stream, PartitionJoinMode::Write, positions, Flags::default(), params)
    }

    fn mark(&self, stream: &Stream, positions: Range<u64>, flags: Flags<'_>) -> Result<()> {
        self.run(stream, PartitionJoinMode::Mark, positions, flags, JoinParams::none())
    }

    fn write_at_once(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        mut pairs: PairsMut<'_>,
        mut count: DeviceViewMut<'_, u64>,
        flags: Flags<'_>,
    ) -> Result<bool> {
        check_len("counts", count.len(), 1)?;
        let params = JoinParams {
            build_out: DevicePtrMut::new(pairs.build_rows.ptr_mut().0),
            probe_out: DevicePtrMut::new(pairs.probe_rows.ptr_mut().0),
            capacity_out: pairs.build_rows.len().min(pairs.probe_rows.len()),
            count_out: count.ptr_mut(),
            ..JoinParams::none()
        };
        self.run(stream, PartitionJoinMode::WriteAtOnce, positions, flags, params)?;
        Ok(true)
    }
}
