//! Small functions of PostgreSQL's that DataFusion lacks.

use super::session::now_us;
use super::simple::{TypeOf, function};
use datafusion::arrow::array::{Array, ArrayRef, FixedSizeBinaryArray, Int32Array, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
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

pub(super) fn functions() -> Vec<ScalarUDF> {
    let immutable = Volatility::Immutable;
    vec![
        TypeOf::udf(Default::default()),
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
            "clock_timestamp",
            Signature::nullary(Volatility::Volatile),
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            |_, rows| {
                let times = TimestampMicrosecondArray::from_iter_values((0..rows).map(|_| now_us()));
                Ok(Arc::new(times.with_timezone("UTC")))
            },
        ),
    ]
}
