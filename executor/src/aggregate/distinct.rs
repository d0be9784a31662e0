//! Aggregates over a group's distinct values: pairs of a group and a value are told apart by a table of their own, and
//! what the function makes of a group's is computed when all of them are there.
//!
//! State: for each group the list of its values.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, ListArray, UInt32Array, new_null_array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, SchemaRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};

use super::keys::{GroupKeys, is_supported};
use crate::gather::pick;

/// Functions to which the order of their values is nothing.
const FUNCTIONS: [&str; 5] = ["avg", "count", "max", "min", "sum"];

/// The same function of all values.
pub fn of_all_values(aggregate: &AggregateFunctionExpr, input: &SchemaRef) -> Result<Arc<AggregateFunctionExpr>> {
    let of_all = AggregateExprBuilder::new(Arc::new(aggregate.fun().clone()), aggregate.expressions());
    Ok(Arc::new(
        of_all.schema(Arc::clone(input)).alias(aggregate.name()).build()?,
    ))
}

/// Whether an aggregate with DISTINCT can be computed here.
pub fn is_supported_distinct(aggregate: &AggregateFunctionExpr, input: &SchemaRef) -> bool {
    let [value] = &aggregate.expressions()[..] else {
        return false;
    };
    FUNCTIONS.contains(&aggregate.fun().name())
        && aggregate.order_bys().is_empty()
        && value.data_type(input).is_ok_and(|own| is_supported(&key_type(&own)))
        && of_all_values(aggregate, input).is_ok_and(|of_all| of_all.groups_accumulator_supported())
}

/// The type of what values are told apart by.
fn key_type(values: &DataType) -> DataType {
    match values {
        DataType::Float32 | DataType::Float64 => DataType::Int64,
        other => other.clone(),
    }
}

/// What values are told apart by: of floats the bits, of which both zeros have the same, and so has all that is no number.
fn keys(values: &ArrayRef) -> Result<ArrayRef> {
    let bits = |value: f64| match value {
        _ if value.is_nan() => f64::NAN.to_bits() as i64,
        _ => (value + 0.0).to_bits() as i64,
    };
    match values.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let doubles = cast(values, &DataType::Float64)?;
            let keys: Int64Array = doubles.as_primitive::<Float64Type>().unary(bits);
            Ok(Arc::new(keys))
        }
        _ => Ok(Arc::clone(values)),
    }
}

fn values(keys: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match data_type {
        DataType::Float32 | DataType::Float64 => {
            let bits = keys.as_primitive::<Int64Type>();
            let doubles: Float64Array = bits.unary(|bits| f64::from_bits(bits as u64));
            Ok(cast(&doubles, data_type)?)
        }
        _ => Ok(keys),
    }
}

pub struct Distinct {
    /// Of groups and values.
    pairs: GroupKeys,
    value: DataType,
    groups: usize,
    numbers: Vec<usize>,
    /// Computes the function at the end.
    of_all: Box<dyn GroupsAccumulator>,
}

impl Distinct {
    pub fn new(aggregate: &AggregateFunctionExpr, input: &SchemaRef) -> Result<Self> {
        let [value] = &aggregate.expressions()[..] else {
            return internal_err!("DISTINCT of several arguments");
        };
        let data_type = value.data_type(input)?;
        Ok(Self {
            pairs: Self::no_pairs(&data_type),
            value: data_type,
            groups: 0,
            numbers: vec![],
            of_all: of_all_values(aggregate, input)?.create_groups_accumulator()?,
        })
    }

    fn no_pairs(value: &DataType) -> GroupKeys {
        GroupKeys::new(&[DataType::Int64, key_type(value)], true, true)
    }

    fn add(&mut self, groups: impl Iterator<Item = usize>, values: &ArrayRef, total: usize) -> Result<()> {
        self.groups = self.groups.max(total);
        let groups: ArrayRef = Arc::new(Int64Array::from_iter_values(groups.map(|group| group as i64)));
        self.pairs.prepare(&[groups, keys(values)?], values.len())?;
        self.pairs.assign(&mut self.numbers);
        Ok(())
    }

