//! The join of partitions: launching its kernels for every mode.

use std::ops::Range;

use super::choice::CHUNKS_MAX;
use super::partition::{Layout, Partitioned};
use super::shape::JoinShape;
use crate::compile::{Program, Source};
use crate::error::Result;
use crate::join::{Residual, ResidualParams};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut};
use crate::stream::Stream;
use crate::{kernel_params, source};

kernel_params! {
    /// Which pieces of the probe tuples `from..to` meet which build tuples.
    struct WorkParams {
        build_offsets: DevicePtr<u32>,
        probe_offsets: DevicePtr<u32>,
        work: DevicePtrMut<[u32; 4]>,
        count: DevicePtrMut<u32>,
        from: u64,
        to: u64,
        skewed: DevicePtrMut<u64>,
        partitions: u32,
        capacity: u32,
        piece: u32,
        build_max: u32,
    }
}
kernel_params! {
    /// What a mode reads and writes; null pointers where it does not.
    pub(super) struct JoinParams {
        build: DevicePtr<u64>,
        probe: DevicePtr<u64>,
        work: DevicePtr<[u32; 4]>,
        work_count: DevicePtr<u32>,
        from: u64,
        counts: DevicePtrMut<u32>,
        offsets: DevicePtr<u64>,
        window_from: u64,
        window_to: u64,
        keys_out: DevicePtrMut<u8>,
        build_out: DevicePtrMut<u8>,
        probe_out: DevicePtrMut<u8>,
        capacity_out: u64,
        count_out: DevicePtrMut<u64>,
        sum_out: DevicePtrMut<u64>,
        build_flags: DevicePtrMut<u8>,
        probe_flags: DevicePtrMut<u8>,
        capacity: u32,
        slots_log2: u32,
        slot_shift: u32,
        unused: u32,
        residual: ResidualParams,
    }
}

static SOURCE: Source = source!("join_hash_partitioned.cu", WorkParams, JoinParams);

/// What a launch finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartitionJoinMode {
    Count = 0,
    Write = 1,
    Mark = 2,
    WriteAtOnce = 3,
    Aggregate = 4,
}

/// Both sides partitioned alike, and how they are joined.
pub(super) struct PartitionPair<'a> {
    pub build: &'a Partitioned,
    pub probe: &'a Partitioned,
    pub layout: Layout,
    pub shape: JoinShape,
    /// Types of the values as they come out.
    pub values: (&'static str, &'static str),
    pub residual: &'a Residual,
    /// Where to note that a build partition is of more than [`CHUNKS_MAX`] tables; its tuples then meet nobody.
    pub skewed: Option<DevicePtrMut<u64>>,
}

fn program(
    layout: Layout,
    shape: JoinShape,
    values: (&str, &str),
    residual: &Residual,
    mode: PartitionJoinMode,
) -> Program {
    residual
        .into_program(layout.define(Program::new(&SOURCE)))
        .define("BUILD_VALUE", values.0)
        .define("PROBE_VALUE", values.1)
        .define("MODE", mode as u32)
        .define("THREADS", shape.threads)
        .define("ITEMS", shape.items)
        .define("BLOCKS", shape.blocks)
}

/// Specialisations that the tests compile.
pub(super) fn programs() -> Vec<Program> {
    let condition = Residual::to_compile();
    let none = Residual::none();
    let mut programs = with_condition(&condition);
    programs.extend(with_condition(&none));
    let wide = layout("u64", true);
    programs.extend(MODES.map(|mode| program(wide, JoinShape::USUAL, ("u64", "u64"), &none, mode)));
    for key in ["u32", "u64"] {
        let layout = layout(key, key == "u64");
        programs.push(program(
            layout,
            JoinShape::USUAL,
            ("u32", "u32"),
            &none,
            PartitionJoinMode::Aggregate,
        ));
    }
    programs
}

const MODES: [PartitionJoinMode; 5] = [
    PartitionJoinMode::Count,
    PartitionJoinMode::Write,
    PartitionJoinMode::Mark,
    PartitionJoinMode::WriteAtOnce,
    PartitionJoinMode::Aggregate,
];

fn layout(key: &'static str, wide: bool) -> Layout {
    Layout {
        key,
        wide,
        equal_hashes: false,
    }
}

/// Specialisations with this condition: the values are row numbers.
pub(super) fn with_condition(residual: &Residual) -> Vec<Program> {
    let pairs = MODES.into_iter().filter(|mode| *mode != PartitionJoinMode::Aggregate);
    let of = |mode| {
        ["u32", "u64"].map(|key| {
            let layout = layout(key, key == "u64");
            program(layout, JoinShape::USUAL, ("u32", "u32"), residual, mode)
        })
    };
    pairs.flat_map(of).collect()
}

