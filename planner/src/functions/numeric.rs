//! `/` and `*` of numerics: quotients with PostgreSQL's digits, products that have room for theirs.

use crate::error::{SqlError, state};
use crate::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Builder, Decimal256Builder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, i256};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast as cast_expr,
};
use std::sync::{Arc, LazyLock};
use tenon_storage::numeric::{divide, quotient_type};

/// Most digits after the point of a product in 128 bits.
const PRODUCT_SCALE_MAX: i32 = 24;

static DIVIDE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(Divide {
        signature: Signature::user_defined(Volatility::Immutable),
    }))
});

/// Precision and scale of an exact number.
pub(super) fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => (5, 0),
        DataType::UInt16 | DataType::Int32 => (10, 0),
        DataType::UInt32 | DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (*precision, *scale),
        _ => return None,
    })
}

fn is_numeric(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// Whether `left op right` is an operation on numerics: both exact, and one of them a numeric.
fn both_exact(left: &DataType, right: &DataType) -> bool {
    digits(left).is_some() && digits(right).is_some() && (is_numeric(left) || is_numeric(right))
}

/// `left / right`, if it divides numerics.
pub(super) fn quotient(left: &Expr, right: &Expr, types: (&DataType, &DataType)) -> Option<Expr> {
    both_exact(types.0, types.1).then(|| DIVIDE.call(vec![left.clone(), right.clone()]))
}

/// The left operand of `left * right` widened, if the product of these numerics would not fit.
pub(super) fn widened_factor(left: &Expr, types: (&DataType, &DataType)) -> Option<Expr> {
    if !both_exact(types.0, types.1) || matches!(types.0, DataType::Decimal256(..)) {
        return None;
    }
    let ((precision, scale), (other, other_scale)) = (digits(types.0)?, digits(types.1)?);
    let after = i32::from(scale) + i32::from(other_scale);
    let narrow = after <= PRODUCT_SCALE_MAX || i32::from(precision) + i32::from(other) < 38;
    (!narrow && after <= 76).then(|| cast_expr(left.clone(), DataType::Decimal256(76, scale)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Divide {
    signature: Signature,
}

impl ScalarUDFImpl for Divide {
    fn name(&self) -> &str {
        "numeric_div"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        types
            .iter()
            .map(|own| match (own, digits(own)) {
                (DataType::Decimal128(..) | DataType::Decimal256(..), _) => Ok(own.clone()),
                (_, Some((precision, scale))) => Ok(DataType::Decimal128(precision, scale)),
                (DataType::Null, None) => Ok(DataType::Decimal128(38, 0)),
                _ => plan_err!("numeric_div does not take {own}"),
            })
            .collect()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let (Some((precision, scale)), Some((_, other))) = (digits(&types[0]), digits(&types[1])) else {
            return plan_err!("numeric_div takes two numerics");
        };
        // The smallest divisor has one unit of its last place.
        let whole = i32::from(precision) - i32::from(scale) + i32::from(other);
        Ok(quotient_type(whole, scale.max(other)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let operands = args.args.iter().map(|value| wide(&value.to_array(rows)?));
        let operands = operands.collect::<Result<Vec<_>>>()?;
        let result = quotients(&operands, rows, args.return_type())?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// A numeric column in 256 bits, and its scale.
fn wide(values: &ArrayRef) -> Result<(ArrayRef, i8)> {
    let scale = digits(values.data_type()).map_or(0, |(_, scale)| scale);
    match values.data_type() {
        DataType::Decimal128(..) | DataType::Decimal256(..) => Ok((values.clone(), scale)),
        _ => Ok((cast(values, &DataType::Decimal128(38, scale))?, scale)),
    }
}

fn value(values: &ArrayRef, row: usize) -> Option<i256> {
    if values.is_null(row) {
        return None;
    }
    Some(match values.data_type() {
        DataType::Decimal128(..) => i256::from_i128(values.as_primitive::<Decimal128Type>().value(row)),
        _ => values.as_primitive::<Decimal256Type>().value(row),
    })
}

fn quotients(operands: &[(ArrayRef, i8)], rows: usize, result: &DataType) -> Result<ArrayRef> {
    let held = digits(result).map_or(0, |(_, scale)| scale);
    let [(left, scale), (right, other)] = operands else {
        return plan_err!("numeric_div takes two numerics");
    };
    let overflow = || fail(state::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format");
    let quotients = (0..rows).map(|row| {
        let (Some(left), Some(right)) = (value(left, row), value(right, row)) else {
            return Ok(None);
        };
        if right == i256::ZERO {
            return Err(fail(state::DIVISION_BY_ZERO, "division by zero"));
        }
        divide((left, *scale), (right, *other), held)
            .map(Some)
            .ok_or_else(overflow)
    });
    Ok(match result {
        DataType::Decimal128(..) => {
            let mut out = Decimal128Builder::with_capacity(rows).with_data_type(result.clone());
            for quotient in quotients {
                out.append_option(quotient?.map(|wide| wide.to_i128().ok_or_else(overflow)).transpose()?);
            }
            Arc::new(out.finish())
        }
        _ => {
            let mut out = Decimal256Builder::with_capacity(rows).with_data_type(result.clone());
            for quotient in quotients {
                out.append_option(quotient?);
            }
            Arc::new(out.finish())
        }
    })
}

fn fail(code: crate::error::SqlState, message: &str) -> datafusion::error::DataFusionError {
    to_datafusion(SqlError::new(code, message))
}
