//! Joins over a sorted build side on the CPU: every probe's partners are a span of it. The counterpart of the GPU's `join::ranges`, with
//! INLJ by a CSS-tree, SMJ by a merge, bands and inequalities.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow, Range};

use super::css_tree::{CssKey, CssTree};
use super::matcher::{Emit, Matcher};
use super::side::{PairBuffer, Side, row_of};
use tenon_gpu::primitives::sort::SortKey;
use tenon_gpu::{GpuError, Result};

/// Probes whose spans are found together.
const BATCH: usize = 1024;

/// The keys that each probe asks for.
#[derive(Clone, Debug)]
pub enum Wanted<'a, K: Clone> {
    /// The build keys equal to the probe's.
    Equal(Cow<'a, [K]>),
    /// The build keys between two numbers of the probe's; numbers that cross ask for nothing.
    Between {
        low: Bound<Cow<'a, [K]>>,
        high: Bound<Cow<'a, [K]>>,
    },
}

/// Probes, and the row of each.
#[derive(Clone, Debug)]
pub struct Probe<'a, K: Clone> {
    wanted: Wanted<'a, K>,
    /// Whether the probes' numbers ascend, both of a range.
    ascending: bool,
    len: usize,
    rows: Option<Cow<'a, [u32]>>,
}

impl<'a, K: CssKey + SortKey> Probe<'a, K> {
    /// Equality with the side's keys.
    pub fn equal(side: Side<'a, K>) -> Probe<'a, K> {
        Probe {
            len: side.keys.len(),
            wanted: Wanted::Equal(side.keys),
            ascending: false,
            rows: side.rows,
        }
    }

    /// Ranges by probe: `len` of them, whose row is `rows[i]`, or `i`.
    pub fn between(
        len: usize,
        rows: Option<Cow<'a, [u32]>>,
        low: Bound<Cow<'a, [K]>>,
        high: Bound<Cow<'a, [K]>>,
    ) -> Result<Probe<'a, K>> {
        let wrong = |bound: &Bound<Cow<'_, [K]>>| keys_of(bound).is_some_and(|keys| keys.len() != len);
        if rows.as_ref().is_some_and(|rows| rows.len() != len) || wrong(&low) || wrong(&high) {
            return Err(GpuError::Invalid(format!(
                "{len} probes with other numbers of rows or bounds"
            )));
        }
        Ok(Probe {
            wanted: Wanted::Between { low, high },
            ascending: false,
            len,
            rows,
        })
    }

    /// Says that the numbers ascend, so that a merge finds the partners.
    pub fn ascending(self) -> Probe<'a, K> {
        Probe {
            ascending: true,
            ..self
        }
    }
}

fn keys_of<'b, K: Clone>(bound: &'b Bound<Cow<'_, [K]>>) -> Option<&'b [K]> {
    match bound {
        Bound::Included(keys) | Bound::Excluded(keys) => Some(keys),
        Bound::Unbounded => None,
    }
}

/// How spans are found in the sorted keys.
enum Search<'a, K: CssKey> {
    Tree(TreeRef<'a, K>),
    /// By galloping on from the last probe's place.
    Merge(Cow<'a, [K]>),
}

enum TreeRef<'a, K: CssKey> {
    Borrowed(&'a CssTree<K>),
    Owned(CssTree<K>),
}

impl<K: CssKey> TreeRef<'_, K> {
    fn tree(&self) -> &CssTree<K> {
        match self {
            TreeRef::Borrowed(tree) => tree,
            TreeRef::Owned(tree) => tree,
        }
    }
}

/// A join whose probes ask for spans of sorted build keys.
pub struct RangeMatcher<'a, K: CssKey> {
    search: Search<'a, K>,
    build_rows: Option<Cow<'a, [u32]>>,
    probe: Probe<'a, K>,
}

