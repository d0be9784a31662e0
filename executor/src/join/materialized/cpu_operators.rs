//! The CPU's operators over normalized keys that they own.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow, Range};

use datafusion::common::{Result, internal_err};
use tenon_cpu::Stop;
use tenon_cpu::join::hash::{HashKey, HashMatcher, HashTable};
use tenon_cpu::join::{CrossMatcher, CssKey, Emit, Matcher, NestedLoopMatcher, Probe, RangeMatcher, Side};
use tenon_gpu::GpuError;
use tenon_gpu::join::sort_merge::Ascending;
use tenon_gpu::primitives::sort::SortKey;

use super::keys::KeyedRows;
use super::range::RangeKeys;
use crate::gpu_error::to_datafusion;
use crate::join::normalized_keys::NormalizedKeys;
use crate::join::path::Operator;

/// A normalized key that every operator takes.
trait Key: CssKey + SortKey + HashKey {}
impl Key for u32 {}
impl Key for u64 {}

type Boxed = Box<dyn Matcher>;

/// Equal keys: `build` is the build side.
pub fn equal(
    operator: Operator,
    (build, probe): (KeyedRows, KeyedRows),
    ascending: Ascending,
    stop: Stop<'_>,
) -> Result<Boxed> {
    let matcher = match (build.keys, probe.keys) {
        (NormalizedKeys::U32(keys), NormalizedKeys::U32(probes)) => {
            equal_keys(operator, (keys, build.rows), (probes, probe.rows), ascending, stop)
        }
        (NormalizedKeys::U64(keys), NormalizedKeys::U64(probes)) => {
            equal_keys(operator, (keys, build.rows), (probes, probe.rows), ascending, stop)
        }
        _ => return internal_err!("join keys of two widths"),
    };
    matcher.map_err(to_datafusion)
}

fn equal_keys<K: Key>(
    operator: Operator,
    build: (Vec<K>, Option<Vec<u32>>),
    probe: (Vec<K>, Option<Vec<u32>>),
    ascending: Ascending,
    stop: Stop<'_>,
) -> Result<Boxed, GpuError> {
    if matches!(operator, Operator::Hj | Operator::Triton) {
        let rows = build.1.unwrap_or_else(|| (0..build.0.len() as u32).collect());
        return Ok(Box::new(Hashed {
            table: HashTable::new_unless(stop, &build.0, &rows)?,
            keys: probe.0,
            rows: probe.1,
        }));
    }
    let (build, probe) = (side(build)?, side(probe)?);
    Ok(match operator {
        Operator::Ninlj => Box::new(NestedLoopMatcher::new(build, probe)),
        Operator::Inlj => Box::new(RangeMatcher::new(
            sorted(build, ascending.build, stop)?,
            Probe::equal(probe),
        )),
        _ => {
            let probe = Probe::equal(sorted(probe, ascending.probe, stop)?).ascending();
            Box::new(RangeMatcher::new(sorted(build, ascending.build, stop)?, probe))
        }
    })
}

fn side<K: Key>((keys, rows): (Vec<K>, Option<Vec<u32>>)) -> Result<Side<'static, K>, GpuError> {
    Side::new(keys, rows.map(Cow::Owned))
}

/// The side, sorted here unless it ascends.
fn sorted<K: Key>(side: Side<'static, K>, ascends: bool, stop: Stop<'_>) -> Result<Side<'static, K>, GpuError> {
    match ascends {
        true => Ok(side),
        false => side.sorted_unless(stop),
    }
}

/// Ranges of the build side, whose keys may ascend already.
pub fn ranges(range: RangeKeys, ascending: bool, stop: Stop<'_>) -> Result<Boxed> {
    let (rows, probe_rows) = (range.build.rows, range.probe_rows);
    let matcher = match (range.build.keys, range.lows, range.highs) {
        (NormalizedKeys::U32(keys), NormalizedKeys::U32(lows), NormalizedKeys::U32(highs)) => {
            range_keys((keys, rows), ascending, (lows, highs), probe_rows, stop)
        }
        (NormalizedKeys::U64(keys), NormalizedKeys::U64(lows), NormalizedKeys::U64(highs)) => {
            range_keys((keys, rows), ascending, (lows, highs), probe_rows, stop)
        }
        _ => return internal_err!("a range of two widths"),
    };
    matcher.map_err(to_datafusion)
}

fn range_keys<K: Key>(
    build: (Vec<K>, Option<Vec<u32>>),
    ascending: bool,
    (lows, highs): (Vec<K>, Vec<K>),
    probe_rows: Vec<u32>,
    stop: Stop<'_>,
) -> Result<Boxed, GpuError> {
    let build = sorted(side(build)?, ascending, stop)?;
    let (low, high) = (Bound::Included(Cow::Owned(lows)), Bound::Included(Cow::Owned(highs)));
    let probe = Probe::between(probe_rows.len(), Some(Cow::Owned(probe_rows)), low, high)?;
    Ok(Box::new(RangeMatcher::new(build, probe)))
}

/// All pairs of these rows.
pub fn cross(build: CrossSide, probe: CrossSide) -> Result<Boxed> {
    let cross = Cross { build, probe };
    // Checked once, so that it cannot fail later.
    cross.matcher().map_err(to_datafusion)?;
    Ok(Box::new(cross))
}

struct Hashed<K> {
    table: HashTable<K>,
    keys: Vec<K>,
    rows: Option<Vec<u32>>,
}

impl<K: Key> Matcher for Hashed<K> {
    fn positions(&self) -> usize {
        self.keys.len()
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        let matcher = HashMatcher {
            table: &self.table,
            keys: &self.keys,
            rows: self.rows.as_deref(),
        };
        matcher.pairs(positions, emit)
    }
}

/// Rows of one side.
pub enum CrossSide {
    /// The first so many.
    First(usize),
    Picked(Vec<u32>),
}

impl CrossSide {
    pub fn len(&self) -> usize {
        match self {
            CrossSide::First(count) => *count,
            CrossSide::Picked(rows) => rows.len(),
        }
    }

    fn picked(&self) -> Option<&[u32]> {
        match self {
            CrossSide::First(_) => None,
            CrossSide::Picked(rows) => Some(rows),
        }
    }
}

struct Cross {
    build: CrossSide,
    probe: CrossSide,
}

impl Cross {
    fn matcher(&self) -> Result<CrossMatcher<'_>, GpuError> {
        CrossMatcher::new(
            self.build.picked(),
            self.build.len(),
            self.probe.picked(),
            self.probe.len(),
        )
    }
}

impl Matcher for Cross {
    fn positions(&self) -> usize {
        self.probe.len()
    }

    fn pairs(&self, positions: Range<usize>, emit: &mut Emit<'_>) -> ControlFlow<()> {
        match self.matcher() {
            Ok(matcher) => matcher.pairs(positions, emit),
            Err(_) => ControlFlow::Break(()),
        }
    }
}
