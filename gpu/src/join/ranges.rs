//! The joins over a sorted build side, as one operator: every probe's partners are a span of it.
//!
//! ```sql
//! SELECT ... FROM build JOIN probe ON build.key = probe.key                              -- INLJ, SMJ
//! SELECT ... FROM build JOIN probe ON build.key BETWEEN probe.low AND probe.high         -- band, inequality
//! ```
//!
//! INLJ probes a CSS-tree; SMJ merges ascending probes; both write pairs by the lengths of the spans. Only the sorted keys
//! and rows stand; a step takes 4 bytes a position for the starts of its spans, with a residual condition 20, and 12
//! bytes for each 2048 candidates.

use std::ops::{Bound, Range};

use super::css_tree::CssTree;
use super::expand::{self, Candidates, SpanViews};
use super::matcher::{Flags, Matcher, PairsMut};
use super::probe::Probe;
use super::residual::Residual;
use super::sorted::SortedSide;
use super::spans::{self, Spans};
use super::step::LastStep;
use crate::error::Result;
use crate::memory::{DeviceBuffer, DeviceView, DeviceViewMut};
use crate::number::Reduction;
use crate::primitives::read::read;
use crate::primitives::scan::{exclusive_scan, inclusive_scan};
use crate::stream::Stream;

/// Candidates of one step with a residual condition: half a minute's work on a large GPU, which inequalities reach.
const CANDIDATES_MAX: u64 = 1 << 40;
/// Positions that make a step worth its round trip, however many candidates they may have.
const STEP_POSITIONS: u64 = 1 << 20;

/// The directory over the build keys.
pub enum Directory<'a> {
    Borrowed(&'a CssTree),
    Owned(CssTree),
}

/// A join whose probes ask for spans of sorted build keys.
pub struct RangeMatcher<'a> {
    build: SortedSide<'a>,
    /// Without one, ascending probes are merged with the keys.
    directory: Option<Directory<'a>>,
    probe: Probe<'a>,
    residual: Residual,
    /// What the last step found, for its writes.
    step: LastStep<Step>,
}

/// What stands of one range of positions.
struct Step {
    starts: DeviceBuffer<u32>,
    candidates: Option<StepCandidates>,
}

/// Candidates of a residual condition.
struct StepCandidates {
    offsets: DeviceBuffer<u64>,
    total: u64,
    /// Pairs before each tile, and all, once counted.
    tile_bases: Option<DeviceBuffer<u64>>,
}

