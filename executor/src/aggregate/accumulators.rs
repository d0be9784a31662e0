//! Accumulators of Tenon's own: counts, and sums of decimals and integers. `sum`, `avg` and `count` are made of them, and aggregates
//! of the same argument share them. They keep what DataFusion's accumulators call their state, and hand that over at
//! the end, so that the final value stays DataFusion's (or an extension's) business.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, RecordBatch, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Int16Type, Int32Type, Int64Type, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::PhysicalExpr;
use tenon_storage::{ErrorKind, StorageError};

use super::shifted::{Guard, Shifted};
use crate::expr::{NarrowArithmetic, NarrowValues, accelerate};

/// One value a group.
#[derive(Clone)]
pub enum Accumulator {
    /// Rows, or rows whose argument is not null.
    Count {
        arg: Option<Arc<dyn PhysicalExpr>>,
        counts: Vec<i64>,
    },
    /// Sum of the argument's unscaled values.
    Sum {
        arg: Arc<dyn PhysicalExpr>,
        sums: Vec<i128>,
        /// Of what is made of this sum, and may fail where this does not.
        guards: Vec<Guard>,
    },
}

/// An aggregate in terms of accumulators, by their position.
#[derive(Clone)]
pub enum OwnAggregate {
    Count(usize),
    /// Null where the count is 0.
    Sum(Total),
    Average(Total),
}

/// A sum with a constant for each value, and how many values there are.
#[derive(Clone)]
pub struct Total {
    sum: usize,
    count: usize,
    offset: i128,
    data_type: DataType,
}

impl OwnAggregate {
    /// How to compute `aggregate` with accumulators, which are added to `accumulators`; `None` if they cannot.
    pub fn of(
        aggregate: &AggregateFunctionExpr,
        input: &Schema,
        accumulators: &mut Vec<Accumulator>,
    ) -> Result<Option<Self>> {
        let (args, states) = (aggregate.expressions(), aggregate.state_fields()?);
        let [arg] = &args[..] else { return Ok(None) };
        // What gives another value each time is evaluated once a row: a sum would evaluate it for its count, too.
        if arg.exists(|expr| Ok(expr.is_volatile_node()))? {
            return Ok(None);
        }
        let types: Vec<&DataType> = states.iter().map(|f| f.data_type()).collect();
        Ok(match (aggregate.fun().name(), &types[..]) {
            ("count", [DataType::Int64]) => Some(Self::Count(count(accumulators, arg, input)?)),
            ("sum", [data_type @ DataType::Decimal128(_, scale)]) if is_exact(arg, input, *scale)? => {
                Some(Self::Sum(Total::of(arg, input, data_type, accumulators)?))
            }
            // DataFusion's sum of others is the faster one, but it is not shared.
            ("sum", [data_type @ DataType::Int64]) if Shifted::of(arg, input)?.is_some() => {
                Some(Self::Sum(Total::of(arg, input, data_type, accumulators)?))
            }
            ("avg", [DataType::UInt64, data_type @ DataType::Decimal128(_, scale)])
                if is_exact(arg, input, *scale)? =>
            {
                Some(Self::Average(Total::of(arg, input, data_type, accumulators)?))
            }
            _ => None,
        })
    }

    /// The state columns of the first `groups` groups.
    pub fn state(&self, accumulators: &[Accumulator], groups: usize) -> Result<Vec<ArrayRef>> {
        Ok(match self {
            Self::Count(at) => vec![Arc::new(Int64Array::from(counts(accumulators, *at, groups).to_vec()))],
            Self::Sum(total) => vec![total.state(accumulators, groups)?],
            Self::Average(total) => {
                let counted = counts(accumulators, total.count, groups).iter();
                let counted = UInt64Array::from_iter_values(counted.map(|&c| c as u64));
                vec![Arc::new(counted), total.state(accumulators, groups)?]
            }
        })
    }

    /// Bytes of these columns.
    pub fn state_bytes(&self, groups: usize) -> usize {
        let width = match self {
            Self::Count(_) => size_of::<i64>(),
            Self::Sum(_) => size_of::<i128>(),
            Self::Average(_) => size_of::<i128>() + size_of::<u64>(),
        };
        groups * (width + 1)
    }
}

impl Total {
    fn of(
        arg: &Arc<dyn PhysicalExpr>,
        input: &Schema,
        data_type: &DataType,
        accumulators: &mut Vec<Accumulator>,
    ) -> Result<Self> {
        let (base, offset, guard) = match Shifted::of(arg, input)? {
            Some(Shifted { base, offset, guard }) => (base, offset, guard),
            None => (Arc::clone(arg), 0, None),
        };
        let total = Self {
            sum: sum(accumulators, &base)?,
            count: count(accumulators, &base, input)?,
            offset,
            data_type: data_type.clone(),
        };
        if let Accumulator::Sum { guards, .. } = &mut accumulators[total.sum] {
            guards.extend(guard);
        }
        Ok(total)
    }

