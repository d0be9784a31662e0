//! RANGE with offsets: the rows whose key lies within a distance of a row's own.
//!
//! Keys become integers of 256 bits in which they are ordered as in SQL, with room for any sum.

use super::{fail, frame::Bound};
use crate::pg::errors::to_datafusion;
use crate::pg::numeric::failed;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Datum, Scalar};
use datafusion::arrow::compute::kernels::numeric::{add_wrapping, sub_wrapping};
use datafusion::arrow::compute::{SortOptions, cast};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal256Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, i256,
};
use datafusion::common::{Result, plan_err};
use datafusion::error::DataFusionError;
use std::cmp::Ordering;
use tenon_storage::datetime::{TIMETZ_BYTES, timetz_of};
use tenon_storage::numeric::Numeric;
use tenon_storage::numeric::column::{Values, convert, to_numeric};
use tenon_storage::types::NUMERIC;
use tenon_storage::{SqlType, StorageError};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY_NANOS: i128 = 86_400_000_000_000;
const TIMETZ_WIDTH: i32 = TIMETZ_BYTES as i32;
/// Room below an instant for its zone.
const ZONE_BITS: u32 = 32;

/// The type in which the offset is taken for a key of this type; None where there is no such RANGE.
pub(super) fn offset_type(key: &DataType, offset: &DataType) -> Option<DataType> {
    let is_text = matches!(
        offset,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null
    );
    Some(match key {
        DataType::Int16 | DataType::Int32 | DataType::Int64 if offset.is_integer() || is_text => DataType::Int64,
        // Numerics stay what they are, and are converted with the rows.
        DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) | DataType::Decimal256(..)
            if *offset == NUMERIC =>
        {
            NUMERIC
        }
        DataType::LargeBinary if offset.is_integer() || offset.is_decimal() || *offset == NUMERIC => offset.clone(),
        DataType::LargeBinary if is_text => NUMERIC,
        DataType::Float32 | DataType::Float64 if offset.is_numeric() || is_text => DataType::Float64,
        DataType::Decimal128(..) | DataType::Decimal256(..) if offset.is_integer() => DataType::Decimal128(20, 0),
        DataType::Decimal128(..) | DataType::Decimal256(..) if is_text => DataType::Decimal128(38, 10),
        DataType::Decimal128(..) | DataType::Decimal256(..) if offset.is_decimal() => offset.clone(),
        DataType::Date32
        | DataType::Timestamp(TimeUnit::Microsecond, _)
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::FixedSizeBinary(TIMETZ_WIDTH)
        | DataType::Interval(IntervalUnit::MonthDayNano)
            if is_text || *offset == INTERVAL =>
        {
            INTERVAL
        }
        _ => return None,
    })
}

/// By row: where the frame starts, or the row after its end.
pub(super) fn bounds(
    key: &ArrayRef,
    options: SortOptions,
    offset: &ArrayRef,
    bound: Bound,
    is_start: bool,
) -> Result<Vec<usize>> {
    // Towards the partition's start lie smaller keys, or larger ones if the order descends.
    let minus = (bound == Bound::Preceding) != options.descending;
    let low = is_start != options.descending;
    let storage = |error: StorageError| to_datafusion(error.into());
    let is_float = matches!(key.data_type(), DataType::Float32 | DataType::Float64);
    let offset = match *offset.data_type() == NUMERIC && is_float {
        true => &convert(offset, SqlType::Float8).map_err(storage)?,
        false => offset,
    };
    let (values, sums) = if [key, offset].into_iter().any(|column| *column.data_type() == NUMERIC) {
        let numerics = [key, offset].map(|column| to_numeric(column).map_err(storage));
        let [key, offset] = numerics;
        ranks(&key?, &offset?, minus, low)?
    } else {
        let keys = Keys::of(key, offset)?;
        let sums = keys.shifted(minus, low)?;
        (keys.values, sums)
    };
    let rows = key.len();
    let (mut from, mut to) = (0, rows);
    while from < to && key.is_null(from) {
        from += 1;
    }
    while to > from && key.is_null(to - 1) {
        to -= 1;
    }
    let in_order = |a: &i256, b: &i256| if options.descending { b.cmp(a) } else { a.cmp(b) };
    let found = (0..rows).map(|row| {
        if row < from || row >= to {
            // Nulls are at no distance from each other, and at none that is known from the others.
            let nulls = if row < from { 0..from } else { to..rows };
            return if is_start { nulls.start } else { nulls.end };
        }
        let before = |at: &i256| match in_order(at, &sums[row]) {
            Ordering::Less => true,
            Ordering::Equal => !is_start,
            Ordering::Greater => false,
        };
        from + values[from..to].partition_point(before)
    });
    Ok(found.collect())
}

