//! `jsonb` as a key to compare, and as values of other types.

use super::call::{failed, invalid};
use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::array::type_name;
use crate::pg::functions::simple::function;
use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};
use tenon_storage::SqlType;
use tenon_storage::json::{Json, order_key};
use tenon_storage::parse::parse_decimal;

static ORDER: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(function(
        "jsonb_order",
        Signature::any(1, Volatility::Immutable),
        DataType::Binary,
        |args, _| {
            let texts = cast(&args[0], &DataType::LargeUtf8)?;
            let keys = texts.as_string::<i64>().iter().map(|text| {
                text.map(|text| Json::parse(text).map(|json| order_key(&json)))
                    .transpose()
                    .map_err(invalid)
            });
            Ok(Arc::new(BinaryArray::from_iter(keys.collect::<Result<Vec<_>>>()?)))
        },
    ))
});

/// What sorts, and is equal, as the value is.
pub(crate) fn ordered(expr: Expr) -> Expr {
    ORDER.call(vec![expr])
}

/// 42846 for a cast that PostgreSQL has not.
pub(crate) fn no_cast(from: &DataType, to: &Field) -> DataFusionError {
    let wanted = SqlType::from_field(to).map_or("json", SqlType::base_name);
    let message = format!("cannot cast type {} to {wanted}", type_name(from));
    to_datafusion(SqlError::new(SqlState("42846"), message))
}

fn numbers(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    scalars(args, rows, "number", |text| Ok(text.to_owned()))
}

fn whole_numbers(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    scalars(args, rows, "number", |text| {
        match parse_decimal(text.as_bytes(), 38, 0) {
            Ok(number) => Ok(number.to_string()),
            Err(_) => failed(state::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"),
        }
    })
}

fn booleans(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    scalars(args, rows, "boolean", |text| Ok(text.to_owned()))
}

fn scalars(args: &[ArrayRef], _: usize, wanted: &str, read: fn(&str) -> Result<String>) -> Result<ArrayRef> {
    let texts = cast(&args[0], &DataType::LargeUtf8)?;
    let out = texts.as_string::<i64>().iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        let kind = tenon_storage::json::scan::kind(text);
        if kind != wanted {
            let kind = if kind == "number" { "numeric" } else { kind };
            let target = if wanted == "number" { "numeric" } else { wanted };
            return failed(
                state::INVALID_PARAMETER_VALUE,
                format!("cannot cast jsonb {kind} to type {target}"),
            );
        }
        read(text).map(Some)
    });
    Ok(Arc::new(StringViewArray::from_iter(out.collect::<Result<Vec<_>>>()?)))
}

fn one(name: &'static str, body: fn(&[ArrayRef], usize) -> Result<ArrayRef>) -> ScalarUDF {
    function(name, Signature::any(1, Volatility::Immutable), DataType::Utf8View, body)
}

/// The text of a scalar that a cast of jsonb to this type reads.
pub(crate) fn scalar(expr: Expr, to: &DataType) -> Expr {
    let function = match to {
        DataType::Boolean => one("jsonb_boolean", booleans),
        to if to.is_integer() => one("jsonb_integer", whole_numbers),
        _ => one("jsonb_number", numbers),
    };
    Arc::new(function).call(vec![expr])
}

/// Its argument; json in the Arrow type of jsonb, which tells arrays of it from arrays of text. A name that no client can
/// write.
pub(crate) const CARRIED: &str = "\u{1}carried";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Carried {
    signature: Signature,
}

impl ScalarUDFImpl for Carried {
    fn name(&self) -> &str {
        CARRIED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let own = &args.arg_fields[0];
        Ok(match super::is_json(own) {
            true => Arc::new(SqlType::Jsonb.field(CARRIED, own.is_nullable())),
            false => own.clone(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args[0].cast_to(args.return_field.data_type(), None)
    }
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let carried = Carried {
        signature: Signature::any(1, Volatility::Immutable),
    };
    vec![ORDER.as_ref().clone(), ScalarUDF::new_from_impl(carried)]
}
