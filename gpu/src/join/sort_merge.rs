//! Sort-merge join (He 2008, section 4.1).
//!
//! ```sql
//! SELECT ... FROM build JOIN probe ON build.key = probe.key
//! ```
//!
//! Sorts the sides that are not sorted, then merges them in equal parts by merge path. Memory: keys and rows of every side
//! sorted here, and the same again while one sorts.

use super::probe::Probe;
use super::ranges::RangeMatcher;
use super::residual::Residual;
use super::side::Side;
use super::sorted::SortedSide;
use crate::error::Result;
use crate::stream::Stream;

/// Which sides ascend already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ascending {
    pub build: bool,
    pub probe: bool,
}

/// Sorts what does not ascend; the matcher then merges.
pub fn sort_merge<'a>(
    stream: &Stream,
    build: Side<'a>,
    probe: Side<'a>,
    ascending: Ascending,
    residual: Residual,
) -> Result<RangeMatcher<'a>> {
    let build = sorted(stream, build, ascending.build)?;
    let probe = sorted(stream, probe, ascending.probe)?;
    RangeMatcher::new(stream, build, None, Probe::equal_sorted(probe), residual)
}

/// The side, sorted here unless it ascends.
pub(super) fn sorted<'a>(stream: &Stream, side: Side<'a>, ascends: bool) -> Result<SortedSide<'a>> {
    match ascends {
        true => Ok(SortedSide::presorted(side)),
        false => SortedSide::sort(stream, side),
    }
}
