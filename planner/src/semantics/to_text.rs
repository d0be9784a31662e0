//! Values to text as PostgreSQL's output functions write them, where Arrow writes something else.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Float32Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::fmt::Write;
use std::sync::Arc;
use tenon_storage::numeric::Shown;
use tenon_storage::parse::write_array;

pub(super) fn applies(from: &DataType) -> bool {
    matches!(
        from,
        DataType::Float32
            | DataType::Float64
            | DataType::Timestamp(..)
            | DataType::Interval(_)
            | DataType::FixedSizeBinary(16)
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::List(_)
            | DataType::Struct(_)
    ) || Shown::of(from) != Shown::Exact
}

pub(super) fn call(expr: Expr, to: &DataType) -> Expr {
    let function = ToText {
        to: to.clone(),
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToText {
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for ToText {
    fn name(&self) -> &str {
        "to_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { args.number_rows };
        let texts = cast(&texts(&args.args[0].to_array(rows)?)?, &self.to)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?));
        }
        Ok(ColumnarValue::Array(texts))
    }
}

fn collect<T>(values: impl Iterator<Item = Option<T>>, write: impl Fn(T, &mut String)) -> ArrayRef {
    let texts = values.map(|value| {
        value.map(|value| {
            let mut text = String::new();
            write(value, &mut text);
            text
        })
    });
    Arc::new(StringViewArray::from_iter(texts))
}

fn texts(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float32 => collect(values.as_primitive::<Float32Type>().iter(), |value, out| {
            float(&format!("{value:e}"), f64::from(value), 6, out);
        }),
        DataType::Float64 => collect(values.as_primitive::<Float64Type>().iter(), |value, out| {
            float(&format!("{value:e}"), value, 15, out);
        }),
        DataType::Decimal128(_, scale) => {
            let (shown, scale) = (Shown::of(values.data_type()), *scale);
            collect(values.as_primitive::<Decimal128Type>().iter(), move |value, out| {
                numeric(&value.to_string(), shown, scale, out);
            })
        }
        DataType::Decimal256(_, scale) => {
            let (shown, scale) = (Shown::of(values.data_type()), *scale);
            collect(values.as_primitive::<Decimal256Type>().iter(), move |value, out| {
                numeric(&value.to_string(), shown, scale, out);
            })
        }
        DataType::Timestamp(_, zone) => {
            let zoned = zone.is_some();
            let micros = cast(values, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
            collect(
                micros.as_primitive::<TimestampMicrosecondType>().iter(),
                move |value, out| {
                    timestamp(value, zoned, out);
                },
            )
        }
        DataType::Interval(_) => {
            let wide = cast(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            collect(wide.as_primitive::<IntervalMonthDayNanoType>().iter(), interval)
        }
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            let nested = matches!(lists.values().data_type(), DataType::List(_));
            let (items, offsets) = (output(lists.values())?, lists.value_offsets());
            let items = items.as_string_view();
            let rows = (0..lists.len()).map(|row| lists.is_valid(row).then_some(row));
            collect(rows, |row, out| {
                let own = offsets[row] as usize..offsets[row + 1] as usize;
                let own = own.map(|at| items.is_valid(at).then(|| items.value(at)));
                match nested {
                    true => write_nested(own, out),
                    false => write_array(own, out),
                }
            })
        }
        DataType::Struct(_) => {
            let record = values.as_struct();
            let fields = record.columns().iter().map(output).collect::<Result<Vec<_>>>()?;
            let rows = (0..record.len()).map(|row| record.is_valid(row).then_some(row));
            collect(rows, |row, out| {
                let own = fields.iter().map(|field| field.as_string_view());
                write_record(own.map(|field| field.is_valid(row).then(|| field.value(row))), out);
            })
        }
        DataType::FixedSizeBinary(_) => collect(values.as_fixed_size_binary().iter(), |bytes, out| {
            for (at, byte) in bytes.iter().enumerate() {
                if matches!(at, 4 | 6 | 8 | 10) {
                    out.push('-');
                }
                let _ = write!(out, "{byte:02x}");
            }
        }),
        _ => {
            let bytes = cast(values, &DataType::BinaryView)?;
            collect(bytes.as_binary_view().iter(), |bytes, out| {
                out.push_str("\\x");
                for byte in bytes {
                    let _ = write!(out, "{byte:02x}");
                }
            })
        }
    })
}

/// Values as their types' output functions write them, which within arrays and records differs from a cast to text.
pub(crate) fn output(values: &ArrayRef) -> Result<ArrayRef> {
    let texts = match values.data_type() {
        DataType::Boolean => collect(values.as_boolean().iter(), |value, out| {
            out.push(if value { 't' } else { 'f' });
        }),
        other if applies(other) => texts(values)?,
        _ => values.clone(),
    };
    Ok(cast(&texts, &DataType::Utf8View)?)
}

/// Arrays within an array, which are written already.
fn write_nested<'a>(items: impl Iterator<Item = Option<&'a str>>, out: &mut String) {
    let items: Vec<&str> = items.map(|item| item.unwrap_or("{}")).collect();
    if items.iter().all(|item| *item == "{}") {
        return out.push_str("{}");
    }
    let _ = write!(out, "{{{}}}", items.join(","));
}

