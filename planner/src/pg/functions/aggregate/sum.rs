//! `sum` with PostgreSQL's result types: bigint of smallint and integer, numeric of bigint, real of real.
//!
//! This function decides the types. After type coercion `lower` gives all but the sums of bigints and decimals to DataFusion's own, which
//! would lose what passes 128 bits.

use super::average::Distinct;
use super::exact_argument;
use super::floats;
use super::moments::{self, Kind};
use super::real;
use crate::pg::semantics::fields;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, Signature, Volatility, cast,
};
use std::sync::Arc;
use tenon_executor::aggregate::{fitting, plus};
use tenon_storage::types::NUMERIC;

/// The type of a sum of bigints.
const WIDE: DataType = DataType::Decimal128(38, 0);

pub(super) fn udaf() -> AggregateUDF {
    AggregateUDF::new_from_impl(Sum {
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// The function and arguments that compute a coerced call of `sum`.
pub(super) fn lower(params: &mut AggregateFunctionParams, schema: &DFSchema) -> Result<Option<Arc<AggregateUDF>>> {
    let [arg] = params.args.as_mut_slice() else {
        return Ok(None);
    };
    let wanted = match fields::data_type(arg, schema)? {
        DataType::Int64 if !params.distinct => return Ok(None),
        DataType::Int64 => WIDE,
        DataType::Decimal128(..) => return Ok(None),
        NUMERIC => return Ok(Some(moments::udaf("sum", Kind::Sum))),
        DataType::Int16 | DataType::Int32 => DataType::Int64,
        DataType::Float32 => return Ok(Some(real::sum())),
        DataType::Float64 => return Ok(Some(floats::sum())),
        _ => return Ok(Some(sum_udaf())),
    };
    let own = std::mem::replace(arg, Expr::Literal(ScalarValue::Null, None));
    *arg = cast(own, wanted);
    Ok(Some(sum_udaf()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    signature: Signature,
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Float32] => Ok(vec![DataType::Float32]),
            types => exact_argument("sum", types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match &types[0] {
            DataType::Int16 | DataType::Int32 => Ok(DataType::Int64),
            DataType::Int64 => Ok(WIDE),
            DataType::LargeBinary => Ok(NUMERIC),
            DataType::Float32 => Ok(DataType::Float32),
            interval @ DataType::Interval(_) => Ok(interval.clone()),
            _ => sum_udaf().return_type(types),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<datafusion::arrow::datatypes::FieldRef>> {
        if args.is_distinct {
            if !matches!(args.input_fields[0].data_type(), DataType::Decimal128(..)) {
                return sum_udaf().state_fields(args);
            }
            let values = DataType::new_list(args.return_field.data_type().clone(), true);
            return Ok(vec![Arc::new(Field::new(
                format_state_name(args.name, "values"),
                values,
                true,
            ))]);
        }
        let field = args.return_field.as_ref().clone();
        Ok(vec![Arc::new(
            field.with_name(format_state_name(args.name, "sum")).with_nullable(true),
        )])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match (args.expr_fields[0].data_type(), args.return_type()) {
            (DataType::Decimal128(..), DataType::Decimal128(digits, scale)) if args.is_distinct => {
                Ok(Box::new(Distinct::sum(*digits, *scale)))
            }
            (DataType::Int64 | DataType::Decimal128(..), DataType::Decimal128(digits, scale)) if !args.is_distinct => {
                Ok(Box::new(One {
                    sum: 0,
                    count: 0,
                    of: (*digits, *scale),
                }))
            }
            _ => sum_udaf().accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match (args.expr_fields[0].data_type(), args.return_type()) {
            (DataType::Int64 | DataType::Decimal128(..), DataType::Decimal128(digits, scale)) => Ok(Box::new(Groups {
                sums: vec![],
                seen: vec![],
                of: (*digits, *scale),
            })),
            _ => sum_udaf().create_groups_accumulator(args),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Numbers or partial sums as 128-bit integers.
fn wide(values: &ArrayRef, mut take: impl FnMut(usize, i128)) {
    match values.data_type() {
        DataType::Int64 => {
            let values = values.as_primitive::<Int64Type>();
            (0..values.len())
                .filter(|row| values.is_valid(*row))
                .for_each(|row| take(row, values.value(row).into()));
        }
        _ => {
            let values = values.as_primitive::<Decimal128Type>();
            (0..values.len())
                .filter(|row| values.is_valid(*row))
                .for_each(|row| take(row, values.value(row)));
        }
    }
}

/// One group.
#[derive(Debug)]
struct One {
    sum: i128,
    count: u64,
    /// Digits of the sum, and those after the point.
    of: (u8, i8),
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut lost = false;
        wide(&values[0], |_, value| {
            lost |= plus(&mut self.sum, value);
            self.count += 1;
        });
        fitting(lost)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        wide(&values[0], |_, value| {
            self.sum = self.sum.wrapping_sub(value);
            self.count -= 1;
        });
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = (self.count > 0).then_some(self.sum);
        Ok(ScalarValue::Decimal128(sum, self.of.0, self.of.1))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// Many groups: a sum each, and whether it has met a value.
#[derive(Debug)]
struct Groups {
    sums: Vec<i128>,
    seen: Vec<bool>,
    /// Digits of the sums, and those after the point.
    of: (u8, i8),
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, 0);
        self.seen.resize(total, false);
        let kept = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let mut lost = false;
        wide(&values[0], |row, value| {
            if kept(row) {
                lost |= plus(&mut self.sums[groups[row]], value);
                self.seen[groups[row]] = true;
            }
        });
        fitting(lost)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let seen = emit_to.take_needed(&mut self.seen);
        let sums = Decimal128Array::new(sums.into(), Some(NullBuffer::from(seen)));
        Ok(Arc::new(sums.with_precision_and_scale(self.of.0, self.of.1)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows: Vec<usize> = (0..values[0].len()).collect();
        let mut groups = Groups {
            sums: vec![],
            seen: vec![],
            of: self.of,
        };
        groups.update_batch(values, &rows, filter, rows.len())?;
        groups.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity()
    }
}
