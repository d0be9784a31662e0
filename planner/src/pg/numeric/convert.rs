//! Numbers as numerics, and numerics as other types.

use super::Class;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::numeric::Numeric;
use tenon_storage::numeric::column::convert;
use tenon_storage::parse::parse_column;
use tenon_storage::types::NUMERIC;

/// An expression over numbers, or text, as a numeric. Constants become literals.
pub(crate) fn to_numeric(expr: Expr, own: &DataType) -> Result<Expr> {
    match expr {
        expr if *own == NUMERIC => Ok(expr),
        Expr::Placeholder(mut open) if open.field.is_none() => {
            open.field = Some(Arc::new(SqlType::Numeric.field("", true)));
            Ok(Expr::Placeholder(open))
        }
        Expr::Literal(value, _) => {
            let array = as_type(&value.to_array()?, SqlType::Numeric)?;
            Ok(Expr::Literal(ScalarValue::try_from_array(&array, 0)?, None))
        }
        other => Ok(call(other, SqlType::Numeric)),
    }
}

/// The expression converted to a type of numbers, or to text.
pub(crate) fn call(expr: Expr, target: SqlType) -> Expr {
    let function = Convert {
        target,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

/// Whether a cast between these types is `call`'s.
pub(crate) fn applies(from: &DataType, to: &DataType, target: Option<SqlType>) -> bool {
    let narrow = (from, to) == (&DataType::Float64, &DataType::Float32);
    // Where the digits and the power of ten are doubles, their quotient is the nearest one.
    let inexact =
        matches!(from, DataType::Decimal128(precision, scale) if *precision > 15 || !(0..=22).contains(scale));
    let (from, to) = (Class::of(from), Class::of(to));
    match (from, to) {
        (Class::Numeric, Class::Integer | Class::Decimal | Class::Float | Class::Text) => true,
        (Class::Numeric, Class::Numeric) => matches!(target, Some(SqlType::NumericWide(..))),
        (Class::Integer | Class::Decimal | Class::Float | Class::Null, Class::Numeric) => true,
        (Class::Float, Class::Decimal) => true,
        (Class::Decimal, Class::Float) => inexact,
        (Class::Float, Class::Float) => narrow,
        _ => false,
    }
}

/// Numbers, or text, as values of a type of numbers; numbers as text.
fn as_type(values: &ArrayRef, target: SqlType) -> Result<ArrayRef> {
    let storage = |error: tenon_storage::StorageError| to_datafusion(error.into());
    if target.is_string() {
        let numbers = convert(values, SqlType::Numeric).map_err(storage)?;
        let texts = numbers.as_binary::<i64>().iter();
        return Ok(Arc::new(StringViewArray::from_iter(
            texts.map(|value| value.map(|bytes| Numeric::from_bytes(bytes).to_string())),
        )));
    }
    if let DataType::Decimal128(_, scale) = values.data_type() {
        match target {
            SqlType::Float8 => return Ok(floats(values, *scale)),
            SqlType::Float4 => return Ok(reals(values, *scale)),
            _ => {}
        }
    }
    match Class::of(values.data_type()) {
        Class::Float if target == SqlType::Float4 => narrowed(values),
        Class::Text => {
            let texts = cast(values, &DataType::Utf8View)?;
            parse_column(target, texts.as_string_view().iter()).map_err(|(_, error)| storage(error))
        }
        Class::Other => plan_err!("{} as {target}", values.data_type()),
        _ => convert(values, target).map_err(storage),
    }
}

/// Decimals as the doubles that are nearest to them.
fn floats(values: &ArrayRef, scale: i8) -> ArrayRef {
    let power = 10f64.powi(i32::from(scale));
    let exact = (0..=22).contains(&scale);
    let floats: Float64Array =
        values
            .as_primitive::<Decimal128Type>()
            .unary(|value| match exact && value.unsigned_abs() <= 1 << 53 {
                true => value as f64 / power,
                false => format!("{value}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN),
            });
    Arc::new(floats)
}

/// The same of reals: not by doubles, as rounding twice would not give the nearest.
fn reals(values: &ArrayRef, scale: i8) -> ArrayRef {
    let reals: Float32Array = values
        .as_primitive::<Decimal128Type>()
        .unary(|value| format!("{value}e{}", -i32::from(scale)).parse().unwrap_or(f32::NAN));
    Arc::new(reals)
}

/// Doubles as reals; 22003 where they are beyond these.
fn narrowed(values: &ArrayRef) -> Result<ArrayRef> {
    let floats = cast(values, &DataType::Float64)?;
    let narrow = floats.as_primitive::<Float64Type>().iter().map(|value| {
        let Some(value) = value else { return Ok(None) };
        let narrow = value as f32;
        let what = match narrow {
            _ if narrow.is_infinite() && !value.is_infinite() => "overflow",
            _ if narrow == 0.0 && value != 0.0 => "underflow",
            _ => return Ok(Some(narrow)),
        };
        let message = format!("value out of range: {what}");
        Err(to_datafusion(SqlError::new(state::NUMERIC_VALUE_OUT_OF_RANGE, message)))
    });
    Ok(Arc::new(narrow.collect::<Result<Float32Array>>()?))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Convert {
    target: SqlType,
    signature: Signature,
}

impl ScalarUDFImpl for Convert {
    fn name(&self) -> &str {
        "convert"
    }

    /// As casts have it: that of what is converted.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.target.data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields[0].is_nullable();
        Ok(Arc::new(self.target.field(self.name(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { args.number_rows };
        let result = as_type(&args.args[0].to_array(rows)?, self.target)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
