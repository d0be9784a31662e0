//! Operators on dates, times and intervals.

use super::function::{
    Call, INTERVAL, STAMP, STAMPTZ, TIME, TIMETZ, arrow, dates, exact, fail, function, intervals, is_text, stamps,
    stamps_like, stampstz, times, timestz, zip, zoned,
};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::numeric::operators::as_float;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, Operator, ScalarUDF, cast};
use std::sync::{Arc, LazyLock};
use tenon_storage::datetime::arithmetic::{self, date_plus, date_to_stamp};
use tenon_storage::datetime::{DAY_US, Span, is_infinite_date, out_of_range, timetz_bytes, timetz_of};
use tenon_storage::types::NUMERIC;
use tenon_storage::{ErrorKind, StorageError};

/// Names by which plans show the sums of a point in time and an interval.
pub(crate) const PLUS: &str = "timestamp_plus_interval";
pub(crate) const MINUS: &str = "timestamp_minus_interval";

/// Arguments are of the right types when an operator is planned.
fn operator(
    name: &'static str,
    returns: fn(&[DataType]) -> DataType,
    body: fn(&Call) -> Result<ArrayRef>,
) -> Arc<ScalarUDF> {
    Arc::new(function(name, |types| Some(types.to_vec()), returns, body))
}

macro_rules! operators {
    ($($static:ident, $name:expr, $returns:expr, $body:expr;)*) => {
        $(static $static: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| operator($name, $returns, $body));)*
    };
}

operators! {
    TIMESTAMP_PLUS, PLUS, |types| types[0].clone(), |call| shifted(call, false);
    TIMESTAMP_MINUS, MINUS, |types| types[0].clone(), |call| shifted(call, true);
    TIMESTAMP_DIFFERENCE, "timestamp_difference", |_| INTERVAL, |call| {
        type Stamp = TimestampMicrosecondType;
        Ok(intervals(zip::<Stamp, Stamp, IntervalMonthDayNanoType>(&call.args[0], &call.args[1], |a, b| {
            arrow(arithmetic::difference(a, b)?)
        })?))
    };
    DATE_PLUS, "date_plus", |_| DataType::Date32, |call| {
        Ok(dates(zip::<Date32Type, Int64Type, Date32Type>(&call.args[0], &call.args[1], date_plus)?))
    };
    DATE_MINUS, "date_minus", |_| DataType::Date32, |call| {
        Ok(dates(zip::<Date32Type, Int64Type, Date32Type>(&call.args[0], &call.args[1], |days, count| {
            date_plus(days, -count)
        })?))
    };
    DATE_DIFFERENCE, "date_difference", |_| DataType::Int32, |call| {
        let out: Int32Array = zip::<Date32Type, Date32Type, Int32Type>(&call.args[0], &call.args[1], |a, b| {
            if is_infinite_date(a) || is_infinite_date(b) {
                let message = "cannot subtract infinite dates";
                return Err(StorageError::new(ErrorKind::DatetimeOverflow, message));
            }
            Ok(a.wrapping_sub(b))
        })?;
        Ok(Arc::new(out))
    };
    DATE_AND_TIME, "date_and_time", |types| match types[1] {
        TIME => STAMP,
        _ => STAMPTZ.clone(),
    }, date_and_time;
    TIME_PLUS, "time_plus_interval", |types| types[0].clone(), |call| shifted_time(call, false);
    TIME_MINUS, "time_minus_interval", |types| types[0].clone(), |call| shifted_time(call, true);
    TIME_DIFFERENCE, "time_difference", |_| INTERVAL, |call| {
        type Time = Time64MicrosecondType;
        Ok(intervals(zip::<Time, Time, IntervalMonthDayNanoType>(&call.args[0], &call.args[1], |a, b| {
            arrow(Span::of_us(a - b))
        })?))
    };
    INTERVAL_PLUS, "interval_plus", |_| INTERVAL, |call| of_intervals(call, Span::plus);
    INTERVAL_MINUS, "interval_minus", |_| INTERVAL, |call| of_intervals(call, |a, b| a.plus(b.negated()?));
    INTERVAL_MULTIPLY, "interval_multiply", |_| INTERVAL, |call| {
        Ok(intervals(zip::<IntervalMonthDayNanoType, Float64Type, IntervalMonthDayNanoType>(
            &call.args[0],
            &call.args[1],
            |span, factor| arrow(arithmetic::multiply(span.into(), factor)?),
        )?))
    };
    INTERVAL_DIVIDE, "interval_divide", |_| INTERVAL, |call| {
        let divisors = call.args[1].as_primitive::<Float64Type>();
        if divisors.iter().flatten().any(|divisor| divisor == 0.0) {
            return Err(to_datafusion(SqlError::new(state::DIVISION_BY_ZERO, "division by zero")));
        }
        Ok(intervals(zip::<IntervalMonthDayNanoType, Float64Type, IntervalMonthDayNanoType>(
            &call.args[0],
            &call.args[1],
            |span, divisor| arrow(arithmetic::divide(span.into(), divisor)?),
        )?))
    };
}

