//! `sum`, `avg` and the variances of exact numbers in any precision: counts, sums and sums of squares as numerics.
//!
//! More than 400 lines because the aggregates share one state, its merge and its spilled form.
//!
//! Sums and averages of integers and decimals have ways of their own, which take 128 bits, and their variances one of 256
//! (`exact`); what is left for this one are numerics of any precision. The result's digits are PostgreSQL's.

use super::exact;
use crate::pg::numeric::failed;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;
use tenon_storage::numeric::column::{Builder, Values, collect};
use tenon_storage::numeric::{Numeric, compare_key};
use tenon_storage::types::NUMERIC;

/// What is made of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Sum,
    Average,
    Variance { sample: bool },
    Deviation { sample: bool },
}

impl Kind {
    fn has_squares(self) -> bool {
        matches!(self, Kind::Variance { .. } | Kind::Deviation { .. })
    }
}

pub(super) fn udaf(name: &'static str, kind: Kind) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Moments {
        name,
        kind,
        signature: Signature::any(1, Volatility::Immutable),
    }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Moments {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl Moments {
    /// Digits after the point of arguments whose sums `exact` takes.
    fn exact(&self, argument: &FieldRef) -> Option<i8> {
        self.kind.has_squares().then(|| exact::scale_of(argument.data_type()))?
    }
}

impl AggregateUDFImpl for Moments {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(NUMERIC)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |part: &str, data_type| Arc::new(Field::new(format_state_name(args.name, part), data_type, true));
        if args.is_distinct {
            return Ok(vec![field("values", DataType::new_list(NUMERIC, true))]);
        }
        if let Some(scale) = self.exact(&args.input_fields[0]) {
            return Ok(exact::state_fields(args.name, scale));
        }
        Ok(vec![
            field("count", DataType::UInt64),
            field("sum", NUMERIC),
            field("squares", NUMERIC),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return Ok(Box::new(Distinct {
                kind: self.kind,
                values: HashMap::new(),
            }));
        }
        Ok(match self.exact(&args.expr_fields[0]) {
            Some(scale) => Box::new(exact::One::new(self.kind, scale)),
            None => Box::new(One {
                kind: self.kind,
                own: Group::default(),
                scales: BTreeMap::new(),
            }),
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match self.exact(&args.expr_fields[0]) {
            Some(scale) => Box::new(exact::Groups::new(self.kind, scale)),
            None => groups(self.kind),
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The finite values' sums, and how many values of each kind there are: infinities and NaN can be taken back, too.
#[derive(Clone, Debug)]
struct Group {
    count: u64,
    sum: Numeric,
    squares: Numeric,
    nans: u64,
    infinities: u64,
    negative_infinities: u64,
}

impl Default for Group {
    fn default() -> Self {
        Group {
            count: 0,
            sum: Numeric::from(0),
            squares: Numeric::from(0),
            nans: 0,
            infinities: 0,
            negative_infinities: 0,
        }
    }
}

impl Group {
    fn special(&mut self, value: &Numeric) -> Option<&mut u64> {
        match value {
            Numeric::NaN => Some(&mut self.nans),
            Numeric::Infinity => Some(&mut self.infinities),
            Numeric::NegInfinity => Some(&mut self.negative_infinities),
            Numeric::Finite(_) => None,
        }
    }

    fn add(&mut self, value: &Numeric, squares: bool) -> Result<()> {
        self.count += 1;
        if let Some(special) = self.special(value) {
            *special += 1;
            return Ok(());
        }
        self.sum = self.sum.add(value).map_err(failed)?;
        if squares {
            let square = value.mul(value).map_err(failed)?;
            self.squares = self.squares.add(&square).map_err(failed)?;
        }
        Ok(())
    }

    fn remove(&mut self, value: &Numeric, squares: bool) -> Result<()> {
        self.count -= 1;
        if let Some(special) = self.special(value) {
            *special -= 1;
            return Ok(());
        }
        self.sum = self.sum.sub(value).map_err(failed)?;
        if squares {
            let square = value.mul(value).map_err(failed)?;
            self.squares = self.squares.sub(&square).map_err(failed)?;
        }
        Ok(())
    }

    fn total(&self) -> Numeric {
        match (self.nans, self.infinities, self.negative_infinities) {
            (0, 0, 0) => self.sum.clone(),
            (0, _, 0) => Numeric::Infinity,
            (0, 0, _) => Numeric::NegInfinity,
            _ => Numeric::NaN,
        }
    }

    fn merge(&mut self, count: u64, sum: &Numeric, squares: &Numeric) -> Result<()> {
        self.count += count;
        if let Some(special) = self.special(sum) {
            *special += 1;
            return Ok(());
        }
        self.sum = self.sum.add(sum).map_err(failed)?;
        self.squares = self.squares.add(squares).map_err(failed)?;
        Ok(())
    }

    fn result(&self, kind: Kind) -> Result<Option<Numeric>> {
        of_sums(kind, self.count, self.total(), &self.squares)
    }

    fn state(&self) -> (u64, Numeric, Numeric) {
        (self.count, self.total(), self.squares.clone())
    }
}

/// The accumulator of many groups of numbers of any type.
pub(super) fn groups(kind: Kind) -> Box<dyn GroupsAccumulator> {
    Box::new(Groups {
        kind,
        groups: Vec::new(),
    })
}

/// What is made of the sums of so many values.
pub(super) fn of_sums(kind: Kind, count: u64, sum: Numeric, squares: &Numeric) -> Result<Option<Numeric>> {
    if count == 0 {
        return Ok(None);
    }
    let only = count == 1;
    let count = Numeric::from(count as i64);
    let (sample, root) = match kind {
        Kind::Sum => return Ok(Some(sum)),
        Kind::Average => return sum.div(&count).map(Some).map_err(failed),
        Kind::Variance { sample } => (sample, false),
        Kind::Deviation { sample } => (sample, true),
    };
    if sample && only {
        return Ok(None);
    }
    if sum.scale().is_none() {
        return Ok(Some(Numeric::NaN));
    }
    let of = || -> tenon_storage::numeric::Result<Numeric> {
        let over = count.mul(squares)?.sub(&sum.mul(&sum)?)?;
        if over.signum() <= 0 {
            return Ok(Numeric::from(0));
        }
        let under = match sample {
            true => count.mul(&count.sub(&Numeric::from(1))?)?,
            false => count.mul(&count)?,
        };
        let variance = over.div(&under)?;
        if root {
            variance.sqrt_at_own_scale()
        } else {
            Ok(variance)
        }
    };
    of().map(Some).map_err(failed)
}

fn values<'a>(array: &'a ArrayRef) -> Result<Values<'a>> {
    match Values::of(array) {
        Some(values) => Ok(values),
        None => plan_err!("{} is no number", array.data_type()),
    }
}

/// The state columns of groups.
fn states<'a>(groups: impl ExactSizeIterator<Item = &'a Group>) -> Vec<ArrayRef> {
    let mut counts = Vec::with_capacity(groups.len());
    let (mut sums, mut squares) = (
        Builder::with_capacity(groups.len()),
        Builder::with_capacity(groups.len()),
    );
    for group in groups {
        let (count, sum, square) = group.state();
        counts.push(count);
        sums.append(Some(&sum));
        squares.append(Some(&square));
    }
    vec![Arc::new(UInt64Array::from(counts)), sums.finish(), squares.finish()]
}

/// Calls `merge` with the row of each state of at least one value.
fn each_state(states: &[ArrayRef], mut merge: impl FnMut(usize, u64, &Numeric, &Numeric) -> Result<()>) -> Result<()> {
    let counts = states[0].as_primitive::<UInt64Type>();
    let (sums, squares) = (values(&states[1])?, values(&states[2])?);
    for row in 0..counts.len() {
        if let (count @ 1.., Some(sum), Some(square)) = (counts.value(row), sums.get(row), squares.get(row)) {
            merge(row, count, &sum, &square)?;
        }
    }
    Ok(())
}

/// One group.
#[derive(Debug)]
struct One {
    kind: Kind,
    own: Group,
    /// How many values have each display scale: when the largest leaves a window's frame, the sums lose its zeros.
    scales: BTreeMap<u32, u64>,
}

impl One {
    /// The sums at the largest display scale that is left.
    fn rescale(&mut self) -> Result<()> {
        let scale = self.scales.last_key_value().map_or(0, |(scale, _)| i64::from(*scale));
        self.own.sum = self.own.sum.round(scale).map_err(failed)?;
        self.own.squares = self.own.squares.round(2 * scale).map_err(failed)?;
        Ok(())
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let squares = self.kind.has_squares();
        for value in values(&arrays[0])?.iter().flatten() {
            if let Some(scale) = value.scale() {
                *self.scales.entry(scale).or_default() += 1;
            }
            self.own.add(&value, squares)?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let squares = self.kind.has_squares();
        let before = self.scales.last_key_value().map(|(scale, _)| *scale);
        for value in values(&arrays[0])?.iter().flatten() {
            self.own.remove(&value, squares)?;
            if let Some(scale) = value.scale()
                && let Some(count) = self.scales.get_mut(&scale)
            {
                *count -= 1;
                if *count == 0 {
                    self.scales.remove(&scale);
                }
            }
        }
        match before == self.scales.last_key_value().map(|(scale, _)| *scale) {
            true => Ok(()),
            false => self.rescale(),
        }
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = self.own.result(self.kind)?;
        Ok(ScalarValue::LargeBinary(result.map(|value| value.to_bytes())))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = states(std::iter::once(&self.own));
        states
            .iter()
            .map(|state| ScalarValue::try_from_array(state, 0))
            .collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        each_state(states, |_, count, sum, squares| self.own.merge(count, sum, squares))
    }
}

/// Of the distinct values of one group, by their keys. State: the list of values.
#[derive(Debug)]
struct Distinct {
    kind: Kind,
    values: HashMap<Vec<u8>, Vec<u8>>,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for value in values(&arrays[0])?.iter().flatten() {
            let bytes = value.to_bytes();
            self.values.entry(compare_key(&bytes).to_vec()).or_insert(bytes);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut group = Group::default();
        for bytes in self.values.values() {
            group.add(&Numeric::from_bytes(bytes), self.kind.has_squares())?;
        }
        let result = group.result(self.kind)?;
        Ok(ScalarValue::LargeBinary(result.map(|value| value.to_bytes())))
    }

    fn size(&self) -> usize {
        let held = |(key, value): (&Vec<u8>, &Vec<u8>)| key.capacity() + value.capacity();
        size_of_val(self)
            + self.values.capacity() * 2 * size_of::<Vec<u8>>()
            + self.values.iter().map(held).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self
            .values
            .values()
            .map(|bytes| ScalarValue::LargeBinary(Some(bytes.clone())))
            .collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(
            &values, &NUMERIC,
        ))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }
}

/// Many groups.
#[derive(Debug)]
struct Groups {
    kind: Kind,
    groups: Vec<Group>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        arrays: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize(total, Group::default());
        let squares = self.kind.has_squares();
        let kept = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        for (row, value) in values(&arrays[0])?.iter().enumerate() {
            if let Some(value) = value.filter(|_| kept(row)) {
                self.groups[groups[row]].add(&value, squares)?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let results = groups
            .iter()
            .map(|group| group.result(self.kind))
            .collect::<Result<Vec<_>>>()?;
        Ok(collect(results.into_iter()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = emit_to.take_needed(&mut self.groups);
        Ok(states(groups.iter()))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize(total, Group::default());
        each_state(states, |row, count, sum, squares| {
            self.groups[groups[row]].merge(count, sum, squares)
        })
    }

    fn convert_to_state(&self, arrays: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..arrays[0].len()).collect();
        let mut groups = Groups {
            kind: self.kind,
            groups: Vec::new(),
        };
        groups.update_batch(arrays, &rows, filter, rows.len())?;
        groups.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Group>()
    }
}
