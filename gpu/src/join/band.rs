//! Band join (Govindaraju 2005; the non-equijoin of He 2008, section 5).
//!
//! ```sql
//! SELECT ... FROM build JOIN probe ON probe.key BETWEEN build.key + low AND build.key + high
//! ```
//!
//! Sorts the build side; every probe then asks for the range `probe - high ..= probe - low` of its keys. Inequalities
//! between keys need no arithmetic: they are [`Probe::between`] with the probes' keys on one side.

use std::ops::Bound;

use super::probe::Probe;
use super::ranges::RangeMatcher;
use super::residual::Residual;
use super::side::{Keys, Side};
use super::sort_merge::sorted;
use super::sorted::{Held, HeldKeys};
use crate::compile::{Program, Source};
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DevicePtr, DevicePtrMut, Element};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    struct BandParams {
        probes: DevicePtr<u8>,
        items: u64,
        low_offset: u64,
        high_offset: u64,
        low: DevicePtrMut<u8>,
        high: DevicePtrMut<u8>,
    }
}

static SOURCE: Source = source!("join_band.cu", BandParams);

/// What the order-preserving bits of the keys stand for, and how far a probe may lie from a build key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// Exact, without wrapping.
    Unsigned { low: i64, high: i64 },
    /// Exact, without wrapping: the bits are the number's with the sign turned over.
    Signed { low: i64, high: i64 },
    /// Floats, whose sums round: the ranges are a little too wide, so that the join needs the condition itself as its
    /// residual.
    Float { low: f64, high: f64 },
}

fn program(key: &str, domain: u32) -> Program {
    Program::new(&SOURCE).define("KEY", key).define("DOMAIN", domain)
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    let domains = [0, 1, 2];
    ["u32", "u64"]
        .into_iter()
        .flat_map(|key| domains.map(|domain| program(key, domain)))
        .collect()
}

/// The matcher of a band join. The residual is tested on each pair that the band allows.
pub fn band<'a>(
    stream: &Stream,
    build: Side<'a>,
    build_ascends: bool,
    probe: Side<'a>,
    band: Band,
    residual: Residual,
) -> Result<RangeMatcher<'a>> {
    let (low, high) = match probe.keys {
        Keys::U32(_) => {
            let (low, high) = ranges::<u32>(stream, probe.keys, band)?;
            (HeldKeys::U32(Held::Owned(low)), HeldKeys::U32(Held::Owned(high)))
        }
        Keys::U64(_) => {
            let (low, high) = ranges::<u64>(stream, probe.keys, band)?;
            (HeldKeys::U64(Held::Owned(low)), HeldKeys::U64(Held::Owned(high)))
        }
    };
    let build = sorted(stream, build, build_ascends)?;
    let (low, high) = (Bound::Included(low), Bound::Included(high));
    let probe = Probe::between_held(probe.keys.len(), probe.rows, low, high)?;
    RangeMatcher::new(stream, build, None, probe, residual)
}

fn ranges<K: Element>(stream: &Stream, probes: Keys<'_>, band: Band) -> Result<(DeviceBuffer<K>, DeviceBuffer<K>)> {
    let mut low = stream.alloc::<K>(probes.len())?;
    let mut high = stream.alloc::<K>(probes.len())?;
    let (domain, low_offset, high_offset) = match band {
        Band::Unsigned { low, high } => (0, low as u64, high as u64),
        Band::Signed { low, high } => (1, low as u64, high as u64),
        Band::Float { low, high } => (2, low.to_bits(), high.to_bits()),
    };
    let params = BandParams {
        probes: probes.ptr(),
        items: probes.len(),
        low_offset,
        high_offset,
        low: DevicePtrMut::new(low.ptr_mut().0),
        high: DevicePtrMut::new(high.ptr_mut().0),
    };
    let threads = tuning::MAP_THREADS;
    let config = LaunchConfig::cover(probes.len(), threads as u64 * tuning::MAP_ITEMS as u64, threads)?;
    let module = stream.device().load(&program(probes.c_name(), domain))?;
    // SAFETY: `items` keys of the width that the program was made for, in all three.
    unsafe { module.kernel::<BandParams>("band")?.launch(stream, &config, &params)? };
    Ok((low, high))
}
