//! `+`, `-`, `*`, `/`, `%` and casts. Where the ranges of the operands prove that nothing overflows the result's type, the
//! plain operation; else it is done in 128 bits, and a result outside of the type fails the pair.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::Operator;

use super::translator::Translator;
use super::types::{Range, Translated, c_number, c_type, combined, is_exact, magnitude, scale, type_range};
use super::value::Value;

impl Translator {
    pub fn arithmetic(&mut self, left: Value, op: Operator, right: Value, data_type: &DataType) -> Translated<Value> {
        let refused = || Err(format!("no device form of {} {op} {}", left.data_type, right.data_type));
        let types = [&left.data_type, &right.data_type, data_type];
        if types
            .iter()
            .all(|data_type| data_type.is_floating() && *data_type == types[0])
        {
            return match op {
                Operator::Modulo => refused(),
                Operator::Divide => Ok(self.plain(left, "/", right, data_type)?),
                Operator::Plus => self.plain(left, "+", right, data_type),
                Operator::Minus => self.plain(left, "-", right, data_type),
                _ => self.plain(left, "*", right, data_type),
            };
        }
        if !types.iter().all(|data_type| is_exact(data_type)) {
            return refused();
        }
        let decimal = matches!(data_type, DataType::Decimal128(_, _));
        match op {
            Operator::Multiply if scale(&left.data_type) + scale(&right.data_type) == scale(data_type) => {
                self.exact(left, op, right, data_type)
            }
            Operator::Plus | Operator::Minus | Operator::Modulo => {
                let after = scale(&left.data_type).max(scale(&right.data_type));
                if after != scale(data_type) {
                    return refused();
                }
                let (left, right) = (self.raised(left, after)?, self.raised(right, after)?);
                match op {
                    Operator::Modulo => self.quotient(left, op, right, data_type),
                    _ => self.exact(left, op, right, data_type),
                }
            }
            Operator::Divide if !decimal => self.quotient(left, op, right, data_type),
            _ => refused(),
        }
    }

    /// An operation on floats. A NaN out of numbers, as of infinity minus infinity, has another sign on a GPU than on a
    /// CPU, and so another place in the order: it fails the pair.
    fn plain(&mut self, left: Value, sign: &str, right: Value, data_type: &DataType) -> Translated<Value> {
        let null = self.any_null([&left, &right]);
        let (a, b) = (left.value, right.value);
        let result = self.define(
            c_type(data_type)?,
            format!("{a} {sign} {b}"),
            null,
            data_type.clone(),
            None,
        );
        let v = &result.value;
        self.fail_if(result.null.as_ref(), &format!("{v} != {v} && {a} == {a} && {b} == {b}"));
        Ok(result)
    }

    /// A quotient of floats, where division by zero is an error.
    pub fn float_quotient(&mut self, left: Value, right: Value, data_type: &DataType) -> Translated<Value> {
        self.fail_if(right.null.as_ref(), &format!("{} == 0", right.value));
        self.plain(left, "/", right, data_type)
    }

    /// A sum, difference or product of whole numbers.
    fn exact(&mut self, left: Value, op: Operator, right: Value, data_type: &DataType) -> Translated<Value> {
        let (Some(l), Some(r)) = (left.range, right.range) else {
            return Err("arithmetic on values of unknown range".into());
        };
        let null = self.any_null([&left, &right]);
        let Some(range) = combined(l, op, r) else {
            return self.within_128_bits((&left.value, op, &right.value), null, data_type);
        };
        let value = format!("{op}");
        let operation = |wide: &str| format!("{wide}{} {value} {wide}{}", left.value, right.value);
        self.checked(operation, range, null, data_type)
    }

    /// A sum, difference or product of which the operands' ranges do not prove that 128 bits hold it: what they do not hold, or the
    /// type, fails the pair.
    fn within_128_bits(
        &mut self,
        (left, op, right): (&str, Operator, &str),
        null: Option<String>,
        data_type: &DataType,
    ) -> Translated<Value> {
        let function = match op {
            Operator::Plus => "checked_add",
            Operator::Minus => "checked_subtract",
            _ => "checked_multiply",
        };
        let call = format!("{function}((i128){left}, (i128){right})");
        let name = self.define("Checked", call, None, DataType::Null, None).value;
        // A null pair's value is anything that the range holds.
        let all = type_range(&DataType::Decimal128(38, 0)).ok_or("a decimal of no range")?;
        let [low, high] = [all.0, all.1].map(c_number);
        let outside = format!("!{name}.fits || {name}.value < {low} || {name}.value > {high}");
        let outside = self.define_truth(outside).value;
        self.fail_if(null.as_ref(), &outside);
        let value = format!("{outside} ? (i128)0 : {name}.value");
        let value = self.define("i128", value, None, data_type.clone(), None).value;
        self.checked(|cast| format!("{cast}{value}"), all, null, data_type)
    }

    /// A number with so many digits after the point, as `scaled` gives it where its range proves that 128 bits hold it; else one
    /// that they do not hold fails the pair.
    pub fn raised(&mut self, value: Value, after: i8) -> Translated<Value> {
        let by = u32::try_from(after - scale(&value.data_type)).ok();
        let factor = by.and_then(|by| 10i128.checked_pow(by));
        match (self.scaled(value.clone(), after), factor) {
            (Err(_), Some(factor)) if value.range.is_some() => {
                let factor = c_number(factor);
                let operation = (value.value.as_str(), Operator::Multiply, factor.as_str());
                self.within_128_bits(operation, value.null.clone(), &DataType::Decimal128(38, after))
            }
            (scaled, _) => scaled,
        }
    }

