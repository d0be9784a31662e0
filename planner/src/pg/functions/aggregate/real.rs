//! `sum` of reals, which is a real. It is summed up in double precision.

use super::floats::{self, overflow};
use super::of_type;
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

const DOUBLE: DataType = DataType::Float64;

pub(super) fn sum() -> Arc<AggregateUDF> {
    static SUM: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::exact(vec![DataType::Float32], Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Sum { signature }))
    });
    SUM.clone()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    signature: Signature,
}

fn doubles(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    values.iter().map(|values| Ok(cast(values, &DOUBLE)?)).collect()
}

/// Sums as reals, which must hold them.
fn reals(sums: &ArrayRef) -> Result<ArrayRef> {
    let reals = cast(sums, &DataType::Float32)?;
    let wide = sums.as_primitive::<Float64Type>().iter();
    let both = wide.zip(reals.as_primitive::<Float32Type>());
    let fits = |(wide, real): (Option<f64>, Option<f32>)| {
        !real.is_some_and(f32::is_infinite) || wide.is_some_and(f64::is_infinite)
    };
    match both.into_iter().all(fits) {
        true => Ok(reals),
        false => Err(overflow()),
    }
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float32)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let double = |field: &Field| -> FieldRef { Arc::new(field.clone().with_data_type(DOUBLE)) };
        let input: Vec<FieldRef> = args.input_fields.iter().map(|field| double(field)).collect();
        floats::sum().state_fields(StateFieldsArgs {
            name: args.name,
            input_fields: &input,
            return_field: double(&args.return_field),
            ordering_fields: args.ordering_fields,
            is_distinct: args.is_distinct,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One(of_type(&args, &DOUBLE, |args| {
            floats::sum().accumulator(args)
        })?)))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let groups = of_type(&args, &DOUBLE, |args| floats::sum().create_groups_accumulator(args))?;
        Ok(Box::new(Groups(groups)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

#[derive(Debug)]
struct One(Box<dyn Accumulator>);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&doubles(values)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.0.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&reals(&sum)?, 0)
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
}

struct Groups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.0.update_batch(&doubles(values)?, groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        reals(&self.0.evaluate(emit_to)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.0.merge_batch(values, groups, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(&doubles(values)?, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
