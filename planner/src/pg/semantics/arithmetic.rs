//! Arithmetic that fails where PostgreSQL's does: integers instead of wrapping around, floats out of range, division of
//! floats by zero.

use super::{call_names, fields};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use std::sync::{Arc, LazyLock};
use tenon_storage::SqlType;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Add,
    Subtract,
    Multiply,
    FloatDivide,
}

/// The types that are checked.
const TYPES: [DataType; 6] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Float32,
    DataType::Float64,
];

static FUNCTIONS: LazyLock<[[Arc<ScalarUDF>; 6]; 4]> = LazyLock::new(|| {
    [Kind::Add, Kind::Subtract, Kind::Multiply, Kind::FloatDivide].map(|kind| {
        TYPES.map(|of| {
            Arc::new(ScalarUDF::new_from_impl(Checked {
                kind,
                of,
                signature: Signature::any(2, Volatility::Immutable),
            }))
        })
    })
});

/// The type of a call of one of these functions, without a look at its operands.
pub(super) fn type_of(call: &ScalarFunction) -> Option<DataType> {
    let checked = call.func.inner().downcast_ref::<Checked>()?;
    Some(checked.of.clone())
}

/// Whether a function is one of these.
pub(super) fn is_checked(function: &ScalarUDF) -> bool {
    function.inner().is::<Checked>()
}

/// `-x` of a float: the sign of a NaN does not turn over.
pub(crate) fn negated(expr: Expr, of: &DataType) -> Option<Expr> {
    let one = match of {
        DataType::Float32 => lit(-1.0_f32),
        DataType::Float64 => lit(-1.0_f64),
        _ => return None,
    };
    let at = TYPES.iter().position(|known| known == of)?;
    Some(FUNCTIONS[Kind::Multiply as usize][at].call(vec![expr, one]))
}

/// Whether `rewrite` may change this operator.
pub(super) fn is_candidate(op: Operator) -> bool {
    matches!(
        op,
        Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide
    )
}

pub(super) fn rewrite(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let kind = match binary.op {
        Operator::Plus => Kind::Add,
        Operator::Minus => Kind::Subtract,
        Operator::Multiply => Kind::Multiply,
        Operator::Divide => Kind::FloatDivide,
        _ => return Ok(Transformed::no(Expr::BinaryExpr(binary))),
    };
    let of = fields::data_type(&binary.left, schema)?;
    let wanted = of.is_floating() || (kind != Kind::FloatDivide && of.is_signed_integer());
    let at = TYPES.iter().position(|known| *known == of);
    let (Some(at), true) = (at, wanted && fields::data_type(&binary.right, schema)? == of) else {
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    };
    let function = FUNCTIONS[kind as usize][at].clone();
    Ok(Transformed::yes(function.call(vec![*binary.left, *binary.right])))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    kind: Kind,
    /// Of both operands and of the result.
    of: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Add => "checked_add",
            Kind::Subtract => "checked_subtract",
            Kind::Multiply => "checked_multiply",
            Kind::FloatDivide => "checked_divide",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(call_names::of_call(self.name(), args))
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.of.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (left, right) = (&args.args[0], &args.args[1]);
        let scalar = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let datum = |value: &ColumnarValue| match value {
            ColumnarValue::Array(array) => Ok((array.clone(), false)),
            ColumnarValue::Scalar(scalar) => Ok::<_, datafusion::error::DataFusionError>((scalar.to_array()?, true)),
        };
        let ((left, left_one), (right, right_one)) = (datum(left)?, datum(right)?);
        let (a, b) = (one(&left, left_one), one(&right, right_one));
        let result = match self.kind {
            Kind::Add => numeric::add(a.as_ref(), b.as_ref()),
            Kind::Subtract => numeric::sub(a.as_ref(), b.as_ref()),
            Kind::Multiply => numeric::mul(a.as_ref(), b.as_ref()),
            Kind::FloatDivide => numeric::div(a.as_ref(), b.as_ref()),
        };
        let result = result.map_err(|error| match error {
            ArrowError::ArithmeticOverflow(_) => {
                let name = SqlType::from_data_type(left.data_type()).map_or("value", |known| known.base_name());
                to_datafusion(SqlError::new(
                    state::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("{name} out of range"),
                ))
            }
            other => other.into(),
        })?;
        let result = match result.data_type() {
            DataType::Float32 => {
                self.check::<Float32Type>(&left, &right, &result)?;
                one_nan::<Float32Type>(result, |value| value.is_nan() && value.is_sign_negative(), f32::NAN)
            }
            DataType::Float64 => {
                self.check::<Float64Type>(&left, &right, &result)?;
                one_nan::<Float64Type>(result, |value| value.is_nan() && value.is_sign_negative(), f64::NAN)
            }
            _ => result,
        };
        if scalar {
            return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(
                &result, 0,
            )?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

fn one(array: &datafusion::arrow::array::ArrayRef, scalar: bool) -> Box<dyn datafusion::arrow::array::Datum> {
    if scalar {
        Box::new(datafusion::arrow::array::Scalar::new(array.clone()))
    } else {
        Box::new(array.clone())
    }
}

/// The values, each NaN without a sign: what infinity minus infinity gives has one, and would be below all numbers.
fn one_nan<T: ArrowPrimitiveType>(values: ArrayRef, is_signed: impl Fn(T::Native) -> bool, nan: T::Native) -> ArrayRef {
    let own = values.as_primitive::<T>();
    match own.values().iter().any(|value| is_signed(*value)) {
        true => Arc::new(own.unary::<_, T>(|value| if is_signed(value) { nan } else { value })),
        false => values,
    }
}

impl Checked {
    /// Fails where floats were divided by zero, and where finite ones gave an infinity, or others than zero gave zero.
    fn check<T: ArrowPrimitiveType>(&self, left: &ArrayRef, right: &ArrayRef, result: &ArrayRef) -> Result<()>
    where
        T::Native: Into<f64>,
    {
        let results = result.as_primitive::<T>();
        let suspect = |value: f64| value.is_infinite() || value.is_nan() || value == 0.0;
        if !results.values().iter().any(|value| suspect((*value).into())) {
            return Ok(());
        }
        let one = |array: &ArrayRef, row: usize| -> f64 {
            let own = array.as_primitive::<T>();
            own.value(if own.len() == 1 { 0 } else { row }).into()
        };
        for row in (0..results.len()).filter(|row| results.is_valid(*row)) {
            let value: f64 = results.value(row).into();
            if !suspect(value) {
                continue;
            }
            let (a, b) = (one(left, row), one(right, row));
            let message = match self.kind {
                Kind::FloatDivide if b == 0.0 && !a.is_nan() => {
                    return Err(to_datafusion(SqlError::new(
                        state::DIVISION_BY_ZERO,
                        "division by zero",
                    )));
                }
                _ if value.is_infinite() && !a.is_infinite() && !b.is_infinite() => "value out of range: overflow",
                Kind::Multiply if value == 0.0 && a != 0.0 && b != 0.0 => "value out of range: underflow",
                Kind::FloatDivide if value == 0.0 && a != 0.0 && !b.is_infinite() => "value out of range: underflow",
                _ => continue,
            };
            return Err(to_datafusion(SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, message)));
        }
        Ok(())
    }
}
