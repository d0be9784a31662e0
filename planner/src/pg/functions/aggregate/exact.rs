//! Variances of integers and decimals: counts, sums in 128 bits and sums of squares in 256, which are numerics only once a
//! group is whole. `moments` computes the same of numerics of any precision.

use super::moments::{Kind, of_sums};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Decimal256Array, PrimitiveArray, UInt64Array,
};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Int16Type, Int32Type, Int64Type,
    UInt64Type, i256,
};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::sync::Arc;
use tenon_storage::numeric::Numeric;
use tenon_storage::numeric::column::collect;

/// Digits of decimals whose squares add up within 256 bits, however many there are.
const PRECISION_MAX: u8 = 28;

const SCALE_MAX: i8 = PRECISION_MAX as i8;

/// Digits after the point of numbers whose sums are taken so; None of others.
pub(super) fn scale_of(own: &DataType) -> Option<i8> {
    match own {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(0),
        DataType::Decimal128(..=PRECISION_MAX, scale @ 0..=SCALE_MAX) => Some(*scale),
        _ => None,
    }
}

fn sum_type(scale: i8) -> DataType {
    DataType::Decimal128(38, scale)
}

fn squares_type(scale: i8) -> DataType {
    DataType::Decimal256(76, 2 * scale)
}

pub(super) fn state_fields(name: &str, scale: i8) -> Vec<FieldRef> {
    let field = |part: &str, data_type| Arc::new(Field::new(format_state_name(name, part), data_type, true));
    vec![
        field("count", DataType::UInt64),
        field("sum", sum_type(scale)),
        field("squares", squares_type(scale)),
    ]
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: u64,
    sum: i128,
    squares: i256,
}

impl Sums {
    #[inline]
    fn add(&mut self, value: i128) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.squares = self.squares.wrapping_add(square(value));
    }

    fn remove(&mut self, value: i128) {
        self.count -= 1;
        self.sum = self.sum.wrapping_sub(value);
        self.squares = self.squares.wrapping_sub(square(value));
    }

    fn merge(&mut self, other: &Sums) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares = self.squares.wrapping_add(other.squares);
    }

    fn result(&self, kind: Kind, scale: i8) -> Result<Option<Numeric>> {
        let squares = Numeric::of_i256(self.squares, 2 * scale);
        of_sums(kind, self.count, Numeric::of_i128(self.sum, scale), &squares)
    }
}

#[inline]
fn square(value: i128) -> i256 {
    match i64::try_from(value) {
        Ok(value) => i256::from_i128(i128::from(value) * i128::from(value)),
        Err(_) => {
            let value = i256::from_i128(value);
            value.wrapping_mul(value)
        }
    }
}

/// Calls `take` with the row and the unscaled value of every value that is not NULL.
fn each(values: &ArrayRef, take: impl FnMut(usize, i128)) -> Result<()> {
    fn of<T: ArrowPrimitiveType<Native: Into<i128>>>(values: &ArrayRef, mut take: impl FnMut(usize, i128)) {
        let values: &PrimitiveArray<T> = values.as_primitive::<T>();
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => {
                let rows = values.values().iter().enumerate();
                rows.for_each(|(row, value)| take(row, (*value).into()));
            }
            Some(nulls) => nulls
                .valid_indices()
                .for_each(|row| take(row, values.value(row).into())),
        }
    }
    match values.data_type() {
        DataType::Int16 => of::<Int16Type>(values, take),
        DataType::Int32 => of::<Int32Type>(values, take),
        DataType::Int64 => of::<Int64Type>(values, take),
        DataType::Decimal128(..) => of::<Decimal128Type>(values, take),
        other => return plan_err!("variances have met {other}"),
    }
    Ok(())
}

fn states(groups: &[Sums], scale: i8) -> Vec<ArrayRef> {
    let counts: UInt64Array = groups.iter().map(|group| Some(group.count)).collect();
    let sums = Decimal128Array::from_iter_values(groups.iter().map(|group| group.sum));
    let squares = Decimal256Array::from_iter_values(groups.iter().map(|group| group.squares));
    vec![
        Arc::new(counts),
        Arc::new(sums.with_data_type(sum_type(scale))),
        Arc::new(squares.with_data_type(squares_type(scale))),
    ]
}

/// Calls `merge` with the row of each state of at least one value.
fn each_state(states: &[ArrayRef], mut merge: impl FnMut(usize, &Sums)) {
    let counts = states[0].as_primitive::<UInt64Type>();
    let sums = states[1].as_primitive::<Decimal128Type>();
    let squares = states[2].as_primitive::<Decimal256Type>();
    for row in 0..counts.len() {
        let has = counts.is_valid(row) && counts.value(row) > 0;
        if has && sums.is_valid(row) && squares.is_valid(row) {
            let own = Sums {
                count: counts.value(row),
                sum: sums.value(row),
                squares: squares.value(row),
            };
            merge(row, &own);
        }
    }
}

/// One group.
#[derive(Debug)]
pub(super) struct One {
    kind: Kind,
    scale: i8,
    own: Sums,
}

impl One {
    pub fn new(kind: Kind, scale: i8) -> One {
        One {
            kind,
            scale,
            own: Sums::default(),
        }
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        each(&arrays[0], |_, value| self.own.add(value))
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        each(&arrays[0], |_, value| self.own.remove(value))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = self.own.result(self.kind, self.scale)?;
        Ok(ScalarValue::LargeBinary(result.map(|value| value.to_bytes())))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = states(&[self.own], self.scale);
        states
            .iter()
            .map(|state| ScalarValue::try_from_array(state, 0))
            .collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        each_state(states, |_, other| self.own.merge(other));
        Ok(())
    }
}

/// Many groups.
#[derive(Debug)]
pub(super) struct Groups {
    kind: Kind,
    scale: i8,
    groups: Vec<Sums>,
}

impl Groups {
    pub fn new(kind: Kind, scale: i8) -> Groups {
        Groups {
            kind,
            scale,
            groups: Vec::new(),
        }
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        arrays: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize(total, Sums::default());
        match filter {
            None => each(&arrays[0], |row, value| self.groups[groups[row]].add(value)),
            Some(filter) => each(&arrays[0], |row, value| {
                if filter.is_valid(row) && filter.value(row) {
                    self.groups[groups[row]].add(value);
                }
            }),
        }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let results = groups.iter().map(|group| group.result(self.kind, self.scale));
        Ok(collect(results.collect::<Result<Vec<_>>>()?.into_iter()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(states(&emit_to.take_needed(&mut self.groups), self.scale))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize(total, Sums::default());
        each_state(states, |row, other| self.groups[groups[row]].merge(other));
        Ok(())
    }

    fn convert_to_state(&self, arrays: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..arrays[0].len()).collect();
        let mut groups = Groups::new(self.kind, self.scale);
        groups.update_batch(arrays, &rows, filter, rows.len())?;
        groups.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Sums>()
    }
}

#[cfg(test)]
mod tests;
