//! Values to text as PostgreSQL's output functions write them, where Arrow writes something else.

use crate::pg::conventions;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::fmt::Write;
use std::sync::Arc;
use tenon_storage::EnumType;
use tenon_storage::datetime::{self, Conventions};
use tenon_storage::numeric::Numeric;
use tenon_storage::parse::write_array;
use tenon_storage::types::NUMERIC;

pub(super) fn applies(from: &DataType) -> bool {
    matches!(
        from,
        DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Interval(_)
            | DataType::FixedSizeBinary(12 | 16)
            | DataType::Binary
            | DataType::BinaryView
            | DataType::List(_)
            | DataType::Struct(_)
    )
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
        let conventions = conventions::of(&args.config_options);
        let texts = cast(&texts(&args.args[0].to_array(rows)?, &conventions)?, &self.to)?;
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

/// As `collect`, by writers of bytes.
fn dates<T>(values: impl Iterator<Item = Option<T>>, write: impl Fn(T, &mut Vec<u8>)) -> ArrayRef {
    let mut bytes = Vec::new();
    let texts = values.map(|value| {
        value.map(|value| {
            bytes.clear();
            write(value, &mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    Arc::new(StringViewArray::from_iter(texts))
}

fn texts(values: &ArrayRef, conventions: &Conventions) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float32 => collect(values.as_primitive::<Float32Type>().iter(), |value, out| {
            float(&format!("{value:e}"), f64::from(value), 6, out);
        }),
        DataType::Float64 => collect(values.as_primitive::<Float64Type>().iter(), |value, out| {
            float(&format!("{value:e}"), value, 15, out);
        }),
        DataType::LargeBinary => collect(values.as_binary::<i64>().iter(), |value, out| {
            let _ = write!(out, "{}", Numeric::from_bytes(value));
        }),
        DataType::Date32 => dates(values.as_primitive::<Date32Type>().iter(), |days, out| {
            datetime::write_date(days, conventions, out);
        }),
        DataType::Time64(_) => {
            let micros = cast(values, &DataType::Time64(TimeUnit::Microsecond))?;
            dates(
                micros.as_primitive::<Time64MicrosecondType>().iter(),
                datetime::write_time,
            )
        }
        DataType::FixedSizeBinary(12) => dates(values.as_fixed_size_binary().iter(), |bytes, out| {
            let (us, east_s) = datetime::timetz_of(bytes);
            datetime::write_timetz(us, east_s, out);
        }),
        of if let Some(of) = EnumType::of(of) => cast(&of.texts(values), &DataType::Utf8View)?,
        DataType::Timestamp(_, zone) => {
            let micros = cast(values, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
            let write = match zone {
                Some(_) => datetime::write_timestamptz,
                None => datetime::write_timestamp,
            };
            dates(micros.as_primitive::<TimestampMicrosecondType>().iter(), |us, out| {
                write(us, conventions, out);
            })
        }
        DataType::Interval(_) => {
            let wide = cast(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            dates(wide.as_primitive::<IntervalMonthDayNanoType>().iter(), |value, out| {
                datetime::write_interval(value.into(), conventions, out);
            })
        }
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            let nested = matches!(lists.values().data_type(), DataType::List(_));
            let (items, offsets) = (output(lists.values(), conventions)?, lists.value_offsets());
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
            let fields = record
                .columns()
                .iter()
                .map(|field| output(field, conventions))
                .collect::<Result<Vec<_>>>()?;
            let rows = (0..record.len()).map(|row| record.is_valid(row).then_some(row));
            collect(rows, |row, out| {
                let own = fields.iter().map(|field| field.as_string_view());
                write_record(own.map(|field| field.is_valid(row).then(|| field.value(row))), out);
            })
        }
        DataType::Binary => collect(values.as_binary::<i32>().iter(), |bits, out| {
            out.extend(bits.iter().map(|bit| char::from(*bit)));
        }),
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
pub(crate) fn output(values: &ArrayRef, conventions: &Conventions) -> Result<ArrayRef> {
    let texts = match values.data_type() {
        DataType::Boolean => collect(values.as_boolean().iter(), |value, out| {
            out.push(if value { 't' } else { 'f' });
        }),
        other if applies(other) || *other == NUMERIC => texts(values, conventions)?,
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
}
