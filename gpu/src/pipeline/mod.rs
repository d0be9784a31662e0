//! Fused pipelines: rows of a table, through filters, projections and probes, into a sink, as one generated kernel.
//!
//! The caller generates the code (`kernels/pipeline.cuh` has what it calls) and says what it reads and writes; here it becomes a
//! program and is launched. Compiled data-centric loops: Neumann 2011, "Efficiently Compiling Efficient Query Plans for Modern
//! Hardware", section 3; on GPUs: Funke et al. 2018, "Pipelined Query Processing in Coprocessor Environments".

use crate::compile::{Program, Source};
use crate::device::Device;
use crate::error::{GpuError, Result};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

/// Host buffers that generated code may read.
pub const BUFFERS_MAX: usize = 64;
/// Words of literals.
pub const LITERALS_MAX: usize = 96;
/// Device arrays, segments' columns and numbers. All together a kernel has 4096 bytes of parameters.
pub const INPUTS_MAX: usize = 320;

/// A segment's column in device memory, as `kernels/pipeline.cuh` says.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentColumn {
    pub values: u64,
    pub bytes: u64,
    pub valid: u64,
    pub base_low: u64,
    pub base_high: u64,
    pub width: u64,
}

// SAFETY: six words, any of which may have any value.
unsafe impl crate::memory::Element for SegmentColumn {
    const C_NAME: &'static str = "Segment";
}

/// Rows that a block works on at once.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    pub segment: u32,
    pub start: u32,
    pub rows: u32,
    /// Rows of all tiles before.
    pub before: u32,
}

// SAFETY: four words, any of which may have any value.
unsafe impl crate::memory::Element for Tile {
    const C_NAME: &'static str = "Tile";
}

/// The tiles of segments of so many rows, fewer than 2^32 together.
pub fn tiles(segments: impl IntoIterator<Item = usize>) -> Vec<Tile> {
    let (mut tiles, mut before) = (vec![], 0_u32);
    for (segment, rows) in segments.into_iter().enumerate() {
        for start in (0..rows).step_by(tuning::PIPELINE_TILE as usize) {
            let own = (rows - start).min(tuning::PIPELINE_TILE as usize) as u32;
            tiles.push(Tile {
                segment: segment as u32,
                start: start as u32,
                rows: own,
                before,
            });
            before = before.wrapping_add(own);
        }
    }
    tiles
}

kernel_params! {
    /// What a pipeline reads and writes.
    pub struct PipelineParams {
        buffers: [DevicePtr<u8>; BUFFERS_MAX],
        literals: [u64; LITERALS_MAX],
        inputs: [u64; INPUTS_MAX],
        tiles: DevicePtr<Tile>,
        rows: DevicePtr<u32>,
        rows_max: u64,
        tile_count: u64,
        tile_first: u64,
        failed: DevicePtrMut<u32>,
    }
}

/// What a kernel's parameters may take on every GPU.
const _: () = assert!(size_of::<PipelineParams>() <= 4096);

static SOURCE: Source = source!("pipeline.cu", PipelineParams);

/// Generated code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PipelineCode {
    pub begin: String,
    pub tile: String,
    /// Rows that pass what this says are listed and gone through together; none: all are.
    pub first: Option<String>,
    pub row: String,
    pub end: String,
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}

impl PipelineCode {
    pub fn program(&self) -> Program {
        Program::new(&SOURCE)
            .header(
                "pipeline_begin.cuh",
                format!("    constexpr bool lists = {};\n{}", self.first.is_some(), self.begin),
            )
            .header("pipeline_first.cuh", self.first.clone().unwrap_or_default())
            .header("pipeline_tile.cuh", self.tile.clone())
            .header("pipeline_row.cuh", self.row.clone())
            .header("pipeline_end.cuh", self.end.clone())
    }
}

/// Examples of each kind of sink, for the compile test.
pub fn programs() -> Vec<Program> {
    let scan = PipelineCode {
        tile: "const Segment s0 = p.segment(0, tile.segment);".into(),
        row: "if (!stored_null(s0, row)) add_wide(p.array<u64>(1), p.array<u64>(1) + 1, stored_any(s0, row));".into(),
        ..PipelineCode::default()
    };
    let grouped = PipelineCode {
        begin: "const Groups<2> groups{p.array<u32>(1), p.array<u64>(2), p.array<u32>(3), p.inputs[4], p.inputs[5]};"
            .into(),
        tile: scan.tile.clone(),
        row: "u64 key[2] = {(u64)stored<u32>(s0, row), stored_code(s0, row)}; bool is_new; \
              u32 group = groups.find(p, key, is_new, [](u32) { return true; }); \
              if (group != NO_ROW) least_word(p.array<u64>(6) + group, row);"
            .into(),
        ..PipelineCode::default()
    };
    let built = PipelineCode {
        tile: scan.tile.clone(),
        row: "u32 at = new_row(p, p.array<u32>(1), p.inputs[2]); \
              if (at != NO_ROW) chain(p.array<u32>(3), p.array<u32>(4), p.array<u32>(5), mixed(0, stored_wide(s0, row)) & 15, at);"
            .into(),
        ..PipelineCode::default()
    };
    let listed = PipelineCode {
        first: Some("if (!stored_null(s0, row)) put_in_list(list, &listed, place);".into()),
        ..built.clone()
    };
    [scan, grouped, built, listed]
        .iter()
        .map(PipelineCode::program)
        .collect()
}