    fn state(&self, accumulators: &[Accumulator], groups: usize) -> Result<ArrayRef> {
        let counts = counts(accumulators, self.count, groups);
        let mut sums = match &accumulators[self.sum] {
            Accumulator::Sum { sums, .. } => sums[..groups].to_vec(),
            Accumulator::Count { .. } => vec![],
        };
        if self.offset != 0 {
            let all = sums.iter_mut().zip(counts);
            all.for_each(|(sum, count)| *sum = sum.wrapping_add(self.offset * i128::from(*count)));
        }
        let seen = counts
            .contains(&0)
            .then(|| counts.iter().map(|&count| count > 0).collect::<NullBuffer>());
        Ok(match &self.data_type {
            DataType::Int64 => {
                let sums: Vec<i64> = sums.into_iter().map(|sum| sum as i64).collect();
                Arc::new(Int64Array::new(sums.into(), seen))
            }
            other => Arc::new(Decimal128Array::new(sums.into(), seen).with_data_type(other.clone())),
        })
    }
}

fn counts(accumulators: &[Accumulator], at: usize, groups: usize) -> &[i64] {
    match &accumulators[at] {
        Accumulator::Count { counts, .. } => &counts[..groups],
        Accumulator::Sum { .. } => &[],
    }
}

/// Decimals of the sum's own scale, or integers.
fn is_exact(arg: &Arc<dyn PhysicalExpr>, input: &Schema, scale: i8) -> Result<bool> {
    Ok(match arg.data_type(input)? {
        DataType::Decimal128(_, own) => own == scale,
        DataType::Int16 | DataType::Int32 | DataType::Int64 => scale == 0,
        _ => false,
    })
}

