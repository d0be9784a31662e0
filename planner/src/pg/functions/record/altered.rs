//! Values of a composite type, or of arrays of it, as they are after ALTER TYPE.

use crate::pg::error::SqlError;
use crate::pg::errors::to_datafusion;
use crate::pg::rewrite::call;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{Expr, Value};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::composite_type::altered;

/// A value, and the types from and to which it goes, as a store writes them. A name that no client can write.
const ALTERED: &str = "\u{1}altered";

/// A value of a type as one of the type that ALTER TYPE has made of it.
pub(crate) fn as_altered(value: Expr, from: SqlType, to: SqlType) -> crate::pg::error::Result<Expr> {
    let text = |of: &SqlType| match serde_json::to_string(of) {
        Ok(text) => Ok(Expr::Value(Value::SingleQuotedString(text).into())),
        Err(error) => Err(SqlError::internal(error)),
    };
    Ok(call(ALTERED, vec![value, text(&from)?, text(&to)?]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Altered {
    signature: Signature,
}

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Altered {
        signature: Signature::any(3, Volatility::Immutable),
    })
}

fn read(text: Option<&str>) -> Result<SqlType> {
    match text.and_then(|text| serde_json::from_str(text).ok()) {
        Some(of) => Ok(of),
        None => internal_err!("a type is no type"),
    }
}

impl ScalarUDFImpl for Altered {
    fn name(&self) -> &str {
        ALTERED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of what was altered stands in an argument")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let to = args.scalar_arguments[2].and_then(|text| text.try_as_str().flatten());
        Ok(Arc::new(read(to)?.field(ALTERED, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = |at: usize| match &args.args[at] {
            ColumnarValue::Scalar(text) => read(text.try_as_str().flatten()),
            ColumnarValue::Array(_) => internal_err!("a type is a literal"),
        };
        let values = args.args[0].to_array(args.number_rows)?;
        let values = altered(&values, of(1)?, of(2)?).map_err(|error| to_datafusion(error.into()))?;
        Ok(ColumnarValue::Array(values))
    }
}
