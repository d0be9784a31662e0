//! Sets that functions of json and of text give: the items of the array that a scalar function makes of the arguments.

use super::misc::Slices;
use super::{SetFunction, SetRows};
use crate::pg::bounds;
use crate::pg::conventions::SessionConventions;
use crate::pg::functions::{array, json};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF};
use std::sync::Arc;
use tenon_storage::SqlType;
use tenon_storage::datetime::Conventions;

#[derive(Debug)]
struct OfArray {
    array: Arc<ScalarUDF>,
}

/// The functions, as sets.
pub(super) fn functions() -> Vec<ScalarUDF> {
    let of_array = |array: ScalarUDF| super::udf(OfArray { array: Arc::new(array) });
    json::sets().into_iter().chain(array::sets()).map(of_array).collect()
}

impl OfArray {
    fn list(&self, args: &[FieldRef]) -> Result<FieldRef> {
        let constants = vec![None; args.len()];
        self.array.return_field_from_args(ReturnFieldArgs {
            arg_fields: args,
            scalar_arguments: &constants,
        })
    }
}

impl SetFunction for OfArray {
    /// A separator that is NULL means something.
    fn is_strict(&self) -> bool {
        self.name() != "string_to_table"
    }

    fn name(&self) -> &str {
        self.array.name()
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.array.coerce_types(types)
    }

    fn field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        let list = self.list(args)?;
        let DataType::List(item) = list.data_type() else {
            return internal_err!("{} gives no array", self.name());
        };
        let json = |name: &str| SqlType::Json.field(name, true);
        Ok(Arc::new(match (self.name(), item.data_type()) {
            ("json_array_elements", _) => json(self.name()),
            ("json_each", DataType::Struct(fields)) => {
                let fields = vec![fields[0].as_ref().clone(), json("value")];
                Field::new(self.name(), DataType::Struct(fields.into()), true)
            }
            (name, of) => Field::new(name, of.clone(), true),
        }))
    }

    fn rows(&self, args: &[ArrayRef], row: usize) -> Result<Box<dyn SetRows>> {
        self.rows_by(args, row, &Conventions::default())
    }

    fn rows_by(&self, args: &[ArrayRef], row: usize, by: &Conventions) -> Result<Box<dyn SetRows>> {
        let mut options = ConfigOptions::default();
        options.extensions.insert(SessionConventions(Arc::new(by.clone())));
        let fields: Vec<FieldRef> = args
            .iter()
            .map(|array| Arc::new(Field::new("", array.data_type().clone(), true)))
            .collect();
        let declared = self.field(&fields)?;
        let (args, returns): (Vec<_>, _) = (
            args.iter()
                .map(|array| ColumnarValue::Array(array.slice(row, 1)))
                .collect(),
            self.list(&fields)?,
        );
        bounds::ask(self.name(), &args, returns.data_type())?;
        let list = self.array.invoke_with_args(ScalarFunctionArgs {
            args,
            return_field: returns,
            arg_fields: fields,
            number_rows: 1,
            config_options: Arc::new(options),
        })?;
        let list = list.into_array(1)?;
        let list = list.as_list::<i32>();
        let items = match list.is_valid(0) {
            true => list.value(0),
            false => list.values().slice(0, 0),
        };
        // A pair's value may be declared json, which its own array does not say.
        Ok(Box::new(Slices(match declared.data_type() {
            DataType::Struct(fields) => {
                let record = items.as_struct();
                let columns = record.columns().to_vec();
                Arc::new(StructArray::try_new(fields.clone(), columns, record.nulls().cloned())?)
            }
            _ => items,
        })))
    }
}
