//! Numerics of any precision, as far as they are decimals of one scale: sums, differences and products of decimals, integers
//! and constants, and comparisons of their keys.
//!
//! Such a value has the type of a decimal here. The digits that it shows are those of the type, unless they depend on values:
//! then they go beside it (`Value::shown`), and the value may have more or, where these are zeros, fewer.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef, ScalarFunctionExpr};
use tenon_storage::SqlType;
use tenon_storage::numeric::{Numeric, compare_key, is_bound};
use tenon_storage::types::NUMERIC;

use super::numbers::in_units;
use super::translator::Translator;
use super::types::{Translated, c_number, is_exact, magnitude, scale};
use super::value::Value;

/// Digits after the point that a decimal may have.
const SCALE_MAX: i8 = 38;
/// Digits after the point that a quotient has room for, unless it is known to need fewer, or to have room for more: those of
/// all that are not below about 10^-8. And how large it may be with these, so that it can still be computed with.
const QUOTIENT_DIGITS: i8 = 24;
const QUOTIENT_MAX: i128 = 10i128.pow(36);

impl Translator {
    /// A function of numerics over decimals; None: it is none of these.
    pub(super) fn of_numerics(&mut self, call: &ScalarFunctionExpr) -> Translated<Option<Value>> {
        let is_numeric = *call.return_type() == NUMERIC;
        let op = match call.name() {
            "numeric_add" => Some(Operator::Plus),
            "numeric_sub" => Some(Operator::Minus),
            "numeric_mul" => Some(Operator::Multiply),
            "numeric_div" => Some(Operator::Divide),
            "numeric_key" | "numeric_order" | "numeric_uminus" => None,
            // Without digits that it is cut to.
            "convert" if is_plain(call, &self.schema) => None,
            "abs" if is_numeric => {
                let value = self.numeric(&call.args()[0])?;
                let own = self.absolute(&value, &value.data_type)?;
                let shown = value.shown;
                return Ok(Some(Value { shown, ..own }));
            }
            "convert" if matches!(call.return_type(), DataType::Decimal128(_, 0..)) => {
                let value = self.numeric(&call.args()[0])?;
                return self.converted(value, call.return_type()).map(Some);
            }
            "round" if is_numeric => return self.rounded(call).map(Some),
            _ => return Ok(None),
        };
        let values = call.args().iter().map(|arg| self.numeric(arg));
        let values = values.collect::<Translated<Vec<_>>>()?;
        Ok(Some(match (op, values.as_slice()) {
            (Some(Operator::Divide), [left, right]) => self.numeric_quotient(left, right)?,
            (Some(op), [left, right]) => {
                let (l, r) = (scale(&left.data_type), scale(&right.data_type));
                let after = match op {
                    Operator::Multiply => l.checked_add(r),
                    _ => Some(l.max(r)),
                };
                let after = after
                    .filter(|after| *after <= SCALE_MAX)
                    .ok_or("a scale beyond 128 bits")?;
                let data_type = DataType::Decimal128(38, after);
                let shown = (left.shown.is_some() || right.shown.is_some()).then(|| {
                    let (l, r) = (left.digits_shown(), right.digits_shown());
                    match op {
                        Operator::Multiply => format!("{l} + {r}"),
                        _ => format!("max_of<i64>({l}, {r})"),
                    }
                });
                let value = self.arithmetic(left.clone(), op, right.clone(), &data_type)?;
                let shown = shown.map(|shown| self.define("i64", shown, None, DataType::Int64, None).value);
                Value { shown, ..value }
            }
            (None, [value]) if call.name() == "numeric_uminus" => Value {
                shown: value.shown.clone(),
                ..self.negative(value.clone())?
            },
            (None, [value]) => value.clone(),
            _ => return Ok(None),
        }))
    }

    /// A numeric, decimal or integer as a decimal.
    pub(super) fn numeric(&mut self, expr: &PhysicalExprRef) -> Translated<Value> {
        let value = match collect_columns(expr).is_empty() {
            true => {
                let one = self.evaluated(expr, &[])?;
                self.literal(&decimal(&one)?)?
            }
            false => self.translate(expr)?,
        };
        let after = scale(&value.data_type);
        match is_exact(&value.data_type) && after >= 0 {
            true => Ok(Value {
                data_type: DataType::Decimal128(38, after),
                ..value
            }),
            false => Err(format!("a numeric of {}", value.data_type)),
        }
    }