/// Fields of a record: NULL is empty, and quotes are doubled.
fn write_record<'a>(fields: impl Iterator<Item = Option<&'a str>>, out: &mut String) {
    out.push('(');
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(',');
        }
        let Some(field) = field else { continue };
        let special = |c: char| c.is_ascii_whitespace() || c == '\u{b}' || "(),\"\\".contains(c);
        if field.is_empty() || field.contains(special) {
            let _ = write!(out, "\"{}\"", field.replace('\\', "\\\\").replace('"', "\"\""));
        } else {
            out.push_str(field);
        }
    }
    out.push(')');
}

/// An unscaled numeric, without the digits after the point that are not shown.
fn numeric(unscaled: &str, shown: Shown, scale: i8, out: &mut String) {
    let digits = unscaled.trim_start_matches('-');
    let kept = shown.scale(digits.as_bytes(), scale) as usize;
    let width = scale.max(0) as usize;
    let padded = format!("{digits:0>least$}", least = width + 1);
    let (whole, part) = padded.split_at(padded.len() - width);
    if unscaled.starts_with('-') {
        out.push('-');
    }
    out.push_str(whole);
    if kept > 0 {
        let _ = write!(out, ".{}", &part[..kept]);
    }
}

/// A float from its shortest scientific form: plain while the exponent is small, as `%g` with `digits` has it.
fn float(scientific: &str, value: f64, digits: i32, out: &mut String) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
        return;
    }
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let figures: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    out.push_str(sign);
    if exponent < 0 {
        out.push_str("0.");
        (1..-exponent).for_each(|_| out.push('0'));
        out.push_str(&figures);
        return;
    }
    let whole = exponent as usize + 1;
    for at in 0..whole.max(figures.len()) {
        if at == whole {
            out.push('.');
        }
        out.push(figures.as_bytes().get(at).map_or('0', |digit| char::from(*digit)));
    }
}

fn timestamp(us: i64, zoned: bool, out: &mut String) {
    if us == i64::MAX || us == i64::MIN {
        return out.push_str(if us > 0 { "infinity" } else { "-infinity" });
    }
    let Some(at) = chrono::DateTime::from_timestamp_micros(us) else {
        return out.push('?');
    };
    let _ = write!(out, "{}", at.format("%Y-%m-%d %H:%M:%S"));
    fraction(us.rem_euclid(1_000_000), out);
    if zoned {
        out.push_str("+00");
    }
}

fn fraction(us: i64, out: &mut String) {
    if us != 0 {
        let digits = format!("{us:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
}

/// `1 year 2 mons -3 days 04:05:06.5`.
fn interval(value: IntervalMonthDayNano, out: &mut String) {
    let (years, months) = (value.months / 12, value.months % 12);
    let mut before_negative = false;
    let mut part = |count: i32, one: &str, many: &str, out: &mut String| {
        if count == 0 {
            return;
        }
        if !out.is_empty() {
            out.push(' ');
            if before_negative && count > 0 {
                out.push('+');
            }
        }
        before_negative = count < 0;
        let _ = write!(out, "{count} {}", if count == 1 { one } else { many });
    };
    part(years, "year", "years", out);
    part(months, "mon", "mons", out);
    part(value.days, "day", "days", out);
    let us = value.nanoseconds / 1000;
    if us == 0 && !out.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push(' ');
        if before_negative && us > 0 {
            out.push('+');
        }
    }
    if us < 0 {
        out.push('-');
    }
    let us = us.unsigned_abs() as i64;
    let _ = write!(
        out,
        "{:02}:{:02}:{:02}",
        us / 3_600_000_000,
        us / 60_000_000 % 60,
        us / 1_000_000 % 60
    );
    fraction(us % 1_000_000, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(value: f64) -> String {
        let mut out = String::new();
        float(&format!("{value:e}"), value, 15, &mut out);
        out
    }

    #[test]
    fn numbers_as_postgres_prints_them() {
        assert_eq!(floats(1.0), "1");
        assert_eq!(floats(-0.5), "-0.5");
        assert_eq!(floats(1e20), "1e+20");
        assert_eq!(floats(123456.75), "123456.75");
        assert_eq!(floats(0.0001), "0.0001");
        assert_eq!(floats(0.00001), "1e-05");
        assert_eq!(floats(0.0), "0");
    }

    #[test]
    fn intervals() {
        let text = |months, days, nanoseconds| {
            let mut out = String::new();
            interval(
                IntervalMonthDayNano {
                    months,
                    days,
                    nanoseconds,
                },
                &mut out,
            );
            out
        };
        assert_eq!(text(14, 3, 0), "1 year 2 mons 3 days");
        assert_eq!(text(0, 0, 0), "00:00:00");
        assert_eq!(text(-1, 2, 3_600_000_000_000), "-1 mons +2 days 01:00:00");
        assert_eq!(text(0, 0, -1_500_000_000), "-00:00:01.5");
    }
}
