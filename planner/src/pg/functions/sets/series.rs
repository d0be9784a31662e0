//! `generate_series` over integers, numerics and times.

use super::{SetFunction, SetRows, undefined};
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::Result;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::datetime::arithmetic::{timestamp_plus, timestamptz_plus};
use tenon_storage::datetime::{Conventions, Zone};
use tenon_storage::numeric::Numeric;
use tenon_storage::numeric::column::{Values, collect};
use tenon_storage::types::NUMERIC;

#[derive(Debug)]
pub(super) struct GenerateSeries;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Null | DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8
    )
}

/// The type of the series: that of its ends. Texts without a type take the others'.
fn series_type(types: &[DataType]) -> Option<DataType> {
    let mut found = None;
    for data_type in types {
        let own = match data_type {
            text if is_text(text) => continue,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => DataType::Int32,
            DataType::Int64 | DataType::UInt32 => DataType::Int64,
            DataType::Decimal128(..) | DataType::LargeBinary => NUMERIC,
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            DataType::Date32 => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            _ => return None,
        };
        found = Some(match (found, own) {
            (None, own) => own,
            (Some(NUMERIC), DataType::Int32 | DataType::Int64) | (Some(DataType::Int32 | DataType::Int64), NUMERIC) => {
                NUMERIC
            }
            (Some(DataType::Int32 | DataType::Int64), DataType::Int64) => DataType::Int64,
            (Some(DataType::Int64), DataType::Int32) => DataType::Int64,
            // The one with a zone is the preferred type.
            (Some(DataType::Timestamp(unit, a)), DataType::Timestamp(_, b)) => DataType::Timestamp(unit, a.or(b)),
            (Some(known), own) if known == own => known,
            _ => return None,
        });
    }
    found
}

impl SetFunction for GenerateSeries {
    fn name(&self) -> &str {
        "generate_series"
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wrong = || undefined(self.name(), types);
        let of_times = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..) | DataType::Date32);
        match types {
            [from, to, step] if of_times(from) || of_times(to) || *step == INTERVAL => {
                let ends = [from.clone(), to.clone()];
                // Of several kinds of times those with a zone are taken where nothing says which they are.
                let open = ends.iter().all(DataType::is_null);
                let series = match open {
                    true => SqlType::TimestampTz.data_type(),
                    false => series_type(&ends).ok_or_else(wrong)?,
                };
                if !of_times(&series) || !(is_text(step) || matches!(step, DataType::Interval(_))) {
                    return Err(wrong());
                }
                Ok(vec![series.clone(), series, INTERVAL])
            }
            [_, _] | [_, _, _] => match series_type(types) {
                // Numbers are numerics row by row.
                Some(NUMERIC) => {
                    let own = |own: &DataType| if is_text(own) { NUMERIC } else { own.clone() };
                    Ok(types.iter().map(own).collect())
                }
                Some(series) if !of_times(&series) => Ok(vec![series; types.len()]),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }

    fn field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = args.iter().map(|arg| arg.data_type().clone()).collect();
        let field = match args.first() {
            Some(_) if series_type(&types) == Some(NUMERIC) => Field::new(self.name(), NUMERIC, true),
            Some(first) => Field::new(self.name(), first.data_type().clone(), true),
            None => return Err(undefined(self.name(), &[])),
        };
        Ok(Arc::new(field))
    }

    fn rows(&self, args: &[ArrayRef], row: usize) -> Result<Box<dyn SetRows>> {
        self.rows_by(args, row, &Conventions::default())
    }

    fn rows_by(&self, args: &[ArrayRef], row: usize, conventions: &Conventions) -> Result<Box<dyn SetRows>> {
        let types: Vec<DataType> = args.iter().map(|array| array.data_type().clone()).collect();
        if series_type(&types) == Some(NUMERIC) {
            return Ok(Box::new(Numerics::of(args, row)?));
        }
        let data_type = args[0].data_type().clone();
        Ok(match &data_type {
            DataType::Timestamp(..) => {
                let end = |at: usize| args[at].as_primitive::<TimestampMicrosecondType>().value(row);
                let step = args[2].as_primitive::<IntervalMonthDayNanoType>().value(row);
                let sign = direction(step);
                if sign == 0 {
                    return Err(zero_step("step size cannot equal zero"));
                }
                Box::new(Times {
                    next: Some(end(0)),
                    last: end(1),
                    step,
                    ascends: sign > 0,
                    zone: matches!(data_type, DataType::Timestamp(_, Some(_))).then(|| conventions.zone.clone()),
                    data_type,
                })
            }
            numbers => {
                let value = |array: &ArrayRef| match numbers {
                    DataType::Int32 => i128::from(array.as_primitive::<Int32Type>().value(row)),
                    _ => i128::from(array.as_primitive::<Int64Type>().value(row)),
                };
                let step = args.get(2).map_or(1, value);
                if step == 0 {
                    return Err(zero_step("step size cannot equal zero"));
                }
                Box::new(Numbers {
                    next: Some(value(&args[0])),
                    last: value(&args[1]),
                    step,
                    data_type,
                })
            }
        })
    }
}

