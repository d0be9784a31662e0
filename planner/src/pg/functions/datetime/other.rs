//! `age`, `justify_*`, `date_bin`, `isfinite`, and the zones' names.

use super::function::{
    Call, INTERVAL, STAMP, STAMPTZ, arrow, exact, fail, function, intervals, is_text, point, spans, stamps_like, zip,
    zoned,
};
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Date32Type, IntervalMonthDayNanoType, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;
use tenon_storage::StorageError;
use tenon_storage::datetime::arithmetic::{age, bin, justify_days, justify_hours, justify_interval};
use tenon_storage::datetime::{DAY_US, is_infinite, is_infinite_date, out_of_range};

pub(super) fn functions() -> Vec<ScalarUDF> {
    let interval = |types: &[DataType]| match types {
        [of] if is_text(of) || matches!(of, DataType::Interval(_)) => Some(vec![INTERVAL]),
        _ => None,
    };
    vec![
        function(
            "age",
            |types| match types {
                [of] => Some(vec![super::function::instant(of)?]),
                [a, b] => {
                    let (a, b) = (points(a)?, points(b)?);
                    let common = match a == STAMP && b == STAMP {
                        true => STAMP,
                        false => STAMPTZ.clone(),
                    };
                    Some(vec![common.clone(), common])
                }
                _ => None,
            },
            |_| INTERVAL,
            ages,
        ),
        function(
            "justify_days",
            interval,
            |_| INTERVAL,
            |call| spans(&call.args[0], justify_days),
        ),
        function(
            "justify_hours",
            interval,
            |_| INTERVAL,
            |call| spans(&call.args[0], justify_hours),
        ),
        function(
            "justify_interval",
            interval,
            |_| INTERVAL,
            |call| spans(&call.args[0], justify_interval),
        ),
        function(
            "isfinite",
            |types| match types {
                [of] => Some(vec![exact(of).or_else(|| point(of))?]),
                _ => None,
            },
            |_| DataType::Boolean,
            |call| {
                let values = &call.args[0];
                Ok(Arc::new(match values.data_type() {
                    DataType::Date32 => {
                        BooleanArray::from_unary(values.as_primitive::<Date32Type>(), |days| !is_infinite_date(days))
                    }
                    DataType::Timestamp(..) => {
                        let stamps = values.as_primitive::<TimestampMicrosecondType>();
                        BooleanArray::from_unary(stamps, |us| !is_infinite(us))
                    }
                    _ => BooleanArray::new(
                        datafusion::arrow::buffer::BooleanBuffer::new_set(values.len()),
                        values.nulls().cloned(),
                    ),
                }))
            },
        ),
        function(
            "date_bin",
            |types| match types {
                [stride, of, origin] if is_text(stride) || matches!(stride, DataType::Interval(_)) => {
                    let common = match (point(of)?, point(origin)?) {
                        (a, _) if !is_text(of) => a,
                        (_, b) => b,
                    };
                    Some(vec![INTERVAL, common.clone(), common])
                }
                _ => None,
            },
            |types| types[1].clone(),
            |call| {
                let strides = call.args[0].as_primitive::<IntervalMonthDayNanoType>().iter();
                let points = call.args[1].as_primitive::<TimestampMicrosecondType>().iter();
                let origins = call.args[2].as_primitive::<TimestampMicrosecondType>().iter();
                let found = strides.zip(points.zip(origins)).map(|row| match row {
                    (Some(stride), (Some(us), Some(origin))) => bin(stride.into(), us, origin).map(Some),
                    _ => Ok(None),
                });
                let found: TimestampMicrosecondArray =
                    found.collect::<std::result::Result<_, StorageError>>().map_err(fail)?;
                Ok(stamps_like(found, &call.args[1]))
            },
        ),
    ]
}

/// Dates count as timestamps; texts are timestamptz.
fn points(of: &DataType) -> Option<DataType> {
    point(of)
}

/// Points in time as their clocks show them.
fn local(values: &ArrayRef, call: &Call) -> Result<ArrayRef> {
    if !zoned(values) {
        return Ok(values.clone());
    }
    let clocks = values
        .as_primitive::<TimestampMicrosecondType>()
        .try_unary::<_, TimestampMicrosecondType, StorageError>(|us| {
            call.conventions
                .zone
                .to_local(us)
                .ok_or_else(|| out_of_range("timestamp"))
        });
    Ok(Arc::new(clocks.map_err(fail)?))
}

fn ages(call: &Call) -> Result<ArrayRef> {
    type Stamp = TimestampMicrosecondType;
    let first = local(&call.args[0], call)?;
    let (a, b) = match call.args.get(1) {
        Some(second) => (first, local(second, call)?),
        // From the midnight that began today.
        None => {
            let now = call.conventions.now_us();
            let today = call.conventions.zone.to_local(now).unwrap_or(now).div_euclid(DAY_US) * DAY_US;
            let todays: ArrayRef = Arc::new(TimestampMicrosecondArray::from_value(today, call.rows));
            (todays, first)
        }
    };
    Ok(intervals(zip::<Stamp, Stamp, IntervalMonthDayNanoType>(
        &a,
        &b,
        |a, b| arrow(age(a, b)?),
    )?))
}
