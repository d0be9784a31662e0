//! `extract`, `date_part` and `date_trunc`.

use super::function::{
    Call, INTERVAL, STAMP, STAMPTZ, TIME, exact, fail, function, invoke, is_text, point, spans, stamps_like, undefined,
    zoned,
};
use super::zones::converted;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::StorageError;
use tenon_storage::datetime::fields::{self, Of, Part};
use tenon_storage::datetime::{Unit, Zone, timetz_of, unknown_zone};

/// Digits of the numerics that `extract` gives. Whole parts fit 64 bits, which makes them fast keys of groups and joins.
fn precision(scale: i8) -> u8 {
    if scale == 0 { 18 } else { 36 }
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        extract(),
        function(
            "date_part",
            |types| match types {
                [name, DataType::Date32] if is_text(name) => Some(vec![DataType::Utf8View, STAMP]),
                [name, of] if is_text(name) => Some(vec![DataType::Utf8View, exact(of).or_else(|| point(of))?]),
                _ => None,
            },
            |_| DataType::Float64,
            date_part,
        ),
        function(
            "date_trunc",
            |types| match types {
                [name, of] if is_text(name) => Some(vec![
                    DataType::Utf8View,
                    match exact(of) {
                        Some(DataType::Date32) => STAMPTZ.clone(),
                        Some(own @ (TIME | INTERVAL)) => own,
                        _ => point(of)?,
                    },
                ]),
                [name, _, zone] if is_text(name) && is_text(zone) => {
                    Some(vec![DataType::Utf8View, STAMPTZ.clone(), DataType::Utf8View])
                }
                _ => None,
            },
            |types| match types[1] {
                TIME => INTERVAL,
                _ => types[1].clone(),
            },
            date_trunc,
        ),
    ]
}

