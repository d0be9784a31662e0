//! `width_bucket`: the histogram's bucket of a value, from 1; 0 and one more than their count are outside.

use super::float::{fail, floats};
use super::simple::function;
use crate::pg::error::{SqlState, state};
use crate::pg::errors::to_datafusion;
use crate::pg::numeric::Class;
use crate::pg::numeric::failed;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int32Type};
use datafusion::common::{Result, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ScalarUDF, Signature, TypeSignature, Volatility};
use std::cmp::Ordering;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::numeric::Numeric;
use tenon_storage::numeric::column::Values;
use tenon_storage::parse::parse_column;

pub(super) fn udf() -> ScalarUDF {
    let either = Signature::one_of(
        vec![TypeSignature::Any(2), TypeSignature::Any(4)],
        Volatility::Immutable,
    );
    function("width_bucket", either, DataType::Int32, |args, rows| {
        if args.len() == 2 {
            return by_thresholds(args, rows);
        }
        // Literals of unknown type.
        let args: Vec<ArrayRef> = args.iter().map(numbers).collect::<Result<_>>()?;
        let args = args.as_slice();
        let exact = |array: &ArrayRef| matches!(Class::of(array.data_type()), Class::Decimal | Class::Numeric);
        let float = args[..3].iter().any(|array| array.data_type().is_floating());
        match args[..3].iter().any(exact) && !float {
            true => of_numerics(args, rows),
            false => of_floats(args, rows),
        }
    })
}

fn numbers(array: &ArrayRef) -> Result<ArrayRef> {
    if Class::of(array.data_type()) != Class::Text {
        return Ok(array.clone());
    }
    let texts = cast(array, &DataType::Utf8View)?;
    parse_column(SqlType::Numeric, texts.as_string_view().iter()).map_err(|(_, error)| to_datafusion(error.into()))
}

fn bad(message: &str) -> DataFusionError {
    fail(SqlState("2201G"), message)
}

fn too_many() -> DataFusionError {
    fail(state::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range")
}

/// One more than the number of buckets.
fn behind(count: i32) -> Result<i32> {
    count.checked_add(1).ok_or_else(too_many)
}

fn of_floats(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (values, lows, highs) = (floats(&args[0])?, floats(&args[1])?, floats(&args[2])?);
    let [values, lows, highs] = [&values, &lows, &highs].map(|array| array.as_primitive::<Float64Type>());
    let counts = cast(&args[3], &DataType::Int32)?;
    let counts = counts.as_primitive::<Int32Type>();
    let bucket = |row: usize| -> Result<Option<i32>> {
        if args.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let (value, low, high, count) = (values.value(row), lows.value(row), highs.value(row), counts.value(row));
        if count <= 0 {
            return Err(bad("count must be greater than zero"));
        }
        if value.is_nan() || low.is_nan() || high.is_nan() {
            return Err(bad("operand, lower bound, and upper bound cannot be NaN"));
        }
        if low.is_infinite() || high.is_infinite() {
            return Err(bad("lower and upper bounds must be finite"));
        }
        let (from, to) = match low.partial_cmp(&high) {
            Some(Ordering::Less) => (low, high),
            Some(Ordering::Greater) => (-low, -high),
            _ => return Err(bad("lower bound cannot equal upper bound")),
        };
        let value = if low < high { value } else { -value };
        if value < from {
            return Ok(Some(0));
        }
        if value >= to {
            return behind(count).map(Some);
        }
        // Halved where the difference of the bounds would be infinite.
        let share = match (to - from).is_infinite() {
            true => (value / 2.0 - from / 2.0) / (to / 2.0 - from / 2.0),
            false => (value - from) / (to - from),
        };
        let found = (share * f64::from(count)) as i32;
        Ok(Some(found.min(count - 1) + 1))
    };
    Ok(Arc::new((0..rows).map(bucket).collect::<Result<Int32Array>>()?))
}

fn of_numerics(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let [Some(values), Some(lows), Some(highs)] = [0, 1, 2].map(|at| Values::of(&args[at])) else {
        return plan_err!("width_bucket takes numbers");
    };
    let counts = cast(&args[3], &DataType::Int32)?;
    let counts = counts.as_primitive::<Int32Type>();
    let bucket = |row: usize| -> Result<Option<i32>> {
        let (Some(value), Some(low), Some(high)) = (values.get(row), lows.get(row), highs.get(row)) else {
            return Ok(None);
        };
        if counts.is_null(row) {
            return Ok(None);
        }
        let count = counts.value(row);
        if count <= 0 {
            return Err(bad("count must be greater than zero"));
        }
        if value.is_nan() || low.is_nan() || high.is_nan() {
            return Err(bad("operand, lower bound, and upper bound cannot be NaN"));
        }
        if low.scale().is_none() || high.scale().is_none() {
            return Err(bad("lower and upper bounds must be finite"));
        }
        let (value, low, high) = match low.cmp(&high) {
            Ordering::Less => (value, low, high),
            Ordering::Greater => (value.neg(), low.neg(), high.neg()),
            Ordering::Equal => return Err(bad("lower bound cannot equal upper bound")),
        };
        if value.cmp(&low).is_lt() {
            return Ok(Some(0));
        }
        if value.cmp(&high).is_ge() {
            return behind(count).map(Some);
        }
        let found = || {
            let over = value.sub(&low)?.mul(&Numeric::from(i64::from(count)))?;
            over.div_trunc(&high.sub(&low)?)?.to_i64()
        };
        let found = found().map_err(failed)?.unwrap_or(0);
        Ok(Some(found as i32 + 1))
    };
    Ok(Arc::new((0..rows).map(bucket).collect::<Result<Int32Array>>()?))
}

/// How many of the sorted thresholds are not above the value.
fn by_thresholds(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let thresholds = match args[1].data_type() {
        DataType::List(_) => args[1].as_list::<i32>(),
        other => return plan_err!("width_bucket does not take thresholds of {other}"),
    };
    let float = args[0].data_type().is_floating() || thresholds.values().data_type().is_floating();
    let bucket = |row: usize| -> Result<Option<i32>> {
        if args[0].is_null(row) || thresholds.is_null(row) {
            return Ok(None);
        }
        let (value, bounds) = (args[0].slice(row, 1), thresholds.value(row));
        if bounds.null_count() > 0 {
            return Err(fail(SqlState("22004"), "thresholds array must not contain NULLs"));
        }
        if float {
            let (value, bounds) = (floats(&value)?, floats(&bounds)?);
            let value = value.as_primitive::<Float64Type>().value(0);
            let bounds = bounds.as_primitive::<Float64Type>().values();
            let above = |bound: &f64| tenon_storage::statistics::bound::compare_floats(*bound, value).is_gt();
            return Ok(Some(bounds.partition_point(|bound| !above(bound)) as i32));
        }
        let (Some(value), Some(bounds)) = (Values::of(&value), Values::of(&bounds)) else {
            return plan_err!("width_bucket takes numbers");
        };
        let Some(value) = value.get(0) else { return Ok(None) };
        let bounds: Vec<Numeric> = bounds.iter().flatten().collect();
        Ok(Some(bounds.partition_point(|bound| bound.cmp(&value).is_le()) as i32))
    };
    Ok(Arc::new((0..rows).map(bucket).collect::<Result<Int32Array>>()?))
}
