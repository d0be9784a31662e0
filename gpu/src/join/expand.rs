//! From spans to pairs, balanced for any mix of span lengths: `kernels/join_expand.cu`.

use super::matcher::{Flags, PairsMut};
use super::residual::{Residual, ResidualParams};
use crate::compile::{Program, Source};
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    struct ExpandParams {
        starts: DevicePtr<u32>,
        offsets: DevicePtr<u64>,
        positions: u64,
        first: u64,
        last: u64,
        splits: DevicePtrMut<u64>,
        tiles: u64,
        build_rows: DevicePtr<u32>,
        probe_rows: DevicePtr<u32>,
        first_row: u64,
        build_out: DevicePtrMut<u32>,
        probe_out: DevicePtrMut<u32>,
        window_start: u64,
        window_end: u64,
        counts: DevicePtrMut<u32>,
        tile_counts: DevicePtrMut<u32>,
        tile_bases: DevicePtr<u64>,
        total: DevicePtrMut<u64>,
        build_flags: DevicePtrMut<u8>,
        probe_flags: DevicePtrMut<u8>,
        residual: ResidualParams,
    }
}
kernel_params! {
    struct CoverParams {
        reach: DevicePtr<u32>,
        items: u64,
        build_rows: DevicePtr<u32>,
        build_flags: DevicePtrMut<u8>,
    }
}

static SOURCE: Source = source!("join_expand.cu", ExpandParams, CoverParams, ResidualParams);

/// What happens to the pairs; the numbers are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpandMode {
    Write = 0,
    Count = 1,
    AtOnce = 2,
    Mark = 3,
}

fn program(residual: &Residual, mode: ExpandMode) -> Program {
    residual.into_program(Program::new(&SOURCE).define("MODE", mode as u32))
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    let some = Residual::to_compile();
    let mut programs = with_condition(&some);
    programs.push(program(&Residual::none(), ExpandMode::Write));
    programs
}

/// Specialisations with this condition.
pub(super) fn with_condition(residual: &Residual) -> Vec<Program> {
    let modes = [
        ExpandMode::Write,
        ExpandMode::Count,
        ExpandMode::AtOnce,
        ExpandMode::Mark,
    ];
    modes.map(|mode| program(residual, mode)).into()
}

/// Pairs and ends of spans that a block takes.
pub(super) const TILE: u64 = tuning::EXPAND_THREADS as u64 * tuning::EXPAND_STEPS as u64;

/// Spans of a step's positions, and the rows behind places and positions.
#[derive(Clone, Copy)]
pub(super) struct SpanViews<'a> {
    pub starts: DeviceView<'a, u32>,
    /// Pairs before each position, and all: one more than positions.
    pub offsets: DeviceView<'a, u64>,
    pub build_rows: Option<DeviceView<'a, u32>>,
    /// Of the step's positions.
    pub probe_rows: Option<DeviceView<'a, u32>>,
    /// The step's first position.
    pub first_row: u64,
}

impl SpanViews<'_> {
    fn params(&self, residual: &Residual) -> Result<ExpandParams> {
        Ok(ExpandParams {
            starts: self.starts.ptr(),
            offsets: self.offsets.ptr(),
            positions: self.starts.len(),
            first: 0,
            last: u64::MAX,
            splits: DevicePtrMut::null(),
            tiles: 0,
            build_rows: super::spans::pointer(self.build_rows),
            probe_rows: super::spans::pointer(self.probe_rows),
            first_row: self.first_row,
            build_out: DevicePtrMut::null(),
            probe_out: DevicePtrMut::null(),
            window_start: 0,
            window_end: 0,
            counts: DevicePtrMut::null(),
            tile_counts: DevicePtrMut::null(),
            tile_bases: DevicePtr::null(),
            total: DevicePtrMut::null(),
            build_flags: DevicePtrMut::null(),
            probe_flags: DevicePtrMut::null(),
            residual: residual.params()?,
        })
    }
}

/// The pairs `first..` of the spans, into buffers that may hold more than there are.
pub(super) fn write_all(stream: &Stream, spans: SpanViews<'_>, first: u64, mut pairs: PairsMut<'_>) -> Result<()> {
    let none = Residual::none();
    let room = pairs.build_rows.len().min(pairs.probe_rows.len());
    let mut splits = Splits::new(stream, spans.starts.len() + room)?;
    let params = ExpandParams {
        first,
        last: first + room,
        build_out: pairs.build_rows.ptr_mut(),
        probe_out: pairs.probe_rows.ptr_mut(),
        ..spans.params(&none)?
    };
    // SAFETY: `last - first` places in both outputs; spans hold places of the build side and positions of the step.
    unsafe { splits.launch(stream, &none, ExpandMode::Write, params) }
}

/// Candidates cut into tiles, for a residual condition.
pub(super) struct Candidates<'a> {
    pub spans: SpanViews<'a>,
    pub residual: &'a Residual,
    /// All candidates.
    pub total: u64,
}

