//! ```sql
//! SELECT count(*) FROM build JOIN probe ON ...
//! ```
//! The first pass of count, prefix sum and write (He 2008, section 4), whose counts are summed: nothing is written but the
//! counts of a step, and only their sum leaves the device.

use super::matcher::{Flags, Matcher};
use super::run::RunLimits;
use crate::error::Result;
use crate::number::Reduction;
use crate::primitives::read::read;
use crate::primitives::reduce::reduce_into;
use crate::stop::Stop;
use crate::stream::Stream;

/// The number of an operator's pairs, and the steps that it took. Memory: 4 bytes a position of a step.
pub fn count_pairs(stream: &Stream, matcher: &dyn Matcher, limits: RunLimits, stop: Stop<'_>) -> Result<(u64, u64)> {
    let positions = matcher.positions();
    let step = limits.positions_max.min(matcher.step_positions()).max(1);
    let mut counts = stream.alloc::<u32>(step.min(positions))?;
    let mut sum = stream.alloc_zeroed::<u64>(1)?;
    let (mut pairs, mut steps, mut from) = (0, 0, 0);
    while from < positions {
        stop.check()?;
        let to = positions.min(from + step);
        counts.truncate(to - from);
        matcher.count(stream, from..to, counts.view_mut(), Flags::default())?;
        reduce_into(stream, counts.view(), sum.view_mut(), Reduction::Sum)?;
        pairs += read(stream, sum.view())?[0];
        steps += 1;
        from = to;
    }
    Ok((pairs, steps))
}
