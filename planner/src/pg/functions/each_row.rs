//! A constant that the planner does not take for one. A function of constants alone is constant to DataFusion, volatile or
//! not, and a sort by it is left out: `nextval('s')` must not look like that.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The literal as a function without arguments; another expression as it is.
pub(super) fn of(literal: Expr) -> Expr {
    let Expr::Literal(value, _) = literal else {
        return literal;
    };
    let function = ScalarUDF::new_from_impl(EachRow {
        value,
        signature: Signature::nullary(Volatility::Volatile),
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(function.into(), vec![]))
}

/// The constant that a function stands for.
pub(crate) fn value(function: &ScalarUDF) -> Option<&ScalarValue> {
    let each_row: &EachRow = function.inner().downcast_ref()?;
    Some(&each_row.value)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct EachRow {
    value: ScalarValue,
    signature: Signature,
}

impl ScalarUDFImpl for EachRow {
    fn name(&self) -> &str {
        "tenon_each_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(Expr::Literal(self.value.clone(), None).schema_name().to_string())
    }

    fn display_name(&self, _: &[Expr]) -> Result<String> {
        Ok(Expr::Literal(self.value.clone(), None).to_string())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}