fn shifted(call: &Call, back: bool) -> Result<ArrayRef> {
    let (points, zone) = (&call.args[0], &call.conventions.zone);
    let by_zone = zoned(points) && zone.fixed().is_none();
    let moved = zip::<TimestampMicrosecondType, IntervalMonthDayNanoType, TimestampMicrosecondType>(
        points,
        &call.args[1],
        |us, span| {
            let span = Span::from(span);
            let span = match back {
                true => span.negated().ok_or_else(|| out_of_range("interval"))?,
                false => span,
            };
            match by_zone {
                true => arithmetic::timestamptz_plus(us, span, zone),
                false => arithmetic::timestamp_plus(us, span),
            }
        },
    )?;
    Ok(stamps_like(moved, points))
}

fn shifted_time(call: &Call, back: bool) -> Result<ArrayRef> {
    let by = |value: datafusion::arrow::datatypes::IntervalMonthDayNano| {
        let us = Span::from(value).us % DAY_US;
        if back { -us } else { us }
    };
    if call.args[0].data_type() == &TIMETZ {
        let spans = call.args[1].as_primitive::<IntervalMonthDayNanoType>();
        let pairs = call.args[0].as_fixed_size_binary().iter().zip(spans);
        return timestz(pairs.map(|(bytes, span)| {
            let (us, east_s) = timetz_of(bytes?);
            Some(timetz_bytes((us + by(span?)).rem_euclid(DAY_US), east_s))
        }));
    }
    Ok(times(zip::<
        Time64MicrosecondType,
        IntervalMonthDayNanoType,
        Time64MicrosecondType,
    >(&call.args[0], &call.args[1], |us, span| {
        Ok((us + by(span)).rem_euclid(DAY_US))
    })?))
}

fn date_and_time(call: &Call) -> Result<ArrayRef> {
    let past = || out_of_range("timestamp");
    if call.args[1].data_type() == &TIME {
        return Ok(stamps(zip::<
            Date32Type,
            Time64MicrosecondType,
            TimestampMicrosecondType,
        >(
            &call.args[0],
            &call.args[1],
            |days, us| match date_to_stamp(days)? {
                infinite if is_infinite_date(days) => Ok(infinite),
                midnight => midnight.checked_add(us).ok_or_else(past),
            },
        )?));
    }
    let days = call.args[0].as_primitive::<Date32Type>().iter();
    let pairs = days.zip(call.args[1].as_fixed_size_binary().iter());
    let found = pairs.map(|pair| {
        let (Some(days), Some(bytes)) = pair else {
            return Ok(None);
        };
        let (us, east_s) = timetz_of(bytes);
        let midnight = date_to_stamp(days)?;
        if is_infinite_date(days) {
            return Ok(Some(midnight));
        }
        let shift = us - i64::from(east_s) * 1_000_000;
        midnight.checked_add(shift).ok_or_else(past).map(Some)
    });
    let found = found.collect::<std::result::Result<_, StorageError>>().map_err(fail)?;
    Ok(stampstz(found))
}

fn of_intervals(call: &Call, of: impl Fn(Span, Span) -> Option<Span>) -> Result<ArrayRef> {
    type Interval = IntervalMonthDayNanoType;
    Ok(intervals(zip::<Interval, Interval, Interval>(
        &call.args[0],
        &call.args[1],
        |a, b| arrow(of(a.into(), b.into()).ok_or_else(|| out_of_range("interval"))?),
    )?))
}

fn is_string_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.try_as_str().is_some() || *value == ScalarValue::Null)
}

