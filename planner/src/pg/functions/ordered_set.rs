//! What ordered-set aggregates make of their sorted values: `percentile_disc`, `percentile_cont` and `mode` as functions of
//! a list. See `rewrite::ordered_sets`.

use crate::pg::error::{SqlError, SqlState};
use crate::pg::errors::to_datafusion;
use crate::pg::types::type_name;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, IntervalMonthDayNanoArray, ListArray, UInt64Array, make_comparator,
    new_null_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortOptions, cast, take};
use datafusion::arrow::datatypes::{
    DataType, Field, Float32Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::cmp::Ordering;
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::numeric::column::convert;
use tenon_storage::types::NUMERIC;

pub(crate) const PERCENTILE_DISC: &str = "tenon_percentile_disc";
pub(crate) const PERCENTILE_CONT: &str = "tenon_percentile_cont";
pub(crate) const MODE: &str = "tenon_mode";

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

pub(super) fn functions() -> Vec<ScalarUDF> {
    let function = |kind, arguments| {
        ScalarUDF::new_from_impl(OrderedSet {
            kind,
            signature: Signature::any(arguments, Volatility::Immutable),
        })
    };
    vec![
        function(Kind::PercentileDisc, 2),
        function(Kind::PercentileCont, 2),
        function(Kind::Mode, 1),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    PercentileDisc,
    PercentileCont,
    Mode,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    kind: Kind,
    signature: Signature,
}

impl OrderedSet {
    /// The type of one value of the result.
    fn item(&self, list: &DataType) -> Result<DataType> {
        let item = match list {
            DataType::List(item) => item.data_type(),
            other => return plan_err!("{} does not take {other}", self.name()),
        };
        match (self.kind, item) {
            (Kind::PercentileCont, DataType::Interval(_)) => Ok(INTERVAL),
            (Kind::PercentileCont, item) if item.is_numeric() || item.is_null() || *item == NUMERIC => {
                Ok(DataType::Float64)
            }
            (Kind::PercentileCont, item) => Err(to_datafusion(SqlError::new(
                SqlState("42883"),
                format!(
                    "function percentile_cont(double precision, {}) does not exist",
                    type_name(item)
                ),
            ))),
            (_, item) => Ok(item.clone()),
        }
    }
}

impl ScalarUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        match self.kind {
            Kind::PercentileDisc => PERCENTILE_DISC,
            Kind::PercentileCont => PERCENTILE_CONT,
            Kind::Mode => MODE,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let item = self.item(&types[0])?;
        Ok(match types.get(1) {
            Some(DataType::List(_) | DataType::FixedSizeList(..) | DataType::LargeList(_)) => {
                DataType::new_list(item, true)
            }
            _ => item,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let arrays = arrays.iter().map(|array| match array.len() == rows {
            true => Arc::clone(array),
            false => array.slice(0, rows.min(array.len())),
        });
        let arrays: Vec<ArrayRef> = arrays.collect();
        let item = self.item(arrays[0].data_type())?;
        let of_floats = match (self.kind, arrays[0].data_type()) {
            (Kind::PercentileCont, DataType::List(own)) if *own.data_type() == NUMERIC => floats(&arrays[0])?,
            _ => Arc::clone(&arrays[0]),
        };
        let lists = of_floats.as_list::<i32>();
        let result = match (self.kind, arrays.get(1)) {
            (Kind::Mode, _) => modes(lists)?,
            (kind, Some(fractions)) => match fractions.data_type() {
                DataType::List(own) if *own.data_type() == NUMERIC => {
                    of_lists(kind, lists, floats(fractions)?.as_list::<i32>(), &item)?
                }
                DataType::List(_) | DataType::FixedSizeList(..) | DataType::LargeList(_) => {
                    let wanted = cast(fractions, &DataType::new_list(DataType::Float64, true))?;
                    of_lists(kind, lists, wanted.as_list::<i32>(), &item)?
                }
                of => {
                    let wanted = match *of == NUMERIC {
                        true => float8(fractions)?,
                        false => cast(fractions, &DataType::Float64)?,
                    };
                    let rows = (0..rows).map(|row| (row, row));
                    percentiles(kind, lists, wanted.as_primitive::<Float64Type>(), rows, &item)?
                }
            },
            _ => return plan_err!("{} lacks its fraction", self.name()),
        };
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// Lists of numerics as lists of floats.
fn floats(lists: &ArrayRef) -> Result<ArrayRef> {
    let lists = lists.as_list::<i32>();
    let values = float8(lists.values())?;
    let item = Arc::new(Field::new_list_field(DataType::Float64, true));
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(Arc::new(ListArray::new(item, offsets, values, nulls)))
}

/// Numerics as floats.
pub(crate) fn float8(numerics: &ArrayRef) -> Result<ArrayRef> {
    convert(numerics, SqlType::Float8).map_err(|error| to_datafusion(error.into()))
}

/// For each list the percentiles that another list asks for.
fn of_lists(kind: Kind, lists: &ListArray, wanted: &ListArray, item: &DataType) -> Result<ArrayRef> {
    let offsets = wanted.offsets();
    let places = (0..wanted.len()).flat_map(|row| {
        let of_row = offsets[row] as usize..offsets[row + 1] as usize;
        of_row.map(move |at| (row, at))
    });
    let fractions = wanted.values().as_primitive::<Float64Type>();
    let values = percentiles(kind, lists, fractions, places, item)?;
    let nulls = datafusion::arrow::buffer::NullBuffer::union(lists.nulls(), wanted.nulls());
    let lengths = (0..wanted.len()).map(|row| (offsets[row + 1] - offsets[row]) as usize);
    Ok(Arc::new(ListArray::try_new(
        Arc::new(datafusion::arrow::datatypes::Field::new_list_field(item.clone(), true)),
        OffsetBuffer::from_lengths(lengths),
        values,
        nulls,
    )?))
}

/// For each place the percentile of a list by a fraction.
fn percentiles(
    kind: Kind,
    lists: &ListArray,
    fractions: &Float64Array,
    places: impl Iterator<Item = (usize, usize)>,
    item: &DataType,
) -> Result<ArrayRef> {
    // The two values that a percentile lies between, and how far it is from the first.
    let (mut low, mut high, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for (row, at) in places {
        let length = if lists.is_valid(row) {
            lists.value_length(row)
        } else {
            0
        };
        if fractions.is_null(at) || length == 0 {
            low.push(None);
            high.push(None);
            shares.push(0.0);
            continue;
        }
        let fraction = fractions.value(at);
        if !(0.0..=1.0).contains(&fraction) {
            let message = format!("percentile value {fraction} is not between 0 and 1");
            return Err(to_datafusion(SqlError::new(SqlState("22003"), message)));
        }
        let first = lists.value_offsets()[row] as u64;
        match kind {
            Kind::PercentileCont => {
                let place = fraction * f64::from(length - 1);
                low.push(Some(first + place.floor() as u64));
                high.push(Some(first + place.ceil() as u64));
                shares.push(place - place.floor());
            }
            _ => {
                let place = (fraction * f64::from(length)).ceil().max(1.0);
                low.push(Some(first + place as u64 - 1));
            }
        }
    }
    let low = take(lists.values(), &UInt64Array::from(low), None)?;
    if kind != Kind::PercentileCont {
        return Ok(low);
    }
    let high = take(lists.values(), &UInt64Array::from(high), None)?;
    if low.data_type().is_null() {
        return Ok(new_null_array(item, low.len()));
    }
    let (low, high) = (cast(&low, item)?, cast(&high, item)?);
    let rows = shares.into_iter().enumerate();
    if *item == INTERVAL {
        let (low, high) = (
            low.as_primitive::<IntervalMonthDayNanoType>(),
            high.as_primitive::<IntervalMonthDayNanoType>(),
        );
        let between = rows.map(|(row, share)| {
            low.is_valid(row)
                .then(|| interval_between(low.value(row), high.value(row), share))
        });
        return Ok(Arc::new(between.collect::<IntervalMonthDayNanoArray>()));
    }
    let (low, high) = (low.as_primitive::<Float64Type>(), high.as_primitive::<Float64Type>());
    let between = rows.map(|(row, share)| {
        let (low, high) = (low.is_valid(row).then(|| low.value(row))?, high.value(row));
        // So that infinite neighbours give no NaN.
        Some(if low == high { low } else { low + share * (high - low) })
    });
    Ok(Arc::new(between.collect::<Float64Array>()))
}

/// `low + (high - low) * share`, fractions of months and days going over to days and time.
fn interval_between(low: IntervalMonthDayNano, high: IntervalMonthDayNano, share: f64) -> IntervalMonthDayNano {
    const DAY: f64 = 86_400e9;
    let months = f64::from(high.months - low.months) * share;
    let days = f64::from(high.days - low.days) * share;
    let (whole_months, whole_days) = (months.trunc(), days.trunc());
    let more_days = (months - whole_months) * 30.0;
    let more_days = (more_days * 1e6).round() / 1e6;
    let nanos = (high.nanoseconds - low.nanoseconds) as f64 * share;
    let nanos = nanos + (days - whole_days + more_days - more_days.trunc()) * DAY;
    IntervalMonthDayNano::new(
        low.months + whole_months as i32,
        low.days + (whole_days + more_days.trunc()) as i32,
        low.nanoseconds + ((nanos / 1000.0).round() * 1000.0) as i64,
    )
}

/// The most frequent value of each sorted list, of several the first.
fn modes(lists: &ListArray) -> Result<ArrayRef> {
    let values = lists.values();
    // The two zeros are equal.
    let compared: ArrayRef = match values.data_type() {
        DataType::Float32 => Arc::new(
            values
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| value + 0.0),
        ),
        DataType::Float64 => Arc::new(
            values
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| value + 0.0),
        ),
        _ => Arc::clone(values),
    };
    let compare = make_comparator(&compared, &compared, SortOptions::default())?;
    let offsets = lists.value_offsets();
    let places = (0..lists.len()).map(|row| {
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        if lists.is_null(row) || start == end {
            return None;
        }
        let (mut best, mut most, mut run) = (start, 0, start);
        for at in start..=end {
            if at == end || compare(run, at) != Ordering::Equal {
                if at - run > most {
                    (best, most) = (run, at - run);
                }
                run = at;
            }
        }
        Some(best as u64)
    });
    Ok(take(values, &places.collect::<UInt64Array>(), None)?)
}