impl<'a, K: CssKey + SortKey> RangeMatcher<'a, K> {
    /// `build` ascends. Ascending probes are merged with it; for others a CSS-tree is built.
    pub fn new(build: Side<'a, K>, probe: Probe<'a, K>) -> RangeMatcher<'a, K> {
        RangeMatcher {
            search: match probe.ascending {
                true => Search::Merge(build.keys),
                false => Search::Tree(TreeRef::Owned(CssTree::build(&build.keys))),
            },
            build_rows: build.rows,
            probe,
        }
    }

    /// Indexed nested-loop join: a tree that stands, and the row behind each of its places.
    pub fn indexed(tree: &'a CssTree<K>, rows: Option<&'a [u32]>, probe: Probe<'a, K>) -> Result<RangeMatcher<'a, K>> {
        if rows.is_some_and(|rows| rows.len() != tree.len()) {
            return Err(GpuError::Invalid(format!(
                "other rows than the {} keys of an index",
                tree.len()
            )));
        }
        Ok(RangeMatcher {
            search: Search::Tree(TreeRef::Borrowed(tree)),
            build_rows: rows.map(Cow::Borrowed),
            probe,
        })
    }

    /// Sort-merge join: sorts the sides that do not ascend, then merges.
    pub fn sort_merge(
        build: Side<'a, K>,
        probe: Side<'a, K>,
        build_ascends: bool,
        probe_ascends: bool,
    ) -> Result<RangeMatcher<'a, K>> {
        let build = if build_ascends { build } else { build.sorted()? };
        let probe = if probe_ascends { probe } else { probe.sorted()? };
        Ok(RangeMatcher::new(build, Probe::equal(probe).ascending()))
    }

    /// Sets the bounds of the spans of these positions.
    fn spans(&self, positions: Range<usize>, spans: &mut Spans, from: &mut Cursor) {
        let items = positions.len();
        spans.starts.resize(items, 0);
        spans.ends.resize(items, 0);
        let (starts, ends) = (&mut spans.starts[..], &mut spans.ends[..]);
        match &self.probe.wanted {
            Wanted::Equal(keys) => {
                let probes = &keys[positions];
                self.bounds(probes, false, starts, &mut from.start);
                // Most probes have one partner or none: the next keys are in the cache.
                let sorted = self.keys();
                for ((probe, &start), end) in probes.iter().zip(&*starts).zip(ends) {
                    *end = start + equal_keys(&sorted[start as usize..], probe) as u32;
                }
            }
            Wanted::Between { low, high } => {
                match low {
                    Bound::Included(keys) => self.bounds(&keys[positions.clone()], false, starts, &mut from.start),
                    Bound::Excluded(keys) => self.bounds(&keys[positions.clone()], true, starts, &mut from.start),
                    Bound::Unbounded => starts.fill(0),
                }
                match high {
                    Bound::Included(keys) => self.bounds(&keys[positions], true, ends, &mut from.end),
                    Bound::Excluded(keys) => self.bounds(&keys[positions], false, ends, &mut from.end),
                    Bound::Unbounded => ends.fill(self.keys().len() as u32),
                }
            }
        }
    }

    fn keys(&self) -> &[K] {
        match &self.search {
            Search::Tree(tree) => tree.tree().keys(),
            Search::Merge(keys) => keys,
        }
    }

    /// The first place whose key is not below each probe, or (`above`) is above it.
    fn bounds(&self, probes: &[K], above: bool, places: &mut [u32], from: &mut Option<usize>) {
        match &self.search {
            Search::Tree(tree) if above => tree.tree().upper_bounds_here(probes, places),
            Search::Tree(tree) => tree.tree().lower_bounds_here(probes, places),
            Search::Merge(keys) => {
                let before = |key: &K, probe: &K| if above { key <= probe } else { key < probe };
                for (probe, place) in probes.iter().zip(places) {
                    let at = match *from {
                        Some(at) => at + gallop(&keys[at..], |key| before(key, probe)),
                        None => keys.partition_point(|key| before(key, probe)),
                    };
                    *from = Some(at);
                    *place = at as u32;
                }
            }
        }
    }
}

/// Where the merge of one range of positions has come to.
#[derive(Default)]
struct Cursor {
    start: Option<usize>,
    end: Option<usize>,
}

#[derive(Default)]
struct Spans {
    starts: Vec<u32>,
    ends: Vec<u32>,
}

/// How many leading keys fulfil a predicate that holds up to some place: doubled steps, then a binary search.
fn gallop<K>(keys: &[K], holds: impl Fn(&K) -> bool) -> usize {
    let mut step = 1;
    while step <= keys.len() && holds(&keys[step - 1]) {
        step *= 2;
    }
    let low = step / 2;
    low + keys[low..keys.len().min(step)].partition_point(holds)
}

/// How many leading keys equal the probe.
fn equal_keys<K: Ord>(keys: &[K], probe: &K) -> usize {
    gallop(keys, |key| key <= probe)
}

impl<K: CssKey + SortKey> Matcher for RangeMatcher<'_, K> {
    fn positions(&self) -> usize {
        self.probe.len
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let mut pairs = PairBuffer::new(emit);
        let (mut spans, mut cursor) = (Spans::default(), Cursor::default());
        for first in positions.clone().step_by(BATCH) {
            let batch = first..positions.end.min(first + BATCH);
            self.spans(batch.clone(), &mut spans, &mut cursor);
            for ((position, &start), &end) in batch.zip(&spans.starts).zip(&spans.ends) {
                let places = start as usize..end as usize;
                pairs.extend(&self.build_rows, places, row_of(&self.probe.rows, position))?;
            }
        }
        pairs.flush()
    }
}