    /// The value of an operation whose exact result lies in `range`, given what its operands are cast to.
    pub fn checked(
        &mut self,
        operation: impl Fn(&str) -> String,
        range: Range,
        null: Option<String>,
        data_type: &DataType,
    ) -> Translated<Value> {
        let c_type = c_type(data_type)?;
        let allowed = type_range(data_type).ok_or_else(|| format!("arithmetic of {data_type}"))?;
        if allowed.0 <= range.0 && range.1 <= allowed.1 {
            // Operands of a result that fits may themselves be wider.
            let cast = if c_type == "i64" { "" } else { "(i128)" };
            let value = format!("({c_type})({})", operation(cast));
            return Ok(self.define(c_type, value, null, data_type.clone(), Some(range)));
        }
        let wide = self
            .define("i128", operation("(i128)"), None, data_type.clone(), None)
            .value;
        let [low, high] = [allowed.0, allowed.1].map(c_number);
        self.fail_if(null.as_ref(), &format!("{wide} < {low} || {wide} > {high}"));
        // A null pair's value is anything that the type holds.
        let value = format!("{wide} < {low} ? {low} : {wide} > {high} ? {high} : {wide}");
        let range = (range.0.max(allowed.0), range.1.min(allowed.1));
        Ok(self.define(
            c_type,
            format!("({c_type})({value})"),
            null,
            data_type.clone(),
            Some(range),
        ))
    }

    /// A quotient of integers, cut off towards zero, or a remainder.
    pub fn quotient(&mut self, left: Value, op: Operator, right: Value, data_type: &DataType) -> Translated<Value> {
        let (Some(l), Some(r), Some(allowed)) = (left.range, right.range, type_range(data_type)) else {
            return Err("division of values of unknown range".into());
        };
        let null = self.any_null([&left, &right]);
        let (a, b) = (left.value, right.value);
        let mut none = vec![];
        if r.0 <= 0 && 0 <= r.1 {
            none.push(format!("{b} == 0"));
        }
        if l.0 <= allowed.0 && r.0 <= -1 && -1 <= r.1 {
            none.push(format!("({a} <= {} && {b} == -1)", c_number(allowed.0)));
        }
        let mut value = format!("{a} {op} {b}");
        if !none.is_empty() {
            let none = self.define_truth(none.join(" || ")).value;
            self.fail_if(null.as_ref(), &none);
            value = format!("{none} ? 0 : {value}");
        }
        let bound = magnitude(l).ok_or("division beyond 128 bits")?;
        Ok(self.define(
            c_type(data_type)?,
            value,
            null,
            data_type.clone(),
            Some((-bound, bound)),
        ))
    }

    /// A number with so many digits after the point, not fewer than it has. In 128 bits, beyond its own type.
    pub fn scaled(&mut self, value: Value, after: i8) -> Translated<Value> {
        let own = scale(&value.data_type);
        if own == after {
            return Ok(value);
        }
        let factor = u32::try_from(after - own).ok().and_then(|by| 10i128.checked_pow(by));
        let factor = factor.ok_or("a scale beyond 128 bits")?;
        let range = value
            .range
            .and_then(|range| combined(range, Operator::Multiply, (factor, factor)));
        let range = range.ok_or("a decimal beyond 128 bits")?;
        let product = format!("(i128){} * {}", value.value, c_number(factor));
        let data_type = DataType::Decimal128(38, after);
        Ok(self.define("i128", product, value.null, data_type, Some(range)))
    }

    pub fn cast(&mut self, inner: Value, to: &DataType) -> Translated<Value> {
        use DataType::*;
        let from = inner.data_type.clone();
        let refuse = || Err(format!("a cast of {from} to {to}"));
        let name = c_type(to)?;
        let same_bits = matches!(
            (&from, to),
            (Date32, Int32)
                | (Int32, Date32)
                | (
                    Timestamp(TimeUnit::Microsecond, _) | Time64(TimeUnit::Microsecond),
                    Int64
                )
                | (Int64, Timestamp(TimeUnit::Microsecond, None))
        );
        let whole = |data_type: &DataType| data_type.is_signed_integer() || *data_type == UInt64;
        match inner.range {
            _ if from == *to => Ok(inner),
            _ if from.is_string() && to.is_string() => Ok(Value {
                data_type: to.clone(),
                ..inner
            }),
            _ if same_bits => Ok(Value {
                data_type: to.clone(),
                ..inner
            }),
            Some(range) if whole(&from) && whole(to) => {
                let value = inner.value;
                self.checked(|cast| format!("{cast}{value}"), range, inner.null, to)
            }
            Some(_)
                if (is_exact(&from) || from == UInt64)
                    && matches!(to, Decimal128(_, after) if *after >= scale(&from)) =>
            {
                let wide = self.raised(inner, scale(to))?;
                let range = wide.range.ok_or("a decimal of unknown range")?;
                let value = wide.value;
                self.checked(|cast| format!("{cast}{value}"), range, wide.null, to)
            }
            _ if (from == Float32 && *to == Float64) || (whole(&from) && to.is_floating()) => {
                let value = format!("({name}){}", inner.value);
                Ok(self.define(name, value, inner.null, to.clone(), None))
            }
            _ => refuse(),
        }
    }
}
