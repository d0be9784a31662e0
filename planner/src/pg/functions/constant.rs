//! A function whose value is known when the statement is planned.

use crate::pg::types::{OID_KEY, type_oid};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// True; the FILTER of an aggregate that stands in a function's body, over the function's arguments. It belongs to the
/// body's query, whatever columns a call gives for them.
pub(crate) const OF_BODY: &str = "tenon_of_body";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConstantFunction {
    name: String,
    value: ScalarValue,
    signature: Signature,
}

/// The oid of `void`.
const VOID: u32 = 2278;

pub(crate) fn is_void(field: &Field) -> bool {
    type_oid(field) == Some(VOID)
}

/// A field of the type that says nothing, `void`: its values are empty texts.
pub(crate) fn as_void(field: Field) -> Field {
    field.with_metadata([(OID_KEY.to_string(), VOID.to_string())].into())
}

impl ConstantFunction {
    /// A function that gives `value`, whatever its arguments.
    pub(crate) fn udf(name: &str, value: ScalarValue) -> Arc<ScalarUDF> {
        let signature = Signature::one_of(
            vec![
                datafusion::logical_expr::TypeSignature::Nullary,
                datafusion::logical_expr::TypeSignature::VariadicAny,
            ],
            Volatility::Stable,
        );
        Arc::new(ScalarUDF::new_from_impl(Self {
            name: name.into(),
            value,
            signature,
        }))
    }
}

impl ScalarUDFImpl for ConstantFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(
            &self.name,
            self.value.data_type(),
            self.value.is_null(),
        )))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}
