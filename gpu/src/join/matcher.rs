//! What a join operator does, after its build side is done.

use std::ops::Range;

use crate::error::Result;
use crate::memory::{DeviceView, DeviceViewMut};
use crate::stream::Stream;

/// Where pairs go: the same places in both buffers.
pub struct PairsMut<'a> {
    pub build_rows: DeviceViewMut<'a, u32>,
    pub probe_rows: DeviceViewMut<'a, u32>,
}

/// A byte a row, set to 1 where the row has a partner; a side that nobody asks for is `None`.
#[derive(Default)]
pub struct Flags<'a> {
    pub build: Option<DeviceViewMut<'a, u8>>,
    pub probe: Option<DeviceViewMut<'a, u8>>,
}

impl Flags<'_> {
    pub fn reborrow(&mut self) -> Flags<'_> {
        Flags {
            build: self.build.as_mut().map(|flags| flags.reborrow()),
            probe: self.probe.as_mut().map(|flags| flags.reborrow()),
        }
    }
}

/// An operator whose build side stands: it finds the partners of probe rows.
///
/// Probe keys are addressed by position, in an order of the operator's choice (a partitioned or sorted one). Work on
/// different ranges of positions is independent, so that a caller bounds the output of one step and can stop between
/// steps.
pub trait Matcher {
    /// Probe keys.
    fn positions(&self) -> u64;

    /// Positions that one step shall take at most, so that a cancel is not long in coming: what cannot be bounded by the
    /// number of pairs.
    fn step_positions(&self) -> u64 {
        u64::MAX
    }

    /// Sets `counts[i]` to the partners of position `positions.start + i`, and sets the flags asked for.
    fn count(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        counts: DeviceViewMut<'_, u32>,
        flags: Flags<'_>,
    ) -> Result<()>;

    /// Writes the pairs whose place is within `window` (He 2008, section 4: count, prefix sum, write): the first pair of
    /// position `positions.start + i` has place `offsets[i]`, and place `window.start` is the first of `pairs`.
    /// There is one offset more than positions.
    fn write(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        offsets: DeviceView<'_, u64>,
        window: Range<u64>,
        pairs: PairsMut<'_>,
    ) -> Result<()>;

    /// Sets the flags asked for, without counting: a row's first partner is enough.
    fn mark(&self, stream: &Stream, positions: Range<u64>, flags: Flags<'_>) -> Result<()>;

    /// Writes all pairs of these positions in one pass, in no order, at places taken from `count` (one element, zero
    /// before) by a block at a time, and sets the flags asked for. `count` becomes the number of all pairs, and those
    /// beyond the buffers are not written: then the caller starts again by [`Matcher::count`]. Returns false, and has
    /// done nothing, if the operator cannot.
    fn write_at_once(
        &self,
        stream: &Stream,
        positions: Range<u64>,
        pairs: PairsMut<'_>,
        count: DeviceViewMut<'_, u64>,
        flags: Flags<'_>,
    ) -> Result<bool> {
        let _ = (stream, positions, pairs, count, flags);
        Ok(false)
    }
}
