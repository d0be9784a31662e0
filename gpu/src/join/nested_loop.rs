//! Nested-loop join without index (NINLJ; He 2008, section 4.1).
//!
//! ```sql
//! SELECT ... FROM build JOIN probe ON anything
//! ```
//!
//! A block compares some thousand probe rows, in registers, with a slice of the build side that passes through shared
//! memory. Equal keys are tested first where there are any; the rest of the condition is compiled in. Without a
//! condition it is the cross join. The work of a step is its positions times all build rows, so steps are bounded by that.
//! Memory: 4 bytes for each position and slice.

use std::ops::Range;

use super::matcher::{Flags, Matcher, PairsMut};
use super::residual::{Residual, ResidualParams};
use super::side::{Keys, Side};
use super::spans::pointer;
use super::step::LastStep;
use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

/// Comparisons of one step: a tenth of a second on a large GPU.
const COMPARISONS_MAX: u64 = 1 << 40;

kernel_params! {
    struct NestedLoopParams {
        build_keys: DevicePtr<u8>,
        build_rows: DevicePtr<u32>,
        build_items: u64,
        slice_items: u64,
        probe_keys: DevicePtr<u8>,
        probe_rows: DevicePtr<u32>,
        first_row: u64,
        positions: u64,
        partials: DevicePtrMut<u32>,
        offsets: DevicePtr<u64>,
        window_start: u64,
        window_end: u64,
        build_out: DevicePtrMut<u32>,
        probe_out: DevicePtrMut<u32>,
        total: DevicePtrMut<u64>,
        build_flags: DevicePtrMut<u8>,
        probe_flags: DevicePtrMut<u8>,
        residual: ResidualParams,
    }
}
kernel_params! {
    struct FoldParams {
        partials: DevicePtrMut<u32>,
        slices: u64,
        positions: u64,
        counts: DevicePtrMut<u32>,
    }
}

static SOURCE: Source = source!("join_nested_loop.cu", NestedLoopParams, FoldParams, ResidualParams);

/// What happens to the pairs; the numbers are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NestedLoopMode {
    Write = 0,
    Count = 1,
    AtOnce = 2,
    Mark = 3,
}

fn program(key: Option<&str>, probes: u32, mode: NestedLoopMode, residual: &Residual) -> Program {
    let program = Program::new(&SOURCE)
        .define("HAS_KEY", key.is_some() as u32)
        .define("KEY", key.unwrap_or("u32"))
        .define("PROBES", probes)
        .define("MODE", mode as u32);
    residual.into_program(program)
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    let some = Residual::to_compile();
    let mut programs = with_condition(&some);
    programs.extend(with_condition(&Residual::none()));
    programs
}

/// Specialisations with this condition.
pub(super) fn with_condition(residual: &Residual) -> Vec<Program> {
    let modes = [
        NestedLoopMode::Write,
        NestedLoopMode::Count,
        NestedLoopMode::AtOnce,
        NestedLoopMode::Mark,
    ];
    let shapes = [(Some("u32"), 8), (Some("u64"), 4), (None, 4), (Some("u32"), 1)];
    let of = |(key, probes)| modes.map(|mode| program(key, probes, mode, residual));
    shapes.into_iter().flat_map(of).collect()
}

/// The rows of one input, without keys.
#[derive(Clone, Copy)]
pub struct UnkeyedSide<'a> {
    /// `None`: rows `0..len`.
    pub rows: Option<DeviceView<'a, u32>>,
    pub len: u64,
}

impl<'a> From<Side<'a>> for UnkeyedSide<'a> {
    fn from(side: Side<'a>) -> Self {
        UnkeyedSide {
            rows: side.rows,
            len: side.keys.len(),
        }
    }
}

/// Nested loops: every probe row with every build row.
pub struct NestedLoopMatcher<'a> {
    keys: Option<(Keys<'a>, Keys<'a>)>,
    build: UnkeyedSide<'a>,
    probe: UnkeyedSide<'a>,
    residual: Residual,
    /// What the last step counted, for its writes: pairs of each slice and position before the slice; none with one
    /// slice.
    step: LastStep<Option<DeviceBuffer<u32>>>,
}

/// How a step is cut.
#[derive(Clone, Copy)]
struct Cut {
    probes: u32,
    slices: u64,
    slice_items: u64,
    config: LaunchConfig,
}

