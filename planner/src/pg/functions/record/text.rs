//! `(a,"b c",)`: records as text.

use super::fill::{Item, column};
use crate::pg::conventions;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Text as records of a type.
pub(crate) fn from_text(expr: Expr, to: FieldRef) -> Expr {
    let function = FromText {
        to,
        signature: Signature::any(1, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FromText {
    to: FieldRef,
    signature: Signature,
}

impl ScalarUDFImpl for FromText {
    fn name(&self) -> &str {
        "record_of_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(self.to.as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if scalar { 1 } else { args.number_rows };
        let texts = cast(&args.args[0].to_array(rows)?, &DataType::Utf8View)?;
        let items = texts.as_string_view().iter().map(|text| match text {
            Some(text) => Item::Text(text.to_string()),
            None => Item::Null,
        });
        let items: Vec<Item> = items.collect();
        let records = column(&self.to, &items, None, &conventions::of(&args.config_options))?;
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&records, 0)?)),
            false => Ok(ColumnarValue::Array(records)),
        }
    }
}
