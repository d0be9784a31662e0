//! `json_populate_record(base, json)` and its kin: the base's columns, with the values that the json has for them.

use super::fill::{Item, records};
use crate::pg::conventions;
use crate::pg::error::{SqlError, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::json::{is_json, is_jsonb};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::json::scan;
use tenon_storage::parse::check_json;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Populate {
    name: &'static str,
    signature: Signature,
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let one = |name| {
        ScalarUDF::new_from_impl(Populate {
            name,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    };
    vec![one("json_populate_record"), one("jsonb_populate_record")]
}

fn failed<T>(state: crate::pg::error::SqlState, message: String) -> Result<T> {
    Err(to_datafusion(SqlError::new(state, message)))
}

impl ScalarUDFImpl for Populate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [base, json] = types else {
            let message = format!("function {} takes a record and a json value", self.name);
            return failed(state::UNDEFINED_FUNCTION, message);
        };
        let json = match json {
            DataType::LargeUtf8 => DataType::LargeUtf8,
            other if other.is_string() || other.is_null() => match self.name.starts_with("jsonb") {
                true => DataType::LargeUtf8,
                false => DataType::Utf8View,
            },
            _ => {
                let message = format!("function {} takes a record and a json value", self.name);
                return failed(state::UNDEFINED_FUNCTION, message);
            }
        };
        Ok(vec![base.clone(), json])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if !matches!(args.arg_fields[0].data_type(), DataType::Struct(_)) {
            let message = format!("first argument of {} must be a row type", self.name);
            return failed(state::DATATYPE_MISMATCH, message);
        }
        Ok(Arc::new(args.arg_fields[0].as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let (base, json) = (args.args[0].to_array(rows)?, args.args[1].to_array(rows)?);
        let json = cast(&json, &DataType::Utf8View)?;
        let json = json.as_string_view();
        if !is_json(&args.arg_fields[1]) && !is_jsonb(&args.arg_fields[1]) {
            let check = json.iter().flatten().try_for_each(check_json);
            check.map_err(|error| to_datafusion(error.into_error(SqlType::Json, "").into()))?;
        }
        let item = |text: Option<&str>| match text {
            None => Ok(Item::Kept),
            Some(text) => match scan::kind(text) {
                "object" => Ok(Item::Json(text.to_owned())),
                kind => {
                    let article = if kind == "array" { "an array" } else { "a scalar" };
                    let message = format!("cannot call {} on {article}", self.name);
                    failed(state::INVALID_PARAMETER_VALUE, message)
                }
            },
        };
        let items = json.iter().map(item).collect::<Result<Vec<_>>>()?;
        let DataType::Struct(fields) = base.data_type() else {
            return internal_err!("a record is a struct");
        };
        let filled: ArrayRef = records(fields, &items, Some(&base), &conventions::of(&args.config_options))?;
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&filled, 0)?)),
            false => Ok(ColumnarValue::Array(filled)),
        }
    }
}
