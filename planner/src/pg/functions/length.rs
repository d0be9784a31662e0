//! `length`: characters of a text, bytes of a bytea, bits of a bit string.

use datafusion::arrow::array::{ArrayRef, AsArray, Int32Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Length {
    signature: Signature,
}

impl Length {
    pub(super) fn udf() -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::BinaryView] => Ok(vec![DataType::BinaryView]),
            [DataType::Binary] => Ok(vec![DataType::Binary]),
            [one] if one.is_string() || one.is_null() => Ok(vec![DataType::Utf8View]),
            _ => plan_err!("Failed to coerce arguments to satisfy a call to 'length' function"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let values = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let lengths: ArrayRef = match values.data_type() {
            DataType::BinaryView => {
                let values = values.as_binary_view().iter();
                Arc::new(values.map(|bytes| Some(bytes?.len() as i32)).collect::<Int32Array>())
            }
            DataType::Binary => {
                let values = values.as_binary::<i32>().iter();
                Arc::new(values.map(|bits| Some(bits?.len() as i32)).collect::<Int32Array>())
            }
            _ => {
                let values = values.as_string_view().iter();
                Arc::new(
                    values
                        .map(|text| Some(text?.chars().count() as i32))
                        .collect::<Int32Array>(),
                )
            }
        };
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?));
        }
        Ok(ColumnarValue::Array(lengths))
    }
}
