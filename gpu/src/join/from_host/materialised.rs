//! Rows of a hash join with a payload a side, of columns in host memory.

use super::FromHostOptions;
use super::arrivals::Arrivals;
use super::columns::HostColumn;
use super::departures::Departures;
use crate::error::{GpuError, Result};
use crate::join::hash::{BuildColumns, HashOptions};
use crate::memory::PinnedBuffer;
use crate::stream::Stream;

/// Rows in no order, in pinned memory: each buffer has the bytes of its column.
pub struct MaterialisedRows {
    pub keys: PinnedBuffer<u8>,
    pub build_values: PinnedBuffer<u8>,
    pub probe_values: PinnedBuffer<u8>,
    pub rows: u64,
}

/// As [`join_materialised`](crate::join::hash::join_materialised), from host memory and back to it, in pieces.
pub fn materialised_from_host<'a>(
    stream: &'a Stream,
    build: (HostColumn<'a>, HostColumn<'a>),
    probe: (HostColumn<'a>, HostColumn<'a>),
    options: &FromHostOptions,
    hash_options: &HashOptions,
    emit: &mut dyn FnMut(MaterialisedRows) -> Result<()>,
) -> Result<()> {
    for (keys, values) in [build, probe] {
        if keys.rows() != values.rows() {
            return Err(GpuError::Invalid(format!(
                "a join of {} keys with {} values",
                keys.rows(),
                values.rows()
            )));
        }
    }
    let key_bytes = if matches!(build.0, HostColumn::U32(_)) { 4 } else { 8 };
    let emit = &mut |[keys, build_values, probe_values]: [PinnedBuffer<u8>; 3]| {
        emit(MaterialisedRows {
            rows: keys.len() as u64 / key_bytes,
            keys,
            build_values,
            probe_values,
        })
    };
    let (whole, in_chunks) = ([build.0, build.1], vec![probe.0, probe.1]);
    let mut arrivals = Arrivals::new(stream, &whole, in_chunks, options.chunk_rows)?;
    let mut departures = Departures::new(stream)?;
    let prepared = {
        let columns = arrivals.take_whole()?;
        let (keys, values) = (columns[0].part(build.0.rows())?, columns[1].part(build.0.rows())?);
        let probe_wide = matches!(probe.1, HostColumn::U64(_));
        BuildColumns::new(stream, (keys, values), probe_wide, hash_options)?
    };
    // Rows that a chunk's rows had, as (rows, of).
    let mut seen = (0, 1);
    for number in 0..arrivals.chunk_count() {
        {
            let (chunk, columns) = arrivals.chunk(number)?;
            let len = chunk.end - chunk.start;
            let expected = len.max((seen.0 as f64 / seen.1 as f64 * len as f64 * 1.1) as u64);
            let probe = (columns[0].part(len)?, columns[1].part(len)?);
            let found = prepared.join(stream, probe, Some(expected))?;
            seen = (found.rows, len);
            if found.rows > 0 {
                departures.send(stream, [found.keys, found.build_values, found.probe_values], emit)?;
            }
        }
        arrivals.done(number)?;
    }
    departures.finish(emit)
}
