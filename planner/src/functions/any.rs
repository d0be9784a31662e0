//! `x = ANY (array)`, with PostgreSQL's NULL rules. The array may come as text (`'{1,2}'`), as drivers send it.

use crate::errors::to_datafusion;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;
use tenon_storage::numeric::column::to_numeric;
use tenon_storage::numeric::compare_key;
use tenon_storage::types::NUMERIC;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AnyEqual {
    signature: Signature,
}

impl AnyEqual {
    pub(super) fn udf() -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            signature: Signature::user_defined(Volatility::Immutable),
        })
    }
}

/// Items and an element in one type: numerics, if any, by their keys.
fn alike(items: &ArrayRef, element: &ArrayRef) -> Result<(ArrayRef, ArrayRef)> {
    if [items, element].iter().any(|array| *array.data_type() == NUMERIC) {
        let keys = |array: &ArrayRef| -> Result<ArrayRef> {
            let numerics = to_numeric(array).map_err(|error| to_datafusion(error.into()))?;
            let numerics = numerics.as_binary::<i64>().iter();
            Ok(Arc::new(BinaryArray::from_iter(
                numerics.map(|value| value.map(compare_key)),
            )))
        };
        return Ok((keys(items)?, keys(element)?));
    }
    Ok(match items.data_type() == element.data_type() {
        true => (items.clone(), element.clone()),
        false => (cast(items, element.data_type())?, element.clone()),
    })
}

impl ScalarUDFImpl for AnyEqual {
    fn name(&self) -> &str {
        "tenon_any_equal"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [element, array] = types else {
            return plan_err!("= ANY takes two operands");
        };
        Ok(vec![element.clone(), array.clone()])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let element = args.args[0].to_array(rows)?;
        let array = args.args[1].to_array(rows)?;
        let list = match array.data_type() {
            DataType::List(_) => array,
            DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => {
                super::array::list_of_text(&array, tenon_storage::SqlType::Text)?
            }
            DataType::Null => return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None))),
            DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                cast(&array, &DataType::List(item.clone()))?
            }
            other => return plan_err!("op ANY/ALL (array) requires array on right side, not {other}"),
        };
        let list = list.as_list::<i32>();
        let found = (0..rows).map(|row| -> Result<Option<bool>> {
            if list.is_null(row) || element.is_null(row) {
                return Ok(None);
            }
            let (items, one) = alike(&list.value(row), &element.slice(row, 1))?;
            let one = datafusion::arrow::array::Scalar::new(one);
            let equal: BooleanArray = cmp::eq(&items, &one)?;
            Ok(match equal.true_count() {
                0 if equal.null_count() > 0 => None,
                count => Some(count > 0),
            })
        });
        Ok(ColumnarValue::Array(Arc::new(found.collect::<Result<BooleanArray>>()?)))
    }
}