impl Candidates<'_> {
    fn splits(&self, stream: &Stream) -> Result<Splits> {
        Splits::new(stream, self.spans.starts.len() + self.total)
    }

    fn params(&self, flags: &mut Flags<'_>) -> Result<ExpandParams> {
        let pointer = |flags: &mut Option<DeviceViewMut<'_, u8>>| {
            flags.as_mut().map_or(DevicePtrMut::null(), |flags| flags.ptr_mut())
        };
        Ok(ExpandParams {
            build_flags: pointer(&mut flags.build),
            probe_flags: pointer(&mut flags.probe),
            ..self.spans.params(self.residual)?
        })
    }

    /// Counts what passes, by position and by tile; the tiles' counts come back.
    pub fn count(
        &self,
        stream: &Stream,
        mut counts: DeviceViewMut<'_, u32>,
        mut flags: Flags<'_>,
    ) -> Result<DeviceBuffer<u32>> {
        stream.set_bytes(counts.reborrow(), 0)?;
        let mut splits = self.splits(stream)?;
        let mut tile_counts = stream.alloc::<u32>(splits.tiles)?;
        let params = ExpandParams {
            counts: counts.ptr_mut(),
            tile_counts: tile_counts.ptr_mut(),
            ..self.params(&mut flags)?
        };
        // SAFETY: one count a position and a tile; flags by the sides' rows.
        unsafe { splits.launch(stream, self.residual, ExpandMode::Count, params)? };
        Ok(tile_counts)
    }

    /// Writes what passes and has its place in the window. `tile_bases`: pairs before each tile, and all.
    pub fn write(
        &self,
        stream: &Stream,
        tile_bases: DeviceView<'_, u64>,
        window: std::ops::Range<u64>,
        mut pairs: PairsMut<'_>,
    ) -> Result<()> {
        let mut splits = self.splits(stream)?;
        let room = pairs.build_rows.len().min(pairs.probe_rows.len());
        let params = ExpandParams {
            build_out: pairs.build_rows.ptr_mut(),
            probe_out: pairs.probe_rows.ptr_mut(),
            window_start: window.start,
            window_end: window.end.min(window.start + room),
            tile_bases: tile_bases.ptr(),
            ..self.params(&mut Flags::default())?
        };
        // SAFETY: places within the window are places of both outputs.
        unsafe { splits.launch(stream, self.residual, ExpandMode::Write, params) }
    }

    /// Writes what passes at places taken from `total`, as far as there is room.
    pub fn write_at_once(
        &self,
        stream: &Stream,
        mut pairs: PairsMut<'_>,
        mut total: DeviceViewMut<'_, u64>,
        mut flags: Flags<'_>,
    ) -> Result<()> {
        let mut splits = self.splits(stream)?;
        let params = ExpandParams {
            build_out: pairs.build_rows.ptr_mut(),
            probe_out: pairs.probe_rows.ptr_mut(),
            window_end: pairs.build_rows.len().min(pairs.probe_rows.len()),
            total: total.ptr_mut(),
            ..self.params(&mut flags)?
        };
        // SAFETY: places below the outputs' length are written only; flags by the sides' rows.
        unsafe { splits.launch(stream, self.residual, ExpandMode::AtOnce, params) }
    }

    /// Sets the flags of what passes.
    pub fn mark(&self, stream: &Stream, mut flags: Flags<'_>) -> Result<()> {
        let params = self.params(&mut flags)?;
        // SAFETY: flags by the sides' rows.
        unsafe {
            self.splits(stream)?
                .launch(stream, self.residual, ExpandMode::Mark, params)
        }
    }
}

/// Where tiles begin.
struct Splits {
    buffer: DeviceBuffer<u64>,
    tiles: u64,
    config: LaunchConfig,
}

impl Splits {
    /// For at most this many pairs and ends of spans.
    fn new(stream: &Stream, steps: u64) -> Result<Splits> {
        let config = LaunchConfig::cover(steps, TILE, tuning::EXPAND_THREADS)?;
        let tiles = config.blocks();
        Ok(Splits {
            buffer: stream.alloc(tiles + 1)?,
            tiles,
            config,
        })
    }

    /// # Safety
    /// As the kernel needs it: see the callers.
    unsafe fn launch(
        &mut self,
        stream: &Stream,
        residual: &Residual,
        mode: ExpandMode,
        params: ExpandParams,
    ) -> Result<()> {
        let module = stream.device().load(&program(residual, mode))?;
        let params = ExpandParams {
            splits: self.buffer.ptr_mut(),
            tiles: self.tiles,
            ..params
        };
        let threads = tuning::MAP_THREADS;
        let split_config = LaunchConfig::cover(self.tiles + 1, threads as u64, threads)?;
        // SAFETY: one split a tile and one more; the rest is the caller's promise.
        unsafe {
            module
                .kernel::<ExpandParams>("expand_splits")?
                .launch(stream, &split_config, &params)?;
            module
                .kernel::<ExpandParams>("expand")?
                .launch(stream, &self.config, &params)
        }
    }
}

/// Sets the flags of the build rows that spans cover. `reach[i]`: the farthest end of the spans that start at or before
/// place `i`.
pub(super) fn mark_covered(
    stream: &Stream,
    reach: DeviceView<'_, u32>,
    build_rows: Option<DeviceView<'_, u32>>,
    mut build_flags: DeviceViewMut<'_, u8>,
) -> Result<()> {
    let params = CoverParams {
        reach: reach.ptr(),
        items: reach.len(),
        build_rows: super::spans::pointer(build_rows),
        build_flags: build_flags.ptr_mut(),
    };
    let module = stream.device().load(&program(&Residual::none(), ExpandMode::Write))?;
    let threads = tuning::MAP_THREADS;
    let config = LaunchConfig::cover(reach.len(), threads as u64 * tuning::MAP_ITEMS as u64, threads)?;
    // SAFETY: a row for each place, and a flag for each row.
    unsafe { module.kernel::<CoverParams>("cover")?.launch(stream, &config, &params) }
}