impl<'a> RangeMatcher<'a> {
    /// Ascending probes are merged with the keys, others go down a CSS-tree, which is built unless given.
    pub fn new(
        stream: &Stream,
        build: SortedSide<'a>,
        directory: Option<Directory<'a>>,
        probe: Probe<'a>,
        residual: Residual,
    ) -> Result<RangeMatcher<'a>> {
        let both_bounded = !probe.bounds().iter().any(|bound| matches!(bound, Bound::Unbounded));
        let directory = match directory {
            None if probe.ascending && both_bounded => None,
            None => Some(Directory::Owned(CssTree::build(stream, build.keys())?)),
            given => given,
        };
        Ok(RangeMatcher {
            build,
            directory,
            probe,
            residual,
            step: LastStep::default(),
        })
    }

    /// Indexed nested-loop join (He 2008, section 4.1): probes in any order, a tree that stands.
    pub fn indexed(
        stream: &Stream,
        index: SortedSide<'a>,
        tree: &'a CssTree,
        probe: Probe<'a>,
        residual: Residual,
    ) -> Result<RangeMatcher<'a>> {
        RangeMatcher::new(stream, index, Some(Directory::Borrowed(tree)), probe, residual)
    }

    /// The rows of the positions.
    fn probe_rows(&self, positions: &Range<u64>) -> Result<Option<DeviceView<'_, u32>>> {
        self.probe
            .rows
            .as_ref()
            .map(|rows| rows.view().slice(positions.clone()))
            .transpose()
    }

    fn find(&self, stream: &Stream, positions: &Range<u64>, spans: Spans<'_>) -> Result<()> {
        let tree = self.directory.as_ref().map(|directory| match directory {
            Directory::Borrowed(tree) => *tree,
            Directory::Owned(tree) => tree,
        });
        spans::find(stream, self.build.keys(), tree, &self.probe, positions.clone(), spans)
    }

    /// Finds spans, and sets flags by them: there is no further condition.
    fn find_and_mark(
        &self,
        stream: &Stream,
        positions: &Range<u64>,
        counts: DeviceViewMut<'_, u32>,
        flags: Flags<'_>,
    ) -> Result<Step> {
        let mut starts = stream.alloc::<u32>(positions.end - positions.start)?;
        let items = self.build.keys().len();
        let mut reach = flags
            .build
            .is_some()
            .then(|| stream.alloc_zeroed::<u32>(items))
            .transpose()?;
        let spans = Spans {
            starts: starts.view_mut(),
            counts,
            probe_flags: flags.probe,
            reach: reach.as_mut().map(|reach| reach.view_mut()),
        };
        self.find(stream, positions, spans)?;
        if let (Some(reach), Some(build_flags)) = (reach, flags.build) {
            let mut farthest = stream.alloc::<u32>(items)?;
            inclusive_scan(stream, reach.view(), farthest.view_mut(), Reduction::Max)?;
            expand::mark_covered(stream, farthest.view(), self.build.rows(), build_flags)?;
        }
        Ok(Step {
            starts,
            candidates: None,
        })
    }

    /// Finds spans whose pairs are candidates of the residual condition.
    fn find_candidates(&self, stream: &Stream, positions: &Range<u64>) -> Result<Step> {
        let items = positions.end - positions.start;
        let mut starts = stream.alloc::<u32>(items)?;
        let mut counts = stream.alloc::<u32>(items)?;
        let spans = Spans {
            starts: starts.view_mut(),
            counts: counts.view_mut(),
            probe_flags: None,
            reach: None,
        };
        self.find(stream, positions, spans)?;
        let mut offsets = stream.alloc::<u64>(items + 1)?;
        exclusive_scan(stream, counts.view(), offsets.view_mut(), Reduction::Sum)?;
        let total = read(stream, offsets.slice(items..)?)?[0];
        Ok(Step {
            starts,
            candidates: Some(StepCandidates {
                offsets,
                total,
                tile_bases: None,
            }),
        })
    }

    fn span_views<'s>(
        &'s self,
        positions: &Range<u64>,
        step: &'s Step,
        offsets: DeviceView<'s, u64>,
    ) -> Result<SpanViews<'s>> {
        Ok(SpanViews {
            starts: step.starts.view(),
            offsets,
            build_rows: self.build.rows(),
            probe_rows: self.probe_rows(positions)?,
            first_row: positions.start,
        })
    }

    fn candidates<'s>(
        &'s self,
        positions: &Range<u64>,
        step: &'s Step,
        found: &'s StepCandidates,
    ) -> Result<Candidates<'s>> {
        Ok(Candidates {
            spans: self.span_views(positions, step, found.offsets.view())?,
            residual: &self.residual,
            total: found.total,
        })
    }

    /// Counts what passes the residual condition, and keeps the tiles' places for the writes.
    fn count_candidates(
        &self,
        stream: &Stream,
        positions: &Range<u64>,
        counts: DeviceViewMut<'_, u32>,
        flags: Flags<'_>,
    ) -> Result<Step> {
        let mut step = self.find_candidates(stream, positions)?;
        if let Some(found) = &step.candidates {
            let tile_counts = self.candidates(positions, &step, found)?.count(stream, counts, flags)?;
            let mut bases = stream.alloc::<u64>(tile_counts.len() + 1)?;
            exclusive_scan(stream, tile_counts.view(), bases.view_mut(), Reduction::Sum)?;
            step.candidates.as_mut().map(|found| found.tile_bases.replace(bases));
        }
        Ok(step)
    }

    fn count_step(
        &self,
        stream: &Stream,
        positions: &Range<u64>,
        counts: DeviceViewMut<'_, u32>,
        flags: Flags<'_>,
    ) -> Result<Step> {
        match self.residual.is_none() {
            true => self.find_and_mark(stream, positions, counts, flags),
            false => self.count_candidates(stream, positions, counts, flags),
        }
    }
}

impl Matcher for RangeMatcher<'_> {
    fn positions(&self) -> u64 {
        self.probe.len
    }

    fn step_positions(&self) -> u64 {
        match self.residual.is_none() {
            true => u64::MAX,
            false => (CANDIDATES_MAX / self.build.keys().len().max(1)).max(STEP_POSITIONS),
        }
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
        pairs: PairsMut<'_>,
    ) -> Result<()> {
        let count = |positions: &Range<u64>| {
            let mut counts = stream.alloc::<u32>(positions.end - positions.start)?;
            self.count_step(stream, positions, counts.view_mut(), Flags::default())
        };
        self.step
            .write(stream, &positions, count, |step| match &step.candidates {
                None => {
                    let spans = self.span_views(&positions, step, offsets)?;
                    expand::write_all(stream, spans, window.start, pairs)
                }
                Some(found) => match &found.tile_bases {
                    Some(bases) => {
                        let candidates = self.candidates(&positions, step, found)?;
                        candidates.write(stream, bases.view(), window, pairs)
                    }
                    None => Ok(()),
                },
            })
    }

    fn mark(&self, stream: &Stream, positions: Range<u64>, flags: Flags<'_>) -> Result<()> {
        if self.residual.is_none() {
            let mut counts = stream.alloc::<u32>(positions.end - positions.start)?;
            self.find_and_mark(stream, &positions, counts.view_mut(), flags)?;
            return Ok(());
        }
        let step = self.find_candidates(stream, &positions)?;
        match &step.candidates {
            Some(found) => self.candidates(&positions, &step, found)?.mark(stream, flags),
            None => Ok(()),
        }
    }

    fn write_at_once(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        pairs: PairsMut<'_>,
        count: DeviceViewMut<'_, u64>,
        flags: Flags<'_>,
    ) -> Result<bool> {
        // Spans are counted as they are found, so that their pairs need no guess of how many there are.
        if self.residual.is_none() {
            return Ok(false);
        }
        let step = self.find_candidates(stream, &positions)?;
        if let Some(found) = &step.candidates {
            self.candidates(&positions, &step, found)?
                .write_at_once(stream, pairs, count, flags)?;
        }
        Ok(true)
    }
}
