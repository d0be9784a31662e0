//! The groups of all grouping sets of a partition, made of those by all keys.
//!
//! ROLLUP (a, b, c) asks for the groups by (a, b, c), by (a, b), by (a) and of all rows. Rows are looked at once, for the
//! finest groups; each other set's are put together from the states of the fewest groups that are fine enough: those by
//! (a) from those by (a, b). The groups of all sets are then merged with the other partitions', told apart by the set's
//! number, which is one key more.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::EmitTo;

use super::buckets::Buckets;
use super::keys::GroupKeys;
use super::local::{Local, Ordered, Partial, ordered};
use super::spec::{GroupSpec, GroupingSet};
use crate::keys::from_integer_keys;

/// Groups that are put together between two looks at whether the query still goes on.
const PIECE_GROUPS: usize = 16 * 1024;

/// The groups of all sets, whose last key is the set's number; `finest` are those by all keys, maybe in several tables.
pub async fn of_all_sets(
    spec: &Arc<GroupSpec>,
    finest: Vec<Partial>,
    reservation: &MemoryReservation,
) -> Result<Vec<Partial>> {
    let mut sets: Vec<&GroupingSet> = spec.sets.iter().collect();
    sets.sort_by_key(|set| set.has.iter().filter(|has| !**has).count());
    let [first, others @ ..] = sets.as_slice() else {
        return internal_err!("grouping by no set");
    };
    let in_order = finest.iter().all(|partial| partial.order.is_some());
    // From the finest on: what a set is put together from is there.
    let mut made: Vec<(&GroupingSet, Vec<Partial>)> = vec![(*first, finest)];
    for set in others {
        let groups = |partials: &[Partial]| partials.iter().map(|partial| partial.groups).sum::<usize>();
        let fine_enough = made.iter().filter(|(from, _)| set.is_coarser(from));
        let Some((_, from)) = fine_enough.min_by_key(|(_, partials)| groups(partials)) else {
            return internal_err!("no groups by all keys of the grouping sets");
        };
        let own = put_together(spec, set, from, in_order, reservation).await?;
        made.push((*set, vec![own]));
    }
    let numbers = spec.schema.field(spec.keys.len()).data_type();
    let numbered = made.into_iter().flat_map(|(set, partials)| {
        partials.into_iter().map(|mut partial| {
            let number = vec![set.number as i64; partial.groups];
            partial.keys.push(from_integer_keys(&number, None, numbers)?);
            Ok(partial)
        })
    });
    numbered.collect()
}

/// The groups of one set, put together from finer ones; in the order of their buckets if the finest are.
async fn put_together(
    spec: &Arc<GroupSpec>,
    set: &GroupingSet,
    finer: &[Partial],
    in_order: bool,
    reservation: &MemoryReservation,
) -> Result<Partial> {
    let fields = spec.schema.fields()[..spec.keys.len()].iter().zip(&set.has);
    let own: Vec<usize> = (0..spec.keys.len()).filter(|at| set.has[*at]).collect();
    let types: Vec<DataType> = own
        .iter()
        .map(|at| spec.schema.field(*at).data_type().clone())
        .collect();
    if own.is_empty() && finer.iter().all(|partial| partial.groups == 0) {
        return of_no_rows(spec, reservation)?.ordered(in_order.then(|| of_one(spec)));
    }
    let nullable = own.iter().any(|at| spec.schema.field(*at).is_nullable());
    let mut table = (!own.is_empty()).then(|| GroupKeys::new(&types, nullable, false));
    let accumulators = spec.aggregates.iter().map(|one| spec.accumulator(one));
    let mut accumulators = accumulators.collect::<Result<Vec<_>>>()?;
    let mut numbers = vec![];
    // Never more than the finer groups, and where tables double.
    let held = reservation.new_empty();
    held.try_grow(2 * finer.iter().map(|partial| partial.reservation.size()).sum::<usize>())?;
    for partial in finer {
        for start in (0..partial.groups).step_by(PIECE_GROUPS) {
            let count = PIECE_GROUPS.min(partial.groups - start);
            match &mut table {
                Some(table) => {
                    let keys = own.iter().map(|at| partial.keys[*at].slice(start, count));
                    let hashes = own.iter().map(|at| {
                        let hashes = partial.order.as_ref()?.hashes.get(*at)?.as_ref()?;
                        Some(&hashes[start..start + count])
                    });
                    let hashes: Vec<Option<&[u32]>> = hashes.collect();
                    table.prepare_hashed(&keys.collect::<Vec<ArrayRef>>(), &hashes, count)?;
                    table.assign(&mut numbers);
                }
                None => {
                    numbers.clear();
                    numbers.resize(count, 0);
                }
            }
            let groups = table.as_ref().map_or(1, GroupKeys::groups);
            for (accumulator, states) in accumulators.iter_mut().zip(&partial.states) {
                let states: Vec<ArrayRef> = states.iter().map(|state| state.slice(start, count)).collect();
                accumulator.merge_batch(&states, &numbers, groups)?;
            }
            tokio::task::coop::consume_budget().await;
        }
    }
    let groups = table.as_ref().map_or(1, GroupKeys::groups);
    let states = accumulators
        .iter_mut()
        .map(|accumulator| accumulator.state(EmitTo::All));
    let states = states.collect::<Result<Vec<_>>>()?;
    let (emitted, states, order) = match &mut table {
        Some(table) if in_order => ordered(table, states)?,
        Some(table) => (table.emit(None)?, states, None),
        None => (vec![], states, in_order.then(|| of_one(spec))),
    };
    let mut emitted = emitted.into_iter();
    let order = order.map(|Ordered { buckets, hashes }| {
        let mut own = hashes.into_iter();
        let hashes = set.has.iter().map(|has| if *has { own.next().flatten() } else { None });
        Ordered {
            buckets,
            hashes: hashes.collect(),
        }
    });
    let keys = fields.map(|(field, has)| match has {
        true => emitted.next(),
        false => Some(new_null_array(field.data_type(), groups)),
    });
    match keys.collect::<Option<Vec<ArrayRef>>>() {
        Some(keys) => Partial::new(keys, states, groups, held)?.ordered(order),
        None => internal_err!("a grouping set lacks one of its keys"),
    }
}

/// The order of one group without keys.
fn of_one(spec: &GroupSpec) -> Ordered {
    Ordered {
        buckets: Buckets::of(&[0]).0,
        hashes: spec.keys.iter().map(|_| None).collect(),
    }
}

/// The one group of a partition without rows.
fn of_no_rows(spec: &GroupSpec, reservation: &MemoryReservation) -> Result<Partial> {
    let without_keys = GroupSpec {
        keys: vec![],
        sets: vec![],
        ..spec.clone()
    };
    let mut one = Local::new(Arc::new(without_keys), false, reservation.new_empty())?.finish()?;
    let fields = spec.schema.fields()[..spec.keys.len()].iter();
    one.keys = fields
        .map(|field| new_null_array(field.data_type(), one.groups))
        .collect();
    Ok(one)
}

#[cfg(test)]
mod tests;
