//! Spans: the partners of a probe are consecutive places of the sorted build side. Found by a CSS-tree for probes in any
//! order, and by a merge for ascending ones.

use std::ops::{Bound, Range};

use super::css_tree::CssTree;
use super::probe::Probe;
use super::side::Keys;
use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DevicePtr, DevicePtrMut, DeviceView, DeviceViewMut};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

kernel_params! {
    /// What is stored of the spans that are found.
    pub struct SpanParams {
        starts: DevicePtrMut<u32>,
        counts: DevicePtrMut<u32>,
        probe_flags: DevicePtrMut<u8>,
        probe_rows: DevicePtr<u32>,
        first_row: u64,
        reach: DevicePtrMut<u32>,
    }
}
kernel_params! {
    struct JoinMergeParams {
        sorted: DevicePtr<u8>,
        items: u64,
        probes: DevicePtr<u8>,
        probe_items: u64,
        splits: DevicePtrMut<u64>,
        tiles: u64,
        span: SpanParams,
    }
}

static SOURCE: Source = source!("join_merge.cu", JoinMergeParams, SpanParams);

/// What a merge finds; the numbers are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Find {
    Starts = 0,
    Ends = 1,
    Equal = 2,
}

fn program(key: &str, after_equal: bool, find: Find) -> Program {
    Program::new(&SOURCE)
        .define("KEY", key)
        .define("AFTER_EQUAL", after_equal as u32)
        .define("FIND", find as u32)
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    let shapes = [Find::Starts, Find::Ends]
        .into_iter()
        .flat_map(|find| [false, true].map(|after_equal| (after_equal, find)));
    shapes
        .chain([(false, Find::Equal)])
        .flat_map(|(after_equal, find)| ["u32", "u64"].map(|key| program(key, after_equal, find)))
        .collect()
}

/// Where the spans of some positions go.
pub struct Spans<'a> {
    pub starts: DeviceViewMut<'a, u32>,
    pub counts: DeviceViewMut<'a, u32>,
    /// By row of the probe side: set where there is a partner.
    pub probe_flags: Option<DeviceViewMut<'a, u8>>,
    /// By place of the build side, zeros before: the farthest end of the spans that start there.
    pub reach: Option<DeviceViewMut<'a, u32>>,
}

/// Finds the spans of these positions.
pub(super) fn find(
    stream: &Stream,
    build: Keys<'_>,
    tree: Option<&CssTree>,
    probe: &Probe<'_>,
    positions: Range<u64>,
    mut spans: Spans<'_>,
) -> Result<()> {
    let items = positions.end - positions.start;
    if spans.starts.len() != items || spans.counts.len() != items {
        return Err(GpuError::Invalid(format!(
            "spans of {items} positions into other lengths"
        )));
    }
    let rows = probe.rows.as_ref().map(|rows| rows.view().slice(positions.clone()));
    let params = SpanParams {
        starts: spans.starts.ptr_mut(),
        counts: spans.counts.ptr_mut(),
        probe_flags: spans
            .probe_flags
            .as_mut()
            .map_or(DevicePtrMut::null(), |flags| flags.ptr_mut()),
        probe_rows: rows.transpose()?.map_or(DevicePtr::null(), |rows| rows.ptr()),
        first_row: positions.start,
        reach: spans
            .reach
            .as_mut()
            .map_or(DevicePtrMut::null(), |reach| reach.ptr_mut()),
    };
    let [low, high] = probe.bounds();
    let [low, high] = [slice(low, &positions)?, slice(high, &positions)?];
    for bound in [low, high] {
        if let Bound::Included(keys) | Bound::Excluded(keys) = bound
            && keys.width() != build.width()
        {
            return Err(GpuError::Invalid(format!(
                "probes of {} and a build side of {}",
                keys.c_name(),
                build.c_name()
            )));
        }
    }
    if let Some(tree) = tree {
        return tree.probe(stream, build, low, high, probe.is_equal(), items, params);
    }
    if let (true, Bound::Included(keys)) = (probe.is_equal(), low) {
        return merge(stream, build, keys, false, Find::Equal, params);
    }
    // Two merges: where the spans start, and where they end.
    for (bound, find) in [(low, Find::Starts), (high, Find::Ends)] {
        let (keys, after_equal) = match bound {
            Bound::Included(keys) => (keys, find == Find::Ends),
            Bound::Excluded(keys) => (keys, find == Find::Starts),
            Bound::Unbounded => return Err(GpuError::Invalid("a merge with unbounded probes".into())),
        };
        merge(stream, build, keys, after_equal, find, params)?;
    }
    Ok(())
}

fn slice<'a>(bound: Bound<Keys<'a>>, positions: &Range<u64>) -> Result<Bound<Keys<'a>>> {
    let part = |keys: Keys<'a>| keys.slice(positions.clone());
    Ok(match bound {
        Bound::Included(keys) => Bound::Included(part(keys)?),
        Bound::Excluded(keys) => Bound::Excluded(part(keys)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

fn merge(
    stream: &Stream,
    build: Keys<'_>,
    probes: Keys<'_>,
    after_equal: bool,
    find: Find,
    params: SpanParams,
) -> Result<()> {
    let tile = tuning::JOIN_MERGE_THREADS as u64 * tuning::JOIN_MERGE_ITEMS as u64;
    let config = LaunchConfig::cover(build.len() + probes.len(), tile, tuning::JOIN_MERGE_THREADS)?;
    let tiles = config.blocks();
    let mut splits = stream.alloc::<u64>(tiles + 1)?;
    let params = JoinMergeParams {
        sorted: build.ptr(),
        items: build.len(),
        probes: probes.ptr(),
        probe_items: probes.len(),
        splits: splits.ptr_mut(),
        tiles,
        span: params,
    };
    let module = stream.device().load(&program(build.c_name(), after_equal, find))?;
    let threads = tuning::MAP_THREADS;
    let split_config = LaunchConfig::cover(tiles + 1, threads as u64, threads)?;
    // SAFETY: keys, spans and splits have the lengths given; rows are below the flags' length by the sides' promise.
    unsafe {
        module
            .kernel::<JoinMergeParams>("merge_splits")?
            .launch(stream, &split_config, &params)?;
        module
            .kernel::<JoinMergeParams>("merge_bounds")?
            .launch(stream, &config, &params)
    }
}

/// A view's places as the pointer of kernel parameters, null if there is none.
pub(super) fn pointer<T: crate::memory::Element>(view: Option<DeviceView<'_, T>>) -> DevicePtr<T> {
    view.map_or(DevicePtr::null(), |view| view.ptr())
}
