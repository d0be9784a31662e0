//! Functions of numbers and of points in time, over values of both sides.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::Operator;

use super::translator::Translator;
use super::types::{Translated, c_number, c_type, magnitude, scale};
use super::value::Value;

/// The first and the last day that there is, in days from 1970 on, as `tenon_storage::datetime` has them; and more days than
/// there are.
const DATE_FIRST: i64 = -2_440_588;
const DATE_LAST: i64 = 2_145_031_948;
const FAR_DAYS: i64 = 1 << 40;
/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

impl Translator {
    /// The call of a function of numbers; none if it is none.
    pub fn number_function(&mut self, name: &str, args: &[Value], result: &DataType) -> Translated<Option<Value>> {
        Ok(Some(match (name, args) {
            ("checked_add", [a, b]) => self.arithmetic(a.clone(), Operator::Plus, b.clone(), result)?,
            ("checked_subtract", [a, b]) => self.arithmetic(a.clone(), Operator::Minus, b.clone(), result)?,
            ("checked_multiply", [a, b]) => self.arithmetic(a.clone(), Operator::Multiply, b.clone(), result)?,
            ("checked_divide", [a, b]) if result.is_floating() => self.float_quotient(a.clone(), b.clone(), result)?,
            ("mod", [a, b]) => self.arithmetic(a.clone(), Operator::Modulo, b.clone(), result)?,
            ("div", [a, b]) => self.arithmetic(a.clone(), Operator::Divide, b.clone(), result)?,
            ("nullif", [a, b]) => self.null_if(a, b)?,
            ("greatest", [first, rest @ ..]) => self.extreme(first, Operator::GtEq, rest)?,
            ("least", [first, rest @ ..]) => self.extreme(first, Operator::LtEq, rest)?,
            ("abs", [value]) => self.absolute(value, result)?,
            ("signum", [value]) if *result == DataType::Float64 => self.float_call("signum", value),
            ("floor" | "ceil" | "trunc", [value]) if value.data_type == DataType::Float64 => {
                self.float_call(name, value)
            }
            // Halves go to the even neighbour.
            ("round", [value]) if value.data_type == DataType::Float64 => self.float_call("rint", value),
            ("floor" | "ceil" | "trunc" | "round", [value]) => self.whole_units(name, value, result)?,
            ("one_zero", [value]) if value.data_type.is_floating() => {
                let sum = format!("{} + 0", value.value);
                self.define(c_type(result)?, sum, value.null.clone(), result.clone(), None)
            }
            ("date_plus" | "date_minus", [a, b]) if a.data_type == DataType::Date32 && *result == a.data_type => {
                self.date_moved(name == "date_minus", a, b)?
            }
            ("timestamp_difference", [a, b]) => self.time_between(a, b, result)?,
            _ => return Ok(None),
        }))
    }

    fn float_call(&mut self, function: &str, value: &Value) -> Value {
        let call = format!("{function}({})", value.value);
        self.define("f64", call, value.null.clone(), DataType::Float64, None)
    }

    pub fn negative(&mut self, value: Value) -> Translated<Value> {
        let data_type = value.data_type.clone();
        match value.range {
            Some((low, high)) if data_type.is_signed_integer() || matches!(data_type, DataType::Decimal128(_, _)) => {
                let opposite = (high.checked_neg(), low.checked_neg());
                let (Some(low), Some(high)) = opposite else {
                    return Err("a decimal beyond 128 bits".into());
                };
                let name = value.value;
                self.checked(|cast| format!("-{cast}{name}"), (low, high), value.null, &data_type)
            }
            _ if data_type.is_floating() => {
                let opposite = format!("-{}", value.value);
                Ok(self.define(c_type(&data_type)?, opposite, value.null, data_type, None))
            }
            _ => Err(format!("no device form of - {data_type}")),
        }
    }

    pub(super) fn absolute(&mut self, value: &Value, result: &DataType) -> Translated<Value> {
        if value.data_type.is_floating() && value.data_type == *result {
            let call = format!("magnitude({})", value.value);
            return Ok(self.define(c_type(result)?, call, value.null.clone(), result.clone(), None));
        }
        let bound = value
            .range
            .and_then(magnitude)
            .ok_or("abs() of values of unknown range")?;
        let name = &value.value;
        let operation = |cast: &str| format!("{name} < 0 ? -{cast}{name} : {cast}{name}");
        self.checked(operation, (0, bound), value.null.clone(), result)
    }

