//! `timezone`: points in time as a zone's clocks show them, and back. AT TIME ZONE is written as its call.

use super::function::{Call, INTERVAL, STAMP, STAMPTZ, TIME, TIMETZ, exact, fail, function, instant, is_text};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ScalarUDF};
use std::sync::Arc;
use tenon_storage::StorageError;
use tenon_storage::datetime::{
    Conventions, DAY_US, FIRST_US, Span, Zone, arithmetic::date_to_stamp, out_of_range, timetz_bytes, timetz_of,
    unknown_zone, write_interval,
};

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![function("timezone", coerce, returns, timezone)]
}

/// The functions that `comparable` makes, by the type that they make of dates.
const AS_STAMP: &str = "date_as_timestamp";
const AS_STAMPTZ: &str = "date_as_timestamptz";

/// A date's first instant, on the clocks of a zone; the last instants for dates past them.
fn first_instant(days: i32, zone: Option<&Zone>) -> i64 {
    let local = date_to_stamp(days).unwrap_or(if days > 0 { i64::MAX - 1 } else { FIRST_US });
    zone.and_then(|zone| zone.to_utc(local)).unwrap_or(local)
}

/// A date as a timestamp, or as a timestamptz; the last instants for dates past them.
pub(super) fn comparable(zoned: bool) -> ScalarUDF {
    match zoned {
        false => function(
            AS_STAMP,
            |types| Some(types.to_vec()),
            |_| STAMP,
            |call| Ok(Arc::new(instants(call, None)?)),
        ),
        true => function(
            AS_STAMPTZ,
            |types| Some(types.to_vec()),
            |_| STAMPTZ.clone(),
            |call| Ok(super::function::stampstz(instants(call, Some(&call.conventions.zone))?)),
        ),
    }
}

fn instants(call: &Call, zone: Option<&Zone>) -> Result<TimestampMicrosecondArray> {
    super::function::map::<Date32Type, TimestampMicrosecondType>(&call.args[0], |days| {
        Ok::<_, StorageError>(first_instant(days, zone))
    })
}

/// The date that an expression makes a point in time of to compare it with others, and whether in the session's zone.
pub(crate) fn compared_date(expr: &Expr) -> Option<(&Expr, bool)> {
    match expr {
        Expr::ScalarFunction(call) if call.name() == AS_STAMP => Some((call.args.first()?, false)),
        Expr::ScalarFunction(call) if call.name() == AS_STAMPTZ => Some((call.args.first()?, true)),
        _ => None,
    }
}

/// The first date that does not begin before an instant, and when it begins. None far from where dates lie.
pub(crate) fn first_date_from(instant_us: i64, zone: Option<&Zone>) -> Option<(i32, i64)> {
    const NEAR_DAYS: i64 = 3;
    let near = i32::try_from(instant_us.div_euclid(DAY_US)).ok()?;
    let mut days = near - NEAR_DAYS as i32;
    date_to_stamp(days).ok()?;
    date_to_stamp(near + NEAR_DAYS as i32).ok()?;
    while first_instant(days, zone) < instant_us {
        days += 1;
    }
    Some((days, first_instant(days, zone)))
}

fn coerce(types: &[DataType]) -> Option<Vec<DataType>> {
    let [zone, of] = types else { return None };
    let zone = match zone {
        DataType::Interval(_) => INTERVAL,
        text if is_text(text) => DataType::Utf8View,
        _ => return None,
    };
    let of = match exact(of) {
        Some(time @ (TIME | TIMETZ)) => time,
        Some(INTERVAL) => return None,
        _ => instant(of)?,
    };
    Some(vec![zone, of])
}

fn returns(types: &[DataType]) -> DataType {
    match exact(&types[1]) {
        Some(DataType::Timestamp(_, None)) => STAMPTZ.clone(),
        Some(TIME | TIMETZ) => TIMETZ,
        _ => STAMP,
    }
}

/// The zone of each row, looked up once for a run of equal names.
struct Zones<'a> {
    of: &'a ArrayRef,
    last: Option<(String, Zone)>,
}

impl Zones<'_> {
    fn at(&mut self, row: usize) -> Result<Option<&Zone>> {
        if self.of.is_null(row) {
            return Ok(None);
        }
        let name = match self.of.data_type() {
            DataType::Interval(_) => {
                let span = Span::from(self.of.as_primitive::<IntervalMonthDayNanoType>().value(row));
                return self.fixed(span).map(Some);
            }
            _ => self.of.as_string_view().value(row),
        };
        if self.last.as_ref().is_none_or(|(known, _)| known != name) {
            let zone = Zone::any(name).ok_or_else(|| fail(unknown_zone(name)))?;
            self.last = Some((name.to_string(), zone));
        }
        Ok(self.last.as_ref().map(|(_, zone)| zone))
    }

    fn fixed(&mut self, span: Span) -> Result<&Zone> {
        if span.months != 0 || span.days != 0 {
            let mut shown = Vec::new();
            write_interval(span, &Conventions::default(), &mut shown);
            let shown = String::from_utf8_lossy(&shown);
            let message = format!("interval time zone \"{shown}\" must not include months or days");
            return Err(to_datafusion(SqlError::new(state::INVALID_PARAMETER_VALUE, message)));
        }
        let zone = Zone::east((span.us / 1_000_000) as i32);
        let (_, zone) = self.last.insert((String::new(), zone));
        Ok(zone)
    }
}

