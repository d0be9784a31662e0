//! Numerics of any precision, as far as they are decimals of one scale: sums, differences and products of decimals, integers
//! and constants, and comparisons of their keys.
//!
//! Such a value has the type of a decimal here; its display scale is lost, so it is computed and compared with, and never
//! given back.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef, ScalarFunctionExpr};
use tenon_storage::SqlType;
use tenon_storage::numeric::Numeric;
use tenon_storage::types::NUMERIC;

use super::translator::Translator;
use super::types::{Translated, is_exact, scale};
use super::value::Value;

/// Digits after the point that a decimal may have.
const SCALE_MAX: i8 = 38;

impl Translator {
    /// A function of numerics over decimals; None: it is none of these.
    pub(super) fn of_numerics(&mut self, call: &ScalarFunctionExpr) -> Translated<Option<Value>> {
        let op = match call.name() {
            "numeric_add" => Some(Operator::Plus),
            "numeric_sub" => Some(Operator::Minus),
            "numeric_mul" => Some(Operator::Multiply),
            "numeric_key" | "numeric_uminus" => None,
            // Without digits that it is cut to.
            "convert" if is_plain(call, &self.schema) => None,
            _ => return Ok(None),
        };
        let values = call.args().iter().map(|arg| self.numeric(arg));
        let values = values.collect::<Translated<Vec<_>>>()?;
        Ok(Some(match (op, values.as_slice()) {
            (Some(op), [left, right]) => {
                let (l, r) = (scale(&left.data_type), scale(&right.data_type));
                let after = match op {
                    Operator::Multiply => l.checked_add(r),
                    _ => Some(l.max(r)),
                };
                let after = after
                    .filter(|after| *after <= SCALE_MAX)
                    .ok_or("a scale beyond 128 bits")?;
                let data_type = DataType::Decimal128(38, after);
                self.arithmetic(left.clone(), op, right.clone(), &data_type)?
            }
            (None, [value]) if call.name() == "numeric_uminus" => self.negative(value.clone())?,
            (None, [value]) => value.clone(),
            _ => return Ok(None),
        }))
    }

    /// A numeric, decimal or integer as a decimal.
    fn numeric(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        let value = match collect_columns(expr).is_empty() {
            true => {
                let one = self.evaluated(expr, &[])?;
                self.literal(&decimal(&one)?)?
            }
            false => self.translate(expr)?,
        };
        let after = scale(&value.data_type);
        match is_exact(&value.data_type) && after >= 0 {
            true => Ok(Value {
                data_type: DataType::Decimal128(38, after),
                ..value
            }),
            false => Err(format!("a numeric of {}", value.data_type)),
        }
    }
}

/// Whether a conversion is to numeric without a limit of digits.
fn is_plain(call: &ScalarFunctionExpr, schema: &Schema) -> bool {
    let field = call.return_field(schema);
    field.is_ok_and(|field| SqlType::from_field(&field) == Some(SqlType::Numeric))
}

/// A constant as a decimal.
fn decimal(one: &dyn Array) -> Translated<ScalarValue> {
    let refused = || String::from("a numeric beyond 128 bits");
    if *one.data_type() != NUMERIC {
        return ScalarValue::try_from_array(one, 0).map_err(|error| error.to_string());
    }
    let bytes = one.as_binary::<i64>();
    if bytes.is_null(0) {
        return Ok(ScalarValue::Decimal128(None, 38, 0));
    }
    let Numeric::Finite(value) = Numeric::from_bytes(bytes.value(0)) else {
        return Err(refused());
    };
    let after = i8::try_from(value.scale).ok().filter(|after| *after <= SCALE_MAX);
    let (unscaled, after) = value.unscaled.to_i128().zip(after).ok_or_else(refused)?;
    Ok(ScalarValue::Decimal128(Some(unscaled), 38, after))
}