    /// The pairs' groups and values. None are left.
    fn take_pairs(&mut self) -> Result<(Vec<usize>, ArrayRef)> {
        let mut columns = self.pairs.emit(None)?;
        self.pairs = Self::no_pairs(&self.value);
        let (Some(keys), Some(groups)) = (columns.pop(), columns.pop()) else {
            return internal_err!("pairs of less than two columns");
        };
        let groups = groups.as_primitive::<Int64Type>().values();
        Ok((
            groups.iter().map(|group| *group as usize).collect(),
            values(keys, &self.value)?,
        ))
    }
}

impl GroupsAccumulator for Distinct {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        kept: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let Some(kept) = kept else {
            return self.add(groups.iter().copied(), &values[0], total);
        };
        let is_kept = |row: &usize| kept.is_valid(*row) && kept.value(*row);
        let own = (0..groups.len()).filter(is_kept).map(|row| groups[row]);
        self.add(own, &filter(&values[0], kept)?, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        let offsets = lists.value_offsets();
        let (start, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
        let ends = groups.iter().zip(offsets.windows(2));
        let own = ends.flat_map(|(group, ends)| (ends[0]..ends[1]).map(|_| *group));
        self.add(own, &lists.values().slice(start, end - start), total)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let EmitTo::All = emit_to else {
            return internal_err!("distinct values of some of the groups");
        };
        let total = std::mem::take(&mut self.groups);
        let (groups, values) = self.take_pairs()?;
        let mut offsets = vec![0i32; total + 1];
        groups.iter().for_each(|group| offsets[group + 1] += 1);
        for group in 0..total {
            offsets[group + 1] += offsets[group];
        }
        let mut next = offsets.clone();
        let mut order = vec![0u32; groups.len()];
        for (row, group) in groups.iter().enumerate() {
            order[next[*group] as usize] = row as u32;
            next[*group] += 1;
        }
        let values = pick(&values, &UInt32Array::from(order))?;
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(vec![Arc::new(ListArray::try_new(item, offsets, values, None)?)])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let total = std::mem::take(&mut self.groups);
        let (groups, values) = self.take_pairs()?;
        if total > 0 {
            // An accumulator that is given rows without a filter alone takes every group for one with values.
            let refused = BooleanArray::from(vec![false]);
            let nothing = new_null_array(&self.value, 1);
            self.of_all.update_batch(&[nothing], &[0], Some(&refused), total)?;
        }
        if !groups.is_empty() {
            self.of_all.update_batch(&[values], &groups, None, total)?;
        }
        self.of_all.evaluate(emit_to)
    }

    /// Not asked for, since `supports_convert_to_state` is not claimed.
    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        internal_err!("distinct values of rows without groups")
    }