/// Numerics of any precision, and what the offset makes of each, as their places in the order of all of them.
fn ranks(key: &ArrayRef, offset: &ArrayRef, minus: bool, low: bool) -> Result<(Vec<i256>, Vec<i256>)> {
    let (Some(keys), Some(offset)) = (Values::of(key), Values::of(offset)) else {
        return plan_err!("RANGE over numerics has met another type");
    };
    let distance = match offset.get(0) {
        Some(distance) if distance.signum() >= 0 && !distance.is_nan() => distance,
        _ => return Err(negative()),
    };
    let rows = keys.len();
    // What stands for a null says nothing.
    let mut all: Vec<Numeric> = keys.iter().map(|key| key.unwrap_or(Numeric::NaN)).collect();
    for row in 0..rows {
        let key = &all[row];
        let sum = match minus {
            true => key.sub(&distance),
            false => key.add(&distance),
        };
        let sum = sum.map_err(failed)?;
        // Opposite infinities.
        all.push(match sum.is_nan() && !key.is_nan() {
            true if low => Numeric::NegInfinity,
            true => Numeric::Infinity,
            false => sum,
        });
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_unstable_by(|a, b| all[*a].cmp(&all[*b]));
    let (mut ranks, mut rank) = (vec![i256::ZERO; all.len()], 0_i64);
    for (at, own) in order.iter().enumerate() {
        if at > 0 && all[order[at - 1]].cmp(&all[*own]).is_ne() {
            rank += 1;
        }
        ranks[*own] = i256::from(rank);
    }
    let sums = ranks.split_off(rows);
    Ok((ranks, sums))
}

fn negative() -> DataFusionError {
    fail("22013", "invalid preceding or following size in window function")
}

/// The keys of a partition, and what is added to them.
struct Keys<'a> {
    key: &'a ArrayRef,
    offset: &'a ArrayRef,
    values: Vec<i256>,
}

impl<'a> Keys<'a> {
    fn of(key: &'a ArrayRef, offset: &'a ArrayRef) -> Result<Self> {
        let values = ordinals(key, offset)?;
        Ok(Self { key, offset, values })
    }

