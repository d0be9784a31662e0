//! Groups of many tables merged, a share of them at a time.

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::EmitTo;
use std::sync::Arc;

use super::gathered::Shared;
use super::keys::GroupKeys;
use super::spec::GroupSpec;
use super::spec::gathers_rows;
use crate::gather::pick;
use crate::memory_size::batch_bytes;

/// The final rows of a share. `reservation` is left with what they take.
pub fn merge(
    spec: &GroupSpec,
    Shared {
        partials,
        shares,
        count,
        ..
    }: &Shared,
    share: usize,
    reservation: &mut MemoryReservation,
) -> Result<RecordBatch> {
    // The states of this share once more, while they are picked out of the partials' and merged.
    let share_bytes = partials.iter().map(|p| p.reservation.size()).sum::<usize>() / count;
    reservation.try_grow(share_bytes)?;
    let mut keys = (!spec.keys.is_empty()).then(|| spec.merged_keys());
    let accumulators = spec
        .aggregates
        .iter()
        .map(|a| a.create_groups_accumulator())
        .collect::<Result<Vec<_>>>();
    let mut accumulators = accumulators?;
    let mut numbers = vec![];
    for (at, partial) in partials.iter().enumerate() {
        let rows = shares.as_ref().map(|shares| shares[at].of(share));
        let pick = |array: &ArrayRef| match &rows {
            None => Ok(Arc::clone(array)),
            Some(rows) => pick(array, rows),
        };
        let count = rows.as_ref().map_or(partial.groups, Array::len);
        if count == 0 && keys.is_some() {
            continue;
        }
        match &mut keys {
            Some(keys) => {
                let columns = partial.keys.iter().map(pick).collect::<Result<Vec<_>>>()?;
                keys.prepare(&columns, count)?;
                keys.assign(&mut numbers);
            }
            None => numbers = vec![0; count],
        }
        let groups = keys.as_ref().map_or(1, GroupKeys::groups);
        for (accumulator, state) in accumulators.iter_mut().zip(&partial.states) {
            let state = state.iter().map(pick).collect::<Result<Vec<_>>>()?;
            accumulator.merge_batch(&state, &numbers, groups)?;
        }
        let merged = accumulators.iter().map(|a| a.size()).sum::<usize>() + keys.as_ref().map_or(0, GroupKeys::bytes);
        reservation.try_resize(share_bytes.max(merged))?;
    }
    let groups = keys.as_ref().map_or(1, GroupKeys::groups);
    // The result, while the states are still there; those that gather rows have counted it.
    let states = accumulators.iter().zip(&spec.aggregates);
    let made = states.map(|(state, aggregate)| if gathers_rows(aggregate) { 0 } else { state.size() });
    reservation.try_grow(made.sum::<usize>() + keys.as_ref().map_or(0, GroupKeys::emitted_bytes))?;
    let mut columns = keys.as_ref().map_or(Ok(vec![]), GroupKeys::emit)?;
    for accumulator in &mut accumulators {
        columns.push(accumulator.evaluate(EmitTo::All)?);
    }
    drop((keys, accumulators));
    let options = RecordBatchOptions::new().with_row_count(Some(groups));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&spec.schema), columns, &options)?;
    reservation.try_resize(batch_bytes(&batch))?;
    Ok(batch)
}

/// A batch in slices of so many rows; memory for all of it is kept until the last is taken.
pub fn slices(batch: RecordBatch, rows: usize, reservation: MemoryReservation) -> impl Iterator<Item = RecordBatch> {
    let starts = (0..batch.num_rows()).step_by(rows.max(1));
    starts.map(move |start| {
        let _until_the_last = &reservation;
        batch.slice(start, rows.min(batch.num_rows() - start))
    })
}