impl<'a> NestedLoopMatcher<'a> {
    /// Equal keys, and the residual condition.
    pub fn equal(build: Side<'a>, probe: Side<'a>, residual: Residual) -> Result<NestedLoopMatcher<'a>> {
        if build.keys.width() != probe.keys.width() {
            return Err(GpuError::Invalid(format!(
                "a join of {} with {}",
                build.keys.c_name(),
                probe.keys.c_name()
            )));
        }
        Ok(NestedLoopMatcher {
            keys: Some((build.keys, probe.keys)),
            build: build.into(),
            probe: probe.into(),
            residual,
            step: LastStep::default(),
        })
    }

    /// The residual condition alone; none gives the cross join.
    pub fn condition(
        build: UnkeyedSide<'a>,
        probe: UnkeyedSide<'a>,
        residual: Residual,
    ) -> Result<NestedLoopMatcher<'a>> {
        for side in [build, probe] {
            let named = side.rows.map_or(side.len, |rows| rows.len());
            if named != side.len || side.len >= u32::MAX as u64 {
                return Err(GpuError::Invalid(format!(
                    "a join side of {} rows with {named} row numbers",
                    side.len
                )));
            }
        }
        Ok(NestedLoopMatcher {
            keys: None,
            build,
            probe,
            residual,
            step: LastStep::default(),
        })
    }

    fn key_name(&self) -> Option<&'static str> {
        self.keys.map(|(build, _)| build.c_name())
    }

    /// Probe rows of a thread: more share one read of a build key, and need more probe rows to fill a block.
    fn cut(&self, stream: &Stream, items: u64) -> Result<Cut> {
        let threads = tuning::NESTED_THREADS;
        let most = match self.keys {
            Some((Keys::U32(_), _)) => 8,
            _ => 4,
        };
        let probes = if items <= threads as u64 { 1 } else { most };
        let mut config = LaunchConfig::cover(items, threads as u64 * probes as u64, threads)?;
        let tiles = self.build.len.div_ceil(tuning::NESTED_TILE as u64).max(1);
        // Several blocks for each that is resident, so that those which end late are a small part.
        let wanted = stream.device().info().multiprocessors as u64 * tuning::NESTED_BLOCKS as u64;
        let slices = wanted
            .div_ceil(config.blocks().max(1))
            .clamp(1, tiles.min(u16::MAX as u64));
        let slice_items = tiles.div_ceil(slices) * tuning::NESTED_TILE as u64;
        let slices = self.build.len.div_ceil(slice_items).max(1);
        config.grid.1 = slices as u32;
        Ok(Cut {
            probes,
            slices,
            slice_items,
            config,
        })
    }

    fn params(&self, positions: &Range<u64>, cut: Cut, flags: &mut Flags<'_>) -> Result<NestedLoopParams> {
        let probe_keys = self.keys.map(|(_, probe)| probe.slice(positions.clone())).transpose()?;
        let probe_rows = self.probe.rows.map(|rows| rows.slice(positions.clone())).transpose()?;
        let flag = |flags: &mut Option<DeviceViewMut<'_, u8>>| {
            flags.as_mut().map_or(DevicePtrMut::null(), |flags| flags.ptr_mut())
        };
        Ok(NestedLoopParams {
            build_keys: self.keys.map_or(DevicePtr::null(), |(build, _)| build.ptr()),
            build_rows: pointer(self.build.rows),
            build_items: self.build.len,
            slice_items: cut.slice_items,
            probe_keys: probe_keys.map_or(DevicePtr::null(), |keys| keys.ptr()),
            probe_rows: pointer(probe_rows),
            first_row: positions.start,
            positions: positions.end - positions.start,
            partials: DevicePtrMut::null(),
            offsets: DevicePtr::null(),
            window_start: 0,
            window_end: 0,
            build_out: DevicePtrMut::null(),
            probe_out: DevicePtrMut::null(),
            total: DevicePtrMut::null(),
            build_flags: flag(&mut flags.build),
            probe_flags: flag(&mut flags.probe),
            residual: self.residual.params()?,
        })
    }

    /// # Safety
    /// What the mode reads and writes is there: see the callers.
    unsafe fn launch(&self, stream: &Stream, cut: Cut, mode: NestedLoopMode, params: &NestedLoopParams) -> Result<()> {
        let program = program(self.key_name(), cut.probes, mode, &self.residual);
        let kernel = stream
            .device()
            .load(&program)?
            .kernel::<NestedLoopParams>("nested_loop")?;
        // SAFETY: keys and rows have the lengths given by construction; the rest is the caller's promise.
        unsafe { kernel.launch(stream, &cut.config, params) }
    }

    fn count_step(
        &self,
        stream: &Stream,
        positions: &Range<u64>,
        mut counts: DeviceViewMut<'_, u32>,
        mut flags: Flags<'_>,
    ) -> Result<Option<DeviceBuffer<u32>>> {
        let items = positions.end - positions.start;
        let cut = self.cut(stream, items)?;
        let params = self.params(positions, cut, &mut flags)?;
        if cut.slices == 1 {
            let params = NestedLoopParams {
                partials: counts.ptr_mut(),
                ..params
            };
            // SAFETY: one slice, a count a position.
            unsafe { self.launch(stream, cut, NestedLoopMode::Count, &params)? };
            return Ok(None);
        }
        let mut partials = stream.alloc::<u32>(cut.slices * items)?;
        let params = NestedLoopParams {
            partials: partials.ptr_mut(),
            ..params
        };
        let fold = FoldParams {
            partials: partials.ptr_mut(),
            slices: cut.slices,
            positions: items,
            counts: counts.ptr_mut(),
        };
        let threads = tuning::MAP_THREADS;
        let fold_config = LaunchConfig::cover(items, threads as u64, threads)?;
        let program = program(self.key_name(), cut.probes, NestedLoopMode::Count, &self.residual);
        let kernel = stream.device().load(&program)?.kernel::<FoldParams>("nested_fold")?;
        // SAFETY: a partial count for each slice and position, a count a position.
        unsafe {
            self.launch(stream, cut, NestedLoopMode::Count, &params)?;
            kernel.launch(stream, &fold_config, &fold)?;
        }
        Ok(Some(partials))
    }
}

