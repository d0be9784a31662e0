//! CSS-tree over sorted keys in device memory (Rao and Ross 1999; He 2008, section 4.1).
//!
//! The directory is one array of levels, root first, and children are found by arithmetic: node `c` of the next level
//! belongs to key `c` of a level. A node is one sector of 32-bit keys or two of 64-bit keys, read whole by one thread; the
//! upper levels, which every probe reads, are copied to shared memory by each block. The keys are the leaves and stay
//! where they are. Memory: about 1/7 of the keys.

use std::ops::Bound;

use super::side::Keys;
use super::spans::SpanParams;
use crate::compile::{Program, Source};
use crate::error::{GpuError, Result};
use crate::launch::LaunchConfig;
use crate::memory::{DeviceBuffer, DevicePtr, DevicePtrMut};
use crate::stream::Stream;
use crate::{kernel_params, source, tuning};

/// Levels of a directory: enough for 2^32 keys in nodes of four.
const LEVELS_MAX: usize = 15;

kernel_params! {
    struct CssTreeParams {
        sorted: DevicePtr<u8>,
        items: u64,
        directory: DevicePtrMut<u8>,
        levels: u64,
        level_start: [u64; LEVELS_MAX + 1],
        shared_levels: u64,
    }
}
kernel_params! {
    struct CssProbeParams {
        tree: CssTreeParams,
        low: DevicePtr<u8>,
        high: DevicePtr<u8>,
        low_excluded: u64,
        high_excluded: u64,
        probes: u64,
        span: SpanParams,
    }
}

static SOURCE: Source = source!("css_tree.cu", CssTreeParams, CssProbeParams, SpanParams);

fn program(key: &str, node_keys: u32, equal: bool) -> Program {
    Program::new(&SOURCE)
        .define("KEY", key)
        .define("NODE", node_keys)
        .define("EQUAL", equal as u32)
}

/// Specialisations in use.
pub fn programs() -> Vec<Program> {
    let node = tuning::CSS_NODE_KEYS;
    let usual = ["u32", "u64"]
        .into_iter()
        .flat_map(|key| [false, true].map(|equal| program(key, node, equal)));
    usual
        .chain([
            program("u32", 4, true),
            program("u32", 32, true),
            program("u64", 16, false),
        ])
        .collect()
}

/// The directory of a tree; whoever probes it brings the same sorted keys again.
pub struct CssTree {
    directory: DeviceBuffer<u64>,
    node_keys: u32,
    items: u64,
    key_width: u64,
    /// First key of each level, and the end of the last, up to `levels`.
    level_start: [u64; LEVELS_MAX + 1],
    levels: usize,
}

impl CssTree {
    /// The directory over ascending keys. One pass over every eighth key.
    pub fn build(stream: &Stream, sorted: Keys<'_>) -> Result<CssTree> {
        CssTree::build_with(stream, sorted, tuning::CSS_NODE_KEYS)
    }

    /// With nodes of another width, a power of two from 4 on, to measure it.
    pub fn build_with(stream: &Stream, sorted: Keys<'_>, node_keys: u32) -> Result<CssTree> {
        if !(4..=64).contains(&node_keys) || !node_keys.is_power_of_two() {
            return Err(GpuError::Invalid(format!("CSS-tree nodes of {node_keys} keys")));
        }
        let items = sorted.len();
        if items >= u32::MAX as u64 {
            return Err(GpuError::Invalid(format!("CSS-tree of {items} keys, at most 2^32 - 2")));
        }
        let mut nodes = Vec::new();
        let mut below = items.div_ceil(node_keys as u64);
        while below > 1 {
            below = below.div_ceil(node_keys as u64);
            nodes.push(below);
        }
        let mut level_start = [0; LEVELS_MAX + 1];
        for (level, nodes) in nodes.iter().rev().enumerate() {
            level_start[level + 1] = level_start[level] + nodes * node_keys as u64;
        }
        let levels = nodes.len();
        let keys = level_start[levels];
        let mut tree = CssTree {
            directory: stream.alloc((keys * sorted.width()).div_ceil(8))?,
            node_keys,
            items,
            key_width: sorted.width(),
            level_start,
            levels,
        };
        let threads = tuning::MAP_THREADS;
        let config = LaunchConfig::cover(keys, threads as u64, threads)?;
        let mut params = tree.params(sorted);
        params.directory = DevicePtrMut::new(tree.directory.ptr_mut().0);
        let module = stream.device().load(&program(sorted.c_name(), node_keys, false))?;
        // SAFETY: the directory holds `level_start[levels]` keys, and `items` bounds what is read.
        unsafe {
            module
                .kernel::<CssTreeParams>("css_build")?
                .launch(stream, &config, &params)?
        };
        Ok(tree)
    }

    /// Bytes that the directory takes, without the keys.
    pub fn bytes(&self) -> u64 {
        self.directory.bytes()
    }

    fn params(&self, sorted: Keys<'_>) -> CssTreeParams {
        let fits = |level: &usize| self.level_start[*level] <= tuning::CSS_SHARED_KEYS as u64;
        CssTreeParams {
            sorted: sorted.ptr(),
            items: self.items,
            directory: DevicePtrMut::new(self.directory.ptr().0),
            levels: self.levels as u64,
            level_start: self.level_start,
            shared_levels: (0..=self.levels).rev().find(fits).unwrap_or(0) as u64,
        }
    }

    /// Finds the spans of `probes` probes: of the keys from `low` to `high`, which are the same if `equal`.
    #[expect(clippy::too_many_arguments, reason = "one launch with its inputs and outputs")]
    pub(super) fn probe(
        &self,
        stream: &Stream,
        sorted: Keys<'_>,
        low: Bound<Keys<'_>>,
        high: Bound<Keys<'_>>,
        equal: bool,
        probes: u64,
        span: SpanParams,
    ) -> Result<()> {
        if sorted.len() != self.items || sorted.width() != self.key_width {
            return Err(GpuError::Invalid(format!(
                "{} keys under the directory of {}",
                sorted.len(),
                self.items
            )));
        }
        let tree = self.params(sorted);
        let bound = |bound: Bound<Keys<'_>>| match bound {
            Bound::Included(keys) => (keys.ptr(), 0),
            Bound::Excluded(keys) => (keys.ptr(), 1),
            Bound::Unbounded => (DevicePtr::null(), 0),
        };
        let (low, low_excluded) = bound(low);
        let (high, high_excluded) = bound(high);
        let shared_keys = self.level_start[tree.shared_levels as usize];
        let params = CssProbeParams {
            tree,
            low,
            high,
            low_excluded,
            high_excluded,
            probes,
            span,
        };
        let program = program(sorted.c_name(), self.node_keys, equal);
        let kernel = stream.device().load(&program)?.kernel::<CssProbeParams>("css_probe")?;
        let threads = tuning::CSS_THREADS;
        let shared_bytes = (shared_keys * self.key_width) as u32;
        let mut config = LaunchConfig::cover(probes, threads as u64 * tuning::CSS_PROBES as u64, threads)?;
        // Blocks stay, so that each reads the upper levels once.
        let resident = kernel.resident_blocks(threads, shared_bytes)?.max(1);
        config.grid.0 = config.grid.0.min(resident * stream.device().info().multiprocessors);
        // SAFETY: probes and spans have `probes` elements, the tree's keys were compared above; rows are below the
        // flags' length by the sides' promise.
        unsafe { kernel.launch(stream, &config.shared(shared_bytes), &params) }
    }
}