pub(super) fn extract() -> ScalarUDF {
    ScalarUDF::new_from_impl(Extract {
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

fn of_type(data_type: &DataType) -> Option<Of> {
    Some(match data_type {
        DataType::Date32 => Of::Date,
        DataType::Time64(_) => Of::Time,
        DataType::FixedSizeBinary(_) => Of::TimeTz,
        DataType::Timestamp(_, None) => Of::Timestamp,
        DataType::Timestamp(_, Some(_)) => Of::TimestampTz,
        DataType::Interval(_) => Of::Interval,
        _ => return None,
    })
}

/// The part of each row.
fn parts<'a>(values: &'a ArrayRef, unit: Unit, zone: &'a Zone) -> Box<dyn Iterator<Item = Part> + 'a> {
    macro_rules! each {
        ($type:ty, $part:expr) => {
            Box::new(
                values
                    .as_primitive::<$type>()
                    .iter()
                    .map(move |value| value.map_or(Part::None, $part)),
            )
        };
    }
    match values.data_type() {
        DataType::Date32 => each!(Date32Type, move |days| fields::part_of_date(days, unit)),
        DataType::Time64(_) => each!(Time64MicrosecondType, move |us| fields::part_of_time(us, unit)),
        DataType::Timestamp(_, None) => {
            each!(TimestampMicrosecondType, move |us| fields::part_of_timestamp(us, unit))
        }
        DataType::Timestamp(..) => {
            each!(TimestampMicrosecondType, move |us| fields::part_of_timestamptz(
                us, unit, zone
            ))
        }
        DataType::Interval(_) => each!(IntervalMonthDayNanoType, move |value| fields::part_of_interval(
            tenon_storage::datetime::Span::from(value),
            unit
        )),
        _ => Box::new(values.as_fixed_size_binary().iter().map(move |bytes| {
            bytes.map_or(Part::None, |bytes| {
                let (us, east_s) = timetz_of(bytes);
                fields::part_of_timetz(us, east_s, unit)
            })
        })),
    }
}

/// Runs of rows that ask for one unit: the name is nearly always a constant.
fn by_unit(
    names: &ArrayRef,
    values: &ArrayRef,
    of: Of,
    unit_of: impl Fn(&str, Of) -> Result<Unit, StorageError>,
    mut take: impl FnMut(Option<Unit>, ArrayRef) -> Result<()>,
) -> Result<()> {
    let names = names.as_string_view();
    let mut start = 0;
    while start < names.len() {
        let name = names.is_valid(start).then(|| names.value(start));
        let mut end = start + 1;
        while end < names.len()
            && names.is_valid(end) == name.is_some()
            && name.is_none_or(|name| names.value(end) == name)
        {
            end += 1;
        }
        let unit = name.map(|name| unit_of(name, of)).transpose().map_err(fail)?;
        take(unit, values.slice(start, end - start))?;
        start = end;
    }
    Ok(())
}

fn date_part(call: &Call) -> Result<ArrayRef> {
    let (names, values) = (&call.args[0], &call.args[1]);
    let Some(of) = of_type(values.data_type()) else {
        return Err(undefined(
            "date_part",
            &[DataType::Utf8View, values.data_type().clone()],
        ));
    };
    let mut out: Vec<Option<f64>> = Vec::with_capacity(call.rows);
    by_unit(names, values, of, fields::part_of, |unit, values| {
        let Some(unit) = unit else {
            out.extend(std::iter::repeat_n(None, values.len()));
            return Ok(());
        };
        out.extend(parts(&values, unit, &call.conventions.zone).map(|part| match part {
            Part::Exact(digits, scale) => Some(digits as f64 / 10f64.powi(scale.into())),
            Part::Infinite(true) => Some(f64::INFINITY),
            Part::Infinite(false) => Some(f64::NEG_INFINITY),
            Part::None => None,
        }));
        Ok(())
    })?;
    Ok(Arc::new(Float64Array::from(out)))
}

fn date_trunc(call: &Call) -> Result<ArrayRef> {
    let names = &call.args[0];
    let values = match call.args[1].data_type() {
        time if *time == TIME => &converted(&call.args[1], &INTERVAL, &call.conventions)?,
        _ => &call.args[1],
    };
    let mut pieces: Vec<ArrayRef> = Vec::new();
    let of = of_type(values.data_type()).unwrap_or(Of::Timestamp);
    let mut row = 0;
    by_unit(names, values, of, cut_unit, |unit, values| {
        let first = row;
        row += values.len();
        let Some(unit) = unit else {
            pieces.push(datafusion::arrow::array::new_null_array(
                values.data_type(),
                values.len(),
            ));
            return Ok(());
        };
        if of == Of::Interval {
            pieces.push(spans(&values, |span| Ok(fields::cut_interval(span, unit)))?);
            return Ok(());
        }
        let stamps = values.as_primitive::<TimestampMicrosecondType>();
        let cut: TimestampMicrosecondArray = match call.args.get(2) {
            Some(zones) => {
                let zones = zones.as_string_view();
                let found = stamps.iter().enumerate().map(|(at, us)| {
                    let (Some(us), true) = (us, zones.is_valid(first + at)) else {
                        return Ok(None);
                    };
                    let name = zones.value(first + at);
                    let zone = Zone::any(name).ok_or_else(|| unknown_zone(name))?;
                    fields::cut_timestamptz(us, unit, &zone).map(Some)
                });
                found.collect::<Result<_, StorageError>>().map_err(fail)?
            }
            None if zoned(&values) => stamps
                .try_unary(|us| fields::cut_timestamptz(us, unit, &call.conventions.zone))
                .map_err(fail)?,
            None => stamps.try_unary(|us| fields::cut_timestamp(us, unit)).map_err(fail)?,
        };
        pieces.push(stamps_like(cut, &values));
        Ok(())
    })?;
    match pieces.as_slice() {
        [] => Ok(datafusion::arrow::array::new_empty_array(values.data_type())),
        [one] => Ok(one.clone()),
        many => {
            let many: Vec<&dyn Array> = many.iter().map(|piece| piece.as_ref()).collect();
            Ok(datafusion::arrow::compute::concat(&many)?)
        }
    }
}

fn cut_unit(name: &str, of: Of) -> Result<Unit, StorageError> {
    fields::cut_to(name, of)
}

/// `extract`: a numeric whose digits after the point the field says.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extract {
    signature: Signature,
}

impl Extract {
    fn field(name: Option<&str>, of: &DataType) -> Result<(Unit, i8)> {
        let of_which = of_type(of).ok_or_else(|| undefined("pg_catalog.extract", &[DataType::Utf8View, of.clone()]))?;
        let name = name.ok_or_else(|| {
            to_datafusion(SqlError::new(
                state::INVALID_PARAMETER_VALUE,
                "extract takes the name of a field",
            ))
        })?;
        let unit = fields::part_of(name, of_which).map_err(fail)?;
        Ok((unit, fields::part_scale(unit, of_which)))
    }
}

impl ScalarUDFImpl for Extract {
    fn name(&self) -> &str {
        "extract"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [name, of] if is_text(name) && is_text(of) => {
                let message = "function pg_catalog.extract(unknown, unknown) is not unique";
                Err(to_datafusion(
                    SqlError::new(crate::pg::error::SqlState("42725"), message)
                        .hint("Could not choose a best candidate function. You might need to add explicit type casts."),
                ))
            }
            [name, of] if is_text(name) => match exact(of) {
                Some(of) => Ok(vec![DataType::Utf8View, of]),
                None => Err(undefined("pg_catalog.extract", types)),
            },
            _ => Err(undefined("pg_catalog.extract", types)),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(precision(6), 6))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let name = args.scalar_arguments[0].and_then(|name| name.try_as_str().flatten());
        let of = args.arg_fields[1].data_type();
        let (_, scale) = Extract::field(name, exact(of).as_ref().unwrap_or(of))?;
        Ok(Arc::new(Field::new(
            self.name(),
            DataType::Decimal128(precision(scale), scale),
            true,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(&args, |call| {
            let names = call.args[0].as_string_view();
            let name = (!names.is_empty() && names.is_valid(0)).then(|| names.value(0));
            let DataType::Decimal128(precision, scale) = *args.return_field.data_type() else {
                return Err(undefined("pg_catalog.extract", &[DataType::Utf8View]));
            };
            if call.rows == 0 {
                let none = Decimal128Array::from(Vec::<i128>::new());
                return Ok(Arc::new(none.with_precision_and_scale(precision, scale)?));
            }
            let (unit, _) = Extract::field(name, call.args[1].data_type())?;
            let found = parts(&call.args[1], unit, &call.conventions.zone).map(|part| match part {
                Part::Exact(digits, _) => Ok(Some(digits)),
                Part::None => Ok(None),
                Part::Infinite(_) => Err(to_datafusion(SqlError::unsupported(
                    "the infinite part of an infinite date or timestamp as a numeric",
                ))),
            });
            let found: Decimal128Array = found.collect::<Result<_>>()?;
            Ok(Arc::new(found.with_precision_and_scale(precision, scale)?))
        })
    }
}