    /// A decimal as a whole number.
    fn whole_units(&mut self, name: &str, value: &Value, result: &DataType) -> Translated<Value> {
        let (DataType::Decimal128(_, own), DataType::Decimal128(_, 0)) = (&value.data_type, result) else {
            return Err(format!("no device form of {name}({})", value.data_type));
        };
        let (call, bound) = in_units(name, value, *own)?;
        self.checked(|_| call.clone(), (-bound, bound), value.null.clone(), result)
    }

    fn null_if(&mut self, value: &Value, other: &Value) -> Translated<Value> {
        let equal = self.compare(value, Operator::Eq, other)?;
        let null = self.define_null(format!("{} || {}", value.is_null(), equal.is_true()));
        Ok(Value {
            null: Some(null),
            ..value.clone()
        })
    }

    /// The largest or the smallest argument; nulls do not count.
    fn extreme(&mut self, first: &Value, op: Operator, rest: &[Value]) -> Translated<Value> {
        let mut best = first.clone();
        for value in rest {
            let keeps = self.compare(&best, op, value)?;
            let (best_null, null) = (best.is_null().to_string(), value.is_null());
            let keeps = self
                .define_truth(format!("!{best_null} && ({null} || {})", keeps.value))
                .value;
            best = self.chosen(vec![(keeps, best)], Some(value.clone()))?;
        }
        Ok(best)
    }

    /// A date so many days later, or earlier; one beyond all days is as it was.
    fn date_moved(&mut self, back: bool, date: &Value, days: &Value) -> Translated<Value> {
        if !days.data_type.is_signed_integer() {
            return Err(format!("no device form of date + {}", days.data_type));
        }
        let null = self.any_null([date, days]);
        let sign = if back { "-" } else { "+" };
        let (own, by) = (&date.value, &days.value);
        let infinite = format!("({own} == {}ll || {own} == {}ll)", i32::MAX, i32::MIN);
        let far = format!("({by} > {FAR_DAYS}ll || {by} < -{FAR_DAYS}ll)");
        // A number of days that is too large moves the date out of all that there are.
        let moved = format!("{infinite} ? {own} : {far} ? {FAR_DAYS}ll : {own} {sign} {by}");
        let moved = self.define("i64", moved, None, DataType::Int64, None).value;
        let (first, last) = (c_number(DATE_FIRST.into()), c_number(DATE_LAST.into()));
        self.fail_if(
            null.as_ref(),
            &format!("!{infinite} && ({moved} < {first} || {moved} > {last})"),
        );
        let value = format!("{infinite} || ({moved} >= {first} && {moved} <= {last}) ? {moved} : 0ll");
        let all = (i128::from(i32::MIN), i128::from(i32::MAX));
        let moves = days
            .range
            .map(|(low, high)| if back { (-high, -low) } else { (low, high) });
        let range = match (date.range, moves) {
            (Some(own), Some(by)) if own.0 > all.0 && own.1 < all.1 => {
                let (low, high) = (own.0.saturating_add(by.0), own.1.saturating_add(by.1));
                (low.clamp(all.0, 0), high.clamp(0, all.1))
            }
            _ => all,
        };
        Ok(self.define("i64", value, null, DataType::Date32, Some(range)))
    }

    /// Days and time of day between two timestamps, as an interval's number.
    fn time_between(&mut self, a: &Value, b: &Value, result: &DataType) -> Translated<Value> {
        let micros = |value: &Value| matches!(value.data_type, DataType::Timestamp(TimeUnit::Microsecond, _));
        if a.data_type != b.data_type || !micros(a) || scale(result) != 0 {
            return Err(format!("no device form of {} - {}", a.data_type, b.data_type));
        }
        let null = self.any_null([a, b]);
        let between = format!("(i64)((u64){} - (u64){})", a.value, b.value);
        let us = self.define("i64", between, None, DataType::Int64, None).value;
        let number = format!("(i128)(i32)({us} / {DAY_US}ll) * bits_128(1, 0) + (i128)({us} % {DAY_US}ll * 1000)");
        Ok(self.define("i128", number, null, result.clone(), None))
    }
}

/// A decimal in units of `10^digits` of its own, by a function of the kernels, and how large the result may be.
pub(super) fn in_units(function: &str, value: &Value, digits: i8) -> Translated<(String, i128)> {
    let unit = u32::try_from(digits).ok().and_then(|digits| 10i128.checked_pow(digits));
    let unit = unit.ok_or("a scale beyond 128 bits")?;
    let bound = value
        .range
        .and_then(magnitude)
        .ok_or("rounding of values of unknown range")?;
    let call = format!("units_{function}({}, {})", value.value, c_number(unit));
    Ok((call, bound / unit + 1))
}
