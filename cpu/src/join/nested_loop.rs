//! Nested-loop join on the CPU, blocked: a block of build keys stays in the first-level cache while all probes pass. The
//! counterpart of the GPU's `join::nested_loop`.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use super::css_tree::CssKey;
use super::matcher::{Emit, Matcher};
use super::side::{PairBuffer, Side, row_of};
use tenon_gpu::primitives::sort::SortKey;
use tenon_gpu::{GpuError, Result};

/// Bytes of a block of build keys: half of a first-level cache.
const BLOCK_BYTES: usize = 16 << 10;
/// Keys and probes compared before it is asked whether any were equal: vectors, without a branch.
const KEYS: usize = 32;
const PROBES: usize = 4;

/// Equal keys of two sides, by comparing all with all.
pub struct NestedLoopMatcher<'a, K: Clone> {
    build: Side<'a, K>,
    probe: Side<'a, K>,
}

impl<'a, K: CssKey + SortKey> NestedLoopMatcher<'a, K> {
    pub fn new(build: Side<'a, K>, probe: Side<'a, K>) -> NestedLoopMatcher<'a, K> {
        NestedLoopMatcher { build, probe }
    }
}

impl<K: CssKey + SortKey> Matcher for NestedLoopMatcher<'_, K> {
    fn positions(&self) -> usize {
        self.probe.keys.len()
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let mut pairs = PairBuffer::new(emit);
        let block = BLOCK_BYTES / size_of::<K>();
        let probes = &self.probe.keys[positions.clone()];
        for (number, keys) in self.build.keys.chunks(block).enumerate() {
            for (tile, probes) in probes.chunks(PROBES).enumerate() {
                let mut wanted = [probes[0]; PROBES];
                wanted[..probes.len()].copy_from_slice(probes);
                for (group, keys) in keys.chunks(KEYS).enumerate() {
                    if !any_equal(keys, &wanted) {
                        continue;
                    }
                    for (k, key) in keys.iter().enumerate() {
                        for (p, probe) in probes.iter().enumerate() {
                            if key == probe {
                                let build_row = row_of(&self.build.rows, number * block + group * KEYS + k);
                                let position = positions.start + tile * PROBES + p;
                                pairs.push(build_row, row_of(&self.probe.rows, position))?;
                            }
                        }
                    }
                }
            }
        }
        pairs.flush()
    }
}

/// Whether any key equals any probe.
#[inline]
fn any_equal<K: CssKey>(keys: &[K], probes: &[K; PROBES]) -> bool {
    match <&[K; KEYS]>::try_from(keys) {
        Ok(keys) => keys.iter().fold(false, |hit, key| {
            probes.iter().fold(hit, |hit, probe| hit | (key == probe))
        }),
        Err(_) => keys.iter().any(|key| probes.contains(key)),
    }
}

/// All pairs of rows: the caller's condition decides.
pub struct CrossMatcher<'a> {
    build_rows: Option<Cow<'a, [u32]>>,
    builds: usize,
    probe_rows: Option<Cow<'a, [u32]>>,
    probes: usize,
}

impl<'a> CrossMatcher<'a> {
    /// `None`: rows `0..builds`, `0..probes`.
    pub fn new(
        build_rows: Option<&'a [u32]>,
        builds: usize,
        probe_rows: Option<&'a [u32]>,
        probes: usize,
    ) -> Result<CrossMatcher<'a>> {
        let wrong = |rows: Option<&[u32]>, len| rows.is_some_and(|rows| rows.len() != len) || len >= u32::MAX as usize;
        if wrong(build_rows, builds) || wrong(probe_rows, probes) {
            return Err(GpuError::Invalid(format!(
                "a cross join of {builds} and {probes} rows with other numbers of them"
            )));
        }
        Ok(CrossMatcher {
            build_rows: build_rows.map(Cow::Borrowed),
            builds,
            probe_rows: probe_rows.map(Cow::Borrowed),
            probes,
        })
    }
}

impl Matcher for CrossMatcher<'_> {
    fn positions(&self) -> usize {
        self.probes
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let mut pairs = PairBuffer::new(emit);
        for position in positions {
            pairs.extend(&self.build_rows, 0..self.builds, row_of(&self.probe_rows, position))?;
        }
        pairs.flush()
    }
}