/// What a launch is over.
pub enum IterationSpace<'a> {
    /// Tiles of a table's segments, and how many of the table's are before these.
    Tiles(crate::memory::DeviceView<'a, Tile>, u64),
    /// Rows of a table made before, whose number is on the device; at most so many.
    Made(DevicePtr<u32>, u64),
    /// So many.
    Known(u64),
}

/// Code that is loaded on a device.
pub struct Loaded {
    kernel: Kernel<PipelineParams>,
    /// As many blocks as run at once.
    blocks: u64,
    shared_bytes: u32,
}

impl Loaded {
    pub fn new(device: &Device, code: &PipelineCode) -> Result<Loaded> {
        let kernel = device.load(&code.program())?.kernel::<PipelineParams>("pipeline")?;
        let resident = kernel
            .resident_blocks(tuning::PIPELINE_THREADS, code.shared_bytes)?
            .max(1);
        Ok(Loaded {
            kernel,
            blocks: u64::from(resident * device.info().multiprocessors.max(1)),
            shared_bytes: code.shared_bytes,
        })
    }
}

/// A launch: the code and all that it names by number.
pub struct Launch<'a> {
    pub code: &'a Loaded,
    pub buffers: &'a [DevicePtr<u8>],
    pub literals: &'a [u64],
    pub inputs: &'a [u64],
    pub rows: IterationSpace<'a>,
    pub failed: DevicePtrMut<u32>,
}

/// Whether so many buffers, words of literals and inputs can be given to a pipeline.
pub fn fits(buffers: usize, literals: usize, inputs: usize) -> bool {
    buffers <= BUFFERS_MAX && literals <= LITERALS_MAX && inputs <= INPUTS_MAX
}

/// Puts a pipeline into the stream.
///
/// # Safety
/// The code reads and writes nothing outside of the arrays that its buffers and inputs name, and these are kept until the
/// stream has passed it.
pub unsafe fn launch(stream: &Stream, launch: &Launch<'_>) -> Result<()> {
    if !fits(launch.buffers.len(), launch.literals.len(), launch.inputs.len()) {
        return Err(GpuError::Invalid(format!(
            "a pipeline of {} buffers, {} literals and {} inputs",
            launch.buffers.len(),
            launch.literals.len(),
            launch.inputs.len()
        )));
    }
    let mut params = PipelineParams {
        buffers: [DevicePtr::null(); BUFFERS_MAX],
        literals: [0; LITERALS_MAX],
        inputs: [0; INPUTS_MAX],
        tiles: DevicePtr::null(),
        rows: DevicePtr::null(),
        rows_max: 0,
        tile_count: 0,
        tile_first: 0,
        failed: launch.failed,
    };
    params.buffers[..launch.buffers.len()].copy_from_slice(launch.buffers);
    params.literals[..launch.literals.len()].copy_from_slice(launch.literals);
    params.inputs[..launch.inputs.len()].copy_from_slice(launch.inputs);
    let tiles = match &launch.rows {
        IterationSpace::Tiles(tiles, first) => {
            params.tile_first = *first;
            params.tiles = tiles.ptr();
            params.tile_count = tiles.len();
            tiles.len()
        }
        IterationSpace::Made(rows, max) => {
            params.rows = *rows;
            params.rows_max = *max;
            max.div_ceil(u64::from(tuning::PIPELINE_TILE))
        }
        IterationSpace::Known(rows) => {
            params.rows_max = *rows;
            rows.div_ceil(u64::from(tuning::PIPELINE_TILE))
        }
    };
    if tiles == 0 {
        return Ok(());
    }
    let Loaded {
        kernel,
        blocks,
        shared_bytes,
    } = launch.code;
    let blocks = tiles.min(*blocks) as u32;
    let config = LaunchConfig::new(blocks, tuning::PIPELINE_THREADS).shared(*shared_bytes);
    // SAFETY: the caller's promise; the parameters are those that the source declares.
    unsafe { kernel.launch(stream, &config, &params) }
}
