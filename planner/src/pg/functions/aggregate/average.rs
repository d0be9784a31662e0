//! `avg` of integers and numerics: a numeric with PostgreSQL's digits. Those of floats stand in `floats`.
//!
//! State: the count, and the sum of the unscaled values in 128 bits. The quotient is taken once, at the end.

use super::exact_argument;
use super::floats;
use super::moments::{self, Kind};
use crate::pg::numeric::failed;
use crate::pg::semantics::fields;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, ListArray, UInt64Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int16Type, Int32Type, Int64Type, UInt64Type,
};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::collections::HashSet;
use std::sync::Arc;
use tenon_executor::aggregate::{fitting, plus};
use tenon_storage::numeric::column::Builder;
use tenon_storage::types::NUMERIC;

pub(super) fn udaf() -> AggregateUDF {
    AggregateUDF::new_from_impl(Average {
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// The function that computes a coerced call of `avg`, where it is not this one.
pub(super) fn lower(params: &AggregateFunctionParams, schema: &DFSchema) -> Result<Option<Arc<AggregateUDF>>> {
    let Some(arg) = params.args.first() else {
        return Ok(None);
    };
    Ok(match fields::data_type(arg, schema)? {
        NUMERIC => Some(moments::udaf("avg", Kind::Average)),
        DataType::Float64 => Some(floats::average()),
        own if digits(&own).is_some() => None,
        _ => Some(avg_udaf()),
    })
}

/// Whether averages of this type are taken exactly.
pub(super) fn is_exact(data_type: &DataType) -> bool {
    *data_type == NUMERIC || digits(data_type).is_some()
}

/// Digits after the point of an argument that is averaged in 128 bits.
fn digits(data_type: &DataType) -> Option<i8> {
    Some(match data_type {
        DataType::Int16 => 0,
        DataType::Int32 => 0,
        DataType::Int64 => 0,
        DataType::Decimal128(_, scale) => *scale,
        _ => return None,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    signature: Signature,
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        "avg"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        exact_argument("avg", types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match digits(&types[0]) {
            _ if types[0] == NUMERIC => Ok(NUMERIC),
            Some(_) => Ok(NUMERIC),
            None if matches!(types[0], DataType::Interval(_)) => Ok(types[0].clone()),
            None => avg_udaf().return_type(types),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let Some(scale) = digits(args.input_fields[0].data_type()) else {
            return avg_udaf().state_fields(args);
        };
        let sum = DataType::Decimal128(38, scale);
        let field = |part: &str, data_type| Arc::new(Field::new(format_state_name(args.name, part), data_type, true));
        Ok(match args.is_distinct {
            true => vec![field("values", DataType::new_list(sum, true))],
            false => vec![field("count", DataType::UInt64), field("sum", sum)],
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let Some(scale) = digits(args.expr_fields[0].data_type()) else {
            return avg_udaf().accumulator(args);
        };
        Ok(match args.is_distinct {
            true => Box::new(Distinct {
                values: HashSet::new(),
                of: (38, scale),
                averages: true,
            }),
            false => Box::new(One {
                count: 0,
                sum: 0,
                scale,
            }),
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match digits(args.expr_fields[0].data_type()) {
            Some(_) => self.accumulator(args),
            None => avg_udaf().create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let Some(scale) = digits(args.expr_fields[0].data_type()) else {
            return avg_udaf().create_groups_accumulator(args);
        };
        Ok(Box::new(Groups {
            counts: Vec::new(),
            sums: Vec::new(),
            scale,
        }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Calls `take` with the row and the unscaled value of every value that is not NULL.
fn each(values: &ArrayRef, mut take: impl FnMut(usize, i128)) -> Result<()> {
    macro_rules! of {
        ($arrow:ty) => {{
            let values = values.as_primitive::<$arrow>();
            for row in 0..values.len() {
                if values.is_valid(row) {
                    take(row, i128::from(values.value(row)));
                }
            }
        }};
    }
    match values.data_type() {
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::Decimal128(..) => of!(Decimal128Type),
        other => return plan_err!("avg has met {other}"),
    }
    Ok(())
}

/// The averages of groups: NULL where the count is 0.
fn averages(groups: impl ExactSizeIterator<Item = (u64, i128)>, scale: i8) -> Result<ArrayRef> {
    let mut out = Builder::with_capacity(groups.len());
    for (count, sum) in groups {
        out.append_average(sum, scale, count).map_err(failed)?;
    }
    Ok(out.finish())
}

/// One group.
#[derive(Debug)]
struct One {
    count: u64,
    sum: i128,
    scale: i8,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut lost = false;
        each(&values[0], |_, value| {
            self.count += 1;
            lost |= plus(&mut self.sum, value);
        })?;
        fitting(lost)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(&values[0], |_, value| {
            self.count -= 1;
            self.sum = self.sum.wrapping_sub(value);
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let one = averages(std::iter::once((self.count, self.sum)), self.scale)?;
        ScalarValue::try_from_array(&one, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::UInt64(Some(self.count)),
            ScalarValue::Decimal128(Some(self.sum), 38, self.scale),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.count += states[0].as_primitive::<UInt64Type>().iter().flatten().sum::<u64>();
        let mut lost = false;
        each(&states[1], |_, sum| lost |= plus(&mut self.sum, sum))?;
        fitting(lost)
    }
}

/// `avg(DISTINCT x)` of one group, or `sum`. State: the list of values.
#[derive(Debug)]
pub(super) struct Distinct {
    values: HashSet<i128>,
    /// Digits of the sum, and those after the point.
    of: (u8, i8),
    averages: bool,
}

impl Distinct {
    pub fn sum(digits: u8, scale: i8) -> Self {
        Self {
            values: HashSet::new(),
            of: (digits, scale),
            averages: false,
        }
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(&values[0], |_, value| {
            self.values.insert(value);
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = 0;
        let lost = self
            .values
            .iter()
            .fold(false, |lost, value| lost | plus(&mut sum, *value));
        fitting(lost)?;
        let (digits, scale) = self.of;
        if !self.averages {
            let sum = (!self.values.is_empty()).then_some(sum);
            return Ok(ScalarValue::Decimal128(sum, digits, scale));
        }
        let group = std::iter::once((self.values.len() as u64, sum));
        ScalarValue::try_from_array(&averages(group, scale)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<i128>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Decimal128Array = self.values.iter().copied().map(Some).collect();
        let values = values.with_precision_and_scale(self.of.0, self.of.1)?;
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let list = ListArray::new(item, OffsetBuffer::from_lengths([values.len()]), Arc::new(values), None);
        Ok(vec![ScalarValue::List(Arc::new(list))])
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
    counts: Vec<u64>,
    sums: Vec<i128>,
    scale: i8,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.counts.resize(total, 0);
        self.sums.resize(total, 0);
        let kept = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let mut lost = false;
        each(&values[0], |row, value| {
            if kept(row) {
                self.counts[groups[row]] += 1;
                lost |= plus(&mut self.sums[groups[row]], value);
            }
        })?;
        fitting(lost)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let counts = emit_to.take_needed(&mut self.counts);
        let sums = emit_to.take_needed(&mut self.sums);
        averages(counts.into_iter().zip(sums), self.scale)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let counts = emit_to.take_needed(&mut self.counts);
        let sums = emit_to.take_needed(&mut self.sums);
        let sums = Decimal128Array::new(sums.into(), None).with_precision_and_scale(38, self.scale)?;
        Ok(vec![Arc::new(UInt64Array::from(counts)), Arc::new(sums)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.counts.resize(total, 0);
        self.sums.resize(total, 0);
        let counts = states[0].as_primitive::<UInt64Type>();
        for (group, count) in groups.iter().zip(counts) {
            self.counts[*group] += count.unwrap_or(0);
        }
        let mut lost = false;
        each(&states[1], |row, sum| lost |= plus(&mut self.sums[groups[row]], sum))?;
        fitting(lost)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..values[0].len()).collect();
        let mut groups = Groups {
            counts: Vec::new(),
            sums: Vec::new(),
            scale: self.scale,
        };
        groups.update_batch(values, &rows, filter, rows.len())?;
        groups.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.counts.capacity() * size_of::<u64>() + self.sums.capacity() * size_of::<i128>()
    }
}
