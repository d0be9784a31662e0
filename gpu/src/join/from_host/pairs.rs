//! Pairs of rows of two sides in host memory, by any operator.

use super::FromHostOptions;
use super::arrivals::Arrivals;
use super::columns::{DeviceColumn, DeviceSide, columns, row_numbers};
use super::departures::Departures;
use crate::error::{GpuError, Result};
use crate::join::triton::{HostSide, HostValues};
use crate::join::{JoinKind, JoinOutput, JoinRun, Matcher, RunLimits, Side};
use crate::memory::PinnedBuffer;
use crate::stream::Stream;

/// Row numbers of partners, at the same places, in pinned memory.
pub struct HostPairs {
    pub build_rows: PinnedBuffer<u32>,
    pub probe_rows: PinnedBuffer<u32>,
}

/// The inner join of two sides. `prepare` makes the build side's state once, out of its columns on the device;
/// `matcher` joins a chunk of the probe side with it. `emit` gets the pairs as they come. The sides' values are row
/// numbers.
pub fn pairs_from_host<B>(
    stream: &Stream,
    build: HostSide<'_>,
    probe: HostSide<'_>,
    options: &FromHostOptions,
    prepare: impl FnOnce(&Stream, DeviceSide) -> Result<B>,
    matcher: impl for<'a> Fn(&Stream, &'a B, Side<'a>) -> Result<Box<dyn Matcher + 'a>>,
    emit: &mut dyn FnMut(HostPairs) -> Result<()>,
) -> Result<()> {
    if [build, probe]
        .iter()
        .any(|side| matches!(side.values, HostValues::U64(_)))
    {
        return Err(GpuError::Invalid("row numbers of 64 bits in a join".into()));
    }
    let emit = &mut |[build_rows, probe_rows]: [PinnedBuffer<u32>; 2]| emit(HostPairs { build_rows, probe_rows });
    let mut arrivals = Arrivals::new(stream, &columns(&build), columns(&probe), options.chunk_rows)?;
    let mut departures = Departures::new(stream)?;
    let prepared = prepare(
        stream,
        DeviceSide {
            columns: arrivals.take_whole()?,
            keys: build.len(),
            row_count: build.row_count,
        },
    )?;
    for number in 0..arrivals.chunk_count() {
        {
            let (chunk, columns) = arrivals.chunk(number)?;
            let len = chunk.end - chunk.start;
            let numbers = match columns.len() {
                1 => Some(row_numbers(stream, &chunk)?),
                _ => None,
            };
            let rows = match (columns.get(1), &numbers) {
                (Some(DeviceColumn::U32(rows)), _) => Some(rows.slice(..len)?),
                (_, numbers) => numbers.as_ref().map(|numbers| numbers.view()),
            };
            let side = Side::with_rows(columns[0].part(len)?, rows, probe.row_count)?;
            let matcher = matcher(stream, &prepared, side)?;
            let (kind, limits) = (JoinKind::Inner, RunLimits::default());
            let mut run = JoinRun::new(stream, matcher.as_ref(), kind, build.row_count, probe.row_count, limits)?;
            while let Some(output) = run.next_output()? {
                if let JoinOutput::Pairs(pairs) = output {
                    departures.send(stream, [pairs.build_rows, pairs.probe_rows], emit)?;
                }
            }
        }
        arrivals.done(number)?;
    }
    departures.finish(emit)
}
