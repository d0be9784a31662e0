//! Variances and standard deviations: numerics of exact numbers, floats of floats.

use super::moments::{self, Kind};
use super::regression::of_floats;
use crate::pg::numeric::Class;
use crate::pg::semantics::fields;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::sync::Arc;
use tenon_storage::types::NUMERIC;

/// Name, other names, and what each is.
const FUNCTIONS: [(&str, &[&str], Kind); 4] = [
    ("var_samp", &["variance"], Kind::Variance { sample: true }),
    ("var_pop", &[], Kind::Variance { sample: false }),
    ("stddev", &["stddev_samp"], Kind::Deviation { sample: true }),
    ("stddev_pop", &[], Kind::Deviation { sample: false }),
];

pub(super) fn functions() -> Vec<AggregateUDF> {
    FUNCTIONS
        .map(|(name, others, kind)| {
            AggregateUDF::new_from_impl(Spread {
                name,
                others: others.iter().map(ToString::to_string).collect(),
                kind,
                signature: Signature::user_defined(Volatility::Immutable),
            })
        })
        .into()
}

/// The function that computes a coerced call of one of these.
pub(super) fn lower(
    name: &str,
    params: &AggregateFunctionParams,
    schema: &DFSchema,
) -> Result<Option<Arc<AggregateUDF>>> {
    let Some((name, _, kind)) = FUNCTIONS.iter().find(|(own, ..)| *own == name) else {
        return Ok(None);
    };
    let [arg] = params.args.as_slice() else {
        return Ok(None);
    };
    let exact = Class::of(&fields::data_type(arg, schema)?).is_exact();
    Ok(Some(match exact {
        true => moments::udaf(name, *kind),
        false => of_floats(*kind),
    }))
}

/// Decides the types; after type coercion `lower` puts another function in its place.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Spread {
    name: &'static str,
    others: Vec<String>,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for Spread {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.others
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [one] = types else {
            return plan_err!("{} takes one argument", self.name);
        };
        match Class::of(one) {
            Class::Other | Class::Text => plan_err!("{} does not take {one}", self.name),
            class if class.is_exact() => Ok(vec![one.clone()]),
            _ => Ok(vec![DataType::Float64]),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match Class::of(&types[0]).is_exact() {
            true => NUMERIC,
            false => DataType::Float64,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match Class::of(args.input_fields[0].data_type()).is_exact() {
            true => moments::udaf(self.name, self.kind).state_fields(args),
            false => of_floats(self.kind).state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match Class::of(args.expr_fields[0].data_type()).is_exact() {
            true => moments::udaf(self.name, self.kind).accumulator(args),
            false => of_floats(self.kind).accumulator(args),
        }
    }
}
