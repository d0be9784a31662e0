//! The build side of a streaming join: all its rows under a table of their keys.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::{JoinType, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use tenon_cpu::Stop;

use super::kind::tracks_build;
use super::match_bitmap::MatchBitmap;
use super::packing::Packing;
use super::side::SideData;
use super::table::{KeyTable, estimated_bytes};
use crate::keys::{all_valid, integer_keys, is_integer_key, key_range};
use crate::offload::check;
use crate::runtime_filter::{KeySet, RuntimeFilter};

pub struct BuildSide {
    /// The columns that the output or the residual predicate reads; the others stay empty.
    pub columns: Vec<Option<ArrayRef>>,
    pub rows: usize,
    pub table: KeyTable,
    pub packing: Packing,
    /// Kept where the join kind asks for build rows with or without partner.
    pub matches: Option<MatchBitmap>,
    _reservation: MemoryReservation,
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
        let (packing, integers, singles) = Packing::of_build(keys, rows, stop)?;
        let range = key_range(&integers.values, integers.valid.as_ref());
        let estimated = estimated_bytes(rows, range);
        reservation.try_grow(estimated)?;
        let table = KeyTable::build(&integers.values, integers.valid.as_ref(), range, stop)?;
        reservation.shrink(estimated.saturating_sub(table.bytes()));
        for (key, filter) in filters {
            if let Some(single) = &singles[*key] {
                check(stop)?;
                let range = key_range(&single.values, single.valid.as_ref());
                let set = KeySet::build(&single.values, single.valid.as_ref(), range);
                reservation.try_grow(set.bytes())?;
                let _ = filter.cell(context).set(set);
            }
        }
        let matches = tracks_build(join_type).then(|| MatchBitmap::new(rows));
        Ok(Self {
            columns,
            rows,
            table,
            packing,
            matches,
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
        if is_integer_key(column.data_type()) {
            let valid = all_valid(&side.keys);
            let integers = integer_keys(column, stop)?;
            let set = KeySet::build(&integers, valid.as_ref(), key_range(&integers, valid.as_ref()));
            let _ = filter.cell(context).set(set);
        }
    }
    Ok(())
}
