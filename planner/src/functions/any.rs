//! `x = ANY (array)`, with PostgreSQL's NULL rules. The array may come as text (`'{1,2}'`), as drivers send it.

use datafusion::arrow::array::{Array, AsArray, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

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
            let items = list.value(row);
            let items = if items.data_type() == element.data_type() {
                items
            } else {
                cast(&items, element.data_type())?
            };
            let one = datafusion::arrow::array::Scalar::new(element.slice(row, 1));
            let equal: BooleanArray = cmp::eq(&items, &one)?;
            Ok(match equal.true_count() {
                0 if equal.null_count() > 0 => None,
                count => Some(count > 0),
            })
        });
        Ok(ColumnarValue::Array(Arc::new(found.collect::<Result<BooleanArray>>()?)))
    }
}