fn zero_step(message: &str) -> datafusion::error::DataFusionError {
    to_datafusion(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
}

struct Numbers {
    next: Option<i128>,
    last: i128,
    step: i128,
    data_type: DataType,
}

impl Numbers {
    fn step(&mut self) -> Option<i128> {
        let value = self.next?;
        let within = if self.step > 0 {
            value <= self.last
        } else {
            value >= self.last
        };
        // Past the type's end the series ends too.
        self.next = within.then(|| value.checked_add(self.step)).flatten();
        within.then_some(value)
    }
}

impl SetRows for Numbers {
    fn next(&mut self, most: usize) -> Result<ArrayRef> {
        let data_type = self.data_type.clone();
        let values = std::iter::from_fn(|| self.step()).take(most);
        Ok(match &data_type {
            DataType::Int32 => Arc::new(Int32Array::from_iter_values(values.map(|value| value as i32))),
            _ => Arc::new(Int64Array::from_iter_values(values.map(|value| value as i64))),
        })
    }
}

struct Numerics {
    next: Option<Numeric>,
    last: Numeric,
    step: Numeric,
}

impl Numerics {
    fn of(args: &[ArrayRef], row: usize) -> Result<Self> {
        let value = |at: usize, what: &str| -> Result<Numeric> {
            let value = Values::of(&args[at]).and_then(|values| values.get(row));
            let value = value.unwrap_or(Numeric::NaN);
            match value.scale() {
                Some(_) => Ok(value),
                None if value.is_nan() => Err(zero_step(&format!("{what} cannot be NaN"))),
                None => Err(zero_step(&format!("{what} cannot be infinity"))),
            }
        };
        let (next, last) = (value(0, "start value")?, value(1, "stop value")?);
        let step = match args.len() {
            2 => Numeric::from(1),
            _ => value(2, "step size")?,
        };
        if step.is_zero() {
            return Err(zero_step("step size cannot equal zero"));
        }
        let next = Some(next);
        Ok(Self { next, last, step })
    }

    fn step(&mut self) -> Option<Numeric> {
        let value = self.next.take()?;
        let within = match self.step.signum() > 0 {
            true => value.cmp(&self.last).is_le(),
            false => value.cmp(&self.last).is_ge(),
        };
        if !within {
            return None;
        }
        self.next = value.add(&self.step).ok();
        Some(value)
    }
}

impl SetRows for Numerics {
    fn next(&mut self, most: usize) -> Result<ArrayRef> {
        let values: Vec<Option<Numeric>> = std::iter::from_fn(|| self.step()).take(most).map(Some).collect();
        Ok(collect(values.into_iter()))
    }
}

struct Times {
    /// Microseconds since 1970.
    next: Option<i64>,
    last: i64,
    step: IntervalMonthDayNano,
    ascends: bool,
    data_type: DataType,
    /// By whose clock days and months are counted.
    zone: Option<Zone>,
}

/// Whether an interval goes forward or back: a month is 30 days here, as in comparisons.
fn direction(step: IntervalMonthDayNano) -> i128 {
    let days = i128::from(step.months) * 30 + i128::from(step.days);
    (days * 86_400_000_000_000 + i128::from(step.nanoseconds)).signum()
}

impl Times {
    fn step(&mut self) -> Result<Option<i64>> {
        let Some(value) = self.next else { return Ok(None) };
        let within = if self.ascends {
            value <= self.last
        } else {
            value >= self.last
        };
        let later = |us| match &self.zone {
            Some(zone) => timestamptz_plus(us, self.step.into(), zone),
            None => timestamp_plus(us, self.step.into()),
        };
        // What is beyond all times is not passed over, be the end infinite or not.
        self.next = match within {
            true => Some(later(value).map_err(|error| to_datafusion(error.into()))?),
            false => None,
        };
        Ok(within.then_some(value))
    }
}

impl SetRows for Times {
    fn next(&mut self, most: usize) -> Result<ArrayRef> {
        let DataType::Timestamp(_, zone) = self.data_type.clone() else {
            return datafusion::common::internal_err!("no time");
        };
        let values = std::iter::from_fn(|| self.step().transpose()).take(most);
        let values = TimestampMicrosecondArray::from_iter_values(values.collect::<Result<Vec<_>>>()?);
        Ok(Arc::new(values.with_timezone_opt(zone)))
    }
}
