//! `min` and `max` of floats, of which NaN is the greatest, as in PostgreSQL's order; DataFusion's compare as IEEE does, where what
//! comes first decides. They are found among integers that have that order.

use super::of_type;
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The one of this name; None: it is neither.
pub(super) fn of_floats(name: &str) -> Option<Arc<AggregateUDF>> {
    static BOTH: LazyLock<[Arc<AggregateUDF>; 2]> = LazyLock::new(|| {
        [min_udaf(), max_udaf()].map(|of_integers| {
            let signature = Signature::uniform(1, vec![DataType::Float32, DataType::Float64], Volatility::Immutable);
            Arc::new(AggregateUDF::new_from_impl(Extreme { of_integers, signature }))
        })
    });
    BOTH.iter().find(|own| own.name() == name).cloned()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    of_integers: Arc<AggregateUDF>,
    signature: Signature,
}

/// From a float's bits to the integer of its place in the order, and back.
fn turned(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

fn place(value: f64) -> i64 {
    turned(if value.is_nan() { f64::NAN.abs() } else { value }.to_bits() as i64)
}

fn places(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let places = |values: &ArrayRef| -> Result<ArrayRef> {
        let values = cast(values, &DataType::Float64)?;
        let places: Int64Array = values.as_primitive::<Float64Type>().unary(place);
        Ok(Arc::new(places))
    };
    values.iter().map(places).collect()
}

fn floats(places: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let floats: Float64Array = places
        .as_primitive::<Int64Type>()
        .unary(|place| f64::from_bits(turned(place) as u64));
    Ok(cast(&floats, data_type)?)
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.of_integers.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let places = of_type(&args, &DataType::Int64, |args| self.of_integers.accumulator(args))?;
        Ok(Box::new(One {
            places,
            data_type: args.return_field.data_type().clone(),
        }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let places = of_type(&args, &DataType::Int64, |args| {
            self.of_integers.create_sliding_accumulator(args)
        })?;
        Ok(Box::new(One {
            places,
            data_type: args.return_field.data_type().clone(),
        }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        of_type(&args, &DataType::Int64, |args| {
            self.of_integers.groups_accumulator_supported(args)
        })
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let places = of_type(&args, &DataType::Int64, |args| {
            self.of_integers.create_groups_accumulator(args)
        })?;
        Ok(Box::new(Groups {
            places,
            data_type: args.return_field.data_type().clone(),
        }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The accumulator of places, and what the values are.
#[derive(Debug)]
struct One {
    places: Box<dyn Accumulator>,
    data_type: DataType,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.places.update_batch(&places(values)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.places.retract_batch(&places(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.places.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let place = self.places.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&floats(&place, &self.data_type)?, 0)
    }

    fn size(&self) -> usize {
        self.places.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// The groups' accumulator of places, and what the values are.
struct Groups {
    places: Box<dyn GroupsAccumulator>,
    data_type: DataType,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.places.update_batch(&places(values)?, groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        floats(&self.places.evaluate(emit_to)?, &self.data_type)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let places = self.places.convert_to_state(&places(values)?, filter)?;
        places.iter().map(|places| floats(places, &self.data_type)).collect()
    }

    fn size(&self) -> usize {
        self.places.size()
    }
}
