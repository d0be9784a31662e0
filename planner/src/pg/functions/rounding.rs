//! `round`, `trunc`, `ceil` and `floor`: numerics get the scale that they are rounded to, floats round half to even. `trunc` of an
//! interface's address is its manufacturer's part.

use crate::pg::numeric::{digits, failed};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Builder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::network::{MACADDR, MACADDR8};
use tenon_storage::numeric::NumericError;
use tenon_storage::numeric::column::{Values, collect};
use tenon_storage::types::NUMERIC;

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
            [own @ (DataType::Decimal128(..) | DataType::LargeBinary)] => Ok(vec![own.clone()]),
            [own] if matches!(self.kind, Kind::Trunc) && [MACADDR, MACADDR8].contains(own) => Ok(vec![own.clone()]),
            [own] if own.is_numeric() || own.is_null() => Ok(vec![DataType::Float64]),
            [own, count] if places && (count.is_integer() || count.is_null()) => {
                let own = match (own, digits(own)) {
                    (DataType::Decimal128(..) | DataType::LargeBinary, _) => own.clone(),
                    (_, Some((precision, scale))) => DataType::Decimal128(precision, scale),
                    (DataType::Null, _) => DataType::Decimal128(38, 0),
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
            DataType::FixedSizeBinary(_) => super::network::of_manufacturers(&values)?,
            DataType::Float64 => self.floats(&values),
            _ => self.numerics(&values, places.as_ref(), args.return_type())?,
        };
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// A numeric's type after rounding to `places` digits after the point; None: not known before the query runs, when each
/// value has its own.
fn result_type(own: &DataType, places: Option<i64>) -> DataType {
    let (DataType::Decimal128(precision, scale), Some(places)) = (own, places) else {
        return match own {
            DataType::Decimal128(..) => NUMERIC,
            other => other.clone(),
        };
    };
    // One digit more, for what rounds up.
    let whole = i64::from(*precision) - i64::from(*scale) + 1;
    let after = places.max(0);
    match whole + after <= 38 {
        true => DataType::Decimal128((whole + after).max(1) as u8, after as i8),
        false => NUMERIC,
    }
}

impl Rounding {
    fn floats(&self, values: &ArrayRef) -> ArrayRef {
        let values = values.as_primitive::<Float64Type>();
        Arc::new(values.unary::<_, Float64Type>(|value| match self.kind {
            Kind::Round => value.round_ties_even(),
            Kind::Trunc => value.trunc(),
            Kind::Ceil => value.ceil(),
            Kind::Floor => value.floor(),
        }))
    }

    fn numerics(&self, values: &ArrayRef, places: Option<&ArrayRef>, result: &DataType) -> Result<ArrayRef> {
        let places = places.map(|places| places.as_primitive::<Int64Type>());
        if let (DataType::Decimal128(_, scale), DataType::Decimal128(precision, after)) = (values.data_type(), result) {
            let own = values.as_primitive::<Decimal128Type>();
            let limit = 10_i128.pow((*precision).into());
            let mut out = Decimal128Builder::with_capacity(own.len()).with_data_type(result.clone());
            for (row, value) in own.iter().enumerate() {
                let to = match places {
                    Some(places) => places.is_valid(row).then(|| places.value(row)),
                    None => Some(0),
                };
                let (Some(value), Some(to)) = (value, to) else {
                    out.append_null();
                    continue;
                };
                let rounded = self
                    .to_places(value, *scale, to, *after)
                    .filter(|v| v.unsigned_abs() < limit as u128);
                out.append_value(rounded.ok_or_else(|| failed(NumericError::Overflow))?);
            }
            return Ok(Arc::new(out.finish()));
        }
        let Some(own) = Values::of(values) else {
            return plan_err!("{} is no number", values.data_type());
        };
        let rounded = own.iter().enumerate().map(|(row, value)| {
            let to = match places {
                Some(places) => places.is_valid(row).then(|| places.value(row)),
                None => Some(0),
            };
            let (Some(value), Some(to)) = (value, to) else {
                return Ok(None);
            };
            Ok(Some(match self.kind {
                Kind::Round => value.round(to).map_err(failed)?,
                Kind::Trunc => value.trunc(to),
                Kind::Ceil => value.ceil(),
                Kind::Floor => value.floor(),
            }))
        });
        Ok(collect(rounded.collect::<Result<Vec<_>>>()?.into_iter()))
    }

    /// A value with `scale` digits after the point rounded to `places` of them, with `after` of them kept.
    fn to_places(&self, value: i128, scale: i8, places: i64, after: i8) -> Option<i128> {
        let dropped = i64::from(scale) - places;
        let mut value = value;
        if dropped > 38 {
            let step = match self.kind {
                Kind::Ceil if value > 0 => return None,
                Kind::Floor if value < 0 => return None,
                _ => 0,
            };
            return Some(step);
        }
        if dropped > 0 {
            let unit = 10_i128.pow(dropped as u32);
            let (quotient, rest) = (value / unit, value % unit);
            let far = rest.unsigned_abs() >= unit.unsigned_abs() - rest.unsigned_abs();
            let step = match self.kind {
                Kind::Round if far => value.signum(),
                Kind::Ceil if rest > 0 => 1,
                Kind::Floor if rest < 0 => -1,
                _ => 0,
            };
            value = (quotient + step).checked_mul(unit)?;
        }
        match i32::from(after) - i32::from(scale) {
            up @ 0.. => value.checked_mul(10_i128.checked_pow(up as u32)?),
            down => Some(value / 10_i128.pow(down.unsigned_abs())),
        }
    }
}
