//! Hash joins whose rows have any number of payload columns (Lutz 2022, figures 21 and 22).
//!
//! ```sql
//! SELECT key, build.a, build.b, ..., probe.x, probe.y, ... FROM build JOIN probe USING (key)
//! ```
//!
//! Row numbers go through the partitioning, and pairs of places in partition order come out of the join. Each side's
//! columns then come by one of two ways:
//!
//! | | in order of partition | in order of output |
//! | --- | --- | --- |
//! | late | - | row numbers (near reads), then each column by row number (far reads) |
//! | early | each column by row number (far reads) | each column by place (near reads) |
//!
//! Pairs that come out together are of one partition, whose part of a column the L2 cache holds: that makes reads by
//! place near ones. Early reads far once for each input row and late once for each output row.
//!
//! A single payload of a side that fits a tuple is better carried along: [`join_materialised`](super::join_materialised).

use super::materialised::Column;
use super::partition::partition_tuples;
use super::shape::HashOptions;
use super::work::{JoinParams, PartitionJoinMode, PartitionPair};
use crate::error::{GpuError, Result};
use crate::join::{Keys, Residual};
use crate::memory::{DeviceBuffer, DevicePtrMut, DeviceView, Element};
use crate::primitives::gather::gather;
use crate::primitives::read::read;
use crate::stream::Stream;

/// When payload columns are brought into the order of the join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Materialise {
    Early,
    Late,
}

/// A far read of 4 or 8 bytes takes as long as this many near ones on an H100.
const FAR_OVER_NEAR: f64 = 4.0;

impl Materialise {
    /// The cheaper way for a side of `rows` rows with `columns` columns of which `output` rows come out. Columns that
    /// the L2 cache holds make all reads near ones: then fewer are better.
    pub fn choose(columns: u64, rows: u64, output: u64, l2_bytes: u64) -> Materialise {
        if rows * 4 <= l2_bytes / 2 {
            return Materialise::Late;
        }
        let (columns, rows, output) = (columns as f64, rows as f64, output as f64);
        let early = columns * (rows * FAR_OVER_NEAR + output);
        let late = output + columns * output * FAR_OVER_NEAR;
        if early < late {
            Materialise::Early
        } else {
            Materialise::Late
        }
    }
}

/// Keys and payload columns of one side, of equal lengths.
#[derive(Clone, Copy)]
pub struct WideSide<'a> {
    pub keys: Keys<'a>,
    pub columns: &'a [Column<'a>],
}

/// A column of the result.
pub enum WideColumn {
    U32(DeviceBuffer<u32>),
    U64(DeviceBuffer<u64>),
}

/// Rows of the join in no order.
pub struct WideRows {
    /// Bytes of the keys.
    pub keys: DeviceBuffer<u8>,
    pub build: Vec<WideColumn>,
    pub probe: Vec<WideColumn>,
    pub rows: u64,
}

/// Joins, and brings all columns by the way given, or by the cheaper one for each side. `rows_expected` sizes the output
/// (none: the probe rows); if more come out, the join of partitions runs again. Memory: the result, for each side 12
/// or 20 bytes a row by width of the keys, and 12 bytes an output row; one column at a time in order of partition.
pub fn join_wide(
    stream: &Stream,
    build: WideSide<'_>,
    probe: WideSide<'_>,
    rows_expected: Option<u64>,
    way: Option<Materialise>,
    options: &HashOptions,
) -> Result<WideRows> {
    for side in [build, probe] {
        let fits = side.columns.iter().all(|column| column.len() == side.keys.len());
        if !fits || side.keys.width() != build.keys.width() {
            return Err(GpuError::Invalid(format!(
                "a join of {} keys of {} bytes with columns of other lengths or keys of other widths",
                side.keys.len(),
                side.keys.width()
            )));
        }
    }
    let (layout, shape, passes) = options.plan(build.keys, false);
    let partition = |keys: Keys<'_>| {
        let mut partitioned = partition_tuples(stream, layout, keys, None, &passes)?;
        let rows = partitioned.number_by_place(stream, layout, &passes[0])?;
        Result::Ok((partitioned, rows))
    };
    let (build_sides, probe_sides) = (partition(build.keys)?, partition(probe.keys)?);
    let pair = PartitionPair {
        build: &build_sides.0,
        probe: &probe_sides.0,
        layout,
        shape,
        values: ("u32", "u32"),
        residual: &Residual::none(),
        skewed: None,
    };
    let places = Places::find(stream, &pair, rows_expected.unwrap_or(probe.keys.len()))?;
    drop((build_sides.0, probe_sides.0));
    let l2_bytes = stream.device().info().l2_bytes;
    let bring = |side: WideSide<'_>, rows: DeviceBuffer<u32>, places: DeviceBuffer<u32>| {
        let count = side.columns.len() as u64;
        let way = way.unwrap_or_else(|| Materialise::choose(count, side.keys.len(), places.len(), l2_bytes));
        let late = match way {
            Materialise::Late => Some(gathered(stream, rows.view(), places.view())?),
            Materialise::Early => None,
        };
        let bring = |column: &Column<'_>| {
            Ok(match *column {
                Keys::U32(column) => WideColumn::U32(brought(stream, column, &rows, &places, late.as_ref())?),
                Keys::U64(column) => WideColumn::U64(brought(stream, column, &rows, &places, late.as_ref())?),
            })
        };
        side.columns.iter().map(bring).collect::<Result<Vec<_>>>()
    };
    Ok(WideRows {
        rows: places.build.len(),
        keys: places.keys,
        build: bring(build, build_sides.1, places.build)?,
        probe: bring(probe, probe_sides.1, places.probe)?,
    })
}

