//! `||` of texts, which DataFusion would join without a look at their lengths.

use super::wrapped;
use crate::pg::semantics::call_names;
use datafusion::arrow::array::{Array, StringViewBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::cast::as_string_view_array;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

pub(crate) const NAME: &str = "textcat";

/// The function, of two texts.
pub(crate) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let plain = Arc::new(ScalarUDF::new_from_impl(TextCat {
            signature: Signature::any(2, Volatility::Immutable),
        }));
        wrapped(&plain).unwrap_or(plain)
    });
    FUNCTION.clone()
}

/// Whether a function is this one.
pub(crate) fn is_textcat(function: &ScalarUDF) -> bool {
    function.name() == NAME
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TextCat {
    signature: Signature,
}

impl ScalarUDFImpl for TextCat {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(call_names::of_call(NAME, args))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let wide = [DataType::Utf8View, DataType::LargeUtf8];
        let found = wide.into_iter().find(|wide| types.contains(wide));
        Ok(found.unwrap_or(DataType::Utf8))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let texts = |value: &ColumnarValue| match value {
            ColumnarValue::Scalar(scalar) => Ok((cast(&scalar.to_array()?, &DataType::Utf8View)?, 0)),
            ColumnarValue::Array(array) => {
                Ok::<_, datafusion::error::DataFusionError>((cast(array, &DataType::Utf8View)?, 1))
            }
        };
        let ((left, left_step), (right, right_step)) = (texts(&args.args[0])?, texts(&args.args[1])?);
        let (left, right) = (as_string_view_array(&left)?, as_string_view_array(&right)?);
        let constant = left_step + right_step == 0;
        let rows = if constant { 1 } else { args.number_rows };
        let mut made = StringViewBuilder::with_capacity(rows);
        let mut text = String::new();
        for row in 0..rows {
            let (a, b) = (row * left_step, row * right_step);
            if left.is_null(a) || right.is_null(b) {
                made.append_null();
                continue;
            }
            text.clear();
            text.push_str(left.value(a));
            text.push_str(right.value(b));
            made.append_value(&text);
        }
        let made = cast(&made.finish(), args.return_field.data_type())?;
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?));
        }
        Ok(ColumnarValue::Array(made))
    }
}