impl Matcher for NestedLoopMatcher<'_> {
    fn positions(&self) -> u64 {
        self.probe.len
    }

    fn step_positions(&self) -> u64 {
        (COMPARISONS_MAX / self.build.len.max(1)).max(1 << 10)
    }

    fn count(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        counts: DeviceViewMut<'_, u32>,
        flags: Flags<'_>,
    ) -> Result<()> {
        self.step.count(stream, positions, |positions| {
            self.count_step(stream, positions, counts, flags)
        })
    }

    fn write(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        offsets: DeviceView<'_, u64>,
        window: Range<u64>,
        mut pairs: PairsMut<'_>,
    ) -> Result<()> {
        let items = positions.end - positions.start;
        let count = |positions: &Range<u64>| {
            let mut counts = stream.alloc::<u32>(items)?;
            self.count_step(stream, positions, counts.view_mut(), Flags::default())
        };
        let cut = self.cut(stream, items)?;
        let room = pairs.build_rows.len().min(pairs.probe_rows.len());
        let params = NestedLoopParams {
            offsets: offsets.ptr(),
            window_start: window.start,
            window_end: window.end.min(window.start + room),
            build_out: pairs.build_rows.ptr_mut(),
            probe_out: pairs.probe_rows.ptr_mut(),
            ..self.params(&positions, cut, &mut Flags::default())?
        };
        self.step.write(stream, &positions, count, |partials| {
            let params = NestedLoopParams {
                partials: partials
                    .as_mut()
                    .map_or(DevicePtrMut::null(), |partials| partials.ptr_mut()),
                ..params
            };
            // SAFETY: an offset a position; places within the window are places of both outputs.
            unsafe { self.launch(stream, cut, NestedLoopMode::Write, &params) }
        })
    }

    fn mark(&self, stream: &Stream, positions: Range<u64>, mut flags: Flags<'_>) -> Result<()> {
        let cut = self.cut(stream, positions.end - positions.start)?;
        let params = self.params(&positions, cut, &mut flags)?;
        // SAFETY: flags by the sides' rows.
        unsafe { self.launch(stream, cut, NestedLoopMode::Mark, &params) }
    }

    fn write_at_once(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        mut pairs: PairsMut<'_>,
        mut count: DeviceViewMut<'_, u64>,
        mut flags: Flags<'_>,
    ) -> Result<bool> {
        let cut = self.cut(stream, positions.end - positions.start)?;
        let params = NestedLoopParams {
            window_end: pairs.build_rows.len().min(pairs.probe_rows.len()),
            build_out: pairs.build_rows.ptr_mut(),
            probe_out: pairs.probe_rows.ptr_mut(),
            total: count.ptr_mut(),
            ..self.params(&positions, cut, &mut flags)?
        };
        // SAFETY: places below the outputs' length are written only; flags by the sides' rows.
        unsafe { self.launch(stream, cut, NestedLoopMode::AtOnce, &params)? };
        Ok(true)
    }
}
