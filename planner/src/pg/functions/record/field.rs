//! `(r).column`

use crate::pg::error::{SqlError, SqlState, state};
use crate::pg::errors::to_datafusion;
use crate::pg::functions::array::type_name;
use crate::pg::parse::ALL_COLUMNS;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray};
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;
use tenon_storage::SqlType;

/// The column of a record that a literal names. A name that no client can write.
pub(crate) const FIELD: &str = "\u{1}field";

#[derive(Debug, PartialEq, Eq, Hash)]
struct FieldOf {
    signature: Signature,
}

pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(FieldOf {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

/// Where a record has the column.
fn position(fields: &Fields, name: &str) -> Option<usize> {
    let named = fields.iter().position(|field| field.name() == name);
    // The columns of records that DataFusion makes are called c0, c1 and so on.
    named.or_else(|| {
        let at = name.strip_prefix('f')?.parse::<usize>().ok()?.checked_sub(1)?;
        fields.get(at).filter(|own| *own.name() == format!("c{at}")).map(|_| at)
    })
}

/// A column of records; NULL where the record is.
pub(super) fn column(records: &StructArray, at: usize) -> Result<ArrayRef> {
    let column = records.column(at);
    match records.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            let absent = BooleanArray::new(!nulls.inner(), None);
            Ok(nullif(column, &absent)?)
        }
        _ => Ok(column.clone()),
    }
}

fn failed<T>(state: SqlState, message: String) -> Result<T> {
    Err(to_datafusion(SqlError::new(state, message)))
}

impl ScalarUDFImpl for FieldOf {
    fn name(&self) -> &str {
        FIELD
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("a column's type depends on its name")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let name = args.scalar_arguments[1].and_then(|name| name.try_as_str().flatten());
        let name = name.unwrap_or_default();
        if name == ALL_COLUMNS {
            return Err(to_datafusion(SqlError::unsupported(
                "(record).* of a record whose type the text does not say",
            )));
        }
        let own = args.arg_fields[0].data_type();
        let DataType::Struct(fields) = own else {
            let shown = type_name(own);
            let message = format!("column notation .{name} applied to type {shown}, which is not a composite type");
            return failed(state::WRONG_OBJECT_TYPE, message);
        };
        match position(fields, name) {
            Some(at) => Ok(Arc::new(match SqlType::from_field(&args.arg_fields[0]) {
                Some(SqlType::Composite(of)) => of.attributes()[at].sql_type.field(name, true),
                _ => fields[at].as_ref().clone().with_nullable(true),
            })),
            None => {
                let message = format!("could not identify column \"{name}\" in record data type");
                failed(state::UNDEFINED_COLUMN, message)
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let name = match &args.args[1] {
            ColumnarValue::Scalar(name) => name.try_as_str().flatten().unwrap_or_default().to_string(),
            ColumnarValue::Array(_) => return internal_err!("a column's name is a literal"),
        };
        let records = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let records = records.as_struct();
        let Some(at) = position(records.fields(), &name) else {
            return internal_err!("a record lost its column");
        };
        let column = column(records, at)?;
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&column, 0)?)),
            false => Ok(ColumnarValue::Array(column)),
        }
    }
}