    fn size(&self) -> usize {
        self.pairs.bytes() + self.numbers.capacity() * size_of::<usize>() + self.of_all.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{StringViewArray, UInt64Array};
    use arrow::datatypes::Schema;
    use datafusion::functions_aggregate::count::count_udaf;
    use datafusion::functions_aggregate::min_max::max_udaf;
    use datafusion::logical_expr::AggregateUDF;
    use datafusion::physical_expr::expressions::col;
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use std::collections::HashSet;

    fn value(rng: &mut StdRng, of: &DataType, rows: usize) -> ArrayRef {
        let numbers: Vec<Option<i64>> = (0..rows)
            .map(|_| rng.random_ratio(4, 5).then(|| rng.random_range(-3..30)))
            .collect();
        let texts = || {
            numbers
                .iter()
                .map(|own| own.map(|own| format!("{own} or a longer text")))
        };
        match of {
            DataType::Utf8View => Arc::new(texts().collect::<StringViewArray>()),
            DataType::Float64 => {
                let floats = numbers.iter().map(|own| {
                    own.map(|own| match own {
                        -3 => f64::NAN,
                        -2 => -0.0,
                        -1 => 0.0,
                        other => other as f64 / 7.0,
                    })
                });
                Arc::new(floats.collect::<Float64Array>())
            }
            _ => Arc::new(numbers.iter().copied().collect::<Int64Array>()),
        }
    }

    fn told(values: &ArrayRef, row: usize) -> Option<String> {
        values.is_valid(row).then(|| match values.data_type() {
            DataType::Utf8View => values.as_string_view().value(row).to_string(),
            DataType::Float64 => (values.as_primitive::<Float64Type>().value(row) + 0.0).to_string(),
            _ => values.as_primitive::<Int64Type>().value(row).to_string(),
        })
    }

    #[test]
    fn groups_without_values_have_none() {
        let input: SchemaRef = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
        let builder = AggregateExprBuilder::new(max_udaf(), vec![col("v", &input).unwrap()]);
        let max = builder
            .schema(Arc::clone(&input))
            .alias("v")
            .distinct()
            .build()
            .unwrap();
        let mut own = Distinct::new(&max, &input).unwrap();
        let values: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9]));
        let kept = BooleanArray::from(vec![true, false, true]);
        own.update_batch(&[values], &[0, 1, 2], Some(&kept), 4).unwrap();
        let found = own.evaluate(EmitTo::All).unwrap();
        let found: Vec<Option<i64>> = found.as_primitive::<Int64Type>().iter().collect();
        assert_eq!(found, [Some(7), None, Some(9), None]);
    }

    #[test]
    fn counts_are_those_of_sets() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for round in 0..200 {
            let of = [DataType::Int64, DataType::Utf8View, DataType::Float64][round % 3].clone();
            let input: SchemaRef = Arc::new(Schema::new(vec![Field::new("v", of.clone(), true)]));
            let aggregate = |function: Arc<AggregateUDF>| {
                let builder = AggregateExprBuilder::new(function, vec![col("v", &input).unwrap()]);
                builder
                    .schema(Arc::clone(&input))
                    .alias("v")
                    .distinct()
                    .build()
                    .unwrap()
            };
            let (count, max) = (aggregate(count_udaf()), aggregate(max_udaf()));
            assert!(is_supported_distinct(&count, &input) && is_supported_distinct(&max, &input));
            let groups = rng.random_range(1..8);
            let mut expected: Vec<HashSet<String>> = vec![HashSet::new(); groups];
            let mut merged = Distinct::new(&count, &input).unwrap();
            for _ in 0..rng.random_range(0..4) {
                let mut own = Distinct::new(&count, &input).unwrap();
                for _ in 0..rng.random_range(0..4) {
                    let rows = rng.random_range(0..200);
                    let values = value(&mut rng, &of, rows);
                    let numbers: Vec<usize> = (0..rows).map(|_| rng.random_range(0..groups)).collect();
                    let kept: Option<BooleanArray> = rng.random_bool(0.5).then(|| {
                        (0..rows)
                            .map(|_| [Some(true), Some(false), None][rng.random_range(0..3)])
                            .collect()
                    });
                    own.update_batch(&[Arc::clone(&values)], &numbers, kept.as_ref(), groups)
                        .unwrap();
                    for row in 0..rows {
                        if kept.as_ref().is_none_or(|kept| kept.is_valid(row) && kept.value(row)) {
                            expected[numbers[row]].extend(told(&values, row));
                        }
                    }
                }
                let state = own.state(EmitTo::All).unwrap();
                let states = state[0].len();
                // The groups of a partial have other numbers than those they are merged to.
                let order: Vec<usize> = (0..states).rev().collect();
                let picked: UInt64Array = order.iter().map(|at| *at as u64).collect();
                let state = arrow::compute::take(&state[0], &picked, None).unwrap();
                merged.merge_batch(&[state], &order, groups).unwrap();
            }
            let found = match merged.groups {
                0 => vec![0; groups],
                _ => {
                    let found = merged.evaluate(EmitTo::All).unwrap();
                    found.as_primitive::<Int64Type>().values().to_vec()
                }
            };
            let expected: Vec<i64> = expected.iter().map(|own| own.len() as i64).collect();
            assert_eq!(found, expected, "seed {seed} round {round}");
        }
    }
}
