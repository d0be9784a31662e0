//! The two zeros of floats, which are equal and are shown apart: what sorts and tells values apart takes one for both. (Groups
//! and joins do so themselves.)

use super::fields;
use datafusion::arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Distinct, DistinctOn, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    SortExpr, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The function's name, which the device's translator knows too.
pub(crate) const ONE_ZERO: &str = "one_zero";

/// Whether an expression's values may be the two zeros. A volatile one stays the one that stands beside it.
pub(super) fn has_zeros(expr: &Expr, schema: &DFSchema) -> bool {
    let known = match expr {
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => *value != 0.0,
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value != 0.0,
        Expr::ScalarFunction(call) if call.name() == ONE_ZERO => true,
        expr => expr.is_volatile(),
    };
    !known && fields::data_type(expr, schema).is_ok_and(|of| matches!(of, DataType::Float32 | DataType::Float64))
}

/// The value with one zero for both.
pub(super) fn one_zero(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(OneZero {
            signature: Signature::uniform(1, vec![DataType::Float32, DataType::Float64], Volatility::Immutable),
        }))
    });
    FUNCTION.call(vec![expr])
}

/// Rewrites those of some values that may be such; whether there are any.
pub(super) fn all(values: &mut [Expr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for value in values.iter_mut().filter(|value| has_zeros(value, schema)) {
        *value = one_zero(std::mem::take(value));
        changed = true;
    }
    changed
}

/// `CASE x WHEN y ...`, which looks the values up.
pub(super) fn case(mut case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let Some(compared) = case.expr.as_deref_mut().filter(|expr| has_zeros(expr, schema)) else {
        return Transformed::no(Expr::Case(case));
    };
    *compared = one_zero(std::mem::take(compared));
    for (when, _) in &mut case.when_then_expr {
        all(std::slice::from_mut(&mut **when), schema);
    }
    Transformed::yes(Expr::Case(case))
}

/// The rows of DISTINCT ON, whose order begins with what tells them apart.
pub(super) fn distinct_on(plan: LogicalPlan) -> Result<(LogicalPlan, bool)> {
    let LogicalPlan::Distinct(Distinct::On(mut on)) = plan else {
        return Ok((plan, false));
    };
    let schema = Arc::clone(on.input.schema());
    let mut changed = all(&mut on.on_expr, &schema);
    let keys: &mut [SortExpr] = on.sort_expr.as_deref_mut().unwrap_or_default();
    for key in keys {
        changed |= all(std::slice::from_mut(&mut key.expr), &schema);
    }
    let on = DistinctOn::try_new(on.on_expr, on.select_expr, on.sort_expr, on.input)?;
    Ok((LogicalPlan::Distinct(Distinct::On(on)), changed))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OneZero {
    signature: Signature,
}

impl ScalarUDFImpl for OneZero {
    fn name(&self) -> &str {
        ONE_ZERO
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let values = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let values: ArrayRef = match values.data_type() {
            DataType::Float32 => {
                let values: Float32Array = values.as_primitive::<Float32Type>().unary(|value| value + 0.0);
                Arc::new(values)
            }
            DataType::Float64 => {
                let values: Float64Array = values.as_primitive::<Float64Type>().unary(|value| value + 0.0);
                Arc::new(values)
            }
            _ => values,
        };
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }

    /// What is in order stays so.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs[0].sort_properties)
    }
}