impl JoinParams {
    /// Nothing is written.
    pub fn none() -> JoinParams {
        JoinParams {
            build: DevicePtr::null(),
            probe: DevicePtr::null(),
            work: DevicePtr::null(),
            work_count: DevicePtr::null(),
            from: 0,
            counts: DevicePtrMut::null(),
            offsets: DevicePtr::null(),
            window_from: 0,
            window_to: 0,
            keys_out: DevicePtrMut::null(),
            build_out: DevicePtrMut::null(),
            probe_out: DevicePtrMut::null(),
            capacity_out: 0,
            count_out: DevicePtrMut::null(),
            sum_out: DevicePtrMut::null(),
            build_flags: DevicePtrMut::null(),
            probe_flags: DevicePtrMut::null(),
            capacity: 0,
            slots_log2: 0,
            slot_shift: 0,
            unused: 0,
            residual: ResidualParams::none(),
        }
    }
}

impl PartitionPair<'_> {
    /// Bytes of shared memory of a block: tuples, heads and lists, and what counting groups takes. Sums have 8 bytes
    /// where values have less.
    fn shared_bytes(&self, mode: PartitionJoinMode) -> u32 {
        let tuple_bytes = self.layout.tuple_bytes() as u32;
        let a_tuple = match mode {
            PartitionJoinMode::Count | PartitionJoinMode::Mark if self.residual.is_none() => tuple_bytes + 4,
            PartitionJoinMode::Count
            | PartitionJoinMode::Mark
            | PartitionJoinMode::Write
            | PartitionJoinMode::WriteAtOnce => tuple_bytes,
            PartitionJoinMode::Aggregate => tuple_bytes / 2 + 8,
        };
        let links = self.shape.capacity.next_multiple_of(2) * 2;
        self.shape.capacity * a_tuple + links + (4 << self.shape.slots_log2())
    }

    /// The shape for a mode: if two blocks do not find room beside each other, one of twice as many threads.
    fn shape_for(&self, mode: PartitionJoinMode) -> JoinShape {
        const HALF_BYTES: u32 = 113 << 10;
        let shape = self.shape;
        if self.shared_bytes(mode) <= HALF_BYTES || shape.threads > 512 || shape.items % 2 == 1 {
            return shape;
        }
        JoinShape {
            threads: shape.threads * 2,
            items: shape.items / 2,
            blocks: 1,
            ..shape
        }
    }

    /// Joins the probe tuples at these positions.
    ///
    /// # Safety
    /// What `params` points to fits the mode: counts and offsets cover the positions, outputs the window or
    /// `capacity_out`, flags the rows that the values name; the residual's buffers its rows.
    pub unsafe fn run(
        &self,
        stream: &Stream,
        mode: PartitionJoinMode,
        positions: Range<u64>,
        params: JoinParams,
    ) -> Result<()> {
        let shape = self.shape_for(mode);
        let program = program(self.layout, shape, self.values, self.residual, mode);
        let module = stream.device().load(&program)?;
        let partitions = 1u32 << self.build.bits;
        let rows = positions.end - positions.start;
        // A partition's last piece may be short, and a partition larger than the table is cut into tiles.
        let work_max = rows.div_ceil(self.shape.tile() as u64) + partitions as u64;
        let mut work = stream.alloc::<[u32; 4]>(work_max)?;
        let mut work_count = stream.alloc_zeroed::<u32>(1)?;
        let planning = WorkParams {
            build_offsets: self.build.offsets.ptr(),
            probe_offsets: self.probe.offsets.ptr(),
            work: work.ptr_mut(),
            count: work_count.ptr_mut(),
            from: positions.start,
            to: positions.end,
            skewed: self.skewed.unwrap_or(DevicePtrMut::null()),
            partitions,
            capacity: self.shape.capacity,
            piece: self.shape.tile() * self.shape.tiles,
            build_max: CHUNKS_MAX as u32 * self.shape.capacity,
        };
        let plan = module.kernel::<WorkParams>("partition_work")?;
        // SAFETY: offsets of `partitions` partitions; room for as much work as there may be.
        unsafe { plan.launch(stream, &LaunchConfig::cover(partitions as u64, 256, 256)?, &planning)? };
        let params = JoinParams {
            build: self.build.tuples.ptr(),
            probe: self.probe.tuples.ptr(),
            work: work.ptr(),
            work_count: work_count.ptr(),
            from: positions.start,
            capacity: self.shape.capacity,
            slots_log2: self.shape.slots_log2(),
            slot_shift: (32 - self.build.bits).saturating_sub(self.shape.slots_log2()),
            residual: self.residual.params()?,
            ..params
        };
        let config = LaunchConfig::cover(work_max, 1, shape.threads)?.shared(self.shared_bytes(mode));
        // SAFETY: the caller's promise; work lies within both sides.
        unsafe { module.kernel::<JoinParams>("join")?.launch(stream, &config, &params) }
    }
}
