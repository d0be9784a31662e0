//! Groups of many tables merged, a share of them at a time.

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::EmitTo;
use std::ops::Range;
use std::sync::Arc;

use super::gathered::{Shared, Shares};
use super::keys::GroupKeys;
use super::local::Partial;
use super::spec::{GroupSpec, gathers_rows};
use crate::gather::pick;
use crate::memory_size::batch_bytes;

/// The groups of a partial that fall to a share.
enum Picked {
    Range(Range<usize>),
    Rows(UInt32Array),
}

impl Picked {
    fn of(shared: &Shared, at: usize, share: usize) -> Picked {
        let partial = &shared.partials[at];
        match (&shared.shares, &partial.order) {
            (Shares::Rows(shares), _) => Picked::Rows(shares[at].of(share)),
            (Shares::Buckets, Some(order)) => Picked::Range(order.buckets.share(share, shared.count)),
            (Shares::One(_) | Shares::Buckets, _) => Picked::Range(0..partial.groups),
        }
    }

    fn count(&self) -> usize {
        match self {
            Picked::Range(range) => range.len(),
            Picked::Rows(rows) => rows.len(),
        }
    }

    fn rows(&self, array: &ArrayRef) -> Result<ArrayRef> {
        match self {
            Picked::Range(range) if range.len() == array.len() => Ok(Arc::clone(array)),
            Picked::Range(range) => Ok(array.slice(range.start, range.len())),
            Picked::Rows(rows) => pick(array, rows),
        }
    }

    /// The hashes of these groups' strings, by key column, where they are known.
    fn hashes<'a>(&self, partial: &'a Partial) -> Vec<Option<&'a [u32]>> {
        match (self, &partial.order) {
            (Picked::Range(range), Some(order)) => {
                let hashes = order.hashes.iter().map(Option::as_deref);
                hashes.map(|hashes| Some(&hashes?[range.clone()])).collect()
            }
            _ => vec![],
        }
    }
}

/// The final rows of a share. `reservation` is left with what they take.
pub fn merge(
    spec: &GroupSpec,
    shared: &Shared,
    share: usize,
    reservation: &mut MemoryReservation,
) -> Result<RecordBatch> {
    let Shared {
        partials,
        shares,
        count,
        ..
    } = shared;
    // The states of this share once more, while they are picked out of the partials' and merged.
    let share_bytes = partials.iter().map(|p| p.reservation.size()).sum::<usize>() / count;
    reservation.try_grow(share_bytes)?;
    let mut keys = (!spec.keys.is_empty()).then(|| spec.merged_keys());
    let accumulators = spec
        .aggregates
        .iter()
        .map(|aggregate| spec.accumulator(aggregate))
        .collect::<Result<Vec<_>>>();
    let mut accumulators = accumulators?;
    let mut numbers = vec![];
    let picked: Vec<Picked> = (0..partials.len()).map(|at| Picked::of(shared, at, share)).collect();
    if let (Some(keys), Shares::Buckets) = (&mut keys, shares) {
        // Most of them are expected to differ.
        keys.reserve(picked.iter().map(Picked::count).sum());
    }
    let distinct = match (shares, partials.as_slice()) {
        (Shares::One(true), [only]) if keys.is_some() => Some(only),
        _ => None,
    };
    for (partial, picked) in partials.iter().zip(&picked) {
        let count = picked.count();
        if count == 0 && keys.is_some() {
            continue;
        }
        match &mut keys {
            Some(_) if distinct.is_some() => numbers = (0..count).collect(),
            Some(keys) => {
                let columns = partial
                    .keys
                    .iter()
                    .map(|key| picked.rows(key))
                    .collect::<Result<Vec<_>>>()?;
                keys.prepare_hashed(&columns, &picked.hashes(partial), count)?;
                keys.assign(&mut numbers);
            }
            None => numbers = vec![0; count],
        }
        let groups = match (&keys, distinct) {
            (Some(_), Some(_)) => count,
            (keys, _) => keys.as_ref().map_or(1, GroupKeys::groups),
        };
        for (accumulator, state) in accumulators.iter_mut().zip(&partial.states) {
            let state = state
                .iter()
                .map(|state| picked.rows(state))
                .collect::<Result<Vec<_>>>()?;
            accumulator.merge_batch(&state, &numbers, groups)?;
        }
        let merged = accumulators.iter().map(|a| a.size()).sum::<usize>() + keys.as_ref().map_or(0, GroupKeys::bytes);
        reservation.try_resize(share_bytes.max(merged))?;
    }
    let groups = match distinct {
        Some(only) => only.groups,
        None => keys.as_ref().map_or(1, GroupKeys::groups),
    };
    // The result, while the states are still there; those that gather rows have counted it.
    let states = accumulators.iter().zip(&spec.aggregates);
    let made = states.map(|(state, aggregate)| if gathers_rows(aggregate) { 0 } else { state.size() });
    reservation.try_grow(made.sum::<usize>() + keys.as_ref().map_or(0, GroupKeys::emitted_bytes))?;
    let mut columns = match distinct {
        Some(only) => only.keys.clone(),
        None => keys.as_mut().map_or(Ok(vec![]), |keys| keys.emit(None))?,
    };
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
