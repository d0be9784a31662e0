//! Numbers to integers: `numeric` rounds half away from zero, floats round half to even, both fail out of range.

use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;

pub(super) fn applies(from: &DataType, to: &DataType) -> bool {
    (from.is_floating() || matches!(from, DataType::Decimal128(_, scale) if *scale >= 0)) && to.is_signed_integer()
}

pub(super) fn call(expr: Expr, to: &DataType) -> Expr {
    let function = ToInteger {
        to: to.clone(),
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToInteger {
    to: DataType,
    signature: Signature,
}

fn out_of_range(to: &DataType) -> datafusion::error::DataFusionError {
    let name = SqlType::from_data_type(to).map_or("integer", |known| known.base_name());
    to_datafusion(SqlError::new(
        state::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("{name} out of range"),
    ))
}

impl ScalarUDFImpl for ToInteger {
    fn name(&self) -> &str {
        "to_integer"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("to_integer({}, {})", args[0].schema_name(), self.to))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { args.number_rows };
        let values = args.args[0].to_array(rows)?;
        let wide: ArrayRef = match values.data_type() {
            DataType::Decimal128(_, scale) => {
                let (unit, decimals) = (10i128.pow(*scale as u32), values.as_primitive::<Decimal128Type>());
                let rounded = decimals.iter().map(|value| {
                    let Some(value) = value else { return Ok(None) };
                    let rounded = (value + value.signum() * (unit / 2)) / unit;
                    i64::try_from(rounded).map(Some).map_err(|_| out_of_range(&self.to))
                });
                Arc::new(rounded.collect::<Result<Int64Array>>()?)
            }
            _ => {
                let floats = cast(&values, &DataType::Float64)?;
                let rounded = floats.as_primitive::<Float64Type>().iter().map(|value| {
                    let Some(value) = value else { return Ok(None) };
                    let rounded = value.round_ties_even();
                    // 2^63 itself is no int8.
                    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                        Ok(Some(rounded as i64))
                    } else {
                        Err(out_of_range(&self.to))
                    }
                });
                Arc::new(rounded.collect::<Result<Int64Array>>()?)
            }
        };
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let narrow = cast_with_options(&wide, &self.to, &strict).map_err(|_| out_of_range(&self.to))?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&narrow, 0)?));
        }
        debug_assert_eq!(narrow.len(), rows);
        Ok(ColumnarValue::Array(narrow))
    }
}
