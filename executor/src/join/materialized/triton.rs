//! Pairs of equal keys by the Triton join: normalized keys stay in host memory and cross the bus in chunks, so that the
//! device needs room for a share of the join's state only.

use std::sync::atomic::Ordering;

use datafusion::execution::memory_pool::MemoryReservation;
use tenon_gpu::join::triton::{
    Caller, HostKeys, HostSide, HostValues, KeyRange, TritonOptions, TritonOutput, Wanted as Output, Words as Values,
    triton_join,
};
use tenon_gpu::join::{JoinKind, Residual};
use tenon_gpu::{Device, DeviceKind, GpuError, Result};

use super::attempt::{Bounds, Found, Wanted, device_bytes};
use super::keys::KeyedRows;
use crate::gpu_error::reserve_host;
use crate::join::normalized_keys::NormalizedKeys;

/// Rows of a chunk on the simulator, whose kernels are slow: what runs on after a cancel.
const SIMULATED_CHUNK_ROWS: u64 = 16 << 10;
/// How often memory that went to another join in between is asked for again.
const TRIES: usize = 3;
/// A build side of so many keys of its range a row may have an array for a table.
const DENSE_RATIO: u64 = 2;

/// Asks for host memory in the statement's name; what is granted here is given back with it.
struct Statement<'a> {
    bounds: &'a Bounds<'a>,
    spilled: MemoryReservation,
}

impl Caller for Statement<'_> {
    fn is_cancelled(&self) -> bool {
        self.bounds.cancelled.load(Ordering::Relaxed)
    }

    fn reserve_host(&self, bytes: u64) -> Result<()> {
        reserve_host(&self.spilled, bytes as usize)
    }
}

/// Finds the pairs, their number, or the marks, of two sides with so many rows.
pub fn find(
    device: &Device,
    (build, build_rows): (&KeyedRows, usize),
    (probe, probe_rows): (&KeyedRows, usize),
    residual: &Residual,
    wanted: Wanted,
    bounds: &Bounds<'_>,
) -> Result<Found> {
    let output = match wanted {
        Wanted::Pairs => Output::Join(JoinKind::Inner),
        Wanted::Count => Output::Aggregate,
        Wanted::BuildMarks => Output::Join(JoinKind::BuildMark),
        Wanted::ProbeMarks => Output::Join(JoinKind::ProbeMark),
    };
    let sides = (host_side(build, build_rows)?, host_side(probe, probe_rows)?);
    let statement = Statement {
        bounds,
        spilled: bounds.results.new_empty(),
    };
    let mut found = Found::default();
    let mut options = TritonOptions {
        key_range: dense_range(&build.keys),
        chunk_rows: (device.info().kind == DeviceKind::Sim).then_some(SIMULATED_CHUNK_ROWS),
        ..TritonOptions::default()
    };
    let (mut tries, mut begun) = (0, false);
    let result = loop {
        let memory_bytes = device_bytes(device, bounds.memory_bytes);
        options.memory_bytes = Some(memory_bytes);
        let mut sink = |output: TritonOutput<'_>| {
            if statement.is_cancelled() {
                return Err(GpuError::Cancelled);
            }
            begun = true;
            take(output, &mut found, bounds)
        };
        match triton_join(
            device, sides.0, sides.1, output, residual, &options, &statement, &mut sink,
        ) {
            // Another join was quicker to take what was free.
            Err(GpuError::OutOfMemory { .. })
                if !begun && tries < TRIES && device.pool().available() < memory_bytes =>
            {
                tries += 1
            }
            result => break result?,
        }
        statement.spilled.free();
    };
    if wanted == Wanted::Count {
        found.count = result.count;
    }
    found.passes = if result.spilled_rows > 0 { 2 } else { 1 };
    found.bytes_in = result.bytes_in;
    found.bytes_out = result.bytes_out;
    found.spilled_bytes = result.spilled_bytes;
    let phases = result.phases;
    found.phases = vec![
        ("gpu_build_time", phases.build_ms),
        ("gpu_probe_time", phases.probe_ms),
        ("gpu_pairs_time", phases.pairs_ms),
    ];
    Ok(found)
}

fn host_side(keyed: &KeyedRows, rows: usize) -> Result<HostSide<'_>> {
    let keys = match &keyed.keys {
        NormalizedKeys::U32(keys) => HostKeys::U32(keys),
        NormalizedKeys::U64(keys) => HostKeys::U64(keys),
    };
    let values = keyed.rows.as_deref().map_or(HostValues::Rows, HostValues::U32);
    HostSide::new(keys, values, rows as u64)
}

/// The range of the build keys, if it is dense.
fn dense_range(keys: &NormalizedKeys) -> Option<KeyRange> {
    let rows = keys.len() as u64;
    let (min, max) = keys.bounds()?;
    let count = (max - min).checked_add(1)?;
    (count <= rows.saturating_mul(DENSE_RATIO)).then_some(KeyRange { min, count })
}

/// Copies a chunk of the result out of the join's buffers.
fn take(output: TritonOutput<'_>, found: &mut Found, bounds: &Bounds<'_>) -> Result<()> {
    match output {
        TritonOutput::Pairs {
            build: Values::U32(build),
            probe: Values::U32(probe),
        } => {
            let room = bounds.out.reserve(build.len())?;
            bounds.out.push(build.to_vec(), probe.to_vec(), room)
        }
        TritonOutput::Marks(marks) => {
            reserve_host(bounds.results, marks.len())?;
            found.marks.extend_from_slice(marks);
            Ok(())
        }
        TritonOutput::Pairs { .. } | TritonOutput::BuildRows(_) | TritonOutput::ProbeRows(_) => {
            Err(GpuError::Invalid("not what was asked of a Triton join".into()))
        }
    }
}
