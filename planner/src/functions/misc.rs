//! Small functions of PostgreSQL's that DataFusion lacks.

use super::simple::{TypeOf, function};
use crate::error::{SqlError, SqlState};
use crate::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, Int32Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int32Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::Arc;

/// How many of the arguments are NULL in each row.
fn nulls(args: &[ArrayRef], rows: usize) -> Vec<i32> {
    (0..rows)
        .map(|row| {
            args.iter()
                .filter(|array| array.logical_nulls().is_some_and(|nulls| nulls.is_null(row)))
                .count() as i32
        })
        .collect()
}

/// `width_bucket(value, low, high, count)`: the histogram's bucket, from 1; 0 and count + 1 are outside.
fn width_buckets(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let bad = |message: &str| to_datafusion(SqlError::new(SqlState("2201G"), message));
    let number = |at: usize| cast(&args[at], &DataType::Float64);
    let (value, low, high, counts) = (number(0)?, number(1)?, number(2)?, cast(&args[3], &DataType::Int32)?);
    let [value, low, high] = [&value, &low, &high].map(|array| array.as_primitive::<Float64Type>());
    let counts = counts.as_primitive::<Int32Type>();
    let bucket = |row: usize| -> Result<Option<i32>> {
        if args.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let (value, low, high, count) = (value.value(row), low.value(row), high.value(row), counts.value(row));
        if count <= 0 {
            return Err(bad("count must be greater than zero"));
        }
        if low == high {
            return Err(bad("lower bound cannot equal upper bound"));
        }
        let (from_low, whole) = if low < high {
            (value - low, high - low)
        } else {
            (low - value, low - high)
        };
        Ok(Some(if from_low < 0.0 {
            0
        } else if from_low >= whole {
            count.saturating_add(1)
        } else {
            (from_low * f64::from(count) / whole) as i32 + 1
        }))
    };
    Ok(Arc::new((0..rows).map(bucket).collect::<Result<Int32Array>>()?))
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let immutable = Volatility::Immutable;
    vec![
        TypeOf::udf(),
        function(
            "num_nulls",
            Signature::variadic_any(immutable),
            DataType::Int32,
            |args, rows| Ok(Arc::new(Int32Array::from(nulls(args, rows)))),
        ),
        function(
            "num_nonnulls",
            Signature::variadic_any(immutable),
            DataType::Int32,
            |args, rows| {
                let count = args.len() as i32;
                Ok(Arc::new(Int32Array::from_iter_values(
                    nulls(args, rows).into_iter().map(|nulls| count - nulls),
                )))
            },
        ),
        function(
            "gen_random_uuid",
            Signature::nullary(Volatility::Volatile),
            DataType::FixedSizeBinary(16),
            |_, rows| {
                let ids: Vec<[u8; 16]> = (0..rows).map(|_| *uuid::Uuid::new_v4().as_bytes()).collect();
                Ok(Arc::new(FixedSizeBinaryArray::try_from_iter(ids.into_iter())?))
            },
        ),
        function(
            "div",
            Signature::exact(vec![DataType::Int64, DataType::Int64], immutable),
            DataType::Int64,
            |args, _| Ok(datafusion::arrow::compute::kernels::numeric::div(&args[0], &args[1])?),
        ),
        function(
            "width_bucket",
            Signature::any(4, immutable),
            DataType::Int32,
            width_buckets,
        ),
        function(
            "mod",
            Signature::exact(vec![DataType::Int64, DataType::Int64], immutable),
            DataType::Int64,
            |args, _| Ok(datafusion::arrow::compute::kernels::numeric::rem(&args[0], &args[1])?),
        ),
    ]
}