/// What an operator on these types means; the operands come back where it is none of these.
#[allow(clippy::result_large_err, reason = "the operands come back")]
pub(crate) fn plan(
    left: Expr,
    op: Operator,
    right: Expr,
    types: (&DataType, &DataType),
) -> std::result::Result<Expr, (Expr, Expr)> {
    use Operator::{Divide, Minus, Multiply, Plus};
    let (a, b) = (exact(types.0), exact(types.1));
    if a.is_none() && b.is_none() {
        return Err((left, right));
    }
    let literal = (is_string_literal(&left), is_string_literal(&right));
    // A literal beside a value is what the operator takes there.
    let beside = |other: &DataType| match (op, other.clone()) {
        (Plus, DataType::Timestamp(..) | TIME | TIMETZ) => Some(INTERVAL),
        (Plus | Minus, other) => Some(other),
        _ => None,
    };
    let (a, b) = match (a, b) {
        (Some(a), None) if literal.1 && is_text(types.1) => (Some(a.clone()), beside(&a)),
        (None, Some(b)) if literal.0 && is_text(types.0) => (beside(&b), Some(b)),
        found => found,
    };
    let whole = |expr| cast(expr, DataType::Int64);
    let real = |expr, of: &DataType| match *of == NUMERIC {
        true => as_float(expr),
        false => cast(expr, DataType::Float64),
    };
    let is_number = |of: &DataType| of.is_numeric() || *of == NUMERIC;
    let (of_a, of_b) = (types.0, types.1);
    Ok(match (op, a, b) {
        (Plus, Some(DataType::Date32), None) if of_b.is_integer() => DATE_PLUS.call(vec![left, whole(right)]),
        (Plus, None, Some(DataType::Date32)) if of_a.is_integer() => DATE_PLUS.call(vec![right, whole(left)]),
        (Minus, Some(DataType::Date32), None) if of_b.is_integer() => DATE_MINUS.call(vec![left, whole(right)]),
        (Minus, Some(DataType::Date32), Some(DataType::Date32)) => {
            DATE_DIFFERENCE.call(vec![cast(left, DataType::Date32), cast(right, DataType::Date32)])
        }
        (Plus, Some(DataType::Date32), Some(time @ (TIME | TIMETZ))) => {
            DATE_AND_TIME.call(vec![left, cast(right, time)])
        }
        (Plus, Some(time @ (TIME | TIMETZ)), Some(DataType::Date32)) => {
            DATE_AND_TIME.call(vec![right, cast(left, time)])
        }
        (Plus, Some(point @ (DataType::Date32 | DataType::Timestamp(..))), Some(INTERVAL | TIME)) => {
            TIMESTAMP_PLUS.call(vec![cast(left, stamp(point)), cast(right, INTERVAL)])
        }
        (Plus, Some(INTERVAL | TIME), Some(point @ (DataType::Date32 | DataType::Timestamp(..)))) => {
            TIMESTAMP_PLUS.call(vec![cast(right, stamp(point)), cast(left, INTERVAL)])
        }
        (Minus, Some(point @ (DataType::Date32 | DataType::Timestamp(..))), Some(INTERVAL | TIME)) => {
            TIMESTAMP_MINUS.call(vec![cast(left, stamp(point)), cast(right, INTERVAL)])
        }
        (
            Minus,
            Some(x @ (DataType::Date32 | DataType::Timestamp(..))),
            Some(y @ (DataType::Date32 | DataType::Timestamp(..))),
        ) => {
            let common = if x == *STAMPTZ || y == *STAMPTZ {
                STAMPTZ.clone()
            } else {
                STAMP
            };
            TIMESTAMP_DIFFERENCE.call(vec![cast(left, common.clone()), cast(right, common)])
        }
        (Plus, Some(time @ (TIME | TIMETZ)), Some(INTERVAL)) => {
            TIME_PLUS.call(vec![cast(left, time), cast(right, INTERVAL)])
        }
        (Plus, Some(INTERVAL), Some(time @ (TIME | TIMETZ))) => {
            TIME_PLUS.call(vec![cast(right, time), cast(left, INTERVAL)])
        }
        (Minus, Some(time @ (TIME | TIMETZ)), Some(INTERVAL)) => {
            TIME_MINUS.call(vec![cast(left, time), cast(right, INTERVAL)])
        }
        (Minus, Some(TIME), Some(TIME)) => TIME_DIFFERENCE.call(vec![cast(left, TIME), cast(right, TIME)]),
        (Plus, Some(INTERVAL), Some(INTERVAL)) => INTERVAL_PLUS.call(vec![cast(left, INTERVAL), cast(right, INTERVAL)]),
        (Minus, Some(INTERVAL), Some(INTERVAL)) => {
            INTERVAL_MINUS.call(vec![cast(left, INTERVAL), cast(right, INTERVAL)])
        }
        (Multiply, Some(INTERVAL), None) if is_number(of_b) || literal.1 => {
            INTERVAL_MULTIPLY.call(vec![left, real(right, of_b)])
        }
        (Multiply, None, Some(INTERVAL)) if is_number(of_a) || literal.0 => {
            INTERVAL_MULTIPLY.call(vec![right, real(left, of_a)])
        }
        (Divide, Some(INTERVAL), None) if is_number(of_b) || literal.1 => {
            INTERVAL_DIVIDE.call(vec![left, real(right, of_b)])
        }
        _ => return Err((left, right)),
    })
}

/// The timestamp that a date is beside an interval.
fn stamp(point: DataType) -> DataType {
    if point == DataType::Date32 { STAMP } else { point }
}