fn timezone(call: &Call) -> Result<ArrayRef> {
    let mut zones = Zones {
        of: &call.args[0],
        last: None,
    };
    let values = match call.args[1].data_type() {
        time if *time == TIME => &converted(&call.args[1], &TIMETZ, &call.conventions)?,
        _ => &call.args[1],
    };
    if values.data_type() == &TIMETZ {
        let now = call.conventions.now_us();
        let times = values.as_fixed_size_binary();
        let mut out = Vec::with_capacity(call.rows);
        for row in 0..call.rows {
            let zone = zones.at(row)?;
            out.push(match zone {
                Some(zone) if times.is_valid(row) => {
                    let (us, east_s) = timetz_of(times.value(row));
                    let wanted = zone.east_at(now);
                    let moved = us + (i64::from(wanted) - i64::from(east_s)) * 1_000_000;
                    Some(timetz_bytes(moved.rem_euclid(DAY_US), wanted))
                }
                _ => None,
            });
        }
        return super::function::timestz(out.into_iter());
    }
    let to_clock = super::function::zoned(values);
    let stamps = values.as_primitive::<TimestampMicrosecondType>();
    let mut out: Vec<Option<i64>> = Vec::with_capacity(call.rows);
    for row in 0..call.rows {
        let zone = zones.at(row)?;
        out.push(match zone {
            Some(zone) if stamps.is_valid(row) => {
                let us = stamps.value(row);
                let moved = if to_clock { zone.to_local(us) } else { zone.to_utc(us) };
                Some(moved.ok_or_else(|| fail(out_of_range("timestamp")))?)
            }
            _ => None,
        });
    }
    let out = TimestampMicrosecondArray::from(out);
    Ok(match to_clock {
        true => Arc::new(out),
        false => super::function::stampstz(out),
    })
}

/// Changes of type that depend on the session's zone, or that Arrow makes otherwise.
pub(crate) fn converted(call_args: &ArrayRef, to: &DataType, conventions: &Conventions) -> Result<ArrayRef> {
    use super::function::{dates, map, map_some, stamps, stampstz, times};
    use tenon_storage::datetime::arithmetic::{date_to_stamp, stamp_to_date};
    let past = || out_of_range("timestamp");
    let zone = &conventions.zone;
    let values = call_args;
    let east_now = || {
        let now = conventions.now_us();
        zone.east_at(now)
    };
    Ok(match (values.data_type(), to) {
        (DataType::Date32, DataType::Timestamp(_, None)) => {
            stamps(map::<datafusion::arrow::datatypes::Date32Type, TimestampMicrosecondType>(values, date_to_stamp)?)
        }
        (DataType::Date32, DataType::Timestamp(..)) => stampstz(map::<
            datafusion::arrow::datatypes::Date32Type,
            TimestampMicrosecondType,
        >(values, |days| {
            zone.to_utc(date_to_stamp(days)?).ok_or_else(past)
        })?),
        (DataType::Timestamp(_, None), DataType::Timestamp(_, Some(_))) => {
            stampstz(map::<TimestampMicrosecondType, TimestampMicrosecondType>(
                values,
                |us| zone.to_utc(us).ok_or_else(past),
            )?)
        }
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, None)) => {
            stamps(map::<TimestampMicrosecondType, TimestampMicrosecondType>(
                values,
                |us| zone.to_local(us).ok_or_else(past),
            )?)
        }
        (DataType::Timestamp(_, from), DataType::Date32) => {
            let local = |us| if from.is_some() { zone.to_local(us) } else { Some(us) };
            dates(
                map::<TimestampMicrosecondType, datafusion::arrow::datatypes::Date32Type>(values, |us| {
                    local(us).map(stamp_to_date).ok_or_else(past)
                })?,
            )
        }
        (DataType::Timestamp(_, from), DataType::Time64(_)) => {
            let local = |us| if from.is_some() { zone.to_local(us) } else { Some(us) };
            times(map_some::<TimestampMicrosecondType, Time64MicrosecondType>(
                values,
                |us| {
                    if tenon_storage::datetime::is_infinite(us) {
                        return Ok(None);
                    }
                    Ok(Some(local(us).ok_or_else(past)?.rem_euclid(DAY_US)))
                },
            )?)
        }
        (DataType::Timestamp(..), _) => {
            let stamps = values.as_primitive::<TimestampMicrosecondType>().iter();
            super::function::timestz(stamps.map(|us| {
                let us = us.filter(|us| !tenon_storage::datetime::is_infinite(*us))?;
                Some(timetz_bytes(zone.to_local(us)?.rem_euclid(DAY_US), zone.east_at(us)))
            }))?
        }
        (DataType::Time64(_), DataType::Interval(_)) => {
            super::function::intervals(map::<Time64MicrosecondType, IntervalMonthDayNanoType>(values, |us| {
                super::function::arrow(Span::of_us(us))
            })?)
        }
        (DataType::Interval(_), DataType::Time64(_)) => times(map::<IntervalMonthDayNanoType, Time64MicrosecondType>(
            values,
            |value| Ok::<_, StorageError>(Span::from(value).us.rem_euclid(DAY_US)),
        )?),
        (DataType::Time64(_), _) => {
            let east_s = east_now();
            let all = values.as_primitive::<Time64MicrosecondType>().iter();
            super::function::timestz(all.map(|us| Some(timetz_bytes(us?, east_s))))?
        }
        _ => {
            let all = values.as_fixed_size_binary().iter();
            let all = all.map(|bytes| bytes.map(|bytes| timetz_of(bytes).0));
            times(all.collect())
        }
    })
}
