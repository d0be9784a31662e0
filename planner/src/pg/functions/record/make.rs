//! `ROW(...)`: a record of its arguments, which are called f1, f2 and so on; and one whose columns have names.

use crate::pg::types::{ARRAY_OID_KEY, OID_KEY};
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
/// The same of a composite type, whose oid and that of its arrays' type stand before them.
pub(crate) const COMPOSITE: &str = "\u{1}composite";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Row,
    Record,
    Composite,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Make {
    kind: Kind,
    signature: Signature,
}

fn make(kind: Kind) -> ScalarUDF {
    let any = TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]);
    ScalarUDF::new_from_impl(Make {
        kind,
        signature: Signature::new(any, Volatility::Immutable),
    })
}

pub(super) fn row() -> ScalarUDF {
    make(Kind::Row)
}

pub(super) fn record() -> ScalarUDF {
    make(Kind::Record)
}

pub(super) fn composite() -> ScalarUDF {
    make(Kind::Composite)
}

impl Make {
    /// The arguments that are values.
    fn values<'a, T>(&self, all: &'a [T]) -> impl Iterator<Item = &'a T> {
        let (first, step) = match self.kind {
            Kind::Row => (0, 1),
            Kind::Record => (1, 2),
            Kind::Composite => (3, 2),
        };
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
        match self.kind {
            Kind::Row => "row",
            Kind::Record => RECORD,
            Kind::Composite => COMPOSITE,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("a record's type depends on its columns' names")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let written = |at: usize| {
            let name = args.scalar_arguments[at].and_then(|name| name.try_as_str().flatten());
            name.unwrap_or_default().to_string()
        };
        let name = |at: usize| match self.kind {
            Kind::Row => format!("f{}", at + 1),
            Kind::Record => written(2 * at),
            Kind::Composite => written(2 * at + 2),
        };
        let fields = self.values(args.arg_fields).enumerate().map(|(at, own)| {
            let field = Field::new(name(at), kept(own.data_type()), true);
            match own.data_type() {
                // Only a value itself says its composite type.
                DataType::Struct(_) => field,
                _ => field.with_metadata(own.metadata().clone()),
            }
        });
        let fields: Fields = fields.collect();
        let oid = |at: usize| Some(args.scalar_arguments.get(at).copied()??.to_string());
        let own = [(OID_KEY, oid(0)), (ARRAY_OID_KEY, oid(1).filter(|oid| oid != "0"))];
        let own = own.into_iter().filter(|_| self.kind == Kind::Composite);
        let oids = own.filter_map(|(key, oid)| Some((key.to_string(), oid?)));
        let record = Field::new(self.name(), DataType::Struct(fields), false);
        Ok(Arc::new(record.with_metadata(oids.collect())))
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
