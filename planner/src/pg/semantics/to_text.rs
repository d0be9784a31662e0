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
use tenon_storage::datetime::{self, Conventions};
use tenon_storage::float_text;
use tenon_storage::network::{self, Address, INET};
use tenon_storage::numeric::Numeric;
use tenon_storage::parse::{write_array, write_record};
use tenon_storage::range;
use tenon_storage::types::NUMERIC;
use tenon_storage::{EnumType, SqlType};

pub(super) fn applies(from: &DataType) -> bool {
    matches!(
        from,
        DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Interval(_)
            | DataType::FixedSizeBinary(6 | 7 | 8 | 12 | 16 | 18 | 34)
            | DataType::Binary
            | DataType::BinaryView
            | DataType::List(_)
            | DataType::LargeList(_)
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
fn by_bytes<T>(values: impl Iterator<Item = Option<T>>, write: impl Fn(T, &mut Vec<u8>)) -> ArrayRef {
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
        DataType::Float32 => by_bytes(values.as_primitive::<Float32Type>().iter(), float_text::write_f32),
        DataType::Float64 => by_bytes(values.as_primitive::<Float64Type>().iter(), float_text::write_f64),
        DataType::LargeBinary => collect(values.as_binary::<i64>().iter(), |value, out| {
            let _ = write!(out, "{}", Numeric::from_bytes(value));
        }),
        DataType::Date32 => by_bytes(values.as_primitive::<Date32Type>().iter(), |days, out| {
            datetime::write_date(days, conventions, out);
        }),
        DataType::Time64(_) => {
            let micros = cast(values, &DataType::Time64(TimeUnit::Microsecond))?;
            by_bytes(
                micros.as_primitive::<Time64MicrosecondType>().iter(),
                datetime::write_time,
            )
        }
        DataType::FixedSizeBinary(12) => by_bytes(values.as_fixed_size_binary().iter(), |bytes, out| {
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
            by_bytes(micros.as_primitive::<TimestampMicrosecondType>().iter(), |us, out| {
                write(us, conventions, out);
            })
        }
        DataType::Interval(_) => {
            let wide = cast(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            by_bytes(wide.as_primitive::<IntervalMonthDayNanoType>().iter(), |value, out| {
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
        // int2vector and oidvector.
        DataType::LargeList(_) => {
            let lists = values.as_list::<i64>();
            let (items, offsets) = (output(lists.values(), conventions)?, lists.value_offsets());
            let items = items.as_string_view();
            let rows = (0..lists.len()).map(|row| lists.is_valid(row).then_some(row));
            collect(rows, |row, out| {
                for (nth, at) in (offsets[row] as usize..offsets[row + 1] as usize).enumerate() {
                    if nth > 0 {
                        out.push(' ');
                    }
                    out.push_str(items.value(at));
                }
            })
        }
        of if let (Some(of), Some(ranges)) = (SqlType::range_of(of), range::Values::of(values)) => {
            by_bytes(ranges.iter(), |bytes, out| {
                range::write_text(of, bytes, conventions, out)
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
        // With its mask, always.
        of if *of == INET => collect(values.as_fixed_size_binary().iter(), |bytes, out| {
            let own = Address::from_bytes(bytes);
            let _ = write!(out, "{}/{}", own.host(), own.mask);
        }),
        of if let Some(of) = SqlType::address_of(of) => by_bytes(values.as_fixed_size_binary().iter(), |bytes, out| {
            network::write_text(of, bytes, out);
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
        of if *of == INET => by_bytes(values.as_fixed_size_binary().iter(), |bytes, out| {
            network::write_text(SqlType::Inet, bytes, out);
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
