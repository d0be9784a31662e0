//! Text to values, by storage's parsers: the same rules as for COPY.

use crate::pg::conventions;
use crate::pg::errors::to_datafusion;
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::datetime::Conventions;
use tenon_storage::parse::{parse_column_by, parse_scalar_by};

/// One value. An explicit cast cuts a string that is too long instead of refusing it.
pub(super) fn one(target: SqlType, text: &str, conventions: &Conventions) -> Result<ArrayRef> {
    let cut = cut(target, text);
    parse_scalar_by(target, cut, conventions).map_err(|error| to_datafusion(error.into()))
}

fn cut(target: SqlType, text: &str) -> &str {
    match target {
        SqlType::VarcharOf(limit) | SqlType::CharOf(limit) => text
            .char_indices()
            .nth(limit as usize)
            .map_or(text, |(end, _)| &text[..end]),
        _ => text,
    }
}

pub(super) fn call(expr: Expr, target: SqlType) -> Expr {
    let function = Parse {
        target,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Parse {
    target: SqlType,
    signature: Signature,
}

impl ScalarUDFImpl for Parse {
    fn name(&self) -> &str {
        "parse"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("parse({}, {})", args[0].schema_name(), self.target))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.target.data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(
            self.target.field(self.name(), args.arg_fields[0].is_nullable()),
        ))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let conventions = conventions::of(&args.config_options);
        if let ColumnarValue::Scalar(value) = &args.args[0] {
            return match value.try_as_str().flatten() {
                Some(text) => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                    &one(self.target, text, &conventions)?,
                    0,
                )?)),
                None => Ok(ColumnarValue::Scalar(ScalarValue::try_from(&self.target.data_type())?)),
            };
        }
        let texts = cast(&args.args[0].to_array(args.number_rows)?, &DataType::Utf8View)?;
        let texts = texts.as_string_view();
        let fields = texts.iter().map(|text| text.map(|text| cut(self.target, text)));
        let parsed =
            parse_column_by(self.target, fields, &conventions).map_err(|(_, error)| to_datafusion(error.into()))?;
        Ok(ColumnarValue::Array(parsed))
    }
}
