//! The build side of a streaming join: all its rows under a table of their keys.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{JoinType, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use tenon_gpu::cpu::Stop;

use super::packing::Packing;
use super::side::SideData;
use super::table::{KeyTable, estimated_bytes};
use super::visited::Visited;
use crate::apart::check;
use crate::keys::{all_valid, is_exact, lane_buffer, lane_range};
use crate::runtime_filter::{KeySet, RuntimeFilter};

pub struct BuildSide {
    /// The columns that the output or the residual predicate reads; the others stay empty.
    pub columns: Vec<Option<ArrayRef>>,
    pub rows: usize,
    pub table: KeyTable,
    pub packing: Packing,
    /// Kept where the join kind asks for build rows with or without partner.
    pub visited: Option<Visited>,
    _reservation: MemoryReservation,
}

/// Whether the join kind must know, at the end, which build rows met a partner.
pub fn tracks_build(join_type: JoinType) -> bool {
    use JoinType::*;
    matches!(join_type, Left | Full | LeftSemi | LeftAnti | LeftMark)
}

impl BuildSide {
    /// Builds the table over a side's first `key_count` operands, and the runtime filters. A join without keys has all
    /// rows under one key.
    pub fn of(
        side: SideData,
        join_type: JoinType,
        key_count: usize,
        filters: &[(usize, Arc<RuntimeFilter>)],
        context: &Arc<TaskContext>,
        stop: Stop<'_>,
    ) -> Result<Self> {
        let SideData {
            columns,
            mut keys,
            rows,
            reservation,
            ..
        } = side;
        keys.truncate(key_count);
        let (packing, lanes, singles) = Packing::of_build(keys, rows, stop)?;
        let range = lane_range(&lanes.lanes, lanes.valid.as_ref());
        let estimated = estimated_bytes(rows, range);
        reservation.try_grow(estimated)?;
        let table = KeyTable::build(&lanes.lanes, lanes.valid.as_ref(), range, stop)?;
        reservation.shrink(estimated.saturating_sub(table.bytes()));
        for (key, filter) in filters {
            if let Some(single) = &singles[*key] {
                check(stop)?;
                let range = lane_range(&single.lanes, single.valid.as_ref());
                let set = KeySet::build(&single.lanes, single.valid.as_ref(), range);
                reservation.try_grow(set.bytes())?;
                let _ = filter.cell(context).set(set);
            }
        }
        let visited = tracks_build(join_type).then(|| Visited::new(rows));
        Ok(Self {
            columns,
            rows,
            table,
            packing,
            visited,
            _reservation: reservation,
        })
    }
}

/// The runtime filters of a side that is not put into a table.
pub fn fill_filters(
    side: &SideData,
    filters: &[(usize, Arc<RuntimeFilter>)],
    context: &Arc<TaskContext>,
    stop: Stop<'_>,
) -> Result<()> {
    for (key, filter) in filters {
        let column = &side.keys[*key];
        if is_exact(column.data_type()) {
            let valid = all_valid(&side.keys);
            let lanes = lane_buffer(column, stop)?;
            let set = KeySet::build(&lanes, valid.as_ref(), lane_range(&lanes, valid.as_ref()));
            let _ = filter.cell(context).set(set);
        }
    }
    Ok(())
}
