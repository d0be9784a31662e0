//! `to_char` of numbers and `to_number`.

mod input;
mod output;
mod pattern;

use super::simple::function;
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use output::Number;
use pattern::Pattern;
use std::sync::Arc;
use tenon_storage::Latest;
use tenon_storage::numeric::Numeric;
use tenon_storage::numeric::column::{Values, collect, is_number};
use tenon_storage::types::NUMERIC;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let texts = Signature::exact(vec![DataType::Utf8View; 2], Volatility::Immutable);
    vec![function("to_number", texts, NUMERIC, |args, _| {
        let rows = args[0].as_string_view().iter().zip(args[1].as_string_view());
        let mut latest = Latest::default();
        let numbers = rows.map(|row| match row {
            (Some(text), Some(format)) => {
                let pattern = latest.of(format, Pattern::parse).map_err(to_datafusion)?;
                input::to_number(text, pattern).map(Some).map_err(to_datafusion)
            }
            _ => Ok(None),
        });
        let numbers: Vec<Option<Numeric>> = numbers.collect::<Result<_>>()?;
        Ok(collect(numbers.into_iter()))
    })]
}

/// `to_char` of numbers here, and of anything else by `inner`.
pub(super) fn with(inner: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::new_from_impl(ToChar { inner })
}

/// Whether these are a number and its pattern.
fn is_own(types: &[DataType]) -> bool {
    matches!(types, [number, _] if !number.is_null() && is_number(number))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToChar {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        "to_char"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match is_own(types) {
            true => Ok(DataType::Utf8View),
            false => self.inner.return_type(types),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match is_own(types) {
            true => Ok(vec![types[0].clone(), DataType::Utf8View]),
            false => self.inner.coerce_types(types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let own = args.args[0].data_type();
        if own.is_null() || !is_number(&own) || args.args.len() != 2 {
            return self.inner.invoke_with_args(args);
        }
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let texts = to_char(&args.args[0].to_array(rows)?, &args.args[1].to_array(rows)?)?;
        let texts = cast(&texts, args.return_type())?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?));
        }
        Ok(ColumnarValue::Array(texts))
    }
}

/// Numbers of any type by patterns.
fn to_char(numbers: &ArrayRef, formats: &ArrayRef) -> Result<ArrayRef> {
    let formats = cast(formats, &DataType::Utf8View)?;
    let formats = formats.as_string_view();
    let significant = if *numbers.data_type() == DataType::Float32 {
        6
    } else {
        15
    };
    let floats = match numbers.data_type().is_floating() {
        true => Some(cast(numbers, &DataType::Float64)?),
        false => None,
    };
    let Some(exact) = Values::of(numbers) else {
        return plan_err!("to_char does not take {}", numbers.data_type());
    };
    let mut latest = Latest::default();
    let texts = (0..numbers.len()).map(|row| {
        if numbers.is_null(row) || formats.is_null(row) {
            return Ok(None);
        }
        let number = match &floats {
            Some(floats) => Number::Float(floats.as_primitive::<Float64Type>().value(row), significant),
            None => match exact.get(row) {
                Some(value) => Number::Exact(value),
                None => return Ok(None),
            },
        };
        let pattern = latest.of(formats.value(row), Pattern::parse).map_err(to_datafusion)?;
        output::to_char(&number, pattern).map(Some).map_err(to_datafusion)
    });
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}