/// The column in order of output: by the output's row numbers if they are given, else by way of the order of partition.
fn brought<T: Element>(
    stream: &Stream,
    column: DeviceView<'_, T>,
    rows: &DeviceBuffer<u32>,
    places: &DeviceBuffer<u32>,
    late: Option<&DeviceBuffer<u32>>,
) -> Result<DeviceBuffer<T>> {
    match late {
        Some(rows) => gathered(stream, column, rows.view()),
        None => {
            let partitioned = gathered(stream, column, rows.view())?;
            gathered(stream, partitioned.view(), places.view())
        }
    }
}

fn gathered<T: Element>(
    stream: &Stream,
    source: DeviceView<'_, T>,
    indexes: DeviceView<'_, u32>,
) -> Result<DeviceBuffer<T>> {
    let mut output = stream.alloc::<T>(indexes.len())?;
    gather(stream, source, indexes, output.view_mut())?;
    Ok(output)
}

/// Keys and places in order of partition of all pairs.
struct Places {
    keys: DeviceBuffer<u8>,
    build: DeviceBuffer<u32>,
    probe: DeviceBuffer<u32>,
}

impl Places {
    fn find(stream: &Stream, pair: &PartitionPair<'_>, rows_expected: u64) -> Result<Places> {
        let key_bytes = pair.layout.tuple_bytes() / 2;
        let mut capacity = rows_expected.max(1);
        loop {
            let mut keys = stream.alloc::<u8>(capacity * key_bytes)?;
            let (mut build, mut probe) = (stream.alloc::<u32>(capacity)?, stream.alloc::<u32>(capacity)?);
            let mut count = stream.alloc_zeroed::<u64>(1)?;
            let params = JoinParams {
                keys_out: keys.ptr_mut(),
                build_out: DevicePtrMut::new(build.ptr_mut().0),
                probe_out: DevicePtrMut::new(probe.ptr_mut().0),
                capacity_out: capacity,
                count_out: count.ptr_mut(),
                ..JoinParams::none()
            };
            // SAFETY: outputs of `capacity_out` elements of their types.
            unsafe { pair.run(stream, PartitionJoinMode::WriteAtOnce, 0..pair.probe.items, params)? };
            let found = read(stream, count.view())?[0];
            if found > capacity {
                capacity = found;
                continue;
            }
            keys.truncate(found * key_bytes);
            build.truncate(found);
            probe.truncate(found);
            return Ok(Places { keys, build, probe });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_output_rows_are_brought_late_and_many_early() {
        use Materialise::{Early, Late};
        for columns in [1, 2, 16] {
            assert_eq!(Materialise::choose(columns, 1000, 100, 0), Late);
            assert_eq!(Materialise::choose(columns, 1000, 8000, 0), Early);
            // Near reads all.
            assert_eq!(Materialise::choose(columns, 1000, 8000, 50 << 20), Late);
        }
        // One far read a row either way, and near ones on top.
        assert_eq!(Materialise::choose(16, 1000, 1000, 0), Late);
    }
}