    /// Each key plus or minus the offset. `low`: the sum of opposite infinities counts as lower than all numbers, else as higher.
    fn shifted(&self, minus: bool, low: bool) -> Result<Vec<i256>> {
        let by = |distance: i256| -> Result<Vec<i256>> {
            if distance < i256::ZERO {
                return Err(negative());
            }
            let distance = if minus { -distance } else { distance };
            Ok(self.values.iter().map(|value| value.wrapping_add(distance)).collect())
        };
        match self.key.data_type() {
            DataType::Float32 | DataType::Float64 => {
                let distance = self.offset.as_primitive::<Float64Type>().value(0);
                if distance < 0.0 || distance.is_nan() {
                    return Err(negative());
                }
                let distance = if minus { -distance } else { distance };
                let keys = cast(self.key, &DataType::Float64)?;
                let sums = keys.as_primitive::<Float64Type>().values().iter().map(|key| {
                    let sum = key + distance;
                    // NaN is at no distance from numbers, infinite ones among them.
                    let sum = match sum.is_nan() && !key.is_nan() {
                        true if low => f64::NEG_INFINITY,
                        true => f64::INFINITY,
                        false => sum,
                    };
                    i256::from(float_ordinal(sum))
                });
                Ok(sums.collect())
            }
            DataType::Date32 | DataType::Timestamp(..) => {
                let distance = self.interval();
                if span(distance) < 0 {
                    return Err(negative());
                }
                let stamps = cast(self.key, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
                let offset = Scalar::new(self.offset.slice(0, 1));
                let sums = match minus {
                    true => sub_wrapping(&stamps, &offset as &dyn Datum)?,
                    false => add_wrapping(&stamps, &offset as &dyn Datum)?,
                };
                let sums = sums.as_primitive::<TimestampMicrosecondType>().values().iter();
                Ok(sums.map(|sum| i256::from(*sum)).collect())
            }
            // A time of day is moved by the interval's time alone.
            DataType::Time64(_) => by(i256::from(self.interval().nanoseconds / 1000)),
            DataType::FixedSizeBinary(TIMETZ_WIDTH) => by(i256::from_i128(
                i128::from(self.interval().nanoseconds / 1000) << ZONE_BITS,
            )),
            DataType::Interval(_) => by(i256::from_i128(span(self.interval()))),
            DataType::Decimal128(..) | DataType::Decimal256(..) => {
                let scale = scale(self.key.data_type()).max(scale(self.offset.data_type()));
                by(scaled(&self.offset.slice(0, 1), scale)?[0])
            }
            _ => by(i256::from(self.offset.as_primitive::<Int64Type>().value(0))),
        }
    }

    fn interval(&self) -> IntervalMonthDayNano {
        self.offset.as_primitive::<IntervalMonthDayNanoType>().value(0)
    }
}

/// Values as integers of the same order; what stands for a null says nothing.
fn ordinals(key: &ArrayRef, offset: &ArrayRef) -> Result<Vec<i256>> {
    Ok(match key.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let keys = cast(key, &DataType::Float64)?;
            let values = keys.as_primitive::<Float64Type>().values().iter();
            values.map(|value| i256::from(float_ordinal(*value))).collect()
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            scaled(key, scale(key.data_type()).max(scale(offset.data_type())))?
        }
        DataType::Date32 => {
            let days = key.as_primitive::<Date32Type>().values().iter();
            days.map(|days| i256::from(i64::from(*days) * 86_400_000_000)).collect()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let values = key.as_primitive::<TimestampMicrosecondType>().values().iter();
            values.map(|value| i256::from(*value)).collect()
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let values = key.as_primitive::<Time64MicrosecondType>().values().iter();
            values.map(|value| i256::from(*value)).collect()
        }
        // The instant, and then the zone: the order of their bytes.
        DataType::FixedSizeBinary(TIMETZ_WIDTH) => {
            let values = key.as_fixed_size_binary();
            let ordinal = |row: usize| {
                if values.is_null(row) {
                    return i256::ZERO;
                }
                let (us, east_s) = timetz_of(values.value(row));
                let instant = i128::from(us) - i128::from(east_s) * 1_000_000;
                i256::from_i128((instant << ZONE_BITS) - i128::from(east_s))
            };
            (0..values.len()).map(ordinal).collect()
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let values = key.as_primitive::<IntervalMonthDayNanoType>().values().iter();
            values.map(|value| i256::from_i128(span(*value))).collect()
        }
        DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            let keys = cast(key, &DataType::Int64)?;
            let values = keys.as_primitive::<Int64Type>().values().iter();
            values.map(|value| i256::from(*value)).collect()
        }
        other => return plan_err!("RANGE with offset has met {other}"),
    })
}

/// An integer for each float, in their order: NaN is the greatest, and both zeros are one.
fn float_ordinal(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    let bits = (value + 0.0).to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// An interval's length in nanoseconds, with months of 30 days.
fn span(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * DAY_NANOS + i128::from(interval.nanoseconds)
}

fn scale(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    }
}

fn scaled(values: &ArrayRef, scale: i8) -> Result<Vec<i256>> {
    let values = cast(values, &DataType::Decimal256(76, scale))?;
    Ok(values.as_primitive::<Decimal256Type>().values().to_vec())
}
