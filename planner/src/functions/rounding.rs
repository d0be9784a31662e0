//! `round`, `trunc`, `ceil` and `floor`: numerics get the scale that they are rounded to, floats round half to even.

use super::numeric::digits;
use crate::error::{SqlError, state};
use crate::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Builder, Decimal256Builder, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Float64Type, Int64Type, i256,
};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Round,
    Trunc,
    Ceil,
    Floor,
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    [Kind::Round, Kind::Trunc, Kind::Ceil, Kind::Floor]
        .map(|kind| {
            ScalarUDF::new_from_impl(Rounding {
                kind,
                signature: Signature::user_defined(Volatility::Immutable),
            })
        })
        .into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounding {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Rounding {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Round => "round",
            Kind::Trunc => "trunc",
            Kind::Ceil => "ceil",
            Kind::Floor => "floor",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let places = matches!(self.kind, Kind::Round | Kind::Trunc);
        match types {
            [own @ (DataType::Decimal128(..) | DataType::Decimal256(..))] => Ok(vec![own.clone()]),
            [own] if own.is_numeric() || own.is_null() => Ok(vec![DataType::Float64]),
            [own, count] if places && (count.is_integer() || count.is_null()) => {
                let own = match (own, digits(own)) {
                    (DataType::Decimal128(..) | DataType::Decimal256(..), _) => own.clone(),
                    (_, Some((precision, scale))) => DataType::Decimal128(precision, scale),
                    (DataType::Null, _) => DataType::Decimal128(38, 0),
                    // PostgreSQL rounds floats to whole numbers alone, but for this there is a clear meaning.
                    _ if own.is_floating() => DataType::Float64,
                    _ => {
                        return plan_err!(
                            "Failed to coerce arguments to satisfy a call to '{}' function",
                            self.name()
                        );
                    }
                };
                Ok(vec![own, DataType::Int64])
            }
            _ => plan_err!(
                "Failed to coerce arguments to satisfy a call to '{}' function",
                self.name()
            ),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(result_type(&types[0], if types.len() == 1 { Some(0) } else { None }))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let places = match args.scalar_arguments.get(1) {
            None => Some(0),
            Some(Some(ScalarValue::Int64(places))) => *places,
            Some(Some(ScalarValue::Int32(places))) => places.map(i64::from),
            Some(_) => None,
        };
        let result = result_type(args.arg_fields[0].data_type(), places);
        Ok(Arc::new(Field::new(self.name(), result, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let values = args.args[0].to_array(rows)?;
        let places = match args.args.get(1) {
            Some(places) => Some(cast(&places.to_array(rows)?, &DataType::Int64)?),
            None => None,
        };
        let result = match values.data_type() {
            DataType::Float64 => self.floats(&values, places.as_ref()),
            _ => self.numerics(&values, places.as_ref(), args.return_type())?,
        };
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// A numeric's type after rounding to `places` digits after the point; None: not known before the query runs.
fn result_type(own: &DataType, places: Option<i64>) -> DataType {
    let (DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale)) = own else {
        return own.clone();
    };
    let Some(places) = places else {
        return own.clone();
    };
    // One digit more, for what rounds up.
    let whole = i64::from(*precision) - i64::from(*scale) + 1;
    match own {
        DataType::Decimal128(..) => {
            let after = places.clamp(0, 38.max(i64::from(*scale)));
            DataType::Decimal128((whole + after).clamp(1, 38) as u8, after.min(38) as i8)
        }
        _ => {
            let after = places.clamp(0, 70);
            DataType::Decimal256((whole + after).clamp(1, 74) as u8, after as i8)
        }
    }
}

impl Rounding {
    fn floats(&self, values: &ArrayRef, places: Option<&ArrayRef>) -> ArrayRef {
        let values = values.as_primitive::<Float64Type>();
        let whole = |value: f64| match self.kind {
            Kind::Round => value.round_ties_even(),
            Kind::Trunc => value.trunc(),
            Kind::Ceil => value.ceil(),
            Kind::Floor => value.floor(),
        };
        let Some(places) = places else {
            return Arc::new(values.unary::<_, Float64Type>(whole));
        };
        let places = places.as_primitive::<Int64Type>();
        let rounded = values.iter().zip(places).map(|(value, places)| {
            let unit = 10f64.powi(places?.clamp(-400, 400) as i32);
            Some(whole(value? * unit) / unit)
        });
        Arc::new(rounded.collect::<Float64Array>())
    }

    fn numerics(&self, values: &ArrayRef, places: Option<&ArrayRef>, result: &DataType) -> Result<ArrayRef> {
        let scale = digits(values.data_type()).map_or(0, |(_, scale)| scale);
        let (precision, after) = digits(result).unwrap_or((38, 0));
        let overflow = || {
            let message = "value overflows numeric format";
            to_datafusion(SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, message))
        };
        let places = places.map(|places| places.as_primitive::<Int64Type>());
        let limit = i256::from_i128(10)
            .checked_pow(u32::from(precision))
            .unwrap_or(i256::MAX);
        let value = |row: usize| -> Result<Option<i256>> {
            if values.is_null(row) || places.is_some_and(|places| places.is_null(row)) {
                return Ok(None);
            }
            let own = match values.data_type() {
                DataType::Decimal128(..) => i256::from_i128(values.as_primitive::<Decimal128Type>().value(row)),
                _ => values.as_primitive::<Decimal256Type>().value(row),
            };
            let to = places.map_or(0, |places| places.value(row));
            let rounded = self.to_places(own, scale, to, after).ok_or_else(overflow)?;
            if rounded.wrapping_abs() >= limit {
                return Err(overflow());
            }
            Ok(Some(rounded))
        };
        Ok(match result {
            DataType::Decimal128(..) => {
                let mut out = Decimal128Builder::with_capacity(values.len()).with_data_type(result.clone());
                for row in 0..values.len() {
                    out.append_option(value(row)?.and_then(i256::to_i128));
                }
                Arc::new(out.finish())
            }
            _ => {
                let mut out = Decimal256Builder::with_capacity(values.len()).with_data_type(result.clone());
                for row in 0..values.len() {
                    out.append_option(value(row)?);
                }
                Arc::new(out.finish())
            }
        })
    }

    /// A value with `scale` digits after the point rounded to `places` of them, with `after` of them kept.
    fn to_places(&self, value: i256, scale: i8, places: i64, after: i8) -> Option<i256> {
        let ten = i256::from_i128(10);
        let dropped = i64::from(scale) - places;
        let mut value = value;
        if dropped > 76 {
            return Some(i256::ZERO);
        }
        if dropped > 0 {
            let unit = ten.checked_pow(dropped as u32)?;
            let (quotient, rest) = (value.checked_div(unit)?, value.checked_rem(unit)?);
            let far = rest.wrapping_abs() >= unit.wrapping_sub(rest.wrapping_abs());
            let step = match self.kind {
                Kind::Round if far && value.is_negative() => i256::MINUS_ONE,
                Kind::Round if far => i256::ONE,
                Kind::Ceil if rest > i256::ZERO => i256::ONE,
                Kind::Floor if rest.is_negative() => i256::MINUS_ONE,
                _ => i256::ZERO,
            };
            value = quotient.checked_add(step)?.checked_mul(unit)?;
        }
        match i32::from(after) - i32::from(scale) {
            up @ 0.. => value.checked_mul(ten.checked_pow(up as u32)?),
            down => value.checked_div(ten.checked_pow(down.unsigned_abs())?),
        }
    }
}