/// The accumulator that counts the values of an argument, or the rows where none of them is NULL.
fn count(accumulators: &mut Vec<Accumulator>, arg: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<usize> {
    let arg = match Shifted::of(arg, input)? {
        Some(Shifted { base, guard: None, .. }) => base,
        _ => Arc::clone(arg),
    };
    let arg = arg.nullable(input)?.then_some(arg);
    let found = accumulators
        .iter()
        .position(|c| matches!(c, Accumulator::Count { arg: other, .. } if *other == arg));
    Ok(found.unwrap_or_else(|| {
        accumulators.push(Accumulator::Count { arg, counts: vec![] });
        accumulators.len() - 1
    }))
}

fn sum(accumulators: &mut Vec<Accumulator>, arg: &Arc<dyn PhysicalExpr>) -> Result<usize> {
    let arg = accelerate(Arc::clone(arg))?;
    let found = accumulators
        .iter()
        .position(|c| matches!(c, Accumulator::Sum { arg: other, .. } if **other == *arg));
    Ok(found.unwrap_or_else(|| {
        accumulators.push(Accumulator::Sum {
            arg,
            sums: vec![],
            guards: vec![],
        });
        accumulators.len() - 1
    }))
}

impl Accumulator {
    /// Adds a batch whose rows belong to `groups`, of which there are `count` now.
    pub fn update(&mut self, batch: &RecordBatch, groups: &[usize], count: usize) -> Result<()> {
        match self {
            Self::Count { arg, counts } => {
                counts.resize(count.max(counts.len()), 0);
                let nulls = match arg {
                    Some(arg) => arg.evaluate(batch)?.into_array(batch.num_rows())?.logical_nulls(),
                    None => None,
                };
                match nulls {
                    None if count == 1 => counts[0] += groups.len() as i64,
                    None if count <= FEW_GROUPS => {
                        let sums = few_sums(groups, std::iter::repeat_n(1, groups.len()));
                        counts.iter_mut().zip(sums).for_each(|(count, sum)| *count += sum);
                    }
                    None => groups.iter().for_each(|&group| counts[group] += 1),
                    Some(nulls) => nulls.valid_indices().for_each(|row| counts[groups[row]] += 1),
                }
            }
            Self::Sum { arg, sums, guards } => {
                sums.resize(count.max(sums.len()), 0);
                if let Some(narrow) = arg.downcast_ref::<NarrowArithmetic>()
                    && let Some(NarrowValues {
                        values,
                        nulls,
                        magnitude,
                    }) = narrow.evaluate_narrow(batch)?
                {
                    // What a batch adds to a group is within 64 bits.
                    let fits = magnitude.saturating_mul(values.len() as u128) < 1 << 62;
                    if fits && nulls.is_none() && (2..=FEW_GROUPS).contains(&count) {
                        let own = few_sums(groups, values.into_iter());
                        let own = own.into_iter().map(i128::from);
                        return add_few(sums, own);
                    }
                    let values = values.iter().map(|&v| i128::from(v));
                    add(sums, groups, values, nulls.as_ref(), (count, true))?;
                } else {
                    let array = arg.evaluate(batch)?.into_array(batch.num_rows())?;
                    let nulls = array.nulls().filter(|n| n.null_count() > 0);
                    macro_rules! add_all {
                        ($arrow:ty, $narrow:expr) => {{
                            let values = array.as_primitive::<$arrow>().values();
                            check(guards, values.iter().map(|&v| v as _), batch)?;
                            let narrow = $narrow(values);
                            let values = values.iter().map(|&v| i128::from(v));
                            add(sums, groups, values, nulls, (count, narrow))?;
                        }};
                    }
                    match array.data_type() {
                        DataType::Int16 => add_all!(Int16Type, |_| true),
                        DataType::Int32 => add_all!(Int32Type, |_| true),
                        DataType::Int64 => add_all!(Int64Type, |_| true),
                        DataType::Decimal128(..=NARROW_DIGITS_MAX, _) => add_all!(Decimal128Type, |_| true),
                        _ => add_all!(Decimal128Type, |values: &[i128]| values
                            .iter()
                            .all(|value| i128::from(*value as i64) == *value)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Forgets all groups.
    pub fn clear(&mut self) {
        match self {
            Self::Count { counts, .. } => counts.clear(),
            Self::Sum { sums, .. } => sums.clear(),
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Count { counts, .. } => counts.capacity() * size_of::<i64>(),
            Self::Sum { sums, .. } => sums.capacity() * size_of::<i128>(),
        }
    }
}

fn check(guards: &[Guard], values: impl Iterator<Item = i64>, batch: &RecordBatch) -> Result<()> {
    if guards.is_empty() {
        return Ok(());
    }
    let found = values.fold((i64::MAX, i64::MIN), |(min, max), v| (min.min(v), max.max(v)));
    match found.0 <= found.1 {
        true => guards.iter().try_for_each(|guard| guard.check(found, batch)),
        false => Ok(()),
    }
}

/// Digits that fit 64 bits.
const NARROW_DIGITS_MAX: u8 = 18;
/// Groups that sums are gathered for in several places each.
const FEW_GROUPS: usize = 16;
/// Rows that follow each other add to different places: a sum that is read again right after it was written would have every
/// row wait for the one before it.
const PLACES: usize = 4;

/// The sums of a batch's values by group, of which there are few.
fn few_sums<T: Copy + Default + WrappingAdd>(groups: &[usize], values: impl Iterator<Item = T>) -> [T; FEW_GROUPS] {
    let mut places = [[T::default(); FEW_GROUPS]; PLACES];
    for (row, (&group, value)) in groups.iter().zip(values).enumerate() {
        let sum = &mut places[row % PLACES][group % FEW_GROUPS];
        *sum = sum.plus(value);
    }
    let [mut sums, others @ ..] = places;
    for other in others {
        sums.iter_mut()
            .zip(other)
            .for_each(|(sum, other)| *sum = sum.plus(other));
    }
    sums
}

trait WrappingAdd {
    fn plus(self, other: Self) -> Self;
}

impl WrappingAdd for i64 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

impl WrappingAdd for i128 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

/// Adds values to the sums of their groups. `narrow`: they fit 64 bits, so that those of a batch together fit 128.
fn add(
    sums: &mut [i128],
    groups: &[usize],
    mut values: impl Iterator<Item = i128>,
    nulls: Option<&NullBuffer>,
    (count, narrow): (usize, bool),
) -> Result<()> {
    let mut lost = false;
    match nulls {
        None if count == 1 && narrow => lost = plus(&mut sums[0], values.fold(0, i128::wrapping_add)),
        None if count == 1 => lost = values.fold(false, |lost, value| lost | plus(&mut sums[0], value)),
        None if count <= FEW_GROUPS && narrow => return add_few(sums, few_sums(groups, values)),
        None => {
            let rows = groups.iter().zip(values);
            rows.for_each(|(&group, value)| lost |= plus(&mut sums[group], value));
        }
        Some(nulls) => {
            for (row, (&group, value)) in groups.iter().zip(values.by_ref()).enumerate() {
                if nulls.is_valid(row) {
                    lost |= plus(&mut sums[group], value);
                }
            }
        }
    }
    fitting(lost)
}

/// Adds what a batch adds to few groups.
fn add_few(sums: &mut [i128], own: impl IntoIterator<Item = i128>) -> Result<()> {
    let sums = sums.iter_mut().zip(own);
    fitting(sums.fold(false, |lost, (sum, own)| lost | plus(sum, own)))
}

/// Fails (22003) where a sum is lost.
pub fn fitting(lost: bool) -> Result<()> {
    match lost {
        true => Err(DataFusionError::External(Box::new(StorageError::new(
            ErrorKind::NumericOutOfRange,
            "value overflows numeric format",
        )))),
        false => Ok(()),
    }
}

/// Adds to a sum. True: it does not fit.
#[inline(always)]
pub fn plus(sum: &mut i128, value: i128) -> bool {
    let (next, lost) = sum.overflowing_add(value);
    *sum = next;
    lost
}
