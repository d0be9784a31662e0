//! Functions of double precision with PostgreSQL's errors.

use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::numeric::column::{convert, is_number};

pub(super) fn fail(code: SqlState, message: &str) -> DataFusionError {
    to_datafusion(SqlError::new(code, message))
}

pub(super) fn overflow() -> DataFusionError {
    fail(state::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

pub(super) fn underflow() -> DataFusionError {
    fail(state::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

pub(super) fn out_of_range() -> DataFusionError {
    fail(state::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

/// Numbers of any type as floats.
pub(super) fn floats(values: &ArrayRef) -> Result<ArrayRef> {
    if *values.data_type() != DataType::Float64 && !values.data_type().is_floating() && is_number(values.data_type()) {
        return convert(values, SqlType::Float8).map_err(|error| to_datafusion(error.into()));
    }
    Ok(cast(values, &DataType::Float64)?)
}

pub(super) fn map1(args: &[ArrayRef], of: impl Fn(f64) -> Result<f64>) -> Result<ArrayRef> {
    let values = floats(&args[0])?;
    let values = values.as_primitive::<Float64Type>().iter();
    let results = values.map(|value| value.map(&of).transpose());
    Ok(Arc::new(results.collect::<Result<Float64Array>>()?))
}

pub(super) fn map2(args: &[ArrayRef], of: impl Fn(f64, f64) -> Result<f64>) -> Result<ArrayRef> {
    let (left, right) = (floats(&args[0])?, floats(&args[1])?);
    let rows = left
        .as_primitive::<Float64Type>()
        .iter()
        .zip(right.as_primitive::<Float64Type>());
    let results = rows.map(|row| match row {
        (Some(left), Some(right)) => of(left, right).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(results.collect::<Result<Float64Array>>()?))
}

/// A result that is an infinity, or zero, only where it may be.
pub(super) fn checked(result: f64, may_be_infinite: bool, may_be_zero: bool) -> Result<f64> {
    if result.is_infinite() && !may_be_infinite {
        return Err(overflow());
    }
    if result == 0.0 && !may_be_zero {
        return Err(underflow());
    }
    Ok(result)
}

pub(super) fn sqrt(value: f64) -> Result<f64> {
    if value < 0.0 {
        return Err(fail(SqlState("2201F"), "cannot take square root of a negative number"));
    }
    Ok(value.sqrt())
}

pub(super) fn exp(value: f64) -> Result<f64> {
    checked(value.exp(), value.is_infinite(), value == f64::NEG_INFINITY)
}

fn logarithm(value: f64, of: fn(f64) -> f64) -> Result<f64> {
    const LOGARITHM: SqlState = SqlState("2201E");
    if value == 0.0 {
        return Err(fail(LOGARITHM, "cannot take logarithm of zero"));
    }
    if value < 0.0 {
        return Err(fail(LOGARITHM, "cannot take logarithm of a negative number"));
    }
    checked(of(value), value.is_infinite(), value == 1.0)
}

pub(super) fn ln(value: f64) -> Result<f64> {
    logarithm(value, f64::ln)
}

pub(super) fn log10(value: f64) -> Result<f64> {
    logarithm(value, f64::log10)
}

pub(super) fn sign(value: f64) -> Result<f64> {
    Ok(match value {
        v if v > 0.0 => 1.0,
        v if v < 0.0 => -1.0,
        _ => 0.0,
    })
}

pub(super) fn power(base: f64, exponent: f64) -> Result<f64> {
    const POWER: SqlState = SqlState("2201F");
    if base.is_nan() {
        return Ok(if exponent == 0.0 { 1.0 } else { base });
    }
    if exponent.is_nan() {
        return Ok(if base == 1.0 { 1.0 } else { exponent });
    }
    if base == 0.0 && exponent < 0.0 {
        return Err(fail(POWER, "zero raised to a negative power is undefined"));
    }
    if base < 0.0 && exponent.floor() != exponent {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(fail(POWER, message));
    }
    let result = base.powf(exponent);
    let infinite = base.is_infinite() || exponent.is_infinite();
    checked(result, infinite, infinite || base == 0.0)
}
