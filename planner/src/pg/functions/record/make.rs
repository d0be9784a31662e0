//! `ROW(...)`: a record of its arguments, which are called f1, f2 and so on; and one whose columns have names.

use datafusion::arrow::array::{ArrayRef, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::sync::Arc;

/// A record of names and values in turn. A name that no client can write.
pub(crate) const RECORD: &str = "\u{1}record";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Make {
    named: bool,
    signature: Signature,
}

fn make(named: bool) -> ScalarUDF {
    let any = TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]);
    ScalarUDF::new_from_impl(Make {
        named,
        signature: Signature::new(any, Volatility::Immutable),
    })
}

pub(super) fn row() -> ScalarUDF {
    make(false)
}

pub(super) fn record() -> ScalarUDF {
    make(true)
}

impl Make {
    /// The arguments that are values.
    fn values<'a, T>(&self, all: &'a [T]) -> impl Iterator<Item = &'a T> {
        let (first, step) = if self.named { (1, 2) } else { (0, 1) };
        all.iter().skip(first).step_by(step)
    }
}

/// A literal's type is not known: it is text where nothing gives it another.
fn kept(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::Null => DataType::Utf8View,
        other => other.clone(),
    }
}

impl ScalarUDFImpl for Make {
    fn name(&self) -> &str {
        if self.named { RECORD } else { "row" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("a record's type depends on its columns' names")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let name = |at: usize| match self.named {
            true => args.scalar_arguments[2 * at]
                .and_then(|name| name.try_as_str().flatten())
                .unwrap_or_default()
                .to_string(),
            false => format!("f{}", at + 1),
        };
        let fields = self
            .values(args.arg_fields)
            .enumerate()
            .map(|(at, own)| Field::new(name(at), kept(own.data_type()), true).with_metadata(own.metadata().clone()));
        let fields: Fields = fields.collect();
        Ok(Arc::new(Field::new(self.name(), DataType::Struct(fields), false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let DataType::Struct(fields) = args.return_field.data_type() else {
            return internal_err!("a record is a struct");
        };
        let columns = self.values(&args.args).zip(fields).map(|(value, field)| {
            let array = value.to_array(rows)?;
            match array.data_type() == field.data_type() {
                true => Ok(array),
                false => Ok(cast(&array, field.data_type())?),
            }
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let record = match columns.is_empty() {
            true => StructArray::new_empty_fields(rows, None),
            false => StructArray::try_new(fields.clone(), columns, None)?,
        };
        match scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::Struct(Arc::new(record)))),
            false => Ok(ColumnarValue::Array(Arc::new(record))),
        }
    }
}