    /// A quotient as PostgreSQL's `numeric_div` gives it: the digits that it shows depend on both operands
    /// (`select_div_scale`), so the value has as many as most need, and beside it goes how many those are. One that needs more,
    /// or is too large with as many, fails the row.
    fn numeric_quotient(&mut self, left: &Value, right: &Value) -> Translated<Value> {
        let unknown = "division of values of unknown range";
        let (l, r) = (left.range.ok_or(unknown)?, right.range.ok_or(unknown)?);
        let (after_l, after_r) = (scale(&left.data_type), scale(&right.data_type));
        let (l_max, r_max) = magnitude(l).zip(magnitude(r)).ok_or("division beyond 128 bits")?;
        let r_min = match r {
            (low, _) if low > 0 => low,
            (_, high) if high < 0 => -high,
            _ => 1,
        };
        // The smallest dividend with the largest divisor has most digits.
        let weight = |digits: u32, after: i8| (digits as i32 - i32::from(after)).div_euclid(4);
        let r_digits = r_max.max(1).ilog10();
        let most = 16 - 4 * (weight(0, after_l) - weight(r_digits, after_r) - 1);
        let most = most.max(after_l.into()).max(after_r.into()).min(SCALE_MAX.into()) as i8;
        // A constant divisor of twos and fives leaves no rest after some digits.
        let exact = (r.0 == r.1).then(|| ends_after(r_max)).flatten();
        let exact = exact.map(|own| (i32::from(after_l) - i32::from(after_r) + own).clamp(0, most.into()) as i8);
        let (mut digits, mut bound) = (exact.unwrap_or(most.min(QUOTIENT_DIGITS)), QUOTIENT_MAX);
        let most = exact.unwrap_or(most);
        let largest = |digits: i8| {
            let raise = i32::from(digits) + i32::from(after_r) - i32::from(after_l);
            let power = 10i128.checked_pow(raise.unsigned_abs())?;
            let all = match raise >= 0 {
                true => l_max.checked_mul(power)? / r_min,
                false => l_max / power / r_min,
            };
            // Rounded to fewer digits it may be larger.
            all.checked_add(all / 100_000_000 + 1)
                .filter(|all| *all <= QUOTIENT_MAX)
        };
        if let Some((known, largest)) = (digits..=most)
            .rev()
            .find_map(|digits| Some((digits, largest(digits)?)))
        {
            (digits, bound) = (known, largest);
        }
        let null = self.any_null([left, right]);
        let wanted: Vec<String> = self
            .guard
            .iter()
            .cloned()
            .chain(null.iter().map(|null| format!("!{null}")))
            .collect();
        let call = format!(
            "numeric_quotient({}, {after_l}, {}, {}, {after_r}, {}, {digits}, {})",
            left.value,
            left.digits_shown(),
            right.value,
            right.digits_shown(),
            c_number(bound),
        );
        let call = match wanted.is_empty() {
            true => call,
            false => format!("{} ? {call} : Quotient{{0, 0, true}}", wanted.join(" && ")),
        };
        let name = self.define("Quotient", call, None, DataType::Null, None).value;
        self.fail_if(null.as_ref(), &format!("!{name}.fits"));
        let data_type = DataType::Decimal128(38, digits);
        let value = self.define("i128", format!("{name}.value"), null, data_type, Some((-bound, bound)));
        let shown = self
            .define("i64", format!("{name}.shown"), None, DataType::Int64, None)
            .value;
        Ok(Value {
            shown: Some(shown),
            ..value
        })
    }

    /// A numeric cut to a decimal's digits, halves away from zero; one that has too many before the point fails the row.
    fn converted(&mut self, value: Value, data_type: &DataType) -> Translated<Value> {
        let (after, to) = (scale(&value.data_type), scale(data_type));
        if to >= after {
            let scaled = self.raised(value, to)?;
            let range = scaled.range.ok_or("a decimal of unknown range")?;
            let name = scaled.value;
            return self.checked(|cast| format!("{cast}{name}"), range, scaled.null, data_type);
        }
        let (call, bound) = in_units("round", &value, after - to)?;
        self.checked(|_| call.clone(), (-bound, bound), value.null, data_type)
    }

    /// `round(numeric, digits)` with a constant number of digits, or none.
    fn rounded(&mut self, call: &ScalarFunctionExpr) -> Translated<Value> {
        let refused = "rounding to digits that are not constant";
        let (value, to) = match call.args() {
            [value] => (value, Ok(ScalarValue::Int64(Some(0)))),
            [value, to] if collect_columns(to).is_empty() => {
                let one = self.evaluated(to, &[])?;
                let to = ScalarValue::try_from_array(&one, 0).and_then(|to| to.cast_to(&DataType::Int64));
                (value, to)
            }
            _ => return Err(refused.into()),
        };
        let Ok(ScalarValue::Int64(Some(to))) = to else {
            return Err(refused.into());
        };
        let to = i8::try_from(to).ok().filter(|to| (0..=SCALE_MAX).contains(to));
        let to = to.ok_or("rounding beyond the digits of 128 bits")?;
        let value = self.numeric(value)?;
        let after = scale(&value.data_type);
        if to >= after {
            let shown = Some(format!("(i64){to}"));
            return Ok(Value { shown, ..value });
        }
        let (call, bound) = in_units("round", &value, after - to)?;
        let data_type = DataType::Decimal128(38, to);
        Ok(self.define("i128", call, value.null, data_type, Some((-bound, bound))))
    }

