//! What one partition gathers: its groups, and the state of every aggregate for each.
//!
//! Memory: what arrays and tables take where they double is reserved before they do, once a batch; what they hold is
//! reserved after each batch.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array, new_null_array};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::PhysicalExpr;

use super::accumulators::{Accumulator, OwnAggregate};
use super::buckets::Buckets;
use super::keys::GroupKeys;
use super::spec::{GroupSpec, gathers_rows};
use crate::gather::pick;
use crate::memory_size::array_bytes;

/// What an accumulator keeps in its arrays for each group, at most; strings and lists are apart from these.
const ENTRY_BYTES_MAX: usize = 32;

pub struct Local {
    spec: Arc<GroupSpec>,
    keys: Option<GroupKeys>,
    accumulators: Vec<Accumulator>,
    aggregates: Vec<Aggregate>,
    numbers: Vec<usize>,
    /// Groups for which the states have room: beyond them their arrays double.
    room: usize,
    /// Groups are put by in the order of their buckets.
    ordered: bool,
    reservation: MemoryReservation,
}

enum Aggregate {
    Own(OwnAggregate),
    /// DataFusion's accumulator of groups, where Tenon's own do not do.
    Foreign(Box<dyn GroupsAccumulator>),
}

/// Groups and their aggregate states.
pub struct Partial {
    pub keys: Vec<ArrayRef>,
    pub states: Vec<Vec<ArrayRef>>,
    pub groups: usize,
    pub order: Option<Ordered>,
    /// Of just what keys and states hold.
    pub reservation: MemoryReservation,
}

/// What is known of groups that lie in the order of their buckets.
pub struct Ordered {
    pub buckets: Buckets,
    /// The hashes of strings, by key column.
    pub hashes: Vec<Option<Vec<u32>>>,
}

impl Partial {
    /// `reservation` is left with what they hold.
    pub fn new(
        keys: Vec<ArrayRef>,
        states: Vec<Vec<ArrayRef>>,
        groups: usize,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let arrays = keys.iter().chain(states.iter().flatten());
        reservation.try_resize(arrays.map(|array| array_bytes(array)).sum())?;
        Ok(Self {
            keys,
            states,
            groups,
            order: None,
            reservation,
        })
    }

    pub fn ordered(mut self, order: Option<Ordered>) -> Result<Self> {
        if let Some(Ordered { hashes, .. }) = &order {
            let bytes = hashes.iter().flatten().map(|hashes| size_of_val(&hashes[..]));
            self.reservation.try_grow(bytes.sum())?;
        }
        self.order = order;
        Ok(self)
    }
}

/// The columns of keys and of states, and what is known of their order.
pub type Emitted = (Vec<ArrayRef>, Vec<Vec<ArrayRef>>, Option<Ordered>);

impl Local {
    /// `small`: it is to stay in a core's cache, and is put by when it is full.
    pub fn new(spec: Arc<GroupSpec>, small: bool, reservation: MemoryReservation) -> Result<Self> {
        let mut accumulators = vec![];
        let mut aggregates = vec![];
        for (aggregate, filter) in spec.aggregates.iter().zip(&spec.filters) {
            let own = match filter {
                None if !aggregate.is_distinct() => OwnAggregate::of(aggregate, &spec.input_schema, &mut accumulators)?,
                _ => None,
            };
            aggregates.push(match own {
                Some(own) => Aggregate::Own(own),
                None => Aggregate::Foreign(spec.accumulator(aggregate)?),
            });
        }
        let keys = (!spec.keys.is_empty()).then(|| spec.group_keys(small));
        Ok(Self {
            ordered: small && keys.is_some() && !spec.is_shared_by_value(),
            spec,
            keys,
            accumulators,
            aggregates,
            numbers: vec![],
            room: 0,
            reservation,
        })
    }

    pub fn groups(&self) -> usize {
        self.keys.as_ref().map_or(1, GroupKeys::groups)
    }

