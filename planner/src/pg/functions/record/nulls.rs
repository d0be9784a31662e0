//! `r IS NULL` of a record: whether all of its columns are NULL; `r IS NOT NULL`: whether none is. And records that are NULL
//! where others are.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{is_not_null, is_null};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq, Hash)]
struct AllNull {
    signature: Signature,
}

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(AllNull {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

/// Whether a record's columns all are NULL, or all are not.
pub(crate) fn tested(record: Expr, null: bool) -> Expr {
    Arc::new(function()).call(vec![record, lit(null)])
}

impl ScalarUDFImpl for AllNull {
    fn name(&self) -> &str {
        "\u{1}all_null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ColumnarValue::Scalar(ScalarValue::Boolean(Some(null))) = args.args[1] else {
            return internal_err!("what is asked for is a literal");
        };
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let records = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let records = records.as_struct();
        let rows = records.len();
        let is_null = |array: &dyn Array| match array.nulls() {
            Some(nulls) => !nulls.inner(),
            None => BooleanBuffer::new_unset(rows),
        };
        let own = is_null(records);
        // A record that is NULL is as one of NULLs.
        let all = records
            .columns()
            .iter()
            .fold(BooleanBuffer::new_set(rows), |all, column: &ArrayRef| {
                let columns = is_null(column);
                &all & &(if null { columns } else { !&columns })
            });
        let all = if null { &own | &all } else { &!&own & &all };
        let all = BooleanArray::new(all, None);
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(all.value(0))))),
            false => Ok(ColumnarValue::Array(Arc::new(all))),
        }
    }
}

/// What asks whether a value is NULL itself, or (false) is not, be it a record or not: of the columns of a row.
pub(crate) const ITSELF_NULL: &str = "\u{1}itself_null";

#[derive(Debug, PartialEq, Eq, Hash)]
struct ItselfNull {
    signature: Signature,
}

pub(super) fn itself() -> ScalarUDF {
    ScalarUDF::new_from_impl(ItselfNull {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

/// What is asked for by a call of that function, and whether for NULL.
pub(crate) fn asked_itself(expr: &Expr) -> Option<(&Expr, bool)> {
    match expr {
        Expr::ScalarFunction(call) if call.name() == ITSELF_NULL => match call.args.as_slice() {
            [of, Expr::Literal(ScalarValue::Boolean(Some(null)), _)] => Some((of, *null)),
            _ => None,
        },
        _ => None,
    }
}

impl ScalarUDFImpl for ItselfNull {
    fn name(&self) -> &str {
        ITSELF_NULL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ColumnarValue::Scalar(ScalarValue::Boolean(Some(null))) = args.args[1] else {
            return internal_err!("what is asked for is a literal");
        };
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(ScalarValue::Boolean(Some(value.is_null() == null))),
            ColumnarValue::Array(values) => ColumnarValue::Array(Arc::new(match null {
                true => is_null(values)?,
                false => is_not_null(values)?,
            })),
        })
    }
}

/// The first record, NULL where the second is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NullWhere {
    signature: Signature,
}

pub(crate) fn null_where(made: Expr, of: Expr) -> Expr {
    let function = NullWhere {
        signature: Signature::any(2, Volatility::Immutable),
    };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![made, of])
}

impl ScalarUDFImpl for NullWhere {
    fn name(&self) -> &str {
        "\u{1}null_where"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(args.arg_fields[0].as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let (made, of) = (args.args[0].to_array(rows)?, args.args[1].to_array(rows)?);
        let (fields, columns, _) = made.as_struct().clone().into_parts();
        let nulls = of.nulls().cloned();
        let record = match columns.is_empty() {
            true => StructArray::new_empty_fields(rows, nulls),
            false => StructArray::try_new(fields, columns, nulls)?,
        };
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&record, 0)?)),
            false => Ok(ColumnarValue::Array(Arc::new(record))),
        }
    }
}