    /// Brings numerics, if they have different digits, to the most of all; gives the digits that each shows where these are
    /// not those of its type.
    pub(super) fn of_one_scale(&mut self, mut values: Vec<&mut Value>) -> Translated<Option<Vec<String>>> {
        let is_null = |value: &Value| value.null.as_deref() == Some("true");
        let decimal = |value: &Value| matches!(value.data_type, DataType::Decimal128(_, 0..));
        let Some(first) = values
            .iter()
            .find(|value| !is_null(value))
            .map(|value| value.data_type.clone())
        else {
            return Ok(None);
        };
        let differ = values.iter().any(|value| value.data_type != first);
        let shows = values.iter().any(|value| value.shown.is_some());
        if !values.iter().all(|value| decimal(value)) || !differ && !shows {
            return Ok(None);
        }
        let after = values.iter().filter(|value| !is_null(value));
        let after = after.map(|value| scale(&value.data_type)).max().unwrap_or(0);
        let same = values
            .iter()
            .all(|value| is_null(value) || value.shown.is_none() && scale(&value.data_type) == after);
        let data_type = DataType::Decimal128(38, after);
        let mut shown = vec![];
        for value in &mut values {
            shown.push(value.digits_shown());
            **value = match is_null(value) {
                true => Value {
                    data_type: data_type.clone(),
                    ..value.clone()
                },
                false => Value {
                    data_type: data_type.clone(),
                    ..self.raised(value.clone(), after)?
                },
            };
        }
        Ok((!same).then_some(shown))
    }

    /// What precedes or follows all numerics of one value, as a decimal of this value, and whether it follows them; None: it is
    /// none.
    pub(super) fn of_bound(&mut self, expr: &PhysicalExprRef) -> Translated<Option<(Value, bool)>> {
        let Some(ScalarValue::LargeBinary(Some(bound))) = expr.downcast_ref::<Literal>().map(Literal::value) else {
            return Ok(None);
        };
        if !is_bound(bound) {
            return Ok(None);
        }
        let above = bound.last() == Some(&u8::MAX);
        Ok(self.key(compare_key(bound))?.map(|value| (value, above)))
    }

    /// The key of a numeric, which is constant, as a decimal; None: it is none.
    pub(super) fn of_key(&mut self, expr: &PhysicalExprRef) -> Translated<Option<Value>> {
        let (Some(ScalarValue::LargeBinary(Some(key))) | Some(ScalarValue::Binary(Some(key)))) =
            expr.downcast_ref::<Literal>().map(Literal::value)
        else {
            return Ok(None);
        };
        self.key(key)
    }

    fn key(&mut self, key: &[u8]) -> Translated<Option<Value>> {
        if Numeric::key_length(key) != Some(key.len()) {
            return Ok(None);
        }
        let Numeric::Finite(value) = Numeric::of_key(key) else {
            return Ok(None);
        };
        let after = i8::try_from(value.scale).ok().filter(|after| *after <= SCALE_MAX);
        let Some((unscaled, after)) = value.unscaled.to_i128().zip(after) else {
            return Ok(None);
        };
        self.literal(&ScalarValue::Decimal128(Some(unscaled), 38, after))
            .map(Some)
    }
}

/// After how many digits quotients by a number end: it has no factors but 2 and 5.
fn ends_after(mut divisor: i128) -> Option<i32> {
    let mut factors = [0, 0];
    for (factor, count) in [2, 5].into_iter().zip(&mut factors) {
        while divisor != 0 && divisor % factor == 0 {
            divisor /= factor;
            *count += 1;
        }
    }
    (divisor == 1).then_some(factors[0].max(factors[1]))
}

/// Whether a conversion is to numeric without a limit of digits.
fn is_plain(call: &ScalarFunctionExpr, schema: &Schema) -> bool {
    let field = call.return_field(schema);
    field.is_ok_and(|field| SqlType::from_field(&field) == Some(SqlType::Numeric))
}

/// A constant as a decimal.
fn decimal(one: &dyn Array) -> Translated<ScalarValue> {
    let refused = || String::from("a numeric beyond 128 bits");
    if *one.data_type() != NUMERIC {
        return ScalarValue::try_from_array(one, 0).map_err(|error| error.to_string());
    }
    let bytes = one.as_binary::<i64>();
    if bytes.is_null(0) {
        return Ok(ScalarValue::Decimal128(None, 38, 0));
    }
    let Numeric::Finite(value) = Numeric::from_bytes(bytes.value(0)) else {
        return Err(refused());
    };
    let after = i8::try_from(value.scale).ok().filter(|after| *after <= SCALE_MAX);
    let (unscaled, after) = value.unscaled.to_i128().zip(after).ok_or_else(refused)?;
    Ok(ScalarValue::Decimal128(Some(unscaled), 38, after))
}