    pub fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(()); // An accumulator would take every group for one with values.
        }
        self.number(batch)?;
        let groups = self.groups();
        if groups > self.room {
            self.reservation.try_resize(self.bytes() + 2 * self.doubling_bytes())?;
            self.room = groups.max(2 * self.room);
        }
        for accumulator in &mut self.accumulators {
            accumulator.update(batch, &self.numbers, groups)?;
        }
        for (at, aggregate) in self.aggregates.iter_mut().enumerate() {
            let Aggregate::Foreign(accumulator) = aggregate else {
                continue;
            };
            let args = arguments(&self.spec.aggregates[at]);
            let args = args
                .iter()
                .map(|arg| arg.evaluate(batch)?.into_array(rows))
                .collect::<Result<Vec<_>>>()?;
            let filter: Option<BooleanArray> = match &self.spec.filters[at] {
                Some(filter) => Some(filter.evaluate(batch)?.into_array(rows)?.as_boolean().clone()),
                None => None,
            };
            accumulator.update_batch(&args, &self.numbers, filter.as_ref(), groups)?;
        }
        self.reservation.try_resize(self.bytes())
    }

    /// Finds the group of every row of a batch.
    fn number(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        let Some(keys) = &mut self.keys else {
            self.numbers.clear();
            self.numbers.resize(rows, 0);
            return Ok(());
        };
        let columns = self.spec.keys.iter();
        let columns = columns.map(|(key, _)| key.evaluate(batch)?.into_array(rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.reservation.try_grow(keys.text_growth_bytes(rows))?;
        keys.prepare(&columns, rows)?;
        self.reservation.try_grow(keys.growth_bytes())?;
        keys.assign(&mut self.numbers);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.keys.as_ref().map_or(0, GroupKeys::bytes)
            + self.state_bytes()
            + self.numbers.capacity() * size_of::<usize>()
    }

    fn state_bytes(&self) -> usize {
        let foreign = self.aggregates.iter().map(|aggregate| match aggregate {
            Aggregate::Foreign(accumulator) => accumulator.size(),
            Aggregate::Own(_) => 0,
        });
        self.accumulators.iter().map(Accumulator::bytes).sum::<usize>() + foreign.sum::<usize>()
    }

    /// Bytes of the arrays that have an entry for each group, and grow when groups come.
    fn doubling_bytes(&self) -> usize {
        let foreign = self.aggregates.iter().map(|aggregate| match aggregate {
            Aggregate::Foreign(accumulator) => accumulator.size().min(self.groups() * ENTRY_BYTES_MAX),
            Aggregate::Own(_) => 0,
        });
        self.accumulators.iter().map(Accumulator::bytes).sum::<usize>() + foreign.sum::<usize>()
    }

    /// Without keys the one group exists even if there are no rows: a row that every filter refuses makes its state,
    /// and leaves it NULL where no row has given a value.
    fn add_row_of_nothing(&mut self) -> Result<()> {
        let empty = RecordBatch::new_empty(Arc::clone(&self.spec.input_schema));
        for accumulator in &mut self.accumulators {
            accumulator.update(&empty, &[], 1)?;
        }
        let refused = BooleanArray::from(vec![false]);
        for (aggregate, spec) in self.aggregates.iter_mut().zip(&self.spec.aggregates) {
            let Aggregate::Foreign(accumulator) = aggregate else {
                continue;
            };
            let args = arguments(spec);
            let nulls = args
                .iter()
                .map(|arg| Ok(new_null_array(&arg.data_type(&self.spec.input_schema)?, 1)));
            accumulator.update_batch(&nulls.collect::<Result<Vec<_>>>()?, &[0], Some(&refused), 1)?;
        }
        Ok(())
    }

    /// The groups, and a table that has none but keeps its memory.
    pub fn put_by(&mut self) -> Result<Partial> {
        let groups = self.groups();
        let partial_bytes = self.reservation.new_empty();
        partial_bytes.try_grow(self.emitted_bytes())?;
        let (keys, states, order) = self.emit(groups)?;
        if let Some(keys) = &mut self.keys {
            keys.clear();
        }
        self.accumulators.iter_mut().for_each(Accumulator::clear);
        self.reservation.try_resize(self.bytes())?;
        Partial::new(keys, states, groups, partial_bytes)?.ordered(order)
    }

    pub fn finish(mut self) -> Result<Partial> {
        let groups = self.groups();
        if self.keys.is_none() {
            self.add_row_of_nothing()?;
        }
        // Columns are made of the keys and states while these are still there.
        self.reservation.try_grow(self.emitted_bytes())?;
        let (keys, states, order) = self.emit(groups)?;
        let reservation = self.reservation.take();
        drop(self);
        Partial::new(keys, states, groups, reservation)?.ordered(order)
    }

    /// Of all groups. Nothing is left of their keys then.
    fn emit(&mut self, groups: usize) -> Result<Emitted> {
        let states = self.states(groups)?;
        match &mut self.keys {
            None => Ok((vec![], states, None)),
            Some(keys) if self.ordered => ordered(keys, states),
            Some(keys) => Ok((keys.emit(None)?, states, None)),
        }
    }

    fn states(&mut self, groups: usize) -> Result<Vec<Vec<ArrayRef>>> {
        let states = self.aggregates.iter_mut().map(|aggregate| match aggregate {
            Aggregate::Own(own) => own.state(&self.accumulators, groups),
            Aggregate::Foreign(accumulator) => accumulator.state(EmitTo::All),
        });
        states.collect()
    }

    /// Bytes of the columns that keys and states become.
    fn emitted_bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, GroupKeys::emitted_bytes);
        let groups = self.groups();
        let own = self.aggregates.iter().map(|aggregate| match aggregate {
            // Several may be made of one accumulator.
            Aggregate::Own(own) => own.state_bytes(groups),
            Aggregate::Foreign(_) => 0,
        });
        // What orders the groups, and the columns once more, one after the other.
        let order = match self.ordered {
            true => groups * (size_of::<u64>() + size_of::<u128>() + (1 + self.spec.keys.len()) * size_of::<u32>()),
            false => 0,
        };
        keys + own.sum::<usize>() + self.foreign_copies() + order
    }

    /// Bytes that the states of accumulators take besides these: those that gather rows count them already.
    fn foreign_copies(&self) -> usize {
        let aggregates = self.aggregates.iter().zip(&self.spec.aggregates);
        let copies = aggregates.map(|(aggregate, spec)| match aggregate {
            Aggregate::Foreign(accumulator) if !gathers_rows(spec) => accumulator.size(),
            _ => 0,
        });
        copies.sum()
    }
}

/// Groups in the order of their buckets.
pub fn ordered(keys: &mut GroupKeys, mut states: Vec<Vec<ArrayRef>>) -> Result<Emitted> {
    let mut hashes = keys.text_hashes();
    let (buckets, order) = Buckets::of(&keys.hashes(&hashes));
    for hashes in hashes.iter_mut().flatten() {
        *hashes = order.iter().map(|&group| hashes[group as usize]).collect();
    }
    let emitted = keys.emit(Some(&order))?;
    let order = UInt32Array::from(order);
    for state in states.iter_mut().flatten() {
        *state = pick(state, &order)?;
    }
    Ok((emitted, states, Some(Ordered { buckets, hashes })))
}

/// The arguments, then the sort keys.
fn arguments(aggregate: &AggregateFunctionExpr) -> Vec<Arc<dyn PhysicalExpr>> {
    let keys = aggregate.order_bys().iter().map(|key| Arc::clone(&key.expr));
    aggregate.expressions().into_iter().chain(keys).collect()
}
