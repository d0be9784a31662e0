//! Sets of texts: what a function of one row gives as a list, as rows.

use super::list::items;
use super::misc::Slices;
use super::{SetFunction, SetRows};
use crate::pg::bounds;
use datafusion::arrow::array::{Array, ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use std::sync::{Arc, LazyLock};

/// The rows of the list that a function gives.
#[derive(Debug)]
pub(super) struct OfList(pub ScalarUDF);

static OPTIONS: LazyLock<Arc<ConfigOptions>> = LazyLock::new(|| Arc::new(ConfigOptions::default()));

impl OfList {
    fn item(&self, types: &[DataType]) -> Result<DataType> {
        match self.0.inner().return_type(types)? {
            DataType::List(item) => Ok(item.data_type().clone()),
            other => internal_err!("{} gives {other}, which is no list", self.0.name()),
        }
    }
}

impl SetFunction for OfList {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = args.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.item(&types)?, true)))
    }

    /// The function knows what a NULL means.
    fn is_strict(&self) -> bool {
        false
    }

    fn rows(&self, args: &[ArrayRef], row: usize) -> Result<Box<dyn SetRows>> {
        let field = |array: &ArrayRef| Arc::new(Field::new("", array.data_type().clone(), true));
        let types: Vec<DataType> = args.iter().map(|array| array.data_type().clone()).collect();
        let returns = self.0.inner().return_type(&types)?;
        let values: Vec<_> = args
            .iter()
            .map(|array| ColumnarValue::Array(array.slice(row, 1)))
            .collect();
        bounds::ask(self.name(), &values, &returns)?;
        let list = self.0.invoke_with_args(ScalarFunctionArgs {
            args: values,
            arg_fields: args.iter().map(field).collect(),
            number_rows: 1,
            return_field: Arc::new(Field::new(self.name(), returns, true)),
            config_options: OPTIONS.clone(),
        })?;
        let list = list.to_array(1)?;
        Ok(Box::new(Slices(match list.is_null(0) {
            true => new_empty_array(&self.item(&types)?),
            false => items(&list, 0),
        })))
    }
}
